"""Peers that send slowly, read slowly, or not at all: each costs only itself."""

import asyncio

import pytest
from msgspec.structs import replace

from mooring.http.limits import Limits
from mooring.wire.http import Exchange, Response
from tests.http_client import Held, Served, echo, get, post, serving
from tests.support import on_both_loops, until, within

QUICK = Limits(
    header_timeout_s=0.3,
    read_idle_timeout_s=0.15,
    keep_alive_timeout_s=0.2,
    write_stall_timeout_s=0.3,
    linger_timeout_s=0.1,
)


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "part",
    [
        b"G",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        post(b"12345")[:-1],
        CHUNKED,
        CHUNKED + b"5",
        CHUNKED + b"5;a=",
        CHUNKED + b"5\r\nhell",
        CHUNKED + b"5\r\nhello\r\n0\r\n",
        CHUNKED + b"0\r\nX: y\r\n",
    ],
)
@on_both_loops
async def test_a_peer_that_stops_sending_gets_408(part: bytes) -> None:
    async with serving(echo, limits=QUICK) as served:
        peer = await served.peer()
        peer.send(part)
        answer = await peer.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert await peer.at_end()


@on_both_loops
async def test_slow_loris_is_ended_and_others_are_served() -> None:
    async with serving(echo, limits=replace(QUICK, keep_alive_timeout_s=60)) as served:
        loris = [await served.peer() for _ in range(20)]
        other = await served.peer()
        answers = [asyncio.ensure_future(peer.answer()) for peer in loris]
        for peer in loris:
            peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
        while not all(answer.done() for answer in answers):
            for peer in loris:
                peer.send(b"X: y\r\n")
            assert (await other.get()).status == 200
            await asyncio.sleep(0.02)
        assert {answer.result().status for answer in answers} == {408}


@pytest.mark.parametrize("trickle", [b"0", b"1;a=", b"0\r\nX: "])
@on_both_loops
async def test_a_chunked_body_that_trickles_without_content_is_ended(trickle: bytes) -> None:
    """Sizes of zeros, extensions and trailers without end: nothing that a limit of bodies would count."""
    limits = Limits(max_header_bytes=1000, max_target_bytes=100, read_idle_timeout_s=60, linger_timeout_s=0.1)
    async with serving(echo, limits=limits) as served:
        peer, other = await served.peer(), await served.peer()
        peer.send(CHUNKED + trickle)
        answer = asyncio.ensure_future(peer.answer())
        for _ in range(2000):
            peer.send(b"0")
            assert (await other.get()).status == 200
            if answer.done():
                break
        assert (await answer).status == 400


def _received(served: Served) -> bytes:
    """The part of a body that has arrived."""
    return b"".join(b"".join(connection._reader._body) for connection in served.all_connections)


@on_both_loops
async def test_a_slow_body_that_goes_on_is_waited_for() -> None:
    clock = [0.0]
    limits = Limits(header_timeout_s=2, read_idle_timeout_s=2)
    async with serving(echo, limits=limits, clock=lambda: clock[0]) as served:
        peer = await served.peer()
        peer.send(post(b"")[:-4].replace(b"Length: 0", b"Length: 10") + b"\r\n\r\n")
        for number in range(1, 10):
            # Far longer than the bound for a head, each pause shorter than that between bytes.
            peer.send(b"x")
            await until(lambda number=number: len(_received(served)) == number)  # type: ignore[misc]
            clock[0] += 1.9
            served.connection.sweep(clock[0])
        peer.send(b"x")
        assert (await peer.answer()).status == 200


@on_both_loops
async def test_idle_connections_are_closed_without_a_word() -> None:
    async with serving(echo, limits=QUICK) as served:
        fresh, used = await served.peer(), await served.peer()
        assert (await used.get()).status == 200
        assert await fresh.at_end()
        assert await used.at_end()


