"""A promise is kept by figures of the same run, and never by missing ones."""

import msgspec
import pytest

from bench import claims
from bench.claims import PROMISES, Claim, judge
from bench.results import PEERS, Results
from tests.unit.bench_sample import sample_run

NAMES = [promise.id for promise in PROMISES]


def claim(name: str, run: Results) -> Claim:
    [found] = [claim for claim in judge(run) if claim.id == name]
    return found


def test_every_promise_is_judged_under_a_name_of_its_own() -> None:
    assert [claim.id for claim in judge(sample_run())] == NAMES
    assert len(set(NAMES)) == len(NAMES)


def test_the_sample_keeps_all() -> None:
    assert {claim.verdict for claim in judge(sample_run())} == {"kept"}
    assert {claim.reason for claim in judge(sample_run())} == {""}


def test_without_rows_nothing_is_kept() -> None:
    nothing = msgspec.structs.replace(sample_run(), rows=[])
    assert {claim.verdict for claim in judge(nothing)} == {"not measured"}


# Row, target, the last figure that keeps the promise, the first that does not.
@pytest.mark.parametrize(
    ("name", "row_id", "target", "kept", "short"),
    [
        ("rate_pypi", "rate_1s", "mooring", 912 * 25, 912 * 25 - 1),
        ("rate_npm", "rate_1s", "mooring", 1923 * 12, 1923 * 12 - 1),
        ("rate_minimal", "rate_1s", "minimal", 50_000, 50_500),
        ("rates_pypi", "rate_32s", "pypi-mcp-proxy", 29_100 / 25, 1170),
        ("rates_npm", "rate_32s", "npm-mcp-proxy", 29_100 / 12, 2430),
        ("cpu_per_call", "cpu_per_call", "mooring", 45, 45.1),
        ("seq_p50", "seq_p50", "mooring", 0.2, 0.201),
        ("seq_p50", "seq_p50", "fastmcp", 0.76, 0.75),
        ("rss_50", "rss_50", "mooring", 35, 35.1),
        ("rss_per_session", "rss_per_session", "mooring", 20, 20.1),
        ("start", "start", "mooring", 0.254, 0.2541),
        ("line_20m", "line_20m", "mooring", 0.3, 0.301),
        ("echo_1m", "echo_1m", "mooring", 6, 6.01),
        ("death_error", "death_error", "mooring", 20, 20.1),
        ("sigterm_lost", "sigterm_lost", "mooring", 0, 1),
        ("flat", "cost_1000", "mooring", 35.6, 35.7),
        ("flat", "cost_100", "mooring", 35.6, 35.7),
        ("to_modern", "cpu_to_modern", "mooring", 51, 51.1),
        ("to_modern", "cpu_handshake", "mooring", 31, 30.6),
        ("to_handshake", "cpu_to_handshake", "mooring", 72, 72.1),
        ("to_handshake", "cpu_modern", "mooring", 40, 39.9),
        ("shared", "cpu_shared", "mooring", 52.5, 52.6),
        ("shared", "cpu_32s", "mooring", 48.1, 48),
        ("rss_1000_stateless", "rss_1000_stateless", "mooring", 60, 60.1),
        ("daemon", "cpu_daemon", "mooring", 35.7, 35.8),
        ("rss_daemon", "rss_daemon", "mooring", 45, 45.1),
        ("idle_processes", "idle_processes", "mooring", 0, 0.1),
        ("ls", "ls", "mooring", 150, 151),
        ("crash_loops", "crash_loops", "mooring", 200, 201),
        ("edit_69k", "edit_69k", "mooring", 100, 101),
        ("container_p50", "container_p50", "mooring", 0.22, 0.221),
        ("container_p50", "container_p50", "pipe", 0.19, 0.18),
        ("container_10ms", "container_10ms", "mooring", 11, 11.1),
        ("container_10ms", "container_10ms", "pipe", 9.3, 9.2),
        ("container_error", "container_error", "mooring", 200, 201),
        ("rss_containers", "rss_containers", "mooring", 60, 60.1),
        ("remote_rate", "remote_rate", "mooring", 94, 93),
        ("remote_rate", "remote_rate", "fastmcp", 350, 351),
        ("remote_p50", "remote_p50", "mooring", 0.6, 0.61),
        ("remote_event", "remote_event", "mooring", 1.1, 1.2),
        ("remote_growth", "remote_growth", "mooring", 2, 2.1),
        ("relay_rate", "relay_rate", "mooring", 6750, 6749),
        ("relay_rate", "relay_rate", "minimal", 10_666, 10_667),
        ("relay_p50", "relay_p50", "mooring", 1.2, 1.21),
        ("relay_p99", "relay_p99", "mooring", 6, 6.01),
        ("relay_idle", "relay_idle", "mooring", 30, 30.1),
        ("relay_growth", "relay_growth", "mooring", 2, 2.1),
        ("relay_herd", "relay_herd", "mooring", 10, 10.1),
        ("relay_peak", "relay_peak", "mooring", 2, 2.1),
        ("replica_cpu", "replica_cpu", "mooring", 21, 21.1),
        ("replica_cpu", "replica_cpu_alone", "mooring", 19.6, 19.5),
        ("replica_p50", "replica_p50", "mooring", 0.105, 0.106),
        ("replica_p50", "replica_p50_alone", "mooring", 0.098, 0.097),
        ("replica_elsewhere", "replica_p50_elsewhere", "mooring", 0.224, 0.225),
        ("replica_elsewhere", "replica_p50", "mooring", 0.091, 0.09),
        ("replica_elsewhere_added", "replica_p50_elsewhere", "mooring", 1.1, 1.11),
        ("replica_three", "replica_three", "mooring", 20_000, 19_999),
        ("replica_three", "replica_one", "mooring", 48_000, 48_001),
        ("replica_three_few", "replica_three_few", "mooring", 20_000, 19_999),
        ("replica_three_few", "replica_one_few", "mooring", 50_000, 50_001),
        ("replica_commands", "replica_commands", "mooring", 0.001, 0.002),
        ("replica_commands_elsewhere", "replica_commands_elsewhere", "mooring", 1, 1.001),
        ("replica_batches", "replica_batches", "mooring", 0.5, 0.501),
        ("replica_session", "replica_session", "mooring", 2, 2.01),
        ("replica_ls_pause", "replica_ls_pause", "mooring", 20, 20.1),
        ("replica_ls_command", "replica_ls_command", "mooring", 2, 2.1),
        ("help_ratio", "help_ratio", "mooring", 6, 6.01),
        ("generator", "generator_share", "mooring", 80, 80.1),
        ("generator", "generator_share", "minimal", 80, 80.1),
    ],
)
def test_a_promise_is_kept_up_to_its_bound(
    name: str, row_id: str, target: str, kept: float, short: float
) -> None:
    assert claim(name, sample_run(**{row_id: {target: kept}})).verdict == "kept"
    assert claim(name, sample_run(**{row_id: {target: short}})).verdict == "fell short"


