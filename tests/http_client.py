"""A raw peer for the HTTP tests: it sends bytes as they are and reads answers strictly."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from mooring.http.connection import Connection
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.wire.http import App, Exchange, Response


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Peer:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> Answer:
        """Read one head; line ends must be CRLF."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        lines = raw[:-4].decode("latin-1").split("\r\n")
        assert not any("\n" in line or "\r" in line for line in lines)
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1"
        fields = [line.split(": ", 1) for line in lines[1:]]
        headers = {name.lower(): value for name, value in fields}
        assert len(headers) == len(fields), f"repeated field in {fields}"
        return Answer(int(status), headers, b"")

    async def answer(self, *, to_head: bool = False) -> Answer:
        """Read one whole answer."""
        return await self.rest(await self.head(), to_head=to_head)

    async def rest(self, head: Answer, *, to_head: bool = False) -> Answer:
        """What follows a head, to the end of the answer."""
        status, headers, _ = head
        if to_head or status in (204, 304) or status < 200:
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, b"".join([chunk async for chunk in self.chunks()]))
        if "content-length" in headers:
            return Answer(status, headers, await self.reader.readexactly(int(headers["content-length"])))
        return Answer(status, headers, await self.reader.read())

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"

    async def get(self, path: str = "/", extra: str = "") -> Answer:
        self.send(get(path, extra))
        return await self.answer()

    async def at_end(self) -> bool:
        """Nothing more comes: a proper end, not a reset."""
        return await self.reader.read() == b""

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def aclose(self) -> None:
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


def get(path: str = "/", extra: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n".encode()


def post(body: bytes, path: str = "/", extra: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def echo(exchange: Exchange) -> None:
    """Answers at once with what it understood."""
    request = exchange.request
    exchange.respond(
        Response(200, f"{request.method} {request.path} {request.query} ".encode() + request.body)
    )


class Held:
    """An app that keeps its exchanges until the test answers them."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.gone: list[Exchange] = []
        self._news = asyncio.Event()

    def __call__(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        exchange.on_disconnect = lambda: self._on_gone(exchange)
        self._news.set()

    def _on_gone(self, exchange: Exchange) -> None:
        assert exchange.disconnected
        self.gone.append(exchange)
        self._news.set()

    async def count(self, number: int) -> list[Exchange]:
        return await self._until(self.exchanges, number)

    async def at_least(self, number: int) -> list[Exchange]:
        while len(self.exchanges) < number:
            self._news.clear()
            await self._news.wait()
        return self.exchanges

    async def count_gone(self, number: int) -> list[Exchange]:
        return await self._until(self.gone, number)

    async def _until(self, what: list[Exchange], number: int) -> list[Exchange]:
        while len(what) < number:
            self._news.clear()
            await self._news.wait()
        assert len(what) == number
        return what


class Served:
    """A listener under test, and peers that end with it."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.port = 0
        self._peers: list[Peer] = []

    @property
    def connection(self) -> Connection:
        """The server's side of the only connection."""
        [connection] = self.all_connections
        return connection

    @property
    def all_connections(self) -> set[Connection]:
        """The server's side of all connections."""
        return self.listener._house.connections

    async def peer(self, port: int | None = None, tls: ssl.SSLContext | None = None, **options: Any) -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port, ssl=tls, **options)
        return self._keep(Peer(reader, writer))

    async def unix_peer(self, path: Path) -> Peer:
        return self._keep(Peer(*await asyncio.open_unix_connection(path)))

    def _keep(self, peer: Peer) -> Peer:
        self._peers.append(peer)
        return peer

    async def aclose(self) -> None:
        await self.listener.aclose()
        for peer in self._peers:
            await peer.aclose()


@asynccontextmanager
async def serving(
    app: App, *, limits: Limits | None = None, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[Served]:
    served = Served(Listener(app, limits=limits, **options))
    try:
        [(_, served.port)] = await served.listener.listen_tcp("127.0.0.1", 0, tls=tls)
        yield served
    finally:
        await served.aclose()
