"""Values as people write them: whatever is written, it is understood exactly or refused."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.terminal.words import printable
from mooring.cli.values import (
    CPUS_FLOOR,
    LEAST_MEMORY_BYTES,
    MOST_MEMORY_BYTES,
    parse_assignment,
    parse_cpus,
    parse_duration,
    parse_engine,
    parse_image,
    parse_limit,
    parse_memory,
    parse_name,
    parse_size,
    parse_user,
    parse_volume,
)

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
    with contextlib.suppress(ValueError):
        assert math.isfinite(parse_cpus(text)) and parse_cpus(text) >= CPUS_FLOOR
    with contextlib.suppress(ValueError):
        assert LEAST_MEMORY_BYTES <= parse_memory(text) <= MOST_MEMORY_BYTES
    for parse_text in (parse_image, parse_user, parse_engine):
        with contextlib.suppress(ValueError):
            assert parse_text(text) == text and text and not set("\0\r\n") & set(text)


PARTS = st.text(st.sampled_from("ab./~:- \n\0"), max_size=4)


@given(st.tuples(PARTS, PARTS, st.sampled_from(["", ":ro", ":rw", ":x"])))
def test_a_volume_is_understood_exactly_or_refused(parts: tuple[str, str, str]) -> None:
    text = f"{parts[0]}:/{parts[1]}{parts[2]}"
    with contextlib.suppress(ValueError):
        volume = parse_volume(text)
        assert str(volume) == text.removesuffix(":rw")
        assert volume.source and volume.target.startswith("/") and not set(":\0\n") & set(volume.target)


@given(st.floats(CPUS_FLOOR, 10**5))
def test_processors_as_they_are_written_down_are_read_again(count: float) -> None:
    assert parse_cpus(str(count)) == count


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
