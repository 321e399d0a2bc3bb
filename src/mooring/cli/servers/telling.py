"""What people are told of a server: pure, from what the daemon says of it."""

import math
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from mooring.cli.terminal.tables import age

__all__ = ["count", "described", "moment", "state_in_short", "state_in_words", "why_not_ready"]

Json = dict[str, Any]
FAILED = {
    "cannot_start": "it cannot be started",
    "initialize_failed": "it starts, but is of no use as an MCP server",
    "crash_loop": "it crashes again and again",
    "server_exited": "it ended, and is not to be restarted",
}
"""Why it failed: one that could not begin is another matter than one that began and crashed."""
FAILED_ELSEWHERE = {
    "cannot_start": "it cannot be asked",
    "initialize_failed": "what answers there is of no use as an MCP server",
}
"""The same, of one that Mooring does not start."""
REMARKS = {
    "calls_fail": "calls fail",
    "cannot_start": "cannot be started",
    "crash_loop": "crashes",
    "engine_unreachable": "engine unreachable",
    "forbidden": "not let in",
    "initialize_failed": "not MCP",
    "not_mcp": "not MCP",
    "paused": "paused",
    "pulling": "pulling its image",
    "pull_failed": "its image cannot be pulled",
    "redirected": "moved",
    "removed_outside": "removed outside Mooring",
    "unauthorized": "unauthorized",
    "unreachable": "unreachable",
}
"""What `ls` says of reasons that one should know of at once."""


def count(amount: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{amount} {what}" if amount == 1 else f"{amount} {what}s"


def moment(at: float) -> str:
    """As in the logs: UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def state_in_short(server: Json) -> str:
    """The state; with a word or two where it alone would mislead."""
    remark = REMARKS.get(server["reason"])
    return f"{server['state']} ({remark})" if remark else str(server["state"])


def state_in_words(server: Json) -> str:
    """The state, and why it is so."""
    # Errors name the server, which is named already where states are told.
    state, text = str(server["state"]), str(server["reason_text"]).removeprefix(f"{server['name']}: ")
    if state == "backoff":
        wait = f"restarting in {server['retry_in_s'] or 0:.0f} s"
        return f"backoff: {wait}, attempt {server['attempt']} of {server['attempts']}"
    if state == "failed":
        why = (FAILED_ELSEWHERE if server.get("address") else FAILED).get(server["reason"], "")
        text = f"{why}: {text}" if why and text else why or text
    elif server["reason"] == "restarting":
        return f"{state} again: {text}"
    elif state == "starting" and server["instances"]:
        return f"{state}: waiting for its answer to initialize"
    elif server["calls"] and state in ("draining", "stopping"):
        text = f"{count(server['calls'], 'call')} to finish"
    return f"{state}: {text}" if text else state


def described(server: Json) -> Iterator[tuple[str, str]]:
    """Everything, as titles and texts; a line without a title goes on with the one before."""
    yield "name", server["name"]
    yield "state", state_in_words(server)
    if server["hint"]:
        yield "hint", server["hint"]
    if server["state"] == "failed" and server["retry_in_s"] is not None:
        yield "", _tried_again(server)
    yield "url", server["url"]
    image, address = server.get("image"), server.get("address")  # which older daemons do not tell
    if address:
        yield "server", address
    if image:
        yield "image", image
    if server["command"] or not (image or address):
        yield "arguments" if image else "command", shlex.join(server["command"])
    if server["origin"]:
        yield "file", server["origin"]
    if server["references"]:
        yield "references", ", ".join(server["references"])
    yield "generation", f"{server['generation']}, owned by the daemon (pid {server['pid']})"
    if server["started_at"] is not None:
        yield "started", f"{age(server['started_at'])} ago, {count(server['restarts'], 'restart')}"
    calls = f"{count(server['calls'], 'call')} in flight, {count(server['calls_total'], 'request')} in all"
    yield "sessions", f"{server['sessions']}; {calls}"
    if server["versions"]:
        yield "versions", ", ".join(server["versions"])
    yield from _listed("instances", map(_instance, server["instances"]))
    yield from _listed("exits", map(_exit, reversed(server["exits"])))
    yield from _listed("stderr", server["stderr"])


def _tried_again(server: Json) -> str:
    wait_s, start = math.ceil(server["retry_in_s"]), f"mooring start {server['name']}"
    if wait_s:
        return f"a call in {wait_s} s or later tries it again; at once: {start}"
    return f"the next call tries it again; so does: {start}"


def _listed(title: str, lines: Any) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield title, line
        title = ""


def _instance(one: Json) -> str:
    session = f", session {one['session']}" if one["session"] else ""
    return f"{_title(one)}, {one['use']}{session}, for {age(one['since'])}"


def _exit(one: Json) -> str:
    when = f"{moment(one['at'])} ({age(one['at'])} ago)"
    how = one.get("how") or f"exit status {one['code']}"
    return f"{when}, {_title(one)}: {how}, after {one['ran_s']:.1f} s"


def _title(one: Json) -> str:
    if one.get("container"):
        return f"container {one['container'][:12]}"
    return "a session there" if one["pid"] is None else f"pid {one['pid']}"


def why_not_ready(server: Json) -> tuple[str, str]:
    """Of a server that is not ready and will not be at once: what is wrong, and what to do."""
    name = server["name"]
    text = f"{name} is not ready: {state_in_words(server)}"
    if server["state"] == "backoff":
        tried = f"it ended {count(len(server['exits']), 'time')}, the last with {server['last_exit']}"
        text = f"{name} is not ready: {tried}; {state_in_words(server).removeprefix('backoff: ')}"
    hints = [server["hint"]] if server["hint"] else []
    hints.append(f"mooring status {name} and mooring logs {name} tell more")
    what = "--image IMAGE" if server.get("image") else "--url URL" if server.get("address") else "-- COMMAND"
    change = f"mooring run {name} --replace {what}"
    if server["origin"]:
        change = f"edit {server['origin']}, then mooring up"
    hints.append(f"to change it: {change}; to give it up: mooring rm {name}")
    return text, "; ".join(hints)
