"""`mooring events`: what happened to servers, and to the daemon."""

import click

from mooring.cli.names import KNOWN_NAME
from mooring.cli.values import Parsed, parse_duration

__all__ = ["events"]

EXAMPLES = """\
\b
Examples:
  mooring events
  mooring events --since 10m time
  mooring events -f --json

\b
What can happen:
  started, replaced    a generation of the server has begun
  ready                it works
  exited               a process ended, and nobody had asked it to
  backoff, failed      when it is tried again; why it is not
  stopped, removed     as it was asked for
  daemon_started, daemon_recovered (the one before was killed), daemon_ended
"""


@click.command(short_help="Tell what happened to servers.", epilog=EXAMPLES)
@click.argument("name", type=KNOWN_NAME, required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as more happens, until Ctrl-C.")
@click.option(
    "--since", type=Parsed("time", parse_duration), help="Only what happened so long ago, or later."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line, for programs.")
def events(name: str | None, follow: bool, since: float | None, as_json: bool) -> None:
    """Tell what happened to all servers, or to one. Times are UTC."""
    from mooring.cli.servers import following  # noqa: PLC0415 - heavy from here on

    following.show_events(name or "", follow=follow, since_s=since, as_json=as_json)
