"""A replica that lapsed goes on under another name; what names it by an earlier one is found all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.replicas.forwarding import Forwarding
from mooring.replicas.records import Replica
from mooring.replicas.shared_store import SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from tests.hosting import Host
from tests.integration.test_sharing import readyz
from tests.mcp_client import McpClient, Stream
from tests.replicas.stores import Server
from tests.replicas.test_bounds import member, opened, replica, server
from tests.replicas.test_releasing import HELLO, knows_another
from tests.support import until, within

__all__ = ["server"]


async def name_of(host: Host) -> str:
    return str((await readyz(host))["replicas"]["replica"])


@asynccontextmanager
async def listening(reading: Host, writing: Host) -> AsyncIterator[tuple[McpClient, Stream]]:
    """A client of HTTP+SSE, whose stream is at one replica, and whose messages come to another."""
    async with McpClient(reading.port, path="/sse") as client:
        stream = await client.stream()
        endpoint = await stream.event()
        assert endpoint is not None
        client.path, client.port = endpoint.data, writing.port
        assert (await client.raw("POST", client.request("initialize", HELLO))).status == 202
        assert "result" in await stream.message()
        yield client, stream


async def is_heard(client: McpClient, stream: Stream) -> None:
    assert (await client.raw("POST", client.request("x/pid"))).status == 202
    assert "result" in await stream.message()


async def test_its_old_name_is_written_down_again_when_redis_has_lost_everything(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, lease_s=1.0) as here,
        replica(server, lease_s=1.0) as there,
    ):
        await knows_another(there)
        names = {await name_of(here), await name_of(there)}
        async with listening(here, there) as (client, stream):
            await store._client.flushall()
            await is_heard(client, stream)
            async with within():
                while not (
                    names | {await name_of(here), await name_of(there)} <= (await store.replicas()).keys()
                ):
                    await is_heard(client, stream)
            assert not names & {await name_of(here), await name_of(there)}
            await is_heard(client, stream)
            stream.reset()


async def test_a_name_that_redis_confirmed_too_late_is_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found by it is found also when it has yet another."""
    begin = SharedStore.begin
    begun: list[str] = []

    async def begin_late(store: SharedStore, incarnation: str, *args: Any) -> None:
        await begin(store, incarnation, *args)
        begun.append(incarnation)
        raise StoreUnavailable("no answer")

    async with (
        opened(server.port) as store,
        replica(server, lease_s=3.0) as here,
        replica(server, lease_s=3.0) as there,
    ):
        await knows_another(there)
        monkeypatch.setattr(SharedStore, "begin", begin_late)
        await store._client.delete(store._keys.lease(await name_of(here)))
        await here.logged("lease_lost")
        await here.logged("sessions_reachable")
        assert begun == [await name_of(here)]
        async with listening(here, there) as (client, stream):
            await is_heard(client, stream)
            await store._client.delete(store._keys.lease(begun[0]))
            await here.logged("sessions_reachable", 2)
            assert len(begun) == 2
            await is_heard(client, stream)
            stream.reset()


async def test_a_name_may_be_heard_of_while_it_is_seen_who_lives(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody asks where a newcomer is, say."""

    async def nothing_to_do(is_empty: bool) -> None: ...

    async with opened(server.port) as store, member(store, nothing_to_do, lease_s=1.0) as it, within():
        is_alive = store.is_alive

        async def meet_another(incarnation: str) -> bool:
            if "another" not in it.others:
                await store.begin("another", Replica("http://127.0.0.1:1"), 60.0)
                assert await it.address_of("another")
            return await is_alive(incarnation)

        monkeypatch.setattr(store, "is_alive", meet_another)
        await until(lambda: "another" in it.others)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_name_is_forgotten_when_nothing_is_found_by_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    holds = Forwarding.holds

    async def asks(forwarding: Forwarding, at: Replica, incarnation: str) -> bool:
        asked.append(incarnation)
        return await holds(forwarding, at, incarnation)

    monkeypatch.setattr(Forwarding, "holds", asks)
    async with (
        opened(server.port) as store,
        replica(server, lease_s=1.0, remembered_s=0.1) as here,
        replica(server, lease_s=1.0, remembered_s=0.1) as there,
    ):
        await knows_another(there)
        name = await name_of(here)
        async with listening(here, there) as (client, stream):
            await store._client.delete(store._keys.lease(name))
            await here.logged("lease_lost")
            asked.clear()
            await until(lambda: asked.count(name) > 2)
            await is_heard(client, stream)
            stream.reset()
        async with within():
            while name in await store.replicas():
                await asyncio.sleep(0.05)
