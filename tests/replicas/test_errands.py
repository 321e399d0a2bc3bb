"""Requests that are passed on by a link: what comes of each, and that nothing of them is left."""

import asyncio
import logging
from typing import Any

import pytest

from mooring.http.limits import Limits
from mooring.http.websocket_client import ClientSockets
from mooring.replicas.errands import Outcome
from mooring.replicas.link_frames import (
    HEADS_KEPT,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    PIECE_BYTES,
    WINDOW_BYTES,
    Kind,
    parts,
)
from mooring.replicas.passing import DOUBTS
from mooring.wire.http import Exchange, Head, Request, Response
from tests.http_client import Held, Peer, echo, get, post, serving
from tests.replicas.linked import NAME, Desk, Other, Scripted, asked, linked
from tests.support import on_both_loops, until, within

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"
AT_ONCE = 300


@on_both_loops
async def test_answers_come_back_on_one_connection_whole() -> None:
    other = Other(echo)
    async with linked(other) as scene:
        peer = await scene.served.peer()
        for size in (0, 1, 1000, PIECE_BYTES - 11, PIECE_BYTES, MAX_BODY_BYTES):
            said = await asked(peer, b"x" * size)
            assert (said.status, said.body) == (200, b"POST /mcp  " + b"x" * size)
            assert said.headers["content-length"] == str(size + 11)
        assert (other.opened, scene.other.listener.connections) == (1, 1)
        assert scene.desk.passing.forwards == 6
        assert scene.desk.ended == []


@on_both_loops
async def test_many_at_once_share_it() -> None:
    other = Other(echo)
    async with linked(other) as scene:
        body = b"x" * (MAX_BODY_BYTES - 100)
        peers = [await scene.served.peer() for _ in range(AT_ONCE)]
        for number, peer in enumerate(peers):
            peer.send(post(b"%d " % number + body, "/mcp"))
        for number, peer in enumerate(peers):
            said = await peer.answer()
            if said.body != b"no link":  # so much waits to be sent that no more is taken
                assert said.body == b"POST /mcp  %d " % number + body
        assert scene.desk.unsent < AT_ONCE
        assert other.opened == 1
        assert (await asked(peers[0])).body == b"POST /mcp  {}"


@on_both_loops
async def test_answers_are_heard_while_the_other_does_not_listen() -> None:
    """Otherwise two that both wait for the other to read would wait for ever."""
    other = Scripted()
    async with linked(other) as scene:
        first = await scene.served.peer()
        first.send(post(b"{}", "/mcp"))
        [(_, number, _, _)] = await other.hears(Kind.CALL)
        other.socket.hold()
        link = scene.desk.forwarding._links.usable(scene.desk.other.address)
        assert link is not None
        for peer in [await scene.served.peer() for _ in range(AT_ONCE)]:
            peer.send(post(b"x" * MAX_BODY_BYTES, "/mcp"))
        await until(lambda: not link._socket.writable)
        other.batch.put(Kind.ANSWER, number, parts(200, len(HEAD)), HEAD + b"{}")
        assert (await first.answer()).body == b"{}"
        assert not link._socket.writable
        other.socket.abort()


@on_both_loops
async def test_whoever_sends_much_elsewhere_does_not_end_a_link() -> None:
    """Calls on links are small, each of its own client; and small ones are always read."""
    app = Held()
    async with linked(Other(app)) as scene:
        first = await scene.served.peer()
        first.send(post(b"{}", "/mcp"))
        await app.count(1)
        budget = scene.other.listener._house.budget
        budget.taken_bytes += budget.limit_bytes
        peers = [await scene.served.peer() for _ in range(8)]
        for peer in peers:
            peer.send(post(b"x" * MAX_BODY_BYTES, "/mcp"))
        desk = scene.desk
        await until(lambda: desk.ended or len(app.exchanges) + desk.unsent == 1 + len(peers))
        assert (desk.ended, desk.unsent < len(peers)) == ([], True)
        for exchange in app.exchanges:
            exchange.respond(Response(200))
        assert (await first.answer()).status == 200
        budget.taken_bytes -= budget.limit_bytes
        assert budget.taken_bytes == 0
        assert desk.ended == []


