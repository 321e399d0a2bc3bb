"""Many clients at once, and somebody who kills their server."""

import asyncio
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

from mooring.supervise.restart import RestartPolicy
from tests.faults.isolation.clients import CALLS_AT_ONCE, Client, client_of_kind
from tests.faults.isolation.ears import Tally
from tests.hosting import hosting
from tests.support import within

SERVER = (sys.executable, "-S", str(Path(__file__).with_name("gossip_server.py")))
PATIENT = RestartPolicy(immediate=100_000, max_exits=100_000)  # kills are the subject, not back-off
STAYS_FOR = (10, 200)
"""Rounds of calls."""


async def run_crowd(clients: int, messages: int, kills: int, *, seed: int, pause_s: float = 0.0) -> Tally:
    """Until so many messages were heard; `pause_s`: between rounds, so that some have the server alone."""
    tally = Tally(messages)
    async with hosting(
        SERVER, shared=1, spare=1, restarts=PATIENT, cancel_wait_s=0.01, drain_timeout_s=0.1
    ) as host:
        killer = asyncio.create_task(_kill_now_and_then(tally, messages // (kills + 1)))
        try:
            async with asyncio.TaskGroup() as group:
                lives = [
                    group.create_task(
                        _live(number, host.port, tally, random.Random(f"{seed} {number}"), pause_s)
                    )
                    for number in range(clients)
                ]
        finally:
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)
        stayed = [life.result() for life in lives]
        await _replace_the_server(stayed[0], tally)
        for client in stayed:
            await _hear_the_log_alone(client, tally)
        for client in stayed:
            await client.leave()
    return tally


async def _live(number: int, port: int, tally: Tally, rng: random.Random, pause_s: float) -> Client:
    """Come, call, leave, come again as somebody else."""
    while True:
        client = client_of_kind(number * 3, port, tally, reads_log=number % 3 != 1)
        async with within():
            await client.come()
        tally.counts["came"] += 1
        for _ in range(rng.randint(*STAYS_FOR)):
            async with within():
                await _play_round(client, tally, rng)
            await asyncio.sleep(rng.random() * pause_s)
            if tally.is_done:
                return client
        if rng.random() < 0.5:
            for _ in range(CALLS_AT_ONCE):
                client.call(rng)
        async with within():
            await client.leave()


async def _play_round(client: Client, tally: Tally, rng: random.Random) -> None:
    for _ in range(rng.randint(1, CALLS_AT_ONCE)):
        client.call(rng)
    if rng.random() < 0.01:
        await client.hold_and_cancel()
        tally.counts["cancelled"] += 1
    await client.ears.quiet()


async def _kill_now_and_then(tally: Tally, every: int) -> None:
    due = every
    while True:
        await asyncio.sleep(0.02)
        if tally.heard >= due and tally.pid:
            due += every
            with suppress(ProcessLookupError):
                os.kill(tally.pid, signal.SIGKILL)
                tally.counts["killed"] += 1


async def _replace_the_server(client: Client, tally: Tally) -> None:
    """What was cancelled it never answers, and so nobody would hear the log of this one any more."""
    async with within():
        await _call_once(client)
        before = tally.pid
        with suppress(ProcessLookupError):  # that call was lost, and the next server has begun already
            os.kill(before, signal.SIGKILL)
        while tally.pid == before:
            await _call_once(client)


async def _call_once(client: Client) -> None:
    client.call(random.Random(0))
    await client.ears.quiet()


async def _hear_the_log_alone(client: Client, tally: Tally) -> None:
    """While nobody else has a call, a client that wants it hears the log of its own."""
    before = client.ears.logged
    async with within():
        while True:
            client.call(random.Random(0), log=True)
            await client.ears.quiet()
            if not client.reads_log or client.ears.logged > before:
                return
