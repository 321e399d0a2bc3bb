"""Replicas in front of a server elsewhere: whoever takes a session over goes on with the session there."""

import asyncio
import os
import signal

from mooring.proxy.proxy import TICK_S, TICKS_AT_REST
from tests.e2e.mooring import LINUX_ONLY, running_mooring
from tests.e2e.replicas.fleet import Roaming, running_fleet
from tests.e2e.replicas.test_losing import LEASE, is_ready, served
from tests.e2e.replicas.test_redis_trouble import go_on, stop
from tests.ledger import Ledger
from tests.replicas.stores import Server
from tests.support import free_port, suspend, within

pytestmark = LINUX_ONLY

IDLE_S = 3
"""After fewer a slow machine may have let it go before its owner is stopped."""


async def test_the_session_there_outlives_the_replica_that_opened_it(store: Server, ledger: Ledger) -> None:
    """The server elsewhere has a process for each session, so that one can be told from another."""
    async with (
        running_mooring(server=ledger.command) as elsewhere,
        running_fleet(2, store, elsewhere.url, *LEASE) as fleet,
        Roaming(fleet.ports) as client,
    ):
        first, second = fleet.replicas
        await client.initialize()
        pid = (await client.mark("before"))["result"]["pid"]
        client.go_only_to(second)
        first.signal(signal.SIGTERM)
        assert await first.ended() == 0
        assert (await client.mark("after-the-end"))["result"]["pid"] == pid
        third = await fleet.add()
        second.exit_status = -signal.SIGKILL
        second.signal(signal.SIGKILL)
        await second.ended()
        client.go_only_to(third)
        async with within():
            assert (await served(client, "after-the-kill"))["result"]["pid"] == pid
        assert (await elsewhere.get("/readyz"))[1]["sessions"] == 1
        assert (await client.raw("DELETE")).status == 204
        async with within():
            while (await elsewhere.get("/readyz"))[1]["sessions"]:
                await asyncio.sleep(0.05)
    assert set(ledger.marks().values()) == {1}


async def test_a_server_that_forgot_the_session_is_told_again(store: Server, ledger: Ledger) -> None:
    """And the next replica goes on with the session that took its place."""
    port = free_port()
    async with (
        running_mooring("--port", str(port), server=ledger.command) as elsewhere,
        running_fleet(2, store, elsewhere.url, *LEASE) as fleet,
        Roaming(fleet.ports) as client,
    ):
        first, second = fleet.replicas
        client.go_only_to(first)
        await client.initialize()
        pid = (await client.mark("before"))["result"]["pid"]
        await elsewhere.stop()
        async with running_mooring("--port", str(port), server=ledger.command):
            async with within():
                fresh = (await served(client, "again"))["result"]["pid"]
            assert fresh != pid
            client.go_only_to(second)
            first.signal(signal.SIGTERM)
            assert await first.ended() == 0
            assert (await client.mark("at-the-second"))["result"]["pid"] == fresh
    assert set(ledger.marks().values()) == {1}


async def test_a_replica_that_wakes_ends_no_session_that_another_goes_on_with(
    store: Server, ledger: Ledger
) -> None:
    """What it has has been idle by its clock for long enough before it hears from Redis whose it is."""
    async with (
        running_mooring(server=ledger.command) as elsewhere,
        running_fleet(0, store, elsewhere.url, *LEASE) as fleet,
    ):
        owner, other = await fleet.add("--idle-timeout", f"{IDLE_S}s"), await fleet.add()
        await fleet.know_each_other()
        async with Roaming(fleet.ports) as client:
            client.go_only_to(owner)
            await client.initialize()
            pid = (await client.mark("before"))["result"]["pid"]
            await suspend(owner.pid)
            client.go_only_to(other)
            async with within():
                assert (await served(client, "taken"))["result"]["pid"] == pid
            await stop(store)
            os.kill(owner.pid, signal.SIGCONT)
            await asyncio.sleep(IDLE_S + 2 * TICKS_AT_REST * TICK_S)
            await go_on(store)
            await owner.logged("session_lost_to_another")
            await is_ready(owner)
            assert (await client.mark("after"))["result"]["pid"] == pid
            assert (await elsewhere.get("/readyz"))[1]["sessions"] == 1
    assert set(ledger.marks().values()) == {1}
