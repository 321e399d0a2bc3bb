"""The HTTP+SSE transport of 2024-11-05 for tests: a server that misbehaves as asked, a client in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from itertools import count
from typing import Any

from mooring.http.client import Client
from mooring.http.origin import parse_url
from mooring.remote.conversation import Conversation
from mooring.remote.old_endpoint import OldEndpoint
from mooring.remote.old_sse import OldSseConversation
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.wire.failures import Failure
from mooring.wire.http import Headers
from tests.raw_server import Asked, RawServer, Wire, answer, chunk, raw_server, stream_head
from tests.stdio_client import QUICK
from tests.support import within

Json = dict[str, Any]
ACCEPTED = answer(b"Accepted", "202 Accepted", kind="text/plain")
CAPABILITIES: Json = {"logging": {}, "tools": {"listChanged": True}, "resources": {"subscribe": True}}


def named_event(name: str, data: str) -> bytes:
    """A chunk with one event."""
    return chunk(f"event: {name}\ndata: {data}\n\n".encode())


class OldServer:
    """GET /sse is a stream, POST /messages?n=NUMBER takes messages for the stream of that number.

    `on_get` and `on_post` may answer in place of it (returning None: as usual); `on_message` may, too, say
    what comes on the stream for a message.
    """

    def __init__(self) -> None:
        self.streams: list[Wire] = []
        self.heard: list[tuple[int, Json]] = []
        """Each message with the number of its stream, from 1."""
        self.mailbox = "/messages?n={n}"
        self.version = "2024-11-05"
        self.on_get: Callable[[int, Wire], Awaitable[bytes | None]] | None = None
        self.on_post: Callable[[Json, Wire], Awaitable[bytes | None]] | None = None
        self.on_message: Callable[[Json], bytes | None] | None = None
        self.raw: RawServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.raw.port}/sse"

    def methods(self, stream: int) -> list[str]:
        return [message.get("method", "answer") for number, message in self.heard if number == stream]

    def say(self, message: Json) -> None:
        """On the latest stream."""
        self.streams[-1].send(named_event("message", json.dumps(message)))

    async def script(self, asked: Asked, wire: Wire) -> bytes | None:
        if asked.method == "GET":
            await self._stream(wire)
            return None
        number, message = int(asked.target.rpartition("=")[2]), asked.message
        self.heard.append((number, message))
        if self.on_post is not None and (data := await self.on_post(message, wire)) is not None:
            return data
        data = self.on_message(message) if self.on_message is not None else None
        if data is None and "method" in message and "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": self.result(message)}
            data = named_event("message", json.dumps(reply))
        if data:
            self.streams[number - 1].send(data)
        return ACCEPTED

    async def _stream(self, wire: Wire) -> None:
        self.streams.append(wire)
        number = len(self.streams)
        if self.on_get is not None and (data := await self.on_get(number, wire)) is not None:
            wire.send(data)
            return
        wire.send(stream_head() + named_event("endpoint", self.mailbox.format(n=number)))
        await wire.closed_by_peer()

    def result(self, message: Json) -> Json:
        if message["method"] == "initialize":
            info = {"name": "old", "version": "1"}
            return {"protocolVersion": self.version, "capabilities": CAPABILITIES, "serverInfo": info}
        return {"method": message["method"]}


@asynccontextmanager
async def old_server() -> AsyncIterator[OldServer]:
    server = OldServer()
    async with raw_server(server.script) as server.raw:
        yield server


class Talk:
    """A client of a conversation, and its outlet."""

    def __init__(self) -> None:
        self.conversation: Conversation
        self.client: Client
        self.messages: list[Json] = []
        self.outcomes: list[Failure | None] = []
        self._ids = count(1)
        self._changed = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.waiting = 0
        """Who waits for a turn to write."""

    def write(self, line: bytes) -> None:
        assert b"\n" not in line
        self.messages.append(json.loads(line))
        self._changed.set()

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.may_write.is_set() else self._wait()

    @asynccontextmanager
    async def _wait(self) -> AsyncIterator[None]:
        self.waiting += 1
        await self.may_write.wait()
        self.waiting -= 1
        yield

    async def message(self, wanted: Callable[[Json], object]) -> Json:
        async with within():
            while True:
                if (found := next((one for one in self.messages if wanted(one)), None)) is not None:
                    return found
                self._changed.clear()
                await self._changed.wait()

    def answers(self, id: int | str) -> list[Json]:
        return [one for one in self.messages if one.get("id") == id and "method" not in one]

    async def answer(self, id: int | str) -> Json:
        return await self.message(lambda one: one.get("id") == id and "method" not in one)

    def send(self, message: Json | list[Json]) -> None:
        self.conversation.take(json.dumps(message).encode())

    def request(self, method: str, params: Json | None = None) -> int:
        id = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})})
        return id

    def notify(self, method: str, params: Json | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    async def result(self, method: str, params: Json | None = None) -> Json:
        reply = await self.answer(self.request(method, params))
        assert "result" in reply, reply
        return reply["result"]  # type: ignore[no-any-return]

    async def reason(self, method: str, params: Json | None = None) -> tuple[str, bool]:
        """Why Mooring answered in place of the server, and whether asking again does no harm."""
        data = (await self.answer(self.request(method, params)))["error"]["data"]
        return data["reason"], data["retryable"]

    async def initialize(self, capabilities: Json | None = None) -> Json:
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2024-11-05", "capabilities": capabilities or {}, "clientInfo": info}
        result = await self.result("initialize", params)
        self.notify("notifications/initialized")
        return result


class NoCredentials:
    def __init__(self) -> None:
        self.headers: Headers = []

    async def ready(self) -> None:
        pass

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        return False


@asynccontextmanager
async def talking(url: str, credentials: Any = None, **policy: Any) -> AsyncIterator[Talk]:
    """A conversation with the server there; nothing of it is left, and no request was answered twice."""
    talk, bounds = Talk(), RemotePolicy(**{**QUICK, **policy})
    origin, target = parse_url(url)
    talk.client = Client(origin)
    reach = Reach(talk.client, url, bounds)
    endpoint = OldEndpoint(talk.client, target, credentials or NoCredentials(), bounds)
    talk.conversation = OldSseConversation(endpoint, reach, talk, bounds, talk.outcomes.append)
    try:
        yield talk
    finally:
        talk.may_write.set()
        async with within():
            await talk.conversation.aclose()
            await reach.aclose()
            await talk.client.aclose()
    ids = [one["id"] for one in talk.messages if "method" not in one and one.get("id") is not None]
    assert len(ids) == len(set(ids)), "a request was answered twice"
