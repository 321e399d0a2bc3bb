"""A program under test, talking JSON lines; and what it leaves behind."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support import alive, within

__all__ = ["ROOT", "Json", "Program", "carrying", "kill"]

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
T = TypeVar("T", Json, str)


def carrying(variable: str) -> set[int]:
    """Pids of the running processes whose environment has `NAME=VALUE`."""
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # gone meanwhile, or not ours to read
            if variable.encode() in environment and alive(int(folder.name)):
                found.add(int(folder.name))
    return found


def kill(pid: int) -> None:
    """SIGKILL, as an accident would; the process is there, or the test is wrong."""
    os.kill(pid, signal.SIGKILL)


class Program:
    """A subprocess. JSON lines on `listen_to` become `messages`; any other line becomes `words`.

    Use as a context manager: at its end the program has ended and both pipes are read to their end.
    """

    def __init__(
        self, argv: Sequence[str | Path], *, listen_to: str = "stdout", environment: Mapping[str, str]
    ) -> None:
        self._argv = [str(word) for word in argv]
        self._listen_to = listen_to
        self._environment = environment
        self._changed = asyncio.Condition()
        self._readers: list[asyncio.Task[None]] = []
        self.messages: list[Json] = []
        self.words: list[str] = []

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self._environment),
            cwd=ROOT,
            limit=1 << 26,
        )
        assert self.process.stdout and self.process.stderr
        for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr)):
            self._readers.append(asyncio.create_task(self._read(stream, name == self._listen_to)))
        return self

    async def __aexit__(self, kind: object, error: object, _traceback: object) -> None:
        if self.process.returncode is None:
            kill(self.process.pid)
        await self.ended()
        if error is not None:
            print(f"--- {' '.join(self._argv)}\n{self.told()}\n---")

    def told(self) -> str:
        """The end of everything it said, for a failing test."""
        return "\n".join([*map(json.dumps, self.messages[-60:]), *self.words[-60:]])

    async def _read(self, stream: asyncio.StreamReader, is_json: bool) -> None:
        while line := await stream.readline():
            text = line.decode(errors="replace").rstrip("\n")
            message = self._parsed(text) if is_json else None
            async with self._changed:
                if message is None:
                    self.words.append(text)
                else:
                    self.messages.append(message)
                self._changed.notify_all()
        async with self._changed:
            self._changed.notify_all()

    @staticmethod
    def _parsed(text: str) -> Json | None:
        try:
            message = json.loads(text)
        except ValueError:
            return None
        return message if isinstance(message, dict) else None

    async def send(self, message: Json) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def _first(self, found: Callable[[], T | None]) -> T:
        async with self._changed:
            await self._changed.wait_for(lambda: found() or all(task.done() for task in self._readers))
        if (wanted := found()) is None:
            raise AssertionError(f"{self._argv[0]} ended without what was expected of it\n{self.told()}")
        return wanted

    async def message(self, wanted: Callable[[Json], object], *, since: int = 0) -> Json:
        """The first message that fits, of those after `since`; fails when the program ends without it."""
        return await self._first(lambda: next(filter(wanted, self.messages[since:]), None))

    async def word(self, wanted: Callable[[str], object]) -> str:
        """The first line that is not JSON and fits."""
        return await self._first(lambda: next(filter(wanted, self.words), None))

    async def ended(self) -> int:
        """Its exit status, once both pipes are at their end too; a signal counts negative."""
        async with within(60):
            assert self.process.stdin
            self.process.stdin.close()
            status = await self.process.wait()
            await asyncio.gather(*self._readers)
        return status