async def test_a_slow_call_lets_nobody_wait() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        slow, quick = await scene.served.peer(), await scene.served.peer()
        slow.send(post(b"slow", "/mcp"))
        await app.count(1)
        quick.send(post(b"quick", "/mcp"))
        echo((await app.count(2))[1])
        assert (await quick.answer()).body == b"POST /mcp  quick"
        echo(app.exchanges[0])
        assert (await slow.answer()).body == b"POST /mcp  slow"


async def test_a_slow_call_may_be_the_first_on_its_link() -> None:
    """It may take longer than a WebSocket waits for its first message."""
    now = 0.0
    app = Held()
    async with linked(Other(app), lambda: now) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"slow", "/mcp"))
        await app.count(1)
        sockets = scene.desk.forwarding._links._sockets
        assert sockets is not None
        [socket] = sockets._house.upgraded
        await until(lambda: socket._messages)
        socket.sweep(now)
        now += Limits().keep_alive_timeout_s
        socket.sweep(now)
        echo(app.exchanges[0])
        assert (await peer.answer()).body == b"POST /mcp  slow"


async def test_only_so_many_are_under_way_on_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.replicas.link_asking.MAX_UNDER_WAY", 2)
    app = Held()
    async with linked(Other(app)) as scene:
        peers = [await scene.served.peer() for _ in range(3)]
        for count, peer in enumerate(peers[:2], start=1):
            peer.send(post(b"{}", "/mcp"))
            await app.count(count)
        assert (await asked(peers[2])).body == b"no link"
        for exchange, peer in zip(tuple(app.exchanges), peers, strict=False):
            echo(exchange)
            await peer.answer()
        assert await asked_of(app, peers[2]) == b"again"


@on_both_loops
async def test_a_stream_is_passed_back_as_it_comes() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        [there] = await app.count(1)
        there.start(200, [(b"content-type", b"text/event-stream")])
        head = await peer.head()
        assert head.headers["content-type"] == "text/event-stream"
        pieces = peer.chunks()
        for said in (b"one", b"two"):
            there.write(said)
            assert await anext(pieces) == said
        there.end()
        assert [piece async for piece in pieces] == []
        assert (await asked_of(app, peer)) == b"again"
        assert scene.desk.ended == []


async def asked_of(app: Held, peer: Peer) -> bytes:
    """One more call on the same connection."""
    count = len(app.exchanges) + 1
    peer.send(post(b"{}", "/mcp"))
    (await app.count(count))[-1].respond(Response(200, b"again"))
    return (await peer.answer()).body


@on_both_loops
async def test_whoever_does_not_read_holds_up_nobody_but_himself() -> None:
    whole = bytes(range(256)) * (256 * 128)  # 8 MiB: far more than sockets hold
    app = Held()
    async with linked(Other(app)) as scene:
        lazy, other = await scene.served.peer(), await scene.served.peer()
        lazy.send(post(b"{}", "/mcp"))
        [there] = await app.count(1)
        there.respond(Response(200, whole))
        assert await asked_of(app, other) == b"again"
        answer = scene.other.listener  # what is left of the long answer waits where it was made
        assert answer.unsent_bytes < WINDOW_BYTES + PIECE_BYTES
        assert (await lazy.answer()).body == whole


@on_both_loops
async def test_whoever_makes_a_stream_hears_when_its_client_has_caught_up() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        [there] = await app.count(1)
        caught_up = asyncio.Event()
        there.on_writable = caught_up.set
        there.start(200, [])
        wrote = 0

        def keeps_up() -> bool:
            return there.writable

        while keeps_up():
            there.write(b"x" * 10_000)
            wrote += 1
            await asyncio.sleep(0)
            assert wrote < 10_000, "it has no bound"
        reading = asyncio.ensure_future(peer.answer())
        await caught_up.wait()
        assert keeps_up()
        there.end()
        assert (await reading).body == b"x" * 10_000 * wrote


