"""One client's conversation, kept alive across the server instances that serve it.

States:

    connecting   an instance is being acquired and told what its predecessor knew
    live         messages flow
    asleep       no instance; the next message brings one
    closed       ended; nothing is delivered any more

    asleep → connecting → live → asleep …, and from each of them → closed

Invariants:
- Every call is answered exactly once: by the server, or by us with an error that says why.
- Nothing reaches an instance before it has been initialized by the client's own words.
- A call is sent at most once, unless it may be repeated and the operator allowed that.
- Messages keep their order; while they cannot be sent they wait, and their senders with them.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum

from mooring.errors import MooringError, RemoteProtocolError, ServerFailed
from mooring.proxy import call_errors
from mooring.proxy.call_errors import Failure, overdue
from mooring.proxy.calls import Call, Reply, ReplyPort
from mooring.proxy.delivery import Delivery
from mooring.proxy.introduction import introduce
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend, Channel, ExitLike
from mooring.proxy.questions import Questions
from mooring.proxy.stats import Stats
from mooring.proxy.streams import EventStream, Streams
from mooring.proxy.waiting import Waiting, WaitingLine
from mooring.wire import jsonrpc
from mooring.wire.asked import Asked
from mooring.wire.jsonrpc import INTERNAL_ERROR, Envelope, Id
from mooring.wire.lines import LongLine
from mooring.wire.memory import Handshake, Memory, Replay, read_handshake
from mooring.wire.params import cancelled_id, progress_of_call, progress_of_note
from mooring.wire.revisions import rules_for

__all__ = ["Session", "SessionState"]

log = logging.getLogger("mooring.session")


class SessionState(StrEnum):
    """See the module's table."""

    CONNECTING = "connecting"
    LIVE = "live"
    ASLEEP = "asleep"
    CLOSED = "closed"


