"""Where a listener listens, and what it says when it cannot."""

import asyncio
import errno
import os
import resource
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import trustme

from mooring.errors import ListenFailed, UserError
from mooring.http import sockets
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.neighbours import Neighbours
from mooring.http.tls import server_context
from mooring.wire.http import Exchange, Response
from tests.http_client import Served, echo, get, serving
from tests.support import on_both_loops, open_descriptors, until, within


@on_both_loops
async def test_a_name_with_several_addresses_gets_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def two(host: str, port: int, **options: Any) -> list[Any]:
        assert host == "both.test"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port)),
        ]

    class Loop:
        getaddrinfo = staticmethod(two)

    monkeypatch.setattr("mooring.http.sockets.asyncio.get_running_loop", Loop)
    served = Served(Listener(echo))
    try:
        made = asyncio.ensure_future(sockets.listen_tcp("both.test", 0, 10), loop=loop)
        found = await made
        monkeypatch.undo()
        names = [sock.getsockname()[:2] for sock in found]
        assert [name for name, _ in names] == ["127.0.0.1", "::1"]
        assert len({port for _, port in names}) == 1
        assert found[1].getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
        for sock in found:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
            sock.close()
    finally:
        await served.aclose()


@on_both_loops
async def test_ipv6_and_several_listeners() -> None:
    served = Served(Listener(echo))
    try:
        [(host, port)] = await served.listener.listen_tcp("::1", 0)
        [(_, second)] = await served.listener.listen_tcp("127.0.0.1", 0)
        assert served.listener.addresses == [f"[::1]:{port}", f"127.0.0.1:{second}"]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(get("/six"))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
        assert (await (await served.peer(second)).get("/four")).body == b"GET /four  "
    finally:
        await served.aclose()
    assert served.listener.addresses == []
    await served.listener.aclose()


