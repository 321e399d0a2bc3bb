"""The sessions that are ours: what others must know of them is written down, in order, as soon as it changes.

    unknown → registered (ours) → released (nobody's), lost (another's) or ended

- A client hears the name of its session only when it is registered.
- One task writes, one thing after the other; what is new of a session while Redis does not answer is written
  once.
- A session is released only while it is quiet. From the moment that begins, requests for it wait
  (`leaving`).
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine

import msgspec

from mooring.errors import Unavailable
from mooring.proxy.ports import Fence
from mooring.proxy.proxy import RESUMED, KeptSession, Proxy
from mooring.proxy.session import Session
from mooring.replicas.event_store import EventStore, SessionEvents
from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import SessionRecord
from mooring.replicas.shared_store import Kept, Place, SharedStore, Title
from mooring.replicas.store_errors import StoreUnavailable
from mooring.wire.memory import Memory

__all__ = ["ENDED_BY_REQUEST", "Holdings"]

log = logging.getLogger("mooring.replicas")

ENDED_BY_REQUEST = "ended by request (mooring sessions end)"
TAKEN_OVER = "another replica has it now"
RETRY_S = 0.5
MAX_BACKLOG_BYTES = 64 * 1024
"""Of messages that waited for a stream when a session was released."""
MOST_ENDED = 10_000
"""Sessions that have ended and of which Redis could not be told: they expire there."""
SEPARATOR = "."


class _Held:
    """One of them."""

    __slots__ = ("created_at", "session", "title", "written_use")

    def __init__(self, session: Session, title: Title, created_at: float) -> None:
        self.session = session
        self.title = title
        self.created_at = created_at
        self.written_use = session.last_used


class Holdings:
    """See `proxy.registrar.Registrar`."""

    def __init__(
        self,
        proxy: Proxy,
        store: SharedStore,
        events: EventStore,
        policy: ReplicaPolicy,
        *,
        wall: Callable[[], float],
    ) -> None:
        self._proxy = proxy
        self._store = store
        self._events = events
        self._policy = policy
        self._wall = wall
        self._held: dict[str, _Held] = {}
        self._changed: dict[str, None] = {}
        self._ended: dict[str, Title] = {}
        self.leaving: set[str] = set()
        """On their way out: requests for them wait."""
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer: asyncio.Task[None] | None = None
        self._touched_at = proxy.clock()
        self.membership: Membership
        self.takeovers = 0
        self.lost = 0

    def begin(self, membership: Membership) -> None:
        """Write from now on."""
        self.membership = membership
        self._proxy.registrar = self._proxy.journal = self
        self._writer = asyncio.create_task(self._run(), name="writing down sessions for other replicas")

    def __len__(self) -> int:
        return len(self._held)

    # For the proxy

    @property
    def fence(self) -> Fence:
        """See `Registrar`."""
        return self.membership.holds

    def new_id(self, transport: str) -> str:
        """See `Registrar`. One that ends with its connection is found by the name of its replica."""
        id = secrets.token_urlsafe(24)
        return id if transport in RESUMED else f"{id}{SEPARATOR}{self.membership.name}"

    def events_of(self, id: str) -> SessionEvents:
        """See `Registrar`."""
        return self._events.of(id)

    def register(self, session: Session, then: Callable[[Unavailable | None], None]) -> None:
        """See `Registrar`."""
        self._spawn(self._register(session, then))

    async def _register(self, session: Session, then: Callable[[Unavailable | None], None]) -> None:
        trouble: Unavailable | None = Unavailable("the session could not be made known", code="internal")
        try:
            await self._make_known(session)
            trouble = None
        except StoreUnavailable as error:
            trouble = error
        finally:  # whatever went wrong, its client does not wait for ever
            then(trouble)

    async def _make_known(self, session: Session) -> None:
        now, owner = self._wall(), self.membership.name
        record, title = self._record(session, now), Title(owner, 1)
        try:
            title = await self._store.open(session.id, owner, record, now, self._ttl_s)
        except StoreUnavailable:
            self._take_back(session.id, title)  # Redis may have heard of it all the same
            raise
        if session.is_closed:
            self._take_back(session.id, title)
            return
        self._held[session.id] = _Held(session, title, now)
        if owner != self.membership.name:  # we lapsed meanwhile
            await self._reclaim(self._held[session.id], True)

    def changed(self, session: Session) -> None:
        """See `Journal`."""
        if session.id in self._held:
            self._changed[session.id] = None
            self._wake.set()

    def ended(self, session: Session) -> None:
        """See `Journal`."""
        held = self._held.pop(session.id, None)
        self.leaving.discard(session.id)
        if held is not None:
            self._take_back(session.id, held.title)

    def _take_back(self, id: str, title: Title) -> None:
        """Redis is told that there is no such session."""
        self._ended[id] = title
        while len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._wake.set()

    def let_go(self, session: Session) -> bool:
        """See `Registrar`."""
        held = self._held.pop(session.id, None)
        if held is not None:
            self.leaving.add(session.id)
            self._spawn(self._let_go(session.id, held, self._record(session, held.created_at)))
        return held is not None

    async def _let_go(self, id: str, held: _Held, record: SessionRecord) -> None:
        try:
            await self._give_back(id, held, record)
        except StoreUnavailable as error:
            # It stays ours in name: whoever asks us for it finds that it is not here, and may take it.
            log.debug("a session could not be released: %s", error.message)
        finally:
            self.leaving.discard(id)

    async def _give_back(self, id: str, held: _Held, record: SessionRecord) -> Kept:
        """It is nobody's from now on. What Redis had lost meanwhile it is told again."""
        return await self._store.keep(
            id, held.title, record, self._used_at(held), self._ttl_s, next_owner="", may_be_missing=True
        )

    # For whoever routes

    async def take(self, id: str, place: Place) -> bool:
        """Own what was found so, and go on with it here; false: another was quicker.

        Raises StoreUnavailable, or Unavailable if there is no room.
        """
        if id in self.leaving or id in self._ended:
            return False  # looked for again when that is written down
        owner, record = self.membership.name, place.record
        try:
            memory = Memory.load(record.memory)
        except msgspec.DecodeError as error:
            text = f"a session cannot be read: {error}"
            raise Unavailable(text, code="session_unreadable", hint="open a new one") from error
        title = await self._store.claim(id, place, owner, self._wall(), self._ttl_s)
        if title is None:
            return False
        if title.owner != self.membership.name or id in self._proxy.sessions:
            return id in self._held
        kept = KeptSession(id, record.principal, record.transport, record.client, memory, 0.0)
        try:
            session = self._proxy.welcome(kept, TAKEN_OVER)
        except Unavailable:  # there is no room here; another may have some
            await self._store.keep(id, title, None, place.used_at, self._ttl_s, next_owner="")
            raise
        session.link.upstream_known = record.backend, record.upstream
        session.words.load(record.asked, record.task_tokens)
        session.delivery.load(record.backlog)
        session.words.withdraw_questions("the server that asked is gone")
        self._held[id] = _Held(session, title, record.created_at)
        self.takeovers += 1
        log.info(
            "session %s goes on here: %s",
            session.short_id,
            f"the lease of {place.owner} has run out" if place.owner else "it was let go",
            extra={"event": "session_taken_over", "session": session.short_id, "from": place.owner},
        )
        return True

    def tell_again(self, id: str) -> bool:
        """Redis is said to have nothing of it: if it is ours, it is written down once more, or found to have
        been ended."""
        if id not in self._held or not self.membership.holds():
            return False
        self._changed[id] = None
        self._wake.set()
        return True

    def is_named(self, name: str) -> bool:
        """Is a session here that names this replica so, for as long as it lives?"""
        return any(id.endswith(SEPARATOR + name) for id in self._proxy.sessions)

    # Letting go of all

    @property
    def are_left(self) -> bool:
        """Is one ours, or about to be? Who has sent an `initialize` will come back for what it opens."""
        if self._held or self._tasks:
            return True
        return any(one.calls and one.transport in RESUMED for one in self._proxy.sessions.values())

    async def release_quiet(self) -> None:
        """Let go of those that rest. Raises StoreUnavailable."""
        for id, held in list(self._held.items()):
            if held.session.is_quiet and held.session.streams.are_stored:
                await self._release(id, held)

    async def _release(self, id: str, held: _Held) -> None:
        session = held.session
        self.leaving.add(id)
        try:
            kept = await self._give_back(id, held, self._record(session, held.created_at))
            if self._held.pop(id, None) is not None:
                self._drop(session, "it goes on at another replica")
            log.debug("session %s is released: %s", session.short_id, kept)
        except (StoreUnavailable, asyncio.CancelledError):
            raise  # it may be nobody's by now: until that is known, its requests wait
        except BaseException:
            self.leaving.discard(id)
            raise
        self.leaving.discard(id)

    def _drop(self, session: Session, reason: str) -> None:
        """It is not ours any more: nothing of it is left here, and nothing is written down."""
        session.cut("lease_lost", f"{reason}; whether the call was executed is not known")
        session.link.lose()
        session.link.sleep(reason, reset_by=TAKEN_OVER)
        self._proxy.part(session)

    async def reclaim(self, is_empty: bool) -> None:
        """We have another name: what nobody has taken is still ours. Raises StoreUnavailable.

        What is missing in Redis has been ended elsewhere; unless Redis `is_empty`, having lost everything.
        """
        for held in list(self._held.values()):
            if held.title.owner != self.membership.name:
                await self._reclaim(held, is_empty)

    async def _reclaim(self, held: _Held, is_empty: bool) -> None:
        session, name = held.session, self.membership.name
        record = self._record(session, held.created_at)
        kept = await self._store.keep(
            session.id,
            held.title,
            record,
            self._used_at(held),
            self._ttl_s,
            next_owner=name,
            may_be_missing=is_empty,
        )
        self._judge(session.id, held, Kept.ENDED if kept is Kept.MISSING else kept)
        held.title = held.title._replace(owner=name)

    # Writing

    @property
    def _ttl_s(self) -> float:
        return self._proxy.policy.forget_after_s

    def _used_at(self, held: _Held) -> float:
        held.written_use = held.session.last_used
        return self._wall() - (self._proxy.clock() - held.session.last_used)

    def _record(self, session: Session, created_at: float) -> SessionRecord:
        asked, tokens = session.words.dump()
        backend, upstream = session.link.upstream
        return SessionRecord(
            principal=session.principal,
            transport=session.transport,
            client=session.client,
            memory=session.memory.dump(),
            created_at=created_at,
            upstream=upstream,
            asked=asked,
            task_tokens=tokens,
            backlog=_fitting([line for _, line in session.delivery.backlog]),
            backend=backend,
        )

    async def _run(self) -> None:
        while True:
            due_in_s = max(0.0, self._touched_at + self._policy.touch_s - self._proxy.clock())
            try:
                async with asyncio.timeout(due_in_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            self._note_uses()
            try:
                await self._write_all()
            except StoreUnavailable as error:
                log.debug("sessions cannot be written down: %s", error.message)
                await asyncio.sleep(RETRY_S)
                self._wake.set()
            except Exception:  # a bug of ours with one session must not end the writing of all
                log.exception("sessions could not be written down")

    def _note_uses(self) -> None:
        now = self._proxy.clock()
        if now - self._touched_at >= self._policy.touch_s:
            self._touched_at = now
            for id, held in self._held.items():
                if held.session.last_used != held.written_use:
                    self._changed.setdefault(id)

    async def _write_all(self) -> None:
        while self._ended:
            id, title = next(iter(self._ended.items()))
            await self._store.remove(id, title)
            self._ended.pop(id, None)
        while self._changed:
            id = next(iter(self._changed))
            del self._changed[id]
            held = self._held.get(id)
            if held is None:
                continue
            try:
                record = self._record(held.session, held.created_at)
                kept = await self._store.keep(id, held.title, record, self._used_at(held), self._ttl_s)
            except StoreUnavailable:
                self._changed.setdefault(id)
                raise
            if kept is Kept.MISSING:  # Redis has lost it, or it has expired under a client that came back
                await self._put_back(id, held)
            else:
                self._judge(id, held, kept)

    async def _put_back(self, id: str, held: _Held) -> None:
        record = self._record(held.session, held.created_at)
        kept = await self._store.keep(
            id, held.title, record, self._used_at(held), self._ttl_s, may_be_missing=True
        )
        self._judge(id, held, kept)

    def _judge(self, id: str, held: _Held, kept: Kept) -> None:
        """Draw the conclusion from what became of a write."""
        if kept in (Kept.KEPT, Kept.MISSING) or self._held.get(id) is not held:
            return
        if id in self.leaving:
            return  # it may be nobody's because of us: whoever lets go of it finds out
        del self._held[id]
        if kept is Kept.ENDED:
            held.session.close(ENDED_BY_REQUEST)
            return
        self.lost += 1
        log.warning(
            "session %s is another replica's by now",
            held.session.short_id,
            extra={"event": "session_lost_to_another", "session": held.session.short_id},
        )
        self._drop(held.session, TAKEN_OVER)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a session could not be told of", exc_info=error)

    async def aclose(self) -> None:
        """Write what is left, once. What cannot be is found without an owner that lives."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._policy.store_s)
        try:
            await self._write_all()
        except StoreUnavailable as error:
            log.warning("what is new of sessions is not written down: %s", error.message)


def _fitting(backlog: list[bytes]) -> list[bytes]:
    """The newest of what waited."""
    kept: list[bytes] = []
    size = 0
    for line in reversed(backlog):
        size += len(line)
        if size > MAX_BACKLOG_BYTES:
            break
        kept.insert(0, line)
    return kept
