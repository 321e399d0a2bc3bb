"""A client for hours of load: connections are kept alive and used again, every wait has a bound.

Whatever goes wrong is raised as `Failed`, with a cause that can be counted.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

from mooring.wire.sse import EventDecoder
from tests.http_client import Answer, Peer
from tests.soak.ledger import Failed

__all__ = ["Client", "Incoming", "Json", "OldClient", "StatelessClient", "text_of"]

Json = dict[str, Any]
Heard = Callable[[Json], Awaitable[None]]

VERSION = "2025-11-25"
OLD_VERSION = "2024-11-05"
STATELESS_VERSION = "2026-07-28"
PATIENCE_S = 60.0
"""For one step of a call; a hang is a failure, not a wait."""
CAPABILITIES: Json = {"elicitation": {}, "sampling": {}, "roots": {}}
READ_BYTES = 1 << 26
LOST = (OSError, EOFError)
"""What a connection that ends raises; a TimeoutError is an OSError."""


class Incoming:
    """The answer to one request, which may be a stream; its connection goes back when it is read."""

    def __init__(self, peer: Peer, answer: Answer, give_back: Callable[[Peer], None]) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.last_event_id = ""
        self._peer = peer
        self._give_back = give_back

    async def body(self) -> bytes:
        length = int(self.headers.get("content-length", 0))
        async with asyncio.timeout(PATIENCE_S):
            data = await self._peer.reader.readexactly(length)
        self.finish()
        return data

    async def messages(self) -> AsyncIterator[Json]:
        """Every message of it, to its end. A stream may be silent for long: its keep-alives are not."""
        if self.headers.get("content-type") != "text/event-stream":
            yield json.loads(await self.body())
            return
        decoder = EventDecoder()
        chunks = self._peer.chunks()
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                break
            for event in decoder.feed(chunk):
                self.last_event_id = event.id or self.last_event_id
                if event.event == "endpoint":
                    yield {"endpoint": event.data}
                elif event.data:
                    yield json.loads(event.data)
        self.finish()

    def reset(self) -> None:
        """Cut the connection, as a failing network would."""
        _reset(self._peer)

    def finish(self) -> None:
        """It is read to its end: the connection can be used again, unless the other side closes it."""
        if self.headers.get("connection") != "close":
            self._give_back(self._peer)


class Client:
    """One client and its session."""

    path = "/mcp"

    def __init__(self, port: int) -> None:
        self.session = ""
        self._port = port
        self._ids = count(1)
        self._peers: set[Peer] = set()
        self._idle: list[Peer] = []

    # Connections

    async def request(self, method: str, body: bytes = b"", last_event_id: str = "") -> Incoming:
        """Send a request; returns when the head of its answer is there."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                peer = self._idle.pop() if self._idle else await self._connect()
                peer.send(self._head(method, len(body), last_event_id) + body)
                await peer.writer.drain()
                answer = await peer.head()
        except LOST as error:
            raise Failed(_cause(error), began=began) from error
        return Incoming(peer, answer, self._idle.append)

    async def _connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._port, limit=READ_BYTES))
        self._peers.add(peer)
        return peer

    def _head(self, method: str, length: int, last_event_id: str) -> bytes:
        lines = [f"{method} {self.path} HTTP/1.1", "Host: localhost"]
        lines.append("Accept: application/json, text/event-stream")
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        if self.session:
            lines += [f"Mcp-Session-Id: {self.session}", f"MCP-Protocol-Version: {VERSION}"]
        if last_event_id:
            lines.append(f"Last-Event-ID: {last_event_id}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def cut_call(self, tool: str, sent: float, **arguments: Any) -> None:
        """Begin a call and cut the connection when that part of it is sent; 1 is all of it."""
        body = self._call_of(next(self._ids), tool, arguments)
        try:
            async with asyncio.timeout(PATIENCE_S):
                peer = await self._connect()
                data = self._head("POST", len(body), "") + body
                peer.send(data[: int(len(data) * sent)])
                await peer.writer.drain()
        except LOST as error:
            raise Failed(_cause(error)) from error
        _reset(peer)

    async def disconnect(self, *, reset: bool = False) -> None:
        """Close or cut all connections, without a word; the session stays."""
        peers, self._peers = self._peers, set()
        self._idle.clear()
        for peer in peers:
            if reset:
                _reset(peer)
            await peer.aclose()

    # Messages

    async def open(self) -> Json:
        """Open the session; what the server says of itself."""
        params = {
            "protocolVersion": VERSION,
            "capabilities": CAPABILITIES,
            "clientInfo": {"name": "soak", "version": "1"},
        }
        incoming = await self._post(_message(next(self._ids), "initialize", params))
        result = await self._answer(incoming, None, None)
        if result["protocolVersion"] != VERSION:
            raise Failed("wrong version")
        self.session = incoming.headers["mcp-session-id"]
        await self.say({"method": "notifications/initialized"})
        return result

    async def close(self) -> None:
        """End the session."""
        incoming = await self.request("DELETE")
        if incoming.status != 204:
            raise Failed(await _refusal(incoming))
        incoming.finish()

    async def ask(self, method: str, params: Json, heard: Heard | None = None) -> Json:
        """The result of a request; `heard` gets what comes before it."""
        id = next(self._ids)
        return await self._answer(await self._post(_message(id, method, params)), id, heard)

    async def call(self, tool: str, heard: Heard | None = None, **arguments: Any) -> Json:
        """The result of a tool call."""
        id = next(self._ids)
        return await self._answer(await self._post(self._call_of(id, tool, arguments)), id, heard)

    async def say(self, message: Json) -> None:
        """A notification, or the answer to a question."""
        body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
        incoming = await self.request("POST", body)
        if incoming.status != 202:
            raise Failed(await _refusal(incoming))
        await incoming.body()

    async def begin(self, tool: str, **arguments: Any) -> tuple[int, Incoming]:
        """Begin a call with progress; its messages are for the caller to read."""
        id = next(self._ids)
        return id, await self._post(self._call_of(id, tool, arguments, {"progressToken": id}))

    async def listen(self, last_event_id: str = "") -> Incoming:
        """The stream of what belongs to no call; or the rest of one that was cut."""
        incoming = await self.request("GET", last_event_id=last_event_id)
        if incoming.headers.get("content-type") != "text/event-stream":
            raise Failed(await _refusal(incoming))
        return incoming

    def _call_of(self, id: int, tool: str, arguments: Json, meta: Json | None = None) -> bytes:
        params: Json = {"name": tool, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return _message(id, "tools/call", params)

    async def _post(self, body: bytes) -> Incoming:
        incoming = await self.request("POST", body)
        if incoming.status != 200:
            raise Failed(await _refusal(incoming))
        return incoming

    async def _answer(self, incoming: Incoming, id: int | None, heard: Heard | None) -> Json:
        answer: Json | None = None
        try:
            async for message in incoming.messages():
                if "method" not in message and message.get("id") == (id or message["id"]):
                    answer = message
                elif heard is not None:
                    await heard(message)
        except LOST as error:
            raise Failed(_cause(error)) from error
        if answer is None:
            raise Failed("stream ended")
        return result_of(answer)


class OldClient(Client):
    """The transport of 2024-11-05: answers come on one stream, which is the session."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.path = "/sse"
        self._messages: AsyncIterator[Json] | None = None

    async def open(self) -> Json:
        self._messages = (await self.listen()).messages()
        self.path = (await self._next())["endpoint"]
        params = {
            "protocolVersion": OLD_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "soak", "version": "1"},
        }
        result = await self.ask("initialize", params)
        await self.say({"method": "notifications/initialized"})
        return result

    async def ask(self, method: str, params: Json, heard: Heard | None = None) -> Json:
        id = next(self._ids)
        await self.say({"id": id, "method": method, "params": params})
        while (message := await self._next()).get("id") != id or "method" in message:
            pass
        return result_of(message)

    async def call(self, tool: str, heard: Heard | None = None, **arguments: Any) -> Json:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def say(self, message: Json) -> None:
        incoming = await self.request("POST", json.dumps({"jsonrpc": "2.0", **message}).encode())
        if incoming.status != 202:
            raise Failed(await _refusal(incoming))
        await incoming.body()

    async def _next(self) -> Json:
        assert self._messages is not None
        try:
            return await anext(self._messages)
        except StopAsyncIteration:
            raise Failed("stream ended") from None
        except LOST as error:
            raise Failed(_cause(error)) from error


class StatelessClient(Client):
    """Of 2026-07-28: no session, and each request says all of itself. It knows one tool, `echo`."""

    def _head(self, method: str, length: int, last_event_id: str) -> bytes:
        lines = [
            "",
            f"MCP-Protocol-Version: {STATELESS_VERSION}",
            "Mcp-Method: tools/call",
            "Mcp-Name: echo",
            "",
        ]
        return super()._head(method, length, last_event_id).replace(b"\r\n", "\r\n".join(lines).encode(), 1)

    def _call_of(self, id: int, tool: str, arguments: Json, meta: Json | None = None) -> bytes:
        space = "io.modelcontextprotocol/"
        envelope = {f"{space}protocolVersion": STATELESS_VERSION, f"{space}clientCapabilities": {}}
        return super()._call_of(id, tool, arguments, {**envelope, **(meta or {})})


def _reset(peer: Peer) -> None:
    if not peer.writer.transport.is_closing():
        peer.reset()


def text_of(result: Json) -> str:
    """The text of a tool's result."""
    return str(result["content"][0]["text"])


def result_of(answer: Json) -> Json:
    """The result in an answer. Raises Failed with the reason of an error."""
    if "error" in answer:
        data = answer["error"].get("data") or {}
        raise Failed(str(data.get("reason") or f"error {answer['error']['code']}"))
    result: Json = answer["result"]
    return result


def _message(id: int, method: str, params: Json) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


async def _refusal(incoming: Incoming) -> str:
    try:
        body = json.loads(await incoming.body())
        return f"{incoming.status} {body['error']['data']['reason']}"
    except LOST as error:
        return _cause(error)
    except (ValueError, KeyError, TypeError):
        return f"{incoming.status}"


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing for {PATIENCE_S:g} s"
    return "connection refused" if isinstance(error, ConnectionRefusedError) else "connection lost"