@on_both_loops
async def test_taken_port_names_its_owner() -> None:
    async with serving(echo) as served:
        other = Listener(echo)
        before = open_descriptors()
        with pytest.raises(ListenFailed) as failure:
            await other.listen_tcp("127.0.0.1", served.port)
        assert failure.value.code == "port_taken"
        assert "by this process itself" in failure.value.message
        assert "--port" in failure.value.hint
        assert open_descriptors() == before
        await other.aclose()


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("no-such-host.invalid", "unknown_host"),
        ("192.0.2.1", "address_not_available"),
        ("a" * 70, "unknown_host"),
    ],
)
@on_both_loops
async def test_unusable_hosts(host: str, code: str) -> None:
    listener = Listener(echo)
    with pytest.raises(ListenFailed) as failure:
        await listener.listen_tcp(host, 0)
    assert failure.value.code == code
    assert host in failure.value.message
    await listener.aclose()


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EACCES, "permission_denied"), (errno.EADDRINUSE, "port_taken"), (errno.ENOBUFS, "listen_failed")],
)
@on_both_loops
async def test_bind_failures(number: int, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: socket.socket, address: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", fail)
    with pytest.raises(ListenFailed) as failure:
        await sockets.listen_tcp("127.0.0.1", 0, 10)
    assert failure.value.code == code


@on_both_loops
async def test_cancelled_while_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(echo)
    listening = asyncio.ensure_future(listener.listen_tcp("localhost", 0))
    await asyncio.sleep(0)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert listener.addresses == []
    await listener.aclose()


@on_both_loops
async def test_stopped_while_resolving() -> None:
    listener = Listener(echo)
    listening = asyncio.ensure_future(listener.listen_tcp("localhost", 0))
    await asyncio.sleep(0)
    await listener.aclose()
    with pytest.raises(ListenFailed) as failure:
        await listening
    assert failure.value.code == "stopped"
    assert listener.addresses == []


@on_both_loops
async def test_accepted_sockets_send_at_once_and_notice_dead_peers() -> None:
    async with serving(echo) as served:
        await (await served.peer()).get()
        sock = served.connection._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert repr(served.connection).startswith("<Connection of 127.0.0.1:")


@on_both_loops
async def test_all_interfaces() -> None:
    served = Served(Listener(echo))
    try:
        bound = await served.listener.listen_tcp("", 0)
        assert "0.0.0.0" in {host for host, _ in bound}
        assert (await (await served.peer(bound[0][1])).get()).status == 200
    finally:
        await served.aclose()


@on_both_loops
async def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    seen: list[str] = []

    def app(exchange: Exchange) -> None:
        seen.append(exchange.request.peer)
        echo(exchange)

    served = Served(Listener(app))
    try:
        await served.listener.listen_unix(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert served.listener.addresses == [str(path)]
        assert (await (await served.unix_peer(path)).get("/u")).body == b"GET /u  "
        assert seen == ["unix"]
        with pytest.raises(ListenFailed) as failure:
            await Listener(app).listen_unix(path)
        assert failure.value.code == "socket_taken"
    finally:
        await served.aclose()
    assert not path.exists()


@on_both_loops
async def test_stale_unix_socket_is_replaced_and_a_foreign_one_is_left(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listener = Listener(echo)
    await listener.listen_unix(path)
    path.unlink()
    path.write_text("somebody else's")
    await listener.aclose()
    assert path.read_text() == "somebody else's"
    with pytest.raises(ListenFailed) as failure:
        await listener.listen_unix(path)
    assert failure.value.code == "not_a_socket"


@on_both_loops
async def test_unusable_unix_paths(tmp_path: Path) -> None:
    listener = Listener(echo)
    for path, code in ((tmp_path / ("x" * 120), "path_too_long"), (tmp_path / "no" / "dir", "listen_failed")):
        with pytest.raises(ListenFailed) as failure:
            await listener.listen_unix(path)
        assert failure.value.code == code
    await listener.aclose()


@on_both_loops
async def test_too_many_connections_get_a_503_asked_or_unasked(caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(max_connections=2, max_overflow_connections=1, first_request_grace_s=0.1)
    clock = [0.0]
    async with serving(echo, limits=limits, clock=lambda: clock[0]) as served:
        first, second = await served.peer(), await served.peer()
        assert (await first.get()).status == 200
        assert (await second.get()).status == 200
        third = await served.peer()
        answer = await third.get()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert await third.at_end()
        silent = await served.peer()
        for _ in range(100):
            fourth = await served.peer()
            assert await fourth.answer() == answer._replace(headers=ANY)
            assert await fourth.at_end()
        clock[0] += 1
        assert await silent.at_end()
        assert (await first.get()).status == 200
        assert served.listener.refused == 102
        assert len(caplog.messages) == 1, "one line for all of them"


@on_both_loops
async def test_an_overflow_connection_is_given_no_leave_for_a_second_request() -> None:
    async with serving(echo, limits=Limits(max_connections=0)) as served:
        peer = await served.peer()
        peer.send(get() + b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        assert (await peer.answer()).status == 503
        assert await peer.at_end()


@contextmanager
def descriptors_left(number: int) -> Iterator[None]:
    """So many can be opened, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = open_descriptors()
    free = (at for at in range(soft) if at not in taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (list(islice(free, number))[-1] + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Accepts:
    """Counts the calls of accept, and makes some fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: OSError) -> None:
        self.count = 0
        self.failures = list(failures)
        real = socket.socket.accept

        def accept(sock: socket.socket) -> Any:
            self.count += 1
            if self.failures:
                raise self.failures.pop(0)
            return real(sock)

        monkeypatch.setattr(socket.socket, "accept", accept)


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@on_both_loops
async def test_beyond_the_descriptor_limit_peers_are_refused_and_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo) as served, within():
        worker = await served.peer()
        assert (await worker.get()).status == 200
        accepts = Accepts(monkeypatch)
        crowd = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
        with descriptors_left(10):
            await until(lambda: served.listener.refused == 40)
            assert served.listener.connections == 11
            assert (await worker.get()).status == 200
        assert accepts.count <= 100, "one for each, and one more with the spare descriptor"
        assert len(caplog.messages) == 1, "one line for all of them"
        for sock in crowd[10:]:
            answer = await asyncio.to_thread(_read_all, sock)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nconnection: close\r\n" in answer
        for sock in crowd[:10]:
            sock.sendall(get(extra="Connection: close\r\n"))
            assert (await asyncio.to_thread(_read_all, sock)).startswith(b"HTTP/1.1 200 ")
        assert (await (await served.peer()).get()).status == 200


def _read_all(sock: socket.socket) -> bytes:
    with sock:
        return b"".join(iter(lambda: sock.recv(4096), b""))


@on_both_loops
async def test_accepting_pauses_where_not_even_a_refusal_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> list[OSError]:
        return [OSError(errno.EMFILE, "too many"), OSError(errno.EMFILE, "the spare one has gone too")]

    async with serving(echo) as served:
        accepts = Accepts(monkeypatch, *none_left(), ConnectionAbortedError())
        peer = await served.peer()
        assert (await peer.get()).status == 200
        assert accepts.count <= 5, "it does not spin"
        accepts.failures += none_left()
        peer = await served.peer()
        connecting = asyncio.ensure_future(peer.get())
        await until(lambda: not accepts.failures)
        accepts.failures += none_left()
        served.listener.stop_accepting()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await connecting


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


def files(authority: trustme.CA, directory: Path) -> tuple[Path, Path]:
    issued = authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.ECDSA)
    directory.mkdir(exist_ok=True)
    cert, key = directory / "cert.pem", directory / "key.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return cert, key


@on_both_loops
async def test_tls(authority: trustme.CA, tmp_path: Path) -> None:
    seen: list[bool] = []
    held: list[Exchange] = []
    gone = asyncio.Event()

    def app(exchange: Exchange) -> None:
        seen.append(exchange.request.tls)
        if exchange.request.path == "/held":
            exchange.on_disconnect = gone.set
            held.append(exchange)
        elif exchange.request.path == "/big":
            exchange.respond(Response(200, b"x" * 1_000_000))
        else:
            echo(exchange)

    client = ssl.create_default_context()
    authority.configure_trust(client)
    client.set_alpn_protocols(["h2", "http/1.1"])
    limits = Limits(linger_timeout_s=0.2, handshake_timeout_s=0.5, max_body_bytes=100)
    async with serving(app, limits=limits, tls=server_context(*files(authority, tmp_path))) as served:
        peer = await served.peer(tls=client, server_hostname="localhost")
        assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert (await peer.get("/t")).body == b"GET /t  "
        assert len((await peer.get("/big")).body) == 1_000_000
        assert seen == [True, True]
        # A refusal reaches a peer that is still sending.
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n" + b"x" * 50)
        assert (await peer.answer()).status == 413
        # Plain HTTP on a TLS port, and a peer that never speaks: neither is left.
        plain = await served.peer()
        plain.send(get())
        await plain.reader.read()
        silent = await served.peer()
        await silent.reader.read()
        # A slow reader gets all of a last answer.
        peer = await served.peer(tls=client, server_hostname="localhost", limit=1024)
        peer.send(get("/big", extra="Connection: close\r\n"))
        assert len((await peer.answer()).body) == 1_000_000
        # There is no half-closed TLS: a peer that leaves is gone.
        peer = await served.peer(tls=client, server_hostname="localhost")
        peer.send(get("/held"))
        while not held:
            await asyncio.sleep(0)
        peer.writer.close()
        await gone.wait()


@on_both_loops
@pytest.mark.parametrize("is_tls", [False, True])
async def test_no_one_place_has_all_the_room(authority: trustme.CA, tmp_path: Path, is_tls: bool) -> None:
    """Who asks for nothing makes room for whoever comes next from there, also before TLS has begun."""
    held: list[Exchange] = []

    def app(exchange: Exchange) -> None:
        if exchange.request.path == "/held":
            held.append(exchange)
        else:
            echo(exchange)

    server: ssl.SSLContext | None = None
    dialling: dict[str, Any] = {}
    if is_tls:
        server, client = server_context(*files(authority, tmp_path)), ssl.create_default_context()
        authority.configure_trust(client)
        dialling = {"tls": client, "server_hostname": "localhost"}
    neighbours = Neighbours(3, lambda address: address)
    async with within(), serving(app, tls=server, neighbours=neighbours) as served:
        asked = await served.peer(**dialling)
        asked.send(get("/held"))
        await until(lambda: held)
        idle = await served.peer(**dialling)
        assert (await idle.get("/")).status == 200
        silent = [await served.peer() for _ in range(4)]
        await until(lambda: served.listener.refused == 2)
        # Three besides the one that has asked: the first ones went.
        assert await idle.at_end() and await silent[0].at_end()
        other = await served.peer(local_addr=("127.0.0.2", 0))
        await until(lambda: served.listener.connections == 5)
        assert served.listener.refused == 2, "elsewhere there are others"
        newcomer = await served.peer(**dialling)
        assert (await newcomer.get("/")).status == 200 and await silent[1].at_end()
        held[0].respond(Response(200, b"done"))
        assert (await asked.answer()).body == b"done"
        for peer in (silent[2], silent[3], other):
            assert not peer.reader.at_eof()
            peer.writer.close()


def test_bad_tls_files(authority: trustme.CA, tmp_path: Path) -> None:
    cert, key = files(authority, tmp_path)
    other_cert, other_key = files(authority, tmp_path / "other")
    text = tmp_path / "text"
    text.write_text("hello")
    damaged = tmp_path / "damaged"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    encrypted = tmp_path / "encrypted"
    from cryptography.hazmat.primitives import serialization

    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    encrypted.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for given_cert, given_key, code, named in (
        (tmp_path / "missing", key, "tls_file_unreadable", "missing"),
        (cert, tmp_path / "missing", "tls_file_unreadable", "missing"),
        (cert, tmp_path, "tls_file_unreadable", "private key"),
        (cert, other_key, "tls_mismatch", "does not belong"),
        (text, key, "tls_bad_file", "text is not a PEM certificate"),
        (cert, text, "tls_bad_file", "text is not a PEM private key"),
        (damaged, key, "tls_bad_file", "damaged"),
        (cert, encrypted, "tls_key_encrypted", "encrypted"),
    ):
        with pytest.raises(UserError) as error:
            server_context(given_cert, given_key)
        assert error.value.code == code
        assert named in error.value.message
        assert error.value.hint
    server_context(other_cert, other_key)
