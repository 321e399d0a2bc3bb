"""What replicas share, in a real Redis and a real Valkey, however these are run: every write is told apart by
whether it was one's own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.replicas.address import parse_store_address
from mooring.replicas.records import Keys, Replica, SessionRecord
from mooring.replicas.redis_client import open_client
from mooring.replicas.shared_store import Event, Kept, SharedStore, Title
from mooring.replicas.store_errors import StoreUnavailable
from tests.replicas.sets import ALL_PLACES, Place, running_place
from tests.replicas.stores import KINDS, Server, running_server
from tests.support import PATIENCE_S

TTL_S = 60.0
RECORD = SessionRecord("alice", "streamable-http", "test 1", b"{}", 1.0)


def store_at(url: str, name: str = "search", password: str | None = None) -> SharedStore:
    return SharedStore(open_client(parse_store_address(url), password, None, 1.0), Keys("test", name), 1.0)


@asynccontextmanager
async def opened(url: str, name: str = "search", password: str | None = None) -> AsyncIterator[SharedStore]:
    store = store_at(url, name, password)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture(params=KINDS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server(request.param, tmp_path / "store") as server:
        yield server


@pytest.fixture(scope="module", params=ALL_PLACES, ids="-".join)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    kind, how = request.param
    with running_place(kind, how, tmp_path_factory.mktemp("places") / "place") as place:
        yield place


@asynccontextmanager
async def opened_at(place: Place, name: str = "search") -> AsyncIterator[SharedStore]:
    store = SharedStore(place.client(PATIENCE_S), Keys("test", name), PATIENCE_S)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture
async def store(place: Place) -> AsyncIterator[SharedStore]:
    """As of a new one."""
    place.empty()
    async with opened_at(place) as store:
        yield store


async def test_a_session_is_found_as_it_was_opened(store: SharedStore) -> None:
    assert await store.find("s1") is None
    title = await store.open("s1", "a", RECORD, 5.5, TTL_S)
    place = await store.find("s1")
    assert place is not None
    assert (place.owner, place.fence) == title == ("a", 1)
    assert place.record == RECORD
    assert place.used_at == 5.5
    assert place.released == 0


async def test_only_one_of_many_takes_a_session_over(store: SharedStore) -> None:
    await store.open("s1", "dead", RECORD, 1.0, TTL_S)
    place = await store.find("s1")
    assert place is not None
    taken = await asyncio.gather(*(store.claim("s1", place, f"r{n}", 2.0, TTL_S) for n in range(20)))
    winners = [title for title in taken if title is not None]
    assert len(winners) == 1
    assert winners[0].fence == 2
    now_taken = await store.find("s1")
    assert now_taken is not None and now_taken.used_at == 2.0
    again = await store.claim("s1", place, winners[0].owner, 1.0, TTL_S)
    assert again == winners[0]  # said twice, since the answer may have been lost


async def test_whoever_was_replaced_writes_nothing(store: SharedStore) -> None:
    old = await store.open("s1", "a", RECORD, 1.0, TTL_S)
    place = await store.find("s1")
    assert place is not None
    new = await store.claim("s1", place, "b", 1.0, TTL_S)
    assert new is not None
    changed = SessionRecord("alice", "streamable-http", "changed", b"{}", 1.0)
    assert await store.keep("s1", old, changed, 2.0, TTL_S) is Kept.FENCED
    assert await store.keep("s1", old, changed, 2.0, TTL_S, next_owner="") is Kept.FENCED
    await store.remove("s1", old)
    assert await store.keep("s1", new, changed, 2.0, TTL_S) is Kept.KEPT
    found = await store.find("s1")
    assert found is not None
    assert (found.owner, found.record) == ("b", changed)


async def test_a_released_session_tells_by_which_fence(store: SharedStore) -> None:
    title = await store.open("s1", "a", RECORD, 1.0, TTL_S)
    assert await store.keep("s1", title, RECORD, 2.0, TTL_S, next_owner="") is Kept.KEPT
    place = await store.find("s1")
    assert place is not None
    assert (place.owner, place.fence, place.released) == ("", 1, 1)
    taken = await store.claim("s1", place, "b", 1.0, TTL_S)
    assert taken == Title("b", 2)
    place = await store.find("s1")
    assert place is not None
    assert place.released == 1  # the next owner has not let go of it


async def test_what_is_gone_is_put_back_only_if_that_is_meant(store: SharedStore) -> None:
    title = Title("a", 3)
    assert await store.keep("s1", title, RECORD, 1.0, TTL_S) is Kept.MISSING
    assert await store.find("s1") is None
    assert await store.keep("s1", title, RECORD, 1.0, TTL_S, may_be_missing=True) is Kept.KEPT
    place = await store.find("s1")
    assert place is not None
    assert (place.owner, place.fence) == title


async def test_an_ended_session_is_gone_for_everybody(store: SharedStore) -> None:
    title = await store.open("s1", "a", RECORD, 1.0, TTL_S)
    place = await store.find("s1")
    assert place is not None
    assert await store.end("s1") == "a"
    assert await store.find("s1") is None
    assert await store.keep("s1", title, RECORD, 2.0, TTL_S) is Kept.ENDED
    assert await store.claim("s1", place, "b", 1.0, TTL_S) is None
    assert await store.end("nobody") is None


async def test_a_session_expires_by_itself(store: SharedStore) -> None:
    await store.open("s1", "a", RECORD, 1.0, 0.05)
    async with asyncio.timeout(10):
        while await store.find("s1") is not None:
            await asyncio.sleep(0.01)


async def test_a_lease_that_was_lost_is_not_renewed(store: SharedStore) -> None:
    await store.begin("a", Replica("http://10.0.0.1:4670"), 0.1)
    assert await store.renew("a", 0.1)
    assert await store.is_alive("a")
    async with asyncio.timeout(10):
        while await store.is_alive("a"):
            await asyncio.sleep(0.01)
    assert not await store.renew("a", 10)
    assert not await store.is_alive("a")
    assert await store.replicas() == {"a": Replica("http://10.0.0.1:4670")}
    await store.retire("a")
    assert await store.replicas() == {}


async def test_workloads_and_prefixes_do_not_meet(place: Place) -> None:
    async with opened_at(place, "one") as one, opened_at(place, "two") as two:
        await one.open("s1", "a", RECORD, 1.0, TTL_S)
        assert await two.find("s1") is None
        assert [id async for id, _ in one.sessions()] == ["s1"]
        assert [id async for id, _ in two.sessions()] == []


async def test_many_ask_at_the_same_time(store: SharedStore) -> None:
    """More than there are connections: they wait."""
    titles = await asyncio.gather(*(store.open(f"s{n}", "a", RECORD, 1.0, TTL_S) for n in range(300)))
    assert titles == [Title("a", 1)] * 300


async def test_all_sessions_are_listed_some_at_a_time(store: SharedStore) -> None:
    ids = {f"session-{n}" for n in range(1200)}
    await asyncio.gather(*(store.open(id, "a", RECORD, 1.0, TTL_S) for id in ids))
    listed = [id async for id, _ in store.sessions()]
    assert set(listed) == ids


async def test_events_are_kept_in_order_and_their_end_is_known(store: SharedStore) -> None:
    assert await store.stream("s1", "p1") is None
    begin = Event("s1", "p1", 0, b"", '["a",7]')
    await store.append([begin], [], TTL_S)
    stored = await store.stream("s1", "p1")
    assert stored is not None
    assert (stored.first, stored.messages, stored.ids, stored.finished) == (1, [], '["a",7]', False)
    await store.append([Event("s1", "p1", n, b"m%d" % n) for n in (1, 2, 3)], [], TTL_S)
    await store.append([Event("s1", "p1", 3, b"m3")], [], TTL_S)  # said twice
    await store.append([Event("s1", "p1", 3, b"", is_last=True)], [("s1", "p1", range(1, 2))], TTL_S)
    stored = await store.stream("s1", "p1")
    assert stored is not None
    assert (stored.first, stored.messages, stored.finished) == (2, [b"m2", b"m3"], True)
    assert stored.ids == '["a",7]'


async def test_what_comes_before_a_hole_is_not_replayed(store: SharedStore) -> None:
    await store.append([Event("s1", "g1", n, b"m%d" % n) for n in (1, 2, 5, 6)], [], TTL_S)
    stored = await store.stream("s1", "g1")
    assert stored is not None
    assert (stored.first, stored.messages) == (5, [b"m5", b"m6"])


async def test_a_server_that_is_killed_and_comes_back(server: Server) -> None:
    async with opened(server.url) as store:
        title = await store.open("s1", "a", RECORD, 1.0, TTL_S)
        await server.kill()
        with pytest.raises(StoreUnavailable):
            await store.find("s1")
        await server.start()
        assert await store.keep("s1", title, RECORD, 2.0, TTL_S) is Kept.KEPT  # by the same client


async def test_that_everything_was_lost_is_seen(server: Server) -> None:
    async with opened(server.url) as store:
        epoch = await store.epoch("first")
        assert await store.epoch("second") == epoch == "first"
        await server.lose_everything()
        assert await store.epoch("third") == "third"


async def test_a_full_server_is_no_refusal(tmp_path: Path) -> None:
    async with (
        running_server("redis", tmp_path / "store", "--maxmemory", "100kb") as server,
        opened(server.url) as store,
    ):
        with pytest.raises(StoreUnavailable) as full:
            await store.open("s1", "a", RECORD, 1.0, TTL_S)
    assert full.value.code == "sessions_unreachable"
    assert full.value.retry_after_s


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_a_wrong_password_is_a_refusal(tmp_path: Path, password: str | None) -> None:
    async with running_server("redis", tmp_path / "store", "--requirepass", "right") as server:
        async with opened(server.url, password="right") as store:
            await store.check()
        async with opened(server.url, password=password) as store:
            with pytest.raises(UserError) as refused:
                await store.check()
    assert refused.value.code == "sessions_refused"
    assert "wrong" not in refused.value.message


async def test_a_database_that_is_not_there_is_a_refusal(server: Server) -> None:
    async with opened(server.url.replace("/0", "/99")) as store:
        with pytest.raises(UserError):
            await store.check()


async def test_whether_it_forgets_when_it_is_full(place: Place, store: SharedStore) -> None:
    assert not await store.may_evict()
    for policy, bound, may in [("allkeys-lru", "1gb", True), ("allkeys-lru", "0", False)]:
        for node in place.nodes:
            node.ask("CONFIG", "SET", "maxmemory-policy", policy)
            node.ask("CONFIG", "SET", "maxmemory", bound)
        assert await store.may_evict() is may
    for node in place.nodes:
        node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
