"""The end of a link that serves calls: what it believes, what it refuses, and that others go on meanwhile."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest

from mooring.http.origin import parse_url
from mooring.http.websocket_client import ClientSockets
from mooring.replicas.forwarding import NEIGHBOURS_PATH
from mooring.replicas.link_answering import Unread
from mooring.replicas.link_frames import (
    HEADS_KEPT,
    MAX_BODY_BYTES,
    MAX_MESSAGE_BYTES,
    PIECE_BYTES,
    SUBPROTOCOL,
    WINDOW_BYTES,
    Batch,
    Frame,
    Kind,
    parts_of,
    read_frames,
)
from mooring.replicas.seal import Seal
from mooring.wire.http import Exchange, Response
from mooring.wire.websocket import WebSocket
from tests.http_client import Held, echo, serving
from tests.replicas.linked import KEY, Other, Wall
from tests.support import on_both_loops, until, within


class Asking:
    """Somebody with a key who says whatever a test wants."""

    socket: WebSocket

    def __init__(self, key: bytes = KEY) -> None:
        self.seal = Seal(key, Wall())
        self.heard: list[Frame] = []
        self.closed: list[tuple[int, str]] = []
        self.messages: list[bytes] = []
        self.batch = Batch(self.messages.append, lambda flush: None)

    def head(self, number: int, fields: str = "", *, principal: str = "local") -> None:
        name, value = self.seal.header("me", principal)
        seal = f"{name.decode()}: {value.decode()}\r\n"
        text = f"POST /mcp HTTP/1.1\r\nHost: x\r\n{fields or seal}Content-Length: 0\r\n\r\n"
        self.batch.put(Kind.HEAD, number, 0, text.encode())

    def say(self) -> None:
        self.batch.flush()
        for message in self.messages:
            self.socket.send(message)
        self.messages.clear()

    async def answers(self, count: int = 1) -> list[tuple[int, int, bytes]]:
        """Number, status and body of each."""
        await until(lambda: sum(frame[0] == Kind.ANSWER for frame in self.heard) >= count)
        found = [frame for frame in self.heard if frame[0] == Kind.ANSWER]
        return [
            (number, parts_of(value)[0], payload[parts_of(value)[1] :]) for _, number, value, payload in found
        ]


@asynccontextmanager
async def asking(other: Other, key: bytes = KEY) -> AsyncIterator[Asking]:
    me = Asking(key)
    async with within(30), serving(other) as served:
        sockets = ClientSockets()
        try:
            origin, _ = parse_url(f"http://127.0.0.1:{served.port}")
            me.socket = await sockets.open(
                origin, NEIGHBOURS_PATH, [me.seal.header("me", "")], subprotocol=SUBPROTOCOL
            )
            me.socket.expect_binary(MAX_MESSAGE_BYTES)
            me.socket.on_message = lambda message: me.heard.extend(read_frames(message))
            me.socket.on_closed = lambda code, reason: me.closed.append((code, reason))
            yield me
        finally:
            await sockets.aclose()


def tell_principal(exchange: Exchange) -> None:
    exchange.respond(Response(200, quote(exchange.request.principal).encode()))


@on_both_loops
async def test_calls_in_one_message_are_each_answered_for_whom_they_are() -> None:
    async with asking(Other(tell_principal)) as me:
        for number, principal in enumerate(["alice", "bob"], start=1):
            me.head(number, principal=principal)
            me.batch.put(Kind.CALL, number, number, b"{}")
        me.batch.put(Kind.CALL, 3, 1, b"{}")
        me.say()
        assert sorted(await me.answers(3)) == [(1, 200, b"alice"), (2, 200, b"bob"), (3, 200, b"alice")]


@on_both_loops
async def test_a_head_without_a_good_seal_is_believed_nothing() -> None:
    other = Other(echo)
    async with asking(other) as me:
        me.head(1, "X: 1\r\n")
        me.head(2, "mooring-replica: me 33 local 00\r\n")
        me.head(3)
        for number in (1, 2, 3):
            me.batch.put(Kind.CALL, number, number, b"{}")
        me.say()
        assert [status for _, status, _ in sorted(await me.answers(3))] == [401, 401, 200]
        other.seal._wall.now_s += 90  # type: ignore[attr-defined]
        me.batch.put(Kind.CALL, 4, 3, b"{}")
        me.say()
        assert (await me.answers(4))[-1][1] == 401
        other.seal._wall.now_s -= 90  # type: ignore[attr-defined]
        other.seal.use(b"another")
        me.batch.put(Kind.CALL, 5, 3, b"{}")
        me.say()
        assert (await me.answers(5))[-1][1] == 401


async def test_a_head_that_nobody_may_send_is_refused_to_its_calls_alone() -> None:
    async with asking(Other(echo)) as me:
        me.batch.put(Kind.HEAD, 1, 0, b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n")  # no Host
        me.batch.put(Kind.HEAD, 2, 0, b"POST /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        me.head(3)
        for number in (1, 2, 3, 4):
            me.batch.put(Kind.CALL, number, min(number, 3), b"{}")
        me.say()
        assert [status for _, status, _ in sorted(await me.answers(4))] == [400, 414, 200, 200]


async def test_one_that_cannot_be_answered_lets_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def app(exchange: Exchange) -> None:
        if exchange.request.body == b"bad":
            raise RuntimeError("a bug")
        echo(exchange)

    async with asking(Other(app)) as me:
        me.head(1)
        me.batch.put(Kind.CALL, 1, 1, b"bad")
        me.batch.put(Kind.CALL, 2, 1, b"good")
        me.say()
        assert [status for _, status, _ in sorted(await me.answers(2))] == [500, 200]
    assert "a bug" in caplog.text


def _unknown_head(me: Asking) -> None:
    me.batch.put(Kind.CALL, 2, 7, b"{}")


def _same_number(me: Asking) -> None:
    me.batch.put(Kind.CALL, 1, 1, b"{}")


def _long_body(me: Asking) -> None:
    me.batch.put(Kind.CALL, 2, 1, b"x" * (MAX_BODY_BYTES + 1))


def _not_its_word(me: Asking) -> None:
    me.batch.put(Kind.ANSWER, 1)


def _unfinished_head(me: Asking) -> None:
    me.batch.put(Kind.HEAD, 2, 0, b"POST /mcp HTTP/1.1\r\n")


def _two_heads(me: Asking) -> None:
    me.batch.put(Kind.HEAD, 2, 0, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2)


def _scattered_heads(me: Asking) -> None:
    for number in range(HEADS_KEPT + 1):
        me.head(number * (HEADS_KEPT + 1) + 2)


def _cut_short(me: Asking) -> None:
    me.messages.append(b"\x03")


FAULTS = [
    _unknown_head,
    _same_number,
    _long_body,
    _not_its_word,
    _unfinished_head,
    _two_heads,
    _scattered_heads,
    _cut_short,
]


@on_both_loops
@pytest.mark.parametrize("fault", FAULTS)
async def test_whoever_breaks_the_rules_is_let_go_with_all_that_he_asked(
    fault: Callable[[Asking], None],
) -> None:
    app = Held()
    other = Other(app)
    async with asking(other) as me:
        me.head(1)
        me.batch.put(Kind.CALL, 1, 1, b"{}")
        me.say()
        await app.count(1)
        fault(me)
        me.say()
        await until(lambda: me.closed)
        assert me.closed[0][0] == 1008
        await app.count_gone(1)
        await until(lambda: not other.links)


async def test_too_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.replicas.link_answering.MAX_UNDER_WAY", 2)
    app = Held()
    async with asking(Other(app)) as me:
        me.head(1)
        for number in (1, 2, 3):
            me.batch.put(Kind.CALL, number, 1, b"{}")
        me.say()
        await until(lambda: me.closed)
        assert me.closed[0] == (1008, "too many calls at once")
        await app.count_gone(2)


async def test_a_message_that_is_too_long() -> None:
    async with asking(Other(echo)) as me:
        me.socket.send(bytes(MAX_MESSAGE_BYTES + 1))
        await until(lambda: me.closed)
        assert me.closed[0][0] == 1009


async def test_no_more_of_an_answer_comes_than_there_is_room_for() -> None:
    app = Held()
    async with asking(Other(app)) as me:
        me.head(1)
        me.batch.put(Kind.CALL, 1, 1, b"{}")
        me.say()
        whole = b"x" * (WINDOW_BYTES * 2 + 5)
        (await app.count(1))[0].respond(Response(200, whole))

        def got() -> int:
            return sum(len(frame[3]) for frame in me.heard if frame[0] == Kind.PIECE)

        await until(lambda: got() == WINDOW_BYTES)
        me.batch.put(Kind.CREDIT, 1, 10)
        me.say()
        await until(lambda: got() == WINDOW_BYTES + 10)
        assert me.heard[-1][0] == Kind.PIECE
        me.batch.put(Kind.CREDIT, 1, 2 * WINDOW_BYTES)
        me.say()
        await until(lambda: me.heard[-1][0] == Kind.END)
        assert got() == len(whole)
        assert all(len(frame[3]) <= PIECE_BYTES for frame in me.heard if frame[0] == Kind.PIECE)


@on_both_loops
async def test_what_is_kept_for_those_who_do_not_read_has_a_bound() -> None:
    """It is on no connection of which a listener knows how much waits there."""
    whole = bytes(1024 * 1024)
    app = Held()
    other = Other(app)
    other.unread = Unread(3 * len(whole))
    async with asking(other) as me:
        me.head(1)
        for number in range(1, 5):
            me.batch.put(Kind.CALL, number, 1, b"{}")
        me.say()
        longest, *others = await app.count(4)
        longest.start(200, [])
        longest.write(whole + b"!")
        for exchange in others:
            exchange.respond(Response(200, whole))
        await app.count_gone(1)
        await until(lambda: [frame[1] for frame in me.heard if frame[0] == Kind.CUT])
        for number in range(1, 5):
            me.batch.put(Kind.CREDIT, number, len(whole))
        me.say()
        await until(lambda: [frame[1] for frame in me.heard if frame[0] == Kind.END] == [2, 3, 4])
        assert [frame[1] for frame in me.heard if frame[0] == Kind.CUT] == [1]
        assert (other.unread._bytes, other.unread._answers, other.link.under_way) == (0, set(), {})


async def test_what_is_said_of_a_call_that_is_over_means_nothing() -> None:
    async with asking(Other(echo)) as me:
        me.head(1)
        me.batch.put(Kind.CALL, 1, 1, b"{}")
        me.say()
        await me.answers(1)
        me.batch.put(Kind.CANCEL, 1)
        me.batch.put(Kind.CREDIT, 1, 10)
        me.batch.put(Kind.CALL, 2, 1, b"{}")
        me.say()
        assert [number for number, _, _ in await me.answers(2)] == [1, 2]