REPLIES = {
    "another has it": 421,
    "it does not know us": 401,
    "it does not let us in": 403,
}


@on_both_loops
@pytest.mark.parametrize("what", REPLIES)
@pytest.mark.parametrize("is_whole", [True, False])
async def test_what_the_other_did_not_do(what: str, is_whole: bool) -> None:
    def app(exchange: Exchange) -> None:
        if is_whole:
            exchange.respond(Response(REPLIES[what]))
        else:
            exchange.start(REPLIES[what], [])

    other = Other(app)
    async with linked(other) as scene:
        assert (await asked(await scene.served.peer())).body == Outcome.NOT_DONE.name.encode()
        assert scene.desk.ended == [Outcome.NOT_DONE]
        assert scene.desk.passing.forwards == 0
        await until(lambda: not other.link.under_way)


@on_both_loops
@pytest.mark.parametrize("how", ["cut", "closed", "call cut", "garbage", "not ours to hear"])
async def test_what_may_have_been_done(how: str) -> None:
    other = Scripted()
    async with linked(other) as scene:
        peers = [await scene.served.peer() for _ in range(3)]
        for peer in peers:
            peer.send(post(b"{}", "/mcp"))
        calls = await other.hears(Kind.CALL, 3)
        if how == "cut":
            other.socket.abort()
        elif how == "closed":
            other.socket.close(1001, "")
        elif how == "call cut":
            for call in calls:
                other.batch.put(Kind.CUT, call[1])
        elif how == "garbage":
            other.socket.send(b"garbage")
        else:
            other.batch.put(Kind.CALL, 1)
        for peer in peers:
            assert (await peer.answer()).body == Outcome.LOST.name.encode()
        assert scene.desk.ended == [Outcome.LOST] * 3
        assert scene.desk.passing.forwards == 0


OUT_OF_ORDER = {
    "an end without a beginning": [Kind.END],
    "a piece without a beginning": [Kind.PIECE],
    "two beginnings": [Kind.BEGIN, Kind.BEGIN],
    "all of it after a beginning": [Kind.BEGIN, Kind.ANSWER],
}


@pytest.mark.parametrize("what", OUT_OF_ORDER)
async def test_whoever_answers_out_of_order_is_waited_for_no_longer(what: str) -> None:
    other = Scripted()
    async with linked(other) as scene:
        asking, waiting = await scene.served.peer(), await scene.served.peer()
        for count, peer in enumerate((asking, waiting), start=1):
            peer.send(post(b"{}", "/mcp"))
            await other.hears(Kind.CALL, count)
        for kind in OUT_OF_ORDER[what]:
            value = 0 if kind == Kind.END else parts(200, len(HEAD))
            other.batch.put(kind, 1, value, b"" if kind == Kind.END else HEAD)
        assert (await waiting.answer()).body == Outcome.LOST.name.encode()
        if OUT_OF_ORDER[what][0] == Kind.BEGIN:
            assert await asking.reader.read() == HEAD + b"\r\n"  # and the connection is cut
        else:
            assert (await asking.answer()).body == Outcome.LOST.name.encode()
        await until(lambda: other.closed == [1008])


@on_both_loops
@pytest.mark.parametrize("how", ["cut", "call cut"])
async def test_a_stream_that_is_cut_is_visibly_so(how: str) -> None:
    other = Scripted()
    async with linked(other) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        [(_, number, _, _)] = await other.hears(Kind.CALL)
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"
        other.batch.put(Kind.BEGIN, number, parts(200, len(head)), head)
        other.batch.put(Kind.PIECE, number, 0, b"3\r\none\r\n")
        await peer.head()
        pieces = peer.chunks()
        assert await anext(pieces) == b"one"
        other.socket.abort() if how == "cut" else other.batch.put(Kind.CUT, number)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await anext(pieces)
        assert scene.desk.ended == []


