"""The commands that ask the daemon about its servers, or have it do something with them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mooring.cli.names import KNOWN_NAME

__all__ = ["as_json", "daemon", "examples", "ls", "restart", "rm", "start", "status", "stop"]

# What they do is in `showing` and `changing`, loaded when one runs: `mooring --help` must feel instant.

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
no_wait = click.option("--no-wait", is_flag=True, help="Return when it is certain that it will be done.")
names = click.argument("names", nargs=-1, type=KNOWN_NAME, metavar="NAME...")
every = click.option("--all", "every", is_flag=True, help="All servers.")


def examples(*lines: str) -> str:
    """What stands at the end of a help page."""
    return "\b\nExamples:\n" + "".join(f"  {line}\n" for line in lines)


def changing(command: F) -> F:
    """What all commands take that change servers."""
    return names(every(no_wait(as_json(command))))


@click.command(
    short_help="List the servers.", epilog=examples("mooring ls", "mooring ls --watch", "mooring ls --json")
)
@as_json
@click.option("--watch", is_flag=True, help="Show the list again every second, until Ctrl-C.")
def ls(as_json: bool, watch: bool) -> None:
    """List all servers, with their state and URL.

    A terminal too narrow for all columns gets fewer of them.
    """
    from mooring.cli.servers import showing  # noqa: PLC0415

    showing.list_servers(as_json=as_json, watch=watch)


@click.command(
    short_help="Tell all that is known of a server.",
    epilog=examples("mooring status time", "mooring status time --json"),
)
@click.argument("name", type=KNOWN_NAME)
@as_json
def status(name: str, as_json: bool) -> None:
    """Tell how a server is, and why: its state, processes, exits, and if it has failed its last words."""
    from mooring.cli.servers import showing  # noqa: PLC0415

    showing.show_server(name, as_json=as_json)


def _each(what: str, names: tuple[str, ...], every: bool, no_wait: bool, as_json: bool) -> int:
    from mooring.cli.servers import changing as doing  # noqa: PLC0415

    return doing.change_each(doing.CHANGES[what], names, every=every, wait=not no_wait, as_json=as_json)


@click.command(
    short_help="Have servers not run.",
    epilog=examples("mooring stop time", "mooring stop time git", "mooring stop --all"),
)
@changing
def stop(**given: Any) -> int:
    """Stop servers, after their calls in flight. They stay known, and stopped, until they are started."""
    return _each("stop", **given)


@click.command(
    short_help="Have servers run, now.", epilog=examples("mooring start time", "mooring start --all")
)
@changing
def start(**given: Any) -> int:
    """Start servers that were stopped, and wait until they are ready.

    One that waits to be restarted, or was given up, is started at once.
    """
    return _each("start", **given)


@click.command(
    short_help="Stop servers and start them again.",
    epilog=examples("mooring restart time", "mooring restart --all --no-wait"),
)
@changing
def restart(**given: Any) -> int:
    """Restart servers, and wait until they are ready. Their clients keep their sessions.

    --all leaves out those that were stopped.
    """
    return _each("restart", **given)


@click.command(short_help="Forget servers.", epilog=examples("mooring rm time", "mooring rm time git"))
@changing
def rm(**given: Any) -> int:
    """Stop servers and forget them, their sessions, their logs and their history.

    Their entries in the files of AI clients go, too.
    """
    return _each("rm", **given)


@click.group(
    short_help="The daemon itself.",
    epilog=examples("mooring daemon start", "mooring daemon restart", "mooring daemon stop"),
)
def daemon() -> None:
    """The process that runs all servers. run, start, restart and stdio start it if it does not run."""


@daemon.command(
    "start", short_help="Have it run.", epilog=examples("mooring daemon start", "mooring daemon start --json")
)
@as_json
def daemon_start(as_json: bool) -> None:
    """Start the daemon if it does not run, and with it the servers that should run.

    After a reboot, say. Servers that were stopped stay so.
    """
    from mooring.cli.servers import showing  # noqa: PLC0415

    showing.show_daemon(as_json=as_json, start=True)


@daemon.command(
    "status",
    short_help="Does it run?",
    epilog=examples("mooring daemon status", "mooring daemon status --json"),
)
@as_json
def daemon_status(as_json: bool) -> None:
    """Tell whether the daemon runs, and where."""
    from mooring.cli.servers import showing  # noqa: PLC0415

    showing.show_daemon(as_json=as_json)


@daemon.command(
    "restart",
    short_help="Put a new one in its place, without loss.",
    epilog=examples("mooring daemon restart", "git pull && pip install . && mooring daemon restart"),
)
def daemon_restart() -> int:
    """Start a daemon of this version, and have the one that runs hand everything over to it.

    No connection is refused or closed, no call is lost, sessions go on with the same processes. If the new
    one does not come up, the old one goes on.
    """
    from mooring.cli.servers import replacing  # noqa: PLC0415

    return replacing.restart_daemon()


@daemon.command(
    "stop", short_help="End it.", epilog=examples("mooring daemon stop", "mooring daemon stop --no-wait")
)
@no_wait
def daemon_stop(no_wait: bool) -> int:
    """End the daemon, after the calls in flight. Its servers come back with the next one."""
    from mooring.cli.servers import changing  # noqa: PLC0415

    return changing.end_daemon(wait=not no_wait)
