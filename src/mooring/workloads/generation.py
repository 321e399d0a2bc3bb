"""One incarnation of a named server: from its first start to the end of its last process.

It never begins twice; the next start is another generation. Its end may take a while (calls finish,
streams are ended, processes stop), and the next one need not wait for that: whatever this one still
writes is about a generation that is no more, and is not taken.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from mooring.runtimes.household import Household
from mooring.store.database import StoreError
from mooring.store.records import Session as Record
from mooring.store.records import Workload as Wanted
from mooring.store.store import StaleGeneration
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.snapshot import Snapshot
from mooring.workloads.definition import ServerOptions
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.history import History
from mooring.workloads.session_keeper import SessionKeeper
from mooring.workloads.state import State
from mooring.workloads.workload import Workload

__all__ = ["Generation"]

log = logging.getLogger("mooring.workload")


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
        household: Household | None = None,
    ) -> None:
        self.name = wanted.name
        self.number = wanted.generation
        self.began_at = wall()
        self.workload = Workload(options, clock=clock, wall=wall, on_happening=self.tell, household=household)
        self._state = state
        self._history = history
        self._keeper = SessionKeeper(self.workload.proxy, self._keep, clock=clock, wall=wall)
        self._ending: asyncio.Task[int] | None = None

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

    async def begin(self) -> None:
        """Take over the sessions of its predecessor, and start."""
        try:
            records = await self._state.do(lambda store: store.sessions(self.name))
        except StoreError as error:  # a server without its sessions is better than none
            log.error("%s: its sessions cannot be read: %s", self.name, error.message)
            records = []
        if not self.is_ending:
            self._keeper.restore(records)
            self.workload.start()

    async def end(self, cause: str, calls_s: float | None, code: ReasonCode = ReasonCode.ASKED) -> int:
        """Finish what is under way, for so long; then stop everything. Returns how many calls were cut.

        Idempotent: whoever asks again waits for the same end.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(cause, calls_s, code), name=f"{self.name}: ending")
        return await asyncio.shield(self._ending)

    def hurry(self) -> None:
        """No more patience: neither with calls nor with processes."""
        self.workload.proxy.cut("shutting_down", "stopped at once; the call was not finished")
        self.workload.hurry()

    async def _end(self, cause: str, calls_s: float | None, code: ReasonCode) -> int:
        proxy = self.workload.proxy
        self.workload.drain(cause, code)
        proxy.refuse_new(cause)
        proxy.hang_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(calls_s):
                await proxy.wait_quiet()
        cut = proxy.cut("shutting_down", f"{cause}; the call was not finished")
        proxy.hang_up()
        await self.workload.stop(cause)
        await self._keeper.aclose()
        self.tell(Happening(Kind.STOPPED, f"{cause}; {cut} calls were cut off" if cut else cause))
        return cut

    async def _keep(self, changed: list[Record], ended: list[str]) -> None:
        with suppress(StaleGeneration):  # its successor has them
            await self._state.do(lambda store: store.keep_sessions(self.name, self.number, changed, ended))
