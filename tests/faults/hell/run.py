"""One run: a workload of children from hell, some clients from hell, an ending; then the oracle.

Many runs share a process, a loop and a listener, and go on side by side. What cannot be told of one run
alone (tasks, descriptors, what was logged without a name) is looked at when all of them are over.
"""

import asyncio
import gc
import io
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mooring.proxy.policy import SessionPolicy
from mooring.runtimes.stopping import StopPatience
from mooring.supervise.restart import RestartPolicy
from mooring.workloads.definition import ServerOptions
from mooring.workloads.workload import Workload
from tests.faults.hell.client import Client
from tests.faults.hell.facts import HANG_S, Facts, Ledger
from tests.faults.hell.house import TOKENS, House, leaks_since, open_house, possessions
from tests.faults.hell.modern_client import ModernClient
from tests.faults.hell.oracle import judge
from tests.faults.hell.sse_client import SseClient
from tests.faults.hell.wires import Address
from tests.faults.hell.ws_client import WsClient
from tests.support import alive, until, within

__all__ = ["Outcome", "run_all"]

FLOOD_BYTES = 100_000_000
USUAL_FLOOD_BYTES = 200_000
RUN_S = 300.0
"""Everything in a run has its bound; this is for what was forgotten."""
KINDS: tuple[type[Client], ...] = (Client, SseClient, ModernClient, WsClient)
KIND_WEIGHTS = (8, 2, 5, 5)
MODERN, MODERN_CHANCE = "modern", 0.25
"""Of servers of 2026-07-28."""
ENDINGS = ("delete", "delete", "abandon", "stop", "shut down")


class Outcome(NamedTuple):
    """What became of one run, or of what many had in common."""

    seed: int | None
    problems: list[str]
    outcomes: Counter[str]
    tell_story: Callable[[], str]

    def told(self) -> str:
        """What is wrong, and how to see it again."""
        again = "" if self.seed is None else f"\nrepeat it: python -m tests.faults.hell {self.seed}"
        return "\n".join(f"seed {self.seed}: {problem}" for problem in self.problems) + again


def _draw_options(dice: random.Random, seed: int, name: str, house: House, ledger: Path) -> ServerOptions:
    pick = dice.choice
    flood_bytes = FLOOD_BYTES if seed % 500 == 499 else USUAL_FLOOD_BYTES
    # With a server that answers or ends nobody needs a time-out in order not to hang.
    is_honest = dice.random() < 0.4
    python: str = sys._base_executable  # type: ignore[attr-defined]
    words = [str(seed), str(ledger), str(flood_bytes), *(["honest"] if is_honest else [])]
    if dice.random() < MODERN_CHANCE:
        words.append(MODERN)
    return ServerOptions(
        name=name,
        argv=(python, "-I", "-S", str(house.child), *words),
        spare=pick((0, 0, 1)),
        sessions=SessionPolicy(
            shared=pick((0, 0, 0, 1, 2)),
            max_sessions=pick((2, 100, 100)),
            max_message_bytes=pick((20_000, 200_000, 4_000_000)),
            max_calls=pick((3, 100, 100, 100)),
            max_asked=pick((2, 100)),
            call_timeout_s=None if is_honest else pick((0.5, 1.5, 3.0)),
            idle_timeout_s=pick((None, 0.2, 10.0)),
            recovery_wait_s=pick((0.3, 1.0)),
            handshake_timeout_s=pick((0.5, 2.0)),
            cancel_wait_s=pick((0.1, 0.5)),
            retry=pick((False, False, True)),
            stream_after_s=pick((0.0, 0.2, 15.0)),
            keep_alive_s=pick((0.1, 15.0)),
            retry_ms=pick((0, 1000)),
            retained_bytes=pick((500, 20_000, 1_000_000)),
            retained_streams=pick((1, 32)),
            retained_s=pick((0.2, 300.0)),
            max_streams=pick((1, 3)),
            unsent_bytes=pick((1000, 1_000_000)),
            backlog_messages=pick((2, 256)),
            shared_bytes=pick((20_000, 1_000_000, 256_000_000)),
        ),
        restarts=RestartPolicy(
            immediate=pick((1, 3, 1000)),
            delays_s=(0.02, 0.1, 0.3),
            attempts=pick((1, 5)),
            max_exits=pick((3, 1000, 1000)),
            stable_s=pick((0.3, 60.0)),
            incident_s=pick((0.0, 1.0)),
            failed_retry_s=pick((0.1, 60.0)),
        ),
        patience=StopPatience(eof_grace_s=pick((0.0, 0.1)), stop_grace_s=0.1),
    )


async def _run_safely(house: House, seed: int) -> Outcome:
    try:
        return await _run(house, seed)
    except Exception:
        return Outcome(seed, [f"the run itself failed: {traceback.format_exc()}"], Counter(), str)


