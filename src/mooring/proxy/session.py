"""One client's conversation, kept alive across the server instances that serve it.

Invariants:
- Every call is answered exactly once: by the server, or by us with an error that says why.
- A call is executed at most once, unless it may be repeated and the operator allowed that. It is
  sent again only if its instance died without having read one byte of it.
- Whatever the server says goes to one place (`delivery`); what the client says goes through the
  `link`, which brings instances and replaces them.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from mooring.errors import MooringError, RemoteProtocolError, Unavailable
from mooring.proxy import call_errors, refusals
from mooring.proxy.call_errors import Failure, overdue, why_dropped
from mooring.proxy.calls import Call, Reply, ReplyPort
from mooring.proxy.delivery import Delivery
from mooring.proxy.health import Health
from mooring.proxy.link import LARGE_BYTES, Link, LinkState
from mooring.proxy.lost_calls import lost, may_send_again
from mooring.proxy.noise import Noise
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend, Channel, ExitLike, named
from mooring.proxy.registrar import Registrar
from mooring.proxy.server_words import ServerWords
from mooring.proxy.stats import Stats
from mooring.proxy.streams import EventStream, Streams
from mooring.proxy.waiting import WaitingLine
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import INTERNAL_ERROR, MAX_BATCH_BYTES, Envelope, Id
from mooring.wire.lines import LongLine
from mooring.wire.memory import Memory, Replay, read_handshake
from mooring.wire.params import cancelled_id, progress_of_call
from mooring.wire.revisions import rules_for

__all__ = ["Session"]

log = logging.getLogger("mooring.session")

CR = ord("\r")
RESTARTED = "Mooring was restarted"
OF_ONE_INSTANCE = frozenset({"notifications/cancelled", "notifications/initialized"})
"""Another instance never had the call, and is told of the client when it is introduced."""


class Session:
    """A client session."""

    __slots__ = (
        "_backend",
        "_clock",
        "_closed",
        "_delivery",
        "_in_flight",
        "_link",
        "_noise",
        "_on_changed",
        "_on_closed",
        "_policy",
        "_refused",
        "_registrar",
        "_stats",
        "_words",
        "calls",
        "client",
        "id",
        "last_used",
        "memory",
        "on_quiet",
        "principal",
        "server",
        "streams",
        "transport",
    )

    def __init__(
        self,
        id: str,
        *,
        server: str,
        principal: str,
        transport: str,
        backend: Backend,
        policy: SessionPolicy,
        stats: Stats,
        noise: Noise,
        health: Health,
        in_flight: Budget,
        kept: Budget,
        clock: Callable[[], float],
        on_changed: Callable[["Session"], None],
        on_closed: Callable[["Session"], None],
        registrar: Registrar | None = None,
    ) -> None:
        """`registrar`: there are other replicas, which may have the session after us."""
        self.id = id
        self.server = server
        self.principal = principal
        self.transport = transport
        self.client = ""
        self.memory = Memory()
        self.calls: dict[Id, Call] = {}
        self.on_quiet: Callable[[], None] | None = None
        self.last_used = clock()
        own_id = f"mooring-{id[:12]}"
        self._backend = backend
        self._clock = clock
        self._closed = False
        self._in_flight = in_flight
        self._link = Link(
            self,
            backend,
            policy,
            clock,
            own_id,
            in_flight=in_flight,
            health=health,
            mask=noise.mask,
            fence=registrar.fence if registrar is not None else None,
        )
        self._noise = noise
        self._on_changed = on_changed
        self._on_closed = on_closed
        self._policy = policy
        self._refused = b""
        """What the server said to `initialize`, while we see whether it can be served in another way."""
        self._registrar = registrar
        self._stats = stats
        vault = registrar.events_of(id) if registrar is not None else None
        self.streams = Streams(policy, kept, self._pressure, self._on_cut, vault)
        self._delivery = Delivery(self.streams, policy)
        self._words = ServerWords(own_id, self.calls, self._delivery, self._link, policy=policy, clock=clock)

    def __repr__(self) -> str:
        return f"<Session {self.short_id} {self.state} calls={len(self.calls)}>"

    @property
    def short_id(self) -> str:
        """Enough of the id to tell sessions apart in a log; the whole one is a key and stays out of it."""
        return self.id[:8]

    @property
    def state(self) -> LinkState:
        """How it stands with its server."""
        return self._link.state

    @property
    def pid(self) -> int | None:
        """The instance that serves it now."""
        return self._link.pid

    @property
    def revision(self) -> str:
        """The negotiated protocol revision; empty before the handshake."""
        return self.memory.handshake.protocol_version if self.memory.handshake else ""

    @property
    def in_use(self) -> bool:
        """A call is running or a stream is being read."""
        return bool(self.calls) or self.streams.in_use

    @property
    def is_active(self) -> bool:
        """Something is going on here that has a time-out."""
        return bool(self.calls) or len(self.streams) > 0 or self._link.has_waiting

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way: what there is of it can be told whole."""
        link = self._link
        settled = link.state in (LinkState.LIVE, LinkState.ASLEEP) and not link.has_waiting
        return settled and not self.calls and self.memory.handshake is not None and not self.streams.answers

    @property
    def loses_nothing(self) -> bool:
        """It rests, and all that its server knows of it is elsewhere, for whoever goes on with it."""
        return self.is_quiet and not self.in_use and self.streams.are_stored and any(self._link.upstream)

    @property
    def is_closed(self) -> bool:
        """It has ended, or goes on elsewhere."""
        return self._closed

    @property
    def link(self) -> Link:
        """Its line to the server."""
        return self._link

    @property
    def words(self) -> ServerWords:
        """What its server has asked."""
        return self._words

    @property
    def delivery(self) -> Delivery:
        """What waits for its client."""
        return self._delivery

    def part(self, retry_ms: int) -> None:
        """Another has it now: its clients come back there, and nothing of it is left here."""
        self._closed = True
        self.hang_up(retry_ms)
        self._link.part()
        self._delivery.close()

    def remember(self, memory: Memory, reset_by: str = RESTARTED) -> None:
        """It was opened before, elsewhere; with its next call it gets an instance that is told all this."""
        self.memory = memory
        self.streams.priming = rules_for(self.revision).priming
        self._link.reset_by = reset_by

    # From the client

    def request(self, request: Envelope, line: bytes, reply: ReplyPort) -> None:
        """A call: it will be answered through `reply`, whatever happens."""
        now = self.last_used = self._clock()
        id = request.request_id
        refusal = self._refusal(id, request.method, len(line))
        if refusal is not None:
            reply.answer(refusal, now)
            return
        call = self.calls[id] = Call(id, request.method or "", request.params, line, reply, now, now, now)
        self._in_flight.taken_bytes += len(line)
        self._stats.calls += 1
        if self._policy.call_timeout_s is not None:
            call.deadline = now + self._policy.call_timeout_s
        if line.find(b"progressToken") >= 0 and (token := progress_of_call(request.params)) is not None:
            self._words.follow(call, token)
        self._link.send(line, call)
        if self._delivery.backlog and self.calls.get(id) is call:
            self._delivery.put_questions(reply, now)

    def _refusal(self, id: Id, method: str | None, size_bytes: int) -> bytes | None:
        """Why a call cannot be taken; None if it can."""
        if self._closed:
            return call_errors.session_ended(id)
        if id in self.calls:
            return call_errors.id_in_use(id)
        if len(self.calls) >= self._policy.max_calls:
            return call_errors.too_many_calls(id, self._policy.max_calls)
        if self._in_flight.taken_bytes + size_bytes > self._in_flight.limit_bytes:
            held_bytes = sum(len(call.line) for call in self.calls.values())
            if not self._in_flight.has_room(size_bytes, held_bytes):
                return call_errors.too_busy(id)
        begun = self._is_begun()
        if (method == "initialize") is begun:
            return call_errors.out_of_order(id, begun=begun)
        return None

    def _is_begun(self) -> bool:
        """The client has said `initialize`."""
        return self.memory.handshake is not None or any(
            call.method == "initialize" for call in self.calls.values()
        )

    def notify(self, note: Envelope, line: bytes, accepted: Callable[[], None]) -> None:
        """A notification; `accepted` is called when it is on its way, or not worth sending."""
        self.last_used = self._clock()
        if note.method == "notifications/initialized":
            self.memory.initialized(line)
            self._on_changed(self)
            wanted = self._link.is_live  # another instance will be told with the rest
        elif note.method == "notifications/cancelled":
            wanted = self._cancel(note)
        else:
            wanted = self._is_begun()
        if wanted:
            self._link.send(line, None, accepted, bound=note.method in OF_ONE_INSTANCE)
        else:
            accepted()

    def _cancel(self, note: Envelope) -> bool:
        """Does the cancellation concern a call that the server knows?"""
        id = cancelled_id(note.params)
        call = self.calls.get(id) if id is not None else None
        if call is None or call.method == "initialize":
            return False
        call.cancelled_at = self._clock()
        if call.sent:
            return True
        self._fail(call, Failure("cancelled", "cancelled before it was sent to the server", retryable=True))
        return False

    def respond(self, response: Envelope, line: bytes, accepted: Callable[[], None]) -> None:
        """The client's answer to a question of the server. Late answers are dropped: nobody waits."""
        self.last_used = self._clock()
        answer = self._words.answer(response, line)
        if answer is None:
            log.debug("session %s: an answer to nothing that is asked, id %r", self.short_id, response.id)
            accepted()
        else:
            self._link.answer(answer, accepted)

    def listen(self, stream: EventStream) -> None:
        """A GET stream has been opened."""
        self.last_used = self._clock()
        self._delivery.listen(stream, self.last_used)

    # From the server

    def on_line(self, line: bytes) -> None:
        """One line of the instance's output."""
        try:
            message = jsonrpc.parse(line)
        except RemoteProtocolError as error:
            if line[:1] == b"[" and rules_for(self.revision).batches:
                self._on_batch(line)
            else:
                self._on_junk(line, error)
            return
        if CR in line:
            line = jsonrpc.one_line(line)
        if message.method is None:
            self.on_answer(message, line)
        else:
            self._words.take(message, line)

    def on_failed(self, id: Id, failure: Failure) -> None:
        """The instance could not answer a call, and somebody between us knows why."""
        call = self.calls.get(id)
        if call is not None:
            self._fail(call, failure)

    def on_related(self, line: bytes, id: Id) -> None:
        """The same, of a message that belongs to the call of that id."""
        message, call = jsonrpc.parse(line), self.calls.get(id)
        if call is None:
            self._on_message(message, line)
        else:
            self._words.take_for(call, message, line)

    def _on_batch(self, line: bytes) -> None:
        if len(line) > MAX_BATCH_BYTES:
            text = f"a batch of {len(line)} bytes is over the limit of {MAX_BATCH_BYTES}"
            self._drop(LongLine.of(line), "message_too_long", text)
            return
        try:
            messages = jsonrpc.parse_batch(line)
        except RemoteProtocolError as error:
            self._on_junk(line, error)
            return
        for message, item in messages:
            self._on_message(message, jsonrpc.one_line(item))

    def _on_message(self, message: Envelope, line: bytes) -> None:
        if message.method is None:
            self.on_answer(message, line)
        else:
            self._words.take(message, line)

    def _on_junk(self, line: bytes, error: RemoteProtocolError) -> None:
        """Not a message: log and skip it, unless it shows which call it was meant to answer."""
        self._stats.junk_lines += 1
        method, id = jsonrpc.identify(LongLine.of(line))
        call = self.calls.get(id) if id is not None and method is None else None
        if call is not None and b'"jsonrpc"' in line:
            self._fail(call, Failure("bad_answer", f"the server's answer is malformed: {error.message}"))
            return
        if (shown := self._noise.excerpt(line)) is not None:
            self._tell("junk_on_stdout", f"skips a line of its server that is no message: {shown}")

    def on_long_line(self, line: LongLine) -> None:
        """A message over the limit, or one for which there was no room."""
        self._drop(line, *why_dropped(line.length, self._policy))

    def _drop(self, line: LongLine, reason: str, text: str) -> None:
        """Of a message that cannot be kept: whom it concerns is told, everyone else is not disturbed."""
        method, id = jsonrpc.identify(line)
        self._tell_noise(reason, f"drops {text}", logging.WARNING, method=method)
        if method is not None:
            if id is not None:
                self._link.answer(jsonrpc.error_response(id, INTERNAL_ERROR, text))
            return
        sent = [call for call in self.calls.values() if call.sent]
        only = sent[0] if len(sent) == 1 else None
        call = self.calls.get(id) if id is not None else only
        if call is not None:
            self._fail(call, Failure(reason, f"the server's answer was dropped: {text}"))

    def on_answer(self, response: Envelope, line: bytes) -> None:
        """An answer of the instance."""
        if self._link.resolve(response):
            return
        call = self._finish(response.request_id)
        if call is None:
            if not self._link.hear_sign(response.request_id):
                text = "session %s: an answer to nothing that was asked, id %r"
                log.debug(text, self.short_id, response.id)
            return
        now = self.last_used = self._clock()
        if call.method == "initialize":
            self._open(call, response, line, now)
            return
        self._stats.answered(now - call.since)
        if call.method in Memory.WATCHED:
            self.memory.answered(call.method, call.params, response)
            self._on_changed(self)
        call.reply.answer(line, now)

    def _open(self, call: Call, response: Envelope, line: bytes, now: float) -> None:
        """The answer to the client's `initialize`: with it the session begins, or it never was."""
        try:
            if response.error and not call.retried and self._backend.doubt_handshakes():
                call.retried, self._refused = True, line
                self.calls[call.id] = call
                self._in_flight.taken_bytes += len(call.line)
                self._link.try_again(call, "it refuses initialize")
                return
            self._stats.answered(now - call.since)
            if response.error:
                raise RemoteProtocolError("the server refused to initialize", code="initialize_failed")
            handshake = read_handshake(response.result)
        except RemoteProtocolError as error:
            if error.code == "message_too_long":  # nothing else is wrong with it
                line = Failure(error.code, error.message).response(call.id)
            self._never_open(call, line, error.message)
            return
        self._refused = b""
        self.memory.opened(Replay(call.line, call.id), handshake)
        self.streams.priming = rules_for(handshake.protocol_version).priming
        self._link.works()
        self._stats.sessions_opened += 1
        self._on_changed(self)
        if self._registrar is None:
            self._opened(call, line, None)
        else:
            self._registrar.register(self, partial(self._opened, call, line))

    def _opened(self, call: Call, line: bytes, trouble: Unavailable | None) -> None:
        """Everybody knows of it who must: now its client may."""
        if trouble is not None:
            if isinstance(call.reply, Reply):
                call.reply.refuse(refusals.unavailable(trouble, call.id), self._clock())
            self.close(trouble.message)
            return
        call.reply.answer(line, self._clock())
        revision = self._noise.mask(self.revision)
        self._tell(
            "session_opened",
            f"opened by {self.client or 'a client'} ({revision}, {named(self.pid)})",
            client=self.client,
            revision=revision,
            transport=self.transport,
        )

    def _never_open(self, call: Call, answer: bytes, reason: str) -> None:
        """`initialize` failed. A client that has its stream already may try again on it."""
        self._refused = b""
        if isinstance(call.reply, Reply):
            call.reply.headers = []  # no session, no session id
        call.reply.answer(answer, self._clock())
        if self.streams.in_use:
            # Calls behind it were for a server that never was; the next one must not be given them.
            self.cut("initialize_failed", f"the server was not initialized: {reason}")
            self._link.sleep(reason, reset_by=reason)
        else:
            self.close(reason)

    def _pressure(self) -> None:
        """A client reads too slowly, or has caught up: hold its own server back, nobody else's."""
        self._link.hold_back(self.streams.unsent_bytes > self._policy.unsent_bytes)

    def _on_cut(self, stream: EventStream) -> None:
        """A client did not keep up, and there was no room to wait for it."""
        text = "is not read fast enough while all sessions together keep too much: one of its streams is cut"
        self._tell_noise("stream_cut", text, logging.WARNING)
        if not stream.resumable:
            asyncio.get_running_loop().call_soon(self.close, "its client reads too slowly")

    # What the link tells

    def on_up(self, channel: Channel) -> None:
        """An instance is there. If it has replaced another, the client learns that its state is new."""
        handshake = self.memory.handshake
        if handshake is None:
            return
        self._link.works()
        if self._registrar is not None and any(self._link.upstream):
            self._on_changed(self)
        if not self._link.reset_by:
            # It is the one that it had, together with others, and was heard before this one could hear it.
            for line in (*handshake.news_of_change(), *self.memory.news_of_updates()):
                self._delivery.announce(jsonrpc.parse(line), line, self._clock())
            return
        self._stats.sessions_recovered += 1
        self._tell("session_recovered", f"goes on with {named(channel.pid)}")
        for line in handshake.news_of_restart(self._link.reset_by):
            self._delivery.announce(jsonrpc.parse(line), line, self._clock())

    def on_lost(self, exit: ExitLike, consumed: int) -> None:
        """The instance has died: every call it had is answered, or given to the next one."""
        self._words.withdraw_questions(f"the server ended ({exit})")
        for call in reversed(list(self.calls.values())):
            if not call.sent:
                continue
            if call.cancelled_at is None and may_send_again(call, consumed, self._policy, self.memory):
                self._stats.calls_retried += 1
                call.waiting_since = self._clock()
                self._link.send_again(call)
            else:
                self._fail(call, lost(call, exit, self.memory))
        if not self._is_begun() and not self.streams.in_use:
            self.close(f"the server ended ({exit}) before it was initialized")

    def on_let_go(self, reason: str) -> None:
        """The instance is stopped, the session goes on: answers to it must not reach the next one."""
        self._words.withdraw_questions(f"the server was stopped: {reason}")

    def on_unreachable(self, error: MooringError) -> None:
        """No instance can be had now; those who waited for one have been told."""
        never_opened = self.memory.handshake is None and not self.streams.in_use
        if never_opened or error.code == "version_changed":
            self.close(error.message)

    def on_moved(self) -> None:
        """A server elsewhere knows it as another session now: whoever goes on with it must know."""
        self._on_changed(self)

    def wants_instance(self, exit: ExitLike) -> bool:
        """After a crash, yes. A server that left in peace, while nobody listened, comes when it is called."""
        return not self._closed and (exit.code != 0 or self.streams.in_use)

    def is_pending(self, call: Call) -> bool:
        """Is it still to be answered?"""
        return self.calls.get(call.id) is call

    def on_dismissed(self, item: WaitingLine, reason: str, message: str) -> None:
        """A line that waited will not be sent."""
        if item.call is not None:
            self._fail(item.call, Failure(reason, message, retryable=not item.call.retried))
        elif item.accepted is not None:
            self._tell_noise("message_dropped", f"drops a message of its client: {message}", logging.WARNING)
            item.accepted()

    # Time

    def tick(self, now: float) -> None:
        """Whatever is due by now: time-outs, keep-alives, idleness."""
        for call in list(self.calls.values()):
            self._tick_call(call, now)
        self._link.tick(now)
        self._link.check_health(now, in_use=bool(self.calls))
        self.streams.tick(now)
        idle_s = self._policy.idle_timeout_s
        if self.in_use:
            self.last_used = now
        elif not self._link.may_speak():
            pass  # a server elsewhere could not be told: looked at again when it is known whose it is
        elif now - self.last_used >= self._policy.forget_after_s:
            self.close("nobody has used it for so long")
        elif idle_s is not None and self._link.is_live and now - self.last_used >= idle_s:
            self._tell("session_idle", f"is idle: {named(self.pid)} is stopped, the session stays")
            self._link.sleep("idle", reset_by="it had been idle")

    def _tick_call(self, call: Call, now: float) -> None:
        failure = overdue(call, now, self._policy, served=self._link.is_live)
        if failure is None:
            if now - call.since >= self._policy.stream_after_s:
                call.reply.stream_if_silent(now)
            return
        self._tell_cancelled(call, failure.reason)
        self._fail(call, failure)

    def _tell_cancelled(self, call: Call, reason: str) -> None:
        if call.sent and call.cancelled_at is None and call.method != "initialize":
            params = {"requestId": call.id, "reason": reason}
            self._link.answer(jsonrpc.notification("notifications/cancelled", params))

    # Endings

    def _fail(self, call: Call, failure: Failure) -> None:
        """Answer a call ourselves, if it is still to be answered."""
        if not self.is_pending(call):
            return
        self._finish(call.id)
        if not call.sent:
            self._link.withdraw(call)
        self._stats.failed(failure.reason)
        if call.method == "initialize":
            self._never_open(call, self._refused or failure.response(call.id), failure.message)
        else:
            call.reply.answer(failure.response(call.id), self._clock())

    def _finish(self, id: Id) -> Call | None:
        """The call is about to be answered: it is in flight no longer."""
        call = self.calls.pop(id, None)
        if call is None:
            return None
        size_bytes = len(call.line)
        self._in_flight.taken_bytes -= size_bytes
        if size_bytes >= LARGE_BYTES:
            self._link.disown(call)
        if call.token is not None:
            self._words.forget(call)
        if self.on_quiet is not None and not self.calls:
            self.on_quiet()
        return call

    def cut(self, reason: str, message: str) -> int:
        """End every call now, with an error; returns how many there were. Nobody is left waiting."""
        calls = list(self.calls.values())
        for call in calls:
            self._tell_cancelled(call, message)
            self._fail(call, Failure(reason, message, retryable=not call.sent))
        self._link.dismiss(reason, message)
        return len(calls)

    def hang_up(self, retry_ms: int) -> None:
        """Ask the client to come back later: its GET streams end, each with its position.

        A stream that is the only way to answer (2024-11-05) is kept while a call runs.
        """
        for stream in self.streams.attached:
            if stream.resumable or not self.calls:
                stream.hang_up(retry_ms)

    def close(self, reason: str, *, level: int = logging.INFO) -> None:
        """End the session. Idempotent."""
        if self._closed:
            return
        self._closed = True
        pid = self.pid
        self.cut("session_ended", f"the session has ended: {reason}")
        self._link.close(reason)
        self._delivery.close()
        if self.memory.handshake is not None:
            self._stats.sessions_closed += 1
        self._tell("session_closed", f"closed: {reason}", level, reason=reason, pid=pid)
        self._on_closed(self)

    async def wait_closed(self) -> None:
        """After `close`: until nothing of it runs any more."""
        await self._link.wait_closed()

    def _tell_noise(self, event: str, text: str, level: int = logging.INFO, **fields: object) -> None:
        """The same for what a server or a client can cause without end."""
        if self._noise.admits(len(text)):
            self._tell(event, self._noise.mask(text), level, **fields)

    def _tell(self, event: str, text: str, level: int = logging.INFO, **fields: object) -> None:
        extra = {"event": event, "server": self.server, "session": self.short_id, "pid": self.pid, **fields}
        log.log(level, "session %s %s", self.short_id, text, extra=extra)
