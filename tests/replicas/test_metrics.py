"""/metrics of a replica: what it has, what it passes on, and how Redis does."""

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from mooring.replicas.latency import BUCKETS_S
from tests.e2e.replicas.test_resuming import numbered
from tests.integration.test_host_pages import samples
from tests.mcp_client import McpClient, emission
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.replicas.test_releasing import knows_another
from tests.support import suspend, within

__all__ = ["server"]


async def test_what_it_has_and_what_it_has_to_do_with_others(server: Server) -> None:
    async with (
        replica(server, lease_s=3.0) as other,
        replica(server, lease_s=3.0) as owner,
        McpClient(owner.port) as client,
    ):
        await knows_another(owner)
        await knows_another(other)
        await client.initialize()
        here, there = await samples(owner), await samples(other)
        assert (here["sessions_owned"], there["sessions_owned"]) == (1, 0)
        for seen in (here, there):
            assert (seen["replicas_alive"], seen["replica_holds_lease"]) == (2, 1)
            assert (seen["forwards_total"], seen["takeovers_total"], seen["sessions_lost_total"]) == (0, 0, 0)
            assert (seen["events_stored_total"], seen["events_unstored_total"]) == (0, 0)

        client.port = other.port
        for _ in range(3):
            await client.pid()
        assert (await samples(other))["forwards_total"] == 3
        assert (await samples(owner))["forwards_total"] == 0

        client.port = owner.port
        stream = await client.stream("POST", client.request("x/emit", emission(*numbered(range(4)))))
        first = await stream.event()
        assert first is not None
        stream.reset()
        async with within():  # four, the answer, and that there is a stream
            while (await samples(owner))["events_stored_total"] < 6:
                await asyncio.sleep(0.02)

        assert await owner.end() == 0
        client.port = other.port
        resumed = await client.stream(Last_Event_ID=first.id)
        assert len(await resumed.rest()) == 5
        there = await samples(other)
        assert (there["takeovers_total"], there["sessions_owned"], there["forwards_total"]) == (1, 1, 3)
        async with within():
            while (await samples(other))["replicas_alive"] != 1:
                await asyncio.sleep(0.02)


async def test_sessions_that_another_has_taken_are_counted(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, touch_s=0.2, route_s=0.5) as host,
        McpClient(host.port) as client,
    ):
        await client.initialize()
        place = await store.find(client.session)
        assert place is not None
        await store.begin("another", (await store.replicas())[place.owner], 60.0)
        assert await store.claim(client.session, place, "another", 1.0, 60.0) is not None
        async with within():
            while not (seen := await samples(host))["sessions_lost_total"]:
                await client.raw("POST", client.request("ping"))
        assert (seen["sessions_lost_total"], seen["sessions_owned"]) == (1, 0)


async def test_how_long_redis_takes(server: Server) -> None:
    began = time.monotonic()
    async with replica(server) as host, McpClient(host.port) as client:
        await client.initialize()
        seen = await samples(host)
    count, sum_s = seen["redis_duration_seconds_count"], seen["redis_duration_seconds_sum"]
    assert count >= 5, "it has joined, and opened a session"
    assert 0 < sum_s < count * (time.monotonic() - began), "each in no more than there was"
    buckets = [seen[f"redis_duration_seconds_bucket{{le={bound}}}"] for bound in (*BUCKETS_S, "+Inf")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == count
    assert buckets[-2] > 0
    assert seen["redis_failures_total"] == 0


@pytest.mark.parametrize("bounds", [{"event_s": 0.2, "lease_s": 600.0}, {"event_s": 60.0, "lease_s": 1.6}])
async def test_what_redis_has_not_answered(bounds: dict[str, Any], server: Server) -> None:
    """Also to those who cannot wait as long as others: who stores events, who renews a lease."""
    slow, count = "redis_duration_seconds_bucket{le=0.05}", "redis_duration_seconds_count"
    async with replica(server, store_s=60.0, **bounds) as host, McpClient(host.port) as client:
        await client.initialize()
        before = await samples(host)
        await suspend(server.pid)
        try:
            stream = await client.stream("POST", client.request("x/emit", emission(*numbered([1]))))
            async with within():
                while not (after := await samples(host))["redis_failures_total"]:
                    await asyncio.sleep(0.02)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert len(await stream.rest()) == 2
        assert after[count] - after[slow] > before[count] - before[slow], "in none of the quick ones"
        async with within():
            while True:
                seen = await samples(host)
                if seen["events_stored_total"] + seen["events_unstored_total"] == 3:
                    break  # one, the answer, and that there is a stream
                await asyncio.sleep(0.02)
        assert (seen["events_unstored_total"] > 0) is (bounds["event_s"] < 1)
