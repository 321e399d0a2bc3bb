"""How long a shutdown may take: the same numbers as the drain's own, and a warning where they do not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.running.run import run
from mooring.host.grace import MARGIN_S, grace_period_s, longest_drain_s, missing_grace
from mooring.host.shutdown import FLUSH_S, DrainPolicy

USUAL = DrainPolicy(delay_s=5.0, timeout_s=20.0, children_s=7.0)
"""In Kubernetes."""
SPANS = st.floats(0, 1000)


@given(SPANS, SPANS, SPANS)
def test_it_is_all_that_the_drain_may_take_and_two_seconds(
    delay: float, timeout: float, children: float
) -> None:
    policy = DrainPolicy(delay_s=delay, timeout_s=timeout, children_s=children)
    longest_s, grace_s, calls_s = longest_drain_s(policy), grace_period_s(policy), policy.calls_s()
    assert longest_s is not None and grace_s is not None and calls_s is not None
    # As `shut_down` counts: the delay, the share of the calls, their answers; children get the rest.
    children_s = max(0.0, timeout - calls_s - FLUSH_S)
    assert longest_s == pytest.approx(delay + calls_s + FLUSH_S + children_s)
    assert longest_s + MARGIN_S <= grace_s < longest_s + MARGIN_S + 1


def test_the_usual_ones_fit_into_what_pods_have() -> None:
    assert grace_period_s(USUAL) == 27
    assert missing_grace(USUAL, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None


def test_the_usual_ones_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    given = run.make_context("run", ["x", "--", "y"], help_option_names=[]).params
    children_s = given["eof_grace"] + given["stop_grace"]
    policy = DrainPolicy(
        delay_s=given["drain_delay"], timeout_s=given["drain_timeout"], children_s=children_s
    )
    assert policy == USUAL


def test_a_grace_period_that_is_too_short_is_told() -> None:
    assert missing_grace(USUAL, {"MOORING_GRACE_PERIOD": "27"}) is None
    assert missing_grace(USUAL, {"MOORING_GRACE_PERIOD": "26"}) == (
        "a shutdown may take 27 s (--drain-delay 5 s, --drain-timeout 20 s, 2 s to end), "
        "but is cut off after 26 s: set terminationGracePeriodSeconds and MOORING_GRACE_PERIOD to 27, "
        "or shorten the drain"
    )


def test_where_nobody_tells_it_a_pod_has_the_usual_one() -> None:
    long = DrainPolicy(delay_s=5.0, timeout_s=60.0, children_s=7.0)
    assert missing_grace(long, {}) is None, "there need not be anybody who kills"
    told = missing_grace(long, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert told is not None and "67 s" in told and "30 s, the usual ones of Kubernetes" in told
    assert missing_grace(long, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "MOORING_GRACE_PERIOD": "67"}) is None


def test_without_a_bound_there_is_nothing_to_compare() -> None:
    endless = DrainPolicy(delay_s=5.0, timeout_s=None, children_s=7.0)
    assert grace_period_s(endless) is None
    assert missing_grace(endless, {"MOORING_GRACE_PERIOD": "1"}) is None


@pytest.mark.parametrize("wrong", ["soon", "-1", "1.5", "٣"])
def test_a_number_that_is_none_is_told(wrong: str) -> None:
    told = missing_grace(USUAL, {"MOORING_GRACE_PERIOD": wrong})
    assert told is not None and "is no number of seconds" in told
