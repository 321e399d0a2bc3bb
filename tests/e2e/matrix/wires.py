"""Transports as a client uses them: messages out, messages in.

What a transport does in its own way, it does here: where a message goes, which headers it has, what it takes
to cancel.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from mooring.wire.sse import Event, EventDecoder
from tests.e2e.matrix.cells import MODERN, Cell
from tests.hosting import Host
from tests.http_client import Peer
from tests.mcp_client import Json, McpClient
from tests.stdio_client import speaking
from tests.support import within
from tests.websocket_client import WsClient, ws_client


class Wire(Protocol):
    """What the client of `mooring stdio` can do, every other can too."""

    messages: list[Json]
    """All that came, in order."""

    async def message(self, wanted: Callable[[Json], object], *, since: int = 0) -> Json: ...
    async def send(self, message: Json | list[Json]) -> None: ...


class Inbox(ABC):
    """Where several readers may put what they read."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._changed = asyncio.Event()
        self._readers: set[asyncio.Task[None]] = set()
        self._broken: Exception | None = None

    @abstractmethod
    async def send(self, message: Json | list[Json]) -> None: ...

    async def message(self, wanted: Callable[[Json], object], *, since: int = 0) -> Json:
        async with within():
            while True:
                found = next((one for one in self.messages[since:] if wanted(one)), None)
                if found is not None:
                    return found
                if self._broken is not None:
                    raise self._broken
                self._changed.clear()
                await self._changed.wait()

    def read(self, source: AsyncIterator[str | bytes]) -> asyncio.Task[None]:
        reader = asyncio.create_task(self._read(source))
        self._readers.add(reader)
        return reader

    async def _read(self, source: AsyncIterator[str | bytes]) -> None:
        try:
            async for data in source:
                said = json.loads(data)
                self.messages += said if isinstance(said, list) else [said]
                self._changed.set()
        except Exception as error:
            self._broken = error
            self._changed.set()

    async def aclose(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)


async def _events(peer: Peer) -> AsyncIterator[Event]:
    """Those that say something."""
    decoder = EventDecoder()
    async for chunk in peer.chunks():
        for event in decoder.feed(chunk):
            if event.data:
                yield event


class HttpWire(Inbox):
    """Streamable HTTP with a session: a POST for each message, and a stream for what belongs to none."""

    def __init__(self, client: McpClient) -> None:
        super().__init__()
        self._client = client

    async def send(self, message: Json | list[Json]) -> None:
        peer = await self._client.send("POST", json.dumps(message).encode())
        method = message.get("method") if isinstance(message, dict) else "a batch"
        if method is not None and not method.startswith("notifications/"):
            self.read(self._answers(peer))
            return
        async with within():
            assert (await peer.answer()).status == 202, message
        if method == "notifications/initialized":
            self.read(self._answers(await self._client.send("GET")))

    async def _answers(self, peer: Peer) -> AsyncIterator[str | bytes]:
        head = await peer.head()
        assert head.status == 200, head
        if head.headers["content-type"] == "text/event-stream":
            async for event in _events(peer):
                yield event.data
        else:
            body = (await peer.rest(head)).body
            if "mcp-session-id" in head.headers:
                self._begin(head.headers["mcp-session-id"], json.loads(body)["result"]["protocolVersion"])
            yield body

    def _begin(self, session: str, revision: str) -> None:
        self._client.session = session
        self._client.version = revision if revision >= "2025-06-18" else ""  # the header is not older


class ModernHttpWire(Inbox):
    """Streamable HTTP without sessions: every POST stands alone."""

    def __init__(self, client: McpClient) -> None:
        super().__init__()
        self._client = client
        self._open: dict[Any, tuple[Peer, asyncio.Task[None]]] = {}

    async def send(self, message: Json | list[Json]) -> None:
        assert isinstance(message, dict)
        method, params = message["method"], message["params"]
        if method == "notifications/cancelled":
            peer, reader = self._open[params["requestId"]]
            reader.cancel()
            peer.reset()
            return
        headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if "name" in params or "uri" in params:
            headers["Mcp_Name"] = params.get("name") or params["uri"]
        peer = await self._client.send("POST", json.dumps(message).encode(), **headers)
        self._open[message["id"]] = peer, self.read(self._answers(peer))

    async def _answers(self, peer: Peer) -> AsyncIterator[str | bytes]:
        head = await peer.head()
        if head.headers["content-type"] == "text/event-stream":
            async for event in _events(peer):
                yield event.data
        else:
            yield (await peer.rest(head)).body


class SseWire(Inbox):
    """The transport of 2024-11-05: everything comes on one stream, which names the address for messages."""

    def __init__(self, client: McpClient) -> None:
        super().__init__()
        self._client = client

    async def connect(self) -> None:
        self._client.path = "/sse"
        async with within():
            peer = await self._client.send("GET")
            await peer.head()
            events = _events(peer)
            address = await anext(events)
        assert address.event == "endpoint"
        self._client.path = address.data
        self.read(event.data async for event in events)

    async def send(self, message: Json | list[Json]) -> None:
        answer = await self._client.raw("POST", json.dumps(message).encode())
        assert answer.status == 202, answer


class WsWire(Inbox):
    """A message is a message."""

    def __init__(self, client: WsClient) -> None:
        super().__init__()
        self._connection = client.connection
        self.read(aiter(self._connection))

    async def send(self, message: Json | list[Json]) -> None:
        await self._connection.send(json.dumps(message))


@asynccontextmanager
async def wire_of(cell: Cell, host: Host) -> AsyncIterator[Wire]:
    """A connection, on which nothing has been said yet."""
    if cell.transport == "stdio":
        async with speaking(host.url, cancel_wait_s=0.05) as client:
            yield client
        return
    async with _inbox_of(cell, host) as inbox:
        try:
            yield inbox
        finally:
            await inbox.aclose()


@asynccontextmanager
async def _inbox_of(cell: Cell, host: Host) -> AsyncIterator[Inbox]:
    if cell.transport == "ws":
        async with ws_client(host.port, version="") as socket:
            yield WsWire(socket)
        return
    async with McpClient(host.port) as client:
        if cell.transport == "sse":
            wire = SseWire(client)
            await wire.connect()
            yield wire
        else:
            yield ModernHttpWire(client) if cell.client == MODERN else HttpWire(client)
