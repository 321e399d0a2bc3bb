"""What got worse since the recorded run is named, and noise is not."""

import msgspec
import pytest

from bench.compare import BANDS, Change, compare, other_machine, worse
from bench.results import MEASURES
from tests.unit.bench_sample import sample_run


def change_of(row_id: str, before: float | None, after: float | None) -> Change:
    old, new = sample_run(**{row_id: {"mooring": before}}), sample_run(**{row_id: {"mooring": after}})
    [found] = [change for change in compare(old, new) if change.row.id == row_id]
    return found


@pytest.mark.parametrize(
    ("row_id", "before", "after", "verdict"),
    [
        ("seq_p50", 1.0, 1.15, "tie"),
        ("seq_p50", 1.0, 1.16, "worse"),
        ("seq_p50", 1.16, 1.0, "better"),
        ("rate_1s", 11_500, 10_000, "tie"),
        ("rate_1s", 11_600, 10_000, "worse"),
        ("rate_1s", 10_000, 11_600, "better"),
        ("cpu_per_call", 100, 105, "tie"),
        ("cpu_per_call", 100, 106, "worse"),
        ("rss_50", 100, 105, "tie"),
        ("rss_50", 100, 106, "worse"),
        ("rss_per_session", 10, 10.6, "worse"),
        ("instructions", 100_000, 102_000, "tie"),
        ("instructions", 100_000, 102_100, "worse"),
        ("sigterm_lost", 0, 0, "tie"),
        ("sigterm_lost", 0, 1, "worse"),
        ("sigterm_lost", 1, 0, "better"),
        ("seq_p50", None, 1.0, "new"),
        ("seq_p50", 1.0, None, "gone"),
    ],
)
def test_a_gap_beyond_the_band_of_its_unit_is_a_change(
    row_id: str, before: float | None, after: float | None, verdict: str
) -> None:
    assert change_of(row_id, before, after).verdict == verdict


def test_every_unit_has_a_band_but_the_generators() -> None:
    assert {measure.unit for measure in MEASURES.values()} - set(BANDS) == {"%"}


def test_the_generators_share_is_not_compared() -> None:
    busier = sample_run(generator_share={"mooring": 90})
    assert "generator_share" not in [change.row.id for change in compare(sample_run(), busier)]


def test_a_run_against_itself_is_all_ties() -> None:
    assert {change.verdict for change in compare(sample_run(), sample_run())} == {"tie"}


def test_the_worst_comes_first_and_what_vanished_before_it() -> None:
    new = sample_run(
        rate_1s={"mooring": 10_000}, rss_50={"mooring": 40}, echo_1m=None, start={"mooring": 0.1}
    )
    assert [change.row.id for change in worse(compare(sample_run(), new))] == ["echo_1m", "rate_1s", "rss_50"]


def test_the_minimal_bridge_bears_witness() -> None:
    new = sample_run(rate_1s={"mooring": 15_125, "minimal": 21_625})
    [change] = worse(compare(sample_run(), new))
    assert (change.factor, change.witness) == (0.5, 0.5)


def test_a_row_without_figures_on_either_side_is_no_change() -> None:
    blank = sample_run(seq_p50={"mooring": None})
    assert "seq_p50" not in [change.row.id for change in compare(blank, blank)]


def test_another_machine_is_said_and_another_memory_size_is_not() -> None:
    here = sample_run()
    there = msgspec.structs.replace(here, machine=here.machine | {"cpu": "Xeon", "memory": "1 GB"})
    assert other_machine(here, there) == ["cpu: AMD EPYC → Xeon"]
    assert other_machine(here, here) == []
