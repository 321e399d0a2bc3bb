"""`mooring serve`: the daemon, in the foreground."""

import os
from typing import Any

import click

from mooring.cli.terminal.layout import SectionedCommand, log_options, section
from mooring.cli.values import Parsed, parse_limit

__all__ = ["serve"]


EXAMPLES = """\
\b
Examples:
  mooring serve
  MOORING_PORT=4680 mooring serve --log-format json

\b
Exit status:
  0  stopped as asked
  1  the port or the state cannot be used
  2  wrong usage or configuration
  3  a call was cut off at the deadline of a shutdown
"""


@click.command(cls=SectionedCommand, short_help="Run the daemon in the foreground.", epilog=EXAMPLES)
@click.option("--detached", is_flag=True, hidden=True)
@click.option("--take-over", is_flag=True, hidden=True)
@section("Stopping")(
    "--drain-timeout",
    type=Parsed("time|none", parse_limit),
    default="25s",
    show_default=True,
    help="After a signal, give calls and the stopping of servers so long.",
)
@log_options
def serve(**given: Any) -> int:
    """Run the daemon in the foreground: for systemd, a container, or to see what it does.

    run, start, restart and stdio start it by themselves if it does not run. It serves all servers at
    http://127.0.0.1:4670/NAME/mcp, or on the port that MOORING_PORT says, and keeps its state in
    MOORING_STATE_DIR.
    """
    from mooring.cli.terminal import output  # noqa: PLC0415 - heavy from here on

    with output.logs_on_stderr(given["log_format"], given["log_level"]) as log:
        from mooring.host import daemon  # noqa: PLC0415
        from mooring.host.manager import tell_manager  # noqa: PLC0415
        from mooring.host.ownership import AlreadyOwned  # noqa: PLC0415
        from mooring.host.places import find_places  # noqa: PLC0415

        options = daemon.DaemonOptions(
            places=find_places(os.environ),
            take_over=given["take_over"],
            drain_timeout_s=given["drain_timeout"],
        )
        try:
            status: int = daemon.main(options)
        except AlreadyOwned:
            if not given["detached"]:
                raise
            # Somebody else was quicker: there is a daemon, which is what was wanted.
            tell_manager("READY=1", "STATUS=Another daemon has the state directory, and goes on.")
            return 0
        except Exception as error:
            if given["log_format"] == "text":
                raise
            return output.log_failure(log, error)
        return status
