"""Requests and answers over real sockets, on both loops."""

import asyncio
import gc
import logging
import socket
import struct
import weakref

import pytest

from mooring.errors import LocalProtocolError
from mooring.http.limits import Limits
from mooring.wire.http import Exchange, Response
from tests.http_client import Held, echo, get, post, serving
from tests.support import on_both_loops, until


@on_both_loops
async def test_keep_alive_and_bodies() -> None:
    async with serving(echo) as served:
        peer = await served.peer()
        answer = await peer.get("/a?b=c")
        assert (answer.status, answer.body) == (200, b"GET /a b=c ")
        assert answer.headers["content-length"] == "11"
        assert answer.headers["date"].endswith("GMT")
        assert "connection" not in answer.headers
        peer.send(post(b"hello"))
        assert (await peer.answer()).body == b"POST /  hello"
        peer.send(
            b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
        )
        assert (await peer.answer()).body == b"POST /c  abcde"
        big = bytes(range(256)) * 4096
        peer.send(post(big))
        assert (await peer.answer()).body == b"POST /  " + big
        assert served.listener.connections == 1


@on_both_loops
@pytest.mark.parametrize("sent", [get(), post(b"x" * 1000)[:-500]], ids=["whole", "half"])
async def test_a_connection_that_has_ended_is_freed_at_once(sent: bytes) -> None:
    gc.disable()  # which would find cycles, some day
    try:
        async with serving(echo) as served:
            peer = await served.peer()
            peer.send(sent)
            await until(lambda: served.all_connections)
            connection = weakref.ref(served.connection)
            await peer.aclose()
            await until(lambda: connection() is None)
    finally:
        gc.enable()


@on_both_loops
async def test_request_tells_who_asks() -> None:
    seen = []

    def app(exchange: Exchange) -> None:
        seen.append(exchange.request)
        echo(exchange)

    async with serving(app) as served:
        peer = await served.peer()
        await peer.get("/x", extra="X-One:  1 \r\nx-one: 2\r\n")
        host, port = peer.writer.get_extra_info("sockname")
        assert seen[0].peer == f"{host}:{port}"
        assert not seen[0].tls
        assert seen[0].header_all(b"x-one") == [b"1", b"2"]


@on_both_loops
async def test_connection_close_is_honoured() -> None:
    async with serving(echo) as served:
        peer = await served.peer()
        answer = await peer.get("/", extra="Connection: close\r\n")
        assert answer.headers["connection"] == "close"
        assert await peer.at_end()
        # What follows a last request is not a request.
        peer = await served.peer()
        peer.send(get("/1", extra="Connection: close\r\n") + get("/2") + b"x" * 100_000)
        assert (await peer.answer()).body == b"GET /1  "
        assert await peer.at_end()


@on_both_loops
async def test_http_1_0() -> None:
    def app(exchange: Exchange) -> None:
        if exchange.request.path == "/stream":
            exchange.start(200, [])
            exchange.write(b"one")
            exchange.write(b"two")
            exchange.end()
        else:
            echo(exchange)

    async with serving(app) as served:
        peer = await served.peer()
        peer.send(b"GET /a HTTP/1.0\r\n\r\n")
        answer = await peer.answer()
        assert (answer.body, answer.headers["connection"]) == (b"GET /a  ", "close")
        assert await peer.at_end()
        peer = await served.peer()
        for _ in range(2):
            peer.send(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await peer.answer()).headers["connection"] == "keep-alive"
        peer.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = await peer.answer()
        assert answer.body == b"onetwo"
        assert "transfer-encoding" not in answer.headers
        assert answer.headers["connection"] == "close"


@on_both_loops
async def test_the_end_of_a_connection_wins_over_its_keeping() -> None:
    async with serving(echo) as served:
        for version in ("1.0", "1.1"):
            for options in ("keep-alive, close", "close, keep-alive", "Keep-Alive\r\nConnection: Close"):
                peer = await served.peer()
                peer.send(get(extra=f"Connection: {options}\r\n").replace(b"1.1", version.encode()))
                assert (await peer.answer()).headers["connection"] == "close"
                assert await peer.at_end()


