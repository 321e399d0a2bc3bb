"""The network is cut: between a replica and Redis, between replicas, or around one of them; and it heals.

Nobody is restarted. A session has one owner at a time, each call ends within a bound, and none is executed
twice. Packets vanish (DROP), or whoever sends them is told (REJECT).
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mooring.wire.sse import EventDecoder
from tests.e2e.mooring import LINUX_ONLY, Mooring
from tests.e2e.replicas.balancer import Checks, running_balancer
from tests.e2e.replicas.fleet import Fleet, Roaming
from tests.e2e.replicas.load import Load
from tests.e2e.replicas.network import (
    REDIS,
    Network,
    address_of,
    redis_in,
    running_network,
    scattered_fleet,
)
from tests.e2e.replicas.test_losing import pids_of as pids_in
from tests.e2e.replicas.test_losing import served
from tests.e2e.replicas.test_redis_trouble import (
    GONE_S,
    LEASE,
    LEASE_S,
    a_session_at_each,
    pids_of,
    recovered,
    refused,
    status_of,
)
from tests.ledger import Ledger
from tests.replicas.stores import Server
from tests.support import until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(180)]

SURELY_HELD_S = LEASE_S / 2
"""A lease was renewed a quarter of its span ago at most, and its holder relies on nine tenths of it."""
OUTLASTING_S = 5 * LEASE_S
"""For a call: nobody waits so long for a replica that is silent."""
ROUNDS = 20
ALL = (REDIS, address_of(1), address_of(2))
"""As the first replica sees them."""


@pytest.fixture
def network() -> Iterator[Network]:
    with running_network(3) as network:
        yield network


@pytest.fixture
async def redis(network: Network, tmp_path: Path) -> AsyncIterator[Server]:
    async with redis_in(network, tmp_path / "redis") as server:
        yield server


class There(NamedTuple):
    """Three replicas, and a session at each."""

    fleet: Fleet
    clients: list[Roaming]
    before: list[int]
    """The servers of the sessions."""


@asynccontextmanager
async def three(network: Network, redis: Server, ledger: Ledger) -> AsyncIterator[There]:
    async with scattered_fleet(network, 3, redis, ledger.command, *LEASE) as fleet:
        await fleet.know_each_other()
        async with a_session_at_each(fleet) as clients:
            yield There(fleet, clients, await pids_of(clients, "before"))
    assert set(ledger.marks().values()) == {1}


@asynccontextmanager
async def another_way(client: Roaming, replica: Mooring) -> AsyncIterator[Roaming]:
    """The same session, by way of that replica."""
    async with Roaming([client.port]) as again:
        again.go_only_to(replica)
        again.session, again.version = client.session, client.version
        again._ids = client._ids
        yield again


async def said(client: Roaming, mark: str, delay_s: float = 0.0) -> tuple[int, dict[str, Any]]:
    """The answer to a call, whatever it is; within the bound of all waits there are."""
    async with within(40):
        peer = await client.send("POST", client.request("x/mark", {"mark": mark, "delay_s": delay_s}))
        answer = await peer.answer()
    if answer.status == 503:
        assert int(answer.headers["retry-after"]) >= 1
    if answer.headers["content-type"] == "text/event-stream":  # it took long
        *_, last = [event.data for event in EventDecoder().feed(answer.body) if event.data]
        return answer.status, json.loads(last)
    return answer.status, json.loads(answer.body)


def reason_of(answer: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    status, message = answer
    return status, message["error"]["data"]["reason"]


async def serves_no_more(replica: Mooring) -> None:
    async with within():
        while (await status_of(replica))[0] != 503:
            await asyncio.sleep(0.05)
    _, told = await status_of(replica)
    assert told["holds_lease"] is False and told["trouble"]


async def all_at_every_replica(there: There, name: str, expected: list[int]) -> None:
    for shift in range(3):
        for n, client in enumerate(there.clients):
            client.go_only_to(there.fleet.replicas[(n + shift) % 3])
        assert await pids_of(there.clients, f"{name}-{shift}") == expected


@pytest.mark.parametrize("how", ["DROP", "REJECT"])
async def test_one_replica_does_not_see_redis(
    how: str, network: Network, redis: Server, ledger: Ledger
) -> None:
    async with three(network, redis, ledger) as there:
        fleet, (mine, *_), before = there
        cut, other, third = fleet.replicas
        async with another_way(mine, other) as roundabout, another_way(mine, third) as next_one:
            long_here = asyncio.create_task(said(mine, "long-here", 60.0))
            long_there = asyncio.create_task(said(roundabout, "long-there", 60.0))
            await until(lambda: ledger.has("long-here") and ledger.has("long-there"))
            network.cut(0, REDIS, how=how)
            held_until = asyncio.get_running_loop().time() + SURELY_HELD_S
            n = 0
            while asyncio.get_running_loop().time() < held_until:
                ways = [mine, roundabout, next_one]
                assert set(await pids_of(ways, f"held-{n}")) == {before[0]}
                n += 1
            await serves_no_more(cut)
            assert await refused(cut, fleet) == "sessions_unreachable"
            late = asyncio.create_task(said(mine, "late"))
            assert reason_of(await long_there) == (200, "replica_lost")
            async with within():
                after = (await served(roundabout, "taken"))["result"]["pid"]
            assert after not in before
            assert (await next_one.mark("found"))["result"]["pid"] == after
            assert await pids_of(there.clients[1:], "meanwhile") == before[1:]
            assert reason_of(await late) == (503, "sessions_unreachable")
            assert not ledger.has("late"), "it has no lease"
            assert not long_here.done(), "nobody can tell it anything yet"
            network.mend()
            await recovered(fleet)
            async with within():
                assert reason_of(await long_here) == (200, "lease_lost")
        await until(lambda: before[0] not in cut.servers())
        await all_at_every_replica(there, "healed", [after, *before[1:]])


@pytest.mark.parametrize("how", ["DROP", "REJECT"])
async def test_two_replicas_do_not_see_each_other(
    how: str, network: Network, redis: Server, ledger: Ledger
) -> None:
    """Both see Redis, and have their leases: what is one's stays its own."""
    async with three(network, redis, ledger) as there:
        fleet, (mine, *_), before = there
        async with (
            another_way(mine, fleet.replicas[1]) as cut_off,
            another_way(mine, fleet.replicas[2]) as roundabout,
        ):
            long = asyncio.create_task(said(cut_off, "long", OUTLASTING_S))
            await cut_off.mark("kept-connection")
            await until(lambda: ledger.has("long"))
            network.part(0, 1, how)
            void = await said(cut_off, "void")
            # On the connection that is there, or on none.
            assert reason_of(void) in [(200, "replica_lost"), (503, "replica_unreachable")]
            assert reason_of(await said(cut_off, "later")) == (503, "replica_unreachable")
            assert reason_of(await long) == (200, "replica_lost")
            assert not ledger.has("void") and not ledger.has("later")
            assert (await roundabout.mark("roundabout"))["result"]["pid"] == before[0]
            assert await pids_of(there.clients, "at-home") == before
            for replica in fleet.replicas:
                status, told = await status_of(replica)
                assert (status, told["holds_lease"], told["others"]) == (200, True, 2)
            network.mend()
            async with within():
                assert (await served(cut_off, "healed"))["result"]["pid"] == before[0]
        await all_at_every_replica(there, "after", before)


