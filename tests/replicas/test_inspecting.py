"""Looking at what replicas share, in a real Redis: all of it, page by page, and nothing of others."""

import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.replicas.address import parse_store_address
from mooring.replicas.inspecting import MOST_NAMED, MOST_STREAMS, Inspector
from mooring.replicas.records import Keys, Replica, SessionRecord
from mooring.replicas.redis_client import open_client
from mooring.replicas.shared_store import PAGE, Event, SharedStore, refusal_of
from mooring.replicas.store_errors import StoreUnavailable
from tests.replicas.stores import KINDS, Server, running_server

TTL_S = 60.0
RECORD = SessionRecord("alice", "streamable-http", "test 1", b"{}", 1.0)
PREFIX = "te:st"


@pytest.fixture(params=KINDS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server(request.param, tmp_path / "store") as server:
        yield server


@asynccontextmanager
async def opened(server: Server, name: str, prefix: str = PREFIX) -> AsyncIterator[SharedStore]:
    client = open_client(parse_store_address(server.url), None, None, 1.0)
    store = SharedStore(client, Keys(prefix, name), 1.0)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture
async def inspector(server: Server) -> AsyncIterator[Inspector]:
    client = open_client(parse_store_address(server.url), None, None, 1.0)
    inspector = Inspector(client, PREFIX)
    try:
        yield inspector
    finally:
        await inspector.aclose()


async def listed(inspector: Inspector, server: str | None = None) -> list[tuple[str, str]]:
    return [(seen.server, seen.id) async for page in inspector.pages(server) for seen in page]


async def test_sessions_of_all_servers_and_of_one(server: Server, inspector: Inspector) -> None:
    assert await listed(inspector) == []
    async with opened(server, "search") as search, opened(server, "time") as time:
        await search.open("s1", "a", RECORD, 1.0, TTL_S)
        await search.open("s2", "a", RECORD, 1.0, TTL_S)
        await time.open("t1", "a", RECORD, 1.0, TTL_S)
        await time.end("t1")
        await time.open("t2", "a", RECORD, 1.0, TTL_S)
    for prefix in ("te", "te:st:er", "te:stx"):
        async with opened(server, "search", prefix) as stranger:
            await stranger.open("x1", "a", RECORD, 1.0, TTL_S)
    assert await listed(inspector) == [("search", "s1"), ("search", "s2"), ("time", "t2")]
    assert await listed(inspector, "search") == [("search", "s1"), ("search", "s2")]
    assert await listed(inspector, "nobody") == []


async def test_owners_that_live_and_that_are_gone(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        await store.begin("pod-0-aa", Replica("http://a", "pod-0"), TTL_S)
        await store.begin("pod-1-bb", Replica("http://b", "pod-1"), 0.001)
        for n, owner in enumerate(("pod-0-aa", "pod-1-bb", "pod-2-cc", "")):
            await store.open(f"s{n}", owner, RECORD, 1.0, TTL_S)
    owners = {seen.id: seen.owner async for page in inspector.pages() for seen in page}
    assert [(owners[f"s{n}"].host, owners[f"s{n}"].is_alive) for n in range(4)] == [
        ("pod-0", True),
        ("pod-1", False),
        ("pod-2", False),
        ("", False),
    ]


async def test_replicas_on_one_host_are_told_apart(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store, opened(server, "time") as time:
        await store.begin("vm-aa", Replica("http://127.0.0.1:4811", "vm"), TTL_S)
        await store.begin("vm-bb", Replica("http://127.0.0.1:4812", "vm"), TTL_S)
        await store.begin("vm-cc", Replica("http://127.0.0.1:4812", "vm"), TTL_S)  # the same, begun anew
        await store.begin("pod-0-dd", Replica("http://a:4801", "pod-0"), TTL_S)
        await time.begin("vm-ee", Replica("http://127.0.0.1:4813", "vm"), TTL_S)
        for owner in ("vm-aa", "vm-cc", "pod-0-dd"):
            await store.open(owner, owner, RECORD, 1.0, TTL_S)
        await time.open("vm-ee", "vm-ee", RECORD, 1.0, TTL_S)
    shown = {seen.id: seen.owner.shown async for page in inspector.pages() for seen in page}
    assert shown == {"vm-aa": "vm:4811", "vm-cc": "vm:4812", "pod-0-dd": "pod-0", "vm-ee": "vm"}


async def test_of_one_that_was_ended_that_is_told(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        title = await store.open("s1-12345678", "pod-9-aa", RECORD, 1.0, TTL_S)
        await inspector.end(await inspector.find("s1"))
        await store.remove("s1-12345678", title)  # as its owner does that hears of it
        with pytest.raises(UserError) as ended:
            await inspector.find("s1")
    assert ended.value.code == "unknown_session"
    assert ended.value.message.startswith("the session s1-12345 of search has ended, by request")


async def test_a_beginning_is_enough_if_it_is_one_sessions(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as search, opened(server, "time") as time:
        await search.open("abc-1", "a", RECORD, 1.0, TTL_S)
        await search.open("abd-1", "a", RECORD, 1.0, TTL_S)
        await search.open("abd-12", "a", RECORD, 1.0, TTL_S)
        await time.open("abe-1", "a", RECORD, 1.0, TTL_S)
    assert (await inspector.find("abc")).id == "abc-1"
    assert (await inspector.find("ab", "time")).id == "abe-1"
    assert (await inspector.find("abd-1")).id == "abd-1"  # whole
    with pytest.raises(UserError) as several:
        await inspector.find("ab")
    assert several.value.code == "ambiguous_session"
    assert "4 sessions begin with ab: abc-1 (search)" in several.value.message
    for nobody in ("b", "bc-1"):
        with pytest.raises(UserError) as none:
            await inspector.find(nobody)
        assert none.value.code == "unknown_session"


async def test_streams_that_are_kept(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        await store.open("s1", "a", RECORD, 1.0, TTL_S)
        await store.open("s12", "a", RECORD, 1.0, TTL_S)
        begun = Event("s1", "p1", 0, b"", "[1]")
        await store.append([begun, Event("s1", "p1", 1, b"x"), Event("s1", "p1", 2, b"y")], [], TTL_S)
        await store.append([Event("s1", "g1", 1, b"x"), Event("s1", "g1", 1, b"", is_last=True)], [], TTL_S)
        await store.append([Event("s1", "p2", 0, b"", "[2]")], [], TTL_S)
        await store.append([Event("s12", "p1", 1, b"x")], [], TTL_S)
    details = await inspector.details(await inspector.find("s1"))
    assert [stream[:3] for stream in details.streams] == [("g1", 1, True), ("p1", 2, False), ("p2", 0, False)]
    assert 0 < details.streams[0].expires_in_s <= TTL_S
    assert 0 < details.expires_in_s <= TTL_S


async def test_of_very_many_streams_some_are_shown(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        await store.open("s1", "a", RECORD, 1.0, TTL_S)
        await store.append([Event("s1", f"p{n}", 1, b"x") for n in range(MOST_STREAMS + 1)], [], TTL_S)
    details = await inspector.details(await inspector.find("s1"))
    assert len(details.streams) == MOST_STREAMS


async def test_of_many_that_may_be_meant_some_are_named(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        for n in range(MOST_NAMED + 1):
            await store.open(f"s-{n}", "a", RECORD, 1.0, TTL_S)
    with pytest.raises(UserError) as several:
        await inspector.find("s")
    assert several.value.message.startswith(f"{MOST_NAMED + 1} sessions begin with s: ")
    assert several.value.message.count("(search)") == MOST_NAMED
    assert several.value.message.endswith(", …")


async def test_many_come_page_by_page_and_each_once(server: Server, inspector: Inspector) -> None:
    count = 20_000
    client = open_client(parse_store_address(server.url), None, None, 5.0)
    async with opened(server, "search") as store:
        await store.open("template", "a", RECORD, 1.0, TTL_S)
        source = Keys(PREFIX, "search").session("template")
        pipe = client.pipeline(transaction=False)
        for n in range(count - 1):
            pipe.copy(source.decode(), Keys(PREFIX, "search").session(f"s{n:06}").decode())
        await pipe.execute()
    await client.aclose()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: set[str] = set()
    pages = 0
    async for page in inspector.pages():
        assert len(page) <= PAGE
        pages += 1
        assert not found & {seen.id for seen in page}
        found |= {seen.id for seen in page}
    assert len(found) == count
    assert pages >= count / PAGE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024  # KiB


async def test_ending_what_nobody_has(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        await store.open("s1", "pod-9-aa", RECORD, 1.0, TTL_S)
        seen = await inspector.find("s1")
        ending = await inspector.end(seen)
        assert (ending.owner.host, ending.owner.is_alive, ending.untold) == ("pod-9", False, "")
        assert await store.find("s1") is None
        await store.open("s2", "pod-9-aa", RECORD, 1.0, TTL_S)
        other = await inspector.find("s2")
        await store.remove("s2", await store.open("s2", "pod-9-aa", RECORD, 1.0, TTL_S))
        with pytest.raises(UserError) as gone:
            await inspector.end(other)
        assert gone.value.code == "unknown_session"


async def test_owners_that_cannot_be_told(server: Server, inspector: Inspector) -> None:
    async with opened(server, "search") as store:
        await store.begin("pod-0-aa", Replica("http://127.0.0.1:9", "pod-0"), TTL_S)
        await store.open("s1", "pod-0-aa", RECORD, 1.0, TTL_S)
        await store.open("s2", "pod-0-aa", RECORD, 1.0, TTL_S)
        no_key = await inspector.end(await inspector.find("s1"))
        assert "--replica-key" in no_key.untold
        await store.secret(b"x" * 32)
        nobody = await inspector.end(await inspector.find("s2"))
        assert "127.0.0.1:9" in nobody.untold
        assert await store.find("s1") is None and await store.find("s2") is None


async def test_looking_needs_no_right_to_write(server: Server) -> None:
    admin = open_client(parse_store_address(server.url), None, None, 1.0)
    async with opened(server, "search") as store:
        await store.open("s1", "a", RECORD, 1.0, TTL_S)
    await admin.execute_command("ACL", "SETUSER", "viewer", "on", ">pw", "~*", "+@read", "+@connection")
    await admin.aclose()
    url = server.url.replace("redis://", "redis://viewer@")
    viewer = Inspector(open_client(parse_store_address(url), "pw", None, 1.0), PREFIX)
    try:
        seen = await viewer.find("s1")
        await viewer.details(seen)
        with pytest.raises(StoreUnavailable, match=r"NOPERM|permission") as refused:
            await viewer.end(seen)
        assert (refusal := refusal_of(refused.value)) is not None and refusal.code == "sessions_refused"
    finally:
        await viewer.aclose()