@on_both_loops
async def test_http_1_0_stream_that_is_aborted_is_visibly_incomplete() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(b"GET /stream HTTP/1.0\r\n\r\n")
        [exchange] = await held.count(1)
        exchange.start(200, [])
        exchange.write(b"one")
        await peer.head()
        assert await peer.reader.readexactly(3) == b"one"
        exchange.abort()
        with pytest.raises(ConnectionResetError):
            await peer.reader.read()
        assert held.gone == []


@on_both_loops
async def test_http_1_0_stream_before_pipelined_requests_ends_them() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
        first, second = await held.count(2)
        second.respond(Response(200, b"never read"))
        first.start(200, [])
        first.write(b"all")
        first.end()
        assert (await peer.answer()).body == b"all"


@on_both_loops
async def test_who_aborts_when_the_peer_has_gone_already_is_told_of_that() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
        first, second = await held.count(2)
        first.start(200, [])
        first.end()
        assert second.disconnected
        second.abort()
        assert await held.count_gone(1) == [second]


@on_both_loops
async def test_http_1_0_stream_that_waited_for_its_turn_ends_by_closing() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 3)
        first, second, third = await held.count(3)
        second.start(200, [])
        second.write(b"all")
        second.end()
        first.respond(Response(200, b"one"))
        assert (await peer.answer()).body == b"one"
        assert (await peer.answer()).body == b"all"
        assert await held.count_gone(1) == [third]


@on_both_loops
async def test_nothing_reaches_the_app_after_it_has_cut_the_connection() -> None:
    asked = []

    def app(exchange: Exchange) -> None:
        asked.append(exchange)
        exchange.abort()

    async with serving(app) as served:
        peer = await served.peer()
        peer.send(get("/1") + get("/2"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await peer.answer()
        await served.listener.wait_drained()
        assert len(asked) == 1


@on_both_loops
async def test_pipelined_answers_keep_their_order() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(b"".join(get(f"/{number}") for number in range(4)))
        zero, one, two, three = await held.count(4)
        three.respond(Response(200, b"3"))
        one.start(200, [])
        one.write(b"1a")
        two.respond(Response(404, b"2"))
        zero.respond(Response(200, b"0"))
        one.write(b"1b")
        one.end()
        answers = [await peer.answer() for _ in range(4)]
        assert [answer.body for answer in answers] == [b"0", b"1a1b", b"2", b"3"]
        assert [answer.status for answer in answers] == [200, 200, 404, 200]


@on_both_loops
async def test_pipeline_depth_is_bounded_and_nothing_is_lost() -> None:
    held = Held()
    limits = Limits(max_pipelined=3)
    async with serving(held, limits=limits) as served:
        peer = await served.peer()
        total = 3000
        peer.send(
            b"".join(get(f"/{number}", extra="X-Filler: " + "x" * 30 + "\r\n") for number in range(total))
        )
        for number in range(total):
            await held.at_least(number + 1)
            assert len(held.exchanges) - number <= 3
            exchange = held.exchanges[number]
            exchange.respond(Response(200, exchange.request.path.encode()))
            assert (await peer.answer()).body == b"/%d" % number


@on_both_loops
async def test_pipelined_garbage_is_refused_after_the_answers_before_it() -> None:
    held = Held()
    async with serving(held, limits=Limits(max_pipelined=1)) as served:
        peer = await served.peer()
        peer.send(get("/1") + get("/2") + b"garbage\r\n\r\n")
        for number in (1, 2):
            exchange = (await held.count(number))[-1]
            exchange.respond(Response(200, b"%d" % number))
            answer = await peer.answer()
            assert answer.body == b"%d" % number
            assert "connection" not in answer.headers
        answer = await peer.answer()
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert await peer.at_end()


@on_both_loops
async def test_streams_are_chunked() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get())
        [exchange] = await held.count(1)
        exchange.extra_headers.append((b"x-extra", b"1"))
        exchange.start(200, [(b"content-type", b"text/event-stream")])
        answer = await peer.head()
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-extra"] == "1"
        assert "content-length" not in answer.headers
        chunks = peer.chunks()
        for piece in (b"one", b"x" * 100_000):
            exchange.write(b"")
            exchange.write(piece)
            assert await anext(chunks) == piece
        exchange.end()
        assert [chunk async for chunk in chunks] == []
        peer.send(get("/next"))
        (await held.count(2))[1].respond(Response(200))
        assert (await peer.answer()).status == 200


@on_both_loops
async def test_aborted_stream_is_visibly_incomplete() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get())
        [exchange] = await held.count(1)
        exchange.start(200, [])
        exchange.write(b"one")
        await peer.head()
        assert await anext(peer.chunks()) == b"one"
        exchange.abort()
        exchange.abort()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await peer.answer()
        assert exchange.disconnected
        exchange.write(b"ignored")
        assert held.gone == []


