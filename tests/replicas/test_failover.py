"""One of several servers is lost: the same client goes on with the next one. None lets us in: we hear why."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from redis.asyncio.connection import AbstractConnection

from mooring.errors import UserError
from mooring.replicas.address import parse_store_address
from mooring.replicas.records import Keys, SessionRecord
from mooring.replicas.redis_client import open_client
from mooring.replicas.shared_store import Event, Kept, SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from tests.replicas.sets import PASSWORD, Node, Place, Sentinels, running_place
from tests.support import PATIENCE_S, within

WAIT_S = 1.0
TTL_S = 60.0
RECORD = SessionRecord("alice", "streamable-http", "test 1", b"{}", 1.0)
KEYS = Keys("test", "search")
MANY = 60
"""Sessions: some are in the slots of every node of a cluster."""


@asynccontextmanager
async def opened(
    place: Place, password: str | None = PASSWORD, ca: Path | None = None
) -> AsyncIterator[SharedStore]:
    client = open_client(parse_store_address(place.url), password, ca or place.login.ca, WAIT_S)
    store = SharedStore(client, KEYS, WAIT_S)
    try:
        yield store
    finally:
        await store.aclose()


async def served(store: SharedStore, n: int) -> None:
    """Until it can be used again: what is said meanwhile may be told that it cannot."""
    async with within():
        while True:
            try:
                kept = await store.open(f"s{n}", "a", RECORD, 1.0, TTL_S)
                await store.append([Event(f"s{n}", "p", 1, b"x")], [], TTL_S)
                assert kept.fence == 1
                return
            except StoreUnavailable:
                await asyncio.sleep(0.05)


def lost_one(place: Place) -> Node:
    """The primary that somebody follows."""
    return place.nodes[0]


@pytest.mark.parametrize(
    ("kind", "how", "trouble"),
    [
        ("redis", "sentinel-tls", Node.kill),
        ("redis", "cluster-tls", Node.stop),
        ("valkey", "sentinel", Node.stop),
        ("valkey", "cluster", Node.kill),
        pytest.param("redis", "sentinel-tls", Node.stop, marks=pytest.mark.slow),
        pytest.param("redis", "cluster-tls", Node.kill, marks=pytest.mark.slow),
        pytest.param("valkey", "sentinel", Node.kill, marks=pytest.mark.slow),
        pytest.param("valkey", "cluster", Node.stop, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_another_server_takes_the_place_of_one(
    kind: str, how: str, trouble: Callable[[Node], None], tmp_path: Path
) -> None:
    """It may say so by closing its connections, or say nothing at all."""
    with running_place(kind, how, tmp_path / "place") as place:
        async with opened(place) as store:
            for n in range(MANY):
                await served(store, n)
            trouble(lost_one(place))
            await asyncio.gather(*(served(store, n) for n in range(MANY, 2 * MANY)))
            await asyncio.gather(*(served(store, n) for n in range(MANY)))
            # Nothing is slow for as long as the lost one is: it is not asked any more.
            for n in range(2 * MANY):
                assert await store.find(f"s{n}") is not None
                assert (await store.stream(f"s{n}", "p")) is not None


async def test_a_sentinel_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    with running_place("redis", "sentinel", tmp_path / "place") as place:
        assert isinstance(place, Sentinels)
        place.watchers[0].stop()
        async with opened(place) as store:
            await store.check()
        place.watchers[1].kill()
        async with opened(place) as store:
            await store.check()


async def test_a_cluster_is_entered_by_any_node_that_answers(tmp_path: Path) -> None:
    with running_place("redis", "cluster", tmp_path / "place") as place:
        place.nodes[0].stop()
        for _ in range(3):  # which is asked first is left to chance
            async with opened(place) as store:
                await served(store, 1)


@pytest.mark.parametrize("how", ["tls", "sentinel-tls", "cluster-tls"])
async def test_whoever_does_not_fit_is_refused_at_once(how: str, tmp_path: Path) -> None:
    with running_place("redis", how, tmp_path / "place") as place:
        begun = time.monotonic()
        wrong = tmp_path / "other.pem"
        trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.write_to_path(wrong)
        for password, ca, code, hint in (
            (PASSWORD, wrong, "sessions_untrusted", "--sessions-ca"),
            ("wrong-password", None, "sessions_refused", "--sessions-password"),
            (None, None, "sessions_refused", "--sessions-password"),
        ):
            async with opened(place, password, ca) as store:
                with pytest.raises(UserError) as refused:
                    await store.check()
            assert refused.value.code == code
            assert hint in (refused.value.hint or "")
            assert "wrong-password" not in refused.value.message
        assert time.monotonic() - begun < PATIENCE_S
        async with opened(place) as store:
            await store.check()


async def test_public_authorities_are_not_trusted_beside_those_that_are_named(tmp_path: Path) -> None:
    """An authority of the machine's says nothing here: whoever names one means that one."""
    with running_place("redis", "tls", tmp_path / "place") as place:
        assert place.login.ca is not None
        wrong = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(wrong)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(place.login.ca))
            async with opened(place, ca=wrong) as store:
                with pytest.raises(UserError) as refused:
                    await store.check()
            client = open_client(parse_store_address(place.url), PASSWORD, None, WAIT_S)
            store = SharedStore(client, KEYS, WAIT_S)
            await store.check()  # with none named, they are
            await store.aclose()
    assert refused.value.code == "sessions_untrusted"


