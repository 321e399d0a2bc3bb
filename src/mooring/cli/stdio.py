"""`mooring stdio`: a server of the daemon, or one at a URL, for clients that can only launch a command."""

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.names import KNOWN_SERVER
from mooring.cli.terminal.layout import SectionedCommand, log_options, section
from mooring.cli.values import Parsed, parse_limit
from mooring.cli.who import identity, who_options

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["stdio"]

ending = section("Stopping")

EXAMPLES = """\
\b
Examples:
  mooring stdio time
  mooring stdio http://127.0.0.1:4670/mcp
  mooring stdio --token-file ~/.config/token https://mcp.example/mcp
  mooring stdio --header-env X-Api-Key=MY_KEY https://mcp.example/mcp
  mooring stdio unix:/run/mooring.sock

\b
In the configuration of a client:
  {"command": "mooring", "args": ["stdio", "time"]}

\b
Exit status:
  0  the client has left, or stopped as asked
  2  wrong usage or configuration
  3  a call was cut off at the deadline of a shutdown
"""


@click.command(
    cls=SectionedCommand, epilog=EXAMPLES, short_help="Speak MCP on stdin and stdout for a server."
)
@click.argument("server", type=KNOWN_SERVER, metavar="NAME|URL")
@who_options
@ending(
    "--drain-timeout",
    type=Parsed("time|none", parse_limit),
    default="25s",
    show_default=True,
    help="After the end of stdin, or a signal, give calls so long to finish.",
)
@log_options
def stdio(**given: Any) -> int:
    """Speak MCP on stdin and stdout, for a server of the daemon or at a URL.

    For AI clients that can only launch a command. NAME is that of a server that `mooring ls`
    lists; the daemon is started if it does not run. URL is that of a Mooring endpoint, or of
    any MCP server that speaks Streamable HTTP: http, https, or unix:PATH. The client keeps its
    session when the server is restarted, forgets it, or cannot be reached for a while.
    """
    # Heavy from here on.
    from mooring.cli.terminal import output  # noqa: PLC0415

    with output.logs_on_stderr(given["log_format"], given["log_level"]) as log:
        from mooring.host import stdio as host  # noqa: PLC0415

        try:
            status: int = host.main(
                host.StdioOptions(
                    url=_url_of(given["server"], log),
                    drain_timeout_s=given["drain_timeout"],
                    **identity(given),
                )
            )
        except Exception as error:
            if given["log_format"] == "text":
                raise  # told like every other error
            return output.log_failure(log, error)
        return status


def _url_of(server: str, log: "Logger") -> str:
    """Where a server of the daemon is; a URL is one already."""
    if ":" in server:
        return server
    from mooring.cli.reach import reach  # noqa: PLC0415 - not for a URL

    known = reach(start=True).ask("GET", f"/servers/{server}")
    if known["desired"] == "stopped":
        log.warning("%s is stopped: calls wait for a while; mooring start %s", server, server)
    return str(known["url"])
