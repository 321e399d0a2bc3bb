"""Calls through a few sessions, each opened once and used to the end, while their servers are killed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.soak.actors import Scene, echo
from tests.soak.client import Client
from tests.soak.command import QUICK, Target
from tests.soak.report import Report
from tests.soak.stage import Stage

__all__ = ["soak"]

SESSIONS = 8
AT_ONCE = 4
"""Calls under way on each."""


async def soak(number: int, out: Path, seed: int) -> Report:
    """So many calls, half of them before a rest."""
    random = Random(seed)
    target = Target("calls", QUICK, max_sessions=SESSIONS, idle_timeout_s=3.0)
    async with Stage("calls", out, (target,), every_s=2.0, settle_s=6.0) as stage:
        scene = Scene(target, random)
        clients = [Client(target.port) for _ in range(SESSIONS)]
        for client in clients:
            await client.open()
        for half in (1, 2):
            stage.begin(f"load {half}")
            ended = asyncio.Event()
            harassing = asyncio.create_task(target.harass(random, ended))
            left = iter(range(number // 2))
            await asyncio.gather(*(_call(scene, client, left) for client in clients for _ in range(AT_ONCE)))
            ended.set()
            await harassing
            for client in clients:
                await client.disconnect()
            await stage.rest()
    return stage.conclude()


async def _call(scene: Scene, client: Client, left: Iterator[int]) -> None:
    for _ in left:
        await echo(scene, client, 20)
