"""Python SDK 1.x: `streamablehttp_client` and `sse_client`. Runs in the part `sdk-1`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.exceptions import McpError

from tests.e2e.clients.lines import ANSWER, ROOT, SAMPLE, Connection, run, say, wire


async def elicit(_context: Any, params: Any) -> Any:
    say({"event": "asked", "method": "elicitation/create", "params": wire(params)})
    return types.ElicitResult(action="accept", content=dict(ANSWER))


async def sample(_context: Any, params: Any) -> Any:
    say({"event": "asked", "method": "sampling/createMessage", "params": wire(params)})
    content = types.TextContent(type="text", text=SAMPLE)
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def list_roots(_context: Any) -> Any:
    say({"event": "asked", "method": "roots/list", "params": None})
    return types.ListRootsResult.model_validate({"roots": [{"uri": ROOT}]})


async def message(received: Any) -> None:
    if isinstance(received, types.ServerNotification):
        say({"event": "notification", **wire(received.root)})


class Session1(Connection):
    def __init__(self, session: Any, initialized: Any, session_id: str | None) -> None:
        self._session = session
        self._initialized = initialized
        self._session_id = session_id
        self._request_ids: dict[asyncio.Task[Any] | None, int] = {}

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call(self, tool: str, arguments: dict[str, Any], progress: Any) -> Any:
        # This SDK does not cancel by itself, nor tell a request's id: it is the next one.
        self._request_ids[asyncio.current_task()] = self._session._request_id
        return await self._session.call_tool(tool, arguments, progress_callback=progress)

    async def give_up(self, call: asyncio.Task[None]) -> None:
        params = types.CancelledNotificationParams(requestId=self._request_ids[call], reason="given up")
        notification = types.CancelledNotification(params=params)
        await self._session.send_notification(types.ClientNotification(notification))
        call.cancel()

    async def set_level(self, level: str) -> None:
        await self._session.set_logging_level(level)

    async def subscribe(self, uri: str) -> None:
        await self._session.subscribe_resource(uri)

    def described(self) -> dict[str, Any]:
        return {"version": self._initialized.protocolVersion, "session": self._session_id}


@asynccontextmanager
async def connect(command: dict[str, Any]) -> AsyncIterator[Connection]:
    url, sse, headers = command["url"], command["transport"] == "sse", command.get("headers")
    async with (
        sse_client(url, headers) if sse else streamablehttp_client(url, headers) as streams,
        ClientSession(
            streams[0],
            streams[1],
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=list_roots,
            message_handler=message,
        ) as session,
    ):
        initialized = await session.initialize()
        yield Session1(session, initialized, None if sse else streams[2]())


def error_of(error: Exception) -> dict[str, Any]:
    if isinstance(error, McpError):
        return {"code": error.error.code, "message": error.error.message, "data": error.error.data}
    return {"code": None, "message": repr(error), "data": None}


if __name__ == "__main__":
    asyncio.run(run(connect, error_of))
