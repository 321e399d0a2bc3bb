"""WebSocket peers for tests: raw bytes that may break any rule, and an MCP client that breaks none."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed

from tests.http_client import Answer, Peer
from tests.mcp_client import Json
from tests.support import within

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


class WsClient:
    """An MCP client on the client of the `websockets` package."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.notes: list[Json] = []
        """What came beside the answers that were asked for."""
        self._ids = count(1)

    async def send(
        self, method: str, params: Json | None = None, *, id: int | str | None = None
    ) -> int | str:
        """Send a request; returns its id."""
        message: Json = {"jsonrpc": "2.0", "id": next(self._ids) if id is None else id, "method": method}
        if params is not None:
            message["params"] = params
        await self.connection.send(json.dumps(message))
        return message["id"]  # type: ignore[no-any-return]

    async def notify(self, method: str, params: Json | None = None) -> None:
        await self.connection.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}))

    async def respond(self, id: Any, result: Json) -> None:
        await self.connection.send(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}))

    async def message(self) -> Json:
        """The next message, whatever it is."""
        async with within():
            return json.loads(await self.connection.recv())  # type: ignore[no-any-return]

    async def answer(self, id: int | str | None) -> Json:
        """The answer to that request; what comes before it is kept in `notes`."""
        while True:
            for note in self.notes:
                if "method" not in note and note["id"] == id:
                    self.notes.remove(note)
                    return note
            self.notes.append(await self.message())

    async def ask(self, method: str, params: Json | None = None, **options: Any) -> Json:
        return await self.answer(await self.send(method, params, **options))

    async def result(self, method: str, params: Json | None = None) -> Json:
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def initialize(self, version: str = "2025-11-25", capabilities: Json | None = None) -> Json:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        result = await self.result("initialize", params)
        await self.notify("notifications/initialized")
        return result

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.result("tools/call", {"name": tool, "arguments": arguments})
        return str(result["content"][0]["text"])

    async def pid(self) -> int:
        """Of the scripted server."""
        return int((await self.result("x/pid"))["pid"])

    async def closed(self) -> tuple[int, str]:
        """The goodbye of the other side; waits for it."""
        async with within():
            with pytest.raises(ConnectionClosed):
                while True:
                    self.notes.append(json.loads(await self.connection.recv()))
        end = self.connection.protocol.close_rcvd
        return (end.code, end.reason) if end is not None else (1006, "")


@asynccontextmanager
async def ws_client(
    port: int,
    *,
    version: str = "2025-11-25",
    path: str = "/ws",
    unix: Path | None = None,
    **options: Any,
) -> AsyncIterator[WsClient]:
    """A client that is initialized, unless `version` is empty."""
    arguments: Json = {"subprotocols": ["mcp"], "max_size": None, **options}
    uri = f"{'wss' if 'ssl' in options else 'ws'}://127.0.0.1:{port}{path}"
    if unix is None:
        connecting = connect(uri, proxy=None, **arguments)
    else:
        connecting = unix_connect(str(unix), uri, **arguments)
    async with connecting as connection:
        client = WsClient(connection)
        if version:
            await client.initialize(version)
        yield client
