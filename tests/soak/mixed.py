"""Mixed load in two halves, each with a rest after it.

Restarts of Mooring itself fall into the first half, so that the second is the life of one process.
Kills of its servers go on all the time.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable
from pathlib import Path
from random import Random

from tests.soak.actors import CROWD, IDLE_TIMEOUT_S, QUICK_CROWD, Actor, Scene, visit_again_and_again
from tests.soak.command import DEMO, QUICK, Target
from tests.soak.report import Report
from tests.soak.stage import Stage

__all__ = ["soak"]

RESTARTS = {
    "demo": ((0.15, signal.SIGTERM), (0.35, signal.SIGKILL), (0.6, signal.SIGTERM)),
    "quick": ((0.25, signal.SIGTERM), (0.5, signal.SIGTERM)),
}
"""Name → when, as a part of the first half, and how."""
SETTLE_S = IDLE_TIMEOUT_S + 3
LONG_SETTLE_S = 25.0
"""After much load: until memory that lies idle has been given back (docs/adr/0010)."""
LONG_MINUTES = 5
"""Until the last instance has been found idle and has been stopped."""
LEAVING_S = 90.0


async def soak(minutes: float, out: Path, seed: int) -> Report:
    """The whole soak."""
    random = Random(seed)
    # More sessions than there are clients: deserted ones fill the rest, and give way to new ones.
    demo = Target("demo", DEMO, max_sessions=100, idle_timeout_s=IDLE_TIMEOUT_S)
    quick = Target("quick", QUICK, max_sessions=70, idle_timeout_s=IDLE_TIMEOUT_S)
    every_s = min(4.0, max(1.0, minutes / 5))
    settle_s = LONG_SETTLE_S if minutes >= LONG_MINUTES else SETTLE_S
    async with Stage("mixed", out, (demo, quick), every_s=every_s, settle_s=settle_s) as stage:
        for half in (1, 2):
            leaving = asyncio.Event()
            stage.begin(f"load {half}")
            work = [
                *_crowd(demo, CROWD, random, leaving),
                *_crowd(quick, QUICK_CROWD, random, leaving),
                *(target.harass(random, leaving) for target in stage.targets),
            ]
            if half == 1:
                work += [_restart(stage, target, minutes * 30) for target in stage.targets]
            await _play(stage, work, minutes * 30, leaving)
            await stage.rest()
    return stage.conclude()


def _crowd(
    target: Target, crowd: dict[Actor, int], random: Random, leaving: asyncio.Event
) -> list[Awaitable[None]]:
    return [
        visit_again_and_again(actor, Scene(target, Random(random.random())), leaving)
        for actor, number in crowd.items()
        for _ in range(number)
    ]


async def _play(stage: Stage, work: list[Awaitable[None]], span_s: float, leaving: asyncio.Event) -> None:
    playing = asyncio.gather(*work)
    try:
        await asyncio.wait((playing,), timeout=span_s)  # it ends sooner only if something fails
        leaving.set()
        stage.begin("leaving")
        async with asyncio.timeout(LEAVING_S):
            await playing
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


async def _restart(stage: Stage, target: Target, span_s: float) -> None:
    began = time.monotonic()
    for part, signum in RESTARTS[target.name]:
        await asyncio.sleep(max(0.0, began + part * span_s - time.monotonic()))
        stage.mark(f"{target.name}: {signum.name}")
        await target.restart(signum)
