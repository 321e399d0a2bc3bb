"""Any sequence of commands and deaths keeps the promises of `machine`."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.e2e.lifecycle.machine import Lifecycle

LATELY = settings(
    deadline=None,
    database=None,
    # To make a failure smaller takes as long again for each step; what is printed says what was done.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def test_a_few_lives() -> None:
    few = settings(LATELY, max_examples=3, stateful_step_count=12, derandomize=True)
    run_state_machine_as_test(Lifecycle, settings=few)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_lives() -> None:
    run_state_machine_as_test(Lifecycle, settings=settings(LATELY, max_examples=100, stateful_step_count=40))
