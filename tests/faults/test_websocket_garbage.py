"""WebSocket peers that break the rules, send too much, too slowly, or do not read: each costs only itself."""

import asyncio
import ssl

import pytest
import trustme

from mooring.http.limits import Limits
from mooring.http.reader import FREE_BODY_BYTES
from mooring.http.websocket import WebSocketConnection
from mooring.wire.websocket import WebSocket
from tests.http_client import Peer, Served, get, serving
from tests.integration.test_http_websocket import Sockets
from tests.support import on_both_loops, until, within
from tests.websocket_client import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Frame,
    frame,
    goodbye,
    opened,
    read_frame,
    upgrade,
)

SMALL = Limits(max_body_bytes=1000)
QUICK = Limits(
    read_idle_timeout_s=0.15,
    keep_alive_timeout_s=0.2,
    write_stall_timeout_s=0.3,
    linger_timeout_s=0.1,
    ping_interval_s=0.1,
    ping_timeout_s=0.1,
)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(frame(TEXT, b"x", mask=None), 1002, id="unmasked"),
        pytest.param(frame(TEXT, b"x", reserved=0x40), 1002, id="reserved-1"),
        pytest.param(frame(TEXT, b"x", reserved=0x10), 1002, id="reserved-3"),
        pytest.param(frame(3, b"x"), 1002, id="unknown-opcode"),
        pytest.param(frame(11, b"x"), 1002, id="unknown-control"),
        pytest.param(frame(CONT, b"x"), 1002, id="continues-nothing"),
        pytest.param(frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"), 1002, id="new-before-the-end"),
        pytest.param(frame(PING, b"x", fin=False), 1002, id="control-in-pieces"),
        pytest.param(frame(PING, b"x" * 126), 1002, id="long-control"),
        pytest.param(frame(CLOSE, b"\x03"), 1002, id="half-a-code"),
        pytest.param(goodbye(999), 1002, id="no-such-code"),
        pytest.param(goodbye(1006), 1002, id="code-nobody-may-send"),
        pytest.param(frame(CLOSE, b"\x03\xe8\xff"), 1007, id="reason-not-utf-8"),
        pytest.param(frame(TEXT, b"\xff"), 1007, id="not-utf-8"),
        pytest.param(frame(TEXT, b"\xed\xa0\x80"), 1007, id="surrogate"),
        pytest.param(frame(TEXT, b"\xc3", fin=False) + frame(CONT, b"x"), 1007, id="not-utf-8-in-pieces"),
        pytest.param(frame(BINARY, b"{}"), 1003, id="binary"),
        pytest.param(frame(BINARY, b"{", fin=False) + frame(CONT, b"}"), 1003, id="binary-in-pieces"),
        pytest.param(frame(TEXT, b"x" * 1001), 1009, id="too-long"),
        pytest.param(
            frame(TEXT, b"x" * 9, fin=False) + frame(CONT, b"x" * 992), 1009, id="too-long-in-pieces"
        ),
        pytest.param(b"\x81\xff" + b"\xff" * 12, 1009, id="longest"),
    ],
)
@on_both_loops
async def test_who_breaks_the_rules_is_told_and_heard_no_more(sent: bytes, code: int) -> None:
    app = Sockets()
    async with serving(app, limits=SMALL) as served, within():
        other = await served.peer()
        await opened(other)
        peer = await served.peer()
        await opened(peer)
        peer.send(frame(TEXT, b"good") + sent + frame(TEXT, b"never heard"))
        told = [await read_frame(peer.reader)]
        # (What was good before, in the same read, is heard; whether it can still be answered is open.)
        while told[-1].opcode != CLOSE:
            told.append(await read_frame(peer.reader))
        assert told[-1].code == code
        assert await peer.at_end()
        assert app.heard == [b"good"] and app.closed[0][0] == code
        other.send(frame(TEXT, b"others go on"))
        assert await read_frame(other.reader) == (TEXT, b"others go on")
        assert served.listener._house.budget.taken_bytes == 0


@on_both_loops
async def test_a_message_of_exactly_the_limit_in_one_frame_and_in_many() -> None:
    app = Sockets()
    async with serving(app, limits=SMALL) as served, within():
        peer = await served.peer()
        await opened(peer)
        peer.send(frame(TEXT, b"x" * 1000))
        peer.send(frame(TEXT, b"", fin=False) + frame(CONT, b"y", fin=False) * 1000 + frame(CONT))
        assert await read_frame(peer.reader) == (TEXT, b"x" * 1000)
        assert await read_frame(peer.reader) == (TEXT, b"y" * 1000)


