"""One incarnation of a named server: from its first start to the end of its last process.

It never begins twice; the next start is another generation. Its end may take a while (calls finish,
streams are ended, processes stop), and the next one need not wait for that: whatever this one still
writes is about a generation that is no more, and is not taken.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.household import Household
from mooring.store.database import StoreError
from mooring.store.records import Era
from mooring.store.records import Session as Record
from mooring.store.records import Workload as Wanted
from mooring.store.store import StaleGeneration
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.snapshot import Snapshot
from mooring.workloads.definition import ServerOptions
from mooring.workloads.era_memory import EraMemory
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.history import History
from mooring.workloads.passing import Learnt, PassedGeneration
from mooring.workloads.resolving import Resolving
from mooring.workloads.session_keeper import SessionKeeper
from mooring.workloads.state import State
from mooring.workloads.workload import Workload

__all__ = ["Generation"]

log = logging.getLogger("mooring.workload")

MARKS = frozenset({Kind.STARTED, Kind.REPLACED, Kind.STOPPED})
"""What the log of a server has besides its words and exits: where one life of it ends and the next begins."""


class Generation:
    """See the module. `number` is what the store calls it."""

    def __init__(
        self,
        wanted: Wanted,
        options: ServerOptions,
        state: State,
        history: History,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        on_unwanted: "Callable[[Generation, str], None]" = lambda generation, why: None,
        household: Household | None = None,
        harbours: Harbours | None = None,
        resolving: Resolving | None = None,
    ) -> None:
        self.name = wanted.name
        self.number = wanted.generation
        self.began_at = wall()
        self.workload = Workload(
            options,
            clock=clock,
            wall=wall,
            on_happening=self.tell,
            on_unwanted=lambda why: on_unwanted(self, why),
            household=household,
            harbours=harbours,
            resolving=resolving,
            generation=wanted.generation,
        )
        self._state = state
        self._history = history
        command = json.dumps(options.what)
        self._eras = EraMemory(command, self.workload.proxy.stateless, self._keep_era)
        self.workload.trial.on_met = self._eras.met
        self._writes: set[asyncio.Task[None]] = set()
        self._keeper = SessionKeeper(self.workload.proxy, self._keep, clock=clock, wall=wall)
        self._ending: asyncio.Task[int] | None = None
        self._records: list[Record] = []
        """Of sessions, as they were written down by the Mooring before."""
        self.why_ending = ""

    @property
    def is_ending(self) -> bool:
        """It was told to end, or has."""
        return self._ending is not None

    def snapshot(self) -> Snapshot:
        """How it is."""
        return self.workload.supervisor.snapshot()

    def tell(self, happening: Happening) -> None:
        """It has happened to this one; not taken if there is another by now."""
        self._history.tell(self.name, self.number, happening)
        if happening.kind in MARKS:
            text = "%s %s: %s (generation %d)"
            about = {"event": str(happening.kind), "server": self.name}
            log.info(text, self.name, happening.kind, happening.text, self.number, extra=about)

    async def begin(self) -> bool:
        """Take over the sessions of its predecessor, and start; False: it was told to end meanwhile."""
        try:
            records = await self._state.do(lambda store: store.sessions(self.name))
            self._eras.recall(await self._state.do(lambda store: store.era(self._eras.command)))
        except StoreError as error:  # a server without its sessions is better than none
            log.error("%s: its sessions cannot be read: %s", self.name, error.message)
            records = []
        if self.is_ending:
            return False
        self._keeper.restore(records)
        self.workload.start()
        return True

    # Going on at another Mooring, or here

    def describe(self, elsewhere: list[str]) -> PassedGeneration:
        """All that another Mooring needs to go on with it, but for its sessions."""
        workload = self.workload
        return PassedGeneration(
            self.name,
            self.number,
            self.began_at,
            workload.supervisor.dump(),
            Learnt.of(workload),
            workload.proxy.stats.dump(),
            list(workload.recollection.exits),
            elsewhere,
            parking.key if (parking := workload.proxy.stateless.parking) is not None else b"",
            workload.mask.pieces,
        )

    async def flush(self) -> None:
        """Write down what its sessions need, now."""
        await self._keeper.flush()

    def part(self) -> None:
        """Another Mooring has it: what is still under way here is finished, and told to nobody."""
        self._keeper.part()
        self.workload.proxy.health.is_over = True
        self.workload.part()

    async def leave(self) -> None:
        """After `part`: nothing is under way any more, end what is left of it here."""
        self._ending = self._ending or asyncio.create_task(self._leave(), name=f"{self.name}: leaving")
        await asyncio.shield(self._ending)

    async def _leave(self) -> int:
        await self.workload.stop("another daemon has taken over")
        await self._keeper.aclose()
        if self._writes:
            await asyncio.wait(self._writes)
        return 0

    async def go_on(self, passed: PassedGeneration) -> None:
        """Instead of `begin`: with what another Mooring has told of it."""
        self.began_at = passed.began_at
        try:
            self._records = await self._state.do(lambda store: store.sessions(self.name))
            self._eras.recall(await self._state.do(lambda store: store.era(self._eras.command)))
        except StoreError as error:
            log.error("%s: its sessions cannot be read: %s", self.name, error.message)
        self._keeper.know(self._records)
        workload = self.workload
        workload.mask.know(passed.values)
        passed.learnt.tell(workload)
        workload.proxy.stats.load(passed.counts)
        workload.recollection.exits.extend(passed.exits)
        workload.go_on(passed.so_far)

    def bring_back(self, ids: Collection[str]) -> None:
        """The Mooring that still had these sessions is gone: they go on as after a kill."""
        self._keeper.restore([record for record in self._records if record.id in ids])

    async def end(
        self,
        cause: str,
        calls_s: float | None,
        drained: Callable[[], None],
        code: ReasonCode = ReasonCode.ASKED,
    ) -> int:
        """Finish what is under way, for so long; then stop everything. Returns how many calls were cut.

        `drained` is called when nothing is under way any more: from then on it knows no sessions, and must
        not be asked for them. Idempotent: whoever asks again waits for the same end.
        """
        if self._ending is None:
            self.why_ending = cause
            ending = self._end(cause, calls_s, drained, code)
            self._ending = asyncio.create_task(ending, name=f"{self.name}: ending")
        return await asyncio.shield(self._ending)

    def hurry(self) -> None:
        """No more patience: neither with calls nor with processes."""
        self.workload.proxy.cut("shutting_down", "stopped at once; the call was not finished")
        self.workload.hurry()

    async def _end(
        self, cause: str, calls_s: float | None, drained: Callable[[], None], code: ReasonCode
    ) -> int:
        proxy = self.workload.proxy
        self.workload.drain(cause, code)
        proxy.refuse_new(cause)
        proxy.hang_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(calls_s):
                await proxy.wait_quiet()
        cut = proxy.cut("shutting_down", f"{cause}; the call was not finished")
        proxy.hang_up()
        drained()
        await self.workload.stop(cause)
        await self._keeper.aclose()
        if self._writes:
            await asyncio.wait(self._writes)
        self.tell(Happening(Kind.STOPPED, f"{cause}; {cut} calls were cut off" if cut else cause))
        return cut

    async def _keep(self, changed: list[Record], ended: list[str]) -> None:
        with suppress(StaleGeneration):  # its successor has them
            await self._state.do(lambda store: store.keep_sessions(self.name, self.number, changed, ended))

    def _keep_era(self, era: Era) -> None:
        async def keep() -> None:
            with suppress(StoreError):  # then it is found out once more
                await self._state.do(lambda store: store.keep_era(self.name, self.number, era))

        task = asyncio.create_task(keep(), name=f"{self.name}: keeping its era")
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
