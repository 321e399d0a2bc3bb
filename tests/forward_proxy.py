"""A forward proxy: CONNECT and absolute-form, names of its own, a password if wanted; tells what it saw."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from mooring.host.waits import first_of
from tests.raw_server import Asked, Wire


class ForwardProxy:
    """`places`: host → port on this machine where it really is."""

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.password = ""
        """Value of Proxy-Authorization that is wanted."""
        self.refuses_with: bytes | None = None
        """The whole answer to every CONNECT."""
        self.asked: list[Asked] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        try:
            while (asked := await wire.asked()) is not None:
                self.asked.append(asked)
                if self.password and asked.headers.get("proxy-authorization") != self.password:
                    wire.send(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
                elif asked.method == "CONNECT":
                    await self._tunnel(asked, wire)
                    return
                else:
                    await self._forward(asked, wire)
        except asyncio.CancelledError:
            pass  # by the end of the test; a task of asyncio's streams must not end as cancelled
        finally:
            writer.transport.abort()

    async def _tunnel(self, asked: Asked, wire: Wire) -> None:
        if self.refuses_with is not None:
            wire.send(self.refuses_with)
            await wire.writer.drain()
            return
        reader, writer = await self._there(asked.target.rpartition(":")[0])
        wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await first_of(_pump(wire.reader, writer), _pump(reader, wire.writer))
        finally:
            writer.close()

    async def _forward(self, asked: Asked, wire: Wire) -> None:
        url = urlsplit(asked.target)
        assert url.scheme == "http" and url.hostname is not None
        reader, writer = await self._there(url.hostname)
        fields = "".join(f"{k}: {v}\r\n" for k, v in asked.headers.items() if not k.startswith("proxy-"))
        writer.write(f"{asked.method} {url.path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n".encode())
        writer.write(asked.body)
        while piece := await reader.read(65536):
            wire.send(piece)
        writer.close()

    async def _there(self, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.places[host])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def forward_proxy(tls: ssl.SSLContext | None = None, **places: int) -> AsyncIterator[ForwardProxy]:
    proxy = ForwardProxy({name.replace("_", "."): port for name, port in places.items()})
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await proxy.serve(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
