"""How long an agent waits before it dials again."""

import random
from collections import Counter

import pytest

from mooring.relay.backoff import Backoff
from mooring.relay.policy import AgentPolicy

POLICY = AgentPolicy()


def test_the_longest_delays_double_up_to_half_a_minute() -> None:
    backoff = Backoff(POLICY, lambda: 1.0)
    assert [backoff.next_s() for _ in range(9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_each_delay_may_be_nothing_at_all() -> None:
    backoff = Backoff(POLICY, lambda: 0.0)
    assert [backoff.next_s() for _ in range(9)] == [0.0] * 9


def test_chance_takes_its_share_of_the_whole_delay() -> None:
    draws = iter([0.25, 0.5, 0.75])
    backoff = Backoff(POLICY, lambda: next(draws))
    assert [backoff.next_s() for _ in range(3)] == [0.125, 0.5, 1.5]


@pytest.mark.parametrize(("held_s", "then_s"), [(0.0, 8.0), (59.9, 8.0), (60.0, 0.5), (86_400.0, 0.5)])
def test_only_a_link_that_held_for_a_minute_was_good(held_s: float, then_s: float) -> None:
    backoff = Backoff(POLICY, lambda: 1.0)
    for _ in range(4):
        backoff.next_s()
    backoff.note_uptime(held_s)
    assert backoff.next_s() == then_s


def test_the_relays_own_word_comes_first_and_jitter_only_adds() -> None:
    backoff = Backoff(POLICY, lambda: 0.5)
    assert backoff.next_s(7.0) == 7.25
    assert backoff.next_s() == 0.5, "said once, and attempts are counted all the same"


def test_no_number_of_attempts_is_too_many() -> None:
    backoff = Backoff(POLICY, lambda: 1.0)
    assert max(backoff.next_s() for _ in range(20_000)) == 30.0


def test_thousands_come_back_spread_evenly() -> None:
    """After a relay's restart: of 5,000 agents, each tenth of the first delay gets a tenth of them."""
    chance = random.Random(7).random
    delays = [Backoff(POLICY, chance).next_s() for _ in range(5000)]
    tenths = Counter(int(delay / 0.05) for delay in delays)
    assert set(tenths) == set(range(10))
    assert max(tenths.values()) < 1.3 * min(tenths.values())
