"""The answers of one connection, in the order of its requests.

Invariants:
- `pending` holds the exchanges that are with the app, in the order of their requests. Only
  the first one writes to the transport; the others hold back what they were given.
- Only the last answer of a connection says `Connection: close`: what was accepted is answered.
- Callbacks of an exchange are called from the loop, never from inside an answer.
- When the peer goes, every pending exchange hears of it once. It has gone when the
  connection is lost; for a stream already when the peer ends its side (that is how event
  stream clients leave). A peer that ended its side (`printf … | nc`) still gets whole answers.
"""

import asyncio
from collections import deque
from typing import Protocol

from mooring.errors import LocalProtocolError
from mooring.http.exchange import ANSWERED, STREAMING, HttpExchange
from mooring.http.house import reset_on_close
from mooring.wire.http import Request
from mooring.wire.websocket import WebSocket

__all__ = ["Pipeline"]

CLOSE = b"connection: close\r\n\r\n"
KEEP = b"connection: keep-alive\r\n\r\n"
END = b"\r\n"
LARGE_BYTES = 64 * 1024
"""From this size on a body is not copied to be one piece with its head."""


class Owner(Protocol):
    """What a pipeline needs of its connection."""

    def decide_last(self) -> bool:
        """Is the answer about to be sent, the last one pending, also the last of the connection?"""
        ...

    def on_answered(self) -> None:
        """An exchange has left; perhaps none is pending now."""
        ...

    def end_by_close(self) -> None:
        """A stream is over that only the end of the connection ends."""
        ...

    def hand_over(self) -> WebSocket:
        """Let go of the transport, and of what was read from it and is no request."""
        ...

    def put_back(self, request: Request, is_http_1_0: bool) -> None:
        """The request is not answered here: it goes to somebody else, with the connection."""
        ...


class Pipeline:
    """See `mooring.http.exchange.Outlet`, which this is."""

    def __init__(self, owner: Owner, transport: asyncio.Transport, high_water_bytes: int) -> None:
        self.pending: deque[HttpExchange] = deque()
        self.gone = False
        self.peer_is_done = False
        """The peer has ended its side."""
        self.is_paused = False
        """The peer reads more slowly than we write."""
        self.written_bytes = 0
        self._owner = owner
        self._transport = transport
        self._high_water_bytes = high_water_bytes
        self._loop = asyncio.get_running_loop()

    def add(self, request: Request, is_http_1_0: bool = False) -> HttpExchange:
        """The next exchange."""
        exchange = HttpExchange(self, request, is_http_1_0, request.head.method == "HEAD")
        self.pending.append(exchange)
        return exchange

    @property
    def has_stream(self) -> bool:
        """Is a stream open, or held back?"""
        return any(exchange.state == STREAMING for exchange in self.pending)

    @property
    def held_bytes(self) -> int:
        """What waits for its turn."""
        return sum(len(piece) for exchange in self.pending for piece in exchange.held)

    # For exchanges.

    def begin(self, exchange: HttpExchange) -> None:
        """See `Outlet`."""
        pending = self.pending
        if pending[0] is not exchange:
            return
        self._send(exchange)
        if exchange.state == ANSWERED:
            pending.popleft()
            if pending:
                self._advance()
            else:
                self._owner.on_answered()

    def more(self, exchange: HttpExchange, data: bytes) -> None:
        """See `Outlet`."""
        if self.pending[0] is exchange:
            # A transport that failed to send knows that the peer has gone a turn before we are told.
            if not self._transport.is_closing():
                self.write(data)
        else:
            exchange.held.append(data)

    def finish(self, exchange: HttpExchange) -> None:
        """See `Outlet`."""
        if self.pending[0] is not exchange:
            return
        self.pending.popleft()
        if exchange.ends_by_close:
            # HTTP/1.0: whatever else was asked on this connection gets no answer.
            self.gone = True
            self._owner.end_by_close()
        else:
            self._advance()

    def is_writable(self, exchange: HttpExchange) -> bool:
        """See `Outlet`."""
        if self.gone or (self.pending and self.pending[0] is exchange):
            return not self.is_paused and not self._transport.is_closing()
        return sum(map(len, exchange.held)) < self._high_water_bytes

    def switch(self, exchange: HttpExchange, head: bytes) -> WebSocket | None:
        """See `Outlet`."""
        if self.peer_is_done or self.pending[0] is not exchange:
            self.cut()  # it has left already; or it is no connection that stands still behind a request
            return None
        self.pending.clear()
        self.write(head)
        self.gone = True
        return self._owner.hand_over()

    def put_back(self, exchange: HttpExchange) -> None:
        """See `Outlet`."""
        if self.pending[-1] is not exchange:
            raise LocalProtocolError(
                "others came behind it", code="bad_exchange_state", hint="put back at once"
            )
        self.pending.pop()
        self._owner.put_back(exchange.request, exchange.is_http_1_0)

    def cut(self) -> None:
        """See `Outlet`."""
        if self.gone:
            return
        self.gone = True
        if self.pending and self.pending[0].ends_by_close:
            # A stream that ends by closing is visibly incomplete only by a reset.
            reset_on_close(self._transport)
        self._transport.abort()

    # For the connection.

    def write(self, data: bytes) -> None:
        """Send bytes, and count them."""
        self.written_bytes += len(data)
        self._transport.write(data)

    def resume(self) -> None:
        """The peer has caught up."""
        self.is_paused = False
        if self.pending:
            # By way of the loop: a transport may call this from inside a write.
            self._loop.call_soon(self.pending[0].tell_writable)

    def lose(self) -> None:
        """The peer has gone."""
        self.gone = True
        for exchange in tuple(self.pending):
            exchange.lose()

    def close(self) -> None:
        """There is no connection any more. Exchanges may still ask whether it has gone."""
        self.lose()
        self.pending.clear()
        del self._owner

    def _send(self, exchange: HttpExchange) -> None:
        held = exchange.held
        last_line = END
        if self.pending[-1] is exchange and self._owner.decide_last():
            last_line = CLOSE
        elif exchange.is_http_1_0:
            last_line = CLOSE if exchange.ends_by_close else KEEP
        if len(held) == 1 and len(held[0]) >= LARGE_BYTES:
            self.write(b"".join((*exchange.head, last_line)))
            self.write(held[0])
        else:
            self.write(b"".join((*exchange.head, last_line, *held)))
        held.clear()
        if self.peer_is_done and exchange.state == STREAMING:
            self._loop.call_soon(self._end_unread_stream)

    def _advance(self) -> None:
        """The first exchange has left: send what waited for its turn."""
        pending = self.pending
        while pending and pending[0].head:
            exchange = pending[0]
            self._send(exchange)
            if exchange.state != ANSWERED:
                # It may have been told to wait while others were before it.
                self._loop.call_soon(exchange.tell_writable)
                return
            pending.popleft()
            if exchange.ends_by_close:
                self.gone = True
                self._owner.end_by_close()
                return
        self._owner.on_answered()

    def _end_unread_stream(self) -> None:
        if self.has_stream:
            self.lose()
            self._transport.abort()