@on_both_loops
async def test_work_is_not_idleness() -> None:
    held = Held()
    async with serving(held, limits=QUICK) as served:
        streaming, waiting, idle = [await served.peer() for _ in range(3)]
        streaming.send(get())
        [stream] = await held.count(1)
        stream.start(200, [])
        waiting.send(get())
        await held.count(2)
        assert await idle.at_end()
        await (await served.peer()).at_end()
        stream.end()
        held.exchanges[1].respond(Response(200))
        assert (await streaming.answer()).status == 200
        assert (await waiting.answer()).status == 200


@on_both_loops
async def test_a_stalled_reader_is_cut_and_costs_only_itself() -> None:
    held = Held()

    def app(exchange: Exchange) -> None:
        if exchange.request.path == "/stream":
            held(exchange)
        else:
            echo(exchange)

    async with serving(app, limits=QUICK) as served:
        stalled, other = await served.peer(limit=1024), await served.peer()
        stalled.send(get("/stream"))
        [exchange] = await held.count(1)
        exchange.start(200, [])
        while exchange.writable:
            exchange.write(b"x" * 65_536)
        while not held.gone:
            # Being written to is not reading.
            exchange.write(b"y")
            assert (await other.get()).status == 200
        assert exchange.disconnected
        assert exchange.writable is False
        assert (await other.get()).status == 200


@on_both_loops
async def test_a_peer_that_does_not_read_its_last_answer_is_cut() -> None:
    def app(exchange: Exchange) -> None:
        exchange.respond(Response(200, b"x" * 20_000_000))

    async with serving(app, limits=QUICK) as served:
        peer = await served.peer(limit=1024)
        peer.send(get(extra="Connection: close\r\n"))
        await peer.head()
        await served.listener.wait_drained()


@on_both_loops
async def test_a_peer_that_asks_without_reading_is_not_asked_for_more() -> None:
    asked = 0

    def app(exchange: Exchange) -> None:
        nonlocal asked
        asked += 1
        exchange.respond(Response(200, b"x" * 1_000_000))

    async with serving(app) as served:
        peer = await served.peer(limit=1024)
        peer.send(get() * 200)
        await until(lambda: served.all_connections and served.connection._waiting)
        assert asked < 50
        for _ in range(200):
            assert len((await peer.answer()).body) == 1_000_000
        assert asked == 200


@on_both_loops
async def test_endless_data_behind_a_last_request_is_not_read() -> None:
    held = Held()
    async with serving(held, limits=Limits(linger_bytes=100_000)) as served:
        peer = await served.peer()
        peer.send(get(extra="Connection: close\r\n") + b"x" * 20_000_000)
        [exchange] = await held.count(1)
        await until(lambda: served.connection._discarded_bytes > 100_000)
        exchange.respond(Response(200, b"done"))
        await served.listener.wait_drained()


SOME = (
    get("/1"),
    post(b"hello", "/2"),
    CHUNKED.replace(b"/", b"/3", 1) + b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    get("/4"),
)
"""Requests of every framing, on one connection."""


def _complete(sent: int) -> int:
    """How many of them are whole in so many bytes."""
    return sum(sent >= sum(map(len, SOME[: number + 1])) for number in range(len(SOME)))


@on_both_loops
async def test_a_peer_that_ends_its_side_at_any_point_gets_what_it_asked_for_and_no_more() -> None:
    data = b"".join(SOME)
    async with serving(echo) as served, within(60):
        for cut in range(len(data) + 1):
            peer = await served.peer()
            peer.send(data[:cut])
            peer.writer.write_eof()
            statuses = [(await peer.answer()).status for _ in range(_complete(cut))]
            assert statuses == [200] * len(statuses)
            assert await peer.at_end(), cut
        await served.listener.wait_drained()


