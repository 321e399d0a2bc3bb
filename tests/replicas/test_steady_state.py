"""What an owner asks Redis while its sessions are used: next to nothing. And by which clock it holds them."""

import time
from typing import Any, cast

import pytest

from mooring.replicas.lease import suspending_clock
from mooring.replicas.shared_store import SharedStore
from tests.e2e.mooring import LINUX_ONLY
from tests.integration.test_host_pages import samples
from tests.integration.test_sharing import readyz
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.support import within

__all__ = ["server"]

CALLS = 500
LONG_S = 600.0
SOON_S = 100


async def asked(store: SharedStore) -> dict[str, int]:
    """How often each command was given to Redis, but for this one."""
    told: Any = await cast(Any, store._client).info("commandstats")
    return {name: about["calls"] for name, about in told.items() if name != "cmdstat_info"}


async def ttl_s(store: SharedStore, session: str) -> float:
    return float(await cast(Any, store._client).pttl(store._keys.session(session))) / 1000


async def test_calls_answered_with_json_ask_redis_nothing(server: Server) -> None:
    async with (
        opened(server.port) as store,
        replica(server, lease_s=LONG_S, touch_s=LONG_S) as host,
        McpClient(host.port) as client,
    ):
        await client.initialize()
        peer = await client.peer()
        await client.pid()
        await asked(store)  # with whatever its own connection takes
        before = await asked(store)
        async with within(60):
            for n in range(CALLS):
                peer.send(client.head("POST", client.request("x/any", {"n": n})))
                answer = await peer.answer()
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert await asked(store) == before


async def test_a_session_lasts_from_its_last_use_not_from_its_first(server: Server) -> None:
    """The unused one is the first of the two that are looked at."""
    async with (
        opened(server.port) as store,
        replica(server, touch_s=0.2) as host,
        McpClient(host.port) as unused,
        McpClient(host.port) as used,
        within(),
    ):
        await unused.initialize()
        await used.initialize()
        while True:  # what is said at the beginning of a session is written down as well
            for one in (unused, used):
                await cast(Any, store._client).pexpire(store._keys.session(one.session), SOON_S * 1000)
            while await ttl_s(store, used.session) <= SOON_S:
                await used.pid()
            if await ttl_s(store, unused.session) <= SOON_S:
                break


@LINUX_ONLY
def test_its_clock_counts_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 1000.0 + clock)
    assert suspending_clock()() == 1000.0 + time.CLOCK_BOOTTIME


@LINUX_ONLY
async def test_a_replica_whose_machine_slept_holds_nothing_until_redis_says_so(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s, get = 0.0, time.clock_gettime

    def later(clock: int) -> float:
        return get(clock) + (slept_s if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", later)
    async with replica(server, lease_s=LONG_S) as host, McpClient(host.port) as client:
        await client.initialize()
        assert (await readyz(host))["replicas"]["holds_lease"]
        slept_s = LONG_S
        assert not (await readyz(host))["replicas"]["holds_lease"]
        assert (await samples(host))["replica_holds_lease"] == 0
        async with within():
            await client.pid()  # somebody needs to know: Redis has kept it
        assert (await readyz(host))["replicas"]["holds_lease"]
