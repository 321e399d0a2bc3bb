"""Events of streams, stored in Redis before they are sent, so that a client can go on at any replica.

What is said in one turn of the loop is one batch, and one batch is under way at a time: so events are stored
in order, and many sessions share a round trip. If Redis does not take a batch within its bound, the events
are sent all the same; whoever resumes their stream elsewhere is told that something is missing. So are events
of one who has no lease: their places may be another's by now.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from mooring.proxy.streams import EventStream
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.shared_store import Event, SharedStore
from mooring.replicas.store_errors import StoreUnavailable

__all__ = ["EventStore", "SessionEvents"]

log = logging.getLogger("mooring.replicas")

BATCH = 512
"""Events in one pipeline."""
MOST_FORGOTTEN = 2048
"""Numbers that are taken back at once, of all streams: after trouble there may be very many, and a command
that names all of them would be late each time, and longer the next time."""

Forgotten = tuple[str, str, range]
"""A session, a stream of it, and numbers of events there."""


class EventStore:
    """Of all sessions of a replica."""

    def __init__(
        self, store: SharedStore, policy: ReplicaPolicy, holds: Callable[[], bool] = lambda: True
    ) -> None:
        """`holds`: may we act for our sessions?"""
        self._store = store
        self._holds = holds
        self._policy = policy
        self._queue: list[tuple[EventStream, Event]] = []
        self._forgetting: dict[EventStream, str] = {}
        self._queued_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False
        self._is_closed = False
        self.stored = 0
        self.unstored = 0

    def of(self, session: str) -> "SessionEvents":
        """The store of one session."""
        return SessionEvents(self, session)

    def put(self, stream: EventStream, event: Event) -> None:
        """Store it; `stream` is told when it may be sent."""
        self._queue.append((stream, event))
        self._queued_bytes += len(event.data)
        self._wake()

    def finish(self, stream: EventStream, end: Event) -> None:
        """The stream is over: said with its last event, if that is still here."""
        for n in range(len(self._queue) - 1, -1, -1):
            if self._queue[n][0] is stream:
                self._queue[n] = (stream, self._queue[n][1]._replace(is_last=True))
                return
        self.put(stream, end)

    def forget(self, session: str, stream: EventStream) -> None:
        """Its oldest events are not kept any more."""
        self._forgetting[stream] = session
        self._wake()

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="storing events")
            self._task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("events could not be stored", exc_info=error)
        if (self._queue or self._forgetting) and not self._is_closed:  # said between its end and this
            self._wake()

    async def _run(self) -> None:
        await asyncio.sleep(0)  # all that is said in this turn goes together
        while self._queue or self._forgetting:
            batch, self._queue = self._queue[:BATCH], self._queue[BATCH:]
            forgetting: dict[EventStream, str] = {}
            if not self._queue:  # what is still on its way cannot be taken back
                forgetting, self._forgetting = self._forgetting, {}
            self._queued_bytes -= sum(len(event.data) for _, event in batch)
            try:
                await self._store_batch([event for _, event in batch], forgetting)
            finally:  # nobody waits for ever
                self._let_go(batch)

    async def _store_batch(self, events: list[Event], forgetting: dict[EventStream, str]) -> None:
        # Redis may not keep up with what is said: what waits must not grow.
        is_behind = self._is_failing and self._queued_bytes > self._policy.max_unstored_bytes
        if is_behind or not self._holds():
            self.unstored += len(events)
            return
        oldest, forgotten = _taken_back(forgetting)
        try:
            async with asyncio.timeout(self._policy.event_s):
                policy = self._policy
                await self._store.append(events, forgotten, policy.ended_stream_s, policy.open_stream_s)
        except TimeoutError:
            self._failed(len(events), self._store.late(self._policy.event_s))
        except StoreUnavailable as error:
            self._failed(len(events), error)
        else:
            for stream, n in oldest.items():
                stream.oldest_stored = n
                if n == stream.log.oldest:
                    del forgetting[stream]
            self._forgetting = forgetting | self._forgetting
            self.stored += len(events)
            self._is_failing = False

    def _failed(self, count: int, error: StoreUnavailable) -> None:
        self.unstored += count
        if not self._is_failing:
            log.warning(
                "events are sent without being stored: they cannot be asked for at another replica (%s)",
                error.message,
                extra={"event": "events_unstored"},
            )
        self._is_failing = True

    def _let_go(self, batch: list[tuple[EventStream, Event]]) -> None:
        last = {stream: event.n for stream, event in batch}  # once for each: it sends all that it may
        for stream, n in last.items():
            stream.on_stored(n)

    async def aclose(self) -> None:
        """What is left is stored, within the bound of one batch each."""
        self._is_closed = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


def _taken_back(forgetting: dict[EventStream, str]) -> tuple[dict[EventStream, int], list[Forgotten]]:
    """What is taken back at once, and the oldest that streams have there then. Others have to wait."""
    oldest: dict[EventStream, int] = {}
    forgotten: list[Forgotten] = []
    room = MOST_FORGOTTEN
    for stream, session in forgetting.items():
        if not room:
            break
        first = stream.oldest_stored
        then = oldest[stream] = min(stream.log.oldest, first + room)
        if then > first:
            forgotten.append((session, stream.log.stream, range(first, then)))
            room -= then - first
    return oldest, forgotten


class SessionEvents:
    """See `proxy.streams.EventVault`."""

    __slots__ = ("_session", "_store")

    def __init__(self, store: EventStore, session: str) -> None:
        self._store = store
        self._session = session

    def begin(self, stream: EventStream) -> None:
        """A stream that answers calls."""
        ids = msgspec.json.encode(stream.ids).decode()
        self._store.put(stream, Event(self._session, stream.log.stream, 0, b"", ids))

    def put(self, stream: EventStream, n: int, data: bytes) -> None:
        """One event."""
        self._store.put(stream, Event(self._session, stream.log.stream, n, data))

    def finish(self, stream: EventStream) -> None:
        """There is no more."""
        end = Event(self._session, stream.log.stream, stream.log.last, b"", is_last=True)
        self._store.finish(stream, end)

    def forget(self, stream: EventStream) -> None:
        """The oldest ones are given up."""
        self._store.forget(self._session, stream)
