"""`mooring stdio`: a server that is reached by a URL, for clients that can only launch a command."""

import os
from pathlib import Path
from typing import Any

import click

from mooring.cli.layout import SectionedCommand, log_options, section
from mooring.cli.values import Parsed, parse_header_source, parse_limit

__all__ = ["stdio"]

READABLE_FILE = click.Path(exists=True, dir_okay=False, readable=True)

who = section("Who we are to the server")
ending = section("Stopping")

EXAMPLES = """\
\b
Examples:
  mooring stdio http://127.0.0.1:4670/mcp
  mooring stdio --token-file ~/.config/token https://mcp.example/mcp
  mooring stdio --header-env X-Api-Key=MY_KEY https://mcp.example/mcp
  mooring stdio unix:/run/mooring.sock

\b
In the configuration of a client:
  {"command": "mooring", "args": ["stdio", "http://127.0.0.1:4670/mcp"]}

\b
Exit status:
  0  the client has left, or stopped as asked
  2  wrong usage or configuration
  3  a call was cut off at the deadline of a shutdown
"""


@click.command(
    cls=SectionedCommand, epilog=EXAMPLES, short_help="Speak MCP on stdin and stdout for a server at a URL."
)
@click.argument("url")
@who(
    "--token-file",
    type=READABLE_FILE,
    metavar="PATH",
    help="Send the token in this file as a bearer token. It is read again when the server refuses it.",
)
@who(
    "--header-env",
    multiple=True,
    type=Parsed("header=variable", parse_header_source),
    metavar="NAME=VARIABLE",
    help="Send the header NAME with the value of an environment variable. Repeatable.",
)
@who(
    "--ca-file",
    type=READABLE_FILE,
    metavar="PATH",
    help="Trust the authorities in this file (PEM), not those of the system.",
)
@ending(
    "--drain-timeout",
    type=Parsed("time|none", parse_limit),
    default="25s",
    show_default=True,
    help="After the end of stdin, or a signal, give calls so long to finish.",
)
@log_options
def stdio(**given: Any) -> int:
    """Speak MCP on stdin and stdout, for a server at URL.

    For AI clients that can only launch a command. URL is that of a Mooring endpoint, or of any
    MCP server that speaks Streamable HTTP: http, https, or unix:PATH. The client keeps its
    session when the server is restarted, forgets it, or cannot be reached for a while.
    """
    # Heavy from here on.
    from mooring.cli import output  # noqa: PLC0415

    with output.logs_on_stderr(given["log_format"], given["log_level"]) as log:
        from mooring.host import stdio as host  # noqa: PLC0415
        from mooring.host.credentials import headers_from  # noqa: PLC0415

        try:
            status: int = host.main(
                host.StdioOptions(
                    url=given["url"],
                    headers=headers_from(dict(given["header_env"]), os.environ),
                    token_file=Path(given["token_file"]) if given["token_file"] else None,
                    ca_file=Path(given["ca_file"]) if given["ca_file"] else None,
                    drain_timeout_s=given["drain_timeout"],
                )
            )
        except Exception as error:
            if given["log_format"] == "text":
                raise  # told like every other error
            return output.log_failure(log, error)
        return status
