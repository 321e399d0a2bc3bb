"""Writes down what sessions need to survive a restart of Mooring: soon, together, and off the path of calls.

Invariants:
- What a client has done is written within `WRITE_S`, or, if writing fails, as soon as it works again.
- A session that ended is not brought back by a write that was under way.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from mooring.errors import MooringError
from mooring.proxy.proxy import KeptSession, Proxy
from mooring.proxy.session import Session
from mooring.store.records import Session as Record
from mooring.wire.memory import Memory

__all__ = ["SessionKeeper"]

log = logging.getLogger("mooring.workload")

WRITE_S = 1.0
TOUCH_S = 60.0
"""How exact the time of the last use is, which decides who is forgotten."""

Write = Callable[[list[Record], list[str]], Awaitable[None]]


class SessionKeeper:
    """The journal of one generation of a workload."""

    def __init__(
        self, proxy: Proxy, write: Write, *, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._proxy = proxy
        self._write = write
        self._clock = clock
        self._wall = wall
        self._changed: dict[str, Session] = {}
        self._ended: set[str] = set()
        self._opened_at: dict[str, float] = {}
        """Of all that are written down."""
        self._written_use: dict[str, float] = {}
        self._noted_at = clock()
        self._wake = asyncio.Event()
        self._failing = False
        self._closing = False
        self._task = asyncio.create_task(self._run(), name=f"{proxy.name}: keeping sessions")
        proxy.journal = self

    def know(self, records: list[Record]) -> None:
        """These are written down; whoever has them now will bring them."""
        self._opened_at |= {record.id: record.opened_at for record in records}

    async def flush(self) -> None:
        """Write what is to be written, now."""
        self._wake.clear()
        await self._flush()

    def part(self) -> None:
        """Another Mooring writes them down from now on."""
        self._proxy.journal = None
        self._changed.clear()
        self._ended.clear()
        self._opened_at.clear()

    def restore(self, records: list[Record]) -> int:
        """Give the sessions of an earlier Mooring to the proxy; returns how many."""
        before, now = len(self._proxy.sessions), self._wall()
        for record in reversed(records):  # the most recently used first: there may not be room for all
            try:
                memory = Memory.load(record.memory)
            except msgspec.DecodeError as error:
                log.warning("session %s cannot be restored: %s", record.id[:8], error)
                continue
            idle_s = max(0.0, now - record.used_at)
            self._opened_at[record.id] = record.opened_at
            self._proxy.restore(
                KeptSession(record.id, record.principal, record.transport, record.client, memory, idle_s)
            )
        return len(self._proxy.sessions) - before

    def changed(self, session: Session) -> None:
        """See `Journal`."""
        self._changed[session.id] = session
        self._wake.set()

    def ended(self, session: Session) -> None:
        """See `Journal`."""
        self._changed.pop(session.id, None)
        self._ended.add(session.id)
        self._opened_at.pop(session.id, None)
        self._written_use.pop(session.id, None)
        self._wake.set()

    async def aclose(self) -> None:
        """Write what is left, if it can be written."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not self._closing:
            try:
                async with asyncio.timeout(TOUCH_S):
                    await self._wake.wait()
                await asyncio.sleep(0 if self._closing else WRITE_S)
            except TimeoutError:
                pass
            self._wake.clear()
            self._note_uses()
            await self._flush()
        self._note_uses()
        await self._flush()

    def _note_uses(self) -> None:
        now = self._clock()
        if now - self._noted_at < TOUCH_S and not self._closing:
            return  # each use of each session, because one of them has changed, would be many writes
        self._noted_at = now
        for id, session in self._proxy.sessions.items():
            if id in self._opened_at and session.last_used != self._written_use.get(id):
                self._changed[id] = session

    async def _flush(self) -> None:
        changed, self._changed = self._changed, {}
        ended, self._ended = self._ended, set()
        records = [record for session in changed.values() if (record := self._record(session)) is not None]
        if not records and not ended:
            return
        try:
            await self._write(records, list(ended))
        except MooringError as error:
            kept = {id: session for id, session in changed.items() if id not in self._ended}
            self._changed = kept | self._changed
            self._ended |= ended
            if not self._failing:
                log.warning("sessions cannot be written down: %s", error.message, extra={"event": error.code})
            self._failing = True
        else:
            self._failing = False

    def _record(self, session: Session) -> Record | None:
        memory = session.memory.dump()
        if not memory:
            return None
        used_at = self._wall() - (self._clock() - session.last_used)
        self._written_use[session.id] = session.last_used
        return Record(
            id=session.id,
            name=self._proxy.name,
            principal=session.principal,
            transport=session.transport,
            client=session.client,
            memory=memory,
            opened_at=self._opened_at.setdefault(session.id, used_at),
            used_at=used_at,
        )