@on_both_loops
async def test_goodbye_says_what_was_looked_at() -> None:
    other = Scripted()
    async with linked(other) as scene:
        peers = [await scene.served.peer() for _ in range(3)]
        for count, peer in enumerate(peers, start=1):
            peer.send(post(b"{}", "/mcp"))
            await other.hears(Kind.CALL, count)
        other.batch.put(Kind.GOODBYE, 1)
        for peer in peers[1:]:
            assert (await peer.answer()).body == Outcome.NOT_DONE.name.encode()
        assert (await asked(peers[1])).body == b"no link"
        other.batch.put(Kind.ANSWER, 1, parts(200, len(HEAD)), HEAD + b"{}")
        assert (await peers[0].answer()).body == b"{}"
        assert scene.desk.ended == [Outcome.NOT_DONE] * 2


@on_both_loops
async def test_one_that_leaves_answers_what_it_has_taken_and_no_more() -> None:
    app = Held()
    other = Other(app)
    async with linked(other) as scene:
        first, second = await scene.served.peer(), await scene.served.peer()
        first.send(post(b"1", "/mcp"))
        await app.count(1)
        other.link.leave()
        other.link.leave()
        second.send(post(b"2", "/mcp"))  # sent before, or after goodbye was heard
        said = (await second.answer()).body
        assert said in (b"no link", Outcome.NOT_DONE.name.encode())
        echo(app.exchanges[0])
        assert (await first.answer()).body == b"POST /mcp  1"
        await until(lambda: not other.links)
        assert len(app.exchanges) == 1
        await until(lambda: scene.other.listener.connections == 0)


async def test_one_that_leaves_and_has_nothing_closes_at_once() -> None:
    other = Other(echo)
    async with linked(other):
        other.link.leave()
        await until(lambda: not other.links)


@on_both_loops
async def test_the_other_hears_that_a_client_has_gone() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        peer.reset()
        await app.count_gone(1)
        assert scene.desk.ended == []
        assert scene.desk.passing.forwards == 0


@on_both_loops
async def test_the_other_hears_that_we_have_gone() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        await scene.desk.forwarding.aclose()
        await app.count_gone(1)
        assert (await peer.answer()).body == Outcome.LOST.name.encode()


async def test_one_whose_lease_has_run_out_is_waited_for_no_longer() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        scene.desk.membership.on_dead("somebody else")
        scene.desk.membership.on_dead(NAME)
        assert (await peer.answer()).body == Outcome.LOST.name.encode()
        await app.count_gone(1)


async def test_one_that_goes_on_without_redis_is_waited_for() -> None:
    app = Held()
    other = Other(app)
    other.lives = True
    async with linked(other) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        scene.desk.membership.on_dead(NAME)
        await until(lambda: not scene.desk.passing._asking)
        echo(app.exchanges[0])
        assert (await peer.answer()).body == b"POST /mcp  {}"


@pytest.mark.parametrize("comes_back", [False, True])
async def test_one_whose_name_redis_has_lost_is_given_the_time_to_come_back(comes_back: bool) -> None:
    """Under another name, with the calls that it has."""
    app = Held()
    other = Other(app)
    async with linked(other) as scene:
        passing = scene.desk.passing
        scene.desk.is_known = False
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        for _ in range(DOUBTS - 1):
            scene.desk.membership.on_dead(NAME)
            await until(lambda: not passing._asking)
        assert scene.desk.ended == []
        other.lives = comes_back
        scene.desk.membership.on_dead(NAME)
        await until(lambda: not passing._asking)
        if comes_back:
            echo(app.exchanges[0])
        assert (await peer.answer()).body == (b"POST /mcp  {}" if comes_back else Outcome.LOST.name.encode())
        scene.desk.membership.on_dead(NAME)
        assert not passing._doubted


async def test_closing_ends_what_is_under_way() -> None:
    app = Held()
    async with linked(Other(app)) as scene:
        peer = await scene.served.peer()
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        await scene.desk.passing.aclose()
        assert scene.desk.passing.errands == 0
        await app.count_gone(1)