@pytest.mark.parametrize("how", ["DROP", "REJECT"])
async def test_one_replica_sees_nobody_but_its_clients(
    how: str, network: Network, redis: Server, ledger: Ledger
) -> None:
    """For longer than its lease: it starts nothing, another goes on, and it knows so when it is back."""
    async with three(network, redis, ledger) as there:
        fleet, (mine, *_), before = there
        alone, other, _ = fleet.replicas
        async with another_way(mine, other) as roundabout:
            long_here = asyncio.create_task(said(mine, "long-here", 60.0))
            long_there = asyncio.create_task(said(roundabout, "long-there", 60.0))
            await until(lambda: ledger.has("long-here") and ledger.has("long-there"))
            network.cut(0, *ALL, how=how)
            assert await pids_of([mine] * 5, "held") == [before[0]] * 5
            await serves_no_more(alone)
            late = asyncio.create_task(said(mine, "late"))
            assert reason_of(await long_there) == (200, "replica_lost")
            async with within():
                after = (await served(roundabout, "taken"))["result"]["pid"]
            assert after not in before
            assert not late.done() and not ledger.has("late"), "it has no lease"
            network.mend()
            async with within():
                assert reason_of(await long_here) == (200, "lease_lost")
                status, message = await late
            # It was found a way while it waited; in no case was it the old server that had it.
            assert status == 503 or message["result"]["pid"] == after
            assert pids_in(ledger, "late") <= {after}
            await recovered(fleet)
        await until(lambda: before[0] not in alone.servers())
        await all_at_every_replica(there, "healed", [after, *before[1:]])


