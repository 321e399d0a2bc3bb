"""What the commands do that only look: ls, status, daemon status."""

import json
import os
import sys
import time
from shutil import get_terminal_size

import click

from mooring.api.client import NotRunning
from mooring.cli.reach import reach
from mooring.cli.servers.telling import Json, described, state_in_short
from mooring.cli.terminal.tables import age, fitted, size
from mooring.cli.terminal.words import RED, YELLOW, colourful, painted, printable
from mooring.errors import Unavailable

__all__ = ["list_servers", "show_daemon", "show_server"]

HEAD = ("NAME", "STATE", "UPTIME", "RESTARTS", "SESSIONS", "CALLS", "MEMORY", "URL")
EXPENDABLE = ("URL", "MEMORY", "CALLS", "RESTARTS", "SESSIONS", "UPTIME")
"""Columns that a narrow terminal does without, the first one first."""
COLOURS = {"failed": RED, "backoff": YELLOW}
UP = frozenset({"ready", "draining"})
WATCH_S = 1.0
HOME, CLEAR_TO_END_OF_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
EMPTY = "There are no servers. Add one: mooring run NAME -- COMMAND"


def list_servers(*, as_json: bool, watch: bool) -> None:
    """`mooring ls`."""
    client = reach()
    if not watch:
        servers = client.ask("GET", "/servers")
        click.echo(
            json.dumps(servers, indent=2) if as_json else "\n".join(_with_url(_table(servers), servers))
        )
        return
    try:
        while True:
            try:
                servers = client.ask("GET", "/servers")
            except (NotRunning, Unavailable) as error:  # perhaps only until the next one
                click.echo("" if as_json else _screen([f"{error.message}; it is waited for"]), nl=False)
            else:
                click.echo(json.dumps(servers) if as_json else _screen(_table(servers)), nl=as_json)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        click.echo()  # that is how one stops looking


def _table(servers: list[Json]) -> list[str]:
    if not servers:
        return [EMPTY]
    terminal = sys.stdout.isatty()
    width = get_terminal_size().columns if terminal else None
    head, *lines = fitted(HEAD, [_row(server) for server in servers], EXPENDABLE, width)
    if not colourful(sys.stdout, os.environ):
        return [head, *lines]
    states = [server["state"] for server in servers]
    return [head, *(painted(line, COLOURS.get(state, "")) for line, state in zip(lines, states, strict=True))]


def _with_url(table: list[str], servers: list[Json]) -> list[str]:
    """If there was no room for that column, once for all."""
    if not servers or "URL" in table[0]:
        return table
    first = servers[0]
    return [*table, "", first["url"].replace(f"/{first['name']}/", "/NAME/")]


def _row(server: Json) -> tuple[str, ...]:
    return (
        server["name"],
        state_in_short(server),
        age(server["started_at"]) if server["state"] in UP else "-",
        str(server["restarts"]),
        str(server["sessions"]),
        str(server["calls_total"]),
        size(server["memory_bytes"]),
        server["url"],
    )


def _screen(lines: list[str]) -> str:
    """The lines in place of those before; what does not fit is counted."""
    if not sys.stdout.isatty():
        return "\n".join([*lines, "", ""])
    room = get_terminal_size().lines - 2
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more"]
    return HOME + "".join(f"{line}{CLEAR_TO_END_OF_LINE}\n" for line in lines) + CLEAR_BELOW


def show_server(name: str, *, as_json: bool) -> None:
    """`mooring status`."""
    server = reach().ask("GET", f"/servers/{name}")
    if as_json:
        click.echo(json.dumps(server, indent=2))
        return
    for title, text in described(server):
        click.echo(f"{title + ':' if title else '':12} {printable(text)}")


def show_daemon(*, as_json: bool, start: bool = False) -> None:
    """`mooring daemon status`, and `start`."""
    about = reach(start=start).ask("GET", "/daemon")
    if as_json:
        shown = {name: about[name] for name in ("pid", "version", "port", "started_at")}
        click.echo(json.dumps(shown, indent=2))
    else:
        click.echo(
            f"Mooring {about['version']} runs as pid {about['pid']} on port {about['port']}, "
            f"for {age(about['started_at'])}"
        )