@on_both_loops
async def test_answers_without_a_body() -> None:
    def app(exchange: Exchange) -> None:
        match exchange.request.path:
            case "/stream":
                exchange.start(200, [])
                exchange.write(b"body")
                exchange.end()
            case "/stream204":
                exchange.start(204, [])
                exchange.write(b"body")
                exchange.end()
            case path:
                exchange.respond(Response(int(path[1:]), b"body"))

    async with serving(app) as served:
        peer = await served.peer()
        for status in (204, 304):
            answer = await peer.get(f"/{status}")
            assert answer.status == status
            assert "content-length" not in answer.headers
        assert (await peer.get("/stream204")).status == 204
        for path in ("/200", "/stream"):
            peer.send(get(path).replace(b"GET", b"HEAD"))
            answer = await peer.answer(to_head=True)
            assert answer.status == 200
            assert answer.headers.get("content-length", "4") == "4"
        peer.send(b"HEAD /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await peer.answer(to_head=True)).headers["connection"] == "keep-alive"
        assert (await peer.get("/200")).body == b"body"


@on_both_loops
async def test_expect_continue() -> None:
    held = Held()
    async with serving(held, limits=Limits(max_body_bytes=10)) as served:
        peer = await served.peer()
        expecting = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n"
        peer.send(expecting)
        assert (await peer.answer()).status == 100
        peer.send(b"body")
        [exchange] = await held.count(1)
        assert exchange.request.body == b"body"
        # Leave is given in the order of the requests.
        peer.send(expecting)
        exchange.respond(Response(201))
        assert (await peer.answer()).status == 201
        assert (await peer.answer()).status == 100
        peer.send(b"more")
        (await held.count(2))[1].respond(Response(202))
        assert (await peer.answer()).status == 202
        # No leave for what would be refused.
        peer.send(expecting.replace(b"4", b"11"))
        assert (await peer.answer()).status == 413
        assert await peer.at_end()
        peer = await served.peer()
        peer.send(expecting.replace(b"100-Continue", b"tea"))
        assert (await peer.answer()).status == 417
        # HTTP/1.0 and requests without a body do not wait.
        peer = await served.peer()
        peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
        (await held.count(3))[2].respond(Response(203))
        assert (await peer.answer()).status == 203


@on_both_loops
async def test_expect_continue_behind_an_unanswered_request_waits_its_turn() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(
            get("/1") + b"POST /2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
        )
        [first] = await held.count(1)
        first.respond(Response(200, b"first"))
        assert (await peer.answer()).body == b"first"
        assert (await peer.answer()).status == 100


@on_both_loops
async def test_leave_is_not_given_for_a_body_that_has_come() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        expecting = b"POST /2 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"
        peer.send(get("/1") + expecting)
        for exchange in await held.count(2):
            exchange.respond(Response(200))
        assert [(await peer.answer()).status for _ in range(2)] == [200, 200]
        peer.send(get("/3"))
        (await held.count(3))[2].respond(Response(200, b"third"))
        assert (await peer.answer()).body == b"third"


@pytest.mark.parametrize("kind", ["length", "chunked", "none"])
@on_both_loops
async def test_upgrade_requests_are_normal_requests(kind: str) -> None:
    body = {"length": b"Content-Length: 5\r\n\r\nhello", "none": b"\r\n"}.get(
        kind, b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    offer = (
        b"POST /u HTTP/1.1\r\nHost: a\r\n"
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n"
    )
    async with serving(echo) as served:
        peer = await served.peer()
        peer.send((offer + body) * 2 + get("/next"))
        expected = b"POST /u  " + (b"" if kind == "none" else b"hello")
        assert [(await peer.answer()).body for _ in range(3)] == [expected, expected, b"GET /next  "]
        peer.send(offer.replace(b"Connection: ", b"Connection: close, ") + body + get("/dropped"))
        assert (await peer.answer()).body == expected
        assert await peer.at_end()


@on_both_loops
async def test_half_closed_peer_gets_its_answer() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get("/1") + get("/2") + b"GET /unfinished")
        peer.writer.write_eof()
        first, second = await held.count(2)
        await until(lambda: served.connection._pipeline.peer_is_done)
        second.respond(Response(200, b"two"))
        first.respond(Response(200, b"one"))
        assert (await peer.answer()).body == b"one"
        answer = await peer.answer()
        assert (answer.body, answer.headers["connection"]) == (b"two", "close")
        assert await peer.at_end()
        assert held.gone == []


@on_both_loops
async def test_end_of_input_is_the_end_of_a_stream() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get())
        [exchange] = await held.count(1)
        exchange.start(200, [])
        await peer.head()
        peer.writer.write_eof()
        await held.count_gone(1)
        assert exchange.disconnected
        exchange.write(b"ignored")
        exchange.end()
        await served.listener.wait_drained()
        # The same when the stream is started after that; a short one gets through.
        peer = await served.peer()
        peer.send(get())
        peer.writer.write_eof()
        exchange = (await held.count(2))[1]
        await until(lambda: served.connection._pipeline.peer_is_done)
        exchange.start(200, [])
        await held.count_gone(2)
        peer = await served.peer()
        peer.send(get())
        peer.writer.write_eof()
        exchange = (await held.count(3))[2]
        await until(lambda: served.connection._pipeline.peer_is_done)
        exchange.start(200, [])
        exchange.write(b"short")
        exchange.end()
        assert (await peer.answer()).body == b"short"
        assert len(held.gone) == 2


