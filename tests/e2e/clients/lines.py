"""What the Python clients share: commands in, answers and events out. Imports no SDK: there are two."""

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

ANSWER = {"answer": "forty-two"}
SAMPLE = "a model's words"
ROOT = "file:///harbour"


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def wire(model: Any) -> Any:
    """A pydantic model as it was on the wire."""
    return None if model is None else model.model_dump(by_alias=True, exclude_none=True, mode="json")


class Connection(ABC):
    """One SDK's client, connected."""

    @abstractmethod
    async def list_tools(self) -> list[str]: ...

    @abstractmethod
    async def call(self, tool: str, arguments: dict[str, Any], progress: Any) -> Any: ...

    @abstractmethod
    async def give_up(self, call: asyncio.Task[None]) -> None: ...

    @abstractmethod
    async def set_level(self, level: str) -> None: ...

    @abstractmethod
    async def subscribe(self, uri: str) -> None: ...

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What `connect` answers."""


class Talk:
    """Serves commands on one connection; each in a task of its own, so that a call can be given up."""

    def __init__(self, connection: Connection, error_of: Callable[[Exception], dict[str, Any]]) -> None:
        self._connection = connection
        self._error_of = error_of
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self, commands: asyncio.StreamReader) -> int:
        """Until `close` or the end of input; the id of `close`, to be answered by the caller."""
        while line := await commands.readline():
            command = json.loads(line)
            if command["do"] == "close":
                return int(command["id"])
            self._tasks[command["id"]] = asyncio.create_task(self._answer(command))
        return 0

    async def _answer(self, command: dict[str, Any]) -> None:
        try:
            result = await self._do(command)
        except asyncio.CancelledError:
            say({"id": command["id"], "error": {"code": None, "message": "cancelled", "data": None}})
        except Exception as error:
            say({"id": command["id"], "error": self._error_of(error)})
        else:
            say({"id": command["id"], "result": result})

    async def _do(self, command: dict[str, Any]) -> Any:
        connection = self._connection
        match command["do"]:
            case "list_tools":
                return await connection.list_tools()
            case "call":

                async def progress(done: float, total: float | None, _message: str | None) -> None:
                    say({"event": "progress", "call": command["id"], "progress": done, "total": total})

                wanted = progress if command.get("progress") else None
                return wire(await connection.call(command["tool"], command.get("arguments", {}), wanted))
            case "cancel":
                return await connection.give_up(self._tasks[command["call"]])
            case "set_level":
                return await connection.set_level(command["level"])
            case "subscribe":
                return await connection.subscribe(command["uri"])
            case other:
                raise ValueError(f"unknown command {other!r}")


async def commands_from_stdin() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def run(
    connect: Callable[[dict[str, Any]], AbstractAsyncContextManager[Connection]],
    error_of: Callable[[Exception], dict[str, Any]],
) -> None:
    """The whole program: connect, serve, close."""
    commands = await commands_from_stdin()
    first = json.loads(await commands.readline())
    async with connect(first) as connection:
        say({"id": first["id"], "result": connection.described()})
        closing = await Talk(connection, error_of).serve(commands)
    say({"id": closing, "result": None})
