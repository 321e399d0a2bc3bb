"""The command, and what it takes."""

from typing import Any

import click

from mooring.cli.names import KnownName
from mooring.cli.servers.commands import as_json, examples
from mooring.cli.terminal.layout import SectionedCommand, log_options, section
from mooring.cli.values import Parsed, parse_duration, parse_name

__all__ = ["connect"]

# What it does is in `errands`, loaded when it runs: `mooring --help` must feel instant.

what = section("What is offered")
who = section("Who we are")
how = section("How it runs")


def _parse_server(text: str) -> str:
    """NAME, of one here; or, for --client, AGENT/NAME of one there."""
    return "/".join(map(parse_name, text.split("/", 1)))


@click.command(
    cls=SectionedCommand,
    short_help="Make servers here reachable through a relay.",
    epilog=examples(
        "MOORING_RELAY_TOKEN=… mooring connect wss://relay.example.com",
        "mooring connect wss://relay.example.com --token secret:relay --background",
        "mooring connect status",
        "mooring connect stop wss://relay.example.com",
    )
    + "\n\b\nExit status:\n"
    "  0  ended as asked\n"
    "  1  the relay cannot be used\n"
    "  2  wrong usage or configuration, or the relay refuses the token\n"
    "  3  a call was cut off at the deadline of a shutdown\n",
)
@click.argument("relay", metavar="WSS-URL|status|stop")
@click.argument("which", required=False, metavar="[WSS-URL]")
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
    type=click.IntRange(0, 65535),
    default=0,
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
def connect(relay: str, which: str | None, **given: Any) -> int:
    """Make servers of this machine reachable from anywhere, through a relay, without opening a port.

    Dials out to the relay and stays connected. Prints the URL of each server: any MCP client that can
    send a bearer header can use it. `status` tells how the connections are, `stop` ends one that the daemon
    holds.
    """
    from mooring.cli.connect import errands  # noqa: PLC0415

    if relay == "status":
        return errands.show_status(as_json=given["as_json"])
    if relay == "stop":
        return errands.stop(which)
    return errands.connect(relay, **given)
