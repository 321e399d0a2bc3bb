"""Connections of a client that waits for nothing: what comes is heard as it comes."""

import asyncio
from collections.abc import Callable

import httptools

from mooring.wire.sse import EventDecoder
from tests.websocket_client import CLOSE, PING, PONG, TEXT, frame, goodbye, upgrade

Hear = Callable[[bytes], None]
GOOD = frozenset({200, 202, 204, 404})
"""404: the session has ended meanwhile."""


class Wire(asyncio.Protocol):
    """One connection; `hear` is given each message."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._transport: asyncio.Transport | None = None
        self.faults: list[str] = []
        self._closed = asyncio.Event()
        self._is_ours = False

    async def connect(self, port: int) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_ours:
            self.faults.append(f"the connection was lost ({exc})")
        self._closed.set()

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def cut(self) -> None:
        """Leave without a word."""
        self._is_ours = True
        if self._transport is not None:
            self._transport.abort()
            await self._closed.wait()


class HttpWire(Wire):
    """Requests one behind the other; a stream is heard event by event."""

    def __init__(self, hear: Hear) -> None:
        super().__init__(hear)
        self.session = ""
        self.address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Of the first event of the old transport."""
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._events: EventDecoder | None = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"mcp-session-id":
            self.session = value.decode()
        elif name == b"content-type" and value == b"text/event-stream":
            self._events = EventDecoder()

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status not in GOOD:
            self.faults.append(f"status {status}")

    def on_body(self, body: bytes) -> None:
        if self._events is None:
            self._body.append(body)
            return
        for event in self._events.feed(body):
            if event.event == "endpoint":
                self.address.set_result(event.data)
            elif event.data:
                self._hear(event.data.encode())

    def on_message_complete(self) -> None:
        body, self._body, self._events = b"".join(self._body), [], None
        if body.startswith(b"{"):
            self._hear(body)


class WsWire(Wire):
    """A WebSocket."""

    def __init__(self, hear: Hear) -> None:
        super().__init__(hear)
        self._buffer = bytearray()
        self._upgraded = asyncio.get_running_loop().create_future()

    async def connect(self, port: int) -> None:
        await super().connect(port)
        self.write(upgrade("/ws", "Sec-WebSocket-Protocol: mcp\r\n"))
        await self._upgraded

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if not self._upgraded.done():
            head, end, rest = buffer.partition(b"\r\n\r\n")
            if not end:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self.faults.append(f"no upgrade: {bytes(head)!r}")
            self._upgraded.set_result(None)
            buffer[:] = rest
        while self._take_frame():
            pass

    def _take_frame(self) -> bool:
        """One whole frame, if it is there; a server's are whole messages, and not masked."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        extended = {126: 2, 127: 8}.get(buffer[1], 0)
        at = 2 + extended
        size = int.from_bytes(buffer[2:at], "big") if extended else buffer[1]
        if len(buffer) < at + size:
            return False
        opcode, data = buffer[0] & 0x0F, bytes(buffer[at : at + size])
        del buffer[: at + size]
        if opcode == TEXT:
            self._hear(data)
        elif opcode == PING:
            self.write(frame(PONG, data))
        elif opcode == CLOSE and not self._is_ours:
            self.faults.append(f"goodbye: {data!r}")
        return True

    def say(self, body: bytes) -> None:
        self.write(frame(TEXT, body))

    def say_goodbye(self) -> None:
        """The other side closes then."""
        self._is_ours = True
        self.write(goodbye())