@on_both_loops
async def test_reset_is_told_once_to_every_pending_exchange() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get("/1") + get("/2") + get("/3"))
        exchanges = await held.count(3)
        exchanges[2].respond(Response(200))  # answered, waiting for its turn: not told
        peer.reset()
        await held.count_gone(2)
        await served.listener.wait_drained()
        assert len(held.gone) == 2
        exchanges[0].respond(Response(200))
        exchanges[1].start(200, [])


@on_both_loops
async def test_idle_and_unfinished_peers_may_leave() -> None:
    async with serving(echo) as served:
        for sent in (b"", b"GET / HT", post(b"12345")[:-2]):
            peer = await served.peer()
            peer.send(sent)
            peer.writer.write_eof()
            assert await peer.at_end()


@on_both_loops
async def test_an_app_that_raises_is_a_500_and_a_log_entry(caplog: pytest.LogCaptureFixture) -> None:
    def app(exchange: Exchange) -> None:
        match exchange.request.path:
            case "/stream":
                exchange.start(200, [])
                raise RuntimeError("boom in stream")
            case "/after":
                echo(exchange)
                raise RuntimeError("boom after")
            case "/header":
                exchange.respond(Response(200, b"", [(b"x", b"a\r\nb")]))
            case "/extra":
                exchange.extra_headers.append((b"x", b"a\nb"))
                exchange.respond(Response(200))
        raise RuntimeError("boom")

    caplog.set_level(logging.ERROR, "mooring.http")
    async with serving(app) as served:
        for path in ("/", "/header", "/extra"):
            caplog.clear()
            peer = await served.peer()
            answer = await peer.get(path)
            assert (answer.status, answer.headers["connection"]) == (500, "close")
            assert b"boom" not in answer.body
            assert await peer.at_end()
            [record] = caplog.records
            assert record.exc_info is not None
        peer = await served.peer()
        assert (await peer.get("/after")).status == 200
        peer = await served.peer()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await peer.get("/stream")