async def _run(house: House, seed: int) -> Outcome:
    dice = random.Random(seed)
    name = house.new_name(seed)
    path = house.folder / name
    options = _draw_options(dice, seed, name, house, path)
    facts = Facts(seed, shared=options.sessions.shared > 0, modern=MODERN in options.argv)
    facts.tell("run", f"{options}")
    workload = Workload(options, clock=time.monotonic)
    house.open(workload, facts)

    def victims() -> list[int]:
        return [instance.pid for instance in workload.report()]

    clients: list[Client] = []
    for number in range(dice.choice((1, 2, 2, 3, 4))):
        kind = dice.choices(KINDS, KIND_WEIGHTS)[0]
        address = Address(house.port, f"/{workload.name}", dice.choice(list(TOKENS.values())))
        clients.append(kind(facts, address, number, all_clients=clients, victims=victims))
    if dice.random() < 0.2:
        workload.start()
    try:
        await asyncio.gather(*(client.talk() for client in clients))
        if dice.random() < 0.6:
            await asyncio.gather(*(client.settle() for client in clients))
        await _end(dice.choice(ENDINGS), workload, clients, facts)
    finally:
        for session in workload.proxy.sessions.values():
            facts.closed[session.short_id] = "the run is over"
        await workload.stop("the run is over")
        await asyncio.gather(*(client.finish() for client in clients))
        house.close(workload)
    ledger = Ledger(path)
    _look_for_remains(workload, ledger, facts)
    judge(facts, ledger, retries=options.sessions.retry)
    return Outcome(seed, facts.problems, facts.outcomes, lambda: facts.story(ledger))


async def _end(ending: str, workload: Workload, clients: list[Client], facts: Facts) -> None:
    """One of the ways in which a run may end, also in the middle of calls."""
    facts.tell("run", f"ends: {ending}")
    facts.is_ending = True
    proxy = workload.proxy
    if ending == "abandon":
        for client in clients:
            client.abandon()
    elif ending == "delete":
        await asyncio.gather(*(client.delete() for client in clients))
        await asyncio.gather(*(client.finish() for client in clients))
        has_modern = any(isinstance(client, ModernClient) for client in clients)
        await _until_gone(workload, facts, has_modern=has_modern)
    elif ending == "shut down":
        workload.drain(ending)
        proxy.refuse_new(ending)
        proxy.hang_up()
        with suppress(TimeoutError):
            async with within(0.1):
                await proxy.wait_quiet()
        proxy.cut("shutting_down", "the run is over")


async def _until_gone(workload: Workload, facts: Facts, *, has_modern: bool) -> None:
    """Every session was deleted or never opened; then there is none, and nothing that serves one.

    What many share stays, and is no more than was allowed; and what serves those without sessions.
    """
    sessions, standing = workload.proxy.sessions, workload.proxy.policy.shared
    if has_modern:
        standing += workload.proxy.policy.max_sessions
    idle = {"probing", "spare"} if standing else {"probing"}

    def busy() -> int:
        return sum(report.use not in idle for report in workload.report())

    try:
        await until(lambda: not sessions, HANG_S)
        await until(lambda: busy() <= standing, HANG_S)
        await until(lambda: not workload.proxy.calls_in_flight, HANG_S)
    except TimeoutError:
        facts.problem(f"all was deleted, and there are still {sessions} and {workload.report()}")


def _look_for_remains(workload: Workload, ledger: Ledger, facts: Facts) -> None:
    if workload.proxy.sessions or workload.proxy.calls_in_flight:
        facts.problem(f"sessions are left: {workload.proxy.sessions}")
    if workload.report() or workload._tasks:
        facts.problem(f"instances are left: {workload.report()}, tasks: {workload._tasks}")
    if left := [pid for pid in ledger.pids if alive(pid)]:
        facts.problem(f"processes are left: {left}")
    budgets = {
        "calls": workload.proxy.in_flight,
        "events": workload.proxy.kept,
        "unfinished lines": workload.unfinished,
    }
    for what, budget in budgets.items():
        if budget.taken_bytes:
            facts.problem(f"{budget.taken_bytes} bytes of {what} are counted, and nobody holds any")


async def run_all(seeds: Iterable[int], *, at_once: int = 8) -> AsyncIterator[Outcome]:
    """The runs as they come to their ends, and last what they had in common."""
    gc.collect()
    before = possessions()
    async with open_house() as house:
        waiting = list(seeds)[::-1]
        running: set[asyncio.Task[Outcome]] = set()
        while waiting or running:
            while waiting and len(running) < at_once:
                running.add(asyncio.create_task(_run_safely(house, waiting.pop())))
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED, timeout=RUN_S)
            for task in done:
                yield task.result()
            if not done:
                problems = [f"no run came to its end in {RUN_S:g} s", *map(_stack, asyncio.all_tasks())]
                yield Outcome(None, problems, Counter(), str)
                raise TimeoutError("no run came to its end")
    problems = [f"{number} times: {text}" for text, number in house.problems.items()]
    yield Outcome(None, [*problems, *await leaks_since(before)], Counter(), str)


def _stack(task: asyncio.Task[Any]) -> str:
    text = io.StringIO()
    task.print_stack(file=text)
    return text.getvalue()
