"""A wire between an agent and its relay that can be cut, at any moment and in any way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

__all__ = ["Wire", "wire_to"]


class Wire:
    """Forwards bytes, until it is told otherwise."""

    def __init__(self, there: int) -> None:
        self._there = there
        self._pairs: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0
        self.accepted = 0
        self.is_down = False

    async def open(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.is_down:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._there)
        except OSError:
            writer.transport.abort()
            return
        self._pairs |= {writer, far_writer}
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.transport.abort()
        self._pairs.discard(sink)

    def cut(self) -> None:
        """Both ends see a reset; new connections are made."""
        for writer in tuple(self._pairs):
            writer.transport.abort()
        self._pairs.clear()

    def take_down(self) -> None:
        """Cut, and let nobody through."""
        self.is_down = True
        self.cut()

    def put_up(self) -> None:
        """Let everybody through again."""
        self.is_down = False

    def freeze(self) -> None:
        """Nothing passes, and nobody is told: a half-open connection."""
        self._flows.clear()

    def thaw(self) -> None:
        """It passes again."""
        self._flows.set()

    async def aclose(self) -> None:
        self.thaw()
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def wire_to(port: int, *, at: int = 0) -> AsyncIterator[Wire]:
    """One to that port; `at` another one, or any."""
    wire = Wire(port)
    await wire.open(at)
    try:
        yield wire
    finally:
        await wire.aclose()
