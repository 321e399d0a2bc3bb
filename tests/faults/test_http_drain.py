"""A drain loses nothing that a peer could have thought accepted."""

import asyncio
import socket
import ssl

import pytest
import trustme

from mooring.http.limits import Limits
from mooring.wire.http import Exchange, Response
from tests.http_client import Held, Peer, Served, echo, get, post, serving
from tests.support import on_both_loops, until, within

ROUNDS = 10


@on_both_loops
async def test_announced_drain_closes_after_answers_but_still_accepts() -> None:
    async with serving(echo) as served:
        before = await served.peer()
        assert "connection" not in (await before.get()).headers
        served.listener.announce_drain()
        after = await served.peer()
        for peer in (before, after):
            answer = await peer.get()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await peer.at_end()
        big = await served.peer()
        big.send(post(b"x" * 100_000))
        assert (await big.answer()).headers["connection"] == "close"


@on_both_loops
async def test_requests_in_flight_finish() -> None:
    held = Held()
    async with serving(held) as served:
        peers = [await served.peer() for _ in range(ROUNDS)]
        for peer in peers:
            peer.send(get("/a") + get("/b"))
        await held.count(2 * ROUNDS)
        unfinished = await served.peer()
        unfinished.send(post(b"hello")[:-3])
        await until(lambda: any(connection._reader.state for connection in served.all_connections))
        served.listener.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            await served.peer()
        unfinished.send(b"llo")
        await held.count(2 * ROUNDS + 1)
        for exchange in held.exchanges:
            exchange.respond(Response(200, exchange.request.path.encode()))
        for peer in peers:
            first, second = await peer.answer(), await peer.answer()
            assert (first.body, second.body) == (b"/a", b"/b")
            assert "connection" not in first.headers
            assert second.headers["connection"] == "close"
            assert await peer.at_end()
        assert (await unfinished.answer()).headers["connection"] == "close"
        await served.listener.wait_drained()


@on_both_loops
async def test_a_connection_without_a_request_may_still_send_its_first() -> None:
    async with serving(echo) as served:
        peers = [await served.peer() for _ in range(ROUNDS)]
        await until(lambda: served.listener.connections == ROUNDS)
        silent = await served.peer()
        served.listener.stop_accepting(spread_s=0.0)
        for peer in peers:
            answer = await peer.get()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await peer.at_end()
        assert await silent.at_end()
        await served.listener.wait_drained()


