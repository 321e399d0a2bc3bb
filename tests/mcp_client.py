"""A small MCP client over raw sockets: it shows exactly what was on the wire."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Self

from mooring.wire.sse import Event, EventDecoder
from tests.http_client import Answer, Peer
from tests.support import within

Json = dict[str, Any]

ACCEPT = "application/json, text/event-stream"


class Stream:
    """An answer that is an event stream, read event by event."""

    def __init__(self, peer: Peer, answer: Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._peer = peer
        self._chunks = peer.chunks()
        self._decoder = EventDecoder()
        self._events: list[Event] = []
        self.ended = False

    async def event(self) -> Event | None:
        """The next event, positions included; None at a proper end."""
        async with within():
            while not self._events:
                try:
                    self._events += self._decoder.feed(await anext(self._chunks))
                except StopAsyncIteration:
                    self.ended = True
                    return None
        return self._events.pop(0)

    async def message(self) -> Json:
        """The next message."""
        while (event := await self.event()) is not None:
            if event.data:
                return json.loads(event.data)  # type: ignore[no-any-return]
        raise AssertionError("the stream ended")

    async def rest(self) -> list[Json]:
        """All messages up to the end."""
        messages = []
        while (event := await self.event()) is not None:
            if event.data:
                messages.append(json.loads(event.data))
        return messages

    def reset(self) -> None:
        """Cut the connection."""
        self._peer.reset()


class McpClient:
    """One client; `session` is its session id once it is initialized."""

    def __init__(self, port: int, *, path: str = "/mcp", headers: dict[str, str] | None = None) -> None:
        self.host = "127.0.0.1"
        self.port = port
        self.path = path
        self.session = ""
        self.version = "2025-11-25"
        self._headers = headers or {}
        self._ids = count(1)
        self._peers: list[Peer] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *args: object) -> None:
        for peer in self._peers:
            await peer.aclose()

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection(self.host, self.port, limit=2**27))
        self._peers.append(peer)
        return peer

    def head(self, method: str, body: bytes = b"", **headers: str) -> bytes:
        fields = {"Host": "localhost", "Accept": ACCEPT, **self._headers}
        if method == "POST":
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if self.session:
            fields |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.version}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items() if v)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    async def send(self, method: str, body: bytes = b"", **headers: str) -> Peer:
        """Send a request and do not wait for its answer."""
        peer = await self.peer()
        peer.send(self.head(method, body, **headers))
        await peer.writer.drain()
        return peer

    async def raw(self, method: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request and read the whole answer."""
        async with within():
            peer = await self.send(method, body, **headers)
            answer = await peer.answer()
            await peer.aclose()
            return answer

    async def stream(self, method: str = "GET", body: bytes = b"", **headers: str) -> Stream:
        """Send a request whose answer is an event stream."""
        async with within():
            peer = await self.send(method, body, **headers)
            answer = await peer.head()
        assert answer.headers.get("content-type") == "text/event-stream", answer
        return Stream(peer, answer)

    async def initialize(self, version: str = "2025-11-25", capabilities: Json | None = None) -> Json:
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        body = self.request("initialize", params)
        answer = await self.raw("POST", body)
        assert answer.status == 200, answer
        self.session = answer.headers["mcp-session-id"]
        result: Json = json.loads(answer.body)["result"]
        self.version = result["protocolVersion"]
        await self.notify("notifications/initialized")
        return result

    def request(self, method: str, params: Json | None = None, *, id: int | str | None = None) -> bytes:
        message: Json = {"jsonrpc": "2.0", "id": next(self._ids) if id is None else id, "method": method}
        if params is not None:
            message["params"] = params
        return json.dumps(message).encode()

    async def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        answer = await self.raw("POST", json.dumps(message).encode())
        assert answer.status == 202, answer

    async def respond(self, id: int | str, result: Json) -> None:
        answer = await self.raw("POST", json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())
        assert answer.status == 202, answer

    async def ask(self, method: str, params: Json | None = None, **headers: str) -> Json:
        """The whole answer to a request, whether it came as JSON or as the last event of a stream."""
        body = self.request(method, params)
        answer = await self.raw("POST", body, **headers)
        assert answer.status == 200, answer
        if answer.headers["content-type"] == "application/json":
            return json.loads(answer.body)  # type: ignore[no-any-return]
        events = [event for event in EventDecoder().feed(answer.body) if event.data]
        return json.loads(events[-1].data)  # type: ignore[no-any-return]

    async def result(self, method: str, params: Json | None = None) -> Json:
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def call(self, tool: str, **arguments: Any) -> Json:
        return await self.result("tools/call", {"name": tool, "arguments": arguments})

    async def text(self, tool: str, **arguments: Any) -> str:
        return str((await self.call(tool, **arguments))["content"][0]["text"])

    async def pid(self) -> int:
        return int((await self.result("x/pid"))["pid"])

    async def emit(self, *lines: bytes | Json, **params: Any) -> Json:
        """Have the scripted server write these lines, then answer."""
        return await self.ask("x/emit", emission(*lines, **params))

    async def heard(self) -> list[bytes]:
        """What reached the scripted server."""
        return [base64.b64decode(line) for line in (await self.result("x/heard"))["lines"]]


def emission(*lines: bytes | Json, **params: Any) -> Json:
    """Params of `x/emit`."""
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return {"lines": [base64.b64encode(line).decode() for line in encoded], **params}


@asynccontextmanager
async def client_of(port: int, version: str = "2025-11-25", **options: Any) -> AsyncIterator[McpClient]:
    """An initialized client."""
    async with McpClient(port, **options) as client:
        await client.initialize(version)
        yield client
