"""Drive one of the real clients in `clients/`, whose protocol is described there."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests import parts
from tests.e2e.program import ROOT, Json, Program
from tests.support import within

__all__ = ["CLIENTS", "Client", "RemoteError", "connected"]

NEEDS = {
    "python-1": ("sdk-1",),
    "python-2": ("sdk-2",),
    "typescript-1": ("npm", "node"),
    "typescript-2": ("typescript-2", "node"),
}
CLIENTS = tuple(NEEDS)


def _argv(kind: str) -> list[str | Path]:
    language, _, version = kind.partition("-")
    part = NEEDS[kind][0]
    if language == "python":
        return [parts.python_of(part), "-m", f"tests.e2e.clients.python_sdk_{version}"]
    program = ROOT / f"tests/e2e/clients/typescript_sdk_{version}.mjs"
    return [parts.node(), program, parts.node_modules(part).parent]


class RemoteError(Exception):
    """The client raised an error; what its SDK said of it."""

    def __init__(self, error: Json) -> None:
        super().__init__(str(error))
        self.code: int | None = error["code"]
        self.message: str = error["message"]
        self.data: Any = error["data"]


class Client:
    """A client program; `do` waits for the answer, `start` and `answer` are its two halves."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ids = count(1)

    @property
    def seen(self) -> int:
        """How many messages there were; give it to `event` to wait for a later one."""
        return len(self._program.messages)

    async def start(self, do: str, **arguments: Any) -> int:
        number = next(self._ids)
        await self._program.send({"id": number, "do": do, **arguments})
        return number

    async def answer(self, number: int) -> Any:
        async with within(60):
            said = await self._program.message(lambda message: message.get("id") == number)
        if "error" in said:
            raise RemoteError(said["error"])
        return said["result"]

    async def do(self, do: str, **arguments: Any) -> Any:
        return await self.answer(await self.start(do, **arguments))

    async def call(self, tool: str, *, progress: bool = False, **arguments: Any) -> Any:
        """Call a tool; its result as it was on the wire."""
        return await self.do("call", tool=tool, arguments=arguments, progress=progress)

    async def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool; the text of its first content."""
        return str((await self.call(tool, **arguments))["content"][0]["text"])

    async def event(self, name: str, *, since: int = 0, **fields: Any) -> Json:
        """Wait for something that the server sent unasked."""

        def fits(message: Json) -> bool:
            return message.get("event") == name and all(message.get(key) == fields[key] for key in fields)

        return await self.matching(fits, since=since)

    async def matching(self, wanted: Callable[[Json], object], *, since: int = 0) -> Json:
        async with within():
            return await self._program.message(wanted, since=since)


@asynccontextmanager
async def connected(
    kind: str,
    url: str,
    *,
    transport: str = "http",
    mode: str | None = None,
    headers: dict[str, str] | None = None,
) -> AsyncIterator[tuple[Client, Json]]:
    """A connected client, and what it says of its connection: `version`, and `session` where it knows it.

    `headers`: of every request, as the SDK lets its users set them.
    """
    parts.require(*NEEDS[kind])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    async with Program(_argv(kind), environment=environment) as program:
        client = Client(program)
        options: Json = {} if mode is None else {"mode": mode}
        options |= {} if headers is None else {"headers": headers}
        yield client, await client.do("connect", url=url, transport=transport, **options)
        await client.do("close")
        assert await program.ended() == 0, program.told()
