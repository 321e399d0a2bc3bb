"""AI clients, as scripts: they watch their own file as the real ones do, and connect by what stands in it.

None of them recovers by itself from a session that was lost: as users report of the real ones, it stays
broken until its entry is another, or was gone for a moment. What counts is what a client has seen by its ways
(how long it waits for a file to settle, what it compares): whoever changes a file too quickly is not noticed.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.mcp_client import McpClient
from tests.support import within

__all__ = ["HABITS", "Habits", "WatchingClient", "watching"]

IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
EVENTS = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


class Habits(NamedTuple):
    """What is known of how a client watches."""

    section: str
    url: str
    quiet_s: float
    """After the last change, before it looks."""
    before: str
    """A file as its user may have it."""


_MCP_SERVERS = '{\n  "mcpServers": {\n    "other": {"command": "true"}\n  }\n}\n'
HABITS = {
    "cursor": Habits("mcpServers", "url", 0.0, _MCP_SERVERS),
    "vscode": Habits("servers", "url", 0.075, '{\n\t// mine\n\t"servers": {},\n\t"inputs": []\n}\n'),
    "zed": Habits(
        "context_servers",
        "url",
        0.1,
        '// Zed settings\n{\n  "theme": "One Dark",\n  "context_servers": {},\n}\n',
    ),
    "cline": Habits("mcpServers", "url", 0.1, _MCP_SERVERS),
}


class WatchingClient:
    """One of them, with one server that it may know."""

    def __init__(self, id: str, path: Path, server: str) -> None:
        self.id = id
        self.path = path
        self.connected = 0
        """How often it has connected."""
        self.vanished = 0
        """How often it has noticed that its entry is gone."""
        self._habits = HABITS[id]
        self._server = server
        self._entry: Any = None
        self._client: McpClient | None = None
        self._changed = asyncio.Event()
        self._is_broken = False

    @property
    def has_tool(self) -> bool:
        """Does it offer the tool to its user?"""
        return self._entry is not None

    @property
    def session(self) -> str:
        """The id of its session."""
        return self._client.session if self._client is not None else ""

    async def ask(self) -> str:
        """Its user calls the tool. What comes of it: an answer, or why there is none."""
        if self._client is None or self._is_broken:
            return "broken" if self.has_tool else "no tool"
        params = {"name": "echo", "arguments": {"text": self.id}}
        try:
            answer = await self._client.raw("POST", self._client.request("tools/call", params))
        except (OSError, EOFError):
            return "unreachable"
        if answer.status != 200:
            self._is_broken = True  # and it stays so
            return "broken"
        return "works" if self.id in answer.body.decode() else answer.body.decode()

    async def works(self) -> None:
        """Wait until its user is served again."""
        answer = ""
        try:
            async with within(30):
                while (answer := await self.ask()) != "works":
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{self.id}: {answer}; {self.path.read_text()}") from None

    async def watch(self) -> None:
        """Until it is cancelled."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _notified(self.path, self._changed):
            while True:
                self._changed.clear()
                await self._look()
                await self._changed.wait()
                await self._settle()

    async def _settle(self) -> None:
        """Each change begins the wait anew."""
        with contextlib.suppress(TimeoutError):
            while self._habits.quiet_s:
                self._changed.clear()
                async with asyncio.timeout(self._habits.quiet_s):
                    await self._changed.wait()

    async def _look(self) -> None:
        try:
            text = _COMMENT.sub("", self.path.read_text())
            document = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
        except (OSError, json.JSONDecodeError):
            return  # it goes on with what it had
        entry = document.get(self._habits.section, {}).get(self._server)
        if entry == self._entry:
            return
        await self._disconnect()
        self.vanished += entry is None
        self._entry = entry
        if entry is not None:
            await self._connect(urlsplit(entry[self._habits.url]))

    async def _connect(self, url: Any) -> None:
        self.connected += 1
        client = McpClient(url.port, path=url.path)
        try:
            await client.initialize()
        except (OSError, EOFError, AssertionError):
            self._is_broken = True
        else:
            self._is_broken = False
        self._client = client

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(OSError, EOFError):
                await client.raw("DELETE")
            await client.__aexit__(None)


@contextlib.contextmanager
def _notified(path: Path, changed: asyncio.Event) -> Any:
    """By the system, of everything that happens to that name."""
    system, loop = ctypes.CDLL(None, use_errno=True), asyncio.get_running_loop()
    descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0
    try:
        assert system.inotify_add_watch(descriptor, os.fsencode(path.parent), EVENTS) >= 0

        def read() -> None:
            with contextlib.suppress(BlockingIOError):
                if os.fsencode(path.name) + b"\0" in os.read(descriptor, 65536):
                    changed.set()

        loop.add_reader(descriptor, read)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def watching(*clients: WatchingClient) -> AsyncIterator[None]:
    """They run for the length of the block."""
    tasks = [asyncio.create_task(client.watch(), name=client.id) for client in clients]
    try:
        yield
        assert not any(task.done() for task in tasks), "one has crashed"
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            await client._disconnect()
    assert [error for error in ended if not isinstance(error, asyncio.CancelledError)] == []
