"""Anything may be killed, or stand still for longer than a lease, at any moment.

Each call ends with a result or an error that says what is known, within its bound; none is executed twice;
and everything serves again afterwards.
"""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.replicas.balancer import Balancer, Checks, running_balancer
from tests.e2e.replicas.fleet import Fleet, port_of, running_fleet
from tests.e2e.replicas.load import Load, Outcome
from tests.ledger import Ledger
from tests.replicas.stores import Server
from tests.support import suspend, until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

LEASE_S = 2
STILL_S = 1.7 * LEASE_S
CLIENTS = ("plain", "kept", "several", "new", "modern")
DELAYS = (0.0, 0.02, 0.3, 0.0, 1.0)
TOLD = (502, 503, 504)
"""By the balancer, which has no words of ours; ours come with a reason."""
ROUNDS = 15


class Place:
    """All that can be killed."""

    def __init__(self, fleet: Fleet, store: Server, balancer: Balancer, chance: random.Random) -> None:
        self.fleet = fleet
        self.store = store
        self.balancer = balancer
        self.chance = chance

    async def _stand_still(self, pid: int) -> None:
        await suspend(pid)
        try:
            await asyncio.sleep(STILL_S)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def kill_replica(self) -> None:
        n = self.chance.randrange(len(self.fleet.replicas))
        replica = self.fleet.replicas[n]
        replica.exit_status = -signal.SIGKILL
        replica.signal(signal.SIGKILL)
        await replica.ended()
        await asyncio.sleep(self.chance.random())
        fresh = await self.fleet.add(port=port_of(replica))
        self.fleet.replicas.remove(fresh)
        self.fleet.replicas[n] = fresh

    async def stop_replica(self) -> None:
        await self._stand_still(self.chance.choice(self.fleet.replicas).pid)

    async def _child(self) -> int:
        found: list[int] = []

        def look() -> list[int]:
            found[:] = sorted(self.chance.choice(self.fleet.replicas).servers())
            return found

        await until(look)
        return self.chance.choice(found)

    async def kill_child(self) -> None:
        pid = await self._child()
        with suppress(ProcessLookupError):  # it has gone by itself
            os.kill(pid, signal.SIGKILL)

    async def stop_child(self) -> None:
        with suppress(ProcessLookupError, FileNotFoundError):
            await self._stand_still(await self._child())

    async def kill_redis(self) -> None:
        await self.store.kill()
        await asyncio.sleep(self.chance.random())
        await self.store.start()

    async def stop_redis(self) -> None:
        await self._stand_still(self.store.pid)

    async def kill_balancer(self) -> None:
        await self.balancer.kill()
        await asyncio.sleep(self.chance.random() / 2)
        await self.balancer.start()

    async def stop_balancer(self) -> None:
        await self._stand_still(self.balancer.pid)


ACCIDENTS: dict[str, Callable[[Place], Coroutine[Any, Any, None]]] = {
    "replica-killed": Place.kill_replica,
    "replica-stopped": Place.stop_replica,
    "child-killed": Place.kill_child,
    "child-stopped": Place.stop_child,
    "redis-killed": Place.kill_redis,
    "redis-stopped": Place.stop_redis,
    "balancer-killed": Place.kill_balancer,
    "balancer-stopped": Place.stop_balancer,
}


def is_told(mark: str, outcome: Outcome, accident: str) -> bool:
    """Does its client know what became of a call, or that nobody can say?"""
    if outcome.kind == "result":
        return True
    if outcome.kind == "error":
        return bool(outcome.reason)
    if outcome.kind == "refused":
        return outcome.status in TOLD
    # Whoever sits between must not be killed: nobody is left who could say anything. And on a connection that
    # its client keeps, HAProxy itself says nothing of a replica that went: it closes.
    silent = accident == "balancer-killed" or (accident == "replica-killed" and mark.startswith("kept"))
    return outcome.kind == "cut" and silent


async def go_through(
    accidents: list[str], store: Server, ledger: Ledger, folder: Path, seed: int | None = None
) -> None:
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with (
        running_fleet(3, store, ledger.command, "--lease", f"{LEASE_S}s") as fleet,
        running_balancer(folder / "balancer", fleet.addresses, Checks(200, 2)) as balancer,
    ):
        await fleet.know_each_other()
        await balancer.sees(0, 1, 2)
        place = Place(fleet, store, balancer, chance)
        load = Load(balancer.port, ledger, delays=DELAYS)
        try:
            load.begin(*CLIENTS)
            await load.all_are_served()
            for accident in accidents:
                before = set(load.outcomes)
                await asyncio.sleep(chance.random() / 2)
                async with within(60):
                    await ACCIDENTS[accident](place)
                await load.all_are_served()
                new = {mark: how for mark, how in load.outcomes.items() if mark not in before}
                print(accident, {(how.kind, how.status, how.reason) for how in new.values()}, len(new))
                wrong = {mark: how for mark, how in new.items() if not is_told(mark, how, accident)}
                assert not wrong, wrong
                load.assert_none_twice()
            await load.end()
        finally:
            await load.stop()
        async with within():
            for replica in fleet.replicas:
                while (await replica.get("/readyz"))[0] != 200:
                    await asyncio.sleep(0.05)
    load.assert_none_twice()


@pytest.mark.parametrize("victim", ["replica", "child", "redis", "balancer"])
async def test_one_is_killed_and_one_stands_still(
    victim: str, store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    await go_through([f"{victim}-killed", f"{victim}-stopped"], store, ledger, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("accident", ACCIDENTS)
async def test_again_and_again(accident: str, store: Server, ledger: Ledger, tmp_path: Path) -> None:
    await go_through([accident] * ROUNDS, store, ledger, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_one_after_the_other_at_random(store: Server, ledger: Ledger, tmp_path: Path) -> None:
    await go_through(random.choices(list(ACCIDENTS), k=4 * ROUNDS), store, ledger, tmp_path)
