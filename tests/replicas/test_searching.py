"""A session of which Redis has nothing: its owner is found all the same, and nobody is asked too much."""

import asyncio
import json
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.searching import Searching
from mooring.wire.http import Exchange, Response
from tests.http_client import serving
from tests.integration.test_sharing import readyz
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import forwarding, opened, replica, server
from tests.replicas.test_releasing import knows_another
from tests.support import until, within

__all__ = ["server"]


async def test_a_session_goes_on_whose_record_redis_has_lost(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, lease_s=3.0) as owner,
        replica(server, lease_s=3.0) as other,
        McpClient(owner.port) as client,
    ):
        await knows_another(other)
        await client.initialize()
        here = await client.pid()
        before = await store.find(client.session)
        await store._client.delete(store._keys.session(client.session))
        client.port = other.port
        assert await client.pid() == here
        after = await store.find(client.session)
        assert before is not None
        assert after is not None
        assert (after.owner, after.fence, after.record.memory) == (before.owner, 1, before.record.memory)


async def test_one_that_somebody_has_ended_does_not(server: Server) -> None:
    """Its owner, which has not heard of that, hears of it now."""
    async with (
        opened(server.port) as store,
        replica(server, lease_s=3.0) as owner,
        replica(server, lease_s=3.0) as other,
        McpClient(owner.port) as client,
    ):
        await knows_another(other)
        await client.initialize()
        await store.end(client.session)
        client.port = other.port
        assert (await client.raw("POST", client.request("ping"))).status == 404
        assert (await readyz(owner))["sessions"] == 0


async def test_one_that_nobody_has_is_unknown(server: Server) -> None:
    async with replica(server, lease_s=3.0) as one, replica(server) as other, McpClient(one.port) as client:
        await knows_another(one)
        client.session = "never-was-a-session"
        answer = await client.raw("POST", client.request("ping"))
        assert answer.status == 404
        assert json.loads(answer.body)["error"]["data"]["reason"] == "session_not_found"
        assert other.task is not None


class Others:
    """Some of whom the first has a session; asked when a test lets them be."""

    def __init__(self) -> None:
        self.others = {"a": Replica("http://a"), "b": Replica("http://b")}
        self.asked: list[list[str]] = []
        self.may_answer = asyncio.Event()

    async def held_of(self, ids: Collection[str], replica: Replica) -> set[str]:
        if replica.address == "http://a":
            self.asked.append(list(ids))
        await self.may_answer.wait()
        return {"held"} if replica.address == "http://a" else set()

    def searching(self) -> Searching:
        membership = cast(Any, SimpleNamespace(others=self.others))
        return Searching(cast(Any, self), membership, ReplicaPolicy(look_again_s=0.01))


async def test_all_that_are_looked_for_at_a_moment_are_one_question() -> None:
    others = Others()
    searching = others.searching()
    async with within():
        first = asyncio.create_task(searching.is_held("first"))
        await until(lambda: others.asked)
        rest = [asyncio.create_task(searching.is_held(id)) for id in ("held", *map(str, range(99)), "held")]
        given_up = asyncio.create_task(searching.is_held("0"))
        await asyncio.sleep(0)
        given_up.cancel()
        assert len(others.asked) == 1
        others.may_answer.set()
        assert await first is False
        assert await asyncio.gather(*rest) == [True, *[False] * 99, True]
        assert others.asked == [["first"], ["held", *map(str, range(99))]]
        await searching.aclose()


async def test_nobody_is_asked_where_there_is_nobody() -> None:
    others = Others()
    others.others.clear()
    assert not await others.searching().is_held("held")


async def test_who_waits_for_an_answer_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    others = Others()
    others.held_of = None  # type: ignore[assignment,method-assign]
    async with within():
        assert not await others.searching().is_held("held")
    assert "no replica could be asked" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("said", [b"no", b"", b"yy" * 5000])
async def test_one_that_does_not_understand_has_nothing(said: bytes) -> None:
    """It may be of an older version."""

    def app(exchange: Exchange) -> None:
        exchange.respond(Response(200, said))

    async with serving(app) as served, forwarding() as asking, within():
        assert not await asking.held_of(["s1", "s2"], Replica(f"http://127.0.0.1:{served.port}"))


async def test_that_redis_may_forget_sessions_is_told_at_the_start(server: Server) -> None:
    async with opened(server.port) as store:
        async with replica(server) as host:
            assert not host.events("sessions_may_be_evicted")
        await store._client.config_set("maxmemory", "1gb")
        await store._client.config_set("maxmemory-policy", "volatile-lru")
        async with replica(server) as host:
            assert host.events("sessions_may_be_evicted")[0].levelname == "WARNING"
