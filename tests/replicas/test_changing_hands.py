"""A session goes from replica to replica: who has it afterwards, and what its calls and streams are told."""

import asyncio
import json
import time

import pytest

from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.shared_store import Event
from mooring.wire.sse import EventDecoder
from tests.mcp_client import McpClient
from tests.raw_server import Asked, Wire, answer, raw_server
from tests.replicas.stores import Server
from tests.replicas.test_bounds import Nobody, forwarding, nothing, opened, replica, server
from tests.replicas.test_releasing import HELLO
from tests.support import within

__all__ = ["server"]


async def test_one_without_room_leaves_a_session_to_others(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, max_sessions=1) as full,
        replica(server) as other,
        McpClient(full.port) as first,
        McpClient(other.port) as client,
    ):
        await first.initialize()
        await client.initialize()
        held = await store.find(client.session)
        assert held is not None
        await store.begin("ghost", Replica("http://127.0.0.1:1"), 0.01)
        await store.open("session-of-a-ghost", "ghost", held.record, 1.0, 60.0)
        client.session, client.port = "session-of-a-ghost", full.port
        refused = await client.raw("POST", client.request("ping"))
        assert refused.status == 503
        assert json.loads(refused.body)["error"]["data"]["reason"] == "too_many_sessions"
        client.port = other.port
        assert (await client.raw("POST", client.request("ping"))).status == 200


async def test_a_session_that_gives_way_goes_on_elsewhere_though_redis_had_lost_it(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, max_sessions=1, idle_timeout_s=0.05, lease_s=3.0) as full,
        replica(server, lease_s=3.0) as other,
        McpClient(full.port) as client,
        McpClient(full.port) as newcomer,
        within(),
    ):
        await client.initialize()
        assert await store._client.delete(store._keys.session(client.session)) == 1
        # It gives way when it sleeps.
        while (await newcomer.raw("POST", newcomer.request("initialize", HELLO))).status == 503:
            await asyncio.sleep(0.02)
        client.port = other.port
        while (answered := await client.raw("POST", client.request("ping"))).status == 503:
            await asyncio.sleep(0.02)
        assert answered.status == 200


@pytest.mark.parametrize("lost", ["epoch", "replicas"])
async def test_what_redis_has_lost_alone_is_told_again(lost: str, server: Server) -> None:
    """Otherwise every session that is not there might be one that it has lost."""

    async def reborn(is_empty: bool) -> None:
        raise AssertionError("it has its lease")

    async with opened(server.port) as store:
        policy = ReplicaPolicy(lease_s=1.0)
        member = Membership(
            store,
            policy,
            Replica("http://127.0.0.1:1"),
            clock=time.monotonic,
            neighbours=Nobody(),
            on_reborn=reborn,
            on_look=nothing,
            is_named=lambda name: False,
        )
        await member.begin()
        try:
            await store._client.delete(getattr(store._keys, lost))
            async with within():
                while await member.is_refilling() or member.name not in await store.replicas():
                    await asyncio.sleep(0.02)
            assert member.holds()
        finally:
            await member.aclose()


async def test_the_key_of_replicas_is_told_again(server: Server) -> None:
    """Whoever comes after Redis has lost it alone would make another, and believe nobody."""
    async with opened(server.port) as store, replica(server, lease_s=1.0):
        kept = await store.known_secret()
        assert kept is not None
        await store._client.delete(store._keys.secret)
        async with within():
            while (told := await store.known_secret()) is None:
                await asyncio.sleep(0.02)
        assert told == kept


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "401 Unauthorized"])
async def test_questions_to_others_take_no_place_for_ever(status: str) -> None:
    async def script(_: Asked, __: Wire) -> bytes:
        return answer(b"no", status)

    async with raw_server(script) as other, forwarding() as asking, within():
        there = Replica(f"http://127.0.0.1:{other.port}")
        for _ in range(5):
            assert not await asking.holds(there, "it")
        client = asking._client(there)
        assert client._places.taken == 0
        assert client.connections <= 1


async def test_those_that_are_just_being_asked_are_not_forgotten() -> None:
    async def script(_: Asked, __: Wire) -> bytes:
        return answer(b"yes")

    async with raw_server(script) as one, raw_server(script) as two, raw_server(script) as three, within():
        places = [Replica(f"http://127.0.0.1:{other.port}") for other in (one, two, three)]
        async with forwarding() as asking:
            assert all(await asyncio.gather(*(asking.holds(place, "it") for place in places)))
            clients = [asking._client(place) for place in places]
        assert [client.connections for client in clients] == [0, 0, 0]
        assert [other.connections for other in (one, two, three)] == [1, 1, 1]


@pytest.mark.parametrize("seen", [1, 2, 3, 9])
async def test_a_client_that_has_seen_what_was_not_stored_is_told_of_its_call(
    seen: int, server: Server
) -> None:
    """Two events were stored; those behind them were sent all the same. Their numbers are nobody else's."""
    async with opened(server.port) as store, replica(server) as host, McpClient(host.port) as client:
        await client.initialize()
        place = await store.find(client.session)
        assert place is not None
        await store.begin("ghost", Replica("http://127.0.0.1:1"), 0.01)
        session, stream = "session-of-a-ghost", "abc"
        await store.open(session, "ghost", place.record, 1.0, 60.0)
        begun = Event(session, stream, 0, b"", json.dumps(["cut"]))
        events = [Event(session, stream, n, b'{"n":%d}' % n) for n in (1, 2)]
        await store.append([begun, *events], [], 60.0)
        client.session = session
        resumed = await client.raw("GET", Last_Event_ID=f"{stream}-{seen}")
        assert resumed.status == 200
        told = [json.loads(event.data) for event in EventDecoder().feed(resumed.body) if event.data]
        assert [one["n"] for one in told if "n" in one] == [n for n in (1, 2) if n > seen]
        [error] = [one for one in told if "error" in one]
        assert (error["id"], error["error"]["data"]["reason"]) == ("cut", "replica_lost")
