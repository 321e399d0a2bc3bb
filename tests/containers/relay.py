"""Between us and an engine: a socket that passes everything on, and that can be cut, or do as it is told."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

Before = Callable[[str], Awaitable[bytes | None]]
"""Gets the first line of a request. What it returns is the answer; None: the engine is asked."""


async def as_it_is(line: str) -> bytes | None:
    """All is passed on."""
    return None


async def silence(line: str) -> bytes | None:
    """Accepted, and not answered until the connection is cut."""
    await asyncio.Event().wait()
    return None


class Relay:
    """Use it as a context; `path` is where to go instead of to the engine."""

    def __init__(self, folder: Path, engine: Path) -> None:
        self.path = folder / "relay.sock"
        self.is_closed = False
        """Connections are closed as they come."""
        self.refused = ""
        """Those whose first line has this in it; empty: none."""
        self.before: Before = as_it_is
        self.late = ""
        """Such requests are not answered; the engine gets them when they are `released`."""
        self.released = asyncio.Event()
        self.late_answers: list[bytes] = []
        self.asked: list[str] = []
        """First lines, of all that came."""
        self.heard = bytearray()
        """What the engine said on connections that are attached to containers."""
        self._engine = engine
        self._open: dict[asyncio.Task[None], str] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut("")
        if self._open:
            await asyncio.wait(self._open)
        await self._server.wait_closed()

    def requests(self, part: str) -> int:
        """How many are open whose first line has that in it."""
        return sum(part in line for line in self._open.values())

    def cut(self, part: str) -> None:
        """End them."""
        for task, line in tuple(self._open.items()):
            if part in line:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = ""
        try:
            if self.is_closed:
                return
            head = await reader.readline()
            line = self._open[task] = head.decode()
            self.asked.append(line)
            if self.refused and self.refused in line:
                return
            if self.late and self.late in line:
                await self._ask_later(head, reader, writer)
            elif (answer := await self.before(line)) is not None:
                writer.write(answer)
                await writer.drain()
            else:
                await self._pass_on(head, reader, writer)
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            writer.transport.abort()
            del self._open[task]

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward = await asyncio.open_unix_connection(str(self._engine))
        heard = self.heard if b"/attach" in head else None
        try:
            onward.write(head)
            await asyncio.gather(_copy(reader, onward), _copy(onward_reader, writer, heard))
        finally:
            onward.transport.abort()

    async def _ask_later(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """As an engine goes on with what nobody waits for any more."""
        more = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", more)
        body = await reader.readexactly(int(length[1])) if length else b""
        writer.transport.abort()
        await self.released.wait()
        onward_reader, onward = await asyncio.open_unix_connection(str(self._engine))
        try:
            onward.write(head + more + body)
            self.late_answers.append(await onward_reader.read())
        finally:
            onward.transport.abort()


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray | None = None
) -> None:
    while data := await reader.read(65536):
        if heard is not None:
            heard += data
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof() and not writer.is_closing():
        writer.write_eof()
