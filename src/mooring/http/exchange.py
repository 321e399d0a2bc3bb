"""One request and the right to answer it, as `mooring.wire.http.Exchange` describes.

Invariants:
- The state only moves forward: unanswered → streaming → answered, or → answered at once.
- An answer is checked and rendered when it is given; only whether the connection closes
  after it is decided when its turn comes, because that depends on what came meanwhile.
- What is given before its turn is kept in `held`; the connection takes it from there.
- `relay` is `respond`, and `relay_begin`, `relay_more`, `relay_end` are `start`, `write`, `end`, with the
  bytes in which another of us has said it: they are not looked at.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from mooring.errors import LocalProtocolError
from mooring.http.handshake import agree
from mooring.http.head import render_head, render_lines
from mooring.http.problems import problem
from mooring.wire.http import Headers, Request, Response
from mooring.wire.websocket import WebSocket

__all__ = ["ANSWERED", "STREAMING", "UNANSWERED", "HttpExchange", "Outlet"]

log = logging.getLogger("mooring.http")

UNANSWERED, STREAMING, ANSWERED = range(3)
BODILESS = frozenset({204, 304})


def _length_line(length: int) -> bytes:
    return b"content-length: %d\r\n" % length


# Formatting takes three times as long as a look-up; most answers are short.
SHORT = 1024
LENGTH_LINES = tuple(map(_length_line, range(SHORT)))


class Outlet(Protocol):
    """Where the answers of a connection go."""

    gone: bool

    def begin(self, exchange: "HttpExchange") -> None:
        """`exchange.head` and what is `held` can be sent, now or when its turn comes."""
        ...

    def more(self, exchange: "HttpExchange", data: bytes) -> None:
        """Send a further piece, now or when its turn comes."""
        ...

    def finish(self, exchange: "HttpExchange") -> None:
        """The exchange has become answered after it began."""
        ...

    def is_writable(self, exchange: "HttpExchange") -> bool:
        """Less than the high-water mark waits to be sent."""
        ...

    def cut(self) -> None:
        """Abort the connection."""
        ...

    def put_back(self, exchange: "HttpExchange") -> None:
        """Its request is for somebody else."""
        ...

    def switch(self, exchange: "HttpExchange", head: bytes) -> WebSocket | None:
        """Send the head, and let a WebSocket take the connection over; None: its peer has gone."""
        ...


class HttpExchange(Struct, eq=False):
    """See `mooring.wire.http.Exchange`."""

    _outlet: Outlet
    request: Request
    is_http_1_0: bool
    _bodiless: bool
    state: int = UNANSWERED
    extra_headers: Headers = []
    on_disconnect: Callable[[], None] | None = None
    on_writable: Callable[[], None] | None = None
    head: Sequence[bytes] = ()
    held: list[bytes] = []
    ends_by_close: bool = False

    def __repr__(self) -> str:
        state = ("unanswered", "streaming", "answered")[self.state]
        return f"<HttpExchange {self.request.method} {self.request.path} {state}>"

    @property
    def disconnected(self) -> bool:
        """The peer has gone."""
        return self._outlet.gone

    @property
    def writable(self) -> bool:
        """The peer keeps up."""
        return self._outlet.is_writable(self)

    def respond(self, response: Response) -> None:
        """Answer whole."""
        if (self.state != UNANSWERED or self._outlet.gone) and not self._may(UNANSWERED, "answered"):
            return
        status, body = response.status, response.body
        self.head = head = render_head(status, response.headers, self.extra_headers)
        if status not in BODILESS:
            length = len(body)
            head.append(LENGTH_LINES[length] if length < SHORT else _length_line(length))
            if body and not self._bodiless:
                self.held.append(body)
        self.state = ANSWERED
        self._outlet.begin(self)

    def start(self, status: int, headers: Headers) -> None:
        """Answer as a stream."""
        if not self._may(UNANSWERED, "started"):
            return
        head = render_head(status, headers, self.extra_headers)
        if status in BODILESS:
            self._bodiless = True
        elif not self.is_http_1_0:
            head.append(b"transfer-encoding: chunked\r\n")
        elif not self._bodiless:
            self.ends_by_close = True
        self.head = head
        self.state = STREAMING
        self._outlet.begin(self)

    def write(self, data: bytes) -> None:
        """Send a piece of the stream."""
        if not self._may(STREAMING, "written to") or not data or self._bodiless:
            return
        if not self.ends_by_close:
            data = b"".join((b"%x\r\n" % len(data), data, b"\r\n"))
        self._outlet.more(self, data)

    def end(self) -> None:
        """End the stream properly."""
        if not self._may(STREAMING, "ended"):
            return
        if not self.ends_by_close and not self._bodiless:
            self._outlet.more(self, b"0\r\n\r\n")
        self.state = ANSWERED
        self._outlet.finish(self)

    def abort(self) -> None:
        """Cut the connection; nobody is told of it who asked for it.

        Unless the peer has gone before: then that is what is told, as to everybody.
        """
        if not self._outlet.gone:
            self.state = ANSWERED
            self._outlet.cut()

    @property
    def can_relay(self) -> bool:
        """Does the peer speak as those do whose answers could be relayed?"""
        return not self.is_http_1_0 and not self._bodiless

    def relay(self, head: bytes, body: bytes) -> None:
        """Answer whole: a head, all but the empty line, and a body."""
        self._begin_relay(head, body, ANSWERED)

    def relay_begin(self, head: bytes) -> None:
        """Answer as a stream: the head says how it is framed."""
        self._begin_relay(head, b"", STREAMING)

    def _begin_relay(self, head: bytes, body: bytes, state: int) -> None:
        if (self.state != UNANSWERED or self._outlet.gone) and not self._may(UNANSWERED, "relayed"):
            return
        self.head = [head, *render_lines(self.extra_headers)] if self.extra_headers else (head,)
        if body:
            self.held.append(body)
        self.state = state
        self._outlet.begin(self)

    def relay_more(self, data: bytes) -> None:
        """Send some more of it, framed."""
        if self._may(STREAMING, "relayed to") and data:
            self._outlet.more(self, data)

    def relay_end(self) -> None:
        """That was all."""
        if self._may(STREAMING, "ended"):
            self.state = ANSWERED
            self._outlet.finish(self)

    def upgrade(self, subprotocol: str) -> WebSocket | None:
        """Make the connection a WebSocket."""
        if not self._may(UNANSWERED, "upgraded"):
            return None
        agreed = agree(self.request, subprotocol)
        if isinstance(agreed, Response):
            self.respond(agreed)
            return None
        self.state = ANSWERED
        return self._outlet.switch(self, agreed)

    def put_back(self) -> None:
        """It is for somebody else to answer, who gets the connection with it (`mooring.http.passing`).

        The last one of its connection only; nobody is told of it who asked for it.
        """
        if self._may(UNANSWERED, "put back"):
            self.state = ANSWERED
            self.on_disconnect = None
            self._outlet.put_back(self)

    def _may(self, state: int, deed: str) -> bool:
        if self._outlet.gone:
            return False
        if self.state != state:
            raise LocalProtocolError(
                f"{self!r} cannot be {deed}", code="bad_exchange_state", hint="answer an exchange once"
            )
        return True

    # Called by the connection.

    def fail(self) -> None:
        """The app has raised: the peer gets an end to its wait, in whatever state."""
        if self.state == ANSWERED or self._outlet.gone:
            return
        if self.state == STREAMING:
            self.abort()
            return
        response = problem(500, "internal_error", "the request failed inside Mooring; its log says why")
        try:
            self.respond(response)
        except LocalProtocolError:
            self.extra_headers = []
            self.respond(response)

    def lose(self) -> None:
        """The peer has gone: tell whoever is still answering."""
        callback, self.on_disconnect = self.on_disconnect, None
        if self.state != ANSWERED and callback is not None:
            self._call(callback)

    def tell_writable(self) -> None:
        """The peer has caught up."""
        if self.state == STREAMING and self.on_writable is not None and self.writable:
            self._call(self.on_writable)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            log.exception("a callback of %r failed", self)
