"""A client's call in flight, and the place where its answer goes.

`Reply` is the answer to one POST of Streamable HTTP. It is decided late: JSON if the answer
comes alone, a stream if anything else comes first or nothing comes for a while. A client
that disconnects has not cancelled: a stream goes on being recorded, to be resumed.
`StreamReply` is its counterpart where all answers go to the one stream of a session (2024-11-05).
"""

from typing import Protocol

from msgspec import Raw, Struct

from mooring.proxy.streams import EventStream, Streams
from mooring.wire import jsonrpc
from mooring.wire.http import Exchange, Headers, Response
from mooring.wire.jsonrpc import Id

__all__ = ["JSON_HEADERS", "Call", "Reply", "ReplyPort", "StreamReply"]

JSON_HEADERS: Headers = [(b"content-type", b"application/json")]


class ReplyPort(Protocol):
    """Where the messages that belong to a call go."""

    @property
    def can_deliver(self) -> bool:
        """Could the client get a message here before its answer, now or when it comes back?"""
        ...

    @property
    def heard(self) -> bool:
        """Is somebody there, this very moment?"""
        ...

    def deliver(self, data: bytes, now: float) -> None:
        """A message that belongs to the call but is not its answer."""
        ...

    def answer(self, data: bytes, now: float) -> None:
        """The answer to one call."""
        ...

    def stream_if_silent(self, now: float) -> None:
        """The call takes long: show that somebody is there."""
        ...


class Call(Struct, eq=False):
    """One request of the client that has not been answered."""

    id: Id
    method: str
    params: bytes | Raw
    line: bytes
    reply: ReplyPort
    since: float
    touched: float
    waiting_since: float
    token: Id | None = None
    sent: bool = False
    position: int = 0
    """Where it begins in what its instance was sent."""
    retried: bool = False
    deadline: float | None = None
    cancelled_at: float | None = None

    def __repr__(self) -> str:
        return f"<Call {self.method} id={self.id!r}>"


class Reply(Struct, eq=False):
    """The answer to one POST; `_missing` of the calls in it are not answered yet."""

    _exchange: Exchange
    _streams: Streams
    _streamable: bool
    _ids: tuple[Id, ...]
    _missing: int = 1
    _batch: bool = False
    _answers: list[bytes] = []
    headers: Headers = []
    stream: EventStream | None = None

    @property
    def can_deliver(self) -> bool:
        """A stream can be resumed even when nobody reads it; what has not begun cannot."""
        return self.stream is not None or (self._streamable and not self._exchange.disconnected)

    @property
    def heard(self) -> bool:
        """The connection that asked, or one that resumed its stream, is there."""
        return self.stream.attached if self.stream is not None else not self._exchange.disconnected

    def deliver(self, data: bytes, now: float) -> None:
        """Something else comes first: the answer becomes a stream."""
        stream = self.stream or self._begin_stream(now)
        self._streams.deliver(stream, data, now)

    def answer(self, data: bytes, now: float) -> None:
        """One call is answered; with the last one the POST is."""
        self._missing -= 1
        if self.stream is not None:
            self._streams.deliver(self.stream, data, now)
            if not self._missing:
                self._streams.finish(self.stream, now)
        elif self._batch:
            self._collect(data, now)
        else:
            headers = JSON_HEADERS + self.headers if self.headers else JSON_HEADERS
            self._exchange.respond(Response(200, data, headers))

    def refuse(self, response: Response, now: float) -> None:
        """Not answered, but told when to come back: by the status, if the answer has not begun."""
        if self.stream is not None:
            self.answer(response.body, now)
        else:
            self._exchange.respond(response)

    def _collect(self, data: bytes, now: float) -> None:
        """Answers to a batch wait for the last one; if they grow too large for that, they become a stream."""
        streams = self._streams
        if self._missing and streams.retained_bytes + len(data) > streams.bound_bytes:
            if self.can_deliver:
                self.deliver(data, now)
                return
            data = _too_long(data)
        self._answers.append(data)
        streams.count(len(data))
        if not self._missing:
            body = b"[" + b",".join(self._take_answers()) + b"]"
            self._exchange.respond(Response(200, body, JSON_HEADERS))

    def _take_answers(self) -> list[bytes]:
        answers, self._answers = self._answers, []
        self._streams.count(-sum(map(len, answers)))
        return answers

    def stream_if_silent(self, now: float) -> None:
        """Begin to stream, so that nothing on the way takes the connection for dead."""
        if self.stream is None and self.can_deliver:
            self._begin_stream(now)

    def _begin_stream(self, now: float) -> EventStream:
        self.stream = stream = self._streams.open(standalone=False)
        stream.announce(self._ids)
        stream.attach(self._exchange, headers=self.headers, after=0, now=now)
        for data in self._take_answers():
            self._streams.deliver(stream, data, now)
        return stream


def _too_long(answer: bytes) -> bytes:
    text = "the answers to this batch are together too long for one that is not a stream"
    data = {"reason": "message_too_long", "retryable": False}
    return jsonrpc.error_response(jsonrpc.parse(answer).request_id, jsonrpc.INTERNAL_ERROR, text, data)


class StreamReply:
    """Answers go to the stream the session lives on; the POST itself was answered at once."""

    __slots__ = ("_stream", "_streams")

    def __init__(self, stream: EventStream, streams: Streams) -> None:
        self._stream = stream
        self._streams = streams

    @property
    def can_deliver(self) -> bool:
        """As long as the client reads its stream."""
        return self._stream.attached

    @property
    def heard(self) -> bool:
        """The same."""
        return self._stream.attached

    def deliver(self, data: bytes, now: float) -> None:
        """Send it."""
        self._streams.deliver(self._stream, data, now)

    answer = deliver

    def stream_if_silent(self, now: float) -> None:
        """Nothing to do: the stream has its own keep-alive."""
