"""How clients and an agent speak through a relay, in as few instructions as that takes.

| way | a call is |
|---|---|
| `plain` | a text message; between the plain relay and its agent in an envelope of JSON |
| `stream` | a message on a WebSocket stream that each client keeps open: what compares with `plain` |
| `call` | a stream of its own, a request and its answer: what `mooring connect --client` makes of HTTP |

On a link of ours each end says what it got with the next message, and gives room back when half of it is
used: as the product's own ends do.
"""

import asyncio
import os
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from bench.relay_peer.sockets import BINARY, TEXT, Socket, opened
from mooring.relay.envelope import Kind, encode, read_json, split, write_json, write_number
from mooring.relay.link import ACKNOWLEDGE_BESIDE
from mooring.relay.words import WINDOW_BYTES, Head, Hello, Opening, Welcome

__all__ = [
    "AGENT",
    "CALL",
    "PATIENCE_S",
    "PLAIN",
    "SERVER",
    "STREAM",
    "WAYS",
    "Caller",
    "LinkEnd",
    "answering",
    "calling",
    "linked",
]

PLAIN, STREAM, CALL = "plain", "stream", "call"
WAYS = (PLAIN, STREAM, CALL)
AGENT, SERVER = "bench", "echo"
"""The name of the agent's token, and of what it offers."""
PATIENCE_S = 30.0

_HEAD = Struct(">IBBIQ")
_ACK = Struct(">IBBIQQ")
_OPEN, _DATA, _END = int(Kind.OPEN), int(Kind.DATA), int(Kind.END)
_JSON = [("content-type", "application/json")]
_YES, _FINE = write_json(Head(101)), write_json(Head(200, _JSON))
_UPGRADE = write_json(Opening(f"{AGENT}/{SERVER}", "GET", "ws", websocket=True))
_POST = write_json(Opening(f"{AGENT}/{SERVER}", "POST", "mcp", headers=_JSON))

Answered = Callable[[bytes], None]


class Caller(Protocol):
    """A client that asks one thing after another."""

    socket: Socket

    def call(self, payload: bytes) -> None: ...


class LinkEnd:
    """What either end of a link keeps."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self._sent = 0
        self._received = self._told = 0
        self._used: dict[int, int] = {}
        self._parts: list[bytes] = []
        self.on_word: Callable[[int, bytes], None] = lambda kind, payload: None
        """Told what is said about the link itself."""
        socket.on_message = self._read
        socket.on_read = self.flush

    def put(self, kind: int, connection: int, payload: bytes = b"") -> None:
        """To be sent by `flush`."""
        self._sent += 1
        self._parts.append(_HEAD.pack(len(payload), kind, 0, connection, self._sent))
        self._parts.append(payload)

    def flush(self) -> None:
        """All of it as one message, with what came meanwhile."""
        if self._parts:
            if self._received - self._told >= ACKNOWLEDGE_BESIDE:
                self._told = self._received
                self._parts.append(_ACK.pack(8, Kind.ACK, 0, 0, 0, self._received))
            self.socket.send(BINARY, b"".join(self._parts))
            self._parts.clear()

    def used(self, connection: int, count: int) -> None:
        """So much of the room there: give it back in time."""
        used = self._used.get(connection, 0) + count
        if used >= WINDOW_BYTES // 2:
            self.put(Kind.CREDIT, connection, write_number(used))
            used = 0
        self._used[connection] = used

    def hear(self, kind: int, connection: int, payload: bytes) -> None:
        """What came, but for words about the link."""

    def _read(self, message: bytes) -> None:
        at, end = 0, len(message)
        while at < end:
            length, kind, _, connection, sequence = _HEAD.unpack_from(message, at)
            start = at + _HEAD.size
            at = start + length
            if sequence:
                self._received = sequence
                self.hear(kind, connection, message[start:at])
            elif kind == Kind.PING:
                self.socket.send(BINARY, encode(Kind.PONG, payload=message[start:at]))
            else:
                self.on_word(kind, message[start:at])


async def linked(socket: Socket, servers: tuple[str, ...] = ()) -> Welcome:
    """Greet the relay; returns when it has answered. Raises ConnectionError if it does not."""
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    # Whatever follows before somebody listens is a word about the link, and may be lost.
    socket.on_message = lambda message: None if heard.done() else heard.set_result(message)
    hello = Hello(instance=os.urandom(8).hex(), servers=servers)
    socket.send(BINARY, encode(Kind.HELLO, payload=write_json(hello)))
    async with asyncio.timeout(PATIENCE_S):
        both: list[asyncio.Future[Any]] = [heard, socket.lost]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not heard.done():
        raise ConnectionError("the relay says no")
    [got] = split(heard.result())
    welcome: Welcome = read_json(got.payload, Welcome)
    return welcome


class PlainCaller:
    """At the plain relay."""

    def __init__(self, socket: Socket, on_answer: Answered) -> None:
        self.socket = socket
        socket.on_message = on_answer

    def call(self, payload: bytes) -> None:
        self.socket.send(TEXT, payload)


class StreamCaller(LinkEnd):
    """On one stream for all its calls. The first answer is the server's yes."""

    def __init__(self, socket: Socket, on_answer: Answered) -> None:
        super().__init__(socket)
        self._on_answer = on_answer
        self.put(_OPEN, 1, _UPGRADE)

    def call(self, payload: bytes) -> None:
        self.put(_DATA, 1, payload)
        self.flush()

    def hear(self, kind: int, connection: int, payload: bytes) -> None:
        if kind == _DATA:
            self.used(connection, len(payload))
            self._on_answer(payload)
        elif kind == Kind.RESET:
            raise ConnectionError(payload.decode())


