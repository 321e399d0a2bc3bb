"""Who is connected to the relay now: agents by their names, clients beside them.

A lock guards the tables and nothing else: whatever takes time is done with a copy.
"""

import threading

from mooring.relay.keeper import AGENT, Keeper

__all__ = ["Registry"]


class Registry:
    """Of live links; those that are lost for a while are live too, until their grace is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._agents: dict[str, Keeper] = {}
        self._clients: dict[str, Keeper] = {}

    def snapshot(self) -> list[Keeper]:
        """A fresh list of all of them; changing it changes nothing here."""
        with self._lock:
            return [*self._agents.values(), *self._clients.values()]

    def agent(self, name: str) -> Keeper | None:
        """Who has that name."""
        with self._lock:
            return self._agents.get(name)

    def client(self, id: str) -> Keeper | None:
        """The client whose link it is."""
        with self._lock:
            return self._clients.get(id)

    def claim(self, keeper: Keeper, instead_of: Keeper | None = None) -> bool:
        """Have its name, if nobody but `instead_of` has it now."""
        with self._lock:
            table, key = self._place(keeper)
            if table.get(key) is not instead_of:
                return False
            table[key] = keeper
            return True

    def release(self, keeper: Keeper) -> bool:
        """Give it up, if it is still this one's."""
        with self._lock:
            table, key = self._place(keeper)
            if table.get(key) is not keeper:
                return False
            del table[key]
            return True

    @property
    def counts(self) -> tuple[int, int]:
        """Agents and clients."""
        with self._lock:
            return len(self._agents), len(self._clients)

    def _place(self, keeper: Keeper) -> tuple[dict[str, Keeper], str]:
        return (self._agents, keeper.name) if keeper.kind == AGENT else (self._clients, keeper.id)
