"""Writes down what happens to servers: in order, off the path of calls, and for those who wait to hear of it.

Invariants:
- `tell` never waits. What it was told is written after everything that was asked of the store before, and
  before everything asked later; so it is checked against the generation that it is about.
- What an old generation still tells is not taken; nobody needs to know.
- At most `MOST_UNWRITTEN` wait for the disk; more are dropped, and the log says how many.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.errors import MooringError
from mooring.store.records import Event
from mooring.store.store import StaleGeneration
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.state import State

__all__ = ["History"]

log = logging.getLogger("mooring.workload")

MOST_UNWRITTEN = 1000
"""Events that wait for a disk which does not keep up."""


class History:
    """The journal of one daemon."""

    def __init__(self, state: State, wall: Callable[[], float]) -> None:
        self._state = state
        self._wall = wall
        self._unwritten = 0
        self._dropped = 0
        self._failing = False
        self._closed = False
        self._is_parted = False
        self._news = asyncio.Event()

    def tell(self, name: str, generation: int, happening: Happening) -> None:
        """It has happened, now; to Mooring itself if there is no name."""
        if self._is_parted:
            return
        if self._unwritten >= MOST_UNWRITTEN:
            self._dropped += 1
            return
        at = self._wall()
        kind, text = happening
        self._unwritten += 1
        writing = self._state.do(lambda store: store.tell(name, generation, kind, text, at))
        writing.add_done_callback(self._written)

    def _written(self, writing: "asyncio.Future[None]") -> None:
        self._unwritten -= 1
        error = writing.exception()
        if error is None:
            self._failing = False
            self.changed()
        elif not isinstance(error, StaleGeneration) and not self._failing:
            self._failing = True
            what = error.message if isinstance(error, MooringError) else repr(error)
            log.warning("events cannot be written down: %s", what, extra={"event": "history_failing"})
        if self._dropped and not self._unwritten:
            log.warning("%d events were dropped: the disk was too slow", self._dropped)
            self._dropped = 0

    async def opened(self, about: str) -> None:
        """Mooring has started. If the one before did not say that it ended, it was killed."""
        before = await self._state.do(lambda store: store.last_event(""))
        if before is None or before.kind == Kind.DAEMON_ENDED:
            self.tell("", 0, Happening(Kind.DAEMON_STARTED, about))
        else:
            text = f"{about}; the one before ({before.text.partition(';')[0]}) ended without a word"
            self.tell("", 0, Happening(Kind.DAEMON_RECOVERED, text))

    def changed(self) -> None:
        """There is something new in the store: whoever waits looks again."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """Nobody is kept waiting any longer."""
        self._closed = True
        self.changed()

    def part(self) -> None:
        """Another Mooring writes it from now on; whoever waits asks that one."""
        self._is_parted = True
        self.close()

    @property
    def news(self) -> asyncio.Event:
        """Set as soon as there is something newer than what there is now."""
        return self._news

    async def read(self, name: str = "", *, after: int = 0, since: float = 0.0, wait_s: float) -> list[Event]:
        """What has happened; if that is nothing, what happens first within `wait_s`."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + wait_s
        while True:
            news = self._news
            found = await self._state.do(lambda store: store.events(name, after=after, since=since))
            if found or self._closed or loop.time() >= give_up_at:
                return found
            try:
                async with asyncio.timeout_at(give_up_at):
                    await news.wait()
            except TimeoutError:
                continue
