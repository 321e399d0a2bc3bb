"""Clients of every kind: sessions of each revision over each transport, and requests without a session."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.wire.modern import CAPABILITIES_KEY, LEVEL_KEY, LISTEN, VERSION_KEY
from tests.faults.isolation.ears import NEWS, Ears, Expected, Id, Json, Tally
from tests.faults.isolation.wires import HttpWire, Wire, WsWire

CALLS_AT_ONCE = 8
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_encode = msgspec.json.encode


class Client(ABC):
    """One client, from its coming to its leaving."""

    modern = False

    def __init__(self, port: int, kind: str, tally: Tally, reads_log: bool) -> None:
        self.ears = Ears(kind, tally)
        self.reads_log = reads_log
        self._port = port
        self._tally = tally
        self._wires: list[Wire] = []

    @abstractmethod
    async def come(self) -> None:
        """Until calls can be made, and news are heard."""

    @abstractmethod
    def send(self, id: Id, body: bytes) -> None:
        """A request."""

    @abstractmethod
    async def hold_and_cancel(self) -> None:
        """A call that is never answered; then it is taken back."""

    @abstractmethod
    async def leave(self) -> None:
        """Whatever is under way."""

    def call(self, rng: random.Random, **what: Any) -> None:
        id, expected = self.ears.expect(token=True)
        what |= {"notes": rng.randrange(6)}
        for thing, chance in (("log", 0.3), ("news", 0.1), ("change", 0.002), ("ask", 0.01)):
            if rng.random() < chance:
                what.setdefault(thing, rng.choice([True, "late"]))
        self.send(id, self.body(id, expected, what))

    def body(self, id: Id, expected: Expected, what: Json) -> bytes:
        arguments = {"secret": self.ears.secret, "n": expected.n, **what}
        params = {"name": "tell", "arguments": arguments, "_meta": self._meta(expected)}
        return _message(id, "tools/call", params)

    def _meta(self, expected: Expected) -> Json:
        meta: Json = {} if expected.token is None else {"progressToken": expected.token}
        if self.modern:
            meta |= {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
            if self.reads_log:
                meta[LEVEL_KEY] = "debug"
        return meta

    def held(self) -> tuple[Id, bytes]:
        id, expected = self.ears.expect(token=True)
        return id, self.body(id, expected, {"hold": True, "notes": 1})

    async def ask(self, method: str, params: Json) -> None:
        id, _ = self.ears.expect()
        self.send(id, _message(id, method, params))
        await self.ears.quiet()

    async def begin_session(self, revision: str, initialized: Callable[[], None]) -> None:
        info = {"name": "one of many", "version": "1"}
        await self.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": info})
        if self.ears.result.get("protocolVersion") != revision:
            self._tally.blame(self.ears.kind, "another revision", self.ears.result)
        initialized()
        await self.ask("resources/subscribe", {"uri": f"secret://{self.ears.secret}"})
        if self.reads_log:
            await self.ask("logging/setLevel", {"level": "debug"})

    async def cut(self) -> None:
        for wire in self._wires:
            await wire.cut()
            for fault in wire.faults:
                self._tally.blame(self.ears.kind, "fault", fault)
        self._wires = []

    async def http_wire(self) -> HttpWire:
        wire = HttpWire(self.ears.hear)
        self._wires.append(wire)
        await wire.connect(self._port)
        return wire


class HttpClient(Client):
    """What those over HTTP have in common: a few connections, and requests on each."""

    async def connect(self) -> None:
        self._lines = [await self.http_wire() for _ in range(2)]

    def send(self, id: Id, body: bytes) -> None:
        self._lines[hash(id) % 2].write(self.post(body))

    async def say_aside(self, requests: bytes) -> None:
        """On a connection that is cut when all is answered: one kept for later may be idle for too long."""
        aside = await self.http_wire()
        aside.write(requests)
        await self.ears.quiet()
        await aside.cut()
        self._wires.remove(aside)

    def post(self, body: bytes) -> bytes:
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return self.head("POST", kind) + body

    def head(self, method: str, more: str = "", path: str = "/mcp") -> bytes:
        accept = "Accept: application/json, text/event-stream\r\n"
        return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{accept}{self.terms()}{more}\r\n".encode()

    @abstractmethod
    def terms(self) -> str:
        """Headers that every request has."""


class HttpSession(HttpClient):
    """A session of Streamable HTTP."""

    def __init__(self, port: int, revision: str, tally: Tally, reads_log: bool) -> None:
        super().__init__(port, f"http {revision}", tally, reads_log)
        self._revision = revision
        self._session = ""

    def terms(self) -> str:
        if not self._session:
            return ""
        return f"Mcp-Session-Id: {self._session}\r\nMcp-Protocol-Version: {self._revision}\r\n"

    async def come(self) -> None:
        await self.connect()
        await self.begin_session(self._revision, self._initialized)
        news = await self.http_wire()
        news.write(self.head("GET"))

    def _initialized(self) -> None:
        self._session = next(line.session for line in self._lines if line.session)
        self._lines[0].write(self.post(_note("notifications/initialized", {})))

    async def hold_and_cancel(self) -> None:
        id, body = self.held()
        # Both on one connection: on another one the cancellation might come first, and mean nothing.
        cancellation = _note("notifications/cancelled", {"requestId": id})
        await self.say_aside(self.post(body) + self.post(cancellation))

    async def leave(self) -> None:
        self._lines[0].write(self.head("DELETE"))
        await self.ears.quiet()
        await self.cut()


class HttpRequests(HttpClient):
    """Requests of 2026-07-28 over HTTP."""

    modern = True

    def __init__(self, port: int, tally: Tally, reads_log: bool) -> None:
        super().__init__(port, "http 2026-07-28", tally, reads_log)
        self._method = "tools/call"

    def terms(self) -> str:
        named = "Mcp-Name: tell\r\n" if self._method == "tools/call" else ""
        return f"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {self._method}\r\n{named}"

    async def come(self) -> None:
        await self.connect()
        id, expected = self.ears.expect(id=NEWS, awaited=False)
        news = await self.http_wire()
        self._method = LISTEN
        news.write(self.post(_message(id, LISTEN, _listening(self.ears, self._meta(expected)))))
        self._method = "tools/call"

    async def hold_and_cancel(self) -> None:
        id, body = self.held()
        self.ears.give_up(id)
        await self.say_aside(self.post(body))

    async def leave(self) -> None:
        await self.cut()


class OldSession(Client):
    """A session of the transport of 2024-11-05: all that is heard comes on one stream."""

    def __init__(self, port: int, tally: Tally, reads_log: bool) -> None:
        super().__init__(port, "sse", tally, reads_log)

    async def come(self) -> None:
        stream, self._line = await self.http_wire(), await self.http_wire()
        stream.write(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._address = await stream.address
        await self.begin_session("2024-11-05", lambda: self.send("", _note("notifications/initialized", {})))

    def send(self, id: Id, body: bytes) -> None:
        head = f"POST {self._address} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._line.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def hold_and_cancel(self) -> None:
        id, body = self.held()
        self.send(id, body)
        self.send(id, _note("notifications/cancelled", {"requestId": id}))

    async def leave(self) -> None:
        await self.cut()


class WsClient(Client):
    """What those on a WebSocket have in common."""

    async def connect(self) -> None:
        self._socket = WsWire(self.ears.hear)
        self._wires.append(self._socket)
        await self._socket.connect(self._port)

    def send(self, id: Id, body: bytes) -> None:
        self._socket.say(body)

    async def hold_and_cancel(self) -> None:
        id, body = self.held()
        self.send(id, body)
        self.send(id, _note("notifications/cancelled", {"requestId": id}))
        self.ears.give_up(id)

    async def leave(self) -> None:
        self._socket.say_goodbye()
        await self.cut()


class WsSession(WsClient):
    """A session on a WebSocket."""

    def __init__(self, port: int, revision: str, tally: Tally, reads_log: bool) -> None:
        super().__init__(port, f"ws {revision}", tally, reads_log)
        self._revision = revision

    async def come(self) -> None:
        await self.connect()
        await self.begin_session(
            self._revision, lambda: self._socket.say(_note("notifications/initialized", {}))
        )


class WsRequests(WsClient):
    """Requests of 2026-07-28 on a WebSocket."""

    modern = True

    def __init__(self, port: int, tally: Tally, reads_log: bool) -> None:
        super().__init__(port, "ws 2026-07-28", tally, reads_log)

    async def come(self) -> None:
        await self.connect()
        id, expected = self.ears.expect(id=NEWS, awaited=False)
        self.send(id, _message(id, LISTEN, _listening(self.ears, self._meta(expected))))


def client_of_kind(kind: int, port: int, tally: Tally, reads_log: bool) -> Client:
    """Kinds are counted round and round."""
    revision = REVISIONS[kind // 8 % 4]
    match kind % 8:
        case 4:
            return HttpRequests(port, tally, reads_log)
        case 5:
            return OldSession(port, tally, reads_log)
        case 6:
            return WsSession(port, revision, tally, reads_log)
        case 7:
            return WsRequests(port, tally, reads_log)
        case n:
            return HttpSession(port, REVISIONS[n], tally, reads_log)


def _listening(ears: Ears, meta: Json) -> Json:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [f"secret://{ears.secret}"]}
    return {"notifications": wanted, "_meta": meta}


def _message(id: Id, method: str, params: Json) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def _note(method: str, params: Json) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, "params": params})