@on_both_loops
async def test_a_callback_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    held = Held()
    caplog.set_level(logging.ERROR, "mooring.http")
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get())
        [exchange] = await held.count(1)
        exchange.on_disconnect = lambda: 1 // 0  # type: ignore[assignment]
        peer.reset()
        await served.listener.wait_drained()
        assert "ZeroDivisionError" in caplog.text


@on_both_loops
async def test_an_exchange_is_answered_once() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get())
        [exchange] = await held.count(1)
        assert repr(exchange) == "<HttpExchange GET / unanswered>"
        with pytest.raises(LocalProtocolError):
            exchange.write(b"x")
        with pytest.raises(LocalProtocolError):
            exchange.end()
        with pytest.raises(LocalProtocolError):
            exchange.respond(Response(200, b"", [(b"x", b"a\r\nb")]))
        exchange.respond(Response(200))
        with pytest.raises(LocalProtocolError):
            exchange.respond(Response(200))
        with pytest.raises(LocalProtocolError):
            exchange.start(200, [])
        assert (await peer.answer()).status == 200


@on_both_loops
async def test_writable_follows_the_peer() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer(limit=1024)
        peer.send(get())
        [exchange] = await held.count(1)
        told = asyncio.Event()
        exchange.on_writable = told.set
        exchange.start(200, [])
        sent = 0
        while exchange.writable:
            exchange.write(b"x" * 100_000)
            sent += 100_000
        assert not told.is_set()
        await peer.head()
        chunks = peer.chunks()
        read = 0
        while read < sent:
            read += len(await anext(chunks))
        await told.wait()
        exchange.end()
        assert [chunk async for chunk in chunks] == []


async def test_a_peer_that_was_found_gone_is_not_writable(caplog: pytest.LogCaptureFixture) -> None:
    """The transport tells of it a turn later; until then asyncio logs a warning for each further write."""
    held, loop = Held(), asyncio.get_running_loop()
    async with serving(held) as served:
        with socket.socket() as peer:
            peer.setblocking(False)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await loop.sock_connect(peer, ("127.0.0.1", served.port))
            await loop.sock_sendall(peer, get())
            [exchange] = await held.count(1)
            exchange.start(200, [])
        written = 0
        while exchange.writable and written < 20:
            exchange.write(b"news")
            written += 1
        assert (written, caplog.text) == (1, "")


@on_both_loops
async def test_a_held_back_stream_is_writable_up_to_the_mark() -> None:
    held = Held()
    async with serving(held) as served:
        peer = await served.peer()
        peer.send(get("/1") + get("/2"))
        first, second = await held.count(2)
        told = asyncio.Event()
        second.on_writable = told.set
        second.start(200, [])
        pieces = 0
        while second.writable:
            second.write(b"x" * 35_000)
            pieces += 1
        assert pieces == 2
        first.respond(Response(200))
        await told.wait()
        second.end()
        assert [len((await peer.answer()).body) for _ in range(2)] == [0, 70_000]
