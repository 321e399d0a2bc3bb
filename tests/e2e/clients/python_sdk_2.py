"""Python SDK 2.x: `Client`, in mode legacy, auto or a modern version. Runs in the part `sdk-2`."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp import Client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from tests.e2e.clients.lines import ANSWER, ROOT, SAMPLE, Connection, run, say, wire

warnings.simplefilter("ignore", MCPDeprecationWarning)


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
    if not isinstance(received, Exception):
        say({"event": "notification", **wire(received)})


class Client2(Connection):
    def __init__(self, client: Any, streams: AsyncExitStack) -> None:
        self._client = client
        self._streams = streams
        self._is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._meta: dict[str, Any] = {}

    async def list_tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools(cache_mode="bypass")).tools]

    async def call(self, tool: str, arguments: dict[str, Any], progress: Any) -> Any:
        return await self._client.call_tool(tool, arguments, progress_callback=progress, meta=self._meta)

    async def give_up(self, call: asyncio.Task[None]) -> None:
        call.cancel()

    async def set_level(self, level: str) -> None:
        if self._is_modern:
            self._meta = {types.LOG_LEVEL_META_KEY: level}
        else:
            await self._client.set_logging_level(level)

    async def subscribe(self, uri: str) -> None:
        if self._is_modern:
            stream = self._client.listen(
                tools_list_changed=True,
                prompts_list_changed=True,
                resources_list_changed=True,
                resource_subscriptions=[uri],
            )
            await self._streams.enter_async_context(stream)
        else:
            await self._client.subscribe_resource(uri)

    def described(self) -> dict[str, Any]:
        return {"version": self._client.protocol_version, "session": None}


@asynccontextmanager
async def over_http(url: str, headers: dict[str, str]) -> AsyncIterator[Any]:
    """As the SDK does it by itself for a URL, but with these headers."""
    async with (
        create_mcp_http_client(headers) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def transport(url: str, kind: str, headers: dict[str, str] | None) -> Any:
    if kind == "sse":
        return sse_client(url, headers)
    return over_http(url, headers) if headers else url


@asynccontextmanager
async def connect(command: dict[str, Any]) -> AsyncIterator[Connection]:
    async with (
        Client(
            transport(command["url"], command["transport"], command.get("headers")),
            mode=command.get("mode", "legacy"),
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=list_roots,
            message_handler=message,
        ) as client,
        AsyncExitStack() as streams,
    ):
        yield Client2(client, streams)


def error_of(error: Exception) -> dict[str, Any]:
    if isinstance(error, MCPError):
        return {"code": error.code, "message": error.message, "data": error.data}
    return {"code": None, "message": repr(error), "data": None}


if __name__ == "__main__":
    asyncio.run(run(connect, error_of))
