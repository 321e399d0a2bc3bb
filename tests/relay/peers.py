"""Ends of links that do what a test says: agents and clients that speak the relay's framing, by hand."""

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from mooring.http.limits import Limits
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets
from mooring.relay.carrier import Carrier, prepare
from mooring.relay.envelope import SUBPROTOCOL, Envelope, Kind, encode, read_json, split, write_json
from mooring.relay.link import Link, Stream
from mooring.relay.words import Head, Opening, Reset, Welcome
from mooring.wire.http import Headers
from mooring.wire.websocket import WebSocket
from tests.support import until

__all__ = ["AGENT", "CLIENT", "End", "Heard", "Peers", "Talk", "bearer", "peers_of", "talks"]

AGENT, CLIENT = "/v1/server", "/v1/client"


def bearer(token: str) -> Headers:
    """Of a request."""
    return [(b"Authorization", b"Bearer " + token.encode())] if token else []


class Heard:
    """An ear that keeps what it hears; with `takes` it gives room for more."""

    def __init__(self, *, takes: bool = True, keeps: bool = True) -> None:
        self.takes = takes
        self.head: Head | None = None
        self.data = bytearray()
        self.messages: list[bytes] = []
        self.count = 0
        self.is_ended = False
        self.reset: Reset | None = None
        self.stream: Stream | None = None
        self._keeps = keeps
        self._message = b""

    @property
    def is_over(self) -> bool:
        return self.is_ended or self.reset is not None

    async def over(self) -> "Heard":
        """Waits for its end."""
        await until(lambda: self.is_over)
        return self

    def on_head(self, head: Head) -> None:
        self.head = head

    def on_data(self, data: bytes, more: bool) -> None:
        self.count += len(data)
        if self._keeps:
            self.data += data
            self._message += data
            if not more:
                self.messages.append(self._message)
                self._message = b""
        if self.takes and self.stream is not None:
            self.stream.consumed()

    def on_end(self) -> None:
        self.is_ended = True

    def on_reset(self, reset: Reset) -> None:
        self.reset = reset

    def on_writable(self) -> None:
        """A test sends what it sends."""


