"""What happens to our containers, as the engine tells it: one stream of events for all of them.

Invariants:
- Between two streams there is a gap, in which anything may have happened. After each, everybody who listens
  is told so (`on_gap`), and looks for himself. So no event is missed for good, whatever becomes of a stream.
- A stream that ends is opened again, for as long as anybody listens: at once, then less and less often.
- What a listener raises is logged and harms nobody; neither does what nobody has thought of.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Protocol

from mooring.errors import MooringError
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.events import Event, read_event
from mooring.runtimes.containers.failures import engine_unreachable
from mooring.runtimes.containers.labels import owner_filter
from mooring.runtimes.output import call

__all__ = ["Listener", "Watch"]

log = logging.getLogger("mooring.containers")

FIRST_PAUSE_S = 0.05
SLOWEST_PAUSE_S = 1.0
"""An engine that is gone is back at most so much earlier than we know it."""
OPENING_S = 15.0
"""For the first stream."""


Attendant = Callable[[MooringError | None], None]


class Listener(Protocol):
    """Who wants to know of a container."""

    def on_event(self, event: Event) -> None:
        """Something happened to it."""
        ...

    def on_gap(self) -> None:
        """Something may have: the engine is there, and was not listened to for a while."""
        ...


class Watch:
    """See the module."""

    def __init__(self, engine: Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner
        self._listeners: dict[str, list[Listener]] = {}
        self._attendants: set[Attendant] = set()
        self._following: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        """Set when a stream was opened, or could not be."""
        self._poked = asyncio.Event()
        """Somebody wants one now."""
        self._attempts = 0
        self._is_open = False
        self._error: MooringError | None = None
        self.streams = 0
        """How many were opened."""

    @property
    def is_open(self) -> bool:
        """It hears what happens now."""
        return self._is_open

    @property
    def trouble(self) -> MooringError | None:
        """Why the engine cannot be heard; None: it can be, or that is not known yet."""
        return self._error

    def attend(self, attendant: Attendant) -> None:
        """Tell it when the engine cannot be heard any more, and (with None) when it can be again."""
        self._attendants.add(attendant)

    def leave(self, attendant: Attendant) -> None:
        """No more; idempotent."""
        self._attendants.discard(attendant)

    def listen(self, container: str, listener: Listener) -> None:
        """Tell it of everything that happens to that container."""
        self._listeners.setdefault(container, []).append(listener)

    def forget(self, container: str, listener: Listener) -> None:
        """No more; idempotent."""
        there = self._listeners.get(container, [])
        if listener in there:
            there.remove(listener)
        if not there:
            self._listeners.pop(container, None)

    async def ensure(self) -> None:
        """Wait until everything that happens from now on is heard. Raises what is wrong with the engine."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="following an engine's events")
        attempts = self._attempts
        self._poked.set()
        try:
            async with asyncio.timeout(OPENING_S):
                while not self._is_open:
                    if self._error is not None and self._attempts > attempts:
                        raise self._error
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise engine_unreachable(str(self._engine.endpoint), "it tells nothing of containers") from error

    async def aclose(self) -> None:
        """Idempotent."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])

    async def _follow(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            opened = self.streams
            try:
                await self._follow_one()
            except MooringError as error:
                # That a stream broke says nothing of the engine; that none can be opened does.
                if self.streams == opened:
                    self._tell_trouble(error)
            except Exception as error:  # whatever it is: of what happens from now on nobody else would tell
                log.exception("following an engine's events failed")
                if self.streams == opened:
                    self._tell_trouble(engine_unreachable(str(self._engine.endpoint), repr(error)))
            finally:
                self._is_open = False
                self._attempts += 1
                self._news.set()
            pause_s = FIRST_PAUSE_S if self.streams > opened else min(2 * pause_s, SLOWEST_PAUSE_S)
            self._poked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._poked.wait()

    def _tell_trouble(self, error: MooringError | None) -> None:
        """Once, at its beginning and at its end."""
        is_news, self._error = (self._error is None) != (error is None), error
        if not is_news:
            return
        if error is None:
            log.info("the container engine answers again", extra={"event": "engine_back"})
        elif self.streams > 0:
            log.warning("%s", error.message, extra={"event": error.code})
        for attendant in tuple(self._attendants):
            call(attendant, error)

    async def _follow_one(self) -> None:
        async with self._engine.events(owner_filter(self._owner)) as lines:
            self.streams += 1
            self._is_open = True
            self._tell_trouble(None)
            self._news.set()
            if self.streams > 1:
                for listener in [each for there in self._listeners.values() for each in there]:
                    call(listener.on_gap)
            async for line in lines:
                if (event := read_event(line)) is not None:
                    for listener in tuple(self._listeners.get(event.container, ())):
                        call(listener.on_event, event)
