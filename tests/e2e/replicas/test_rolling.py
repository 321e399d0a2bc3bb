"""Replicas are replaced one after the other, under load, behind a balancer that learns late."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.replicas.balancer import Checks, running_balancer
from tests.e2e.replicas.fleet import Fleet, port_of, running_fleet
from tests.e2e.replicas.load import Load
from tests.ledger import Ledger
from tests.replicas.stores import Server
from tests.support import within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(180)]

CHECKS = {0: Checks(50, 1), 1: Checks(500, 2), 5: Checks(1000, 5)}
"""By how many seconds it takes the balancer to see that a replica drains."""
CLIENTS = ("plain", "kept", "kept", "several", "new", "asked", "modern", "modern")
ROUNDS = 20
RENDERED = ("--drain-delay", "5s", "--drain-timeout", "20s")
"""What manifests have if nothing is said; the lease is the usual one, too."""


@asynccontextmanager
async def under_load(
    lag_s: int,
    store: Server,
    ledger: Ledger,
    folder: Path,
    drain: Sequence[str] = (),
    checks: Checks | None = None,
) -> AsyncIterator[tuple[Fleet, Load]]:
    """Three replicas behind a balancer, and clients; in the end no call has failed, none was done twice."""
    options = drain or ("--drain-delay", f"{lag_s + 1}s", "--lease", "4s")
    async with (
        running_fleet(3, store, ledger.command, *options) as fleet,
        running_balancer(folder / "balancer", fleet.addresses, checks or CHECKS[lag_s]) as balancer,
    ):
        await fleet.know_each_other()
        await balancer.sees(0, 1, 2)
        load = Load(balancer.port, ledger)
        try:
            load.begin(*CLIENTS)
            await load.has_done(20)
            yield fleet, load
            await load.has_done(20)
            await load.end()
        finally:
            await load.stop()
        await end(fleet, 0, 1, 2)  # all at once: there is nobody left who would notice
    print(f"lag {lag_s} s: {load.counts()}")
    assert not load.failed, load.failed
    load.assert_none_twice()


async def end(fleet: Fleet, *numbers: int) -> None:
    """As the kubelet does it; each finishes what it has."""
    for n in numbers:
        fleet.replicas[n].signal(signal.SIGTERM)
    async with within(60):
        for n in numbers:
            assert await fleet.replicas[n].ended() == 0


async def start_again(fleet: Fleet, n: int) -> None:
    """In the same place; it is there when it says that it is ready."""
    fresh = await fleet.add(port=port_of(fleet.replicas[n]))
    fleet.replicas.remove(fresh)
    fleet.replicas[n] = fresh
    async with within():
        while (await fresh.get("/readyz"))[0] != 200:
            await asyncio.sleep(0.05)


async def roll(fleet: Fleet, load: Load, count: int = 3) -> None:
    for n in range(count):
        await end(fleet, n)
        await start_again(fleet, n)
        await load.has_done(10)


@pytest.mark.parametrize("lag_s", CHECKS)
async def test_nobody_notices_a_rolling_restart(
    lag_s: int, store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    async with under_load(lag_s, store, ledger, tmp_path) as (fleet, load):
        await roll(fleet, load, 1 if lag_s == max(CHECKS) else 3)  # all of them: in the slow suite


async def test_nobody_notices_although_no_connection_is_tried_again(
    store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    """It is all on the delay: until the balancer knows, a replica that ends goes on accepting."""
    async with under_load(1, store, ledger, tmp_path, checks=Checks(500, 2, retries=0)) as (fleet, load):
        await roll(fleet, load)


async def test_nobody_notices_that_there_is_one_only_for_a_while(
    store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    async with under_load(0, store, ledger, tmp_path) as (fleet, load):
        await three_one_three(fleet, load, stays=2)


async def three_one_three(fleet: Fleet, load: Load, stays: int) -> None:
    gone = [n for n in range(3) if n != stays]
    await end(fleet, *gone)
    await load.has_done(30)
    for n in gone:
        await start_again(fleet, n)
    await load.has_done(30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("lag_s", "drain"), [*((lag_s, ()) for lag_s in CHECKS), pytest.param(5, RENDERED, id="rendered")]
)
async def test_nobody_notices_many_rolling_restarts(
    lag_s: int, drain: Sequence[str], store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    """Also where the balancer takes as long as the replica waits for it."""
    async with under_load(lag_s, store, ledger, tmp_path, drain) as (fleet, load):
        for _ in range(ROUNDS):
            await roll(fleet, load)
            assert not load.failed, load.failed


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_nobody_notices_many_changes_of_scale(store: Server, ledger: Ledger, tmp_path: Path) -> None:
    async with under_load(0, store, ledger, tmp_path) as (fleet, load):
        for n in range(ROUNDS):
            await three_one_three(fleet, load, stays=n % 3)
            assert not load.failed, load.failed
