"""Instances of a handshake server for clients that have no sessions.

Such a server learns once, in `initialize`, who its client is and what can be asked of it. So instances are
kept by whom they were introduced to: principal and declared capabilities. A client that can be asked
nothing shares an instance with others of its kind; whoever can be asked something has one for the time
of a call, so that a question of the server can only be about that call. With `--shared` all use the
standing instances, and nobody can be asked.
"""

from collections.abc import Callable

from mooring.proxy.passed_trunk import LEASED, POOLED, PassedTrunk, Purpose
from mooring.proxy.ports import Channel
from mooring.proxy.sharing import Sharing
from mooring.proxy.trunk import Trunk, TrunkKeeper
from mooring.proxy.trunks import Trunks
from mooring.wire.memory import Memory

__all__ = ["HandshakePool", "PoolKey"]

PoolKey = tuple[str, bytes]
"""Principal, and capabilities as JSON in one order."""
EVERYBODY: PoolKey = ("", b"{}")
"""Where instances are shared, nobody is told apart."""


class HandshakePool:
    """The instances; `max_trunks` bounds how many there can be."""

    def __init__(
        self, trunks: Trunks, keeper: TrunkKeeper, max_trunks: int, sharing: Sharing | None = None
    ) -> None:
        self._all = trunks
        self._sharing = sharing
        self._keeper = keeper
        self._max = max_trunks
        self._shared: dict[PoolKey, Trunk] = {}
        self._free: dict[PoolKey, list[Trunk]] = {}
        self._leased: dict[Trunk, PoolKey] = {}
        self._keys: dict[Trunk, PoolKey] = {}
        self.is_needed: Callable[[Trunk], bool] = lambda trunk: False
        """Does somebody listen to it?"""
        self.on_made: Callable[[Trunk], None] = _nothing
        self.on_ended: Callable[[Trunk], None] = _nothing

    def __len__(self) -> int:
        return len(self._shared) + len(self._leased) + sum(map(len, self._free.values()))

    def shared(self, key: PoolKey, client: bytes) -> Trunk | None:
        """The one for all of that key; None if there can be no more."""
        if self._sharing is not None:
            return self._sharing.choose()
        trunk = self._shared.get(key)
        if trunk is None and (trunk := self._make(key, client, POOLED)) is not None:
            self._shared[key] = trunk
        return trunk

    def lease(self, key: PoolKey, client: bytes) -> Trunk | None:
        """One for a single call; give it back."""
        free = self._free.get(key)
        trunk = free.pop() if free else self._make(key, client, LEASED)
        if trunk is not None:
            self._leased[trunk] = key
        return trunk

    def give_back(self, trunk: Trunk) -> None:
        """The call is over."""
        key = self._leased.pop(trunk, None)
        if key is not None:
            self._free.setdefault(key, []).append(trunk)

    def discard(self, trunk: Trunk) -> None:
        """The call is over, but perhaps not for the server: nobody else may have this one."""
        if self._leased.pop(trunk, None) is not None:
            self._end(trunk, "it may still be busy with a call that was given up")

    def key(self, principal: str, capabilities: bytes) -> PoolKey:
        """Of whoever has these."""
        return (principal, capabilities) if self._sharing is None else EVERYBODY

    def key_of(self, trunk: Trunk) -> PoolKey | None:
        """To whom it was introduced."""
        return self._keys.get(trunk) if self._sharing is None else EVERYBODY

    def beside(self, trunk: Trunk) -> list[Trunk]:
        """All that a client may have its calls on whose news come from this one."""
        if self._sharing is not None:
            return self._sharing.trunks
        key = self._keys.get(trunk)
        return [other for other, introduced_to in self._keys.items() if introduced_to == key]

    def tidy(self) -> None:
        """Forget those whose instance was let go."""
        for key, trunks in list(self._free.items()):
            for trunk in [trunk for trunk in trunks if not trunk.is_awake]:
                trunks.remove(trunk)
                self._end(trunk, "not in use")
            if not trunks:
                del self._free[key]
        for key, trunk in list(self._shared.items()):
            if self.is_needed(trunk):
                trunk.last_used = self._all.now()
            elif not trunk.rides and not trunk.is_awake:
                del self._shared[key]
                self._end(trunk, "not in use")

    def adopt(self, passed: PassedTrunk, channel: Channel) -> bool:
        """An instance that another Mooring had; False: there is no room for it."""
        kind, key = passed.purpose.kind, (passed.purpose.principal, passed.purpose.capabilities)
        trunk = self._make(key, b"", kind)
        if trunk is None:
            return False
        if kind == POOLED and key not in self._shared:
            self._shared[key] = trunk
        else:
            self._free.setdefault(key, []).append(trunk)
        trunk.adopt(passed, channel)
        return True

    def part(self, trunk: Trunk) -> None:
        """Another Mooring has it."""
        key = self._keys.pop(trunk, None)
        if key is None:
            return
        if self._shared.get(key) is trunk:
            del self._shared[key]
        elif trunk in (free := self._free.get(key, [])):
            free.remove(trunk)
        self.on_ended(trunk)

    def _make(self, key: PoolKey, client: bytes, kind: str) -> Trunk | None:
        if len(self) >= self._max and not self._drop_free():
            return None
        trunk = self._all.make(
            self._keeper, Memory.introducing_ourselves(key[1], client), purpose=Purpose(kind, *key)
        )
        self._keys[trunk] = key
        self.on_made(trunk)
        return trunk

    def _end(self, trunk: Trunk, reason: str) -> None:
        del self._keys[trunk]
        self.on_ended(trunk)
        self._all.end(trunk, reason)

    def _drop_free(self) -> bool:
        """Room for another: one that nobody uses gives way."""
        for key, shared in self._shared.items():
            if not shared.rides and not self.is_needed(shared):
                del self._shared[key]
                self._end(shared, "its place is needed")
                return True
        for key, trunks in self._free.items():
            if trunks:
                self._end(trunks.pop(0), "its place is needed")
                if not trunks:
                    del self._free[key]
                return True
        return False


def _nothing(trunk: Trunk) -> None:
    pass
