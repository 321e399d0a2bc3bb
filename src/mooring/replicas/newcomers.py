"""Sessions that are to begin while Redis is in trouble: none is begun that others could not hear of.

Whoever wants one waits for as long as Redis may take for any answer. It may be too slow for the renewal of a
lease, and still take what it is told.
"""

import asyncio
import contextlib
from collections.abc import Callable

from mooring.proxy.addressing import begins_session
from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.shared_store import SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from mooring.wire.http import Request

__all__ = ["Newcomers"]


class Newcomers:
    """However many wait, Redis is asked one question at a time."""

    def __init__(
        self,
        store: SharedStore,
        membership: Membership,
        policy: ReplicaPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._membership = membership
        self._policy = policy
        self._clock = clock
        self._asking = asyncio.Lock()
        self._answered_at = 0.0
        self._trouble: StoreUnavailable | None = None

    def must_wait(self, request: Request) -> bool:
        """Would it begin a session, and is it not known whether Redis takes that?"""
        return not self._membership.sees_store and begins_session(request)

    async def trouble(self) -> StoreUnavailable | None:
        """Why none can be begun; None: one can."""
        trouble = self._membership.trouble
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._policy.store_s):
                while (trouble := await self._ask()) is not None:
                    self._membership.hurry()
                    await asyncio.sleep(self._policy.look_again_s)
        return trouble

    async def _ask(self) -> StoreUnavailable | None:
        """An answer that came since is ours, too."""
        came_at = self._clock()
        async with self._asking:
            if self._answered_at < came_at:
                try:
                    await self._store.probe()
                    self._trouble = None
                except StoreUnavailable as error:
                    self._trouble = error
                self._answered_at = self._clock()
            return self._trouble
