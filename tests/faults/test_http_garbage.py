"""What no peer should send: refused with the right status, then a proper close."""

import json

import pytest

from mooring.http.guard import Guard, guarded
from mooring.http.limits import Limits
from mooring.wire.http import Exchange, Response
from tests.http_client import Held, Served, echo, get, post, serving
from tests.support import on_both_loops, until, within

HOST = b"Host: localhost\r\n"
START = b"POST / HTTP/1.1\r\n" + HOST
LIMITS = Limits(
    max_body_bytes=100_000, max_header_bytes=4000, max_target_bytes=500, max_headers=20, linger_timeout_s=0.5
)

CORPUS: dict[str, tuple[int, bytes]] = {
    # Framing two parties could read differently.
    "length and chunked": (400, START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunked and length": (400, START + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, START + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    "two same lengths": (400, START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    "list of lengths": (400, START + b"Content-Length: 5, 5\r\n\r\nhello"),
    "signed length": (400, START + b"Content-Length: +5\r\n\r\nhello"),
    "negative length": (400, START + b"Content-Length: -5\r\n\r\nhello"),
    "hex length": (400, START + b"Content-Length: 0x5\r\n\r\nhello"),
    "huge length": (400, START + b"Content-Length: 99999999999999999999999\r\n\r\n"),
    "empty length": (400, START + b"Content-Length:\r\n\r\nhello"),
    "gzip chunked": (501, START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "identity": (501, START + b"Transfer-Encoding: identity\r\n\r\n"),
    "chunked twice": (400, START + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n"),
    "chunked, chunked": (400, START + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    "xchunked": (501, START + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "vt chunked": (400, START + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    "chunked in 1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunk size with LF": (400, START + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
    "chunk size 0x": (400, START + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size overflow": (400, START + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n"),
    "chunk without end": (400, START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n"),
    "close in trailer": (400, START + b"Transfer-Encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n"),
    "length in trailer": (400, START + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n"),
    # Header syntax.
    "obs-fold": (400, START + b"X: a\r\n b\r\n\r\n"),
    "fold at first header": (400, b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    "space before colon": (400, START + b"X : a\r\n\r\n"),
    "length with space before colon": (400, START + b"Content-Length : 5\r\n\r\nhello"),
    "no colon": (400, START + b"X\r\n\r\n"),
    "empty name": (400, START + b": a\r\n\r\n"),
    "name with parenthesis": (400, START + b"X(: a\r\n\r\n"),
    "name with high byte": (400, START + b"X\xff: a\r\n\r\n"),
    "NUL": (400, START + b"X: a\0b\r\n\r\n"),
    "control character": (400, START + b"X: a\x08b\r\n\r\n"),
    "DEL": (400, START + b"X: a\x7fb\r\n\r\n"),
    "bare CR": (400, START + b"X: a\rb\r\n\r\n"),
    "bare LF": (400, START + b"X: a\nY: b\r\n\r\n"),
    "LF line ends": (400, b"GET / HTTP/1.1\nHost: a\n\n"),
    "CR end of head": (400, b"GET / HTTP/1.1\r\nHost: a\r\n\rX"),
    # Host and target.
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    "host with path": (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "host with user": (400, b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
    "other authority": (400, b"GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "relative target": (400, b"GET x HTTP/1.1\r\nHost: a\r\n\r\n"),
    "fragment": (400, b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    "target with NUL": (400, b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"),
    "target with high byte": (400, b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"),
    "star": (400, b"GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    # Other protocols.
    "CONNECT": (501, b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    "TRACE": (501, b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "unknown method": (400, b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "HTTP/2 preface": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/2.0": (505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    "HTTP/0.9": (505, b"GET /\r\n\r\n"),
    "HTTP/1.2": (400, b"GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    "RTSP": (501, b"DESCRIBE / RTSP/1.0\r\n\r\n"),
    "ICE": (501, b"SOURCE / ICE/1.0\r\n\r\n"),
    "SSH": (400, b"SSH-2.0-OpenSSH\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "noise": (400, bytes(range(256)) * 4),
    # Limits.
    "long target": (414, get("/" + "a" * 500)),
    "endless target": (414, b"GET /" + b"a" * 100_000),
    "many headers": (431, get(extra="X: y\r\n" * 20)),
    "large headers": (431, get(extra="X: " + "y" * 4000 + "\r\n")),
    "endless header": (431, START + b"X: " + b"y" * 100_000),
    "large body": (413, post(b"x" * 100_001)),
    "large announced body": (413, START + b"Content-Length: 100001\r\n\r\n"),
    "large chunked body": (413, START + b"Transfer-Encoding: chunked\r\n\r\n"
                           + b"c350\r\n" + b"x" * 50_000 + b"\r\nc351\r\n" + b"x" * 50_001 + b"\r\n"),
    "endless chunk extension": (400, START + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 100_000),
    "endless trailer": (400, START + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 100_000),
}  # fmt: skip


def never(exchange: Exchange) -> None:
    raise AssertionError(f"{exchange.request} reached the app")


async def refused(served: Served, data: bytes, status: int) -> None:
    peer = await served.peer()
    peer.send(data)
    answer = await peer.answer()
    assert answer.status == status
    assert answer.headers["connection"] == "close"
    assert answer.headers["content-type"] == "application/json"
    assert set(json.loads(answer.body)["error"]) == {"code", "message"}
    assert await peer.at_end()


@pytest.mark.parametrize("name", CORPUS)
@on_both_loops
async def test_refused(name: str) -> None:
    status, data = CORPUS[name]
    async with serving(never, limits=LIMITS) as served:
        await refused(served, data, status)


@on_both_loops
async def test_a_smuggled_request_never_reaches_the_app() -> None:
    """Each of the corpus, with a request behind it: what follows a refusal is not read."""
    async with serving(never, limits=LIMITS) as served:
        for status, data in CORPUS.values():
            await refused(served, data + get("/smuggled"), status)


@on_both_loops
async def test_a_refusal_after_good_requests_leaves_their_answers_alone() -> None:
    async with serving(echo, limits=LIMITS) as served:
        for status, data in CORPUS.values():
            peer = await served.peer()
            peer.send(get("/good") + data)
            assert (await peer.answer()).body == b"GET /good  "
            assert (await peer.answer()).status == status
            assert await peer.at_end()


@on_both_loops
async def test_accepted_oddities() -> None:
    async with serving(echo, limits=LIMITS) as served:
        for data in (
            b"\r\n\r\n" + get(),
            get(extra="X: a\tb\r\nY:\r\n"),
            get(extra="X: \xe4\r\n"),
            b"GET http://localhost/ HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
            START + b"Transfer-Encoding: Chunked \r\n\r\n0\r\n\r\n",
            START + b"Content-Length: 0 \r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            # Host in a trailer is no header.
            START + b"Transfer-Encoding: chunked\r\n\r\n0\r\nHost: evil\r\n\r\n",
            # Many small chunks are wasteful, not wrong.
            START + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n",
        ):
            peer = await served.peer()
            peer.send(data)
            assert (await peer.answer()).status == 200, data[:80]


@on_both_loops
async def test_a_peer_still_sending_reads_the_refusal() -> None:
    """A reset would take the answer away: 413 must arrive while megabytes are still under way."""
    async with serving(never, limits=Limits(max_body_bytes=1000)) as served:
        for _ in range(10):
            peer = await served.peer()
            peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n" + b"x" * 8_000_000)
            await peer.writer.drain()
            assert (await peer.answer()).status == 413
            peer.writer.write_eof()
            assert await peer.at_end()


@on_both_loops
async def test_lingering_is_bounded_in_bytes_and_time() -> None:
    limits = Limits(max_body_bytes=1000, linger_bytes=1_000_000, linger_timeout_s=0.1)
    async with serving(never, limits=limits) as served:
        flood = await served.peer()
        flood.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 80000000\r\n\r\n" + b"x" * 80_000_000)
        silent = await served.peer()
        silent.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 80000000\r\n\r\n")
        assert (await silent.answer()).status == 413
        await served.listener.wait_drained()


@on_both_loops
async def test_nobodys_large_body_is_read_who_is_not_let_in() -> None:
    guard = Guard(tokens={"me": "a-secret-of-sixteen"})
    async with serving(guarded(echo, guard), admit=guard.admit) as served, within():
        for framing in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
            peer = await served.peer()
            peer.send(f"POST / HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode())
            assert (await peer.answer()).status == 401
            assert await peer.at_end()
        peer = await served.peer()
        peer.send(post(b"small", extra="Authorization: Bearer a-secret-of-sixteen\r\n"))
        assert (await peer.answer()).status == 200


@on_both_loops
async def test_requests_that_wait_are_refused_when_there_is_no_room_also_if_the_last_says_close() -> None:
    limits = Limits(max_body_bytes=100_000, max_unfinished_bytes=50_000, max_pipelined=1)
    app = Held()
    async with serving(app, limits=limits) as served, within():
        other, peer = await served.peer(), await served.peer()
        other.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" + b"x" * 59_999)
        await until(lambda: served.listener.unread_bytes > 50_000)
        peer.send(get() * 80 + get(extra="Connection: close\r\n"))
        [first] = await app.count(1)
        await until(lambda: served.listener.unread_bytes < 65_000)
        first.respond(Response(200))
        assert (await peer.answer()).status == 200
        assert (await peer.answer()).status == 503
        assert await peer.at_end()


@on_both_loops
async def test_unfinished_bodies_of_all_connections_share_one_bound() -> None:
    limits = Limits(max_body_bytes=100_000, max_unfinished_bytes=150_000)
    async with serving(echo, limits=limits) as served, within():
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        first, second = await served.peer(), await served.peer()
        first.send(head + b"x" * 99_999)
        probe = await served.peer()
        while (await probe.get()).status != 200:
            pass
        second.send(head + b"x" * 99_999)
        assert (await second.answer()).status == 503
        small = await served.peer()
        small.send(post(b"x" * 60_000))
        assert (await small.answer()).status == 200, "nobody is kept from sending little"
        first.send(b"x")
        assert (await first.answer()).status == 200
        again = await served.peer()
        again.send(head + b"x" * 100_000)
        assert (await again.answer()).status == 200
