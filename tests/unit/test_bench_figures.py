"""Numbers as people read them."""

import pytest

from bench.figures import figure, times, with_unit


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
