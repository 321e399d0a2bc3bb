"""Callers that speak plain HTTP: a request becomes a connection on an agent's link, and is answered from it.

- A small answer whose length is known is passed on whole; everything else as it comes, byte for byte, and no
  faster than the caller reads: what it does not take is not asked for.
- A caller that goes ends its connection at the agent, which is what the server there would see too.
- A connection that is cut gets an end in words if that is possible, and a visible one if it is not.
"""

import asyncio
from collections.abc import Callable

from mooring.http.head import may_be_sent
from mooring.relay.asked import Asked
from mooring.relay.bodies import Share
from mooring.relay.closing import TOO_LARGE, sayable
from mooring.relay.link import HIGH_WATER_BYTES, Stream
from mooring.relay.passing_on import answer_fields, request_fields
from mooring.relay.refusals import call_id, error_event, error_message, refusal
from mooring.relay.words import Head, Opening, Reset, headers_as_text, text_as_headers
from mooring.wire.http import Exchange, Headers, Request, Response
from mooring.wire.websocket import TRY_AGAIN_LATER, WebSocket

__all__ = ["NO_ROOM", "HttpCaller", "SocketCaller", "opening_of"]

WHOLE_BYTES = 64 * 1024
"""An answer up to this is kept until it is whole: one write, and one length."""
CALLER_GONE = Reset("caller_gone", "the caller has gone")
EVENTS = b"text/event-stream"
CUT = 1011
Done = Callable[["HttpCaller | SocketCaller"], None]
MAX_SOCKET_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of one message on a caller's WebSocket, as of a request's body."""
NO_ROOM = Reset("too_many", "too much waits here already", close=TRY_AGAIN_LATER)


def opening_of(request: Request, server: str, path: str, caller: str) -> Opening:
    """What an agent is told of a request."""
    fields = request_fields(request.headers)
    if request.offers_websocket:
        fields += [
            (b"sec-websocket-protocol", value) for value in request.header_all(b"sec-websocket-protocol")
        ]
    return Opening(
        server=server,
        method=request.method,
        path=path,
        query=request.query,
        headers=headers_as_text(fields),
        caller=caller,
        websocket=request.offers_websocket,
    )


class HttpCaller:
    """The ear of a connection for one exchange. `on_done` is called with it once, when it is over.

    `is_call`: somebody waits for an answer, rather than for whatever may come.
    """

    __slots__ = (
        "_again",
        "_at_boundary",
        "_body",
        "_exchange",
        "_head",
        "_is_over",
        "_is_started",
        "_on_done",
        "_stream",
        "_whole",
    )

    def __init__(
        self,
        exchange: Exchange,
        on_done: Done,
        again: Callable[[Exchange], bool] | None = None,
    ) -> None:
        """`again` is asked if nothing was done: it serves the exchange anew, or says no."""
        self._exchange = exchange
        self._on_done = on_done
        self._again = again
        self._stream: Stream | None = None
        self._head: tuple[int, Headers] = 0, []
        self._whole = False
        """The answer is short: it is passed on when it is all there."""
        self._body = bytearray()
        self._is_started = self._is_over = False
        self._at_boundary = True
        """Of a stream of events: the last one is complete."""

    @property
    def is_call(self) -> bool:
        """See the class."""
        return self._stream is not None and self._stream.is_call

    @property
    def stream(self) -> Stream | None:
        """What it hears."""
        return self._stream

    def begin(self, stream: Stream) -> None:
        """Send the request on."""
        self._stream = stream
        body = self._exchange.request.body
        if body:
            stream.send(body)
        stream.end()
        self._exchange.on_disconnect = self._leave

    def cut(self, reset: Reset) -> None:
        """End it from here: the caller gets words, the agent is told to stop."""
        if self._stream is not None:
            self._stream.give_up(reset)

    # From the agent.

    def on_head(self, head: Head) -> None:
        """The answer begins."""
        assert self._stream is not None  # noqa: S101 - `begin` comes first
        fields = _fields(head)
        if not 200 <= head.status <= 599 or fields is None:
            self._stream.give_up(Reset("bad_answer", "the agent's answer cannot be passed on"))
            return
        length = next((value for name, value in fields if name == b"content-length"), b"")
        self._whole = length.isdigit() and int(length) <= WHOLE_BYTES
        self._head = head.status, answer_fields(fields)
        if not self._whole:
            self._is_started = True
            self._exchange.start(*self._head)
            self._exchange.on_writable = self._read_on

    def on_data(self, data: bytes, more: bool) -> None:
        """A piece of it."""
        assert self._stream is not None  # noqa: S101
        if not self._head[0]:
            self._stream.give_up(Reset("bad_answer", "the agent's answer has no head"))
        elif self._whole:
            self._body += data
            self._stream.consumed()
            if len(self._body) > WHOLE_BYTES:
                self._stream.give_up(Reset("bad_answer", "the agent's answer is longer than it said"))
        else:
            self._exchange.write(data)
            self._at_boundary = data.endswith((b"\n\n", b"\r\n\r\n"))
            self._read_on()

    def on_end(self) -> None:
        """It is whole."""
        if self._whole:
            status, headers = self._head
            self._exchange.respond(Response(status, bytes(self._body), headers))
        elif self._is_started:
            self._exchange.end()
        else:
            self._refuse(Reset("bad_answer", "the agent's answer has no head"))
        self._finish()

    def on_reset(self, reset: Reset) -> None:
        """There will be no more of it."""
        self._finish()
        if self._is_started:
            self._end_stream(reset)
        elif not (reset.not_executed and self._again is not None and self._again(self._exchange)):
            self._refuse(reset)

    def on_writable(self) -> None:
        """The request was given whole: nothing waits for this."""

    def _refuse(self, reset: Reset) -> None:
        self._exchange.respond(refusal(reset, call_id(self._exchange.request)))

    def _end_stream(self, reset: Reset) -> None:
        id = call_id(self._exchange.request)
        is_events = any(name == b"content-type" and value.startswith(EVENTS) for name, value in self._head[1])
        if not is_events or not self._at_boundary:
            self._exchange.abort()
            return
        if id is not None:
            self._exchange.write(error_event(reset, id))
        self._exchange.end()

    # From the caller.

    def _read_on(self) -> None:
        if self._stream is not None and self._exchange.writable:
            self._stream.consumed()

    def _leave(self) -> None:
        if self._stream is not None:
            self._stream.reset(CALLER_GONE)
        self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._exchange.on_disconnect = self._exchange.on_writable = None
            self._on_done(self)


class SocketCaller:
    """A caller that wants a WebSocket: it gets one when the agent's server has said yes.

    Each call that is under way when it is cut gets an error.
    """

    def __init__(
        self,
        exchange: Exchange,
        on_done: Done,
        heard: Share,
        said: Share,
        measure: Callable[[int], float] = lambda count: 0.0,
    ) -> None:
        """`heard` and `said` count what waits for the caller, and of it; `measure` says of so many bytes for
        how long nothing more is to be read."""
        self._exchange = exchange
        self._on_done = on_done
        self._measure = measure
        self._heard = heard
        self._said = said
        self._resting: asyncio.TimerHandle | None = None
        """It has sent too much, and is not read for a while."""
        self._stream: Stream | None = None
        self._socket: WebSocket | None = None
        self._begun = bytearray()
        self._is_over = False
        self._asked = Asked()

    @property
    def is_call(self) -> bool:
        """Somebody waits for an answer."""
        return bool(self._asked)

    @property
    def stream(self) -> Stream | None:
        """What it hears."""
        return self._stream

    def begin(self, stream: Stream) -> None:
        """The opening was all; messages follow when it is agreed."""
        self._stream = stream
        self._exchange.on_disconnect = self._leave

    def cut(self, reset: Reset) -> None:
        """End it from here."""
        if self._stream is not None:
            self._stream.give_up(reset)

    def on_head(self, head: Head) -> None:
        """Yes, or no."""
        assert self._stream is not None  # noqa: S101 - `begin` comes first
        if self._socket is not None:
            return
        if head.status != 101:
            self._refuse_as(head)
            return
        chosen = dict(head.headers).get("sec-websocket-protocol", "")
        self._exchange.on_disconnect = None
        self._socket = self._exchange.upgrade(chosen)
        if self._socket is None:
            self._leave()
            return
        self._socket.on_message = self._on_message
        self._socket.on_writable = self._read_on
        self._socket.on_closed = self._on_closed

    def on_data(self, data: bytes, more: bool) -> None:
        """A message, or a piece of one. It is put together here: the caller's frames are not the agent's."""
        assert self._stream is not None  # noqa: S101
        if self._socket is None:
            self._stream.consumed()
            return
        if len(self._begun) + len(data) > MAX_SOCKET_MESSAGE_BYTES:
            self._stream.give_up(Reset("too_large", "a message is too long", close=TOO_LARGE))
            return
        if more or self._begun:
            if not self._heard.grow(len(data)):
                self._stream.give_up(NO_ROOM)
                return
            self._begun += data
        if not more:
            message = bytes(self._begun) if self._begun else data
            self._begun.clear()
            self._asked.hear_server(message)
            self._stream.note_asked(bool(self._asked))
            self._socket.send(message)
        self._read_on()

    def on_end(self) -> None:
        """The server closed it, without a code."""
        assert self._stream is not None  # noqa: S101
        self._stream.give_up(Reset("closed", close=1000))

    def on_reset(self, reset: Reset) -> None:
        """It is over."""
        if self._socket is not None:
            for id in self._asked:
                self._socket.send(error_message(reset, id))
            self._socket.close(sayable(reset.close, CUT), reset.message)
            self._socket.go_on()  # its goodbye is heard, if it had to wait before
        elif not self._is_over:
            self._exchange.respond(refusal(reset, None))
        self._finish()

    def on_writable(self) -> None:
        """The agent takes more: the caller may say more."""
        self._said.shrink_to(0)
        if self._socket is not None and self._resting is None:
            self._socket.go_on()

    def _refuse_as(self, head: Head) -> None:
        assert self._stream is not None  # noqa: S101
        self._stream.reset(Reset("refused"))
        status = head.status if 400 <= head.status <= 599 else 502
        self._exchange.respond(
            refusal(Reset("refused_upgrade", f"the server refuses (status {status})"), None)
        )
        self._finish()

    def _on_message(self, message: bytes) -> None:
        if self._stream is not None:
            if len(message) >= HIGH_WATER_BYTES and not self._said.grow(len(message)):  # it will wait
                self._stream.give_up(NO_ROOM)
                return
            self._asked.hear_caller(message)
            self._stream.note_asked(bool(self._asked))
            self._stream.send(message)
            if self._socket is not None:
                self._hold_back(self._socket, self._stream, self._measure(len(message)))

    def _hold_back(self, socket: WebSocket, stream: Stream, wait_s: float) -> None:
        """Who says more than the agent takes, or its token allows, is not read for a while."""
        if wait_s or not stream.writable:
            socket.hold()
        if wait_s:
            if self._resting is not None:  # of messages that came together, the last asks for the longest
                self._resting.cancel()
            self._resting = asyncio.get_running_loop().call_later(wait_s, self._rested)

    def _rested(self) -> None:
        self._resting = None
        if self._stream is not None and self._stream.writable:
            self.on_writable()

    def _read_on(self) -> None:
        # Pieces of a message count as read: it could not become whole otherwise.
        if self._stream is not None and (self._socket is None or self._socket.writable):
            self._heard.shrink_to(len(self._begun))
            self._stream.consumed()

    def _on_closed(self, code: int, reason: str) -> None:
        if self._stream is not None:
            self._stream.reset(Reset("caller_gone", reason, close=code))
        self._finish()

    def _leave(self) -> None:
        if self._stream is not None:
            self._stream.reset(CALLER_GONE)
        self._finish()

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._exchange.on_disconnect = None
            self._heard.shrink_to(0)
            self._said.shrink_to(0)
            if self._resting is not None:
                self._resting.cancel()
            self._on_done(self)


def _fields(head: Head) -> Headers | None:
    """None: no header can hold them."""
    try:
        fields = text_as_headers(head.headers)
    except ValueError:
        return None
    return fields if all(map(may_be_sent, fields)) else None
