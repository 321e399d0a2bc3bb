"""WebSockets that we ask for: agreed, refused in words, cut, and closed without a trace."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import AnswerLost, BadAnswer, NoAnswer, NotSent
from mooring.http.client_limits import ClientLimits
from mooring.http.client_opening import open_connection
from mooring.http.handshake import accepted
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.http.websocket_client import MAX_REFUSAL_BYTES, ClientSockets, Refused
from mooring.wire.http import App, Exchange, Response
from mooring.wire.websocket import LOST
from tests.support import free_port, until


@asynccontextmanager
async def served(app: App) -> AsyncIterator[Origin]:
    listener = Listener(app)
    [(host, port)] = await listener.listen_tcp("127.0.0.1", 0)
    try:
        yield Origin(host=host, port=port)
    finally:
        await listener.aclose()


@asynccontextmanager
async def asking(limits: Limits | None = None) -> AsyncIterator[ClientSockets]:
    sockets = ClientSockets(limits)
    try:
        yield sockets
    finally:
        await sockets.aclose()
        assert sockets.count == 0


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes], *, hang: bool = False) -> AsyncIterator[Origin]:
    """A server that says whatever it likes to the key that it was given."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [key] = [line[19:] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key: ")]
        writer.write(answer(key))
        if hang:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Origin(host="127.0.0.1", port=server.sockets[0].getsockname()[1])


def echo(*, binary: bool) -> App:
    def app(exchange: Exchange) -> None:
        socket = exchange.upgrade("chat")
        assert socket is not None
        if binary:
            socket.expect_binary(1 << 20)
        socket.on_message = socket.send

    return app


async def test_one_that_ended_before_anybody_could_say_who_is_to_hear_of_it() -> None:
    """It is told all the same: whoever waits for it would wait for ever."""
    closed: list[int] = []
    async with served(echo(binary=False)) as origin, asking() as sockets:
        connection = await open_connection(origin, 5.0, lambda: ClientConnection(ClientLimits()))
        connection.abort()
        await connection.wait_closed()  # the loop has told the one before
        socket = sockets._adopt(connection)
        socket.on_closed = lambda code, reason: closed.append(code)
        await until(lambda: closed)
    assert closed == [LOST]


@pytest.mark.parametrize("binary", [False, True])
async def test_messages_pass_either_way(binary: bool) -> None:
    heard: list[bytes] = []
    messages = [b"", b"a", "ü".encode(), b"x" * 70_000, *([b"\xff\x00"] if binary else [])]
    async with served(echo(binary=binary)) as origin, asking() as sockets:
        socket = await sockets.open(origin, "/", [], subprotocol="chat")
        if binary:
            socket.expect_binary(1 << 20)
        socket.on_message = heard.append
        for message in messages:
            socket.send(message)
        await until(lambda: len(heard) == len(messages))
    assert heard == messages


async def test_what_was_said_right_behind_the_yes_is_heard() -> None:
    def answer(key: bytes) -> bytes:
        head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        return head + b"Sec-WebSocket-Accept: " + accepted(key) + b"\r\n\r\n\x81\x05hello"

    heard: list[bytes] = []
    async with answering(answer, hang=True) as origin, asking() as sockets:
        socket = await sockets.open(origin, "/", [])
        socket.on_message = heard.append
        await until(lambda: heard)
    assert heard == [b"hello"]


async def test_goodbye_from_either_side() -> None:
    closed: list[tuple[int, str]] = []
    there: list[tuple[int, str]] = []

    def app(exchange: Exchange) -> None:
        socket = exchange.upgrade("chat")
        assert socket is not None
        socket.on_closed = lambda code, reason: there.append((code, reason))
        socket.on_message = lambda message: socket.close(4000, message.decode())

    async with served(app) as origin, asking() as sockets:
        first = await sockets.open(origin, "/", [])
        first.on_closed = lambda code, reason: closed.append((code, reason))
        first.send(b"go")
        await until(lambda: closed and there)
        second = await sockets.open(origin, "/", [])
        second.close(1000, "enough")
        await until(lambda: len(there) == 2)
    assert closed == [(4000, "go")] and there == [(4000, "go"), (1000, "enough")]


async def test_who_is_cut_is_told() -> None:
    closed: list[tuple[int, str]] = []
    async with asking() as sockets:
        async with served(echo(binary=False)) as origin:
            socket = await sockets.open(origin, "/", [])
            socket.on_closed = lambda code, reason: closed.append((code, reason))
        await until(lambda: closed)
    assert closed == [(LOST, "")]


async def test_who_refuses_is_heard_out_but_not_for_ever() -> None:
    def app(exchange: Exchange) -> None:
        long = exchange.request.path == "/long"
        body = b"x" * (10 * MAX_REFUSAL_BYTES) if long else b"not you"
        exchange.respond(Response(403, body, [(b"retry-after", b"7")]))

    async with served(app) as origin, asking() as sockets:
        with pytest.raises(Refused) as caught:
            await sockets.open(origin, "/", [])
        assert (caught.value.status, caught.value.body) == (403, b"not you")
        assert caught.value.header(b"retry-after") == b"7" and caught.value.header(b"none") is None
        with pytest.raises(Refused) as caught:
            await sockets.open(origin, "/long", [])
        assert MAX_REFUSAL_BYTES <= len(caught.value.body) < 10 * MAX_REFUSAL_BYTES


BAD = {
    "no proof": b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "a subprotocol nobody offered": b"Sec-WebSocket-Protocol: other\r\n",
    "an extension nobody offered": b"Sec-WebSocket-Extensions: permessage-deflate\r\n",
}


@pytest.mark.parametrize("wrong", BAD)
async def test_a_yes_to_something_else_is_none(wrong: str) -> None:
    def answer(key: bytes) -> bytes:
        if wrong == "no proof":
            return BAD[wrong]
        head = b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        return head + b"Sec-WebSocket-Accept: " + accepted(key) + b"\r\n" + BAD[wrong] + b"\r\n"

    async with answering(answer, hang=True) as origin, asking() as sockets:
        with pytest.raises(BadAnswer):
            await sockets.open(origin, "/", [], subprotocol="chat")


async def test_who_does_not_answer_or_is_not_there() -> None:
    async with asking(Limits(header_timeout_s=0.2)) as sockets:
        async with answering(lambda key: b"", hang=True) as origin:
            with pytest.raises(NoAnswer) as caught:
                await sockets.open(origin, "/", [])
            assert caught.value.code == "timeout"
        async with answering(lambda key: b"") as origin:
            with pytest.raises(AnswerLost):
                await sockets.open(origin, "/", [])
        with pytest.raises(NotSent):
            await sockets.open(Origin(host="127.0.0.1", port=free_port()), "/", [])


async def test_a_peer_that_gives_no_sign_of_life_is_given_up() -> None:
    def answer(key: bytes) -> bytes:
        head = b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        return head + b"Sec-WebSocket-Accept: " + accepted(key) + b"\r\n\r\n\x81\x02hi"

    closed: list[tuple[int, str]] = []
    heard: list[bytes] = []
    limits = Limits(ping_interval_s=0.1, ping_timeout_s=0.1)
    async with answering(answer, hang=True) as origin, asking(limits) as sockets:
        socket = await sockets.open(origin, "/", [])
        socket.on_message = heard.append
        socket.on_closed = lambda code, reason: closed.append((code, reason))
        await until(lambda: closed)
    assert closed == [(LOST, "")] and heard == [b"hi"]
