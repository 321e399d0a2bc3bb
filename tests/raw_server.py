"""An HTTP server of bytes: a test says what each request is answered with, and where that is cut."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from tests.support import within

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Json:
        return json.loads(self.body)  # type: ignore[no-any-return]


class Wire:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def cut(self) -> None:
        """RST."""
        sock = self.writer.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        """FIN, after what was sent."""
        self.writer.close()

    async def closed_by_peer(self) -> None:
        with suppress(OSError):
            while await self.reader.read(65536):
                pass

    async def asked(self) -> Asked | None:
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, OSError):
            return None
        first, *lines = head[:-4].split("\r\n")
        method, target, _ = first.split(" ")
        fields = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in fields}
        assert len(headers) == len(fields), f"repeated field in {fields}"
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Asked(method, target, headers, body)


def answer(
    body: bytes | Json = b"", status: str = "200 OK", *, kind: str = "application/json", **headers: str
) -> bytes:
    """A whole answer."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}
    if body:
        fields["Content-Type"] = kind
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def stream_head(**headers: str) -> bytes:
    """The head of an event stream, in chunks."""
    fields = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    fields |= {k.replace("_", "-"): v for k, v in headers.items()}
    return ("HTTP/1.1 200 OK\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n").encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = chunk(b"")


def event(message: Json | None = None, *, id: str = "", retry: int | None = None) -> bytes:
    """A chunk with one event."""
    lines = [f"id: {id}"] if id else []
    lines += [f"retry: {retry}"] if retry is not None else []
    lines += [f"data: {json.dumps(message)}"] if message is not None else ["data: "]
    return chunk(("\n".join(lines) + "\n\n").encode())


ACCEPTING_TURNS = 4
"""Of the event loop, until who was accepted has a task. A server that closes before that forgets the
connection: it would stay open, and nobody would be there."""


class RawServer:
    """`requests` in the order in which they came; `script` answers each, or returns bytes that do."""

    def __init__(
        self,
        script: Callable[[Asked, Wire], Awaitable[bytes | None]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script = script
        self.tls = tls
        self.requests: list[Asked] = []
        self.connections = 0
        self.port = 0
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/mcp"

    async def open(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=1 << 27, reuse_address=True, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Nobody listens any more, and every connection is cut."""
        if self._server is not None:
            loop = asyncio.get_running_loop()
            for listening in self._server.sockets:
                loop.remove_reader(listening.fileno())
            for _ in range(ACCEPTING_TURNS):
                await asyncio.sleep(0)
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def count(self, number: int, method: str = "") -> list[Asked]:
        """That many requests (of a method, of JSON-RPC or HTTP) have come."""

        def some() -> list[Asked]:
            return [asked for asked in self.requests if not method or method in _names(asked)]

        async with within(), self._changed:
            await self._changed.wait_for(lambda: len(some()) >= number)
        return some()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        wire = Wire(reader, writer)
        try:
            while (asked := await wire.asked()) is not None:
                async with self._changed:
                    self.requests.append(asked)
                    self._changed.notify_all()
                data = await self.script(asked, wire)
                if data is not None:
                    wire.send(data)
        except asyncio.CancelledError:
            pass  # by `close`; a task of asyncio's streams must not end as cancelled
        finally:
            writer.transport.abort()
            self._tasks.discard(task)


def _names(asked: Asked) -> tuple[str, ...]:
    method = asked.message.get("method", "") if asked.body else ""
    return asked.method, method


@asynccontextmanager
async def raw_server(
    script: Callable[[Asked, Wire], Awaitable[bytes | None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    server = RawServer(script, tls)
    await server.open()
    try:
        yield server
    finally:
        await server.close()