@on_both_loops
async def test_who_sends_on_after_the_end_gets_the_goodbye_and_is_cut() -> None:
    limits = Limits(max_body_bytes=1000, linger_bytes=100_000)
    async with serving(Sockets(), limits=limits) as served, within():
        peer = await served.peer()
        await opened(peer)
        peer.send(frame(TEXT, b"x" * 50_000))
        assert (await read_frame(peer.reader)).code == 1009
        with pytest.raises(ConnectionError):
            while True:
                peer.send(b"z" * 10_000)
                await peer.writer.drain()
        await until(lambda: served.listener.connections == 0)


@on_both_loops
async def test_unfinished_messages_of_all_connections_share_one_bound() -> None:
    limits = Limits(max_body_bytes=1_000_000, max_unfinished_bytes=1_000_000)
    app = Sockets()
    async with serving(app, limits=limits) as served, within():
        budget = served.listener._house.budget
        peers = [await served.peer() for _ in range(3)]
        for peer in peers:
            await opened(peer)
        # In pieces, and in the middle of a frame.
        peers[0].send(frame(TEXT, b"x" * 600_000, fin=False))
        await until(lambda: budget.taken_bytes == 600_000)
        whole = frame(TEXT, b"y" * 600_000)
        peers[1].send(whole[:-1])
        assert (await read_frame(peers[1].reader)).code == 1013
        await until(lambda: budget.taken_bytes == 600_000)
        small = b"z" * FREE_BODY_BYTES
        peers[2].send(frame(TEXT, small))
        assert await read_frame(peers[2].reader) == (TEXT, small)
        peers[0].send(frame(CONT, b"x"))
        assert len((await read_frame(peers[0].reader)).data) == 600_001
        await until(lambda: budget.taken_bytes == 0)
        peers[0].send(whole[:-1])
        await until(lambda: budget.taken_bytes > 500_000)
        peers[0].reset()
        await until(lambda: budget.taken_bytes == 0)


@on_both_loops
async def test_a_message_that_stops_arriving_is_given_up() -> None:
    for part in (b"\x81", frame(TEXT, b"12345")[:-1], frame(TEXT, b"1", fin=False)):
        async with serving(Sockets(), limits=QUICK) as served, within():
            peer = await served.peer()
            await opened(peer)
            peer.send(part)
            assert (await read_frame(peer.reader)).code == 1008
            assert await peer.at_end()


@on_both_loops
async def test_who_never_says_anything_is_sent_away() -> None:
    async with serving(Sockets(), limits=QUICK) as served, within():
        peer = await served.peer()
        await opened(peer)
        assert (await _after_pings(peer)).code == 1008
        # It does not answer the goodbye either.
        assert await peer.at_end()


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("how", ["reads our goodbye", "reads nothing", "answers, and does not go"])
@on_both_loops
async def test_who_does_not_do_its_part_of_the_end_is_cut(is_tls: bool, how: str) -> None:
    """Nothing else would end it for an hour: neither a write that stalls, nor the goodbyes of TLS."""
    app, limits = Sockets(), Limits(linger_timeout_s=0.1, write_stall_timeout_s=3600.0)
    authority, trust = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(trust)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    async with serving(app, limits=limits, tls=server if is_tls else None) as served, within():
        peer = await served.peer(tls=trust if is_tls else None)
        await opened(peer)
        await until(lambda: app.open)
        [socket] = app.open
        if how == "reads nothing":
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            while socket.writable:
                socket.send(b"x" * 65_536)
        socket.close(1000, "")
        if how != "reads nothing":
            assert (await read_frame(peer.reader)).opcode == CLOSE
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        if how == "answers, and does not go":
            peer.send(goodbye(1000))
        await until(lambda: served.listener.connections == 0)


async def _after_pings(peer: Peer) -> Frame:
    while (told := await read_frame(peer.reader)).opcode == PING:
        peer.send(frame(PONG, told.data))
    return told


