"""All sessions of one workload: opening, finding, counting and ending them, and their common clock."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from mooring.errors import Unavailable
from mooring.proxy.era_backend import EraBackend
from mooring.proxy.face import Face
from mooring.proxy.health import Health
from mooring.proxy.link import LinkState
from mooring.proxy.lost_sessions import LostSessions
from mooring.proxy.noise import Noise
from mooring.proxy.passed_trunk import SHARED, PassedTrunk
from mooring.proxy.passing import PassedSession, unpack
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend, Channel
from mooring.proxy.registrar import Registrar
from mooring.proxy.session import RESTARTED, Session
from mooring.proxy.shared_face import SharedFace
from mooring.proxy.sharing import Sharing
from mooring.proxy.stateless import Stateless
from mooring.proxy.stateless_call import StatelessReply
from mooring.proxy.stats import Stats
from mooring.proxy.tool_lists import ToolLists
from mooring.proxy.trail import Trail
from mooring.proxy.trunks import Trunks
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import Memory
from mooring.wire.modern import ModernRequest

__all__ = ["Journal", "KeptSession", "Proxy"]

log = logging.getLogger("mooring.session")

TICK_S = 0.25
"""Resolution of every time-out of a session: one timer for all of them, none for a call."""
GAVE_WAY = "another session needed its place"
RESUMED = frozenset({"streamable-http"})
"""Transports whose clients come back by the id of their session, whatever became of their connection."""
TICKS_AT_REST = 4
"""A session without calls and streams can only become idle: that is noticed within a second."""


class Visitor(Protocol):
    """A connection that has no session, or not yet: nobody but itself can end it."""

    def hang_up(self) -> None:
        """We shut down."""
        ...


class KeptSession(NamedTuple):
    """A session as it survives a restart."""

    id: str
    principal: str
    transport: str
    client: str
    memory: Memory
    idle_s: float
    """Since it was last used."""


class Journal(Protocol):
    """Who writes down what sessions need to survive. Called for those whose clients can come back."""

    def changed(self, session: Session) -> None:
        """There is something new to remember."""
        ...

    def ended(self, session: Session) -> None:
        """It need not be remembered any longer."""
        ...


class Proxy:
    """The sessions of one workload."""

    def __init__(
        self, backend: Backend, policy: SessionPolicy, clock: Callable[[], float], name: str
    ) -> None:
        self.name = name
        self.policy = policy
        self.stats = Stats()
        self.noise = Noise(name)
        self.health = Health(policy, name)
        self.lost_sessions = LostSessions(clock)
        self.trail = Trail()
        self.in_flight = Budget(policy.budget_bytes, policy.max_sessions)
        """Messages of clients: calls until they are answered, others until the server has them."""
        self.clock = clock
        self.kept = Budget(policy.budget_bytes, policy.max_sessions)
        """Messages of servers: for clients that read slowly, have no stream open or may come back."""
        self.sessions: dict[str, Session] = {}
        self.visitors: set[Visitor] = set()
        trunks = Trunks(
            backend,
            policy=policy,
            stats=self.stats,
            noise=self.noise,
            health=self.health,
            in_flight=self.in_flight,
            clock=clock,
        )
        self._sharing = Sharing(trunks, policy.shared) if policy.shared else None
        self.stateless = Stateless(trunks, policy, clock, self._sharing)
        self._backend = EraBackend(backend, self.stateless, policy, clock, self._sharing)
        self.marked_tools = trunks.tools
        self.tool_lists = ToolLists(self.stateless, trunks.tools, policy)
        self.trunks = trunks
        self._timer: asyncio.TimerHandle | None = None
        self._ticks = 0
        self.refusing: Unavailable | None = None
        """Why nobody new is let in."""
        self.is_restarted = False
        """Another Mooring serves instead."""
        self._draining = False
        self._closing = False
        self.journal: Journal | None = None
        self.registrar: Registrar | None = None
        """Who sees to it that other replicas know of our sessions, if there are any."""
        self._quiet = asyncio.Event()

    @property
    def calls_in_flight(self) -> int:
        """Calls that have not been answered."""
        return sum(len(session.calls) for session in self.sessions.values()) + self.stateless.calls_in_flight

    def open(self, principal: str, transport: str, client: str) -> Session:
        """A new session. Raises Unavailable when there can be none now."""
        refusal = self.refusing or self._backend.refusal() or self._make_room()
        if refusal is not None:
            self.stats.sessions_refused += 1
            raise refusal
        registrar = self.registrar
        id = registrar.new_id(transport) if registrar is not None else secrets.token_urlsafe(24)
        return self._make(id, principal, transport, client)

    def restore(self, kept: KeptSession) -> None:
        """A session of an earlier Mooring: it sleeps until its client calls."""
        if kept.id not in self.sessions and len(self.sessions) < self.policy.max_sessions:
            session = self._make(kept.id, kept.principal, kept.transport, kept.client)
            session.last_used = self.clock() - kept.idle_s
            session.remember(kept.memory)

    def welcome(self, kept: KeptSession, reset_by: str) -> Session:
        """The same of one that another replica had, and that is wanted now. Raises Unavailable."""
        if (refusal := self._make_room()) is not None:
            raise refusal
        session = self._make(kept.id, kept.principal, kept.transport, kept.client)
        session.remember(kept.memory, reset_by)
        return session

    def adopt(self, passed: PassedSession, channel: Channel | None) -> bool:
        """A session that another Mooring had, and its instance if that came too; False: that is useless.

        Raises msgspec.DecodeError or RemoteProtocolError if what is told of it makes no sense.
        """
        session = self._make(passed.id, passed.principal, passed.transport, passed.client)
        try:
            unpack(passed, session)
        except msgspec.DecodeError:
            del self.sessions[session.id]
            raise
        if channel is not None and passed.seat is None:
            session.link.adopt(channel)
            return True
        face = self._face_for(passed, channel)
        if not passed.reset_by:
            session.link.wake(face)  # what it had is here
        else:
            session.on_let_go(RESTARTED)
        return face is not None

    def _face_for(self, passed: PassedSession, channel: Channel | None) -> Face | None:
        """Of what a session had before."""
        if passed.seat is not None and channel is not None:
            return self.stateless.seated(passed.seat, channel)
        trunk = self._sharing.found(passed.rides) if self._sharing is not None else None
        return SharedFace(self._sharing, self.clock, trunk) if self._sharing is not None and trunk else None

    def adopt_trunk(self, passed: PassedTrunk, channel: Channel) -> bool:
        """An instance of many that another Mooring had; False: it is of no use here."""
        self.start_clock()
        if passed.purpose.kind != SHARED:
            return self.stateless.adopt(passed, channel)
        if self._sharing is not None:
            self._sharing.adopt(passed, channel)
        return self._sharing is not None

    def part(self, session: Session) -> None:
        """Another Mooring has it now, which writes it down."""
        channel = session.link.channel
        session.part(self.policy.retry_ms)
        if channel is not None and isinstance(channel, Face):
            self._backend.release(channel, "its session goes on elsewhere")
        self.sessions.pop(session.id, None)
        self._check_quiet()

    def hold_clock(self) -> None:
        """No time passes for anybody here, until `start_clock`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _make(self, id: str, principal: str, transport: str, client: str) -> Session:
        session = Session(
            id,
            server=self.name,
            principal=principal,
            transport=transport,
            backend=self._backend,
            policy=self.policy,
            stats=self.stats,
            noise=self.noise,
            health=self.health,
            in_flight=self.in_flight,
            kept=self.kept,
            clock=self.clock,
            on_changed=self._changed,
            on_closed=self._closed,
            registrar=self.registrar if transport in RESUMED else None,
        )
        session.client = client
        self.sessions[session.id] = session
        self.start_clock()
        return session

    def tell_handshakes(self, *, taken: bool) -> None:
        """Somebody has found out whether the server takes an `initialize` of ours."""
        self.stateless.takes_handshakes = taken

    def start_clock(self) -> None:
        """Something is there that has time-outs."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def take(self, request: ModernRequest, reply: StatelessReply, principal: str) -> None:
        """A request of 2026-07-28. Raises Unavailable when there can be none now."""
        if self.refusing is not None:
            raise self.refusing
        self.start_clock()
        self.stateless.take(request, reply, principal)

    def tell(self, note: Envelope) -> None:
        """A notification of 2026-07-28; nobody waits for what becomes of it."""
        if self.refusing is None:
            self.start_clock()
            self.stateless.tell(note)

    def _make_room(self) -> Unavailable | None:
        """At the bound, the session that has slept longest gives way; if none sleeps, one that loses nothing
        by it, if there is one."""
        if len(self.sessions) < self.policy.max_sessions:
            return None
        asleep = [s for s in self.sessions.values() if s.state is LinkState.ASLEEP and not s.in_use]
        if not asleep:
            if self._let_one_go():
                return None
            text = f"all {self.policy.max_sessions} sessions are in use (--max-sessions)"
            return Unavailable(text, code="too_many_sessions", retry_after_s=10)
        longest = min(asleep, key=lambda session: session.last_used)
        if self.registrar is not None and longest.transport in RESUMED:
            self.registrar.let_go(longest)
            self.part(longest)
        else:
            longest.close("it slept longest when there was no room")
        return None

    def _let_one_go(self) -> bool:
        """Of those that are awake: the session with a server elsewhere that has not been used for longest."""
        if self.registrar is None:
            return False
        for session in sorted(self.sessions.values(), key=lambda session: session.last_used):
            if session.transport in RESUMED and session.loses_nothing and self.registrar.let_go(session):
                session.link.lose()
                session.link.sleep(GAVE_WAY, reset_by=GAVE_WAY)
                self.part(session)
                return True
        return False

    def find(self, id: str, principal: str, transport: str) -> Session | None:
        """The session of that id, if it belongs to whoever asks and was opened in that way."""
        session = self.sessions.get(id)
        if session is None or session.principal != principal or session.transport != transport:
            return None
        return session

    def _changed(self, session: Session) -> None:
        if self.journal is not None and session.transport in RESUMED:
            self.journal.changed(session)

    def _closed(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        # That we stop ends no session: its client will find it again.
        if self.journal is not None and session.transport in RESUMED and not self._closing:
            self.journal.ended(session)
        self._check_quiet()

    def _tick(self) -> None:
        self._timer = None
        try:
            self._tick_all(self.clock())
        except Exception:  # a bug of ours must not stop the clock
            log.exception("%s: time could not be kept", self.name)
        if self.sessions or self.stateless.is_busy:
            self.start_clock()

    def _tick_all(self, now: float) -> None:
        self._ticks += 1
        for session in list(self.sessions.values()):
            # A thousand that rest would take a hundredth of a core, if all were looked at each time.
            if not session.is_active and self._ticks % TICKS_AT_REST:
                continue
            try:
                session.tick(now)
            except Exception:  # one session's trouble must not stop the clock of the others
                log.exception("session %s: time could not be kept", session.short_id)
        if self._sharing is not None:
            self._sharing.tick(now)
        self.stateless.tick(now)
        self._check_quiet()
        if self._draining:
            self.hang_up()

    # Shutdown ------------------------------------------------------------------------------

    def refuse_new(self, cause: str) -> None:
        """No new sessions from now on; those that exist go on."""
        self.health.is_over = True
        self.refusing = Unavailable(
            f"shutting down ({cause})", code="shutting_down", hint="try again", retry_after_s=2
        )

    def hang_up(self) -> None:
        """End the streams that wait for news, so that their clients come back elsewhere.

        What still runs is looked at again and again, until nothing does.
        """
        self._draining = True
        self.stateless.hang_up()  # first: each of those streams has a proper end, whatever it comes on
        for session in list(self.sessions.values()):
            session.hang_up(self.policy.drain_retry_ms)
        for visitor in list(self.visitors):
            visitor.hang_up()

    def let_out(self) -> None:
        """Another Mooring serves: end the streams and sessions that cannot go there, as soon as they rest."""
        self.is_restarted = True
        self.stateless.hang_up()
        for session in list(self.sessions.values()):
            if session.transport not in RESUMED:
                session.hang_up(self.policy.drain_retry_ms)
                if not session.in_use:
                    session.close(RESTARTED)
        for visitor in list(self.visitors):
            visitor.hang_up()

    async def wait_quiet(self) -> None:
        """Until no call is in flight."""
        for session in self.sessions.values():
            session.on_quiet = self._check_quiet
        while self.calls_in_flight:
            self._quiet.clear()
            await self._quiet.wait()

    def _check_quiet(self) -> None:
        if not self.calls_in_flight:
            self._quiet.set()

    def cut(self, reason: str, message: str) -> int:
        """Answer every call in flight with an error, now; returns how many there were."""
        cut = sum(session.cut(reason, message) for session in list(self.sessions.values()))
        return cut + self.stateless.cut(reason, message)

    async def aclose(self, reason: str) -> None:
        """End every session; nothing of them runs afterwards, and nobody is let in who would wait for it."""
        self._closing = True
        if self.refusing is None:
            self.refuse_new(reason)
        sessions = list(self.sessions.values())
        for session in sessions:
            if self.registrar is not None:
                session.link.leave_upstream()
            session.close(reason, level=logging.DEBUG)
        self.hold_clock()
        await asyncio.gather(*(session.wait_closed() for session in sessions))
        await self.stateless.aclose(reason)
