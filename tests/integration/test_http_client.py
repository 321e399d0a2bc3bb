"""The HTTP client against our own listener, and against servers that answer to the byte."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from mooring.errors import UserError
from mooring.http.client import Client
from mooring.http.client_errors import AnswerCut, AnswerLost, BadAnswer, NoAnswer, NotSent, NotTrusted
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import Origin, parse_url
from mooring.wire.http import Exchange
from tests.http_client import Held, echo, serving
from tests.raw_server import LAST_CHUNK, Asked, Wire, answer, chunk, raw_server, stream_head
from tests.support import on_both_loops, until, within

BIG = 1 << 30


@asynccontextmanager
async def client_of(port: int, tls: ssl.SSLContext | None = None, **limits: Any) -> AsyncIterator[Client]:
    client = Client(Origin(host="127.0.0.1", port=port, tls=tls), ClientLimits(**limits))
    try:
        async with within(60):
            yield client
    finally:
        await client.aclose()
        assert client.connections == 0


async def always(data: bytes) -> Any:
    async def script(_asked: Asked, _wire: Wire) -> bytes:
        return data

    return script


@on_both_loops
async def test_requests_share_a_connection_and_bodies_of_any_size_pass() -> None:
    async with serving(echo) as served, client_of(served.port) as client:
        for size in (0, 1, 70_000, 3_000_000):
            response = await client.request("POST", "/a?b=c", [(b"X-Y", b"1")], b"x" * size)
            assert response.status == 200
            assert await response.read(BIG) == b"POST /a b=c " + b"x" * size
        assert client.connections == len(served.all_connections) == 1


@on_both_loops
async def test_a_stream_is_read_as_it_comes_and_closing_it_is_heard() -> None:
    app = Held()
    async with serving(app) as served, client_of(served.port) as client:
        asking = asyncio.ensure_future(client.request("GET", "/", []))
        [exchange] = await app.count(1)
        exchange.start(200, [(b"content-type", b"text/event-stream")])
        response = await asking
        assert response.header(b"content-type") == b"text/event-stream"
        exchange.write(b"one")
        assert await anext(response) == b"one"
        response.close()
        await app.count_gone(1)
        assert response.header(b"x-none") is None and "200" in repr(response)


@on_both_loops
async def test_a_reader_that_waits_holds_the_server_back() -> None:
    app = Held()
    async with serving(app) as served, client_of(served.port, read_high_water_bytes=1024) as client:
        asking = asyncio.ensure_future(client.request("GET", "/", []))
        [exchange] = await app.count(1)
        exchange.start(200, [])
        response = await asking
        sent = 0
        while exchange.writable:
            exchange.write(b"x" * 65536)
            sent += 65536
            await asyncio.sleep(0)
        exchange.end()
        assert len(await response.read(BIG)) == sent


@on_both_loops
async def test_an_answer_that_nobody_read_is_not_taken_for_the_next() -> None:
    async with serving(echo) as served, client_of(served.port) as client:
        for n in range(3):
            response = await client.request("GET", f"/{n}", [])
            if n == 2:
                assert await response.read(BIG) == b"GET /2  "
            response.close()
        assert client.connections == 1


async def test_many_requests_at_once_have_a_connection_each_and_few_are_kept() -> None:
    app = Held()
    async with serving(app) as served, client_of(served.port, max_idle_connections=2) as client:
        asking = [asyncio.ensure_future(client.request("GET", f"/{n}", [])) for n in range(20)]
        for exchange in await app.count(20):
            echo(exchange)
        for n, response in enumerate(await asyncio.gather(*asking)):
            assert await response.read(BIG) == f"GET /{n}  ".encode()
        await until(lambda: client.connections == 2)


async def test_requests_beyond_the_bound_wait_for_their_turn() -> None:
    app = Held()
    async with serving(app) as served, client_of(served.port, max_connections=2) as client:
        asking = [asyncio.ensure_future(client.request("GET", "/", [])) for _ in range(3)]
        first, _ = await app.count(2)
        assert client.connections == 2
        echo(first)
        done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        [response] = [task.result() for task in done]
        await response.read(BIG)
        for exchange in (await app.count(3))[1:]:
            echo(exchange)
        for response in await asyncio.gather(*asking):
            response.close()


async def test_an_idle_connection_is_given_up_before_the_server_does_it() -> None:
    async with serving(echo) as served, client_of(served.port, idle_timeout_s=0.01) as client:
        await client.connect()
        await until(lambda: client.connections == 0)


async def test_a_connection_that_the_server_closed_meanwhile_fails_no_request() -> None:
    async def once(_asked: Asked, wire: Wire) -> None:
        wire.send(answer(b"{}"))
        wire.close()

    async with raw_server(once) as server, client_of(server.port) as client:
        for _ in range(5):
            response = await client.request("GET", "/", [])
            assert await response.read(BIG) == b"{}"
        assert server.connections == 5


async def test_nothing_was_sent() -> None:
    async with raw_server(await always(b"")) as server:
        port = server.port
    async with client_of(port) as client:
        with pytest.raises(NotSent, match="connection refused"):
            await client.request("GET", "/", [])
        with pytest.raises(NotSent, match="connection refused"):
            await client.connect()
    with pytest.raises(NotSent, match="closed"):
        await client.request("GET", "/", [])


async def test_a_name_that_nobody_knows(tmp_path: Path) -> None:
    for origin in (Origin(host="no.such.host.invalid", port=1), Origin(unix=tmp_path / "none")):
        client = Client(origin)
        with pytest.raises(NotSent):
            await client.request("GET", "/", [])
        await client.aclose()


async def test_a_server_that_lets_nobody_in_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        async with client_of(deaf.getsockname()[1], connect_timeout_s=0.0) as client:
            with pytest.raises(NotSent, match="no connection within 0 s"):
                await client.connect()


WHOLE = answer(b'{"ok":1}', X="y")


@pytest.mark.parametrize("at", range(len(WHOLE)))
async def test_an_answer_that_is_cut_anywhere(at: int) -> None:
    async def cut(_asked: Asked, wire: Wire) -> None:
        wire.send(WHOLE[:at])
        wire.close()

    async with raw_server(cut) as server, client_of(server.port) as client:
        if at <= WHOLE.index(b"\r\n\r\n") + 3:
            with pytest.raises(NoAnswer):
                await client.request("POST", "/", [], b"x")
        else:
            response = await client.request("POST", "/", [], b"x")
            with pytest.raises(AnswerCut):
                await response.read(BIG)
            response.close()


@pytest.mark.parametrize("in_order", [True, False])
async def test_it_is_known_whether_a_server_went_in_order(in_order: bool) -> None:
    async def go(_asked: Asked, wire: Wire) -> None:
        wire.close() if in_order else wire.cut()

    async with raw_server(go) as server, client_of(server.port) as client:
        with pytest.raises(NoAnswer) as lost:
            await client.request("POST", "/", [], b"x")
        assert lost.value.is_clean is in_order


CHUNKS = stream_head() + chunk(b"abc") + LAST_CHUNK


@pytest.mark.parametrize("at", range(len(stream_head()), len(CHUNKS)))
async def test_a_stream_that_is_cut_anywhere_is_not_whole(at: int) -> None:
    async def cut(_asked: Asked, wire: Wire) -> None:
        wire.send(CHUNKS[:at])
        wire.close()

    async with raw_server(cut) as server, client_of(server.port) as client:
        response = await client.request("GET", "/", [])
        with pytest.raises(AnswerCut):
            await response.read(BIG)
        response.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ],
)
async def test_what_is_not_http_is_said_to_be(garbage: bytes) -> None:
    async with raw_server(await always(garbage)) as server, client_of(server.port) as client:
        with pytest.raises(BadAnswer):
            await client.request("POST", "/", [], b"x")


async def test_a_body_that_ends_with_the_connection_and_interim_answers() -> None:
    async def script(_asked: Asked, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc")
        wire.close()

    async with raw_server(script) as server, client_of(server.port) as client:
        response = await client.request("GET", "/", [])
        assert await response.read(BIG) == b"abc"
        await until(lambda: client.connections == 0)


async def test_a_second_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async with raw_server(await always(answer(b"{}") * 2)) as server, client_of(server.port) as client:
        response = await client.request("GET", "/", [])
        assert await response.read(BIG) == b"{}"
        await until(lambda: client.connections == 0)


async def test_a_server_that_never_answers_and_one_that_answers_too_much() -> None:
    async with raw_server(await always(b"")) as server, client_of(server.port) as client:
        with pytest.raises(NoAnswer, match="within 0 s"):
            await client.request("GET", "/", [], head_timeout_s=0.0)
        await until(lambda: client.connections == 0)
    async with raw_server(await always(answer(b"12345"))) as server, client_of(server.port) as client:
        response = await client.request("GET", "/", [])
        with pytest.raises(AnswerLost, match="over 4 bytes") as lost:
            await response.read(4)
        assert lost.value.code == "message_too_long"


async def test_a_request_that_is_given_up_is_given_up_on_the_wire() -> None:
    app = Held()
    async with serving(app) as served, client_of(served.port) as client:
        asking = asyncio.ensure_future(client.request("GET", "/", []))
        await app.count(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await app.count_gone(1)


async def test_a_header_cannot_become_two() -> None:
    async with raw_server(await always(b"")) as server, client_of(server.port) as client:
        with pytest.raises(ValueError, match="control characters"):
            await client.request("GET", "/", [(b"X", b"1\r\nY: 2")])


@on_both_loops
async def test_over_a_unix_socket(tmp_path: Path) -> None:
    async with serving(echo) as served:
        await served.listener.listen_unix(tmp_path / "s")
        origin, target = parse_url(f"unix:{tmp_path / 's'}")
        client = Client(origin)
        response = await client.request("GET", target, [])
        assert await response.read(BIG) == b"GET /mcp  "
        await client.aclose()


@on_both_loops
async def test_over_tls_with_and_without_the_right_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with serving(echo, tls=context) as served:
        origin, target = parse_url(f"https://127.0.0.1:{served.port}/x", tmp_path / "ca.pem")
        async with client_of(served.port, tls=origin.tls) as client:
            for _ in range(2):
                response = await client.request("POST", target, [], b"y" * 100_000)
                assert (await response.read(BIG)).endswith(b"yyy")
            assert client.connections == 1
        stranger, _ = parse_url(f"https://127.0.0.1:{served.port}/x")
        async with client_of(served.port, tls=stranger.tls) as client:
            with pytest.raises(NotTrusted) as refused:
                await client.request("GET", "/", [])
            assert "--ca-file" in refused.value.hint
    async with serving(echo) as served, client_of(served.port, tls=stranger.tls) as client:
        with pytest.raises(NotTrusted) as refused:
            await client.request("GET", "/", [])
        assert "http://" in refused.value.hint


def hears_nothing(exchange: Exchange) -> None:
    pass


async def test_closing_the_client_ends_what_is_under_way() -> None:
    async with serving(hears_nothing) as served, client_of(served.port) as client:
        asking = asyncio.ensure_future(client.request("GET", "/", []))
        await until(lambda: served.all_connections)
        await client.aclose()
        with pytest.raises(AnswerLost):
            await asking


def test_a_ca_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no")
    for name in ("ca", "none"):
        with pytest.raises(UserError) as refused:
            parse_url("https://x/", tmp_path / name)
        assert refused.value.code == "ca_file_unusable"
