"""Seeded runs of a child from hell × a client from hell: nothing hangs, goes astray or is left behind."""

import asyncio
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.hell.run import run_all
from tests.support import LOOPS

ROOT = Path(__file__).parents[3]
SLOW_RUNS = 10_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("loop", "seeds"), [("asyncio", range(75)), ("uvloop", range(75, 150))])
def test_runs_from_hell(loop: str, seeds: range) -> None:
    outcomes: Counter[str] = Counter()
    found: list[str] = []

    async def run() -> None:
        async for outcome in run_all(seeds):
            outcomes.update(outcome.outcomes)
            if outcome.problems:
                found.append(f"{outcome.tell_story()}\n{outcome.told()}")

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
    assert not found, "\n".join(found)
    assert outcomes["answered"] > outcomes.total() / 10, f"it was no conversation: {outcomes}"


@pytest.mark.slow
def test_ten_thousand_runs_from_hell() -> None:
    """Two processes, one on each loop."""
    half = SLOW_RUNS // 2
    shares = {"asyncio": f"0-{half - 1}", "uvloop": f"{half}-{SLOW_RUNS - 1}"}
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.hell", seeds, "--loop", loop],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for loop, seeds in shares.items()
    ]
    with ThreadPoolExecutor(len(programs)) as readers:  # together: one that nobody reads stands still
        told = list(readers.map(lambda program: program.communicate()[0], programs))
    print("\n".join(text[-2000:] for text in told))
    assert [program.returncode for program in programs] == [0, 0], "\n".join(told)
