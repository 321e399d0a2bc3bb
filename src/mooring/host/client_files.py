"""The files of AI clients kept true by the daemon: beside everything else, and never in its way.

Invariants:
- Nobody waits for it: turns of the keeper are taken in a thread, one at a time, and one that hangs (a file on
  a disk that is gone) costs only itself.
- While another daemon may be about to take over no turn begins, and the one before has ended: no two write.
- Where no client was ever told of a server, a look is one stat, and nothing of `clients` is loaded.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from mooring.errors import MooringError, Unavailable
from mooring.host.places import Places
from mooring.store.database import StoreError
from mooring.store.records import Event
from mooring.store.store import Store
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.states import State as Lifecycle
from mooring.workloads.fleet import Fleet, Seen
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.state import State

if TYPE_CHECKING:
    from mooring.clients.entries import Target
    from mooring.clients.following import ServerNow
    from mooring.clients.keeper import Keeper, Told

__all__ = ["ClientFiles"]

log = logging.getLogger("mooring.host")
T = TypeVar("T")

LOOK_S = 2.0
"""Between two looks at the files, if nothing happens."""
GATHER_S = 0.05
"""What happens within that time is one turn's."""
PAUSE_S = 5.0
"""For the turn that is under way, when it must be the last."""


class Journal(NamedTuple):
    """What happened."""

    last: int
    """The number of the last event that there ever was."""
    news: list[Event]
    was_removed: dict[str, bool]
    """Whether somebody removed them, of servers that are missing."""


class ClientFiles:
    """Of one daemon, for the servers of its fleet."""

    def __init__(
        self,
        places: Places,
        fleet: Fleet,
        state: State,
        *,
        url_of: Callable[[str], str],
        environment: Mapping[str, str],
    ) -> None:
        self._places = places
        self._ledger = places.client_ledger
        self._fleet = fleet
        self._state = state
        self._url_of = url_of
        self._environment = environment
        self._keeper: Keeper | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn: asyncio.Future[None] | None = None
        self._trouble = ""
        self._is_closed = False

    def start(self) -> None:
        """From now on. Idempotent; nothing after the end."""
        if self._task is None and not self._is_closed:
            self._task = asyncio.create_task(self._run(), name="keeping the files of AI clients")

    def halt(self) -> None:
        """No turn begins any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def pause(self) -> bool:
        """No turn begins until the next `start`; true: none is under way either."""
        self.halt()
        if self._turn is None or self._turn.done():
            return True
        await asyncio.wait([self._turn], timeout=PAUSE_S)
        return self._turn.done()

    async def aclose(self) -> None:
        """For good, after the turn that is under way, within bounds."""
        self._is_closed = True
        await self.pause()

    async def _run(self) -> None:
        if self._turn is not None:
            await asyncio.wait([self._turn])  # of a life that was paused
        while True:
            while (written_at := _written_at(self._ledger)) is None:
                self._keeper = None
                await asyncio.sleep(LOOK_S)
            news, wait_s = self._fleet.history.news, LOOK_S
            try:
                wait_s = await self._look(written_at)
                self._trouble = ""
            except MooringError as error:
                self._tell_trouble(error.message, error.hint)
            except Exception as error:  # a bug of ours must not end the daemon's care for all files
                self._tell_trouble(repr(error), "this is a bug of Mooring")
                log.debug("the files of clients cannot be kept", exc_info=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await news.wait()
                await asyncio.sleep(GATHER_S)

    def _tell_trouble(self, text: str, hint: str) -> None:
        if text != self._trouble:
            self._trouble = text
            log.warning(
                "the files of AI clients cannot be kept true: %s%s",
                text,
                f" ({hint})" if hint else "",
                extra={"event": "client_files_trouble"},
            )

    async def _look(self, written_at: float) -> float:
        """One turn; returns how long to wait for news until the next. Raises MooringError."""
        keeper = self._keeper
        if keeper is None:
            keeper = self._keeper = await self._in_thread(self._make_keeper)
        journal = await self._state.do(
            lambda store: _read_journal(store, keeper.after, written_at, keeper.missing)
        )
        servers = {seen.wanted.name: server_now(seen) for seen in self._fleet.all()}
        for server, text in await self._in_thread(lambda: self._take_turn(keeper, journal, servers)):
            self._tell(server, text)
        if set(keeper.missing) - journal.was_removed.keys():
            return 0.0
        return LOOK_S if keeper.due is None else min(LOOK_S, max(0.0, keeper.due - time.monotonic()))

    def _tell(self, server: str, text: str) -> None:
        """As an event of the server, if it is still there."""
        history, event = self._fleet.history, str(Kind.CLIENTS)
        if self._fleet.knows(server):
            log.info("%s: %s", server, text, extra={"event": event, "server": server})
            generation = self._fleet.seen(server).wanted.generation
            history.tell(server, generation, Happening(Kind.CLIENTS, text))
        else:
            log.info("%s: %s", server, text, extra={"event": event})  # whose own log is deleted
            history.tell("", 0, Happening(Kind.CLIENTS, f"{server}: {text}"))

    # In the thread

    def _make_keeper(self) -> "Keeper":
        from mooring.clients.keeper import Keeper  # noqa: PLC0415 - heavy, and most daemons need none
        from mooring.clients.ledger import Ledger  # noqa: PLC0415
        from mooring.clients.machine import Machine  # noqa: PLC0415
        from mooring.clients.registry import Registry  # noqa: PLC0415

        registry = Registry(self._places.clients, Machine.this(self._environment))
        return Keeper(registry, Ledger(self._places.clients), time.monotonic)

    def _take_turn(
        self, keeper: "Keeper", journal: Journal, servers: "Mapping[str, ServerNow]"
    ) -> "list[Told]":
        from mooring.clients.following import News  # noqa: PLC0415

        if not 0 < keeper.after <= journal.last:  # nobody has read in this one
            keeper.begin_at(journal.news[0].number - 1 if journal.news else journal.last)
        news = [News(event.number, event.name, event.generation, event.kind) for event in journal.news]
        return keeper.turn(news, servers, self._target_of, journal.was_removed)

    def _target_of(self, name: str) -> "Target | None":
        from mooring.host.client_targets import target_at  # noqa: PLC0415

        if not self._fleet.knows(name):
            return None
        return target_at(self._places, name, self._url_of(name), self._environment)

    def _in_thread(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """It goes on whether anybody still waits for it or not; `_turn` is over when it is."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        turn = self._turn = loop.create_future()

        def end(outcome: T | None, error: BaseException | None) -> None:
            turn.set_result(None)
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(cast("T", outcome))

        def run() -> None:
            outcome, error = None, None
            try:
                outcome = work()
            except BaseException as caught:
                error = caught
            with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(end, outcome, error)

        try:
            # Not one of an executor: those are waited for at exit, and this one may hang.
            threading.Thread(target=run, name="files of AI clients", daemon=True).start()
        except RuntimeError:
            turn.set_result(None)
            raise Unavailable("the system has no thread left", code="no_resources") from None
        return done


