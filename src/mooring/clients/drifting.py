"""Entries that somebody else removed or changed: told once, put back if that is wanted, never fought over.

A client that rewrites its file may have it empty for a moment: what is seen once is not believed yet.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeAlias

from mooring.clients.entries import Target
from mooring.clients.outcomes import Change, Drift
from mooring.clients.patience import Turns
from mooring.clients.registry import Registry

__all__ = ["Drifting"]

BELIEVED_S = 1.0
MOST_REPAIRS = 3
"""Of one entry in `WINDOW_S`: who removes it more often wants it away."""
WINDOW_S = 3600.0

Key: TypeAlias = tuple[str, Path, str, str]


class Drifting:
    """What is known of the files of one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._since: dict[Key, float] = {}
        self._told: set[Key] = set()
        self._repairs = Turns(WINDOW_S)

    def look(
        self, servers: Collection[str], target_of: Callable[[str], Target | None], now: float, *, repair: bool
    ) -> Iterator[tuple[str, str]]:
        """What there is to tell, and of which server."""
        found = {_key(drift): drift for drift in self._registry.drifted() if drift.server in servers}
        self._since = {key: self._since.get(key, now) for key in found}
        self._told &= found.keys()
        for key, drift in found.items():
            if now - self._since[key] < BELIEVED_S:
                continue
            if repair and drift.state == "missing":
                yield from self._repair(drift, target_of, now)
            elif key not in self._told:
                self._told.add(key)
                yield drift.server, _words(drift)

    def _repair(
        self, drift: Drift, target_of: Callable[[str], Target | None], now: float
    ) -> Iterator[tuple[str, str]]:
        key = _key(drift)
        if len(self._repairs.of(key, now)) >= MOST_REPAIRS:
            if key not in self._told:
                self._told.add(key)
                yield (
                    drift.server,
                    f"{_words(drift)}; it vanished too often to be put back without being asked",
                )
            return
        if (target := target_of(drift.server)) is None or not drift.path.parent.exists():
            return  # a client that was uninstalled does not get its folder back
        for outcome in self._registry.mend(target, client=drift.client, path=drift.path):
            self._repairs.note(key, now)  # refused or not: one that cannot be repaired is not tried for ever
            if outcome.change is Change.REFUSED:
                yield (
                    drift.server,
                    f"{drift.client}: {outcome.error}" + (f" ({outcome.hint})" if outcome.hint else ""),
                )
            elif outcome.change is not Change.UNCHANGED:
                yield drift.server, f"its entry was gone from {drift.path} ({drift.client}), and is put back"


def _key(drift: Drift) -> Key:
    return drift.client, drift.path, drift.server, drift.state


def _words(drift: Drift) -> str:
    where = f"{drift.path} ({drift.client})"
    if drift.state == "missing":
        return f"its entry is gone from {where}: mooring client sync puts it back"
    add = f"mooring client add {drift.client} --server {drift.server} --force"
    return f"its entry in {where} was changed by somebody else, and is left so: {add} writes it anew"