class End:
    """One end of a link, and the socket that carries it now."""

    def __init__(self) -> None:
        self.link = Link(lambda: None, self._on_open)
        self.link.on_word = self._on_word
        self.instance = secrets.token_urlsafe(9)
        self.welcome: Welcome | None = None
        self.words: list[Envelope] = []
        self.opened: list[tuple[Stream, Opening, Heard]] = []
        self.closed: tuple[int, str] | None = None
        self.is_silent = False
        """It answers no ping."""
        self.early: list[bytes] = []
        self.carrier: Carrier | None = None
        self._socket: WebSocket | None = None

    @property
    def socket(self) -> WebSocket:
        assert self._socket is not None
        return self._socket

    def take(self, socket: WebSocket) -> None:
        self._socket, self.closed, self.early = socket, None, []
        prepare(socket)
        socket.on_message = self.early.append
        socket.on_closed = self._on_closed

    async def hello(self, **fields: Any) -> Welcome:
        """Say it; the relay's answer. Raises ConnectionError(code, reason) if that is a goodbye."""
        known: dict[str, Any] = {"versions": [1], "instance": self.instance}
        self.socket.send(encode(Kind.HELLO, payload=write_json(known | fields)))
        return await self.welcomed()

    async def welcomed(self) -> Welcome:
        await until(lambda: self.early or self.closed)
        if not self.early:
            assert self.closed is not None
            raise ConnectionError(*self.closed)
        first, *rest = (got for message in self.early for got in split(message))
        assert first.kind == Kind.WELCOME, first
        welcome: Welcome = read_json(first.payload, Welcome)
        if self.welcome is not None and welcome.resumed:
            self.link.resume(welcome.received)
        self.welcome = welcome
        self.link.peer_window = welcome.window
        self.carrier = Carrier(self.link, self.socket, is_strict=False, on_lost=self._on_lost)
        for got in rest:
            self.link.receive(encode(*got[:1], got[2], got[4], sequence=got[3], flags=got[1]), strict=False)
        return welcome

    def open(self, server: str, *, ear: Heard | None = None, **opening: Any) -> Heard:
        """A connection on the link; its body is for the test to send."""
        heard = ear or Heard()
        fields = {"server": server, "method": "POST", "path": "mcp"} | opening
        heard.stream = self.link.open(Opening(**fields), heard)
        return heard

    def call(self, server: str, body: bytes = b"", *, ear: Heard | None = None, **opening: Any) -> Heard:
        """A whole request."""
        heard = self.open(server, ear=ear, **opening)
        assert heard.stream is not None
        if body:
            heard.stream.send(body)
        heard.stream.end()
        return heard

    def say(self, *envelopes: bytes) -> None:
        """These bytes as one message, whatever they are."""
        self.socket.send(b"".join(envelopes))

    def word(self, kind: int) -> Envelope | None:
        """The first of that kind that came about the link itself."""
        return next((got for got in self.words if got.kind == kind), None)

    async def gone(self) -> tuple[int, str]:
        """Waits for the goodbye."""
        await until(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    def _on_open(self, stream: Stream, opening: Opening) -> None:
        heard = Heard()
        heard.stream = stream
        stream.ear = heard
        self.opened.append((stream, opening, heard))

    def _on_word(self, got: Envelope) -> None:
        self.words.append(got)
        if got.kind == Kind.PING and not self.is_silent:
            self.link.say(Kind.PONG, got.payload)

    def _on_closed(self, code: int, reason: str) -> None:
        self.closed = code, reason

    def _on_lost(self, code: int, reason: str) -> None:
        self.closed, self.carrier = (code, reason), None
        self.link.lose()


class Peers:
    """All that a test has dialled. `aclose` leaves none."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        # Long: a test, not a timer, says when they go.
        self._sockets = ClientSockets(Limits(linger_timeout_s=60.0, ping_interval_s=60.0))

    async def upgrade(self, door: str, token: str = "", extra: Headers | None = None) -> End:
        """A socket on which nothing was said. Raises Refused."""
        end = End()
        await self._carry(end, door, token, extra)
        return end

    async def dial(
        self, door: str, token: str = "", *, again: End | None = None, via: int | None = None, **hello: Any
    ) -> End:
        """One that is welcome. `again`: it comes back to go on. Raises Refused, ConnectionError."""
        end = again or End()
        await self._carry(end, door, token, None, via)
        if again is not None and again.welcome is not None:
            hello = {"link": again.welcome.link, "received": again.link.received} | hello
        await end.hello(**hello)
        return end

    async def agent(self, token: str, servers: str = "time", **more: Any) -> End:
        return await self.dial(AGENT, token, servers=servers.split(","), **more)

    async def client(self, token: str, **more: Any) -> End:
        return await self.dial(CLIENT, token, **more)

    async def refused(self, door: str, token: str = "", **hello: Any) -> tuple[int, str]:
        """The goodbye to a hello."""
        end = await self.upgrade(door, token)
        try:
            await end.hello(**hello)
        except ConnectionError as error:
            return int(error.args[0]), str(error.args[1])
        raise AssertionError("it was let in")

    async def _carry(
        self, end: End, door: str, token: str, extra: Headers | None, via: int | None = None
    ) -> None:
        origin = dataclasses.replace(self._origin, port=via) if via else self._origin
        headers = [*bearer(token), *(extra or [])]
        end.take(await self._sockets.open(origin, door, headers, subprotocol=SUBPROTOCOL))

    async def aclose(self) -> None:
        await self._sockets.aclose()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def peers_of(port: int, origin: Origin | None = None) -> AsyncIterator[Peers]:
    """Who dials that port."""
    peers = Peers(origin or Origin(host="127.0.0.1", port=port))
    try:
        yield peers
    finally:
        await peers.aclose()


class Talk:
    """A caller's WebSocket: what it hears, and how it ends."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.heard: list[bytes] = []
        self.closed: list[tuple[int, str]] = []
        socket.on_message = self.heard.append
        socket.on_closed = lambda code, reason: self.closed.append((code, reason))

    async def over(self) -> int:
        """Waits for its end; the code."""
        await until(lambda: self.closed)
        return self.closed[0][0]


@contextlib.asynccontextmanager
async def talks(port: int) -> AsyncIterator[Callable[[str, str], Coroutine[Any, Any, Talk]]]:
    """Opens them, by path and token."""
    sockets, origin = ClientSockets(), Origin(host="127.0.0.1", port=port)

    async def talk(path: str, token: str) -> Talk:
        return Talk(await sockets.open(origin, path, bearer(token), subprotocol="mcp"))

    try:
        yield talk
    finally:
        await sockets.aclose()
