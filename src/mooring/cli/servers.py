"""The commands that ask the daemon about its servers, or have it do something with them."""

import click

from mooring.cli.values import Parsed, parse_name

__all__ = ["COMMANDS"]

# What they do is in `asking`, which is loaded when one of them runs: `mooring --help` must feel instant.

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
NAME = Parsed("name", parse_name)
names = click.argument("names", nargs=-1, type=NAME, metavar="NAME...")
every = click.option("--all", "every", is_flag=True, help="All servers.")


@click.command(short_help="List the servers.")
@as_json
@click.option("--watch", is_flag=True, help="Show the list again every second, until Ctrl-C.")
def ls(as_json: bool, watch: bool) -> None:
    """List all servers, with their state and URL."""
    from mooring.cli import asking  # noqa: PLC0415

    asking.list_servers(as_json=as_json, watch=watch)


@click.command(short_help="Tell all that is known of a server.")
@click.argument("name", type=NAME)
@as_json
def status(name: str, as_json: bool) -> None:
    """Tell how a server is, and why."""
    from mooring.cli import asking  # noqa: PLC0415

    asking.show_server(name, as_json=as_json)


def _each(names: tuple[str, ...], every: bool, method: str, suffix: str, done: str) -> int:
    from mooring.cli import asking  # noqa: PLC0415

    return asking.do_to_each(names, every, method, suffix, done)


@click.command(short_help="Have servers not run.")
@names
@every
def stop(names: tuple[str, ...], every: bool) -> int:
    """Stop servers, after their calls in flight. They stay known, and stopped, until they are started."""
    return _each(names, every, "POST", "/stop", "has stopped")


@click.command(short_help="Have servers run, now.")
@names
@every
def start(names: tuple[str, ...], every: bool) -> int:
    """Start servers that were stopped; one that waits to be restarted is started at once."""
    return _each(names, every, "POST", "/start", "is started")


@click.command(short_help="Stop servers and start them again.")
@names
@every
def restart(names: tuple[str, ...], every: bool) -> int:
    """Restart servers. Their clients keep their sessions."""
    return _each(names, every, "POST", "/restart", "was restarted")


@click.command(short_help="Forget servers.")
@names
@every
def rm(names: tuple[str, ...], every: bool) -> int:
    """Stop servers and forget them, their sessions and their history."""
    return _each(names, every, "DELETE", "", "is removed")


@click.group(short_help="The daemon itself.")
def daemon() -> None:
    """The process that runs all servers. It is started when it is needed."""


@daemon.command("status", short_help="Does it run?")
@as_json
def daemon_status(as_json: bool) -> None:
    """Tell whether the daemon runs, and where."""
    from mooring.cli import asking  # noqa: PLC0415

    asking.show_daemon(as_json=as_json)


@daemon.command("stop", short_help="End it.")
def daemon_stop() -> None:
    """End the daemon, after the calls in flight. Its servers come back with the next one."""
    from mooring.cli import asking  # noqa: PLC0415

    asking.end_daemon()


COMMANDS = (ls, status, stop, start, restart, rm, daemon)
