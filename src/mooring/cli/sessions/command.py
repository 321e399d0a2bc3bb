"""`mooring sessions` and its commands."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mooring.cli.servers.commands import examples
from mooring.cli.terminal.layout import SectionedCommand, section
from mooring.cli.values import Parsed, parse_name

__all__ = ["parse_beginning", "sessions"]

# What they do is in `errands`, loaded when one runs: `mooring --help` must feel instant.

F = TypeVar("F", bound=Callable[..., Any])

BEGINNING = re.compile(r"[A-Za-z0-9_-]{1,200}")
DASHED = re.compile(r"-[A-Za-z0-9_][A-Za-z0-9_-]{6,}")
"""One id in 64 begins with a dash; no option here has one dash and so many letters."""

where = section("Where they are kept")
which = section("Which")
output = section("Output")


def parse_beginning(text: str) -> str:
    """Of the id of a session."""
    if not BEGINNING.fullmatch(text):
        raise ValueError("an id has letters, digits, - and _ only; its first characters will do")
    return text


class IdCommand(SectionedCommand):
    """A command that takes an id, which may begin with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Such an id is put where nobody takes it for an option."""
        end = args.index("--") if "--" in args else len(args)
        ids = [word for word in args[:end] if DASHED.fullmatch(word)]
        if ids:
            rest = [word for word in args[:end] if word not in ids]
            args = [*rest, "--", *ids, *args[end + 1 :]]
        return super().parse_args(ctx, args)


def of_the_store(command: F) -> F:
    """As `mooring run` takes them."""
    for option in reversed(
        (
            where(
                "--sessions",
                required=True,
                metavar="URL",
                help="The Redis or Valkey that the replicas were given: redis://HOST:PORT/DB; with TLS: "
                "rediss://; redis+sentinel://HOST,HOST/NAME; redis+cluster://HOST,HOST.",
            ),
            where(
                "--sessions-password",
                metavar="REF",
                help="Where its password is: file:PATH, env:NAME, secret:NAME or keyring:NAME.",
            ),
            where(
                "--sessions-prefix",
                metavar="TEXT",
                default="mooring",
                show_default=True,
                help="With what its keys begin.",
            ),
            where(
                "--sessions-ca",
                type=click.Path(exists=True, dir_okay=False, readable=True),
                metavar="PATH",
                help="Trust the authorities in this file (PEM) alone.",
            ),
            which(
                "--server",
                type=Parsed("name", parse_name),
                metavar="NAME",
                help="Only sessions of this server. By default those of all.",
            ),
        )
    ):
        command = option(command)
    return command


an_id = click.argument("id", type=Parsed("id", parse_beginning), metavar="ID")
long = output(
    "--long",
    is_flag=True,
    help="Show whole ids, and the names under which owners have their lease. An id is half a key: with it, "
    "and a token, one uses the session.",
)
as_json = output("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.group(
    short_help="Look at the sessions that replicas share.",
    epilog=examples("mooring sessions ls --sessions redis://redis:6379/0"),
)
def sessions() -> None:
    """Look at the sessions that replicas share in Redis, and end them: docs/scaling.md."""


@sessions.command(
    cls=SectionedCommand,
    short_help="List sessions, and whose they are.",
    epilog=examples(
        "mooring sessions ls --sessions redis://redis:6379/0",
        "mooring sessions ls --sessions rediss://redis.data:6379/0 \\",
        "  --sessions-password file:/run/redis/password --server search",
        "mooring sessions ls --sessions redis://redis:6379/0 --json | jq .host",
    ),
)
@of_the_store
@long
@output("--json", "as_json", is_flag=True, help="Print JSON, one object a line, for programs.")
def ls(**given: Any) -> int:
    """List sessions: of which server and client, which replica has each, and since when it is idle.

    They are printed as they are found, in no order if there are many; nobody waits for it in Redis. That
    a session was used is written down once a minute: so much longer than they are do they look idle.

    A terminal too narrow for all columns gets fewer of them.
    """
    from mooring.cli.sessions import errands  # noqa: PLC0415

    return errands.list_sessions(given)


@sessions.command(
    cls=IdCommand,
    short_help="Tell all that is known of a session.",
    epilog=examples("mooring sessions show 6GEnXT5H --sessions redis://redis:6379/0"),
)
@an_id
@of_the_store
@long
@as_json
def show(**given: Any) -> int:
    """Tell all that replicas know of a session: its owner, its client, and what is kept of its streams.

    ID is the beginning of its id, as much as no other begins with. What a client said of itself is shown as
    far as it can hold no secret.
    """
    from mooring.cli.sessions import errands  # noqa: PLC0415

    return errands.show_session(given)


@sessions.command(
    cls=IdCommand,
    short_help="End a session, at whichever replica it is.",
    epilog=examples(
        "mooring sessions end 6GEnXT5H --sessions redis://redis:6379/0",
        "mooring sessions end 6GEnXT5H --sessions redis://redis:6379/0 \\",
        "  --replica-key file:/run/mooring/replica-key",
    ),
)
@an_id
@of_the_store
@where(
    "--replica-key",
    metavar="REF",
    help="Where the key is with which replicas know each other, if they were given one.",
)
@as_json
def end(**given: Any) -> int:
    """End a session: its client gets 404 from every replica, and its process ends. Calls in flight are cut.

    Its owner is told at once, at the address that it advertises. One that cannot be reached from here
    hears of it from Redis, when it next writes down that the session was used.
    """
    from mooring.cli.sessions import errands  # noqa: PLC0415

    return errands.end_session(given)
