"""Instances for sessions, whichever era the server speaks.

A handshake client gets an instance of its own, and its `initialize` is sent straight away; or, with
`--shared`, a `SharedFace` of one that others use too. Only if `initialize` is refused, the era of the
server is found out; of one that speaks 2026-07-28 alone a session gets a `ModernFace`, from then on at
once.
"""

from collections.abc import Callable

from mooring.errors import Unavailable
from mooring.proxy.face import Face
from mooring.proxy.ports import Backend, Channel
from mooring.proxy.shared_face import SharedFace
from mooring.proxy.sharing import Sharing
from mooring.proxy.stateless import Stateless

__all__ = ["EraBackend"]


class EraBackend:
    """A `Backend` in front of the workload's own."""

    def __init__(
        self,
        backend: Backend,
        stateless: Stateless,
        clock: Callable[[], float],
        sharing: Sharing | None,
    ) -> None:
        self._backend = backend
        self._sharing = sharing
        self._stateless = stateless
        self._clock = clock
        self._refuses_handshakes = False

    def doubt_handshakes(self) -> bool:
        """An instance has refused `initialize`: may there be another way to serve the session?"""
        self._refuses_handshakes = True
        return self._stateless.may_be_modern

    def refusal(self) -> Unavailable | None:
        """See `Backend`."""
        return self._backend.refusal()

    async def acquire(self) -> Channel:
        """See `Backend`."""
        if self._refuses_handshakes:
            face = await self._stateless.modern_face()
            if face is not None:
                return face
        if self._sharing is not None:
            return SharedFace(self._sharing, self._clock)
        return await self._backend.acquire()

    def spoke(self, channel: Channel) -> None:
        """See `Backend`."""
        if not isinstance(channel, Face):
            self._refuses_handshakes = False
            self._backend.spoke(channel)

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None:
        """See `Backend`."""
        if isinstance(channel, Face):
            channel.release(reason)
        else:
            self._backend.release(channel, reason, failed=failed)

    def settle(self) -> None:
        """See `Backend`."""
        self._backend.settle()
