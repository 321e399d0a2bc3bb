"""`mooring run --client`, and what `run` and `up` do without it: clients are told of servers that are up.

However many servers these are, it is one change of each file, and one `mooring client undo` takes back all.

Whatever is said goes to stderr, because stdout has the URL. Trouble with a client's file is told; it is the
exit status only of who has asked for that client.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mooring.cli.clients.access import find_registry, site_of, target_of, tell_of_damage
from mooring.cli.clients.ids import ALL, NONE
from mooring.cli.clients.telling import client_name, told_change
from mooring.cli.servers.telling import Json
from mooring.cli.terminal.words import tell
from mooring.clients.detecting import Site
from mooring.clients.entries import Target
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.registry import Registry
from mooring.errors import MooringError

__all__ = ["plan_telling", "tell_followers"]


def plan_telling(ids: Sequence[str]) -> Callable[[Json], int] | None:
    """What is to be done with a server that is up; raises UserError if no such client can be told.

    No ids: those that are to know of it anyway.
    """
    if not ids:
        return lambda server: tell_followers([server])
    if NONE in ids:
        return None
    registry = find_registry()
    sites = registry.installed() if ALL in ids else [site_of(registry, id) for id in ids]
    if not sites:
        tell("note", "no AI client is found on this machine: mooring client ls --all")
    return lambda server: _put(registry, {site: [target_of(server)] for site in sites})


def tell_followers(servers: Sequence[Json]) -> int:
    """Whoever has one of them, or is to have all servers. Always 0: nobody has asked for it now."""
    try:
        registry = find_registry()
        wanted: dict[Site, list[Target]] = {}
        for server in servers:
            for site in registry.followers(server["name"]):
                wanted.setdefault(site, []).append(target_of(server))
        _put(registry, wanted)
    except MooringError as error:
        names = ", ".join(server["name"] for server in servers)
        tell("warning", f"AI clients could not be told of {names}: {error.message}")
        if error.hint:
            tell("hint", error.hint)
    return 0


def _put(registry: Registry, wanted: Mapping[Site, Sequence[Target]]) -> int:
    """The exit status, if these were asked for."""
    outcomes = [outcome for site, targets in wanted.items() for outcome in registry.add(site, targets)]
    tell_of_damage(registry)
    _tell(outcomes)
    return 1 if any(one.change is Change.REFUSED for one in outcomes) else 0


def _tell(outcomes: Sequence[Outcome]) -> None:
    alike: dict[tuple[str, Path, Change, str, str], list[Outcome]] = {}
    for one in outcomes:
        alike.setdefault((one.client, one.path, one.change, one.error, one.next), []).append(one)
    done: dict[str, list[str]] = {}
    for (id, _, change, error, then), group in alike.items():
        if change is Change.REFUSED:
            names = ", ".join(one.server for one in group)
            tell("warning", f"{client_name(id)} was not told of {names}: {error}")
            for hint in dict.fromkeys(one.hint for one in group if one.hint):
                tell("hint", hint)
        elif change is not Change.UNCHANGED:
            done.setdefault(told_change(group) + (f"; {then}" if then else ""), []).append(client_name(id))
    for text, names_of_clients in done.items():
        tell("note", f"{', '.join(dict.fromkeys(names_of_clients))}: {text}")
