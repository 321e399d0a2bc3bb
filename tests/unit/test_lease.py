"""A replica's lease: never longer than whoever keeps it keeps it, whatever happens in between."""

import time

from hypothesis import given
from hypothesis import strategies as st

from mooring.replicas.lease import Lease, suspending_clock


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_counts_from_the_question_not_from_the_answer() -> None:
    clock = Clock()
    lease = Lease(9.0, clock)
    assert not lease.holds
    asked_at = lease.now()
    clock.now += 5  # the answer took its time
    lease.renewed(asked_at)
    assert lease.left_s == 4.0
    clock.now += 4
    assert lease.left_s == 0.0
    assert not lease.holds


def test_a_late_answer_to_an_early_question_shortens_nothing() -> None:
    clock = Clock()
    lease = Lease(9.0, clock)
    early = lease.now()
    clock.now += 3
    lease.renewed(lease.now())
    lease.renewed(early)
    assert lease.left_s == 9.0


def test_what_is_lost_is_lost() -> None:
    clock = Clock()
    lease = Lease(9.0, clock)
    lease.renewed(lease.now())
    lease.lapse()
    assert not lease.holds


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20), st.booleans()), max_size=30))
def test_whoever_holds_it_here_is_known_to_hold_it_there(steps: list[tuple[float, float, bool]]) -> None:
    """Redis keeps it for ten seconds from when it hears; we rely on nine from when we asked."""
    clock, kept_until = Clock(), 0.0
    lease = Lease(9.0, clock)
    for before_s, after_s, answered in steps:
        asked_at = lease.now()
        clock.now += before_s
        kept_until = clock.now + 10.0  # heard, whether the answer arrives or not
        clock.now += after_s
        if answered:
            lease.renewed(asked_at)
        assert not lease.holds or clock.now < kept_until


def test_its_clock_goes_on() -> None:
    clock = suspending_clock()
    before = clock()
    time.sleep(0.01)
    assert clock() > before
