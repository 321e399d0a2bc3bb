"""Values as people write them: whatever is written, it is understood exactly or refused."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.terminal.words import printable
from mooring.cli.values import parse_assignment, parse_duration, parse_limit, parse_name, parse_size

UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}
SIZES = {"": 1, "B": 1, "kB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


@given(st.integers(0, 10**12), st.sampled_from(sorted(UNITS_S)))
def test_whole_durations(count: int, unit: str) -> None:
    assert parse_duration(f"{count}{unit}") == pytest.approx(count * UNITS_S[unit])


@given(st.integers(0, 10**12), st.sampled_from(sorted(SIZES)))
def test_whole_sizes_are_exact(count: int, unit: str) -> None:
    assert parse_size(f"{count}{unit}") == count * SIZES[unit]


@given(st.text())
def test_anything_is_a_usable_value_or_refused_in_words(text: str) -> None:
    for parse in (parse_duration, parse_limit, parse_size):
        with contextlib.suppress(ValueError):
            value = parse(text)
            assert value is None or (math.isfinite(value) and value >= 0)
    with contextlib.suppress(ValueError):
        assert parse_name(text).isascii()


@given(st.text(min_size=1).filter(lambda text: "=" not in text and "\0" not in text), st.text())
def test_assignments_split_at_the_first_equal_sign(name: str, value: str) -> None:
    if "\0" not in value:
        assert parse_assignment(f"{name}={value}") == (name, value)


@given(st.text())
def test_printable_text_has_no_control_character_but_tab(text: str) -> None:
    shown = printable(text)
    assert not any((ord(c) < 32 and c != "\t") or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert len(shown.splitlines()) <= 1
    if all(c.isprintable() or c == "\t" for c in text):
        assert shown == text