async def test_a_node_of_a_cluster_is_not_a_server_of_its_own(tmp_path: Path) -> None:
    with running_place("redis", "cluster", tmp_path / "place") as place:
        refusals = []
        for node in place.nodes[:3]:
            client = open_client(
                parse_store_address(f"redis://127.0.0.1:{node.port}"), PASSWORD, None, WAIT_S
            )
            store = SharedStore(client, KEYS, WAIT_S)
            try:
                await store.check()
            except UserError as error:
                refusals.append(error.hint or "")
            finally:
                await store.aclose()
    assert len(refusals) == 2, "but for the one that has the slot"
    assert all("redis+cluster://" in hint for hint in refusals)


@pytest.mark.parametrize("how", ["plain", "tls", "sentinel-tls", "cluster-tls"])
async def test_connections_to_servers_that_say_nothing_are_let_go_of(how: str, tmp_path: Path) -> None:
    """With TLS there is a farewell, which would be waited for."""
    with running_place("redis", how, tmp_path / "place") as place:
        async with opened(place) as store:
            await asyncio.gather(*(served(store, n) for n in range(6)))
            for node in place.nodes:
                node.stop()
            # Before anybody gives up on them: until then they do not know that nobody answers.
            await store.aclose()


async def test_a_primary_that_sentinels_do_not_know(tmp_path: Path) -> None:
    with running_place("redis", "sentinel", tmp_path / "place") as place:
        address = parse_store_address(place.url.replace("/fleet/", "/other/"))
        store = SharedStore(open_client(address, PASSWORD, None, WAIT_S), KEYS, WAIT_S)
        try:
            with pytest.raises(StoreUnavailable, match="no primary other"):
                await store.check()
        finally:
            await store.aclose()


async def test_a_fence_holds_across_a_failover(tmp_path: Path) -> None:
    with running_place("redis", "sentinel", tmp_path / "place") as place:
        async with opened(place) as store:
            old = await store.open("s1", "a", RECORD, 1.0, TTL_S)
            seen = await store.find("s1")
            assert seen is not None
            new = await store.claim("s1", seen, "b", 1.0, TTL_S)
            assert new is not None
            lost_one(place).ask("WAIT", 2, 5000)
            lost_one(place).kill()
            await served(store, 2)
            assert await store.keep("s1", old, RECORD, 2.0, TTL_S) is Kept.FENCED
            assert await store.keep("s1", new, RECORD, 2.0, TTL_S) is Kept.KEPT


@pytest.mark.parametrize("how", ["tls", "sentinel", "sentinel-tls", "cluster", "cluster-tls"])
@pytest.mark.parametrize("said", [AttributeError("no writelines"), TypeError("not callable")], ids=repr)
async def test_what_is_written_to_a_connection_that_was_closed_is_written_again(
    how: str, said: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of these errors of Python's own comes of it, and whether one does, is left to its version and to
    chance."""
    closed: list[AbstractConnection] = []
    send = AbstractConnection.send_packed_command

    async def close_first(self: AbstractConnection, *words: Any, **options: Any) -> None:
        if not closed and self.is_connected:
            closed.append(self)
            raise said
        await send(self, *words, **options)

    with running_place("redis", how, tmp_path / "place") as place:
        async with opened(place) as store:
            await store.check()
            monkeypatch.setattr(AbstractConnection, "send_packed_command", close_first)
            assert (await store.open("s1", "a", RECORD, 1.0, TTL_S)).fence == 1
            assert len(closed) == 1
