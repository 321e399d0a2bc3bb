"""One connection to a server: one request at a time, its answer read no faster than it is taken.

Invariants:
- `fault` is set once, when the connection has ended under an answer; whoever waits hears of it.
- A body that is not taken fills `_pieces` up to the high-water mark; then the socket is not read.
- `idle` holds exactly while another request may be sent.
"""

import asyncio
import select
import socket
import ssl
import struct
from collections import deque
from typing import cast

from mooring.http.client_errors import AnswerCut, AnswerLost, BadAnswer, NoAnswer, NotTrusted
from mooring.http.client_limits import ClientLimits
from mooring.http.client_reader import AnswerReader
from mooring.http.sockets import KEEP_ALIVE
from mooring.wire.http import Headers

__all__ = ["ClientConnection"]

RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: on, and for no time at all."""
_ABOUT_US = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
"""Alerts of a server that does not take our certificate, or wants one."""


class ClientConnection(asyncio.Protocol):
    """Made by `Client`; `head`, then `piece` until it returns nothing."""

    _transport: asyncio.Transport

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self._reader = self._make_reader()
        self._head: tuple[int, Headers] | None = None
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._complete = True
        self._reusable = True
        self._paused = False
        self._lost = False
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        self._poll: select.poll | None = None
        self.fault: AnswerLost | NotTrusted | None = None
        self.idle_since = 0.0

    def _make_reader(self) -> AnswerReader:
        return AnswerReader(self._limits, self._on_head, self._on_body, self._on_end)

    # The user's side.

    @property
    def idle(self) -> bool:
        """May another request be sent here?"""
        is_open = self._reusable and not self._lost and not self._transport.is_closing()
        return self._complete and not self._paused and is_open  # (one that nobody reads would never be heard)

    def looks_alive(self) -> bool:
        """Has the server neither closed it nor said anything? Asks the kernel: the loop may not know yet."""
        sock = self._transport.get_extra_info("socket")
        if not self.idle or sock is None:
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN)
        return not self._poll.poll(0)

    def send(self, request: bytes, body: bytes, *, may_switch: bool = False) -> None:
        """Send a request. From here on it counts as sent, however much of it gets through."""
        self._head, self._complete, self.fault = None, False, None
        self._pieces.clear()  # of an answer that nobody wanted to read
        self._held_bytes = 0
        self._reader.expect(may_switch=may_switch)
        if len(body) > self._limits.read_high_water_bytes:
            self._transport.write(request)
            self._transport.write(body)
        else:
            self._transport.write(request + body)

    async def head(self) -> tuple[int, Headers]:
        """Status and headers of the answer. Raises AnswerLost, or NotTrusted: the server read nothing."""
        while self._head is None:
            if self.fault is not None:
                raise self.fault
            self._news.clear()
            await self._news.wait()
        return self._head

    async def piece(self) -> bytes:
        """The next piece of the body; empty at its proper end. Raises AnswerLost."""
        while not self._pieces:
            if self._complete:
                return b""
            if self.fault is not None:
                raise self.fault
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._held_bytes -= len(piece)
        if self._paused and self._held_bytes <= self._limits.read_high_water_bytes // 2:
            self._paused = False
            if not self._lost:
                self._transport.resume_reading()
        return piece

    async def tunnel(self, request: bytes) -> int:
        """Ask a proxy to pass on whatever comes next; its status. If that is 2xx, nothing was said yet to
        the one behind it. Raises AnswerLost."""
        self.send(request, b"")
        status, _ = await self.head()
        if 200 <= status < 300:
            if self._pieces:
                raise BadAnswer("it speaks before it is asked", code="bad_answer")
            # An answer like this has no body, whatever its head says of one.
            self._reader = self._make_reader()
            self._head, self._complete, self._reusable = None, True, True
        return status

    async def switch(self, request: bytes) -> tuple[int, Headers]:
        """Ask for another protocol: status and headers. If it is 101, `give_away` comes next.
        Raises AnswerLost, or NotTrusted."""
        self.send(request, b"", may_switch=True)
        return await self.head()

    def give_away(self) -> tuple[asyncio.Transport, bytes]:
        """The transport, and what came on it that nobody has read: another's from now on."""
        self._lost = True
        self._gone.set()
        return self._transport, self._reader.unread

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """From here on encrypted. Raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(self._transport, self, context, server_hostname=host)
        except BaseException:
            self.abandon()  # nobody else tells us, before the handshake is done
            raise
        if transport is None:
            raise ConnectionResetError("it was closed meanwhile")
        self._transport = transport

    def abort(self) -> None:
        """Give it up. Under an answer by a reset: a mere end could mean that we only have no more to send."""
        self._reusable = False
        if not self._complete and not self._lost:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    def abandon(self) -> None:
        """It never came to be used: it is gone, whether the loop tells us or not. Idempotent."""
        if hasattr(self, "_transport"):
            self._transport.abort()
        self.connection_lost(None)

    async def wait_closed(self) -> None:
        """Until its descriptor is given back."""
        await self._gone.wait()

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server is there (with TLS: the handshake is done)."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != getattr(socket, "AF_UNIX", None):
            _notice_when_it_vanishes(sock, self._limits.vanished_s)

    def data_received(self, data: bytes) -> None:
        """Bytes from the server."""
        try:
            self._reader.feed(data)
        except BadAnswer as error:
            self._end(error)
            self._transport.abort()

    def eof_received(self) -> bool:
        """The server sends no more, so there is nothing left to do here."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed; told once, or twice where a handshake failed."""
        if self._lost:
            return
        self._lost = True
        if not self._reader.end() and not self._complete:
            self._end(self._fault_of(exc))
        self._gone.set()
        self._news.set()

    # The reader's side.

    def _on_head(self, status: int, headers: Headers) -> None:
        self._head = status, headers
        self._news.set()

    def _on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if not self._paused and self._held_bytes > self._limits.read_high_water_bytes and not self._lost:
            self._paused = True
            self._transport.pause_reading()
        self._news.set()

    def _on_end(self, reusable: bool) -> None:
        self._complete = True
        self._reusable = self._reusable and reusable
        self._news.set()

    def _fault_of(self, exc: Exception | None) -> AnswerLost | NotTrusted:
        if self._head is None and isinstance(exc, ssl.SSLError) and _is_about_us(exc):
            hint = "give it a certificate that it knows, and its key"
            return NotTrusted(f"the server does not let us in: {exc.reason}", code="not_let_in", hint=hint)
        kind, what = (NoAnswer, "answering") if self._head is None else (AnswerCut, "its answer was whole")
        reason = f": {exc.strerror or exc}" if isinstance(exc, OSError) else ""
        code = "reset" if isinstance(exc, ConnectionResetError) else "answer_lost"
        fault = kind(f"the server closed the connection before {what}{reason}", code=code)
        fault.is_clean = exc is None
        return fault

    def _end(self, fault: AnswerLost | NotTrusted) -> None:
        self._reusable = False
        if not self._complete and self.fault is None:
            self.fault = fault
        self._news.set()


def _is_about_us(error: ssl.SSLError) -> bool:
    """With TLS 1.3 a server looks at our certificate when the handshake is done for us; then it reads."""
    reason = error.reason or ""
    return "ALERT" in reason and any(word in reason for word in _ABOUT_US)


def _notice_when_it_vanishes(sock: socket.socket, span_s: float | None) -> None:
    """A server that was switched off says nothing: the kernel asks, and we hear of it within a minute, or
    about that span."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE if span_s is None else _keep_alive_within(span_s):
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _keep_alive_within(span_s: float) -> tuple[tuple[str, int], ...]:
    """Asked while nothing is said; and what was said must have been received by then."""
    between = max(1, round(span_s / 4))
    unheard = ("TCP_USER_TIMEOUT", max(1000, round(span_s * 1000)))
    return ("TCP_KEEPIDLE", between), ("TCP_KEEPINTVL", between), ("TCP_KEEPCNT", 3), unheard