@on_both_loops
async def test_a_peer_that_resets_at_any_point_is_forgotten() -> None:
    data = b"".join(SOME)
    held = Held()
    async with serving(held) as served, within(60):
        seen = 0
        for cut in range(len(data) + 1):
            peer = await served.peer()
            peer.send(data[:cut])
            seen += _complete(cut)
            await until(lambda: served.listener.connections == 1)
            await held.at_least(seen)
            peer.reset()
            await served.listener.wait_drained()
        assert len(held.exchanges) == len(held.gone) == seen
        assert served.listener._house.budget.taken_bytes == 0


@on_both_loops
async def test_answers_to_a_peer_that_has_reset_go_nowhere() -> None:
    held = Held()
    async with serving(held, limits=QUICK) as served:
        peer = await served.peer()
        peer.send(post(b"x" * 50))
        [exchange] = await held.count(1)
        exchange.start(200, [])
        peer.reset()
        await held.count_gone(1)
        exchange.write(b"x")
        exchange.end()


def sized(exchange: Exchange) -> None:
    """Answers with as many bytes as the path says."""
    exchange.respond(Response(200, b"x" * int(exchange.request.path[1:])))


@on_both_loops
async def test_of_those_that_do_not_read_the_one_that_holds_most_is_cut_when_it_is_too_much() -> None:
    """Sockets take some megabytes of an answer; the rest is with us."""
    async with serving(sized, limits=Limits(max_unsent_bytes=50_000_000)) as served, within():
        less, more = await served.peer(limit=1024), await served.peer(limit=1024)
        less.send(get("/30000000"))
        await less.head()
        more.send(get("/40000000"))
        await until(lambda: served.listener.connections == 1)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await more.answer()
        assert len(await less.reader.readexactly(30_000_000)) == 30_000_000


@on_both_loops
async def test_answers_that_wait_for_their_turn_count_too() -> None:
    held = Held()
    async with serving(held, limits=Limits(max_unsent_bytes=1_000_000)) as served, within():
        peer = await served.peer()
        peer.send(get("/1") + get("/2"))
        _, second = await held.count(2)
        second.respond(Response(200, b"x" * 2_000_000))
        await served.listener.wait_drained()


@on_both_loops
async def test_requests_without_end_that_wait_for_their_turn_are_refused_when_there_is_no_room() -> None:
    held = Held()

    def app(exchange: Exchange) -> None:
        (held if exchange.request.path == "/0" else echo)(exchange)

    limits = Limits(max_pipelined=1, max_unfinished_bytes=100_000)
    async with serving(app, limits=limits) as served, within():
        peer = await served.peer()
        peer.send(b"".join(get(f"/{n}") for n in range(2000)))
        [first] = await held.count(1)
        await until(lambda: served.connection._input_over)
        assert served.listener._house.budget.taken_bytes == 0, "not one of them is kept"
        first.respond(Response(200))
        assert [(await peer.answer()).status for _ in range(2)] == [200, 503]
        assert await peer.at_end()
        await served.listener.wait_drained()


@on_both_loops
async def test_bodies_of_requests_that_wait_for_their_turn_count_as_arriving() -> None:
    held = Held()
    limits = Limits(max_pipelined=1, max_body_bytes=100_000, max_unfinished_bytes=150_000)
    async with serving(held, limits=limits) as served, within():
        first, second = await served.peer(), await served.peer()
        first.send(get() + post(b"x" * 100_000))
        await until(lambda: served.all_connections and any(c._waiting for c in served.all_connections))
        second.send(post(b"x" * 100_000))
        assert (await second.answer()).status == 503
        [exchange] = await held.count(1)
        exchange.respond(Response(200))
        _, waiting = await held.count(2)
        assert len(waiting.request.body) == 100_000
        third = await served.peer()
        third.send(post(b"x" * 100_000))
        await held.count(3)
        first.send(post(b"x" * 100_000))
        await until(lambda: any(c._waiting for c in served.all_connections))
        await served.listener.aclose()
        assert served.listener._house.budget.taken_bytes == 0