def _written_at(ledger: Path) -> float | None:
    """By the wall clock; None: there is none."""
    try:
        return ledger.stat().st_mtime
    except OSError:
        return None


def server_now(seen: Seen) -> "ServerNow":
    """A server as the keeper sees it."""
    from mooring.clients.following import ServerNow  # noqa: PLC0415

    refresh = seen.options.client_refresh if seen.options is not None else "auto"
    generation, snapshot = seen.wanted.generation, seen.snapshot()
    if seen.wanted.is_stopped:
        is_gone = seen.wanted.why_stopped == ReasonCode.REMOVED_OUTSIDE
        return ServerNow(generation, "gone" if is_gone else "stopped", refresh=refresh)
    if snapshot is None:
        return ServerNow(generation, "failed" if seen.problem else "other", seen.problem, refresh)
    if snapshot.state is Lifecycle.FAILED:
        return ServerNow(generation, "failed", snapshot.reason.text, refresh)
    return ServerNow(generation, "ready" if snapshot.state is Lifecycle.READY else "other", refresh=refresh)


def _read_journal(store: Store, after: int, since: float, missing: Iterable[str]) -> Journal:
    """`since`, by the wall clock, if nobody has read in this one. Raises StoreError: it cannot be read, or is
    another's by now, and so are the files of clients."""
    if not store.is_ours:
        raise StoreError("another daemon has taken over", code="fenced")
    last = store.last_number
    news = store.events(after=after) if 0 < after <= last else store.events(since=since)
    ends = {name: store.last_event(name) for name in missing}
    return Journal(
        last, news, {name: end is not None and end.kind == Kind.REMOVED for name, end in ends.items()}
    )
