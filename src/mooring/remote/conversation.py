"""One client's conversation with a server that may come and go.

Invariants:
- Every request of the client is answered exactly once: by the server, or by us with an error that says
  why. Its id is not changed.
- What the server says goes out in the order in which it came on its stream, one message at a time, and
  only when there is room: whoever does not read holds the server back, not our memory.
- An answer of the client's reaches the session that asked, or nobody.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from mooring.errors import MooringError, RemoteProtocolError
from mooring.remote.caller import Caller
from mooring.remote.calls import Call
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.following import Ending, Follower
from mooring.remote.notes import Note, Notes
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.remote.session import ID_PREFIX, RemoteSession
from mooring.remote.waits import delays_s
from mooring.wire import failures, jsonrpc
from mooring.wire.asked import Asked
from mooring.wire.budget import Budget
from mooring.wire.failures import Failure
from mooring.wire.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MAX_BATCH_BYTES, Envelope, Id
from mooring.wire.lines import LongLine
from mooring.wire.memory import Handshake, Memory, Replay, check_initialize
from mooring.wire.mirrored import MarkedTools, mirrored_headers
from mooring.wire.params import cancelled_id, modern_version
from mooring.wire.revisions import rules_for

__all__ = ["Conversation", "Outlet"]

log = logging.getLogger("mooring.remote")

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
RESTARTED = "Mooring lost the session and opened it anew"


class Outlet(Protocol):
    """Where the client reads."""

    def write(self, line: bytes) -> None:
        """Send a line, now or as soon as the client reads."""
        ...

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for room, and for those who came before; in the block it is one's own turn to write."""
        ...


class Conversation:
    """`take` is called with each line of the client; answers and whatever else comes go to the outlet."""

    def __init__(
        self,
        endpoint: Endpoint,
        reach: Reach,
        outlet: Outlet,
        policy: RemotePolicy,
        on_outcome: Callable[[Failure | None], None] = lambda failure: None,
        *,
        tools: MarkedTools | None = None,
    ) -> None:
        """`on_outcome`: a call was answered by the server (None), or by us, for this reason.

        `tools`: what is known of those of the server, by others who speak with it too.
        """
        self._endpoint = endpoint
        self._outlet = outlet
        self._on_outcome = on_outcome
        self._policy = policy
        self._under_way = Budget(policy.budget_bytes, policy.max_calls)
        self._tools = tools if tools is not None else MarkedTools()
        self._asked = Asked(ID_PREFIX, policy.max_asked)
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[Id, Call] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._ending = ""
        self._barrier: asyncio.Future[None] | None = None
        self._is_confirmed = False
        """The server has heard of the client's `initialized` before."""
        self._known: tuple[bytes, Handshake] | None = None
        """A session that another has opened there, until the client's words for it have been said again."""
        self._unopened: Standing | None = None
        """A session that the server has named, and that was never open here: it is ended all the same."""
        self.on_moved: Callable[[], None] = lambda: None
        """Another session has taken the place of the one that there was."""
        self._listening: asyncio.Task[None] | None = None
        self._delays = delays_s(policy)
        self._arriving = Budget(policy.budget_bytes, policy.max_calls)
        self._follower = Follower(endpoint, reach, policy, self._arriving)
        self._session = self._make_session(endpoint, reach)
        self._caller = self._make_caller(endpoint, reach)
        self._notes = Notes(endpoint, reach, self._session, policy)

    # What differs with the transport (`remote.old_sse`) ------------------------------------------

    def _make_session(self, endpoint: Endpoint, reach: Reach) -> RemoteSession:
        return RemoteSession(endpoint, reach, self._policy, self._arriving, self._on_reopened)

    def _make_caller(self, endpoint: Endpoint, reach: Reach, kind: type[Caller] = Caller) -> Caller:
        return kind(
            endpoint,
            reach,
            self._session,
            follower=self._follower,
            policy=self._policy,
            budget=self._arriving,
            tools=self._tools,
            hearing=self,
        )

    def _version_of(self, message: Envelope) -> str | None:
        """The revision that a message of the era without sessions names; None for one of a session."""
        return modern_version(message.params)

    def _hear_junk(self, error: RemoteProtocolError) -> None:
        """The server sent what is no message. Whose stream it came on hears of it from `hear`."""
        log.warning("the server sent what is no message: %s", error.message, extra={"event": "junk"})

    @property
    def calls_in_flight(self) -> int:
        """Calls that somebody waits for."""
        return sum(not call.is_stream for call in self._calls.values())

    @property
    def calls_sent(self) -> int:
        """Those of them that the server may have."""
        return sum(call.sent and not call.is_stream for call in self._calls.values())

    @property
    def unsent(self) -> set[int]:
        """The lines of calls of which nothing has gone out so far, by identity."""
        return {id(call.line) for call in self._calls.values() if not call.sent}

    @property
    def upstream(self) -> bytes | None:
        """The session at the server; None: it has given us none, or there is none yet."""
        return self._session.standing.session if self._session.is_open else None

    def go_on_with(self, session: bytes, handshake: Handshake) -> None:
        """Do not open a session when `initialize` is said, but go on with this one, which went so."""
        self._known = (session, handshake)

    def guard(self, may_speak: Callable[[], bool]) -> None:
        """Others may have the session by now: no message goes out without a look at that."""
        self._endpoint.may_speak = may_speak

    # What the client says --------------------------------------------------------------------

    def take(self, line: bytes | LongLine) -> None:
        """A line of the client's."""
        if isinstance(line, LongLine):
            self._refuse_long(line)
            return
        try:
            if line.lstrip()[:1] == b"[":
                self._take_batch(line)
            else:
                self._take_message(jsonrpc.parse(line), line)
        except RemoteProtocolError as error:
            log.warning("a line of the client is no message: %s", error.message)
            self._outlet.write(jsonrpc.error_response(None, jsonrpc.error_code(error), error.message))

    def _refuse_long(self, line: LongLine) -> None:
        method, id = jsonrpc.identify(line)
        text = f"the message has {line.length} bytes; it may have {self._policy.max_message_bytes}"
        log.warning("%s: %s", method or "a message", text)
        if method is not None and id is not None:
            failure = Failure("message_too_long", text, code=INVALID_REQUEST)
            self._outlet.write(failure.response(id))

    def _take_batch(self, line: bytes) -> None:
        """Each message for itself: a server need not take batches, and the answers are the same."""
        if not rules_for(self._session.standing.version or "").batches:
            raise RemoteProtocolError("batches are not part of this revision", code="invalid_request")
        if len(line) > MAX_BATCH_BYTES:
            text = f"a batch may have {MAX_BATCH_BYTES} bytes; send its messages one by one"
            raise RemoteProtocolError(text, code="invalid_request")
        for message, item in jsonrpc.parse_batch(line):
            self._take_message(message, item)

    def _take_message(self, message: Envelope, line: bytes) -> None:
        if message.is_request:
            self._take_request(message, line)
        elif message.is_response:
            self._take_response(message, line)
        elif message.method == "notifications/cancelled":
            self._take_cancellation(message, line)
        else:
            self._take_notification(message, line)

    def _take_request(self, message: Envelope, line: bytes) -> None:
        call = Call(message, line, self._version_of(message))
        refusal = self._refusal(call)
        if refusal is not None:
            self._outlet.write(refusal.response(call.id))
            return
        if self._known is not None and call.method == "initialize":
            (session, handshake), self._known = self._known, None
            self._session.go_on_with(Replay(line, call.id), handshake, session)
            self._is_confirmed = True
            self._outlet.write(jsonrpc.result_response(call.id, msgspec.to_builtins(handshake)))
            return
        if not call.is_modern:
            call.barrier = self._barrier
        self._calls[call.id] = call
        self._quiet.clear()
        self._under_way.taken_bytes += len(line)
        call.task = self._start(self._caller.run(call), f"call {call.method}")
        call.task.add_done_callback(lambda task: self._on_run(call, task))
        if call.method == "initialize" and not call.is_modern:
            # A server on a pipe would read what follows after it; so what follows waits here.
            self._barrier = call.task

    def _refusal(self, call: Call) -> Failure | None:
        if call.id in self._calls:
            return failures.id_in_use()
        if self._ending:
            return failures.shutting_down(self._ending, taken=False)
        if len(self._calls) >= self._policy.max_calls:
            return failures.too_many_calls(self._policy.max_calls)
        if not self._under_way.has_room(len(call.line), 0):
            return failures.too_busy(self._under_way.limit_bytes)
        if call.method == "initialize" and not call.is_modern:
            if self._session.is_open or any(one.method == "initialize" for one in self._calls.values()):
                return failures.already_initialized()
            try:
                check_initialize(call.line)
            except RemoteProtocolError as error:
                return Failure("message_too_long", error.message, code=INVALID_REQUEST)
        return None

    def _take_response(self, message: Envelope, line: bytes) -> None:
        if message.id is None:
            return
        known = self._asked.answer(message, line)
        if known is None:
            log.debug("an answer to a question that nobody asks any more")
            return
        if not self._under_way.has_room(len(known), 0):
            text = "the client's answer is too large beside what is under way"
            known = jsonrpc.error_response(jsonrpc.parse(known).request_id, INTERNAL_ERROR, text)
        note = Note(known, "an answer", of_one_session=True, repeatable=True)
        note.generation = self._session.standing.generation
        self._hold(known, self._start(self._notes.send(note), "answer"))

    def _take_notification(self, message: Envelope, line: bytes) -> None:
        version = self._version_of(message)
        headers = mirrored_headers(message, version, self._tools) if version is not None else None
        confirms = message.method == "notifications/initialized" and version is None
        note = Note(line, message.method or "", headers, repeatable=confirms, barrier=self._barrier)
        if confirms:
            self._session.memory.initialized(line)
        if confirms and self._is_confirmed:
            self._is_confirmed = False
            self._listen()
            return
        if confirms:
            self._barrier = note.gone
            note.gone.add_done_callback(self._listen)
        if self._under_way.has_room(len(line), 0):
            self._hold(line, note.gone)
            self._notes.put(note)
        else:
            log.warning("%s was dropped: too much is under way", note.what)
            note.gone.set_result(None)

    def _hold(self, line: bytes, until: asyncio.Future[None]) -> None:
        """Count a message for as long as it is held."""
        self._under_way.taken_bytes += len(line)

        def let_go(_done: object) -> None:
            self._under_way.taken_bytes -= len(line)

        until.add_done_callback(let_go)

    def _take_cancellation(self, message: Envelope, line: bytes) -> None:
        id = cancelled_id(message.params)
        call = self._calls.get(id) if id is not None else None
        if call is None or call.cancelled or call.method == "initialize":
            return  # answered already; `initialize` is not to be cancelled
        call.cancelled = True
        if call.is_modern or not call.sent:
            # Over HTTP, to close the stream of such a request is to cancel it.
            self.fail(call, failures.cancelled(sent=call.sent))
            return
        what = "a cancellation"
        self._notes.put(Note(line, what, of_one_session=True, is_void=lambda: self.is_answered(call)))
        loop = asyncio.get_running_loop()
        failure = failures.cancelled(sent=True)
        call.timer = loop.call_later(self._policy.cancel_wait_s, self.fail, call, failure)

    # What the server says --------------------------------------------------------------------

    async def hear(self, data: bytes, standing: Standing) -> bool:
        """A message, or (2025-03-26) a batch of them, on whichever stream. False: it was none."""
        try:
            if data.lstrip()[:1] == b"[" and len(data) <= MAX_BATCH_BYTES:
                messages = jsonrpc.parse_batch(data)
            else:
                messages = [(jsonrpc.parse(data), data)]
        except RemoteProtocolError as error:
            self._hear_junk(error)
            return False
        for message, item in messages:
            async with self._outlet.turn():
                self._hear_message(message, jsonrpc.one_line(item), standing)
        return True

    def _hear_message(self, message: Envelope, line: bytes, standing: Standing) -> None:
        if message.is_response:
            self._hear_answer(message, line)
        elif message.is_request:
            self._hear_question(message, line, standing)
        else:
            if (
                message.method == "notifications/cancelled"
                and (own := cancelled_id(message.params)) is not None
            ):
                shown = self._asked.withdraw(own)
                if shown is not None and shown != own:
                    line = jsonrpc.notification("notifications/cancelled", {"requestId": shown})
            self._outlet.write(line)

    def _hear_answer(self, message: Envelope, line: bytes) -> None:
        call = self._calls.get(message.request_id) if message.id is not None else None
        if call is None:
            log.debug("the server answers what nobody asks any more")
            return
        if call.method == "initialize" and message.result and not call.is_modern:
            self._session.opened(call.line, message, call.session)
        elif call.method == "tools/list" or (not call.is_modern and call.method in Memory.WATCHED):
            self._session.memory.answered(call.method, call.message.params, message)
        if call.is_modern and call.method == "tools/list" and message.result:
            for fault in self._tools.learn(message.result):
                log.warning("%s", fault, extra={"event": "bad_tool"})
        self._on_outcome(None)
        self._answer(call, line)

    def _hear_question(self, message: Envelope, line: bytes, standing: Standing) -> None:
        if standing.generation != self._session.standing.generation:
            return  # of a session that is no more
        if self._asked.takes(message.request_id):
            self._outlet.write(self._asked.ask(message, line))
            return
        text = f"{self._policy.max_asked} requests wait for the client's answer; no more are taken"
        refusal = jsonrpc.error_response(message.request_id, INTERNAL_ERROR, text)
        self._notes.put(Note(refusal, "a refusal", of_one_session=True))

    # Calls -----------------------------------------------------------------------------------

    def is_answered(self, call: Call) -> bool:
        """Is there nothing left to wait for?"""
        return self._calls.get(call.id) is not call

    def fail(self, call: Call, failure: Failure) -> None:
        """Answer a call with an error of ours, and stop what is under way for it."""
        if not self.is_answered(call):
            if call.method == "initialize" and call.session is not None:
                self._unopened = Standing(session=call.session)
            self._on_outcome(failure)
            self._answer(call, failure.response(call.id))
            if call.task is not None and call.task is not asyncio.current_task():
                call.task.cancel()

    def _answer(self, call: Call, line: bytes) -> None:
        del self._calls[call.id]
        self._under_way.taken_bytes -= len(call.line)
        if call.timer is not None:
            call.timer.cancel()
        self._outlet.write(line)
        if all(one.is_stream for one in self._calls.values()):
            self._quiet.set()

    def _on_run(self, call: Call, task: asyncio.Task[None]) -> None:
        if self.is_answered(call):
            return
        error = None if task.cancelled() else task.exception()
        text = "Mooring failed to do the call; its log says more" if error else "the call was given up"
        self.fail(call, Failure("internal", text))

    # The stream for what belongs to no call --------------------------------------------------

    def _listen(self, _confirmed: object = None) -> None:
        """Listen to the session that holds now, and to no other."""
        if self._listening is not None:
            self._listening.cancel()
        if not self._ending and self._session.is_open:
            self._listening = self._start(self._keep_listening(self._session.standing), "listen")

    async def _keep_listening(self, standing: Standing) -> None:
        async def hear(data: bytes) -> bool:
            await self.hear(data, standing)
            return False

        since = asyncio.get_running_loop().time()
        ending = await self._follower.follow(standing, "", hear)
        if ending is not Ending.FORGOTTEN:
            log.debug("no stream for what belongs to no call: %s", ending.value)
            return
        if asyncio.get_running_loop().time() - since > self._policy.longest_wait_s:
            self._delays = delays_s(self._policy)
        # Not at once: a server may forget every session as soon as it has opened it.
        await asyncio.sleep(next(self._delays))
        with contextlib.suppress(MooringError):  # logged; the next call tries again
            await self._session.reopen(standing)

    async def _on_reopened(self, fresh: Handshake) -> None:
        await self._tell_reopened(fresh, self._asked.lose())
        self.on_moved()
        self._listen()

    async def _tell_reopened(self, fresh: Handshake, withdrawn: list[Id]) -> None:
        async with self._outlet.turn():
            for id in withdrawn:
                params = {"requestId": id, "reason": "the server has forgotten the session"}
                self._outlet.write(jsonrpc.notification("notifications/cancelled", params))
            for line in fresh.news_of_restart(RESTARTED):
                self._outlet.write(line)

    # The end ---------------------------------------------------------------------------------

    def refuse_new(self, cause: str) -> None:
        """No new requests; streams that nobody waits for are ended, the properly closed way."""
        self._ending = cause
        for call in [call for call in self._calls.values() if call.is_stream]:
            result = {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: call.id}}
            self._answer(call, jsonrpc.result_response(call.id, result))
            if call.task is not None:
                call.task.cancel()

    async def wait_quiet(self) -> None:
        """Until no call is in flight, and nothing else waits for a server that is there."""
        await self._quiet.wait()
        await self.wait_told()

    async def wait_told(self) -> None:
        """Until no notification waits for a server that is there."""
        await self._notes.wait_sent()

    def cut(self, cause: str) -> int:
        """Answer every remaining call with an error; returns how many there were."""
        remaining = list(self._calls.values())
        for call in remaining:
            self.fail(call, failures.shutting_down(cause, taken=True))
        return len(remaining)

    async def aclose(self) -> None:
        """End the session; nothing is left running."""
        await self.abandon()
        if self._known is not None:
            session, handshake = self._known
            self._unopened = Standing(session=session, version=handshake.protocol_version)
        await self._session.farewell(self._unopened)

    async def abandon(self) -> None:
        """The same, but that the server is not told."""
        self._ending = self._ending or "closed"
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._notes.aclose()
        await self._session.aclose()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task)
        return task

    def _on_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task failed: %s", task.get_name(), exc_info=error, extra={"event": "bug"})
