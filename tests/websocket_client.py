"""A raw WebSocket peer for tests: it sends whatever bytes it is told, and reads frames strictly.

Where a test wants a proper client it uses that of the `websockets` package.
"""

import asyncio
import struct
from typing import NamedTuple

from tests.http_client import Answer, Peer

TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
FIN = 0x80
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""Both are the example of RFC 6455 §1.3."""


class Frame(NamedTuple):
    opcode: int
    data: bytes

    @property
    def code(self) -> int:
        """Of a goodbye."""
        assert self.opcode == CLOSE
        return int(struct.unpack("!H", self.data[:2])[0])


def upgrade(path: str = "/", extra: str = "", *, key: str | None = KEY, version: str | None = "13") -> bytes:
    """The request of a client, with what a test wants to be different."""
    fields = ["Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
    fields += [f"Sec-WebSocket-Key: {key}"] if key is not None else []
    fields += [f"Sec-WebSocket-Version: {version}"] if version is not None else []
    lines = [f"GET {path} HTTP/1.1", *fields]
    return ("\r\n".join(lines) + f"\r\n{extra}\r\n").encode()


def frame(
    opcode: int, data: bytes = b"", *, fin: bool = True, mask: bytes | None = b"abcd", reserved: int = 0
) -> bytes:
    """One frame as a client sends it; `mask` None: unmasked, as it must not."""
    head = bytes([(FIN if fin else 0) | reserved | opcode])
    masked = 0x80 if mask is not None else 0
    if len(data) < 126:
        head += bytes([masked | len(data)])
    elif len(data) < 1 << 16:
        head += bytes([masked | 126]) + struct.pack("!H", len(data))
    else:
        head += bytes([masked | 127]) + struct.pack("!Q", len(data))
    if mask is None:
        return head + data
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    hidden = int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")
    return head + mask + hidden.to_bytes(len(data), "big")


def goodbye(code: int = 1000, reason: str = "") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason.encode())


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """The next frame of the server: whole, unmasked, nothing reserved."""
    first, second = await reader.readexactly(2)
    assert first & FIN and not first & 0x70 and not second & 0x80, (first, second)
    length = second
    if second == 126:
        [length] = struct.unpack("!H", await reader.readexactly(2))
    elif second == 127:
        [length] = struct.unpack("!Q", await reader.readexactly(8))
    return Frame(first & 0x0F, await reader.readexactly(length))


async def opened(peer: Peer, path: str = "/", extra: str = "") -> Answer:
    """Upgrade the connection of a peer; it must succeed."""
    peer.send(upgrade(path, extra))
    answer = await peer.head()
    assert answer.status == 101, answer
    assert answer.headers["sec-websocket-accept"] == ACCEPT
    assert "sec-websocket-extensions" not in answer.headers
    return answer
