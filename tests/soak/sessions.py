"""Sessions that nobody ends: opened, used once or never, and left.

Each gets a server of its own, so how many are opened in a second is decided by how fast a server
starts; with `/bin/sh` as the server it is a millisecond. An idle session loses its server after half
a second and gives way when a thousand are there, as the default limit has it.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.soak.actors import Scene, desert
from tests.soak.command import TINY, Target
from tests.soak.report import Report
from tests.soak.stage import Stage

__all__ = ["soak"]

CLIENTS = 12


async def soak(number: int, out: Path, seed: int) -> Report:
    """So many sessions, half of them before a rest."""
    random = Random(seed)
    target = Target("sessions", TINY, max_sessions=1000, idle_timeout_s=0.5)
    async with Stage("sessions", out, (target,), every_s=2.0, settle_s=6.0) as stage:
        for half in (1, 2):
            stage.begin(f"load {half}")
            left = iter(range(number // 2))
            await asyncio.gather(*(_desert_all(Scene(target, random), left) for _ in range(CLIENTS)))
            await stage.rest()
    return stage.conclude()


async def _desert_all(scene: Scene, left: Iterator[int]) -> None:
    for _ in left:
        await desert(scene)