@on_both_loops
async def test_idle_connections_are_served_until_their_turn_comes() -> None:
    clock = [0.0]
    async with serving(echo, limits=Limits(linger_timeout_s=0.04), clock=lambda: clock[0]) as served:
        peers = [await served.peer() for _ in range(ROUNDS)]
        for peer in peers:
            assert (await peer.get()).status == 200
        served.listener.stop_accepting(spread_s=10.0)
        assert [int(moment) for moment in _moments(served)] == list(range(ROUNDS))
        for peer in peers[::2]:
            answer = await peer.get()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await peer.at_end()
        assert served.listener.connections == ROUNDS // 2
        for gone in range(1, ROUNDS // 2 + 1):
            clock[0] = max(clock[0], _moments(served)[0])
            await until(lambda gone=gone: served.listener.connections == ROUNDS // 2 - gone)  # type: ignore[misc]
        for peer in peers[1::2]:
            assert await peer.at_end()
        await served.listener.wait_drained()


def _moments(served: Served) -> list[float]:
    """When idle connections will be closed, soonest first."""
    return sorted(connection.waits.close_at or 0.0 for connection in served.all_connections)


@on_both_loops
async def test_a_request_that_has_arrived_unread_wins_against_the_close() -> None:
    async with serving(echo) as served:
        peer = await served.peer()
        await peer.get()
        connection = served.connection
        served.listener.stop_accepting(spread_s=0.0)
        with socket.socket(fileno=_dup(peer)) as raw:
            raw.send(get("/late"))
            # Its moment has come, and the loop has not turned since the request arrived.
            connection.close_by(0.0)
            connection.sweep(served.listener._house.clock())
        assert (await peer.answer()).body == b"GET /late  "
        assert await peer.at_end()


def _dup(peer: Peer) -> int:
    fd: int = socket.dup(peer.writer.get_extra_info("socket").fileno())
    return fd


@on_both_loops
async def test_the_backlog_is_served() -> None:
    """200 connections that the kernel has accepted and we have not: each gets its answer."""
    async with serving(echo) as served:
        clients = []
        for number in range(200):
            client = socket.create_connection(("127.0.0.1", served.port))
            if number % 2:
                client.send(get(f"/{number}"))
            clients.append(client)
        # The loop has not turned: all of them are still in the backlog.
        assert served.listener.connections == 0
        served.listener.stop_accepting()
        assert served.listener.connections == 200
        drained = asyncio.ensure_future(served.listener.wait_drained())
        await asyncio.sleep(0)
        assert not drained.done()
        for number in range(0, 200, 2):
            clients[number].send(get(f"/{number}"))
        for number, client in enumerate(clients):
            reader, writer = await asyncio.open_connection(sock=client)
            peer = Peer(reader, writer)
            answer = await peer.answer()
            assert (answer.body, answer.headers["connection"]) == (b"GET /%d  " % number, "close")
            assert await peer.at_end()
            await peer.aclose()
        await drained


@on_both_loops
async def test_a_tls_handshake_under_way_is_a_connection() -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = authority.issue_cert("localhost", key_type=trustme.KeyType.ECDSA)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    issued.configure_cert(server)
    authority.configure_trust(client)
    async with serving(echo, tls=server) as served:
        raw = socket.create_connection(("127.0.0.1", served.port))
        raw.setblocking(False)
        served.listener.stop_accepting()
        await asyncio.sleep(0)
        assert served.listener.connections == 1
        drained = asyncio.ensure_future(served.listener.wait_drained())
        reader, writer = await asyncio.open_connection(sock=raw, ssl=client, server_hostname="localhost")
        peer = Peer(reader, writer)
        answer = await peer.get()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await peer.at_end()
        await peer.aclose()
        await drained


@on_both_loops
async def test_a_peer_that_does_not_end_tls_is_cut_with_the_listener_and_costs_only_itself() -> None:
    authority, trust = trustme.CA(key_type=trustme.KeyType.ECDSA), ssl.create_default_context()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(server)
    authority.configure_trust(trust)
    limits = Limits(linger_timeout_s=0.05, keep_alive_timeout_s=0.1, write_stall_timeout_s=3600.0)
    async with within():
        async with serving(echo, tls=server, limits=limits) as served:
            silent = [await served.peer(tls=trust) for _ in range(3)]
            for peer in silent:
                assert (await peer.get()).status == 200
                peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: all(one._transport.is_closing() for one in served.all_connections))
            await asyncio.sleep(0.3)  # for longer than it is lingered
            another = await served.peer(tls=trust)
            assert (await another.get()).status == 200
            assert await another.at_end(), "it is looked at like any other"
            served.listener.stop_accepting()
            await served.listener.aclose()
        assert served.listener.connections == 0


@on_both_loops
async def test_a_thousand_streams_are_ended_by_the_app() -> None:
    held = Held()
    async with serving(held) as served:
        peers = []
        for _ in range(1000):
            peer = await served.peer()
            peer.send(get("/stream"))
            peers.append(peer)
        for exchange in await held.count(1000):
            exchange.start(200, [(b"content-type", b"text/event-stream")])
        for peer in peers:
            await peer.head()
        served.listener.stop_accepting(spread_s=0.2)
        assert served.listener.connections == 1000
        for number, exchange in enumerate(held.exchanges):
            exchange.write(b"id: %d\n\n" % number)
            exchange.end()
        for number, peer in enumerate(peers):
            assert [chunk async for chunk in peer.chunks()] == [b"id: %d\n\n" % number]
        # A client may come back on the same connection before its turn to close comes.
        assert held.gone == []
        for peer in peers:
            assert await peer.at_end()
        await served.listener.wait_drained()


@on_both_loops
async def test_a_stream_is_not_touched_by_a_drain() -> None:
    held = Held()
    async with serving(held, limits=Limits(first_request_grace_s=0.04, keep_alive_timeout_s=0.1)) as served:
        peer, idle = await served.peer(), await served.peer()
        peer.send(get())
        [exchange] = await held.count(1)
        exchange.start(200, [])
        await peer.head()
        served.listener.stop_accepting(spread_s=0.01)
        served.listener.stop_accepting(spread_s=0.01)
        assert await idle.at_end()
        exchange.write(b"still here")
        assert await anext(peer.chunks()) == b"still here"
        served.listener.abort()
        await held.count_gone(1)
        await served.listener.wait_drained()


@on_both_loops
async def test_abort_and_close_at_any_moment() -> None:
    held = Held()

    def app(exchange: Exchange) -> None:
        held(exchange)

    async with serving(app) as served:
        clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
        peer = await served.peer()
        peer.send(get())
        await held.count(1)
        late = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
        served.listener.stop_accepting()  # the late ones are on their way
        await served.listener.aclose()
        assert served.listener.connections == 0
        assert len(held.gone) == 1
        await served.listener.aclose()
        for client in clients + late:
            client.close()


def knock(port: int, answers: list[bytes]) -> None:
    """Connect, ask, and again, until refused. A connection that is reset raises."""
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            return
        with sock:
            sock.sendall(get("/", "Connection: close\r\n"))
            answers.append(sock.recv(12))


@on_both_loops
async def test_no_connection_is_reset_by_the_end_of_listening() -> None:
    """Peers that knock all the time: whoever gets a connection gets an answer, the others are refused."""
    for _ in range(30):
        async with serving(echo) as served, within(60):
            answers: list[bytes] = []
            knocking = [asyncio.create_task(asyncio.to_thread(knock, served.port, answers)) for _ in range(4)]
            while len(answers) < 20:
                await asyncio.sleep(0)
            served.listener.stop_accepting(0.01)
            await asyncio.gather(*knocking)
            assert set(answers) == {b"HTTP/1.1 200"}
