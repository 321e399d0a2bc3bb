"""Numbers as people read them."""

import pytest

from bench.figures import advantage, figure, times, with_unit
from bench.results import row


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "ms", "–"),
        (0, "ms", "0"),
        (0.0815, "ms", "0.0815"),
        (0.19, "ms", "0.190"),
        (1.284, "ms", "1.28"),
        (9.996, "ms", "10.0"),
        (34.25, "µs", "34.2"),
        (99.97, "µs", "100"),
        (877699.4, "calls/s", "877,699"),
        (-3.2, "KiB", "-3.20"),
        (2, "calls", "2"),
    ],
)
def test_three_digits_matter(value: float | None, unit: str, shown: str) -> None:
    assert figure(value, unit) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (None, ""),
        (46.6, "47×"),
        (9.96, "10×"),
        (1.24, "1.2×"),
        (0.997, "1.0×"),
        (0.7, "0.70×"),
        (0.0342, "0.034×"),
    ],
)
def test_a_ratio_has_two_digits(ratio: float | None, shown: str) -> None:
    assert times(ratio) == shown


def test_a_ratio_is_written_close_to_its_number() -> None:
    assert with_unit("5.20", "×") == "5.20×"
    assert with_unit("5.20", "ms") == "5.20 ms"


def test_over_one_mooring_is_better_whatever_the_direction() -> None:
    assert advantage(row("seq_p50", {"mooring": 0.5, "fastmcp": 3.0}), "fastmcp") == 6
    assert advantage(row("rate_1s", {"mooring": 30_000, "fastmcp": 300}), "fastmcp") == 100


@pytest.mark.parametrize(
    "values", [{"mooring": 0, "fastmcp": 1}, {"mooring": 1, "fastmcp": 0}, {"mooring": 1}]
)
def test_no_ratio_without_two_figures(values: dict[str, float | None]) -> None:
    assert advantage(row("seq_p50", values), "fastmcp") is None


def test_the_work_of_the_load_generator_is_no_advantage() -> None:
    assert advantage(row("generator_share", {"mooring": 40, "minimal": 80}), "minimal") is None
