"""What the commands about servers do: they ask the daemon, and say what it answers."""

import json
import sys
import time
from typing import Any

import click

from mooring.api.client import NotRunning
from mooring.cli.reach import reach
from mooring.cli.tables import age, render, size
from mooring.cli.words import printable
from mooring.errors import ServerFailed, Unavailable, UserError

__all__ = ["do_to_each", "end_daemon", "list_servers", "show_daemon", "show_server", "wait_ready"]

Json = dict[str, Any]
HEAD = ("NAME", "STATE", "UPTIME", "RESTARTS", "SESSIONS", "CALLS", "MEMORY", "URL")
POLL_S = 0.1
WATCH_S = 1.0
LONG_S = 3600.0
"""To stop a server may take as long as its calls do; the daemon has the bound."""


def list_servers(*, as_json: bool, watch: bool) -> None:
    """`mooring ls`."""
    client = reach()
    while True:
        servers = client.ask("GET", "/servers")
        if as_json:
            click.echo(json.dumps(servers, indent=2))
        elif not servers:
            click.echo("There are no servers. Add one: mooring run NAME -- COMMAND")
        else:
            table = render(HEAD, map(_row, servers))
            click.echo(f"\x1b[H\x1b[2J{table}" if watch and sys.stdout.isatty() else table)
        if not watch:
            return
        time.sleep(WATCH_S)


def _row(server: Json) -> tuple[str, ...]:
    return (
        server["name"],
        server["state"],
        age(server["started_at"]),
        str(server["restarts"]),
        str(server["sessions"]),
        str(server["calls_total"]),
        size(server["memory_bytes"]),
        server["url"],
    )


def show_server(name: str, *, as_json: bool) -> None:
    """`mooring status`."""
    server = reach().ask("GET", f"/servers/{name}")
    if as_json:
        click.echo(json.dumps(server, indent=2))
        return
    for title, text in _described(server):
        click.echo(f"{title + ':':12} {printable(text)}")


def _described(server: Json) -> list[tuple[str, str]]:
    lines = [("name", server["name"]), ("state", _state(server)), ("url", server["url"])]
    lines.append(("command", " ".join(server["command"])))
    lines.append(("generation", f"{server['generation']}, owned by pid {server['pid']}"))
    if server["started_at"] is not None:
        lines.append(("up", f"{age(server['started_at'])}, {server['restarts']} restarts"))
    if server["last_exit"]:
        lines.append(("last exit", server["last_exit"]))
    lines.append(("sessions", f"{server['sessions']}, {server['calls']} calls in flight"))
    for instance in server["instances"]:
        session = f", session {instance['session']}" if instance["session"] else ""
        lines.append(
            ("instance", f"pid {instance['pid']}, {instance['use']}{session}, {instance['age_s']:.0f} s")
        )
    return lines


def _state(server: Json) -> str:
    text = str(server["state"])
    if server["reason_text"]:
        text += f": {server['reason_text']}"
    if server["retry_in_s"] is not None and server["state"] == "backoff":
        attempt = f"attempt {server['attempt']} of {server['attempts']}"
        text += f"; restarting in {server['retry_in_s']:.0f} s, {attempt}"
    return text


def _chosen(client: Any, names: tuple[str, ...], every: bool) -> list[str]:
    if bool(names) == every:
        raise click.UsageError(
            "name servers, or give --all" if not names else "give names or --all, not both"
        )
    return [server["name"] for server in client.ask("GET", "/servers")] if every else list(names)


def do_to_each(names: tuple[str, ...], every: bool, method: str, suffix: str, done: str) -> int:
    """Do the same to all of them; one that cannot is told, and does not hold up the others."""
    client = reach()
    failed = 0
    for name in _chosen(client, names, every):
        try:
            answer = client.ask(method, f"/servers/{name}{suffix}", timeout_s=LONG_S)
        except UserError as error:
            click.echo(f"{name}: {printable(error.message)}", err=True)
            failed = 2
            continue
        cut = f" ({answer['cut']} calls were cut off)" if answer["cut"] else ""
        click.echo(f"{name} {done}{cut}")
    return failed


def show_daemon(*, as_json: bool) -> None:
    """`mooring daemon status`."""
    about = reach().ask("GET", "/daemon")
    if as_json:
        shown = {name: about[name] for name in ("pid", "version", "port", "started_at")}
        click.echo(json.dumps(shown, indent=2))
    else:
        click.echo(
            f"Mooring {about['version']} runs as pid {about['pid']} on port {about['port']}, "
            f"since {age(about['started_at'])}"
        )


def end_daemon() -> None:
    """`mooring daemon stop`: until it has ended."""
    client = reach()
    pid = client.ask("GET", "/daemon")["pid"]
    client.ask("POST", "/daemon/stop")
    while _runs(client, pid):
        time.sleep(POLL_S)
    click.echo("Mooring has stopped")


def _runs(client: Any, pid: int) -> bool:
    try:
        return bool(client.ask("GET", "/daemon")["pid"] == pid)
    except (NotRunning, Unavailable):
        return False


def wait_ready(client: Any, name: str) -> Json:
    """Until it is known what the start of a server has led to. Raises ServerFailed."""
    shown = ""
    while True:
        server: Json = client.ask("GET", f"/servers/{name}")
        state = _state(server)
        if sys.stderr.isatty() and state != shown:
            click.echo(f"{name} is {printable(state)}", err=True)
            shown = state
        if server["state"] == "ready":
            return server
        if server["state"] in ("failed", "backoff", "stopped"):
            hint = f"mooring status {name} tells more; mooring rm {name} forgets it"
            raise ServerFailed(f"{name} is {state}", code="not_ready", hint=hint)
        time.sleep(POLL_S)
