"""Sessions of which Redis has nothing: does another replica have one all the same?

Redis may have lost its record: it was evicted, or a failover lost what had been written last. Whoever has
the session says so when it is asked, and writes it down again; whoever looks for it finds it there.

All that are looked for at a moment are one question to each replica, and the next one comes only after the
answers to that and a pause: clients whose sessions have ended long ago may be many.
"""

import asyncio
import logging
from collections.abc import Collection

from mooring.replicas.forwarding import Forwarding
from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy

__all__ = ["Searching"]

log = logging.getLogger("mooring.replicas")


class Searching:
    """Whoever asks waits for two answers at most, each of which has its bound. `aclose` leaves no task."""

    def __init__(self, forwarding: Forwarding, membership: Membership, policy: ReplicaPolicy) -> None:
        self._forwarding = forwarding
        self._membership = membership
        self._policy = policy
        self._wanted: dict[str, asyncio.Future[bool]] = {}
        """No more than those who look for their session: they have a bound."""
        self._task: asyncio.Task[None] | None = None

    async def is_held(self, id: str) -> bool:
        """Does another replica have it? Those that do not answer do not."""
        if not self._membership.others:
            return False
        found = self._wanted.get(id)
        if found is None:
            found = self._wanted[id] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="looking for sessions that Redis has not")
        return await asyncio.shield(found)

    async def _run(self) -> None:
        try:
            while self._wanted:
                await self._ask()
                await asyncio.sleep(self._policy.look_again_s)
        finally:
            self._task = None

    async def _ask(self) -> None:
        wanted, self._wanted = self._wanted, {}
        held: set[str] = set()
        try:
            held = await self._held_of(wanted)
        except Exception:  # a bug of ours must not let them wait for ever
            log.exception("no replica could be asked for sessions")
        finally:
            for id, found in wanted.items():
                found.set_result(id in held)

    async def _held_of(self, ids: Collection[str]) -> set[str]:
        others = self._membership.others.values()
        answers = await asyncio.gather(*(self._forwarding.held_of(ids, replica) for replica in others))
        return set().union(*answers)

    async def aclose(self) -> None:
        """Nobody is asked any more."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait([task])