@on_both_loops
async def test_that_another_does_not_believe_us_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """And once more if it has believed us meanwhile."""
    statuses = iter([401, 403, 401, 200, 401, 403])

    def told() -> list[str]:
        untrusted = [one for one in caplog.records if getattr(one, "event", "") == "replica_untrusted"]
        return [f"{one.levelname} {one.replica}" for one in untrusted]  # type: ignore[attr-defined]

    caplog.clear()
    async with linked(Other(lambda exchange: exchange.respond(Response(next(statuses))))) as scene:
        peer = await scene.served.peer()
        for _ in range(3):
            await asked(peer)
        assert told() == [f"WARNING {NAME}"]
        for _ in range(3):
            await asked(peer)
        assert told() == [f"WARNING {NAME}"] * 2


# What goes ahead of a call


async def test_a_head_is_told_once_and_again_when_its_seal_is_another() -> None:
    other = Scripted()
    async with linked(other) as scene:
        peer = await scene.served.peer()
        for count, (principal, later_s) in enumerate(
            [("alice", 0), ("alice", 0), ("bob", 0), ("bob", 31), ("bob", 0)], start=1
        ):
            scene.desk.principal = principal
            scene.desk.wall.now_s += later_s
            peer.send(post(b"{}", "/mcp", "Authorization: secret\r\nConnection: keep-alive\r\nX: 1\r\n"))
            number = (await other.hears(Kind.CALL, count))[-1][1]
            other.batch.put(Kind.ANSWER, number, parts(200, len(HEAD)), HEAD + b"{}")
            await peer.answer()
        heads = [head[3].decode().lower() for head in other.of(Kind.HEAD)]
        assert [call[2] for call in other.of(Kind.CALL)] == [1, 1, 2, 3, 3]
        sealed_for = [head.partition("mooring-replica: ")[2].split()[2] for head in heads]
        assert sealed_for == ["alice", "bob", "bob"]
        assert all("authorization" not in head and "connection" not in head for head in heads)
        assert all("\r\nx: 1\r\n" in head for head in heads)


async def test_traces_cross_replicas() -> None:
    """Each call has its own: by a link, and by a connection of its own."""
    traces = [f"00-{n:032x}-{n:016x}-01" for n in (1, 2, 3)]
    heard: list[bytes | None] = []

    def note(exchange: Exchange) -> None:
        heard.extend(map(exchange.request.header, (b"traceparent", b"tracestate")))
        exchange.respond(Response(200))

    async with linked(other := Other(note)) as scene:
        peer = await scene.served.peer()
        for trace in traces[:2]:
            await asked(peer, extra=f"traceparent: {trace}\r\nTracestate: a=1\r\n")
        assert scene.desk.passing.forwards == 2
        fields = [(b"traceparent", traces[2].encode()), (b"tracestate", b"a=1")]
        (
            await scene.desk.forwarding.send(Request(Head("GET", "/mcp", headers=fields)), scene.desk.other)
        ).close()
        assert other.opened == 1
    assert heard == [text for trace in traces for text in (trace.encode(), b"a=1")]


async def test_of_heads_the_last_are_known_to_both() -> None:
    app = Held()
    other = Other(app)
    async with linked(other) as scene:
        peer = await scene.served.peer()
        assert await asked_of(app, peer) == b"again"
        link = scene.desk.forwarding._links.usable(scene.desk.other.address)
        assert link is not None
        for number in range(HEADS_KEPT):
            link.put_head(b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % number)
        assert await asked_of(app, peer) == b"again"
        assert len(other.link._heads) == HEADS_KEPT


async def test_heads_are_told_for_as_long_as_a_link_lives() -> None:
    """A call names its head by four bytes: tens of thousands of clients need more of them in two months."""
    app = Held()
    other = Other(app)
    async with linked(other) as scene:
        link = scene.desk.forwarding._links.usable(scene.desk.other.address)
        assert link is not None
        link._heads = 2**32 - 2
        peer = await scene.served.peer()
        for number in range(3):
            scene.desk.principal = f"alice{number}"
            assert await asked_of(app, peer) == b"again"
            assert app.exchanges[-1].request.principal == scene.desk.principal
        assert link._heads == 2**32 + 1


# Without a link