def test_what_is_compared_is_compared_in_each_turn() -> None:
    turns = {"replica_cpu": [22.0, 40.0, 60.0], "replica_cpu_alone": [20.0, 40.0, 60.0]}
    run = sample_run(replica_cpu={"mooring": 22.0}, replica_cpu_alone={"mooring": 20.0})
    assert claim("replica_cpu", run).verdict == "fell short"
    rows = [
        msgspec.structs.replace(row, turns={"mooring": turns[row.id]}) if row.id in turns else row
        for row in run.rows
    ]
    found = claim("replica_cpu", msgspec.structs.replace(run, rows=rows))
    assert (found.verdict, found.measured) == ("kept", "1.00×")


@pytest.mark.parametrize("peer", PEERS)
def test_the_best_peer_is_unknown_while_one_is_not_measured(peer: str) -> None:
    found = claim("seq_p50", sample_run(seq_p50={peer: None}))
    assert found.verdict == "not measured"
    assert found.reason == f"no figure for {peer} in seq_p50"


def test_the_cost_is_not_flat_while_one_number_of_sessions_is_missing() -> None:
    assert claim("flat", sample_run(cost_300=None)).verdict == "not measured"


def test_a_zero_to_compare_with_is_no_measurement() -> None:
    assert claim("rate_pypi", sample_run(rate_1s={"pypi-mcp-proxy": 0})).verdict == "not measured"


def test_without_the_servers_own_start_nothing_is_taken_off() -> None:
    assert claim("start", sample_run(start={"mooring": 0.252})).verdict == "kept"
    assert claim("start", sample_run(start={"mooring": 0.252, "pipe": None})).verdict == "fell short"


def test_what_was_measured_and_the_bound_are_said_in_words() -> None:
    found = claim("rss_50", sample_run())
    assert (found.measured, found.bound) == ("29.7 MB", "≤ 35 MB")
    assert claim("rate_pypi", sample_run()).bound == "≥ 25×"


def test_a_shortfall_carries_its_stated_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(claims.REASONS, "rss_50", "the interpreter alone takes 30")
    assert claim("rss_50", sample_run(rss_50={"mooring": 36})).reason == "the interpreter alone takes 30"
    assert claim("rss_50", sample_run()).reason == ""


def test_reasons_are_given_for_promises() -> None:
    assert set(claims.REASONS) <= set(NAMES)