class Session:
    """A client session; the receiver of whatever instance serves it at the moment."""

    __slots__ = (
        "_asked",
        "_backend",
        "_channel",
        "_clock",
        "_delivery",
        "_on_closed",
        "_own_id",
        "_paused",
        "_policy",
        "_questions",
        "_reset_by",
        "_stats",
        "_task",
        "_tokens",
        "_waiting",
        "calls",
        "client",
        "id",
        "last_used",
        "memory",
        "on_quiet",
        "opened_at",
        "principal",
        "server",
        "state",
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
        clock: Callable[[], float],
        on_closed: Callable[["Session"], None],
    ) -> None:
        self.id = id
        self.server = server
        self.principal = principal
        self.transport = transport
        self.client = ""
        self.state = SessionState.ASLEEP
        self.memory = Memory()
        self.calls: dict[Id, Call] = {}
        self.on_quiet: Callable[[], None] | None = None
        self.streams = Streams(policy, self._pressure)
        self.opened_at = self.last_used = clock()
        self._own_id = f"mooring-{id[:12]}"
        self._asked = Asked(self._own_id, policy.max_asked)
        self._backend = backend
        self._channel: Channel | None = None
        self._clock = clock
        self._delivery = Delivery(self.streams, policy)
        self._on_closed = on_closed
        self._paused = False
        self._policy = policy
        self._questions = Questions()
        self._reset_by = ""
        self._stats = stats
        self._task: asyncio.Task[None] | None = None
        self._tokens: dict[Id, Call] = {}
        self._waiting = Waiting(policy.waiting_bytes)

    def __repr__(self) -> str:
        return f"<Session {self.short_id} {self.state} calls={len(self.calls)}>"

    @property
    def short_id(self) -> str:
        """Enough of the id to tell sessions apart in a log; the whole one is a key and stays out of it."""
        return self.id[:8]

    @property
    def pid(self) -> int | None:
        """The instance that serves it now."""
        return self._channel.pid if self._channel else None

    @property
    def revision(self) -> str:
        """The negotiated protocol revision; empty before the handshake."""
        return self.memory.handshake.protocol_version if self.memory.handshake else ""

    @property
    def in_use(self) -> bool:
        """A call is running or a stream is being read."""
        return bool(self.calls) or self.streams.in_use

    # From the client -----------------------------------------------------------------------

    def request(self, request: Envelope, line: bytes, reply: ReplyPort) -> None:
        """A call: it will be answered through `reply`, whatever happens."""
        now = self.last_used = self._clock()
        id = request.request_id
        refusal = self._refusal(id, request.method)
        if refusal is not None:
            reply.answer(refusal, now)
            return
        call = self.calls[id] = Call(id, request, line, reply, now)
        self._stats.calls += 1
        if self._policy.call_timeout_s is not None:
            call.deadline = now + self._policy.call_timeout_s
        if b"progressToken" in line and (token := progress_of_call(request.params)) is not None:
            call.token = token
            self._tokens[token] = call
        self._send(WaitingLine(line, call))
        if self._delivery.has_backlog and self.calls.get(id) is call:
            self._delivery.put_questions(reply, now)

    def _refusal(self, id: Id, method: str | None) -> bytes | None:
        """Why a call cannot be taken; None if it can."""
        if self.state is SessionState.CLOSED:
            return call_errors.session_ended(id)
        if id in self.calls:
            return call_errors.id_in_use(id)
        if len(self.calls) >= self._policy.max_calls:
            return call_errors.too_many_calls(id, self._policy.max_calls)
        begun = self.memory.handshake is not None or any(
            call.method == "initialize" for call in self.calls.values()
        )
        if (method == "initialize") is begun:
            return call_errors.out_of_order(id, begun=begun)
        return None

    def notify(self, note: Envelope, line: bytes, accepted: Callable[[], None]) -> None:
        """A notification; `accepted` is called when it is on its way."""
        self.last_used = self._clock()
        if note.method == "notifications/initialized":
            self.memory.initialized(line)
            if self.state is not SessionState.LIVE:
                accepted()  # the instance that is being prepared, or the next one, will be told
                return
        elif note.method == "notifications/cancelled" and not self._cancel(note):
            accepted()
            return
        self._send(WaitingLine(line, None, accepted))

    def _cancel(self, note: Envelope) -> bool:
        """Does the cancellation concern a call that the server knows?"""
        id = cancelled_id(note.params)
        call = self.calls.get(id) if id is not None else None
        if call is None or call.method == "initialize":
            return False
        call.cancelled_at = self._clock()
        if call.sent:
            return True
        self._waiting.remove(call)
        self._fail(call, Failure("cancelled", "cancelled before it was sent to the server", retryable=True))
        return False

    def respond(self, response: Envelope, line: bytes, accepted: Callable[[], None]) -> None:
        """The client's answer to a question of the server. Late answers are dropped: nobody waits."""
        self.last_used = self._clock()
        answer = self._asked.answer(response, line)
        if answer is None:
            log.debug("session %s: an answer to nothing that is asked, id %r", self.short_id, response.id)
            accepted()
            return
        self._send(WaitingLine(answer, None, accepted))

    def listen(self, stream: EventStream) -> None:
        """A GET stream has been opened."""
        self.last_used = self._clock()
        self._delivery.listen(stream, self.last_used)

    # To the server -------------------------------------------------------------------------

    def _send(self, item: WaitingLine) -> None:
        channel = self._channel
        if self.state is SessionState.LIVE and not self._waiting and channel is not None and channel.writable:
            self._write(channel, item)
        elif self._waiting.fits(item.line):
            self._waiting.append(item)
            self._wake()
        elif item.call is not None:
            self._fail(
                item.call, Failure("server_busy", "the server does not read its input", retryable=True)
            )
        elif item.accepted is not None:
            log.warning("session %s: the server does not read; a message to it was dropped", self.short_id)
            item.accepted()

    def _write(self, channel: Channel, item: WaitingLine) -> None:
        position = channel.send(item.line)
        if item.call is not None:
            item.call.sent = True
            item.call.position = position
        if item.accepted is not None:
            item.accepted()

    def on_writable(self) -> None:
        """The instance reads again, or is ready: send what waits."""
        while self._waiting and self.state is SessionState.LIVE:
            channel = self._channel
            if channel is None or not channel.writable:
                return
            item = self._waiting.pop()
            # A call that we answered while it waited (it timed out) is not sent after all.
            if item.call is None or self.calls.get(item.call.id) is item.call:
                self._write(channel, item)

    # From the server -----------------------------------------------------------------------

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
        self._on_message(message, jsonrpc.one_line(line))

    def _on_batch(self, line: bytes) -> None:
        try:
            messages = jsonrpc.parse_batch(line)
        except RemoteProtocolError as error:
            self._on_junk(line, error)
            return
        for message, item in messages:
            self._on_message(message, jsonrpc.one_line(item))

    def _on_message(self, message: Envelope, line: bytes) -> None:
        if message.method is None:
            self._on_answer(message, line)
        elif message.is_request:
            self._on_question(message, line)
        else:
            self._on_note(message, line)

    def _on_junk(self, line: bytes, error: RemoteProtocolError) -> None:
        """Not a message: log and skip it, unless it shows which call it was meant to answer."""
        self._stats.junk_lines += 1
        method, id = jsonrpc.identify(LongLine.of(line))
        call = self.calls.get(id) if id is not None and method is None else None
        if call is not None and b'"jsonrpc"' in line:
            self._fail(call, Failure("bad_answer", f"the server's answer is malformed: {error.message}"))
            return
        shown = line[:200].decode("utf-8", "replace")
        self._tell("junk_on_stdout", f"skips a line of its server that is no message: {shown}")

    def on_long_line(self, line: LongLine) -> None:
        """A message over the limit: whom it concerns is told, everyone else is not disturbed."""
        method, id = jsonrpc.identify(line)
        limit = self._policy.max_message_bytes
        text = f"a message of {line.length} bytes is over the limit of {limit} (--max-message-bytes)"
        self._tell("message_too_long", f"drops {text}", logging.WARNING, method=method)
        if method is not None:
            if id is not None and self._channel is not None:
                self._channel.send(jsonrpc.error_response(id, INTERNAL_ERROR, text))
            return
        sent = [call for call in self.calls.values() if call.sent]
        only = sent[0] if len(sent) == 1 else None
        call = self.calls.get(id) if id is not None else only
        if call is not None:
            self._fail(call, Failure("message_too_long", f"the server's answer was dropped: {text}"))

    def _on_answer(self, response: Envelope, line: bytes) -> None:
        if self._questions and self._questions.resolve(response):
            return
        call = self._finish(response.request_id)
        if call is None:
            log.debug("session %s: an answer to nothing that was asked, id %r", self.short_id, response.id)
            return
        now = self.last_used = self._clock()
        self._stats.answered(now - call.since)
        if call.method in Memory.WATCHED:
            self.memory.answered(call.method, call.params, response)
        elif call.method == "initialize" and self.memory.handshake is None:
            self._open(call, response, line, now)
            return
        call.reply.answer(line, now)

    def _open(self, call: Call, response: Envelope, line: bytes, now: float) -> None:
        """The answer to the client's `initialize`: with it the session begins, or it never was."""
        try:
            if response.error:
                raise RemoteProtocolError("the server refused to initialize", code="initialize_failed")
            handshake = read_handshake(response.result)
        except RemoteProtocolError as error:
            self._refused(call, line, now, error.message)
            return
        self.memory.opened(Replay(call.line, call.id), handshake)
        self.streams.priming = rules_for(handshake.protocol_version).priming
        if self._channel is not None:
            self._backend.spoke(self._channel)
        self._stats.sessions_opened += 1
        call.reply.answer(line, now)
        self._tell(
            "session_opened",
            f"opened by {self.client or 'a client'} ({handshake.protocol_version}, pid {self.pid})",
            client=self.client,
            revision=handshake.protocol_version,
            transport=self.transport,
        )

    def _refused(self, call: Call, line: bytes, now: float, reason: str) -> None:
        """The server does not want this client. One that has its stream already may try again."""
        if isinstance(call.reply, Reply):
            call.reply.headers = []  # no session, no session id
        call.reply.answer(line, now)
        if self.streams.in_use:
            self.state = SessionState.ASLEEP
            self._drop_channel(reason)
        else:
            self.close(reason)

    def _on_question(self, request: Envelope, line: bytes) -> None:
        """The server wants something of the client."""
        place = self._delivery.place(request, self.calls.values())
        channel, id = self._channel, request.request_id
        if channel is None:
            return
        if request.method == "ping" and place is None:
            channel.send(jsonrpc.result_response(id, {}))
        elif self._asked.full or (place is None and self._delivery.full):
            text = "the client leaves too many requests unanswered, or does not listen"
            channel.send(jsonrpc.error_response(id, INTERNAL_ERROR, text))
        else:
            self._delivery.put(place, request, self._asked.ask(request, line), self._clock())

    def _on_note(self, note: Envelope, line: bytes) -> None:
        if note.method == "notifications/progress":
            self._on_progress(note, line)
            return
        if note.method == "notifications/cancelled" and (own := cancelled_id(note.params)) is not None:
            shown = self._asked.withdraw(own)
            if shown is not None and shown != own:
                line = jsonrpc.notification("notifications/cancelled", {"requestId": shown})
        self._delivery.put(self._delivery.place(note, self.calls.values()), note, line, self._clock())

    def _on_progress(self, note: Envelope, line: bytes) -> None:
        token = progress_of_note(note.params)
        call = self._tokens.get(token) if token is not None else None
        if call is None:
            log.debug("session %s: progress of no call that is running", self.short_id)
            return
        now = self._clock()
        if self._policy.call_timeout_s is not None:
            call.deadline = now + self._policy.call_timeout_s
        if call.reply.can_deliver:
            call.reply.deliver(line, now)

    def _pressure(self) -> None:
        """A client reads too slowly, or has caught up: hold its own server back, nobody else's."""
        slow = self.streams.unsent_bytes > self._policy.unsent_bytes
        if self._channel is None or slow == self._paused:
            return
        self._paused = slow
        if slow:
            self._channel.pause_reading()
        else:
            self._channel.resume_reading()

    # The instance comes and goes -----------------------------------------------------------

    def _wake(self) -> None:
        if self.state is SessionState.ASLEEP:
            self.state = SessionState.CONNECTING
            self._task = asyncio.create_task(self._connect(), name=f"session {self.short_id} connecting")

    async def _connect(self) -> None:
        """Bring an instance. Ends live, asleep with every waiting call failed, or closed."""
        try:
            while not await self._try_instance():
                pass  # it died or refused; how soon the next one comes is the backend's decision
        except MooringError as error:
            self._task = None
            self._give_up(error)

    async def _try_instance(self) -> bool:
        channel = self._channel = await self._backend.acquire()
        self._paused = False
        channel.attach(self)
        try:
            await introduce(
                channel, self.memory, self._questions, self._own_id, self._policy.handshake_timeout_s
            )
        except ServerFailed as error:
            log.warning("session %s: pid %s %s", self.short_id, channel.pid, error.message)
            self._drop_channel(error.message, failed=True)
            return False
        if self._channel is not channel:
            return False  # it ended right after its last answer
        self._task = None
        self.state = SessionState.LIVE
        if self.memory.handshake is not None:
            self._go_on(channel, self.memory.handshake)
        self.on_writable()
        return True

    def _go_on(self, channel: Channel, handshake: Handshake) -> None:
        """The session continues; the client learns that the server's state is new."""
        self._backend.spoke(channel)
        self._stats.sessions_recovered += 1
        self._tell("session_recovered", f"goes on with pid {channel.pid}")
        for line in handshake.news_of_restart(self._reset_by):
            self._delivery.announce(jsonrpc.parse(line), line, self._clock())

    def _give_up(self, error: MooringError) -> None:
        """No instance can be had now: whoever waits for one is told, at once."""
        self.state = SessionState.ASLEEP
        self._drop_channel(error.message)
        if self.memory.handshake is None or error.code == "version_changed":
            self._dismiss_waiting(error.code, error.message)
            self.close(error.message)
        else:
            self._dismiss_waiting(error.code, error.message)

    def _dismiss_waiting(self, reason: str, message: str) -> None:
        for item in self._waiting.take_all():
            if item.call is not None:
                self._fail(item.call, Failure(reason, message, retryable=True))
            elif item.accepted is not None:
                item.accepted()

    def on_gone(self, exit: ExitLike) -> None:
        """The instance has ended by itself: an event, not an ending."""
        channel, self._channel = self._channel, None
        if self.state is SessionState.CLOSED or channel is None:
            return
        self._reset_by = str(exit)
        self._questions.lose(f"ended while it was being initialized ({exit})")
        self._withdraw_questions(f"the server ended ({exit})")
        consumed = channel.consumed
        for call in reversed(list(self.calls.values())):
            if not call.sent:
                continue
            if self._may_send_again(call, consumed):
                call.sent = False
                self._stats.calls_retried += 1
                self._waiting.put_back(WaitingLine(call.line, call))
            else:
                self._fail_lost(call, exit)
        if self.memory.handshake is None:
            self.close(f"the server ended ({exit}) before it was initialized")
        elif self.state is SessionState.LIVE:
            self.state = SessionState.ASLEEP
            self._wake()

    def _fail_lost(self, call: Call, exit: ExitLike) -> None:
        retryable = self.memory.may_repeat(call.method, call.params)
        text = f"the server ended ({exit}) while it was handling {call.method}; it may have been executed"
        self._fail(call, Failure("server_exited", text, retryable=retryable, exit=exit))

    def _may_send_again(self, call: Call, consumed: int) -> bool:
        """Was it never read; or may it be repeated, and has not been?"""
        if call.method == "initialize":
            return False  # without a session there is nothing to save, and the client should know at once
        if call.position > consumed:
            return True
        if not self._policy.retry or call.retried:
            return False
        call.retried = self.memory.may_repeat(call.method, call.params)
        return call.retried

    def _withdraw_questions(self, reason: str) -> None:
        """The client need not answer what nobody asks any more."""
        for shown in self._asked.lose():
            if not self._delivery.withdraw(shown):
                params = {"requestId": shown, "reason": reason}
                line = jsonrpc.notification("notifications/cancelled", params)
                note = jsonrpc.parse(line)
                self._delivery.put(self._delivery.place(note, self.calls.values()), note, line, self._clock())

    def _drop_channel(self, reason: str, *, failed: bool = False) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self._backend.release(channel, reason, failed=failed)

    def sleep(self) -> None:
        """Let the instance go; the session stays."""
        if self.state is SessionState.LIVE:
            self.state = SessionState.ASLEEP
            self._reset_by = "it had been idle"
            self._withdraw_questions("the server was stopped because it was idle")
            self._drop_channel("idle")
            if self._waiting:
                self._wake()  # it did not read; whoever waits for that gets another one

    # Time ----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Whatever is due by now: time-outs, keep-alives, idleness."""
        for call in list(self.calls.values()):
            self._tick_call(call, now)
        for stream in self.streams:
            stream.keep_alive(now, self._policy.keep_alive_s)
        self.streams.expire(now)
        idle_s = self._policy.idle_timeout_s
        if self.in_use:
            self.last_used = now
        elif idle_s is not None and self.state is SessionState.LIVE and now - self.last_used >= idle_s:
            self._tell("session_idle", f"is idle: pid {self.pid} is stopped, the session stays")
            self.sleep()

    def _tick_call(self, call: Call, now: float) -> None:
        verdict = overdue(call, now, self._policy, served=self._channel is not None)
        if verdict is None:
            call.reply.tick(now, self._policy.stream_after_s)
            return
        if verdict.reason == "timeout":
            self._tell_cancelled(call, "timed out")
        self._fail(call, verdict)

    def _tell_cancelled(self, call: Call, reason: str) -> None:
        if call.sent and self._channel is not None:
            params = {"requestId": call.id, "reason": reason}
            self._channel.send(jsonrpc.notification("notifications/cancelled", params))

    # Endings -------------------------------------------------------------------------------

    def _fail(self, call: Call, failure: Failure) -> None:
        """Answer a call ourselves."""
        if self._finish(call.id) is None:
            return
        self._stats.failed(failure.reason)
        never_opened = call.method == "initialize" and self.memory.handshake is None
        if never_opened and isinstance(call.reply, Reply):
            call.reply.headers = []  # no session, no session id
        call.reply.answer(failure.response(call.id), self._clock())
        if never_opened:
            self.close(failure.message)

    def _finish(self, id: Id) -> Call | None:
        """The call is about to be answered: it is in flight no longer."""
        call = self.calls.pop(id, None)
        if call is not None and call.token is not None and self._tokens.get(call.token) is call:
            del self._tokens[call.token]
        if self.on_quiet is not None and not self.calls:
            self.on_quiet()
        return call

    def cut(self, reason: str, message: str) -> int:
        """End every call now, with an error; returns how many there were."""
        calls = list(self.calls.values())
        for call in calls:
            self._tell_cancelled(call, message)
            self._fail(call, Failure(reason, message, retryable=not call.sent))
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
        if self.state is SessionState.CLOSED:
            return
        pid = self.pid
        self.state = SessionState.CLOSED
        self.cut("session_ended", f"the session has ended: {reason}")
        self._dismiss_waiting("session_ended", reason)
        for stream in self.streams:
            self.streams.drop(stream)
        self._drop_channel(reason)
        if self._task is not None:
            self._task.cancel()
        if self.memory.handshake is not None:
            self._stats.sessions_closed += 1
        self._tell("session_closed", f"closed: {reason}", level, reason=reason, pid=pid)
        self._on_closed(self)

    def _tell(self, event: str, text: str, level: int = logging.INFO, **fields: object) -> None:
        extra = {"event": event, "server": self.server, "session": self.short_id, "pid": self.pid, **fields}
        log.log(level, "session %s %s", self.short_id, text, extra=extra)
