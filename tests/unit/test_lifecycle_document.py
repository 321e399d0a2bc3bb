"""docs/lifecycle.md has the transition table of the code, and its numbers."""

import re

from mooring.supervise.restart import RestartPolicy
from mooring.supervise.states import State
from tests.lifecycle_page import PAGE, page


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "python -m tests.lifecycle_page --write"


def test_the_numbers_are_those_of_the_policy() -> None:
    policy, text = RestartPolicy(), PAGE.read_text()
    ladder = ", ".join(f"{delay:g}" for delay in policy.delays_s)
    assert f"after {ladder} s" in text
    assert f"up to {policy.immediate} times in {policy.immediate_window_s:g} s" in text
    assert f"{policy.attempts} delayed restarts" in text
    assert f"more than {policy.max_exits} exits in {policy.max_exits_window_s / 60:g} minutes" in text
    assert f"every {policy.failed_retry_s:g} s" in text


def test_every_state_is_spoken_of() -> None:
    prose = PAGE.read_text().partition("<!--")[0]
    assert set(State) <= set(re.findall(r"`(\w+)`", prose))
