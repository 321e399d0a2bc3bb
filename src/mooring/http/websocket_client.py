"""WebSockets that we ask for: the counterpart of `http.websocket`, with the same connection behind it.

    sockets = ClientSockets()
    socket = await sockets.open(origin, "/v1/server", headers, subprotocol="…")

A server that says no is heard out, so that its words can be told: `Refused`.
"""

import asyncio
import base64
import os
import time
from collections.abc import Callable

from mooring.errors import Unavailable
from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import AnswerLost, BadAnswer, NoAnswer
from mooring.http.client_limits import ClientLimits
from mooring.http.client_opening import open_connection
from mooring.http.handshake import accepted
from mooring.http.house import House, overloaded, peer_name
from mooring.http.limits import Limits
from mooring.http.origin import Origin
from mooring.http.websocket import WebSocketConnection
from mooring.wire.http import Headers
from mooring.wire.websocket import WebSocket

__all__ = ["ClientSockets", "Refused"]

MAX_REFUSAL_BYTES = 16 * 1024
"""Of the words with which a server refuses; more is not read."""
SWITCHING_PROTOCOLS = 101
CLOSING_S = 5.0
"""For the loop to tell that all are closed."""


class Refused(Unavailable):
    """The server answered, and not with a WebSocket."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        super().__init__(f"the server refuses the WebSocket (HTTP status {status})", code="refused_upgrade")
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name: bytes) -> bytes | None:
        """The first field of that (lower case) name."""
        return next((value for key, value in self.headers if key == name), None)


class ClientSockets:
    """Any number of them, to any servers. Made inside a running loop; `aclose` leaves none."""

    def __init__(
        self,
        limits: Limits | None = None,
        client_limits: ClientLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or Limits()
        self._client_limits = client_limits or ClientLimits()
        self._clock = clock
        self._house = House(overloaded, self._limits, clock)
        self._house.on_change = self._on_change
        self._empty = asyncio.Event()
        self._empty.set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._house.upgraded)

    async def open(
        self, origin: Origin, target: str, headers: Headers, *, subprotocol: str = ""
    ) -> WebSocket:
        """Set its callbacks before the next `await`. Raises NotSent, AnswerLost, Refused."""
        connection = await open_connection(
            origin, self._client_limits.connect_timeout_s, lambda: ClientConnection(self._client_limits)
        )
        key = base64.b64encode(os.urandom(16))
        try:
            async with asyncio.timeout(self._limits.header_timeout_s):
                status, fields = await connection.switch(_request(origin, target, headers, key, subprotocol))
                if status != SWITCHING_PROTOCOLS:
                    raise Refused(status, fields, await _words(connection))
            _check(fields, key, subprotocol)
        except TimeoutError:
            connection.abort()
            raise NoAnswer("the server did not answer in time", code="timeout") from None
        except BaseException:
            connection.abort()
            raise
        return self._adopt(connection)

    def _adopt(self, connection: ClientConnection) -> WebSocketConnection:
        transport, unread = connection.give_away()
        transport.set_write_buffer_limits(high=self._limits.write_high_water_bytes)
        socket = WebSocketConnection(self._house, transport, peer_name(transport), unread, is_client=True)
        transport.set_protocol(socket)
        self._house.upgraded.add(socket)
        self._on_change()
        if transport.is_closing() or self._closed:
            # It ended between two turns of the loop, and told the one before us. Told on by way of the loop:
            # nobody has said yet who is to hear of it.
            asyncio.get_running_loop().call_soon(socket.connection_lost, None)
            transport.abort()
        return socket

    async def aclose(self) -> None:
        """Cut every one of them."""
        self._closed = True
        for socket in tuple(self._house.upgraded):
            socket.abort()
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._empty.wait()
        except TimeoutError:
            pass  # what the loop does not tell of is closed all the same
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _on_change(self) -> None:
        if not self._house.upgraded:
            self._empty.set()
            if self._sweeping is not None:
                self._sweeping.cancel()
                self._sweeping = None
        else:
            self._empty.clear()
            if self._sweeping is None:
                self._sweep()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(self._limits.sweep_interval_s, self._sweep)
        for socket in tuple(self._house.upgraded):
            socket.sweep(self._clock())


def _request(origin: Origin, target: str, headers: Headers, key: bytes, subprotocol: str) -> bytes:
    fields = [
        (b"Host", origin.authority.encode("ascii")),
        (b"Connection", b"Upgrade"),
        (b"Upgrade", b"websocket"),
        (b"Sec-WebSocket-Version", b"13"),
        (b"Sec-WebSocket-Key", key),
        *([(b"Sec-WebSocket-Protocol", subprotocol.encode("ascii"))] if subprotocol else []),
        *headers,
    ]
    lines = [b"%b: %b\r\n" % field for field in fields]
    return b"".join([f"GET {target} HTTP/1.1\r\n".encode("ascii"), *lines, b"\r\n"])


def _check(headers: Headers, key: bytes, subprotocol: str) -> None:
    fields = dict(headers)
    if fields.get(b"sec-websocket-accept") != accepted(key):
        raise BadAnswer("the server says yes to a WebSocket that nobody asked for", code="bad_answer")
    if fields.get(b"sec-websocket-protocol", b"").decode("latin-1") not in ("", subprotocol):
        raise BadAnswer("the server chose a subprotocol that was not offered", code="bad_answer")
    if fields.get(b"sec-websocket-extensions"):
        raise BadAnswer("the server chose an extension that was not offered", code="bad_answer")


async def _words(connection: ClientConnection) -> bytes:
    words = b""
    try:
        while len(words) < MAX_REFUSAL_BYTES and (piece := await connection.piece()):
            words += piece
    except AnswerLost:
        pass  # the status says enough
    return words
