"""Between us and an engine: a socket that passes everything on, and that can be cut."""

import asyncio
from pathlib import Path


class Relay:
    """Use it as a context; `path` is where to go instead of to the engine."""

    def __init__(self, folder: Path, engine: Path) -> None:
        self.path = folder / "relay.sock"
        self.is_closed = False
        """Connections are closed as they come."""
        self.refused = ""
        """Those whose first line has this in it; empty: none."""
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
            self._open[task] = head.decode()
            if self.refused and self.refused in self._open[task]:
                return
            onward_reader, onward = await asyncio.open_unix_connection(str(self._engine))
            try:
                onward.write(head)
                await asyncio.gather(_copy(reader, onward), _copy(onward_reader, writer))
            finally:
                onward.transport.abort()
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            writer.transport.abort()
            del self._open[task]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof() and not writer.is_closing():
        writer.write_eof()