class CallCaller(LinkEnd):
    """With a stream for each call."""

    def __init__(self, socket: Socket, on_answer: Answered) -> None:
        super().__init__(socket)
        self._on_answer = on_answer
        self._id = 0
        self._answer = b""

    def call(self, payload: bytes) -> None:
        self._id += 1
        self.put(_OPEN, self._id, _POST)
        self.put(_DATA, self._id, payload)
        self.put(_END, self._id)
        self.flush()

    def hear(self, kind: int, connection: int, payload: bytes) -> None:
        if kind == _DATA:
            self._answer = payload
        elif kind == _END:
            self._on_answer(self._answer)
        elif kind == Kind.RESET:
            raise ConnectionError(payload.decode())


class Echo(LinkEnd):
    """An agent that answers by itself, with what it was asked: on streams, and calls."""

    def __init__(self, socket: Socket) -> None:
        super().__init__(socket)
        self._asked: dict[int, bytes] = {}

    def hear(self, kind: int, connection: int, payload: bytes) -> None:
        if kind == _DATA:
            if connection in self._asked:
                self._asked[connection] += payload
            else:
                self.used(connection, len(payload))
                self.put(_DATA, connection, payload)
        elif kind == _OPEN:
            if b'"websocket":true' in payload:
                self.put(Kind.HEAD, connection, _YES)
            else:
                self._asked[connection] = b""
        elif kind == _END and connection in self._asked:
            self.put(Kind.HEAD, connection, _FINE)
            self.put(_DATA, connection, self._asked.pop(connection))
            self.put(_END, connection)


def _echo_plainly(socket: Socket) -> None:
    """The agent of the plain relay: the envelope says whose it is, and goes back as it came."""
    answers: list[bytes] = []

    def flush() -> None:
        for answer in answers:
            socket.send(TEXT, answer)
        answers.clear()

    socket.on_message = answers.append
    socket.on_read = flush


_CALLERS: dict[str, Callable[[Socket, Answered], Caller]] = {
    PLAIN: PlainCaller,
    STREAM: StreamCaller,
    CALL: CallCaller,
}


async def calling(way: str, port: int, token: str, on_answer: Answered) -> Caller:
    """A client that is connected. Raises ConnectionError."""
    if way == PLAIN:
        return PlainCaller(await opened(port, "/client"), on_answer)
    socket = await opened(port, "/v1/client", token)
    await linked(socket)
    return _CALLERS[way](socket, on_answer)


async def answering(way: str, port: int, token: str) -> Socket:
    """An agent that is connected, and answers. Raises ConnectionError."""
    if way == PLAIN:
        socket = await opened(port, "/server")
        _echo_plainly(socket)
    else:
        socket = await opened(port, "/v1/server", token)
        await linked(socket, (SERVER,))
        Echo(socket)
    return socket
