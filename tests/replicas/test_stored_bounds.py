"""What is kept of a stream in Redis has the bound of its session, and who asks for more than that is told."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from mooring.host.options import ReplicaOptions
from mooring.replicas.address import parse_store_address
from mooring.replicas.event_store import MOST_FORGOTTEN, EventStore
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.shared_store import Event, SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from tests.e2e.replicas.test_resuming import numbered
from tests.hosting import SCRIPTED, Host, hosting
from tests.mcp_client import McpClient, Stream, emission
from tests.replicas.stores import Server
from tests.replicas.test_bounds import a_stream, opened, policy, server
from tests.replicas.test_releasing import knows_another
from tests.support import free_port, until, within

__all__ = ["server"]

EVENTS = 200
KEPT_BYTES = 2000
MOST_KEPT = 25
"""Events, each of about 90 bytes, in so many; and one that says which calls the stream answers."""


@asynccontextmanager
async def forgetful(server: Server) -> AsyncIterator[Host]:
    """A replica that keeps little for clients that come back."""
    port = free_port()
    options = ReplicaOptions(
        store=parse_store_address(server.url),
        advertise=f"http://127.0.0.1:{port}",
        policy=ReplicaPolicy(lease_s=3.0),
    )
    async with hosting(SCRIPTED, replicas=options, listen={"port": port}, retained_bytes=KEPT_BYTES) as host:
        yield host


async def kept(store: SharedStore, session: str, stream: str, last: int) -> list[int]:
    """The numbers of events in Redis, when the last one is there, and no more than may be."""
    async with within():
        while True:
            entries: Any = await store._client.xrange(store._keys.stream(session, stream))
            numbers = [int(id.partition(b"-")[0]) for id, fields in entries if b"d" in fields]
            if numbers[-1:] == [last] and len(entries) <= MOST_KEPT:
                return numbers
            await asyncio.sleep(0.02)


async def position_of(stream: Stream) -> str:
    """The first on it; its client is gone then."""
    event = await stream.event()
    assert event is not None
    stream.reset()
    return event.id


def name_in(position: str) -> str:
    return position.partition("-")[0]


async def test_the_oldest_events_of_a_stream_are_forgotten_and_who_asks_for_them_is_told(
    server: Server,
) -> None:
    async with (
        opened(server.port) as store,
        forgetful(server) as other,
        forgetful(server) as owner,
        McpClient(owner.port) as client,
    ):
        await knows_another(owner)
        await client.initialize()
        first = await position_of(await client.stream())
        await say(client, *range(EVENTS))
        numbers = await kept(store, client.session, name_in(first), EVENTS)
        assert numbers == list(range(numbers[0], EVENTS + 1))
        assert numbers[0] > 1
        assert await owner.end() == 0
        client.port = other.port
        resumed = await client.stream(Last_Event_ID=first)
        heard = [(await resumed.message())["params"]["data"] + 1 for _ in numbers]
        assert heard == numbers
        lost = await other.logged("events_lost")
        assert lost.levelname == "WARNING"
        resumed.reset()


async def say(client: McpClient, *numbers: int) -> None:
    """To whoever listens: who asks for it cannot take a stream."""
    body = client.request("x/emit", emission(*numbered(numbers)))
    assert (await client.raw("POST", body, Accept="application/json")).status == 200


async def test_what_is_forgotten_while_redis_takes_nothing_is_forgotten_there_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = SharedStore.append
    refused = 0

    async def refuse(store: SharedStore, *args: Any) -> None:
        nonlocal refused
        refused += 1
        raise StoreUnavailable("it is full")

    async with opened(server.port) as store, forgetful(server) as host, McpClient(host.port) as client:
        await client.initialize()
        name = name_in(await position_of(await client.stream()))
        await say(client, *range(10))
        assert await kept(store, client.session, name, 10) == list(range(1, 11))
        monkeypatch.setattr(SharedStore, "append", refuse)
        await say(client, *range(10, EVENTS))
        await until(lambda: refused)
        monkeypatch.setattr(SharedStore, "append", append)
        await say(client, EVENTS)
        await say(client, EVENTS + 1)
        assert (await kept(store, client.session, name, EVENTS + 2))[0] > 10


async def test_of_a_call_whose_first_events_are_forgotten_it_is_known_which_it_is(server: Server) -> None:
    """Its replica is lost: whoever comes back to its stream is told so, as with every other."""
    async with opened(server.port) as store, forgetful(server) as host, McpClient(host.port) as client:
        await client.initialize()
        body = client.request("x/emit", emission(*numbered(range(EVENTS)), answer=False), id="cut")
        first = await position_of(await client.stream("POST", body))
        name = name_in(first)
        # What a client was still to be sent is kept until more comes; which goes to the oldest call.
        await say(client, EVENTS)
        assert (await kept(store, client.session, name, EVENTS + 1))[0] > 1
        place = await store.find(client.session)
        assert place is not None
        ghost = "session-of-a-ghost"
        await store.begin("ghost", Replica("http://127.0.0.1:1"), 0.01)
        await store.open(ghost, "ghost", place.record, 1.0, 60.0)
        keys, redis = store._keys, cast(Any, store._client)
        await redis.copy(keys.stream(client.session, name), keys.stream(ghost, name))
        assert (await client.raw("DELETE")).status == 204
        client.session = ghost
        resumed = await client.stream(Last_Event_ID=first)
        told = await resumed.rest()
        assert (told[-1]["id"], told[-1]["error"]["data"]["reason"]) == ("cut", "replica_lost")


@pytest.mark.parametrize(("count", "each"), [(1, 3 * MOST_FORGOTTEN), (64, 100)], ids=["one", "many"])
async def test_very_many_that_are_forgotten_at_once_are_taken_back_in_parts(
    count: int, each: int, server: Server
) -> None:
    """As after trouble with Redis: one command for all of them would be late, again and again. Of whichever
    streams they are."""
    async with opened(server.port) as store, within():
        events = EventStore(store, policy())
        sessions = {f"s{n}": a_stream(f"s{n}", events) for n in range(count)}
        for streams, _ in sessions.values():
            for n in range(each):
                streams.deliver(next(iter(streams)), b"%d" % n, 0.0)
        await until(lambda: all(stored() == each for _, stored in sessions.values()))
        named: list[int] = []
        append = store.append

        async def watched(new: Iterable[Event], forgotten: Iterable[Any], *spans: float) -> None:
            named.append(sum(len(numbers) for *_, numbers in forgotten))
            await append(new, forgotten, *spans)

        store.append = watched  # type: ignore[method-assign,assignment]
        ours = {session: next(iter(streams)) for session, (streams, _) in sessions.items()}
        for session, stream in ours.items():
            while stream.log.oldest < stream.log.last:
                stream.log.forget_oldest()
            events.forget(session, stream)
        await until(lambda: all(stream.oldest_stored == stream.log.oldest for stream in ours.values()))
        assert max(named) == MOST_FORGOTTEN and sum(named) == count * (each - 1)
        for session, stream in ours.items():
            kept = await store.stream(session, stream.log.stream)
            assert kept is not None and len(kept.messages) == 1
        await events.aclose()
