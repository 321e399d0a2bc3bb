"""How the HTTP client gets to a server: proxies, certificates of its own, redirects, many at once; and what
it says when there is no way."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from mooring.errors import UserError
from mooring.http import client_racing
from mooring.http.client import Client
from mooring.http.client_errors import NoPlace, NotSent, NotTrusted
from mooring.http.client_limits import ClientLimits
from mooring.http.client_proxies import Proxies
from mooring.http.origin import Origin, parse_url
from mooring.wire.http import Headers
from tests.faults.test_runtimes_start import free_descriptors
from tests.forward_proxy import forward_proxy
from tests.http_client import Held, echo, serving
from tests.raw_server import Asked, Wire, answer, raw_server
from tests.support import on_both_loops, open_descriptors, until, within

BIG = 1 << 30
NAME = "upstream.test"
PASSWORD = "Basic bWU6c2VjcmV0"


@asynccontextmanager
async def client_of(origin: Origin, **limits: Any) -> AsyncIterator[Client]:
    client = Client(origin, ClientLimits(**limits))
    try:
        async with within(60):
            yield client
    finally:
        await client.aclose()
        assert client.connections == 0


class Authority:
    """Who signs, and contexts for both sides."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.ca_file))

    def server(self, name: str, *, wants_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(name).configure_cert(context)
        if wants_certificate:
            self.ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def through(port: int, *, scheme: str = "http", user: str = "") -> Proxies:
    url = f"{scheme}://{user}127.0.0.1:{port}"
    return Proxies.from_environment({"HTTPS_PROXY": url, "HTTP_PROXY": url})


async def said(client: Client, target: str = "/a", headers: Headers | None = None) -> bytes:
    response = await client.request("POST", target, headers or [], b"x")
    assert response.status == 200
    return await response.read(BIG)


async def nobody_left(client: Client) -> None:
    await until(lambda: client.connections == 0)


# Proxies -------------------------------------------------------------------------------------


@on_both_loops
async def test_requests_that_are_given_up_while_connections_are_made_leave_none() -> None:
    async with serving(echo) as served:
        client = Client(Origin(host="127.0.0.1", port=served.port))
        for turns in range(8):
            requests = [asyncio.create_task(client.request("GET", "/", [])) for _ in range(10)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
        async with within():
            await client.aclose()
        assert client.connections == 0


@on_both_loops
async def test_a_way_that_is_cut_in_the_handshake_leaves_no_connection(authority: Authority) -> None:
    async def opened_then(cut: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read(1)
        if cut:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            await reader.read()
            writer.close()

    for cut in (True, False):
        proxy = await asyncio.start_server(partial(opened_then, cut), "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        origin, _ = parse_url(f"https://{NAME}/a", authority.ca_file, proxies=through(port))
        client = Client(origin, ClientLimits(connect_timeout_s=0.3))
        async with within():
            with pytest.raises(NotSent):
                await client.connect()
            assert client.connections == 0
            await client.aclose()
        proxy.close()
        await proxy.wait_closed()


@on_both_loops
async def test_https_goes_through_a_tunnel_which_is_used_again(authority: Authority) -> None:
    async with (
        serving(echo, tls=authority.server(NAME)) as served,
        forward_proxy(upstream_test=served.port) as proxy,
    ):
        proxy.password = PASSWORD
        proxies = through(proxy.port, user="me:secret@")
        origin, _ = parse_url(f"https://{NAME}/a", authority.ca_file, proxies=proxies)
        async with client_of(origin) as client:
            for _ in range(3):
                assert await said(client) == b"POST /a  x"
            assert client.connections == 1
        [connect] = proxy.asked
        assert (connect.method, connect.target) == ("CONNECT", f"{NAME}:443")
        assert connect.headers == {"host": f"{NAME}:443", "proxy-authorization": PASSWORD}


@on_both_loops
async def test_a_proxy_that_is_spoken_to_by_tls_itself(authority: Authority) -> None:
    async with (
        serving(echo, tls=authority.server(NAME)) as served,
        forward_proxy(authority.server("127.0.0.1"), upstream_test=served.port) as proxy,
    ):
        proxies = through(proxy.port, scheme="https")
        origin, _ = parse_url(f"https://{NAME}/a", authority.ca_file, proxies=proxies)
        async with client_of(origin) as client:
            response = await client.request("POST", "/a", [], b"y" * 300_000)
            assert len(await response.read(BIG)) > 300_000
            assert await said(client) == b"POST /a  x"
            assert client.connections == 1
        stranger = replace(origin, proxy_tls=ssl.create_default_context())
        async with client_of(stranger) as client:
            with pytest.raises(NotTrusted, match=r"the proxy https://127\.0"):
                await client.connect()


@on_both_loops
async def test_http_is_asked_of_the_proxy_by_the_whole_url() -> None:
    async with serving(echo) as served, forward_proxy(upstream_test=served.port) as proxy:
        proxy.password = PASSWORD
        origin, _ = parse_url(f"http://{NAME}:81/", proxies=through(proxy.port, user="me:secret@"))
        async with client_of(origin) as client:
            assert await said(client, "/a", [(b"X-Y", b"z")]) == b"POST /a  x"
        [asked] = proxy.asked
        assert asked.target == f"http://{NAME}:81/a"
        assert asked.headers["host"] == f"{NAME}:81" and asked.headers["proxy-authorization"] == PASSWORD


REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"


@on_both_loops
async def test_a_proxy_that_refuses_is_named_without_its_password(authority: Authority) -> None:
    async with forward_proxy() as proxy:
        proxies = through(proxy.port, user="me:secret@")
        origin, _ = parse_url(f"https://{NAME}/a", authority.ca_file, proxies=proxies)
        for refusal, words in (
            (REFUSED, "403"),
            (b"", "before answering"),
            (b"garbage\r\n\r\n", "not HTTP"),
            (b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0", "speaks before it is asked"),
            (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "over 65536 bytes"),
        ):
            proxy.refuses_with = refusal
            async with client_of(origin) as client:
                with pytest.raises(NotSent, match=words) as refused:
                    await client.request("POST", "/a", [], b"x")
                assert refused.value.code == "proxy_refused"
                assert f"http://127.0.0.1:{proxy.port}" in refused.value.message
                assert "NO_PROXY" in refused.value.hint
                assert "secret" not in repr(refused.value) + refused.value.hint
                await nobody_left(client)


async def test_a_proxy_that_wants_a_password_says_so_on_either_way(authority: Authority) -> None:
    async with serving(echo) as served, forward_proxy(upstream_test=served.port) as proxy:
        proxy.password = PASSWORD
        for scheme in ("http", "https"):
            origin, _ = parse_url(f"{scheme}://{NAME}/a", authority.ca_file, proxies=through(proxy.port))
            async with client_of(origin) as client:
                with pytest.raises(NotSent, match="407") as refused:
                    await client.request("POST", "/a", [], b"x")
                assert refused.value.code == "proxy_refused"
                assert "USER:PASSWORD" in refused.value.hint


async def test_a_proxy_that_is_not_there_is_the_one_that_is_told_of(authority: Authority) -> None:
    async with forward_proxy() as proxy:
        port = proxy.port
    origin, _ = parse_url(f"https://{NAME}/a", authority.ca_file, proxies=through(port))
    async with client_of(origin) as client:
        with pytest.raises(
            NotSent, match=f"the proxy http://127.0.0.1:{port}: connection refused"
        ) as refused:
            await client.connect()
        assert refused.value.code == "refused" and "HTTPS_PROXY" in refused.value.hint


@on_both_loops
async def test_the_server_behind_a_tunnel_must_be_trusted(authority: Authority) -> None:
    async with (
        serving(echo, tls=authority.server("other.test")) as served,
        serving(echo) as plain,
        forward_proxy(upstream_test=served.port, plain_test=plain.port) as proxy,
    ):
        for name, code in ((NAME, "not_trusted"), ("plain.test", "tls_failed")):
            origin, _ = parse_url(f"https://{name}/a", authority.ca_file, proxies=through(proxy.port))
            async with client_of(origin) as client:
                with pytest.raises(NotTrusted, match=name) as refused:
                    await client.connect()
                assert refused.value.code == code
                await nobody_left(client)


# Who we are ----------------------------------------------------------------------------------


@on_both_loops
async def test_a_server_that_wants_to_know_who_asks(authority: Authority, tmp_path: Path) -> None:
    mine = authority.ca.issue_cert("me@example.com")
    cert, key, both = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "both.pem"
    mine.cert_chain_pems[0].write_to_path(str(cert))
    mine.private_key_pem.write_to_path(str(key))
    mine.private_key_and_cert_chain_pem.write_to_path(str(both))
    context = authority.server("127.0.0.1", wants_certificate=True)
    async with serving(echo, tls=context) as served:
        url = f"https://127.0.0.1:{served.port}/a"
        for client_cert, client_key in ((cert, key), (both, None)):
            origin, _ = parse_url(url, authority.ca_file, client_cert=client_cert, client_key=client_key)
            async with client_of(origin) as client:
                assert await said(client) == b"POST /a  x"


@on_both_loops
async def test_a_server_that_does_not_know_us_has_read_nothing(authority: Authority) -> None:
    context = authority.server("127.0.0.1", wants_certificate=True)

    def let_nobody_in(listening: socket.socket) -> None:
        sock, _ = listening.accept()
        with context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) as encrypted:
            with pytest.raises(ssl.SSLError):
                encrypted.do_handshake()
            # Closed with something unread, it would be reset, and the client might not hear why.
            with suppress(ConnectionResetError):
                while os.read(encrypted.fileno(), 65536):
                    pass

    # Not asyncio's TLS: as a server it ends the connection without saying why.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = asyncio.create_task(asyncio.to_thread(let_nobody_in, listening))
        origin, _ = parse_url(f"https://127.0.0.1:{listening.getsockname()[1]}/a", authority.ca_file)
        async with client_of(origin) as client:
            with pytest.raises(NotTrusted, match="does not let us in") as refused:
                await client.request("POST", "/a", [], b"x")
            assert refused.value.code == "not_let_in" and "certificate" in refused.value.hint
        await accepting


def test_files_that_cannot_say_who_we_are(authority: Authority, tmp_path: Path) -> None:
    mine, other = authority.ca.issue_cert("me@example.com"), authority.ca.issue_cert("you@example.com")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    mine.cert_chain_pems[0].write_to_path(str(cert))
    other.private_key_pem.write_to_path(str(key))
    for url, given, code in (
        ("https://x/", (cert, key), "tls_mismatch"),
        ("https://x/", (cert, tmp_path / "none"), "tls_file_unreadable"),
        ("https://x/", (cert, None), "tls_bad_file"),
        ("https://x/", (None, key), "client_cert_unusable"),
        ("http://x/", (cert, key), "client_cert_unusable"),
    ):
        with pytest.raises(UserError) as refused:
            parse_url(url, client_cert=given[0], client_key=given[1])
        assert refused.value.code == code and refused.value.hint


# Redirects -----------------------------------------------------------------------------------


async def test_redirects_within_a_server_are_followed_with_method_and_body() -> None:
    async def script(asked: Asked, _wire: Wire) -> bytes:
        if asked.target == "/mcp":
            return answer(status="307 There", Location="/mcp/")
        if asked.target == "/mcp/":
            return answer(status="308 There", Location=f"http://127.0.0.1:{server.port}/last?a=b")
        return answer(b"done")

    async with raw_server(script) as server, client_of(Origin(host="127.0.0.1", port=server.port)) as client:
        response = await client.request("POST", "/mcp", [(b"Authorization", b"Bearer t")], b"body")
        assert await response.read(BIG) == b"done"
        assert [asked.target for asked in server.requests] == ["/mcp", "/mcp/", "/last?a=b"]
        assert {(asked.method, asked.body, asked.headers["authorization"]) for asked in server.requests} == {
            ("POST", b"body", "Bearer t")
        }
        assert server.connections == 1


@pytest.mark.parametrize(
    ("method", "status", "location"),
    [
        ("POST", "301 Moved", "/x"),
        ("POST", "302 Found", "/x"),
        ("POST", "303 See Other", "/x"),
        ("POST", "307 There", "http://localhost/x"),
        ("GET", "302 Found", "https://127.0.0.1/x"),
    ],
)
async def test_other_redirects_are_answers(method: str, status: str, location: str) -> None:
    async def script(_asked: Asked, _wire: Wire) -> bytes:
        return answer(status=status, Location=location)

    async with raw_server(script) as server, client_of(Origin(host="127.0.0.1", port=server.port)) as client:
        response = await client.request(method, "/mcp", [])
        assert response.status == int(status[:3]) and response.header(b"location") == location.encode()
        response.close()
        assert len(server.requests) == 1


async def test_redirects_in_a_circle_end() -> None:
    async def script(asked: Asked, _wire: Wire) -> bytes:
        return answer(status="307 There", Location="/b" if asked.target == "/a" else "/a")

    async with raw_server(script) as server, client_of(Origin(host="127.0.0.1", port=server.port)) as client:
        response = await client.request("GET", "/a", [])
        assert response.status == 307
        response.close()
        assert len(server.requests) == 1 + ClientLimits().max_redirects


# Why there is no way -------------------------------------------------------------------------


async def code_of(origin: Origin, **limits: Any) -> str:
    async with client_of(origin, **limits) as client:
        with pytest.raises(NotSent) as failed:
            await client.request("POST", "/", [], b"x")
        return failed.value.code


@on_both_loops
async def test_each_reason_has_a_code_of_its_own(authority: Authority, tmp_path: Path) -> None:
    tls = ssl.create_default_context()

    async with serving(echo) as plain:
        gone = plain.port
        assert await code_of(Origin(host="127.0.0.1", port=gone, tls=tls)) == "tls_failed"
    assert await code_of(Origin(host="127.0.0.1", port=gone)) == "refused"
    assert await code_of(Origin(host="no.such.host.invalid", port=1)) == "dns_failed"
    assert await code_of(Origin(host="a" * 70, port=1)) == "dns_failed"
    assert await code_of(Origin(unix=tmp_path / "none")) == "no_such_socket"
    async with serving(echo, tls=authority.server("127.0.0.1")) as served:
        assert await code_of(Origin(host="127.0.0.1", port=served.port, tls=tls)) == "not_trusted"
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        assert (
            await code_of(Origin(host="127.0.0.1", port=port, tls=tls), connect_timeout_s=0.05) == "timeout"
        )


@on_both_loops
async def test_a_connection_that_is_cut_under_the_handshake() -> None:
    def cut(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        cut(reader, writer)

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    tls = ssl.create_default_context()
    assert await code_of(Origin(host="127.0.0.1", port=port, tls=tls)) == "reset"
    server.close()


# Names with several addresses ----------------------------------------------------------------


@contextmanager
def dead(port: int) -> Iterator[tuple[str, int]]:
    """An address where whoever connects hears nothing at all."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.2", port))
        full.listen(0)
        for _ in range(4):  # its queue is full
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()


def lead_to(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    async def found(_host: str, _port: int) -> list[tuple[int, Any]]:
        return [(socket.AF_INET, address) for address in addresses]

    monkeypatch.setattr(client_racing, "_addresses", found)


@on_both_loops
async def test_an_address_that_is_dead_does_not_stand_before_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    async with serving(echo, tls=authority.server(NAME)) as served:
        tls = ssl.create_default_context(cafile=str(authority.ca_file))
        with dead(served.port) as first:
            lead_to(monkeypatch, first, first, ("127.0.0.1", served.port))
            async with client_of(Origin(host=NAME, port=served.port, tls=tls)) as client:
                response = await client.request("POST", "/", [], b"hi")
                assert (await response.read(BIG)).endswith(b"hi")
            lead_to(monkeypatch, ("127.0.0.1", served.port), first)
            async with client_of(Origin(host=NAME, port=served.port, tls=tls)) as client:
                await client.connect()


@on_both_loops
async def test_of_addresses_that_all_fail_the_one_is_told_that_says_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lead_to(monkeypatch, ("240.0.0.1", port), ("127.0.0.1", port), ("127.0.0.2", port))
    assert await code_of(Origin(host=NAME, port=port)) == "refused"


@on_both_loops
async def test_who_stops_waiting_leaves_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    with dead(0) as first:
        lead_to(monkeypatch, first, first, first)
        before = open_descriptors()
        assert await code_of(Origin(host=NAME, port=first[1]), connect_timeout_s=0.6) == "timeout"
        assert open_descriptors().keys() == before.keys()


# Many at once --------------------------------------------------------------------------------


async def test_a_place_is_not_waited_for_for_ever() -> None:
    app = Held()
    async with serving(app) as served:
        origin = Origin(host="127.0.0.1", port=served.port)
        async with client_of(origin, max_connections=1, place_timeout_s=0.05) as client:
            asking = asyncio.ensure_future(client.request("GET", "/", []))
            [exchange] = await app.count(1)
            exchange.start(200, [])
            stream = await asking
            with pytest.raises(NotSent, match="all 1 connections") as refused:
                await client.request("GET", "/", [])
            assert isinstance(refused.value, NoPlace)
            stream.close()
            asking = asyncio.ensure_future(client.request("GET", "/", []))
            echo((await app.count(2))[1])
            (await asking).close()


@on_both_loops
async def test_without_a_descriptor_it_is_we_who_have_no_place() -> None:
    async with serving(Held()) as served:
        origin = Origin(host="127.0.0.1", port=served.port)
        async with client_of(origin) as client:
            with free_descriptors(0), pytest.raises(NoPlace, match="Too many open files"):
                await client.connect()
            await client.connect()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_two_thousand_at_once_keep_to_the_bounds(encrypted: bool, authority: Authority) -> None:
    tls = authority.server("127.0.0.1") if encrypted else None
    most = 0

    async def call(client: Client, n: int) -> None:
        nonlocal most
        response = await client.request("POST", f"/{n}", [], b"x")
        most = max(most, client.connections)
        assert await response.read(BIG) == f"POST /{n}  x".encode()

    async with serving(echo, tls=tls) as served:
        scheme = "https" if encrypted else "http"
        origin, _ = parse_url(f"{scheme}://127.0.0.1:{served.port}/", authority.ca_file)
        async with client_of(origin, max_connections=32, idle_timeout_s=0.2) as client:
            await asyncio.gather(*(call(client, n) for n in range(2000)))
            # Those that wait take over the connections of those that are done: none is made in vain.
            assert most <= 32 and len(served.all_connections) <= 32
            await until(lambda: client.connections <= ClientLimits().max_idle_connections)
            await until(lambda: client.connections == 0)
