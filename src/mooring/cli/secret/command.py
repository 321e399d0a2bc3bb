"""`mooring secret`: values that servers need and nobody should read."""

from typing import TYPE_CHECKING

import click

from mooring.cli.servers.commands import as_json, examples

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["secret"]

# What the commands do is in `keeping`, loaded when one runs: `mooring --help` must feel instant.


class SecretName(click.ParamType[str]):
    """Checked; completed with the names that there are."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. What cannot be one is not repeated: it may be the value."""
        from mooring.secrets.references import SECRET_NAME_RULE, is_secret_name  # noqa: PLC0415

        if not is_secret_name(value):
            self.fail(f"that cannot be the name of a secret; use {SECRET_NAME_RULE}", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Those that begin so."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks

        from mooring.cli.secret.keeping import known_names  # noqa: PLC0415

        return [CompletionItem(name) for name in known_names() if name.startswith(incomplete)]


VALUES = """\
\b
A value is text, or says where the value is:
  secret:NAME     a secret kept by mooring secret set
  keyring:NAME    an entry of the system's keyring, of the service mooring
  file:PATH       what is in a file, without the line end at its end
  env:NAME        a variable of the daemon's; of your own with --foreground
  'a {secret:NAME} b'   any of these in braces, inside a text
  literal:TEXT    just TEXT: for one that begins like the above

"""

name = click.argument("name", type=SecretName())


@click.group(
    short_help="Values that servers need and nobody should read.",
    epilog=VALUES
    + examples(
        "mooring secret set linear",
        "mooring run linear --env LINEAR_API_KEY=secret:linear -- npx linear-mcp",
        "mooring secret ls",
    ),
)
def secret() -> None:
    """Keep values that servers need and nobody should read: tokens, keys, passwords.

    A server is given one by name, as in --env KEY=secret:NAME, and gets the value when one of its
    processes starts. The value stands in no definition, log or argument.
    """


@secret.command(
    "set",
    short_help="Keep a value.",
    epilog=examples(
        "mooring secret set linear",
        "mooring secret set --keyring linear",
        "pass linear | mooring secret set linear",
    ),
)
@name
@click.argument("value", nargs=-1, type=click.UNPROCESSED, metavar="")
@click.option(
    "--keyring", "in_keyring", is_flag=True, help="Keep it in the keyring of the system, not in a file."
)
def set_(name: str, value: tuple[str, ...], in_keyring: bool) -> None:
    """Keep a value under NAME, in place of the one before.

    It is asked for on a terminal, without showing it, and read from stdin elsewhere. It is kept in a
    file that only you can read, in Mooring's state directory; with --keyring, and from then on, in the
    keyring of the system.
    """
    if value:
        raise click.UsageError(
            "a value on the command line could be read by others: it is asked for, or read from stdin"
        )
    from mooring.cli.secret import keeping  # noqa: PLC0415

    keeping.set_secret(name, in_keyring=in_keyring)


@secret.command(
    "ls", short_help="List the secrets.", epilog=examples("mooring secret ls", "mooring secret ls --json")
)
@as_json
def ls(as_json: bool) -> None:
    """List the names of secrets, where each is kept, since when, and which servers use it. Never a value."""
    from mooring.cli.secret import keeping  # noqa: PLC0415

    keeping.list_secrets(as_json=as_json)


@secret.command(
    "rm",
    short_help="Forget a secret.",
    epilog=examples("mooring secret rm linear", "mooring secret rm --force linear"),
)
@name
@click.option("--force", is_flag=True, help="Also if a server uses it, which then cannot start.")
def rm(name: str, force: bool) -> None:
    """Forget a secret. One that a server uses is kept, unless --force is given."""
    from mooring.cli.secret import keeping  # noqa: PLC0415

    keeping.remove_secret(name, force=force)
