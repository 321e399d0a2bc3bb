"""`mooring doctor`: everything that commonly goes wrong, each with its remedy."""

import click

from mooring.cli.servers.commands import as_json, examples

__all__ = ["doctor"]


@click.command(
    short_help="Look for what commonly goes wrong.",
    epilog=examples("mooring doctor", "mooring doctor --json")
    + "\n\b\nExit status:\n  0  nothing is broken\n  1  something is, and is told with its remedy\n",
)
@as_json
def doctor(as_json: bool) -> int:
    """Look for what commonly goes wrong, and say what to do about it. Nothing is changed.

    The state directory, the disk, the clock, the daemon and its version, the port, servers in trouble,
    processes left behind, programs that servers need, and the PATH of clients started from a desktop.
    """
    from mooring.cli.doctor import examining  # noqa: PLC0415 - heavy from here on

    return examining.examine(as_json=as_json)
