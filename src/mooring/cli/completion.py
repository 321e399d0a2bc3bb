"""`mooring completion`: what a shell needs to complete our commands and options."""

import click

__all__ = ["completion"]

EXAMPLES = """\
\b
To have it in every new shell:
  bash   echo 'eval "$(mooring completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(mooring completion zsh)"' >> ~/.zshrc
  fish   mooring completion fish > ~/.config/fish/completions/mooring.fish
In zsh, `autoload -U compinit && compinit` must come before it.
"""


class Shell(click.Choice[str]):
    """A shell that click can write a script for."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The shell; wrong usage if it is another."""
        if value not in self.choices:
            raise click.UsageError(f"no script for {value!r}; there is one for bash, zsh and fish", ctx)
        return value


@click.command(epilog=EXAMPLES, short_help="Print a completion script for bash, zsh or fish.")
@click.argument("shell", type=Shell(["bash", "zsh", "fish"]), metavar="{bash|zsh|fish}", required=False)
def completion(shell: str | None) -> None:
    """Print the script that makes a shell complete commands and options."""
    if shell is None:
        raise click.UsageError("which shell? bash, zsh or fish")
    from click.shell_completion import ShellComplete, get_completion_class  # noqa: PLC0415 - rarely needed

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    root = click.get_current_context().find_root().command
    # Not kind.source(): for bash that first starts a bash, to complain if it is old.
    script = ShellComplete.source(kind(root, {}, "mooring", "_MOORING_COMPLETE"))
    click.echo(script)
