"""Connections that go from one listener to another, and peers that see nothing of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from mooring.http.exchange import HttpExchange
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.passing import AT_ONCE, Passage
from mooring.wire.http import Exchange, Response
from tests.http_client import Held, Served, echo, get, post, serving
from tests.support import on_both_loops, until, within


def old(exchange: Exchange) -> None:
    exchange.respond(Response(200, b"old " + exchange.request.path.encode() + exchange.request.body))


def new(exchange: Exchange) -> None:
    exchange.respond(Response(200, b"new " + exchange.request.path.encode() + exchange.request.body))


def put_back(exchange: Exchange) -> None:
    cast("HttpExchange", exchange).put_back()


class Two:
    """An old and a new listener; `part` is the moment at which the new one takes over."""

    def __init__(self, served: Served, heir: Listener) -> None:
        self.old, self.new = served, heir
        self.passed: list[bytes] = []
        self.passage = Passage(served.listener, self._take)

    def _take(self, descriptor: int, begun: bytes) -> None:
        self.passed.append(begun)
        self.new.adopt(descriptor, begun)

    def part(self) -> None:
        listener = self.old.listener
        listener.hold()
        for sock in listener.listening:
            self.new.listen_on(sock.dup())
        listener.part(put_back)
        self.passage.give_all()


@asynccontextmanager
async def two(app: object = old, heir: object = new, limits: Limits | None = None) -> AsyncIterator[Two]:
    async with within(), serving(app, limits=limits) as served:  # type: ignore[arg-type]
        listener = Listener(heir, limits=limits)  # type: ignore[arg-type]
        pair = Two(served, listener)
        try:
            yield pair
        finally:
            pair.passage.close()
            await listener.aclose()


@on_both_loops
async def test_an_idle_connection_goes_and_its_peer_sees_nothing() -> None:
    async with two() as pair:
        peers = [await pair.old.peer() for _ in range(3 * AT_ONCE)]
        for peer in peers[1:]:  # the first has not asked for anything so far
            assert (await peer.get("/a")).body == b"old /a"
        pair.part()
        for peer in peers:
            assert (await peer.get("/b")).body == b"new /b"
        assert pair.old.listener.connections == 0 and pair.new.connections == len(peers)
        late = await pair.old.peer()
        assert (await late.get("/c")).body == b"new /c", "nobody is refused"


@on_both_loops
async def test_what_is_under_way_is_answered_where_it_began() -> None:
    held = Held()
    async with two(held) as pair:
        peer = await pair.old.peer()
        peer.send(get("/a"))
        [exchange] = await held.count(1)
        pair.part()
        peer.send(get("/b"))  # behind it
        await until(lambda: pair.old.listener.unread_bytes)
        exchange.respond(Response(200, b"late"))
        assert (await peer.answer()).body == b"late"
        assert (await peer.answer()).body == b"new /b"
        assert pair.old.listener.connections == 0


@on_both_loops
async def test_requests_that_came_half_go_when_they_are_whole() -> None:
    async with two() as pair:
        head, body = await pair.old.peer(), await pair.old.peer()
        whole = post(b"x" * 100_000, "/big")
        head.send(whole[:20])
        body.send(whole[:70_000])
        await until(lambda: pair.old.listener.unread_bytes > 60_000)
        pair.part()
        await asyncio.sleep(0.1)
        assert pair.old.listener.connections == 2, "neither can go now"
        head.send(whole[20:])
        body.send(whole[70_000:])
        for peer in (head, body):
            assert (await peer.answer()).body == b"new /big" + b"x" * 100_000
            assert (await peer.get("/again")).body == b"new /again"


@on_both_loops
async def test_requests_of_one_read_stay_in_their_order() -> None:
    async with two(limits=Limits(max_pipelined=2)) as pair:
        peer = await pair.old.peer()
        await peer.get("/first")
        pair.old.listener.hold()
        peer.send(b"".join(get(f"/{n}") for n in range(40)) + post(b"b", "/40")[:-1])
        await until(lambda: pair.old.listener.unread_bytes)
        pair.part()
        peer.send(b"b")
        answers = [(await peer.answer()).body for _ in range(41)]
        assert answers == [b"new /%d" % n for n in range(40)] + [b"new /40b"]


@on_both_loops
async def test_one_request_goes_to_the_other_and_the_rest_stays() -> None:
    """As a new daemon does with what is for a session that the old one still has, in the middle of others."""
    held = Held()

    def some(exchange: Exchange) -> None:
        (put_back if exchange.request.path == "/away" else held)(exchange)

    async with two(some) as pair:
        peer, other = await pair.old.peer(), await pair.old.peer()
        peer.send(get("/stays") + get("/away") + get("/behind"))
        other.send(get("/away"))
        assert (await other.answer()).body == b"new /away"
        [exchange] = await held.count(1)
        assert pair.old.listener.connections == 1
        exchange.respond(Response(200, b"stayed"))
        assert [(await peer.answer()).body for _ in range(3)] == [b"stayed", b"new /away", b"new /behind"]


@on_both_loops
async def test_held_and_let_go_again_nothing_has_changed() -> None:
    async with two() as pair:
        listener = pair.old.listener
        early = await pair.old.peer()
        await early.get("/a")
        listener.hold()
        early.send(get("/b") + get("/c"))
        late = await pair.old.peer()
        late.send(get("/d"))
        await until(lambda: listener.unread_bytes)
        assert listener.connections == 1, "nobody is accepted"
        listener.go_on()
        assert [(await early.answer()).body for _ in range(2)] == [b"old /b", b"old /c"]
        assert (await late.answer()).body == b"old /d"
        assert (await early.get("/e")).body == b"old /e"


@on_both_loops
async def test_what_cannot_go_ends_here() -> None:
    async with two(echo) as pair:
        closing, malformed, half = [await pair.old.peer() for _ in range(3)]
        pair.old.listener.hold()
        closing.send(get("/a", "Connection: close\r\n"))
        malformed.send(b"nonsense\r\n\r\n")
        half.send(get("/h"))
        half.writer.write_eof()
        await until(lambda: pair.old.listener.unread_bytes > 150)
        pair.part()
        assert (await closing.answer()).body == b"new /a"
        assert await closing.at_end()
        assert (await malformed.answer()).status == 400
        assert await malformed.at_end()
        assert (await half.answer()).body == b"new /h"
        assert await half.at_end()
