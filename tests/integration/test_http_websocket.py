"""Connections that become WebSockets, over real sockets, on both loops."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from mooring.http.limits import Limits
from mooring.http.websocket import SLICE_BYTES
from mooring.wire.http import App, Exchange, Response
from mooring.wire.websocket import WebSocket
from tests.http_client import Held, get, post, serving
from tests.support import on_both_loops, until, within
from tests.websocket_client import CLOSE, CONT, PING, PONG, TEXT, frame, goodbye, opened, read_frame, upgrade


class Sockets:
    """An app that upgrades whoever asks, and remembers what it heard."""

    def __init__(self, *, echoes: bool = True) -> None:
        self.open: list[WebSocket] = []
        self.heard: list[bytes] = []
        self.closed: list[tuple[int, str]] = []
        self._echoes = echoes

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.path != "/":
            exchange.respond(Response(200, exchange.request.path.encode()))
            return
        socket = exchange.upgrade("chat")
        if socket is None:
            return
        self.open.append(socket)
        socket.on_closed = lambda code, reason: self.closed.append((code, reason))

        def on_message(message: bytes) -> None:
            self.heard.append(message)
            if self._echoes:
                socket.send(message)

        socket.on_message = on_message


@on_both_loops
async def test_messages_both_ways_and_a_proper_end() -> None:
    app = Sockets()
    async with serving(app) as served, within():
        peer = await served.peer()
        await opened(peer)
        for message in (b"", b"one", "zwei ✓".encode(), b"x" * 200, b"y" * 70_000):
            peer.send(frame(TEXT, message))
            assert await read_frame(peer.reader) == (TEXT, message)
        assert (served.listener.connections, served.listener.websockets) == (1, 1)
        peer.send(goodbye(1000, "done"))
        assert (await read_frame(peer.reader)).code == 1000
        assert await peer.at_end()
        assert app.closed == [(1000, "done")]
        await peer.aclose()
        await until(lambda: served.listener.connections == 0)
        assert served.listener._house.budget.taken_bytes == 0


@on_both_loops
async def test_what_comes_behind_the_request_is_not_lost() -> None:
    app = Sockets()
    messages = [b"%d" % number for number in range(100)] + [b"z" * 3 * SLICE_BYTES]
    async with serving(app) as served, within():
        peer = await served.peer()
        peer.send(upgrade() + b"".join(frame(TEXT, message) for message in messages))
        assert (await peer.head()).status == 101
        for message in messages:
            assert await read_frame(peer.reader) == (TEXT, message)


@on_both_loops
async def test_requests_before_it_are_answered_first() -> None:
    held, sockets = Held(), Sockets()

    def app(exchange: Exchange) -> None:
        (held if exchange.request.path == "/held" else sockets)(exchange)

    async with serving(app) as served, within():
        peer = await served.peer()
        peer.send(get("/held") + get("/held") + upgrade() + frame(TEXT, b"first"))
        first, second = await held.count(2)
        second.respond(Response(200, b"second"))
        assert not sockets.open
        first.respond(Response(200, b"first"))
        assert (await peer.answer()).body == b"first"
        assert (await peer.answer()).body == b"second"
        assert (await peer.head()).status == 101
        assert await read_frame(peer.reader) == (TEXT, b"first")


@on_both_loops
async def test_a_refused_upgrade_is_a_request_like_any_other() -> None:
    held = Held()

    def app(exchange: Exchange) -> None:
        (held if exchange.request.path == "/later" else Sockets())(exchange)

    async with serving(app) as served, within():
        peer = await served.peer()
        peer.send(upgrade("/a") + get("/b") + upgrade("/later") + post(b"x" * 100_000, "/c") + upgrade())
        assert (await peer.answer()).body == b"/a"
        assert (await peer.answer()).body == b"/b"
        [exchange] = await held.count(1)
        served.connection.sweep(1e9)  # nobody waits for the rest of a request here
        exchange.respond(Response(200, b"later"))
        assert (await peer.answer()).body == b"later"
        assert (await peer.answer()).body == b"/c"
        assert (await peer.head()).status == 101


@pytest.mark.parametrize(
    ("request_bytes", "status", "code"),
    [
        (get(), 426, "upgrade_required"),
        (upgrade().replace(b"websocket", b"h2c"), 426, "upgrade_required"),
        (upgrade().replace(b"Connection: Upgrade\r\n", b""), 426, "upgrade_required"),
        (upgrade().replace(b"HTTP/1.1", b"HTTP/1.0"), 426, "upgrade_required"),
        (upgrade(extra="Connection: close\r\n"), 426, "upgrade_required"),
        (upgrade(extra="Content-Length: 2\r\n") + b"hi", 426, "upgrade_required"),
        (upgrade(version=None), 426, "unknown_websocket_version"),
        (upgrade(version="8"), 426, "unknown_websocket_version"),
        (upgrade(key=None), 400, "bad_websocket_key"),
        (upgrade(key="c2hvcnQ="), 400, "bad_websocket_key"),
        (upgrade(key="not base64, at all!!!!!!"), 400, "bad_websocket_key"),
        (upgrade(extra="Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), 400, "bad_websocket_key"),
        (upgrade(extra="Sec-WebSocket-Protocol: soap, wamp\r\n"), 400, "unknown_subprotocol"),
    ],
)
@on_both_loops
async def test_what_cannot_be_upgraded_is_told_why(request_bytes: bytes, status: int, code: str) -> None:
    async with serving(Sockets()) as served, within():
        peer = await served.peer()
        peer.send(request_bytes)
        if status == 426:
            raw = await peer.reader.readuntil(b"\r\n\r\n")
            assert raw.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
            assert b"\r\nupgrade: websocket\r\nconnection: upgrade\r\n" in raw
            assert (b"\r\nsec-websocket-version: 13\r\n" in raw) == (code != "upgrade_required")
            assert code.encode() in await peer.reader.readuntil(b"}}")
        else:
            answer = await peer.answer()
            assert answer.status == status and code.encode() in answer.body
        assert served.listener.websockets == 0


@on_both_loops
async def test_the_subprotocol_is_named_to_who_named_it() -> None:
    async with serving(Sockets()) as served, within():
        answer = await opened(await served.peer(), extra="Sec-WebSocket-Protocol: x, chat\r\n")
        assert answer.headers["sec-websocket-protocol"] == "chat"
        assert "sec-websocket-protocol" not in (await opened(await served.peer())).headers


@on_both_loops
async def test_control_frames_between_the_pieces_of_a_message() -> None:
    app = Sockets()
    async with serving(app) as served, within():
        peer = await served.peer()
        await opened(peer)
        peer.send(frame(TEXT, b"a", fin=False) + frame(PING, b"there?") + frame(CONT, b"b", fin=False))
        assert await read_frame(peer.reader) == (PONG, b"there?")
        peer.send(frame(PONG, b"unasked") + frame(CONT, b"c"))
        assert await read_frame(peer.reader) == (TEXT, b"abc")


@on_both_loops
async def test_our_goodbye_waits_for_the_peers() -> None:
    app = Sockets()
    async with serving(app) as served, within():
        peer = await served.peer()
        await opened(peer)
        [socket] = app.open
        socket.send(b"last words")
        socket.close(1001, "ü" * 200)
        socket.send(b"too late")
        socket.close(1000, "again")
        assert await read_frame(peer.reader) == (TEXT, b"last words")
        last = await read_frame(peer.reader)
        assert last.code == 1001 and last.data[2:].decode() == "ü" * 61
        peer.send(frame(TEXT, b"also too late"))
        peer.send(goodbye(1001))
        assert await peer.at_end()
        assert app.heard == [] and app.closed == [(1001, "ü" * 61)]


@on_both_loops
async def test_a_peer_that_leaves_without_a_word() -> None:
    app = Sockets()
    async with serving(app) as served, within():
        for leave in ("reset", "end"):
            peer = await served.peer()
            await opened(peer)
            if leave == "reset":
                peer.reset()
            else:
                peer.writer.write_eof()
            await until(lambda: served.listener.connections == 0)
        assert app.closed == [(1006, "")] * 2
        for socket in app.open:
            socket.send(b"nobody hears it")
            socket.close(1001, "nor this")
            assert not socket.writable


@on_both_loops
async def test_one_that_left_before_its_turn_leaves_nothing() -> None:
    held, sockets = Held(), Sockets()

    def app(exchange: Exchange) -> None:
        (held if exchange.request.path == "/held" else sockets)(exchange)

    async with serving(app) as served, within():
        peer = await served.peer()
        peer.send(get("/held") + upgrade())
        peer.writer.write_eof()
        [exchange] = await held.count(1)
        exchange.respond(Response(200, b"still answered"))
        assert (await peer.answer()).body == b"still answered"
        await until(lambda: served.listener.connections == 0)
        assert len(sockets.closed) == len(sockets.open)


@on_both_loops
async def test_an_app_that_fails_ends_its_socket(caplog: pytest.LogCaptureFixture) -> None:
    def fails_at_once(exchange: Exchange) -> None:
        exchange.upgrade("chat")
        raise ValueError("at once")

    def fails_later(exchange: Exchange) -> None:
        socket = exchange.upgrade("chat")
        assert socket is not None

        def on_message(_: bytes) -> None:
            raise ValueError("later")

        socket.on_message = on_message

    apps: list[App] = [fails_at_once, fails_later]
    for app in apps:
        caplog.clear()
        async with serving(app) as served, within():
            peer = await served.peer()
            await opened(peer)
            peer.send(frame(TEXT, b"hello"))
            assert (await read_frame(peer.reader)).code == 1011
        assert [record.exc_info is not None for record in caplog.records] == [True]


@on_both_loops
async def test_over_tls_and_over_a_unix_socket(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    app = Sockets()
    async with serving(app, tls=server) as served, within():
        await served.listener.listen_unix(tmp_path / "socket")
        peers = [
            await served.peer(tls=client, server_hostname="localhost"),
            await served.unix_peer(tmp_path / "socket"),
        ]
        for peer in peers:
            peer.send(upgrade() + frame(TEXT, b"behind"))
            assert (await peer.head()).status == 101
            assert await read_frame(peer.reader) == (TEXT, b"behind")
            peer.send(frame(TEXT, b"m" * 300_000))
            assert await read_frame(peer.reader) == (TEXT, b"m" * 300_000)
            peer.send(goodbye())
            assert (await read_frame(peer.reader)).opcode == CLOSE
            assert await peer.at_end()
            await peer.aclose()
        await until(lambda: served.listener.connections == 0)
        assert app.closed == [(1000, "")] * 2


@on_both_loops
async def test_writable_follows_the_peer_and_who_does_not_read_is_not_read() -> None:
    app = Sockets(echoes=False)
    async with serving(app, limits=Limits(write_high_water_bytes=1000)) as served, within():
        peer = await served.peer()
        await opened(peer)
        [socket] = app.open
        told = asyncio.Event()
        socket.on_writable = told.set
        count = 0
        while socket.writable:
            socket.send(b"f" * 100_000)
            count += 1
        peer.send(frame(TEXT, b"hello") * 10)
        other = await served.peer()
        for _ in range(5):  # had it been read, then by now
            assert (await other.get("/other")).body == b"/other"
        assert app.heard == []
        for _ in range(count):
            await read_frame(peer.reader)
        await told.wait()
        await until(lambda: app.heard == [b"hello"] * 10)


@on_both_loops
async def test_cut_with_everything_else() -> None:
    app = Sockets()
    async with serving(app) as served, within():
        peer = await served.peer()
        await opened(peer)
        served.listener.stop_accepting(spread_s=0.0)
        peer.send(frame(TEXT, b"still served"))
        assert await read_frame(peer.reader) == (TEXT, b"still served")
        drained = asyncio.ensure_future(served.listener.wait_drained())
        await asyncio.sleep(0)
        assert not drained.done()
        served.listener.abort()
        await drained
        assert app.closed == [(1006, "")]
