"""A client of `mooring stdio`: the command inside the test's own loop, or as a process of its own."""

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from mooring.host import stdio
from mooring.host.stdio import StdioOptions
from mooring.host.stop import Stop
from mooring.remote.policy import RemotePolicy
from tests.support import until, within

Json = dict[str, Any]

QUICK: Json = {"first_wait_s": 0.01, "longest_wait_s": 0.05, "default_retry_s": 0.01}
"""Waits that a test can afford."""
MODERN = "2026-07-28"


def modern(**params: Any) -> Json:
    """Params of the era without handshakes."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {**params, "_meta": meta}


class StdioClient:
    """What a client on the other side of the pipes sees and does."""

    def __init__(self, to_stdin: int, from_stdout: int) -> None:
        self._to_stdin: int | None = to_stdin
        self._from_stdout = from_stdout
        self._ids = count(1)
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._reading = False
        self.messages: list[Json] = []
        self.at_end = False
        os.set_blocking(to_stdin, False)
        os.set_blocking(from_stdout, False)
        self.read()

    # stdout

    def read(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._from_stdout, self._on_output)

    def stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._from_stdout)

    def close_stdout(self) -> None:
        if not self.at_end:
            self.stop_reading()
            self.at_end = True
            os.close(self._from_stdout)

    def _on_output(self) -> None:
        data = os.read(self._from_stdout, 1 << 20)
        if not data:
            self.close_stdout()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.messages += [json.loads(line) for line in lines]  # nothing but messages, ever
        self._changed.set()

    async def message(self, wanted: Callable[[Json], object], *, since: int = 0) -> Json:
        async with within():
            while True:
                found = next((one for one in self.messages[since:] if wanted(one)), None)
                if found is not None:
                    return found
                assert not self.at_end, f"stdout ended without it: {self.messages[-5:]}"
                self._changed.clear()
                await self._changed.wait()

    async def answer(self, id: int | str) -> Json:
        return await self.message(lambda one: one.get("id") == id and "method" not in one)

    def answers(self, id: int | str) -> list[Json]:
        return [one for one in self.messages if one.get("id") == id and "method" not in one]

    # stdin

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        async with within(60):
            while view:
                assert self._to_stdin is not None
                try:
                    view = view[os.write(self._to_stdin, view) :]
                except BlockingIOError:
                    await asyncio.sleep(0.001)

    async def send(self, message: Json | list[Json]) -> None:
        await self.write(json.dumps(message).encode() + b"\n")

    def close_stdin(self) -> None:
        if self._to_stdin is not None:
            os.close(self._to_stdin)
            self._to_stdin = None

    async def request(
        self, method: str, params: Json | None = None, *, id: int | str | None = None
    ) -> int | str:
        own = next(self._ids) if id is None else id
        message: Json = {"jsonrpc": "2.0", "id": own, "method": method}
        await self.send(message if params is None else {**message, "params": params})
        return own

    async def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        await self.send(message if params is None else {**message, "params": params})

    async def respond(self, id: int | str, result: Json) -> None:
        await self.send({"jsonrpc": "2.0", "id": id, "result": result})

    async def ask(self, method: str, params: Json | None = None) -> Json:
        return await self.answer(await self.request(method, params))

    async def result(self, method: str, params: Json | None = None) -> Json:
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def error(self, method: str, params: Json | None = None) -> Json:
        answer = await self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]  # type: ignore[no-any-return]

    async def initialize(self, version: str = "2025-11-25", capabilities: Json | None = None) -> Json:
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        result = await self.result("initialize", params)
        await self.notify("notifications/initialized")
        return result

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.result("tools/call", {"name": tool, "arguments": arguments})
        return str(result["content"][0]["text"])


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Inside(StdioClient):
    """And what a test in the same process can do besides."""

    stop: Stop
    task: asyncio.Task[int]
    records: list[logging.LogRecord]

    def events(self, name: str) -> list[logging.LogRecord]:
        return [record for record in self.records if getattr(record, "event", "") == name]

    async def logged(self, name: str, number: int = 1) -> logging.LogRecord:
        await until(lambda: len(self.events(name)) >= number)
        return self.events(name)[number - 1]

    async def ended(self) -> int:
        async with within(60):
            return await self.task


@asynccontextmanager
async def speaking(
    url: str, *, drain_timeout_s: float | None = 10.0, options: Json | None = None, **policy: Any
) -> AsyncIterator[Inside]:
    """`mooring stdio URL` inside this loop; it has ended when the block has."""
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()
    handler = _Records()
    logger = logging.getLogger("mooring")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    client = Inside(our_stdin, our_stdout)
    client.records = handler.records
    client.stop = Stop(time.monotonic)
    client.task = asyncio.create_task(
        stdio.run(
            StdioOptions(
                url=url,
                stdin=their_stdin,
                stdout=their_stdout,
                drain_timeout_s=drain_timeout_s,
                policy=RemotePolicy(**{**QUICK, **policy}),
                **(options or {}),
            ),
            client.stop,
        )
    )
    try:
        yield client
    finally:
        client.close_stdin()
        client.stop.request("end of test")
        async with within(60):
            await asyncio.wait([client.task])
        os.close(their_stdin)
        os.close(their_stdout)
        client.close_stdout()
        logger.removeHandler(handler)
        logger.setLevel(level)
    client.task.result()
    crashes = [record for record in handler.records if record.exc_info]
    assert not crashes, [record.getMessage() for record in crashes]


@asynccontextmanager
async def launched(*arguments: str, **environ: str) -> AsyncIterator["Launched"]:
    """The installed command, as a client starts it."""
    command = Path(sys.executable).parent / "mooring"
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(str(command), "stdio", "--log-format", "json", *arguments),
        stdin=their_stdin,
        stdout=their_stdout,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environ},
    )
    os.close(their_stdin)
    os.close(their_stdout)
    client = Launched(our_stdin, our_stdout)
    client.process = process
    client.log = []
    reader = asyncio.create_task(client.read_log())
    try:
        yield client
    finally:
        client.close_stdin()
        async with within(60):
            try:
                await client.ended()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await reader
        client.close_stdout()


class Launched(StdioClient):
    """A client with a process of its own on the other side."""

    process: asyncio.subprocess.Process
    log: list[Json]

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            with suppress(ValueError):
                self.log.append(json.loads(line))

    async def logged(self, event: str, number: int = 1) -> Json:
        def found() -> list[Json]:
            return [line for line in self.log if line.get("event") == event]

        await until(lambda: len(found()) >= number)
        return found()[number - 1]

    async def ended(self) -> int:
        async with within(60):
            return await self.process.wait()
