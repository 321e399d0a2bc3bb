"""Values as people write them."""

import pytest

from mooring.cli.values import (
    RESERVED_NAMES,
    parse_assignment,
    parse_count,
    parse_duration,
    parse_header_source,
    parse_limit,
    parse_name,
    parse_port,
    parse_size,
    parse_variable,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("0", 0),
        ("0s", 0),
        ("7", 7),
        ("2.5", 2.5),
        (" 3 s ", 3),
        ("10M", 600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_limit(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "-1s", "+1", "1y", "1e3", "nan", "inf", "1.s", ".5s", "1h30m", "1,5s", "١s", "none"],
)
def test_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a span of time"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["none", "None", " NONE "])
def test_no_limit(text: str) -> None:
    assert parse_limit(text) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("12B", 12),
        ("10MB", 10_000_000),
        ("64MiB", 64 * 1024 * 1024),
        ("1.5KiB", 1536),
        ("1.1kB", 1100),
        ("2 gib", 2 << 30),
        ("3GB", 3_000_000_000),
        ("0.3B", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1K", "1M", "64 M iB", "1TB", "0x10", "none", "٣"])
def test_not_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [("A=b", ("A", "b")), ("A=", ("A", "")), ("A=b=c", ("A", "b=c")), ("a.b= x ", ("a.b", " x "))],
)
def test_assignments(text: str, pair: tuple[str, str]) -> None:
    assert parse_assignment(text) == pair


@pytest.mark.parametrize("text", ["", "hunter2", "=hunter2", "A=hunter2\0", "A\0=hunter2"])
def test_not_assignments_and_no_secret_in_the_message(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_assignment(text)
    assert "hunter2" not in str(caught.value)


def test_variables() -> None:
    assert parse_variable("PATH") == "PATH"
    with pytest.raises(ValueError, match="name of a variable"):
        parse_variable("PATH=x")


@pytest.mark.parametrize("text", ["a", "0", "time", "a-b", "a--b", "x" * 40])
def test_names(text: str) -> None:
    assert parse_name(text) == text


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a.b", "x" * 41, "a\n", "é", ".well-known"])
def test_not_names(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be a name"):
        parse_name(text)


@pytest.mark.parametrize("text", sorted(RESERVED_NAMES))
def test_reserved_names(text: str) -> None:
    with pytest.raises(ValueError, match="choose another"):
        parse_name(text)


@pytest.mark.parametrize("text", ["0", "80", "65535", "080"])
def test_ports(text: str) -> None:
    assert parse_port(text) == int(text)


@pytest.mark.parametrize("text", ["", "abc", "-1", "+1", "65536", "1.5", "1_0", "١", " 1", "9" * 5000])
def test_not_ports(text: str) -> None:
    with pytest.raises(ValueError, match="is not a port: give a number from 0 to 65535"):
        parse_port(text)


def test_counts() -> None:
    assert parse_count("0") == 0
    assert parse_count("7", least=7) == 7
    for text in ("6", "-7", "", "seven", "7.0"):
        with pytest.raises(ValueError, match="is not a count: give a whole number from 7 on"):
            parse_count(text, least=7)


def test_sources_of_headers() -> None:
    assert parse_header_source("X-Key=KEY") == ("X-Key", "KEY")
    for text in ("X-Key", "=KEY", "X-Key=", "X-Key=sk-123", "X-Key=a b"):
        with pytest.raises(ValueError) as refused:
            parse_header_source(text)
        assert "sk-123" not in str(refused.value)
