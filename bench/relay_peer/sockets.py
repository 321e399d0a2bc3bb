"""The far ends of a relay's WebSockets, as bare as they can be: what is measured is the relay, not these.

Messages are masked with zeros, which is a mask like any other to whoever takes it off.
"""

import asyncio
import base64
import os
from collections.abc import Callable
from struct import Struct
from typing import cast

__all__ = ["BINARY", "TEXT", "Socket", "opened"]

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_SHORT, _MIDDLE, _LONG = Struct(">BBxxxx"), Struct(">BBHxxxx"), Struct(">BBQxxxx")
_LENGTH, _LONG_LENGTH = Struct(">H"), Struct(">Q")


def framed(opcode: int, payload: bytes) -> bytes:
    """One message as a client sends it."""
    length = len(payload)
    if length < 126:
        return _SHORT.pack(0x80 | opcode, 0x80 | length) + payload
    if length < 65536:
        return _MIDDLE.pack(0x80 | opcode, 0x80 | 126, length) + payload
    return _LONG.pack(0x80 | opcode, 0x80 | 127, length) + payload


class Socket(asyncio.Protocol):
    """One connection. `on_message` is told each message, `on_read` when all that came at once was told."""

    transport: asyncio.Transport

    def __init__(self, path: str, token: str = "") -> None:
        self.on_message: Callable[[bytes], None] = lambda message: None
        self.on_read: Callable[[], None] = lambda: None
        loop = asyncio.get_running_loop()
        self.agreed: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._path = path
        self._token = token
        self._rest = b""

    def send(self, opcode: int, payload: bytes) -> None:
        self.transport.write(framed(opcode, payload))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {self._path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            *([f"Authorization: Bearer {self._token}"] if self._token else []),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        if not self.agreed.done():
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            self._rest = b""
            if not head.startswith(b"HTTP/1.1 101"):
                self.agreed.set_exception(ConnectionError(head.decode().splitlines()[0]))
                self.transport.abort()
                return
            self.agreed.set_result(None)
        self._read(data)

    def _read(self, data: bytes) -> None:
        at, end = 0, len(data)
        while end - at >= 2:
            opcode, length, start = data[at] & 15, data[at + 1], at + 2
            if length == 126 and end >= at + 4:
                length, start = _LENGTH.unpack_from(data, start)[0], at + 4
            elif length == 127 and end >= at + 10:
                length, start = _LONG_LENGTH.unpack_from(data, start)[0], at + 10
            if end - start < length:
                break
            at = start + length
            if opcode <= BINARY:
                self.on_message(data[start:at])
            else:
                self._control(opcode, data[start:at])
        self._rest = data[at:]
        self.on_read()

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.send(PONG, payload)
        elif opcode == CLOSE:
            self.send(CLOSE, payload)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.agreed.done():
            self.agreed.set_exception(ConnectionError("lost before it was agreed"))
        self.lost.set_result(None)


async def opened(port: int, path: str, token: str = "") -> Socket:
    """A WebSocket that was agreed."""
    loop = asyncio.get_running_loop()
    _, socket = await loop.create_connection(lambda: Socket(path, token), "127.0.0.1", port)
    await socket.agreed
    return socket
