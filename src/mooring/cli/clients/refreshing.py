"""What `mooring client refresh` does: entries out, a while for the clients to notice, entries back.

Whoever interrupts it while entries go out, or are out, has them back at once. Whoever kills it, or interrupts
their coming back, leaves them out: the ledger says so, and the daemon puts them back, or the next `refresh`.
"""

import json
import time
from collections.abc import Sequence

import click
from msgspec.structs import replace

from mooring.cli.clients.access import find_registry, target_of, tell_of_damage
from mooring.cli.clients.telling import client_name, echo_wrapped, outcome_json, show_outcomes
from mooring.cli.reach import reach
from mooring.cli.servers.changing import INTERRUPTED
from mooring.cli.servers.telling import Json
from mooring.cli.terminal.words import tell
from mooring.clients.outcomes import Change, Outcome, Standing
from mooring.clients.registry import Registry
from mooring.clients.table import Client, load_table
from mooring.errors import UserError

__all__ = ["refresh"]

BY_THEMSELVES = frozenset({"watch", "watch_prompt", "poll", "unknown"})
"""How clients reload that may notice a change while they run."""
WHY = "it is being refreshed"


def refresh(name: str, *, as_json: bool) -> int:
    """Make clients connect to a server anew; returns the exit status."""
    api = reach(start=True)
    _check(api.ask("GET", f"/servers/{name}"))
    registry = find_registry()
    others = _reloading_otherwise(registry, name)
    is_interrupted = False
    out: list[Outcome] = []
    try:
        out = registry.take_out(name, WHY, only=_reloads_by_itself)
        _wait(name, out, quiet=as_json)
    except KeyboardInterrupt:
        is_interrupted = True
    server = api.ask("GET", f"/servers/{name}")
    _check(server)  # or it has failed meanwhile, and stays out
    outcomes = [*_refused(out), *_back(registry.put_back(target_of(server)), out)]
    tell_of_damage(registry)
    if as_json:
        click.echo(json.dumps([outcome_json(one) for one in outcomes], indent=2))
    else:
        _tell(name, outcomes, others)
    if is_interrupted:
        return INTERRUPTED
    return 1 if _refused(outcomes) else 0


def _check(server: Json) -> None:
    if server["state"] == "failed":
        name = server["name"]
        raise UserError(
            f"{name} has failed, and its entries are out until it works",
            code="not_ready",
            hint=f"mooring start {name} tries it again, mooring status {name} says why it failed",
        )


def _back(done: list[Outcome], out: Sequence[Outcome]) -> list[Outcome]:
    """With those that the daemon was quicker to put back."""
    places = {(one.client, one.path) for one in done}
    by_others = [one for one in out if one.change is Change.REMOVED and (one.client, one.path) not in places]
    return done + [replace(one, change=Change.RESTORED, difference="") for one in by_others]


def _reloads_by_itself(client: Client) -> bool:
    return client.reload.mode in BY_THEMSELVES


def _reloading_otherwise(registry: Registry, name: str) -> list[Standing]:
    """Those that know it, but would not notice anything before their user does something."""
    return [
        one
        for one in registry.standings()
        if any(entry.server == name and entry.state == "in" for entry in one.entries)
        and one.reload not in BY_THEMSELVES
    ]


def _wait(name: str, out: Sequence[Outcome], *, quiet: bool) -> None:
    """As long as the slowest of them needs to notice."""
    ids = [one.client for one in out if one.change is Change.REMOVED]
    if not ids:
        return
    wait_s = max(load_table()[id].reload.settle_s for id in ids)
    if not quiet:
        whom = ", ".join(dict.fromkeys(map(client_name, ids)))
        tell("note", f"{name} is out of {whom}; it comes back in {wait_s:g} s")
    time.sleep(wait_s)


def _refused(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in outcomes if one.change is Change.REFUSED]


def _tell(name: str, outcomes: Sequence[Outcome], others: Sequence[Standing]) -> None:
    alike: dict[str, list[str]] = {}
    for one in outcomes:
        if one.change not in (Change.REFUSED, Change.UNCHANGED):
            alike.setdefault(one.next, []).append(client_name(one.client))
    for then, clients in alike.items():
        echo_wrapped(f"{name} is back in {', '.join(dict.fromkeys(clients))}" + (f": {then}" if then else ""))
    show_outcomes(_refused(outcomes))
    for other in others:
        tell("note", f"{other.name} does not reload by itself: {other.next}")
    if not outcomes and not others:
        click.echo(f"No client knows {name}. Tell one: mooring client add CLIENT --server {name}")
