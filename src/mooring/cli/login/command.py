"""The commands, and what they take."""

import click

from mooring.cli.names import SERVER_ELSEWHERE
from mooring.cli.servers.commands import as_json, examples
from mooring.cli.values import Parsed, parse_duration, parse_port

__all__ = ["login", "logout"]

# What they do is in `errands`, loaded when one runs: `mooring --help` must feel instant.

server = click.argument("server", type=SERVER_ELSEWHERE, metavar="NAME|URL")


@click.command(
    short_help="Log in to a server elsewhere.",
    epilog=examples(
        "mooring run linear --url https://mcp.example.com/mcp",
        "mooring login linear",
        "mooring login linear --no-browser",
        "mooring login corp --client-id mooring --client-secret secret:corp-oauth",
    ),
)
@server
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@click.option(
    "--client-id", metavar="ID", help="Who Mooring is there, if the server's operators have registered it."
)
@click.option(
    "--client-secret",
    metavar="REFERENCE",
    help="Where the secret that goes with it is: secret:NAME, keyring:NAME, file:PATH or env:NAME.",
)
@click.option(
    "--client-metadata",
    metavar="URL",
    help="The https address of a document about the client, in place of an id.",
)
@click.option(
    "--redirect-port",
    type=Parsed("port", parse_port),
    metavar="PORT",
    default="0",
    show_default="any",
    help="Wait for the browser on this port of 127.0.0.1, where it must be a certain one.",
)
@click.option(
    "--timeout",
    type=Parsed("time", parse_duration),
    metavar="TIME",
    default="5m",
    show_default=True,
    help="Wait so long for the browser.",
)
@as_json
def login(**given: object) -> int:
    """Log in to a server elsewhere that asks who its user is (OAuth).

    Opens the browser, or prints the address to open in one on this machine. What comes of it is kept
    in the system's keyring, or in a file that only you can read, sent to that server alone, and
    renewed by itself. It is for all servers with that URL, and every Mooring of yours.
    """
    from mooring.cli.login.errands import log_in  # noqa: PLC0415

    return log_in(**given)  # type: ignore[arg-type]


@click.command(
    short_help="Forget a login to a server elsewhere.",
    epilog=examples("mooring logout linear", "mooring logout https://mcp.example.com/mcp"),
)
@server
@as_json
def logout(server: str, as_json: bool) -> int:
    """Forget the login to a server elsewhere, and have its tokens revoked where that can be done."""
    from mooring.cli.login.errands import log_out  # noqa: PLC0415

    return log_out(server, as_json=as_json)
