"""Every wait and every table of a replica has a bound: what happens beyond each."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.errors import UserError
from mooring.host.options import ReplicaOptions
from mooring.host.replicated import join
from mooring.http.client_errors import NotSent
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.proxy import Proxy
from mooring.proxy.streams import Streams
from mooring.remote.options import RemoteOptions
from mooring.replicas.address import StoreAddress, parse_store_address
from mooring.replicas.event_store import EventStore
from mooring.replicas.forwarding import MAX_WORD_BYTES, Forwarding
from mooring.replicas.holdings import MAX_BACKLOG_BYTES, MOST_ENDED, Holdings, _fitting
from mooring.replicas.link_frames import Kind
from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Keys, Replica, SessionRecord
from mooring.replicas.redis_client import MOST_CONNECTIONS, open_client
from mooring.replicas.seal import Seal
from mooring.replicas.shared_store import SharedStore, Title
from mooring.replicas.store_errors import StoreUnavailable
from mooring.runtimes.containers.spec import ContainerOptions
from mooring.wire.budget import Budget
from mooring.wire.http import Exchange, Head, Request, Response
from tests.hosting import SCRIPTED, Host, hosting
from tests.http_client import Held, serving
from tests.mcp_client import McpClient
from tests.replicas.linked import Scripted
from tests.replicas.stores import Server, running_server
from tests.support import free_port, until, within

RECORD = SessionRecord("local", "streamable-http", "test 1", b"", 1.0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server("redis", tmp_path / "store") as server:
        yield server


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """A port where somebody listens, and never says anything."""
    held: list[asyncio.StreamWriter] = []
    listener = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for writer in held:
            writer.close()
        await listener.wait_closed()


def policy(**bounds: Any) -> ReplicaPolicy:
    return ReplicaPolicy(**bounds)


@asynccontextmanager
async def opened(port: int, wait_s: float = 2.0) -> AsyncIterator[SharedStore]:
    address = StoreAddress("single", (("127.0.0.1", port),))
    store = SharedStore(open_client(address, None, None, wait_s), Keys("mooring", "test"), wait_s)
    try:
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def replica(
    server: Server,
    *,
    argv: Sequence[str] = SCRIPTED,
    remote: RemoteOptions | None = None,
    container: ContainerOptions | None = None,
    spare: int = 1,
    drain_delay_s: float = 0.0,
    max_sessions: int = 1000,
    idle_timeout_s: float | None = 1800.0,
    sessions: Mapping[str, Any] | None = None,
    **bounds: Any,
) -> AsyncIterator[Host]:
    """`sessions`: what else of their policy is not as always."""
    port = free_port()
    options = ReplicaOptions(
        store=parse_store_address(server.url), advertise=f"http://127.0.0.1:{port}", policy=policy(**bounds)
    )
    async with hosting(
        argv,
        remote=remote,
        container=container,
        replicas=options,
        spare=spare,
        listen={"port": port},
        drain_delay_s=drain_delay_s,
        max_sessions=max_sessions,
        idle_timeout_s=idle_timeout_s,
        **(sessions or {}),
    ) as host:
        yield host


@asynccontextmanager
async def forwarding(**bounds: Any) -> AsyncIterator[Forwarding]:
    passing = Forwarding(Seal(b"key", lambda: 0.0), policy(**bounds), lambda: "me")
    try:
        yield passing
    finally:
        await passing.aclose()


async def nothing() -> None:
    pass


class Nobody:
    """No other replica."""

    async def promise_rest(self, replica: Replica, incarnation: str) -> bool:
        return False

    async def holds(self, replica: Replica, incarnation: str) -> bool:
        return False


@asynccontextmanager
async def member(
    store: SharedStore, on_reborn: Callable[[bool], Awaitable[None]], **bounds: Any
) -> AsyncIterator[Membership]:
    """One that has joined."""
    membership = Membership(
        store,
        policy(**bounds),
        Replica("http://127.0.0.1:1"),
        clock=time.monotonic,
        neighbours=Nobody(),
        on_reborn=on_reborn,
        on_look=nothing,
        is_named=lambda name: False,
    )
    await membership.begin()
    try:
        yield membership
    finally:
        await membership.aclose()


# Redis


async def test_a_store_that_says_nothing_is_given_up() -> None:
    async with silent() as port, opened(port, 0.2) as store, within():
        with pytest.raises(StoreUnavailable):
            await store.find("s1")


async def test_whoever_starts_waits_for_it_only_so_long() -> None:
    async with silent() as port, within():
        options = ReplicaOptions(
            store=StoreAddress("single", (("127.0.0.1", port),)),
            advertise="http://127.0.0.1:1",
            policy=policy(start_s=0.3, store_s=0.1),
        )
        with pytest.raises(UserError) as refused:
            await join(options, cast("Proxy", SimpleNamespace(name="test")), lambda exchange: None)
    assert refused.value.code == "sessions_unreachable"


async def test_many_who_ask_at_once_share_its_connections(server: Server) -> None:
    async with opened(server.port) as store:
        await asyncio.gather(*(store.find(f"s{n}") for n in range(20 * MOST_CONNECTIONS)))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"INFO clients\r\n")
        told = (await reader.readuntil(b"connected_clients:") + await reader.readline()).decode()
        writer.close()
    assert int(told.rpartition(":")[2]) <= MOST_CONNECTIONS + 1


# Events


def a_stream(session: str, events: EventStore) -> tuple[Streams, Callable[[], int]]:
    bounds = SessionPolicy()
    streams = Streams(bounds, Budget(10**9, 1), lambda: None, lambda stream: None, events.of(session))
    stream = streams.open(standalone=True)
    return streams, lambda: stream.stored


async def test_events_are_sent_although_nobody_stores_them() -> None:
    async with silent() as port, opened(port) as store, within():
        events = EventStore(store, policy(event_s=0.2))
        streams, stored = a_stream("s1", events)
        stream = next(iter(streams))
        streams.deliver(stream, b"{}", 0.0)
        assert stored() == 0
        await until(lambda: stored() == 1)
        assert events.unstored == 1
        await events.aclose()


async def test_what_waits_to_be_stored_does_not_grow() -> None:
    """After the first batch that could not be stored nothing more waits than the bound."""
    async with silent() as port, opened(port) as store, within():
        events = EventStore(store, policy(event_s=0.2, max_unstored_bytes=1000))
        streams, stored = a_stream("s1", events)
        stream = next(iter(streams))
        for _ in range(5000):  # in batches of 512: without the bound each would be waited for
            streams.deliver(stream, b"x" * 100, 0.0)
        began = asyncio.get_running_loop().time()
        await until(lambda: stored() == 5000)
        assert asyncio.get_running_loop().time() - began < 10 * 0.2
        assert events.unstored == 5000
        await events.aclose()


@pytest.mark.parametrize("has_ended", [False, True])
async def test_the_events_of_a_stream_expire(has_ended: bool, server: Server) -> None:
    spans = {"ended_stream_s": 0.1 if has_ended else 60.0, "open_stream_s": 60.0 if has_ended else 0.1}
    async with opened(server.port) as store, within():
        events = EventStore(store, policy(**spans))
        streams, stored = a_stream("s1", events)
        stream = next(iter(streams))
        streams.deliver(stream, b"{}", 0.0)
        if has_ended:
            events.of("s1").finish(stream)
        await until(lambda: stored() == 1)
        while await store.stream("s1", stream.log.stream) is not None:
            await asyncio.sleep(0.01)
        await events.aclose()


async def test_events_of_one_who_has_no_lease_are_sent_and_not_stored(server: Server) -> None:
    """Another may have its sessions by now, and count on with the same numbers."""
    async with opened(server.port) as store, within():
        events = EventStore(store, policy(), lambda: False)
        streams, stored = a_stream("s1", events)
        stream = next(iter(streams))
        streams.deliver(stream, b"{}", 0.0)
        await until(lambda: stored() == 1)
        assert events.unstored == 1
        assert await store.stream("s1", stream.log.stream) is None
        await events.aclose()


# Its own lease


async def test_to_have_very_many_sessions_again_may_take_longer_than_a_lease(server: Server) -> None:
    """Redis has lost everything: what takes so long happens once."""
    reborn: list[bool] = []

    async def have_all_again(is_empty: bool) -> None:
        reborn.append(is_empty)
        await asyncio.sleep(3.0)

    async with opened(server.port) as store, member(store, have_all_again, lease_s=2.0) as membership:
        await store._client.flushall()
        await until(lambda: reborn)
        await until(lambda: membership.holds() or len(reborn) > 1)
        name = membership.name
        await asyncio.sleep(2 * 2.0)  # in which a lease that was not looked after would have been lost
        assert (reborn, membership.name) == ([True], name)
        assert await store.is_alive(name)


async def test_names_under_which_it_could_not_begin_are_not_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    async def fail(incarnation: str, *_: object) -> None:
        attempts.append(incarnation)
        raise StoreUnavailable("it is full")

    async def nothing_to_do(is_empty: bool) -> None: ...

    async with opened(server.port) as store, member(store, nothing_to_do, lease_s=1.0) as membership:
        first = membership.name
        with monkeypatch.context() as full:
            full.setattr(store, "begin", fail)
            await store._client.flushall()
            await until(lambda: len(attempts) > 5)
            assert membership.names == {first}
        await until(membership.holds)
        assert membership.names == {first, membership.name}


async def test_a_name_whose_beginning_was_confirmed_too_late_is_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_to_do(is_empty: bool) -> None: ...

    async with opened(server.port) as store, member(store, nothing_to_do, lease_s=1.0) as it, within():
        first, begin = it.name, store.begin

        async def begin_late(incarnation: str, at: Replica, lease_s: float) -> None:
            await begin(incarnation, at, lease_s)
            raise StoreUnavailable("no answer")

        with monkeypatch.context() as late:
            late.setattr(store, "begin", begin_late)
            await store._client.delete(store._keys.lease(first))
            await until(lambda: it.name != first and it.holds())
        assert it.names == {first, it.name}


async def test_names_by_which_nothing_is_found_are_not_kept(server: Server) -> None:
    """However often it lapses."""

    async def nothing_to_do(is_empty: bool) -> None: ...

    async with (
        opened(server.port) as store,
        member(store, nothing_to_do, lease_s=1.0, remembered_s=2.0) as membership,
        within(),
    ):
        for _ in range(3):
            former = membership.name
            await store._client.delete(store._keys.lease(former))
            await until(lambda: membership.name != former and membership.holds())  # noqa: B023 - at once
            assert {former, membership.name} <= membership.names
        await until(lambda: membership.names == {membership.name})
        async with within():
            while len(await store.replicas()) > 1:
                await asyncio.sleep(0.02)


# Other replicas


async def test_a_replica_that_cannot_be_connected_to_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:  # its queue is full: further ones are not answered at all
            one.setblocking(False)
            one.connect_ex(address)
        try:
            async with forwarding(connect_s=0.2) as passing, within():
                asked = Request(Head("POST", "/mcp"), b"{}")
                with pytest.raises(NotSent):
                    await passing.send(asked, Replica(f"http://127.0.0.1:{address[1]}"))
        finally:
            for one in crowd:
                one.close()


async def test_only_so_many_connections_to_another_replica() -> None:
    app = Held()
    async with serving(app) as served, forwarding(max_connections=1, connect_s=0.2) as passing, within():
        there, asked = Replica(f"http://127.0.0.1:{served.port}"), Request(Head("POST", "/mcp"), b"{}")
        first = asyncio.create_task(passing.send(asked, there))
        await app.count(1)
        with pytest.raises(NotSent) as refused:
            await passing.send(asked, there)
        assert refused.value.code == "too_busy"
        app.exchanges[0].respond(Response(200))
        (await first).close()


async def test_a_replica_that_says_nothing_holds_nothing() -> None:
    async with silent() as port, forwarding(hold_s=0.2) as passing, within():
        assert not await passing.holds(Replica(f"http://127.0.0.1:{port}"), "it")
        assert not await passing.promise_rest(Replica(f"http://127.0.0.1:{port}"), "me")


async def test_a_replica_that_says_too_much_says_nothing() -> None:
    def talk(exchange: Exchange) -> None:
        exchange.respond(Response(200, b"yes" + b" " * MAX_WORD_BYTES))

    async with serving(talk) as served, forwarding() as passing, within():
        assert not await passing.holds(Replica(f"http://127.0.0.1:{served.port}"), "it")


async def test_a_request_looks_for_its_session_only_so_long(server: Server) -> None:
    """Its owner has a lease, and cannot be reached."""
    async with replica(server, route_s=0.5, look_again_s=0.05) as host, opened(server.port) as store:
        await store.begin("ghost", Replica(f"http://127.0.0.1:{free_port()}"), 60.0)
        await store.open("session-of-a-ghost", "ghost", RECORD, 1.0, 60.0)
        async with McpClient(host.port) as client:
            client.session = "session-of-a-ghost"
            answer = await client.raw("POST", client.request("ping"))
    assert answer.status == 503
    assert "retry-after" in answer.headers
    assert json.loads(answer.body)["error"]["data"]["reason"] == "replica_unreachable"


async def test_only_so_many_look_at_the_same_time(server: Server) -> None:
    async with replica(server, route_s=5.0, max_waiting=2) as host, opened(server.port) as store:
        await store.begin("ghost", Replica(f"http://127.0.0.1:{free_port()}"), 60.0)
        await store.open("session-of-a-ghost", "ghost", RECORD, 1.0, 60.0)
        async with McpClient(host.port) as client:
            client.session = "session-of-a-ghost"
            for _ in range(2):
                await client.send("POST", client.request("ping"))
            async with within():
                while True:
                    answer = await client.raw("POST", client.request("ping"))
                    if json.loads(answer.body)["error"]["data"]["reason"] == "too_many_requests":
                        break
    assert answer.status == 503


async def test_calls_under_way_elsewhere_are_not_among_those_who_look(server: Server) -> None:
    """They may take days. Whoever wants to cancel one must get through."""
    async with (
        replica(server) as owner,
        replica(server, max_waiting=2) as other,
        McpClient(owner.port) as here,
        McpClient(other.port) as client,
    ):
        await here.initialize()
        client.session = here.session
        await client.pid()
        calls = [f"held-{n}" for n in range(4)]
        for id in calls:
            await client.send("POST", client.request("x/hold", {}, id=id))
        async with within():
            while sum(b"x/hold" in line for line in await here.heard()) < len(calls):
                await asyncio.sleep(0.02)
        for id in calls:
            await client.notify("notifications/cancelled", {"requestId": id})


async def test_those_that_come_back_from_a_replica_that_ends_are_not_among_them_either(
    server: Server,
) -> None:
    """They are many at once, have been let in, and are served; and nobody else is refused because of them."""
    ending = Scripted()
    status = 421
    ending.app = lambda exchange: exchange.respond(Response(status))
    async with (
        serving(ending) as there,
        opened(server.port) as store,
        replica(server, lease_s=3.0, max_waiting=2) as host,
        McpClient(host.port) as client,
        McpClient(host.port) as somebody,
    ):
        await store.begin("ghost", Replica(f"http://127.0.0.1:{there.port}"), 60.0)
        await store.open("session-of-a-ghost", "ghost", RECORD, 1.0, 60.0)
        await host_knows(host, 1)
        client.session = "session-of-a-ghost"
        status = 200
        async with within():
            while not ending.opened:
                await client.raw("POST", client.request("ping"))
        peers = [await client.send("POST", client.request("ping")) for _ in range(4)]
        await ending.hears(Kind.CALL, len(peers))
        status = 421
        ending.batch.put(Kind.GOODBYE, 0)
        await until(lambda: there.listener.connections > 1)
        somebody.session = "never-was-a-session"
        async with within():
            assert (await somebody.raw("POST", somebody.request("ping"))).status == 404
        status = 200
        async with within():
            assert [(await peer.answer()).status for peer in peers] == [200] * len(peers)


async def host_knows(host: Host, others: int) -> None:
    async with within(), McpClient(host.port, path="/readyz") as probe:
        while json.loads((await probe.raw("GET")).body)["replicas"]["others"] != others:
            await asyncio.sleep(0.02)


async def test_where_the_sessions_of_others_are_is_remembered_of_some(server: Server) -> None:
    """One that was forgotten is looked for again: nobody notices."""
    async with replica(server) as owner, replica(server, remembered_places=2) as other:
        clients = [McpClient(owner.port) for _ in range(5)]
        try:
            for client in clients:
                await client.initialize()
                client.port = other.port
            for _ in range(2):
                for client in clients:
                    await client.pid()
        finally:
            for client in clients:
                await client.__aexit__()


async def test_replicas_that_are_long_gone_are_forgotten(server: Server) -> None:
    async with opened(server.port) as store, within():
        await store.begin("ghost", Replica("http://127.0.0.1:1"), 0.01)
        async with replica(server, lease_s=1.0, remembered_s=0.1):
            while "ghost" in await store.replicas():
                await asyncio.sleep(0.05)


async def test_a_dead_one_is_taken_over_when_its_lease_has_run_out(server: Server) -> None:
    async with opened(server.port) as store, replica(server) as host, McpClient(host.port) as client:
        await client.initialize()
        place = await store.find(client.session)
        assert place is not None
        await store.begin("ghost", Replica(f"http://127.0.0.1:{free_port()}"), 0.3)
        await store.open("session-of-a-ghost", "ghost", place.record, 1.0, 60.0)
        client.session = "session-of-a-ghost"
        async with within():
            await client.pid()
        taken = await store.find("session-of-a-ghost")
    assert taken is not None
    assert (taken.fence, taken.owner) == (2, place.owner)


async def test_that_a_session_is_used_is_written_down_now_and_then(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, touch_s=0.2) as host,
        McpClient(host.port) as client,
    ):
        await client.initialize()
        first = await store.find(client.session)
        assert first is not None
        async with within():
            while True:
                await client.pid()
                place = await store.find(client.session)
                assert place is not None
                if place.used_at > first.used_at:
                    break


# What is kept


def test_of_a_backlog_the_newest_is_kept() -> None:
    lines = [b"%d" % n + b" " * 1000 for n in range(100)]
    kept = _fitting(lines)
    assert kept == lines[-len(kept) :]
    assert sum(map(len, kept)) <= MAX_BACKLOG_BYTES < sum(map(len, kept)) + 1002


async def test_of_sessions_that_ended_while_nobody_could_be_told_some_are_remembered() -> None:
    proxy = cast("Proxy", SimpleNamespace(clock=lambda: 0.0))
    holdings = Holdings(proxy, cast(Any, None), cast(Any, None), policy(), wall=lambda: 0.0)
    for n in range(MOST_ENDED + 10):
        session = cast(Any, SimpleNamespace(id=str(n)))
        holdings._held[session.id] = cast(Any, SimpleNamespace(title=Title("a", 1)))
        holdings.ended(session)
    assert len(holdings._ended) == MOST_ENDED
    assert "0" not in holdings._ended


async def test_a_client_whose_session_cannot_be_made_known_is_told_so_whatever_went_wrong() -> None:
    proxy = cast("Proxy", SimpleNamespace(clock=lambda: 0.0))
    holdings = Holdings(proxy, cast(Any, None), cast(Any, None), policy(), wall=lambda: 0.0)
    told: list[Any] = []
    with pytest.raises(AttributeError):  # there is nobody to make it known to
        await holdings._register(cast(Any, SimpleNamespace(id="1")), told.append)
    assert [error.code for error in told] == ["internal"]