async def test_what_a_link_does_not_carry() -> None:
    async with linked(Other(echo)) as scene:
        peer = await scene.served.peer()
        assert (await asked(peer, b"x" * (MAX_BODY_BYTES + 1))).body == b"no link"
        long_head = f"X: {'x' * MAX_HEAD_BYTES}\r\n"
        assert (await asked(peer, extra=long_head)).body == b"no link"
        old = await scene.served.peer()
        old.send(b"POST /mcp HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        assert (await old.answer()).body == b"no link"
        peer.send(get("/mcp").replace(b"GET", b"HEAD"))
        assert (await peer.answer(to_head=True)).status == 500
        assert scene.desk.unsent == 4


async def test_where_there_are_no_links_they_are_asked_for_seldom() -> None:
    now = 0.0
    asked_for = 0

    def app(exchange: Exchange) -> None:
        nonlocal asked_for
        asked_for += 1
        exchange.respond(Response(404))

    async with within(30), serving(app) as other:
        desk = Desk(other.port, lambda: now)
        links = desk.forwarding._links
        for times in (1, 2):
            for _ in range(5):
                assert links.usable(desk.other.address) is None
                await until(lambda: not links._opening)
            assert asked_for == times
            now += 11
        await desk.aclose()


@on_both_loops
async def test_nothing_is_said_behind_our_own_goodbye() -> None:
    """It would not be sent, and be told to be lost."""
    other = Scripted()
    async with linked(other) as scene:
        link = scene.desk.forwarding._links.usable(scene.desk.other.address)
        assert link is not None
        other.socket.hold()
        link._socket.close(1011, "a message could not be taken")
        assert (await asked(await scene.served.peer())).body == b"no link"
        other.socket.go_on()


async def test_one_that_broke_is_opened_again() -> None:
    other = Other(echo)
    async with linked(other) as scene:
        now = 1e9
        scene.desk.forwarding._links._clock = lambda: now
        other.link._socket.abort()
        await until(lambda: not scene.desk.forwarding._links._links)
        await scene.desk.open()
        assert (await asked(await scene.served.peer())).body == b"POST /mcp  {}"
        assert other.opened == 2


@pytest.mark.parametrize(
    ("fault", "told"),
    [(OSError(9, "Bad file descriptor"), []), (RuntimeError("a bug of ours"), ["mooring.replicas"])],
    ids=["cut", "bug"],
)
async def test_one_that_could_not_be_opened_is_opened_later(
    fault: Exception, told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was cut while it was set up, say. What nobody thought of is told."""
    tried = asyncio.Event()

    async def fail(*_: Any, **__: Any) -> None:
        tried.set()
        raise fault

    async with within(30), serving(Other(echo)) as there:
        desk = Desk(there.port)
        links = desk.forwarding._links
        with monkeypatch.context() as broken:
            broken.setattr(ClientSockets, "open", fail)
            assert links.usable(desk.other.address) is None
            await tried.wait()
            await until(lambda: not links._opening)
        assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == told
        links._clock = lambda: float("inf")
        await desk.open()
        await desk.aclose()


async def test_closing_while_one_is_opened() -> None:
    async with within(30):
        accepted = asyncio.Event()
        server = await asyncio.start_server(lambda reader, writer: accepted.set(), "127.0.0.1", 0)
        async with server:
            desk = Desk(server.sockets[0].getsockname()[1])
            assert desk.forwarding._links.usable(desk.other.address) is None
            await accepted.wait()
            await desk.aclose()
            assert not desk.forwarding._links._opening


async def test_links_that_are_closed_open_no_more() -> None:
    async with linked(Other(echo)) as scene:
        links = scene.desk.forwarding._links
        await links.aclose()
        links._clock = lambda: float("inf")
        assert links.usable(scene.desk.other.address) is None
        assert not links._opening


async def test_there_is_no_link_to_an_address_that_nobody_can_read(caplog: pytest.LogCaptureFixture) -> None:
    async with linked(Other(echo)) as scene:
        links = scene.desk.forwarding._links
        for address in ("", "replica:4670", "ftp://replica", "http://[::1"):
            assert links.usable(address) is None
        await until(lambda: not links._opening)
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []
