"""The agent's end of connections: each is a request to a server here, asked as if its caller were here too.

- What a server says passes as it is, piece by piece, and no faster than the link takes it.
- A caller that goes closes the request here, which is all that a server can see of it: in either era it does
  what it would do if the caller had been local.
- A request that did not get out is tried again for a while: the daemon may be changing hands. One that did is
  never sent twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar

from mooring.errors import MooringError
from mooring.http.client import Client, ClientResponse
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.http.websocket_client import ClientSockets, Refused
from mooring.relay.asked import Asked
from mooring.relay.bodies import Bodies, Share
from mooring.relay.callers import MAX_SOCKET_MESSAGE_BYTES, NO_ROOM
from mooring.relay.closing import TOO_LARGE, sayable
from mooring.relay.link import Stream
from mooring.relay.passing_on import PATHS, answer_fields, is_one_request, request_fields
from mooring.relay.policy import AgentPolicy
from mooring.relay.words import Head, Opening, Reset, headers_as_text, text_as_headers
from mooring.wire.http import Headers
from mooring.wire.websocket import WebSocket

__all__ = ["Answering", "Door"]

log = logging.getLogger("mooring.relay")

T = TypeVar("T")

RETRY_S = 0.1
QUIET_LOOK_S = 0.05
CALLER_GONE = 1001
FULL = Reset("too_many", "too much waits at this workstation already", not_executed=True)
MISTAKE = Reset("internal_error", "it failed at the workstation; its log says why", close=1011)


class Door(Protocol):
    """The way to this workstation's servers."""

    async def client(self) -> Client:
        """Who asks them. Raises NotSent, MooringError."""
        ...

    def doubt(self) -> None:
        """Nobody answered there: look again, before the next one is asked."""
        ...

    def headers(self, caller: str, prefix: str) -> Headers:
        """By which a server knows who asks, and under which address it was asked."""
        ...

    def is_offered(self, server: str) -> bool:
        """May it be asked for?"""
        ...


class Answering:
    """All that is under way for callers. `aclose` leaves nothing."""

    def __init__(self, door: Door, policy: AgentPolicy) -> None:
        self._door = door
        self._policy = policy
        self._sockets = ClientSockets()
        self._bodies = Bodies(policy.max_waiting_bytes, policy.max_waiting_bytes_per_caller)
        self._tasks: set[asyncio.Task[None]] = set()
        self._calling: set[asyncio.Task[None]] = set()
        """Of them, those that somebody waits for."""
        self._talks: set[_SocketAnswer] = set()
        """WebSockets that are open."""
        self._refusal: Reset | None = None
        self.name = ""
        """Under which the relay knows us."""
        self.calls = 0

    @property
    def in_flight(self) -> int:
        """How many requests are being answered, and WebSockets open."""
        return len(self._tasks) + len(self._talks)

    @property
    def calls_in_flight(self) -> int:
        """How many of them are calls, or have some, rather than streams that only listen."""
        return len(self._calling) + sum(talk.has_calls for talk in self._talks)

    def refuse_new(self, cause: str) -> None:
        """Take no more calls."""
        text = f"{self.name or 'the workstation'} is disconnecting ({cause})"
        self._refusal = Reset("agent_leaving", text, not_executed=True)

    async def wait_quiet(self) -> None:
        """Until no call is under way. There is no one place that knows: each WebSocket has its own."""
        while self.calls_in_flight:  # noqa: ASYNC110
            await asyncio.sleep(QUIET_LOOK_S)

    def open(self, stream: Stream, opening: Opening) -> None:
        """A caller asks."""
        refusal = self._refusal or self._judge(opening)
        if refusal is not None:
            stream.reset(refusal)
            return
        self.calls += 1
        share = Share(self._bodies, opening.caller)
        if opening.websocket:
            socket_answer = _SocketAnswer(stream, share, self._talks.discard)
            stream.ear = socket_answer
            self._begin(self._bridge(socket_answer, opening), socket_answer, is_call=False)
        else:
            stream.ear = _Answer(
                stream, share, self._policy.max_body_bytes, lambda answer: self._ask(answer, opening)
            )

    def _judge(self, opening: Opening) -> Reset | None:
        if not self._door.is_offered(opening.server) or opening.path not in PATHS:
            return Reset("no_such_server", f"{opening.server[:40]} is not offered here", not_executed=True)
        if not is_one_request(opening):
            return Reset("bad_request", "the request cannot be asked here", not_executed=True)
        if self.in_flight >= self._policy.max_streams:
            return Reset("too_many", "too many calls and streams at this workstation", not_executed=True)
        return None

    def _ask(self, answer: "_Answer", opening: Opening) -> None:
        self._begin(self._answer(answer, opening), answer, is_call=opening.is_call)
        if answer.task is not None:
            answer.task.add_done_callback(lambda task: answer.let_go())

    def _begin(
        self, work: Coroutine[None, None, None], answer: "_Answer | _SocketAnswer", *, is_call: bool
    ) -> None:
        task = asyncio.create_task(work)
        answer.task = task
        self._tasks.add(task)
        if is_call:
            self._calling.add(task)
        task.add_done_callback(lambda task: self._on_done(task, answer.stream))

    def _on_done(self, task: "asyncio.Task[None]", stream: Stream) -> None:
        self._tasks.discard(task)
        self._calling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a call of a caller failed inside Mooring", exc_info=error)
            stream.reset(MISTAKE)  # whatever went wrong with it: its caller hears of it

    async def _answer(self, answer: "_Answer", opening: Opening) -> None:
        stream = answer.stream
        try:
            response = await self._request(opening, bytes(answer.body))
        except AnswerLost as error:
            stream.reset(Reset("answer_lost", error.message))
            return
        except MooringError as error:
            stream.reset(Reset("server_unreachable", error.message, not_executed=True))
            return
        try:
            stream.head(Head(response.status, headers_as_text(_kept(response.headers))))
            async for piece in response:
                stream.send(piece)
                if not stream.writable:
                    await answer.until_writable()
            stream.end()
        except AnswerLost as error:
            stream.close(Reset("answer_lost", error.message))
        finally:
            response.close()

    async def _request(self, opening: Opening, body: bytes) -> ClientResponse:
        return await self._sent(
            lambda client: client.request(opening.method, _target(opening), self._headers(opening), body)
        )

    async def _sent(self, ask: Callable[[Client], Awaitable[T]]) -> T:
        """What comes of it, once it gets out. Raises MooringError."""
        give_up_at = asyncio.get_running_loop().time() + self._policy.local_s
        while True:
            try:
                return await ask(await self._door.client())
            except NotSent:
                self._door.doubt()
                if asyncio.get_running_loop().time() > give_up_at:
                    raise
            await asyncio.sleep(RETRY_S)

    def _headers(self, opening: Opening) -> Headers:
        fields = request_fields(text_as_headers(opening.headers))  # `_judge` has seen that they can be
        return [*fields, *self._door.headers(opening.caller, f"/{self.name}" if self.name else "")]

    async def _bridge(self, answer: "_SocketAnswer", opening: Opening) -> None:
        """A WebSocket to the local server; from then on its callbacks do the work."""
        offered = dict(opening.headers).get("sec-websocket-protocol", "").split(",")[0].strip()
        try:
            socket = await self._sent(
                lambda client: self._sockets.open(
                    client.origin, _target(opening), self._headers(opening), subprotocol=offered
                )
            )
        except Refused as error:
            answer.stream.head(Head(error.status))
            answer.stream.end()
            return
        except AnswerLost as error:
            answer.stream.reset(Reset("answer_lost", error.message, not_executed=True))
            return
        except MooringError as error:
            answer.stream.reset(Reset("server_unreachable", error.message, not_executed=True))
            return
        self._talks.add(answer)
        answer.begin(socket, offered)

    async def aclose(self) -> None:
        """Give up whatever is under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._sockets.aclose()


class _Answer:
    """The ear of a connection that is a request."""

    def __init__(
        self, stream: Stream, share: Share, max_body_bytes: int, on_asked: Callable[["_Answer"], None]
    ) -> None:
        self.stream = stream
        self.body = bytearray()
        self.task: asyncio.Task[None] | None = None
        self._share = share
        self._max_body_bytes = max_body_bytes
        self._on_asked = on_asked
        self._writable: asyncio.Event | None = None

    async def until_writable(self) -> None:
        """Until the link has taken most of what waits."""
        self._writable = asyncio.Event()
        await self._writable.wait()

    def on_head(self, head: Head) -> None:
        """A request has none."""

    def on_data(self, data: bytes, more: bool) -> None:
        """Of its body."""
        if len(self.body) + len(data) > self._max_body_bytes:
            self._refuse(Reset("too_large", "the request is too large", not_executed=True))
            return
        if not self._share.grow(len(data)):
            self._refuse(FULL)
            return
        self.body += data
        self.stream.consumed()

    def on_end(self) -> None:
        """It is whole: now it is asked."""
        self._on_asked(self)

    def on_reset(self, reset: Reset) -> None:
        """The caller has gone."""
        if self.task is not None:
            self.task.cancel()
        else:
            self.let_go()

    def let_go(self) -> None:
        """Its body does not wait any more."""
        self._share.shrink_to(0)

    def _refuse(self, reset: Reset) -> None:
        self.stream.reset(reset)
        self.let_go()

    def on_writable(self) -> None:
        """The link has caught up."""
        if self._writable is not None:
            self._writable.set()


class _SocketAnswer:
    """The ear of a connection that is a WebSocket."""

    def __init__(self, stream: Stream, share: Share, on_done: Callable[["_SocketAnswer"], None]) -> None:
        self.stream = stream
        self.task: asyncio.Task[None] | None = None
        self._share = share
        self._on_done = on_done
        self._asked = Asked()
        self._socket: WebSocket | None = None
        self._early: list[bytes] = []
        """Messages that came before the local server has said yes: no more than the window holds."""
        self._begun = bytearray()

    @property
    def has_calls(self) -> bool:
        """Somebody waits for an answer."""
        return bool(self._asked)

    def begin(self, socket: WebSocket, subprotocol: str) -> None:
        """The local server has said yes."""
        if self.stream.is_over:
            socket.close(CALLER_GONE, "the caller has gone")
            self._on_done(self)
            return
        self._socket = socket
        socket.on_message = self._on_message
        socket.on_writable = self._read_on
        socket.on_closed = self._on_closed
        chosen = [("sec-websocket-protocol", subprotocol)] if subprotocol else []
        self.stream.head(Head(101, chosen))
        for message in self._early:
            socket.send(message)
        self._early.clear()
        self._read_on()

    def on_head(self, head: Head) -> None:
        """Callers send none."""

    def on_data(self, data: bytes, more: bool) -> None:
        """A message of the caller's, or a piece of one."""
        if len(self._begun) + len(data) > MAX_SOCKET_MESSAGE_BYTES:
            self.stream.give_up(Reset("too_large", "a message is too long", close=TOO_LARGE))
            return
        if more or self._begun:
            if self._socket is not None and not self._share.grow(len(data)):
                self.stream.give_up(NO_ROOM)
                return
            self._begun += data
        if not more:
            send = self._early.append if self._socket is None else self._socket.send
            message = bytes(self._begun) if self._begun else data
            self._begun.clear()
            self._asked.hear_caller(message)
            send(message)
        self._read_on()

    def on_end(self) -> None:
        """The caller says no more."""
        if self.task is not None:
            self.task.cancel()
        self.stream.end()
        self._close(1000, "")

    def on_reset(self, reset: Reset) -> None:
        """The caller has gone."""
        if self.task is not None:
            self.task.cancel()
        self._close(reset.close, reset.message)

    def on_writable(self) -> None:
        """The link has caught up: the server may say more."""
        if self._socket is not None:
            self._socket.go_on()

    def _close(self, code: int, reason: str) -> None:
        self._on_done(self)
        self._share.shrink_to(0)
        if self._socket is not None:
            self._socket.close(sayable(code, CALLER_GONE), reason)

    def _on_message(self, message: bytes) -> None:
        self._asked.hear_server(message)
        self.stream.send(message)
        if not self.stream.writable and self._socket is not None:
            self._socket.hold()

    def _read_on(self) -> None:
        if self._socket is not None and self._socket.writable:
            self._share.shrink_to(len(self._begun))
            self.stream.consumed()

    def _on_closed(self, code: int, reason: str) -> None:
        self._on_done(self)
        self._share.shrink_to(0)
        self.stream.close(Reset("closed", reason, close=code))


def _target(opening: Opening) -> str:
    return f"/{opening.server}/{opening.path}" + (f"?{opening.query}" if opening.query else "")


def _kept(headers: Headers) -> Headers:
    """For the relay: the length tells it whether the answer is short."""
    length = [field for field in headers if field[0] == b"content-length"]
    return [*answer_fields(headers), *length]
