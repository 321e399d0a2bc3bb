"""`python -m tests.faults.hell SEED` or `FIRST-LAST`: see the package."""

import argparse
import asyncio
import sys
import time
from collections import Counter

from tests.faults.hell.run import run_all
from tests.support import LOOPS

BATCH = 200
"""After so many, what they have in common is looked at."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.hell", description=__doc__)
    parser.add_argument("seeds", help="a number, or FIRST-LAST")
    parser.add_argument("--loop", choices=LOOPS, default="uvloop")
    parser.add_argument("--times", type=int, default=1, help="repeat them so often")
    parser.add_argument("--at-once", type=int, default=8, help="runs side by side")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1)) * options.times
    with asyncio.Runner(loop_factory=LOOPS[options.loop]) as runner:
        return runner.run(_show(seeds, options.at_once))


async def _show(seeds: list[int], at_once: int) -> int:
    begun = time.monotonic()
    failed, done = 0, 0
    outcomes: Counter[str] = Counter()
    while done < len(seeds):
        some = seeds[done : done + BATCH]
        async for outcome in run_all(some, at_once=at_once):
            outcomes += outcome.outcomes
            failed += bool(outcome.problems)
            if outcome.problems or len(set(seeds)) == 1:
                print(outcome.tell_story(), outcome.told(), sep="\n", flush=True)
        done += len(some)
        speed = done / (time.monotonic() - begun)
        print(f"up to seed {some[-1]}: {done} runs, {speed:.1f}/s, {failed} failed", flush=True)
    print(f"{time.monotonic() - begun:.0f} s; calls: {dict(outcomes)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
