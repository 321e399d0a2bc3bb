"""The product command, as a user runs it: `running_mooring(server=[…])`."""

import asyncio
import json
import os
import signal
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Json, Program, carrying, kill
from tests.support import PATIENCE_S, alive, until, within

__all__ = ["DEMO", "LINUX_ONLY", "Mooring", "running_mooring"]

COMMAND = Path(sys.executable).parent / "mooring"
DEMO = [sys.executable, "-m", "mooring.demo"]
LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
LIMITED = """\
import os, resource, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a program that may not have more descriptors than so many."""
MARKER = "MOORING_INSTANCE"
"""Set by Mooring in the environment of every child."""


class Mooring:
    """A running `mooring run --foreground`."""

    def __init__(self, program: Program, token: str) -> None:
        self._program = program
        self._token = token
        self.url = ""
        """The Streamable HTTP endpoint."""
        self.exit_status = 0
        """What it must end with; a test that breaks something on purpose sets another."""

    @property
    def pid(self) -> int:
        return self._program.process.pid

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    def endpoint(self, transport: str) -> str:
        """The URL for a client of that transport: `http`, `sse` or `ws`."""
        if transport == "ws":
            return f"{self.base}/ws".replace("http", "ws", 1)
        return self.url if transport == "http" else f"{self.base}/sse"

    @property
    def log(self) -> list[Json]:
        return self._program.messages

    @property
    def words(self) -> list[str]:
        """What it said that is not a log line."""
        return self._program.words

    async def logged(self, event: str, *, since: int = 0, **fields: Any) -> Json:
        """The first log line with that event and those fields; waits for it."""

        def fits(line: Json) -> bool:
            return line.get("event") == event and all(line.get(key) == fields[key] for key in fields)

        async with within():
            return await self._program.message(fits, since=since)

    def signal(self, number: signal.Signals) -> None:
        self._program.process.send_signal(number)

    async def ended(self) -> int:
        return await self._program.ended()

    async def kill(self, pid: int) -> None:
        """Kill a server; it is dead when this returns, whether Mooring knows it yet or not."""
        kill(pid)
        await until(lambda: not alive(pid))

    def servers(self) -> set[int]:
        """The processes that run as servers now: those that carry Mooring's marker and ours."""
        found: set[int] = set()
        for pid in carrying(self._token) - {self.pid}:
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(item.startswith(f"{MARKER}=".encode()) for item in environment):
                found.add(pid)
        return found

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of a plain GET, such as /readyz."""

        def ask() -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(self.base + path, timeout=PATIENCE_S) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.load(error)

        return await asyncio.to_thread(ask)

    async def stop(self) -> None:
        """SIGTERM; then: the right exit status, and no process left."""
        if self._program.process.returncode is None:
            self.signal(signal.SIGTERM)
        status = await self.ended()
        # A killed orphan is reaped by pid 1, when that gets round to it: wait for what runs, not for zombies.
        try:
            await until(lambda: not carrying(self._token))
        except TimeoutError:
            left = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in carrying(self._token)}
            raise AssertionError(f"processes left: {left}\n{self._program.told()}") from None
        assert status == self.exit_status, f"exit status {status}\n{self._program.told()}"


@asynccontextmanager
async def running_mooring(
    *options: str,
    server: Sequence[str | Path] | str,
    name: str = "e2e",
    descriptors: int | None = None,
    prefix: Sequence[str] = (),
) -> AsyncIterator[Mooring]:
    """Start the product command in front of `server`; at the end stop it, and nothing may be left.

    `server`: its command, or (a text) the URL of one that runs already.
    `descriptors`: how many it may have at most.
    `prefix`: the command that becomes it, elsewhere.

    Everything it starts carries a token in its environment, by which survivors are found.
    """
    token = f"MOORING_E2E={uuid.uuid4().hex}"
    key, _, value = token.partition("=")
    argv: list[str | Path] = [COMMAND, "run", "--foreground", name, "--port", "0", "--log-format", "json"]
    argv += (
        ["--url", server, *options] if isinstance(server, str) else ["--env", token, *options, "--", *server]
    )
    if descriptors is not None:
        argv = [sys.executable, "-c", LIMITED, str(descriptors), *argv]
    program = Program([*prefix, *argv], listen_to="stderr", environment={**os.environ, key: value})
    try:
        async with program:
            mooring = Mooring(program, token)
            async with within(60):
                mooring.url = (await program.message(lambda line: line.get("event") == "listening"))["url"]
            yield mooring
            await mooring.stop()
    finally:
        # Only after a failure is there anything left to end; and then it must not disturb the next test.
        for pid in carrying(token):
            os.kill(pid, signal.SIGKILL)
