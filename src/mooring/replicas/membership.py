"""This replica among the others: its lease, who else there is, and what it does when Redis does not answer.

    joining → member ⇄ cut off (Redis does not answer; the lease goes on while it lasts) → lapsed → member,
    anew

- A lease is renewed under the name of an *incarnation*. One that was found without a lease is dead for ever,
  so a replica that lapsed goes on under another name, and only with those sessions that nobody has taken
  meanwhile.
- While Redis answers nobody, nobody can take a session over: all others say so when they are asked, and
  promise to leave ours alone for the span of a lease, should Redis come back before we notice. So owners go
  on serving. If one of them does see Redis, or does not answer, the lease runs out.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from mooring.errors import MooringError
from mooring.replicas.lease import Lease
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.shared_store import SharedStore
from mooring.replicas.store_errors import StoreUnavailable

__all__ = ["Membership", "Neighbours"]

log = logging.getLogger("mooring.replicas")

Got = TypeVar("Got")

LOOK_TURNS = 2
"""Of the renewals, at which it is seen who else is there."""


class Neighbours(Protocol):
    """The way to other replicas."""

    async def promise_rest(self, replica: Replica, incarnation: str) -> bool:
        """Does it see no Redis either, and leave our sessions alone?"""
        ...

    async def holds(self, replica: Replica, incarnation: str) -> bool:
        """Does it live, and was that one of its names?"""
        ...


class Membership:
    """`on_reborn(is_empty)` is awaited when the name has changed: what was held under another is to be had
    again.

    `is_empty`: Redis has lost all it knew. `on_look` is awaited whenever it is seen what Redis still knows.
    `is_named` tells whether something here is found by a name that we had.
    """

    def __init__(
        self,
        store: SharedStore,
        policy: ReplicaPolicy,
        replica: Replica,
        *,
        clock: Callable[[], float],
        neighbours: Neighbours,
        on_reborn: Callable[[bool], Awaitable[None]],
        on_look: Callable[[], Awaitable[None]],
        is_named: Callable[[str], bool],
    ) -> None:
        """`clock` counts suspension."""
        self.replica = replica
        self.name = ""
        self.names: set[str] = set()
        """Under which we have lived, and may still be found."""
        self.others: dict[str, Replica] = {}
        """Those that had a lease when we last looked."""
        self.trouble: StoreUnavailable | None = None
        """What Redis did not do last."""
        self.on_dead: Callable[[str], None] = lambda incarnation: None
        """Hears of each whose lease has run out, at every look."""
        self._store = store
        self._policy = policy
        self._clock = clock
        self._neighbours = neighbours
        self._on_reborn = on_reborn
        self._on_look = on_look
        self._is_named = is_named
        self._lease = Lease(policy.holder_s, clock)
        self._is_settled = False
        self._is_leaving = False
        self._epoch = ""
        self._refilled_at = 0.0
        """Until when others may still be writing down what Redis has lost."""
        self._promised: dict[str, float] = {}
        """Until when we leave the sessions of these alone."""
        self._dead_since: dict[str, float] = {}
        self._former: dict[str, float] = {}
        """Names that we had, and by which we are still found, since when we have another."""
        self._forgetting: asyncio.Task[None] | None = None
        self._known: dict[str, Replica] = {}
        self._turns = 0
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def holds(self) -> bool:
        """May we act for our sessions? Asked before each write to a child: so in one step."""
        return self._is_settled and self._clock() < self._lease.until

    @property
    def sees_store(self) -> bool:
        """Did Redis answer last?"""
        return self.trouble is None

    async def begin(self) -> None:
        """Join. Raises StoreUnavailable."""
        await self._be_born()
        self._epoch = await self._store.epoch(secrets.token_hex(8))
        await self._look_around()
        self._is_settled = True
        self._task = asyncio.create_task(self._run(), name="renewing the lease of this replica")

    async def aclose(self) -> None:
        """Leave: whatever is still ours is anybody's."""
        self._lease.lapse()
        # Of several questions at once, one that fails by being cancelled hides that all were.
        self._is_leaving = True
        for task in (self._task, self._forgetting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        try:
            await self._store.retire(self.name)
        except StoreUnavailable as error:
            text = "others learn late that this replica is gone: Redis cannot be reached: %s"
            log.warning(text, error.why)

    def hurry(self) -> None:
        """Somebody needs to know now how it stands."""
        self._hurry.set()

    # Of others

    async def address_of(self, incarnation: str) -> Replica | None:
        """Where it is, or was. Raises StoreUnavailable."""
        if incarnation not in self._known:
            self._known.update(await self._store.replicas())
        return self._known.get(incarnation)

    async def may_take_from(self, incarnation: str) -> bool:
        """Is it dead, for ever? Raises StoreUnavailable."""
        if not incarnation or incarnation == self.name:
            return True
        if self._clock() < self._promised.get(incarnation, 0.0):
            return False
        return not await self._store.is_alive(incarnation)

    async def is_refilling(self) -> bool:
        """Has Redis lost what it knew, so that what is missing may be somebody's? Raises StoreUnavailable."""
        return self._clock() < self._refilled_at or await self._store.seen_epoch() != self._epoch

    def promise_rest(self, incarnation: str) -> bool:
        """Another cannot see Redis, and asks whether we can."""
        if self.trouble is None:
            return False
        self._promised[incarnation] = self._clock() + self._policy.lease_s
        return True

    # Our own

    async def _be_born(self) -> None:
        self.name = f"{self.replica.host or 'replica'}-{secrets.token_hex(5)}"
        self._lease = Lease(self._policy.holder_s, self._clock)
        asked_at = self._lease.now()
        await self._store.begin(self.name, self.replica, self._policy.lease_s)
        self._live_on(asked_at)

    def _live_on(self, asked_at: float) -> None:
        """Redis has our lease. The name is ours with the first answer that says so: that to our birth may be
        lost."""
        self.names.add(self.name)
        self._lease.renewed(asked_at)

    async def _run(self) -> None:
        turned_at = self._clock()
        while not self._is_leaving:
            failing = self.trouble is not None or not self._is_settled
            wait_s = self._policy.failing_s if failing else self._policy.renew_s
            try:
                async with asyncio.timeout(wait_s):
                    await self._hurry.wait()
                    # However many are in a hurry.
                    await asyncio.sleep(max(0.0, turned_at + self._policy.failing_s - self._clock()))
            except TimeoutError:
                pass
            self._hurry.clear()
            turned_at = self._clock()
            try:
                await self._turn()
            except Exception:  # a bug of ours must not end the lease
                log.exception("the lease of this replica could not be looked after")

    async def _turn(self) -> None:
        asked_at = self._lease.now()
        try:
            lives = await self._soon(
                self._store.renew(self.name, self._policy.lease_s), self._policy.renewal_s
            )
            if lives:
                self._live_on(asked_at)
            else:
                await self._lapse()
            if not self._is_settled:
                await self._settle()
            self._turns += 1
            if self.trouble is not None or self._turns % LOOK_TURNS == 0:
                await self._soon(self._look_around(), self._policy.renew_s)
        except StoreUnavailable as error:
            self._note_trouble(error)
            await self._ask_others(asked_at)
            return
        if self.trouble is not None:
            log.info("Redis answers again", extra={"event": "sessions_reachable"})
            self.trouble = None

    async def _soon(self, work: Awaitable[Got], wait_s: float) -> Got:
        """It must not take the rest of the lease. Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(wait_s):
                return await work
        except TimeoutError:
            raise self._store.late(wait_s) from None

    async def _lapse(self) -> None:
        """Under this name we own nothing any more."""
        self._is_settled = False
        self._lease.lapse()
        if self.name in self.names:
            self._former[self.name] = self._clock()
        log.warning(
            "the lease of this replica was lost: it goes on under another name, with what is still its own",
            extra={"event": "lease_lost"},
        )
        await self._be_born()

    async def _settle(self) -> None:
        """Under a new name. Whatever was taken back before something went wrong stays so."""
        epoch = await self._store.epoch(secrets.token_hex(8))
        if is_empty := epoch != self._epoch:
            self._refilled_at = self._clock() + self._policy.lease_s
        await self._while_renewing(self._on_reborn(is_empty))
        self._epoch = epoch
        self._is_settled = True

    async def _while_renewing(self, work: Awaitable[None]) -> None:
        """It may take longer than a lease: there may be very many sessions. Raises StoreUnavailable."""
        working = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([working], timeout=self._policy.renew_s))[0]:
                asked_at = self._lease.now()
                if not await self._store.renew(self.name, self._policy.lease_s):
                    raise StoreUnavailable("the lease was lost again")
                self._live_on(asked_at)
            working.result()
        finally:
            working.cancel()
            await asyncio.wait([working])

    async def _look_around(self) -> None:
        known = self._known = await self._store.replicas()
        for name in {self.name, *self._former} - known.keys():
            # Lost, with the one node of a cluster that had it, say; or with everything.
            await self._store.tell_address(name, self.replica)
            known[name] = self.replica
        if (epoch := await self._store.epoch(self._epoch)) != self._epoch:  # that too
            self._epoch, self._refilled_at = epoch, self._clock() + self._policy.lease_s
        await self._on_look()
        known = dict(known)  # more may be heard of meanwhile (`address_of`)
        lives = await asyncio.gather(*map(self._store.is_alive, known))
        alive = {name: at for (name, at), lives in zip(known.items(), lives, strict=True) if lives}
        # Redis may have lost their names as well.
        dead = (known.keys() | self.others.keys() | self._dead_since.keys()) - alive.keys()
        self.others = {name: at for name, at in alive.items() if name != self.name}
        now = self._clock()
        for name in dead:
            self.on_dead(name)
        self._dead_since = {name: self._dead_since.get(name, now) for name in dead}
        self._former = {
            name: since
            for name, since in self._former.items()
            if not self._is_old(since) or self._is_named(name)
        }
        old = [name for name, since in self._dead_since.items() if self._is_old(since)]
        if old and (self._forgetting is None or self._forgetting.done()):
            self._forgetting = asyncio.create_task(self._forget(old), name="forgetting replicas")
        self._promised = {name: until for name, until in self._promised.items() if until > now}

    def _is_old(self, since: float) -> bool:
        """Does nobody come any more who knows it from then, unless for what is open for so long?"""
        return self._clock() - since >= self._policy.remembered_s

    async def _forget(self, names: list[str]) -> None:
        """Those by which nobody is found."""
        for name in names:
            if name in self._former or (
                name not in self.names
                and (replica := self._known.get(name)) is not None
                and await self._neighbours.holds(replica, name)
            ):
                self._dead_since[name] = self._clock()
                continue
            try:
                await self._store.forget(name)
            except StoreUnavailable:
                return  # it is seen again
            self._dead_since.pop(name, None)
            self.names.discard(name)

    def _note_trouble(self, error: StoreUnavailable) -> None:
        if self.trouble is None:
            cause = str(error.__cause__ or "")
            log.warning("%s", error.message, extra={"event": error.code, "cause": cause})
        self.trouble = error

    async def _ask_others(self, asked_at: float) -> None:
        """Does nobody see Redis? Asked when the lease would end before long."""
        if not self.holds() or self._lease.left_s > self._policy.lease_s / 2:
            return
        asked = [self._neighbours.promise_rest(replica, self.name) for replica in self.others.values()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, MooringError):
                raise answer
        if all(answer is True for answer in answers):
            self._lease.renewed(asked_at)
