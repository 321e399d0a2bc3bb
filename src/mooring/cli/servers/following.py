"""What `mooring events` does: it asks for events, in order, and perhaps for those to come."""

import json
import sys
import time
from urllib.parse import urlencode

import click

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.reach import reach
from mooring.cli.servers.telling import Json, moment
from mooring.cli.terminal.words import printable
from mooring.errors import Unavailable

__all__ = ["show_events"]

WAIT_S = 30
"""How long the daemon holds a question that it has no answer to yet."""
LOOK_AGAIN_S = 0.5
"""For a daemon that does not answer."""


def show_events(name: str, *, follow: bool, since_s: float | None, as_json: bool) -> None:
    """Those that there are; with `follow` those to come, also of the next daemon."""
    client = reach()
    since = 0.0 if since_s is None else time.time() - since_s
    try:
        after = _show_all(client, name, since, 0, as_json=as_json)
        while follow:
            after = _show_next(client, name, since, after, as_json=as_json)
    except KeyboardInterrupt:
        if not follow:
            raise


def _show_all(client: ApiClient, name: str, since: float, after: int, *, as_json: bool) -> int:
    """An answer may be a part only; returns the number of the last event."""
    while found := _ask(client, name, since, after, 0):
        after = _show(found, as_json=as_json)
    return after


def _show_next(client: ApiClient, name: str, since: float, after: int, *, as_json: bool) -> int:
    try:
        found = _ask(client, name, since, after, WAIT_S)
    except (NotRunning, Unavailable):
        time.sleep(LOOK_AGAIN_S)
        return after
    return _show(found, as_json=as_json) if found else after


def _ask(client: ApiClient, name: str, since: float, after: int, wait_s: int) -> list[Json]:
    query = urlencode({"name": name, "since": since, "after": after, "wait_s": wait_s})
    found: list[Json] = client.ask("GET", f"/events?{query}", timeout_s=WAIT_S + 30.0)
    return found


def _show(found: list[Json], *, as_json: bool) -> int:
    for event in found:
        click.echo(json.dumps(event) if as_json else _line(event))
    sys.stdout.flush()
    return int(found[-1]["number"])


def _line(event: Json) -> str:
    who = event["name"] or "mooring"
    return f"{moment(event['at'])} {who} {event['kind']}: {printable(event['text'])}"
