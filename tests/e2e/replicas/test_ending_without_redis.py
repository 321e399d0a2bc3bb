"""Replicas are ended while Redis says nothing: in time, as ever, and their sessions are not lost by it."""

import asyncio
import signal

import pytest

from mooring.host.grace import grace_period_s
from mooring.host.shutdown import DrainPolicy
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.replicas.fleet import Roaming, running_fleet
from tests.e2e.replicas.test_losing import served
from tests.e2e.replicas.test_redis_trouble import LEASE, TROUBLES, a_session_at_each, recovered
from tests.ledger import Ledger
from tests.replicas.stores import Server
from tests.support import within

pytestmark = [LINUX_ONLY, pytest.mark.e2e]

DRAIN = DrainPolicy(delay_s=1.0, timeout_s=6.0, children_s=7.0)
"""As the options say it; children have their usual patience."""
OPTIONS = (*LEASE, "--drain-delay", f"{DRAIN.delay_s}s", "--drain-timeout", f"{DRAIN.timeout_s}s")


@pytest.mark.parametrize("number", [1, 2], ids=["one", "all"])
@pytest.mark.parametrize("trouble", ["stopped", "killed"])
async def test_a_replica_ends_in_time_while_redis_does_not_answer(
    trouble: str, number: int, store: Server, ledger: Ledger
) -> None:
    """SIGKILL comes when the grace period is over: by then it has ended."""
    begin, end = TROUBLES[trouble]
    grace_s = grace_period_s(DRAIN)
    assert grace_s is not None
    async with running_fleet(2, store, ledger.command, *OPTIONS) as fleet:
        await fleet.know_each_other()
        async with a_session_at_each(fleet) as clients:
            for n, client in enumerate(clients):
                await client.mark(f"before-{n}")
            ending, staying = fleet.replicas[:number], fleet.replicas[number:]
            await begin(store)
            for replica in ending:
                replica.signal(signal.SIGTERM)
            async with within(grace_s):
                assert [await replica.ended() for replica in ending] == [0] * number
            await end(store)
            fleet.replicas[:] = staying or [await fleet.add()]
            await recovered(fleet)
            for n, client in enumerate(clients):
                client.go_only_to(*fleet.replicas)
                async with within():
                    assert (await served(client, f"after-{n}"))["result"]["mark"] == f"after-{n}"
    assert set(ledger.marks().values()) == {1}


async def test_a_call_is_finished_by_a_replica_that_ends_while_redis_does_not_answer(
    store: Server, ledger: Ledger
) -> None:
    """In the span that calls have; its answer needs no Redis."""
    begin, end = TROUBLES["stopped"]
    async with running_fleet(1, store, ledger.command, *OPTIONS) as fleet, Roaming(fleet.ports) as client:
        [replica] = fleet.replicas
        await client.initialize()
        calling = asyncio.create_task(client.mark("long", 2.0))
        async with within():
            while not ledger.has("long"):
                await asyncio.sleep(0.01)
        await begin(store)
        try:
            replica.signal(signal.SIGTERM)
            assert (await calling)["result"]["mark"] == "long"
            assert await replica.ended() == 0
        finally:
            await end(store)
    assert ledger.marks() == {"long": 1}
