"""`mooring run --client`, and what `run` and `up` do without it: clients are told of servers that are up.

Whatever is said goes to stderr, because stdout has the URL. Trouble with a client's file is told; it is the
exit status only of who has asked for that client.
"""

from collections.abc import Callable, Sequence

from mooring.cli.clients.access import find_registry, site_of, target_of, tell_of_damage
from mooring.cli.clients.ids import ALL, NONE
from mooring.cli.clients.telling import client_name, told_change
from mooring.cli.servers.telling import Json
from mooring.cli.terminal.words import tell
from mooring.clients.detecting import Site
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.registry import Registry
from mooring.errors import MooringError

__all__ = ["plan_telling", "tell_followers"]


def plan_telling(ids: Sequence[str]) -> Callable[[Json], int] | None:
    """What is to be done with a server that is up; raises UserError if no such client can be told.

    No ids: those that are to know of it anyway.
    """
    if not ids:
        return tell_followers
    if NONE in ids:
        return None
    registry = find_registry()
    sites = registry.installed() if ALL in ids else [site_of(registry, id) for id in ids]
    if not sites:
        tell("note", "no AI client is found on this machine: mooring client ls --all")
    return lambda server: _put(registry, sites, server)


def tell_followers(server: Json) -> int:
    """Whoever has it, or is to have all servers. Always 0: nobody has asked for it now."""
    try:
        registry = find_registry()
        _put(registry, registry.followers(server["name"]), server)
    except MooringError as error:
        tell("warning", f"AI clients could not be told of {server['name']}: {error.message}")
        if error.hint:
            tell("hint", error.hint)
    return 0


def _put(registry: Registry, sites: Sequence[Site], server: Json) -> int:
    """The exit status, if these were asked for."""
    target = target_of(server)
    outcomes = [outcome for site in sites for outcome in registry.add(site, [target])]
    tell_of_damage(registry)
    _tell(outcomes)
    return 1 if any(one.change is Change.REFUSED for one in outcomes) else 0


def _tell(outcomes: Sequence[Outcome]) -> None:
    alike: dict[tuple[Change, str], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.change is Change.REFUSED:
            tell(
                "warning", f"{client_name(outcome.client)} was not told of {outcome.server}: {outcome.error}"
            )
            if outcome.hint:
                tell("hint", outcome.hint)
        elif outcome.change is not Change.UNCHANGED:
            alike.setdefault((outcome.change, outcome.next), []).append(outcome)
    for (_, then), group in alike.items():
        clients = ", ".join(dict.fromkeys(client_name(one.client) for one in group))
        tell("note", f"{clients}: {told_change(group[:1])}" + (f"; {then}" if then else ""))