@on_both_loops
async def test_a_silent_peer_is_asked_for_a_sign_of_life_and_kept_while_it_answers() -> None:
    app = Sockets()
    async with serving(app, limits=QUICK) as served, within():
        peer = await served.peer()
        await opened(peer)
        peer.send(frame(TEXT, b"hello"))
        assert await read_frame(peer.reader) == (TEXT, b"hello")
        for _ in range(5):  # far longer than an idle HTTP connection would be kept
            assert await read_frame(peer.reader) == (PING, b"")
            peer.send(frame(PONG))
        assert app.closed == []
        # From now on it is as if the network had gone.
        await until(lambda: app.closed == [(1006, "")])
        await until(lambda: served.listener.connections == 0)


@on_both_loops
async def test_who_does_not_read_is_cut_and_costs_only_itself() -> None:
    app = Sockets()
    async with serving(app, limits=QUICK) as served, within():
        slow = await served.peer(limit=1000)
        await opened(slow)
        await until(lambda: app.open)
        [socket] = app.open
        slow.send(frame(TEXT, b"hello"))
        await until(lambda: app.heard)
        await _fill(socket)
        while app.closed == []:
            other = await served.peer()
            other.send(get("/other"))
            assert (await other.answer()).body == b"/other"
            await other.aclose()
        assert app.closed == [(1006, "")]


async def _fill(socket: WebSocket) -> None:
    """Send until the kernel takes no more, and then some."""
    while socket.writable:
        socket.send(b"f" * 100_000)
        await asyncio.sleep(0)
    for _ in range(10):
        socket.send(b"f" * 100_000)


@on_both_loops
async def test_of_those_that_do_not_read_the_one_for_which_most_waits_is_cut() -> None:
    app = Sockets(echoes=False)
    limits = Limits(max_unsent_bytes=2_000_000)
    async with serving(app, limits=limits) as served, within():
        for _ in range(2):
            await opened(await served.peer(limit=1000))
        little, much = app.open
        await _fill(little)
        assert app.closed == []
        for _ in range(3):
            await _fill(much)
        await until(lambda: app.closed == [(1006, "")])
        await until(lambda: served.listener.connections == 1)
        little.close(1000, "still there")
        assert served.listener.websockets == 1


@on_both_loops
async def test_pings_without_end_of_a_peer_that_does_not_read_are_left_unread() -> None:
    app = Sockets()
    async with serving(app) as served, within():
        peer = await served.peer(limit=1000)
        await opened(peer)
        peer.send(frame(TEXT, b"hello"))
        await until(lambda: app.heard)
        flood = frame(PING, b"p" * 125) * 1000

        async def send() -> None:
            while True:
                peer.send(flood)
                await peer.writer.drain()

        sending = asyncio.ensure_future(send())
        connection = _only(served)
        await until(lambda: connection._is_paused)
        most = 0
        for _ in range(50):
            await asyncio.sleep(0)
            most = max(most, connection.unsent_bytes)
        assert most < 1_000_000
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _only(served: Served) -> WebSocketConnection:
    [connection] = served.listener._house.upgraded
    return connection


@on_both_loops
async def test_tiny_frames_without_end_let_others_be_served() -> None:
    app = Sockets(echoes=False)
    async with serving(app) as served, within():
        peer, other = await served.peer(), await served.peer()
        peer.send(
            upgrade() + frame(TEXT, b"", fin=False) + frame(CONT, b"", fin=False) * 50_000 + frame(CONT)
        )
        while not app.heard:
            other.send(get("/other"))
            assert (await other.answer()).body == b"/other"
        assert app.heard == [b""]


@on_both_loops
async def test_connections_that_come_and_go_leave_nothing() -> None:
    """200 of them, that end in every way there is."""
    app = Sockets()
    async with serving(app) as served, within(60):
        for number in range(200):
            peer = await served.peer()
            if number % 5 == 0:
                peer.send(upgrade())
                peer.reset()
                continue
            await opened(peer)
            if number % 5 == 1:
                peer.reset()
            elif number % 5 == 2:
                peer.send(frame(TEXT, b"x" * 1000)[:500])
                peer.writer.write_eof()
            elif number % 5 == 3:
                peer.send(frame(TEXT, mask=None))
            else:
                peer.send(goodbye())
                assert (await read_frame(peer.reader)).code == 1000
            await peer.aclose()
        await until(lambda: served.listener.connections == 0)
        assert len(app.closed) == len(app.open) >= 160
        house = served.listener._house
        assert (house.budget.taken_bytes, house._slow) == (0, set())
