"""Two figures against each other: turn by turn, as the machine is not the same in all."""

import pytest

from bench.ratios import advantage, ratio
from bench.results import row

# A machine that ran at twice its speed in the third turn of the one, in the first of the other.
OURS, THEIRS = [100.0, 101.0, 200.0, 99.0, 100.0], [400.0, 202.0, 400.0, 198.0, 200.0]


def test_the_median_of_the_turns_counts_and_not_the_best_windows() -> None:
    found = row("rate_1s", {"mooring": 200, "minimal": 400}, turns={"mooring": OURS, "minimal": THEIRS})
    assert ratio(found, "mooring", found, "minimal") == 0.5
    lucky = row("rate_1s", {"mooring": 200, "minimal": 100}, turns={"mooring": OURS, "minimal": [100.0] * 5})
    assert ratio(lucky, "mooring", lucky, "minimal") == 1.0


def test_rows_of_one_group_have_the_same_turns() -> None:
    shared = row("cpu_shared", {"mooring": 50}, turns={"mooring": [50, 110, 60]})
    apart = row("cpu_32s", {"mooring": 50}, turns={"mooring": [50, 100, 60]})
    assert ratio(shared, "mooring", apart, "mooring") == 1.0


def test_a_target_that_failed_later_is_compared_in_the_turns_it_had() -> None:
    found = row("rate_1s", {"mooring": 200, "minimal": 400}, turns={"mooring": OURS, "minimal": THEIRS[:4]})
    assert ratio(found, "mooring", found, "minimal") == 0.5


@pytest.mark.parametrize("theirs", [[400.0, 202.0], [400.0, None, 0.0, 202.0], []])
def test_of_few_turns_the_best_windows_count(theirs: list[float | None]) -> None:
    found = row("rate_1s", {"mooring": 100, "minimal": 400}, turns={"mooring": OURS, "minimal": theirs})
    assert ratio(found, "mooring", found, "minimal") == 0.25


def test_over_one_mooring_is_better_whatever_the_direction() -> None:
    assert advantage(row("seq_p50", {"mooring": 0.5, "fastmcp": 3.0}), "fastmcp") == 6
    assert advantage(row("rate_1s", {"mooring": 30_000, "fastmcp": 300}), "fastmcp") == 100
    in_turns = {"mooring": [1.0, 2.0, 1.0], "fastmcp": [3.0, 6.0, 9.0]}
    assert advantage(row("seq_p50", {"mooring": 1, "fastmcp": 3}, turns=in_turns), "fastmcp") == 3
    assert advantage(row("rate_1s", {"mooring": 2, "fastmcp": 9}, turns=in_turns), "fastmcp") == 1 / 3


@pytest.mark.parametrize(
    "values", [{"mooring": 0, "fastmcp": 1}, {"mooring": 1, "fastmcp": 0}, {"mooring": 1}]
)
def test_no_ratio_without_two_figures(values: dict[str, float | None]) -> None:
    assert advantage(row("seq_p50", values), "fastmcp") is None


def test_the_work_of_the_load_generator_is_no_advantage() -> None:
    assert advantage(row("generator_share", {"mooring": 40, "minimal": 80}), "minimal") is None
