"""What instances leave behind that ended unasked: their containers.

    held       it has exited, and it looks as if somebody else had ended it: perhaps to start it again
    stray      somebody else has started it again: it runs, and nobody speaks to it
    disposed   it is being removed; for as long as the engine does not answer, again and again

One that was started again is not replaced, but attached to: whoever wants an instance gets it (`claim`). What
nobody wants in time is removed. A crash looks otherwise than an end by others' hands, and is not waited for.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

from mooring.errors import MooringError
from mooring.runtimes.containers.endpoints import DOCKER
from mooring.runtimes.containers.engine import Engine, Removal
from mooring.runtimes.containers.events import Event, Happened
from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.containers.leftovers import Debt
from mooring.runtimes.containers.spec import ContainerSpec
from mooring.runtimes.containers.watch import Watch
from mooring.runtimes.output import call

__all__ = ["Remainder", "Remains", "may_come_back"]

log = logging.getLogger("mooring.containers")

HOLD_S = 1.0
"""For a restart by others, where only the way it ended suggests one. In between an engine needs 0.3 s."""
MEDDLED_HOLD_S = 5.0
"""The same where the engine has told that somebody asked for it; told meanwhile, from then on."""
STRAY_S = 10.0
"""For somebody who wants a container that others have started again."""
FIRST_PAUSE_S = 0.1
SLOWEST_PAUSE_S = 2.0
CLOSING_S = 5.0
"""For what is left when the runtime closes; beyond that, the harbour sees to it."""
SIGTERM_STATUS, SIGKILL_STATUS = 128 + 15, 128 + 9


def may_come_back(exit: ContainerExit, *, was_meddled_with: bool, is_told: bool) -> bool:
    """Does it look as if somebody else had ended it, perhaps to start it again?

    `is_told`: of that we would have heard. Otherwise the way it ended is all there is to go by.
    """
    if exit.ending is not Ending.EXITED or exit.out_of_memory or exit.error is not None:
        return False
    return was_meddled_with or (not is_told and exit.code in (0, SIGTERM_STATUS, SIGKILL_STATUS))


class _State(StrEnum):
    HELD = "held"
    STRAY = "stray"
    TAKEN = "taken"
    REMOVED = "removed"
    DISPOSED = "disposed"


class Remainder:
    """One container that is left."""

    def __init__(
        self,
        container: str,
        spec: ContainerSpec,
        engine: Engine,
        watch: Watch,
        on_excused: Callable[[], None] = lambda: None,
    ) -> None:
        self.container = container
        self._on_excused = on_excused
        self.spec = spec
        self.is_claimed = False
        self.was_meddled_with = False
        """Somebody else has asked for its end, or its restart."""
        self.state = _State.HELD
        self.debt = Debt(container)
        self.is_asked_for = False
        """By us, its end is: then that it is not there does not mean that others have removed it."""
        self.is_unseen = False
        """The engine was gone: what became of it meanwhile is to be seen before anything is done to it."""
        self.news = asyncio.Event()
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """It is no longer held."""
        self._engine = engine
        self._watch = watch
        watch.listen(container, self)

    def on_event(self, event: Event) -> None:
        """Something happened to it."""
        if event.happened is Happened.MEDDLED and not self.was_meddled_with:
            self.was_meddled_with = True
            self.news.set()
            call(self._on_excused)
        if event.happened in (Happened.STARTED, Happened.REMOVED, Happened.DIED):
            self.news.set()

    def on_gap(self) -> None:
        """Something may have."""
        self.news.set()

    def become(self, state: _State) -> None:
        """It is that now."""
        self.state = state
        if state is _State.STRAY:
            call(self._on_excused)
        if state is not _State.HELD and not self.decided.done():
            self.decided.set_result(None)
        if state not in (_State.HELD, _State.STRAY):
            self._watch.forget(self.container, self)
        self.news.set()

    async def look(self) -> None:
        """Is it there, does it run? If that cannot be known now, all stays as it is."""
        self.news.clear()
        try:
            seen = await self._engine.inspect(self.container)
        except MooringError:
            return
        if self.state not in (_State.HELD, _State.STRAY):
            return
        if seen is None:
            self.become(_State.REMOVED)
        elif seen.state.running:
            self.become(_State.STRAY)
        elif self.state is _State.STRAY:
            self.become(_State.DISPOSED)

    async def is_there(self) -> bool:
        """Raises what is wrong with the engine."""
        return await self._engine.inspect(self.container) is not None

    async def remove(self) -> Removal | None:
        """For good; None: it may still come. Raises what is wrong with the engine."""
        return await self.debt.pay(self._engine)


class Remains:
    """See the module."""

    def __init__(
        self,
        on_removed: Callable[[str], None],
        on_decided: Callable[[], None] = lambda: None,
        on_excused: Callable[[int], None] = lambda n: None,
    ) -> None:
        """`on_removed` hears the id of a container that others have removed.

        `on_excused` hears the number of an instance whose end was the doing of others, as is known only now.

        `on_decided`: one that was held is not any more, whether it has come back or not.
        """
        self._on_removed = on_removed
        self._on_decided = on_decided
        self._on_excused = on_excused
        self._left: dict[Remainder, asyncio.Task[None]] = {}
        self._closing = asyncio.Event()

    def __len__(self) -> int:
        return len(self._left)

    @property
    def may_return(self) -> bool:
        """Is there one that nobody has claimed, and that runs again or may soon?"""
        return any(not rest.is_claimed and rest.state in (_State.HELD, _State.STRAY) for rest in self._left)

    def take(self, instance: ContainerInstance, spec: ContainerSpec, engine: Engine, watch: Watch) -> None:
        """Look after what an instance has left."""
        exit = instance.exit
        if exit is not None and exit.ending is Ending.REMOVED:
            call(self._on_removed, instance.id)
            return
        rest = Remainder(instance.id, spec, engine, watch, partial(self._on_excused, instance.n))
        rest.is_asked_for = instance.was_asked_to_end
        is_lost = exit is not None and exit.ending is Ending.ENGINE_GONE
        rest.is_unseen = is_lost and not instance.was_asked_to_end
        rest.was_meddled_with = instance.was_meddled_with
        if exit is None or instance.was_asked_to_end:
            rest.become(_State.DISPOSED)
        elif exit.ending is Ending.RESTARTED:
            rest.become(_State.STRAY)
        elif not may_come_back(
            exit,
            was_meddled_with=rest.was_meddled_with,
            # Podman's events come up to a quarter of a second late.
            is_told=engine.kind == DOCKER and watch.is_open,
        ):
            rest.become(_State.DISPOSED)
        self._look_after(rest)

    def dispose(
        self,
        container: str,
        spec: ContainerSpec,
        engine: Engine,
        watch: Watch,
        after: "asyncio.Future[Any] | None" = None,
    ) -> None:
        """Remove a container of ours, in the background; `after` that, which makes it, has come to an end."""
        rest = Remainder(container, spec, engine, watch)
        rest.become(_State.DISPOSED)
        rest.debt = Debt(container, after)
        rest.is_asked_for = True
        self._look_after(rest)

    async def claim(self, spec: ContainerSpec) -> str | None:
        """The id of a container that others have started again, which is the caller's from now on.

        Waits for one that may be, once for each; None: there is none.
        """
        for rest in tuple(self._left):
            if rest.is_claimed or rest.spec != spec or rest.state not in (_State.HELD, _State.STRAY):
                continue
            rest.is_claimed = True
            try:
                await asyncio.shield(rest.decided)
            except asyncio.CancelledError:
                rest.is_claimed = False
                raise
            if rest.state is _State.STRAY:
                rest.become(_State.TAKEN)
                return rest.container
        return None

    async def aclose(self) -> list[Debt]:
        """Remove them all, within bounds; returns those that could not be."""
        self._closing.set()
        for rest in self._left:
            rest.news.set()
        if self._left:
            await asyncio.wait(self._left.values(), timeout=CLOSING_S)
        owed = [rest.debt for rest in self._left]
        for task in tuple(self._left.values()):
            task.cancel()
        if self._left:
            await asyncio.wait(self._left.values())
        return owed

    def _look_after(self, rest: Remainder) -> None:
        task = asyncio.create_task(self._see_to(rest), name=f"what is left of {rest.container[:12]}")
        self._left[rest] = task
        task.add_done_callback(lambda task: self._on_done(rest, task))
        rest.decided.add_done_callback(lambda _: call(self._on_decided))

    def _on_done(self, rest: Remainder, task: "asyncio.Task[None]") -> None:
        del self._left[rest]
        if rest.state in (_State.HELD, _State.STRAY):
            rest.become(_State.DISPOSED)
        if not task.cancelled() and (error := task.exception()):
            log.error("what is left of %s could not be looked after", rest.container, exc_info=error)

    async def _see_to(self, rest: Remainder) -> None:
        if not rest.was_meddled_with:
            await self._follow(rest, _State.HELD, HOLD_S, unless=lambda: rest.was_meddled_with)
        if rest.was_meddled_with:
            await self._follow(rest, _State.HELD, MEDDLED_HOLD_S)
        if rest.state is _State.HELD:
            rest.become(_State.DISPOSED)
        await self._follow(rest, _State.STRAY, STRAY_S)
        if rest.state is _State.REMOVED:
            call(self._on_removed, rest.container)
        elif rest.state is not _State.TAKEN:
            rest.become(_State.DISPOSED)
            await self._remove(rest)

    async def _follow(
        self, rest: Remainder, state: _State, seconds: float, unless: Callable[[], bool] = lambda: False
    ) -> None:
        """For as long as it is in that state, and no longer than that."""

        def goes_on() -> bool:
            return rest.state is state and not self._closing.is_set() and not unless()

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while goes_on():
                    await rest.look()
                    if goes_on():
                        await rest.news.wait()

    async def _is_still_there(self, rest: Remainder) -> bool:
        """Asked for as long as that cannot be known: only what we have not begun to remove can be missed."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await rest.is_there()
            except MooringError as error:
                log.debug("%s cannot be looked at yet: %s", rest.container[:12], error.message)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, SLOWEST_PAUSE_S)

    async def _remove(self, rest: Remainder) -> None:
        if rest.is_unseen and not await self._is_still_there(rest):
            call(self._on_removed, rest.container)
            return
        await rest.debt.due()
        proves, pause_s = not rest.is_asked_for, FIRST_PAUSE_S
        while True:
            try:
                how = await rest.remove()
            except MooringError as error:
                # Perhaps it was heard, and only not answered: what is missing then may be our own doing.
                proves = False
                log.debug("%s is not removed yet: %s", rest.container[:12], error.message)
            else:
                if proves and how in (Removal.MISSING, Removal.OTHERS):
                    call(self._on_removed, rest.container)
                if how is not None:
                    return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, SLOWEST_PAUSE_S)
