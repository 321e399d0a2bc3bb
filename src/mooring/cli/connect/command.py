"""The command, and what it takes."""

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.names import KnownName
from mooring.cli.servers.commands import as_json, examples
from mooring.cli.terminal.layout import ParentCommand, log_options, section
from mooring.cli.values import Parsed, parse_duration, parse_name, parse_port

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["connect"]

# What it does is in `errands`, loaded when it runs: `mooring --help` must feel instant.

what = section("What is offered")
who = section("Who we are")
how = section("How it runs")


class _Address(click.Argument):
    """Of the relay; it is no part of the commands beside it."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Asked for by them too."""
        return super().get_usage_pieces(ctx) if isinstance(ctx.command, ConnectGroup) else []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands that can stand in its place: no shell knows the address of a relay."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks

        below = ctx.command.commands if isinstance(ctx.command, ConnectGroup) else {}
        return [
            CompletionItem(name, help=command.get_short_help_str())
            for name, command in below.items()
            if name.startswith(incomplete)
        ]


class ConnectGroup(ParentCommand):
    """A command that takes an address, or the name of a command below it as its first word."""

    allow_extra_args = False
    allow_interspersed_args = True

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Of the command that is meant."""
        if args and args[0] in self.commands:
            around = click.Context(self, info_name=info_name, parent=parent)
            return self.commands[args[0]].make_context(args[0], args[1:], parent=around, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Of the address."""
        return click.Command.collect_usage_pieces(self, ctx)


def _parse_server(text: str) -> str:
    """NAME, of one here; or, for --client, AGENT/NAME of one there."""
    return "/".join(map(parse_name, text.split("/", 1)))


@click.group(
    cls=ConnectGroup,
    invoke_without_command=True,
    short_help="Make servers here reachable through a relay.",
    epilog=examples(
        "MOORING_RELAY_TOKEN=… mooring connect wss://relay.example.com",
        "mooring connect wss://relay.example.com --token secret:relay --background",
        "mooring connect status",
        "mooring connect stop wss://relay.example.com",
    )
    + "\n\b\nExit status:\n"
    "  0  ended as asked\n"
    "  1  there is no relay at that address; with --background: not connected yet\n"
    "  2  wrong usage or configuration, or the relay refuses the token\n"
    "  3  a call was cut off at the deadline of a shutdown\n",
)
@click.argument("relay", cls=_Address, metavar="WSS-URL")
@what(
    "--server",
    "servers",
    type=KnownName("name", _parse_server),
    multiple=True,
    metavar="NAME",
    help="Offer this server, and no others but those named so. By default all that the token allows.",
)
@who(
    "--token",
    metavar="REFERENCE",
    help="Where the token is: secret:NAME, keyring:NAME, file:PATH or env:NAME. "
    "By default it is in MOORING_RELAY_TOKEN.",
)
@who("--token-file", type=click.Path(dir_okay=False), metavar="PATH", help="The same as --token file:PATH.")
@who(
    "--ca-file",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Trust the authority in this file for the relay's certificate (PEM).",
)
@who("--allow-plaintext", is_flag=True, help="Send the token without TLS where others can read it.")
@how("--background", is_flag=True, help="Let the daemon stay connected, now and whenever it runs.")
@how(
    "--client",
    "as_client",
    is_flag=True,
    help="Call servers there rather than offer ones here: --server AGENT/NAME is served at a port here.",
)
@how(
    "--port",
    type=Parsed("port", parse_port),
    default="0",
    show_default="any free one",
    metavar="PORT",
    help="With --client: the port of 127.0.0.1.",
)
@how(
    "--drain-timeout",
    type=Parsed("time", parse_duration),
    metavar="TIME",
    default="10s",
    show_default=True,
    help="After a signal, give calls so long to finish.",
)
@as_json
@log_options
def connect(relay: str, **given: Any) -> int:
    """Make servers of this machine reachable from anywhere, through a relay, without opening a port.

    Dials out to the relay and stays connected. Prints the URL of each server: any MCP client that can
    send a bearer header can use it. `status` tells how the connections are, `stop` ends one that the daemon
    holds.
    """
    if relay in connect.commands:
        raise click.UsageError(f"options of {relay} follow it: mooring connect {relay} …")
    from mooring.cli.connect import errands  # noqa: PLC0415

    return errands.connect(relay, **given)


@connect.command(
    short_help="Tell how the connections to relays are.",
    epilog=examples("mooring connect status", "mooring connect status --json"),
)
@as_json
def status(as_json: bool) -> int:
    """Tell how the connections to relays are, of this user's commands and of the daemon: since when, how far
    away the relay is, requests and reconnects; and what went wrong last.

    A terminal too narrow for all columns gets fewer of them: RECONNECTS goes first, then REQUESTS, then NAME.
    """
    from mooring.cli.connect import errands  # noqa: PLC0415

    return errands.show_status(as_json=as_json)


@connect.command(
    short_help="End a connection that the daemon holds.",
    epilog=examples("mooring connect stop", "mooring connect stop wss://relay.example.com"),
)
@click.argument("relay", required=False, metavar="[WSS-URL]")
def stop(relay: str | None) -> int:
    """Have the daemon be connected to a relay no more: calls under way finish, and the relay is told.

    WSS-URL is as `mooring connect status` shows it; it can be left out if there is but one.
    """
    from mooring.cli.connect import errands  # noqa: PLC0415

    return errands.stop(relay)
