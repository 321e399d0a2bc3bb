"""Instances for sessions, whichever era the server speaks.

A handshake client gets an instance of its own, and its `initialize` is sent straight away; or, with
`--shared`, a `SharedFace` of one that others use too. Only if `initialize` is refused, the era of the
server is found out. The error may be about this client's words alone, so that of a server that speaks
2026-07-28 it is found out too whether it takes an `initialize` of ours: if not, sessions get a
`ModernFace`, from then on at once.
"""

import asyncio
from collections.abc import Callable

from mooring.errors import Unavailable
from mooring.proxy.era import takes_handshakes
from mooring.proxy.face import Face
from mooring.proxy.modern_face import ModernFace
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend, Channel
from mooring.proxy.shared_face import SharedFace
from mooring.proxy.sharing import Sharing
from mooring.proxy.stateless import Stateless
from mooring.wire.memory import Handshake

__all__ = ["EraBackend"]


class EraBackend:
    """A `Backend` in front of the workload's own."""

    def __init__(
        self,
        backend: Backend,
        stateless: Stateless,
        policy: SessionPolicy,
        clock: Callable[[], float],
        sharing: Sharing | None,
    ) -> None:
        self._backend = backend
        self._sharing = sharing
        self._stateless = stateless
        self._policy = policy
        self._clock = clock
        self._is_in_doubt = False
        self._looking_closer = asyncio.Lock()

    def doubt_handshakes(self) -> bool:
        """An instance has refused `initialize`: may there be another way to serve the session?"""
        if self._stateless.takes_handshakes:
            return False
        self._is_in_doubt = True
        return self._stateless.may_be_modern

    def refusal(self) -> Unavailable | None:
        """See `Backend`."""
        return self._backend.refusal()

    async def acquire(self, *, expendable: bool = False) -> Channel:
        """See `Backend`."""
        if await self._refuses_handshakes():
            face = await self._stateless.modern_face()
            if face is not None:
                return face
        if self._sharing is not None:
            return SharedFace(self._sharing, self._clock)
        return await self._backend.acquire(expendable=expendable)

    async def _refuses_handshakes(self) -> bool:
        known = self._stateless
        if known.takes_handshakes is None and self._is_in_doubt:
            async with self._looking_closer:  # once for all who are in doubt
                if known.takes_handshakes is None and (await known.discover()).is_modern:
                    bound_s = self._policy.handshake_timeout_s
                    known.takes_handshakes = await takes_handshakes(self._backend, bound_s)
        return known.takes_handshakes is False

    def spoke(self, channel: Channel) -> None:
        """See `Backend`."""
        if not isinstance(channel, ModernFace):
            self._stateless.takes_handshakes = True
        if not isinstance(channel, Face):
            self._backend.spoke(channel)

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None:
        """See `Backend`."""
        if isinstance(channel, Face):
            channel.release(reason)
        else:
            self._backend.release(channel, reason, failed=failed)

    def take_leave(self, backend: str, upstream: str, handshake: Handshake) -> None:
        """See `Backend`."""
        self._backend.take_leave(backend, upstream, handshake)

    def settle(self) -> None:
        """See `Backend`."""
        self._backend.settle()
