"""32 clients with equal ids and tokens on one shared process; all of its messages reach whom they concern."""

import pytest

from tests.faults.isolation.crowd import run_crowd
from tests.faults.isolation.ears import Tally

MANY, FEW = 32, 6


def check(tally: Tally, clients: int, kills: int) -> None:
    print(", ".join(f"{what} {number}" for what, number in sorted(tally.counts.items())))
    print(*tally.wrong, sep="\n")  # at once: what is seen once in a million must not be lost
    assert not tally.wrong, "\n".join(tally.wrong)
    for what in ("answers", "progress", "updates", "other news", "log messages"):
        assert tally.counts[f"heard {what}"] > 0, f"no {what} were heard"
    assert tally.counts["killed"] >= kills
    assert tally.counts["came"] > clients and tally.counts["cancelled"]


async def test_nobody_hears_what_is_not_its_own() -> None:
    check(await run_crowd(MANY, 15_000, 3, seed=1), MANY, 2)


async def test_nobody_hears_the_log_of_others_though_some_are_alone_at_times() -> None:
    check(await run_crowd(FEW, 8_000, 3, seed=2, pause_s=0.02), FEW, 2)


@pytest.mark.slow
async def test_nobody_hears_what_is_not_its_own_among_a_million_messages() -> None:
    check(await run_crowd(MANY, 1_000_000, 100, seed=3), MANY, 50)


@pytest.mark.slow
async def test_nobody_hears_the_log_of_others_among_a_hundred_thousand_messages() -> None:
    check(await run_crowd(FEW, 100_000, 50, seed=4, pause_s=0.02), FEW, 25)
