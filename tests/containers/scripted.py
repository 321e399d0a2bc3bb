"""Something at the end of a socket that answers as it is told to, and not as an engine would."""

import asyncio
from collections.abc import Callable
from pathlib import Path

Answer = bytes | None
"""None: says nothing, and keeps the connection open. Empty: closes it."""


class Begun(bytes):
    """An answer after which the connection is kept open, and nothing more comes."""


VERSION = b'{"ApiVersion": "1.41", "MinAPIVersion": "1.24", "Arch": "amd64", "Version": "7"}'


def answer(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Scripted:
    """Use it as a context. `answers` gets the first line of a request."""

    def __init__(self, folder: Path, answers: Callable[[str], Answer]) -> None:
        self.path = folder / "scripted.sock"
        self.asked: list[str] = []
        self._answers = answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Scripted":
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            line = (await reader.readuntil(b"\r\n\r\n")).decode().partition("\r\n")[0]
            self.asked.append(line)
            said = self._answers(line)
            if said is None:
                await reader.read()
            else:
                writer.write(said)
                await writer.drain()
                if isinstance(said, Begun):
                    await reader.read()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)