@pytest.mark.parametrize("how", ["DROP", "REJECT"])
async def test_nobody_sees_redis(how: str, network: Network, redis: Server, ledger: Ledger) -> None:
    """For longer than a lease: all ask each other, and go on."""
    async with three(network, redis, ledger) as there:
        fleet, clients, before = there
        for n in range(3):
            network.cut(n, REDIS, how=how)
        loop = asyncio.get_running_loop()
        over_at, n = loop.time() + GONE_S, 0
        while loop.time() < over_at:
            assert await pids_of(clients, f"without-{n}") == before
            n += 1
            await asyncio.sleep(0.05)
        reasons = await asyncio.gather(*(refused(replica, fleet) for replica in fleet.replicas))
        assert reasons == ["sessions_unreachable"] * 3
        for replica in fleet.replicas:
            status, told = await status_of(replica)
            assert (status, told["holds_lease"]) == (200, True) and told["trouble"]
        network.mend()
        await recovered(fleet)
        await all_at_every_replica(there, "healed", before)


def cut_at_random(network: Network, chance: random.Random) -> str:
    how, one = chance.choice(["DROP", "REJECT"]), chance.randrange(3)
    others = [n for n in range(3) if n != one]
    match chance.choice(["one from Redis", "all from Redis", "two from each other", "one from all"]):
        case "one from Redis" as what:
            network.cut(one, REDIS, how=how)
        case "all from Redis" as what:
            for n in range(3):
                network.cut(n, REDIS, how=how)
        case "two from each other" as what:
            network.part(one, chance.choice(others), how)
        case what:
            network.cut(one, REDIS, *map(address_of, others), how=how)
    return f"{what}, {how}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_cut_and_healed_again_and_again(
    network: Network, redis: Server, ledger: Ledger, tmp_path: Path
) -> None:
    """Under load, behind a balancer that reaches all of them."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with (
        scattered_fleet(network, 3, redis, ledger.command, *LEASE) as fleet,
        running_balancer(tmp_path / "balancer", fleet.addresses, Checks(200, 2)) as balancer,
    ):
        await fleet.know_each_other()
        await balancer.sees(0, 1, 2)
        load = Load(balancer.port, ledger, delays=(0.0, 0.02, 0.3, 0.0, 1.0))
        try:
            load.begin("plain", "kept", "several", "new", "modern")
            await load.all_are_served()
            for _ in range(ROUNDS):
                before = set(load.outcomes)
                what = cut_at_random(network, chance)
                await asyncio.sleep(chance.uniform(0.2, 3) * LEASE_S)
                network.mend()
                await recovered(fleet)
                await load.all_are_served()
                new = {mark: how for mark, how in load.outcomes.items() if mark not in before}
                print(what, Counter((how.kind, how.status, how.reason) for how in new.values()))
                untold = {mark: how for mark, how in new.items() if how.kind != "result" and not how.reason}
                assert not untold, untold
                load.assert_none_twice()
            await load.end()
        finally:
            await load.stop()
    load.assert_none_twice()
