"""What the samples of a relay's CPU say of its restart."""

import pytest

from bench.rows.relay import Sample, busiest_second


def test_even_work_has_no_busiest_second() -> None:
    samples = [Sample(at / 10, at / 20) for at in range(40)]
    assert busiest_second(samples) == pytest.approx(1.0)


def test_a_spike_is_found_wherever_it_begins() -> None:
    # Ten seconds of nothing but for one, from 3.7 on, in which a core was busy.
    samples = [Sample(at / 10, min(1.0, max(0.0, at / 10 - 3.7))) for at in range(101)]
    assert busiest_second(samples) == pytest.approx(10.0)


def test_looks_that_were_late_are_no_spike() -> None:
    samples = [Sample(0, 0), Sample(0.5, 0.25), Sample(2.5, 1.25), Sample(2.6, 1.3), Sample(4.0, 2.0)]
    assert busiest_second(samples) == pytest.approx(1.0)


@pytest.mark.parametrize("samples", [[Sample(1.0, 2.0), Sample(1.5, 2.1)], [Sample(0, 1.0), Sample(5, 1.0)]])
def test_what_took_less_than_a_second_or_nothing_is_no_spike(samples: list[Sample]) -> None:
    assert busiest_second(samples) <= 1.0
