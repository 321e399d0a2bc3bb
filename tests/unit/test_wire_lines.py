"""Lines: where they end, what the limit means, and what is kept of a line over it."""

import pytest

from mooring.wire.budget import Budget
from mooring.wire.lines import HEAD_BYTES, TAIL_BYTES, LineDecoder, LongLine

MIB = 1024 * 1024


def long(line: bytes) -> LongLine:
    return LongLine(line[:HEAD_BYTES], line[-TAIL_BYTES:], len(line))


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def decode(pieces: list[bytes], limit: int = 100) -> list[bytes | LongLine]:
    decoder = LineDecoder(limit)
    return [line for piece in pieces for line in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b", b"\n"], [b"ab"]),
        ([b"a\n", b"", b"b\n"], [b"a", b"b"]),
        ([b"a\r\nb\r\n"], [b"a", b"b"]),
        ([b"a\r", b"\nb\n"], [b"a", b"b"]),
        ([b"a", b"\r", b"\n"], [b"a"]),
        ([b"a\r\r\n"], [b"a\r"]),
        ([b"a\r", b"\r", b"\n"], [b"a\r"]),
        ([b"a\rb\n"], [b"a\rb"]),
        ([b"a\r", b"b\n"], [b"a\rb"]),
        ([b"\n\n\r\n\n"], []),
        ([b"\r", b"\n", b"\n"], []),
        ([b"\na\n\nb\n\n"], [b"a", b"b"]),
        ([b" \n"], [b" "]),
        ([b"\x00\xff\xe2\x80\xa8\n"], [b"\x00\xff\xe2\x80\xa8"]),
    ],
)
def test_a_line_ends_at_lf_with_one_cr_before_it_and_empty_ones_are_skipped(
    pieces: list[bytes], lines: list[bytes]
) -> None:
    assert decode(pieces) == lines


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 11, 12, 13, 100])
@pytest.mark.parametrize("length", [9, 10])
def test_a_line_of_exactly_the_limit_is_whole(end: bytes, size: int, length: int) -> None:
    line = b"0123456789"[:length]
    assert decode(pieces_of(line + end + b"b" + end, size), limit=10) == [line, b"b"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 11, 12, 13, 100])
@pytest.mark.parametrize("line", [b"0123456789a", b"0123456789\r", b"0123456789ab", b"0123456789abcdef"])
def test_a_byte_over_the_limit_is_too_long_whatever_the_line_end(end: bytes, size: int, line: bytes) -> None:
    if line.endswith(b"\r") and end == b"\n":
        end = b"\r\n"  # else its CR would belong to the line end
    data = b"a" + end + line + end + b"b" + end
    assert decode(pieces_of(data, size), limit=10) == [b"a", LongLine(line, line, len(line)), b"b"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 1000, 4096, 4097, 5000, 9999, 10_000, 10_001, 1 << 20])
def test_of_a_line_over_the_limit_both_ends_and_the_length_are_kept(size: int, end: bytes) -> None:
    line = b"".join(b"%06d" % n for n in range(2000))
    data = b"before" + end + line + end + b"after" + end + line[:10_000] + end
    found = decode(pieces_of(data, size), limit=10_000)
    assert found == [b"before", long(line), b"after", line[:10_000]]
    assert isinstance(found[1], LongLine)
    assert (len(found[1].head), len(found[1].tail)) == (HEAD_BYTES, TAIL_BYTES)


def test_two_lines_over_the_limit_share_nothing() -> None:
    first, second = b"1" * 5000, b"2" * 6000
    assert decode(pieces_of(first + b"\n" + second + b"\n", 700), limit=100) == [long(first), long(second)]


@pytest.mark.parametrize(
    ("pieces", "last"),
    [
        ([], None),
        ([b"a\n"], None),
        ([b"a\nb"], b"b"),
        ([b"a\nb", b"c"], b"bc"),
        ([b"b\r"], b"b\r"),
        ([b"0123456789"], b"0123456789"),
        ([b"0123456789\r"], LongLine(b"0123456789\r", b"0123456789\r", 11)),
        ([b"0123456789", b"abc"], LongLine(b"0123456789abc", b"0123456789abc", 13)),
    ],
)
def test_the_end_of_the_stream_gives_what_has_no_line_end(
    pieces: list[bytes], last: bytes | LongLine | None
) -> None:
    decoder = LineDecoder(10)
    for piece in pieces:
        decoder.feed(piece)
    assert decoder.close() == last
    assert decoder.close() is None


def test_pieces_of_a_line_within_the_limit_are_kept_as_they_came_and_joined_once() -> None:
    decoder = LineDecoder(64 * MIB)
    pieces = [bytes([n % 251 + 1]).replace(b"\n", b"x") * (64 * 1024) for n in range(320)]  # 20 MiB
    for piece in pieces:
        assert decoder.feed(piece) == []
    assert all(kept is piece for kept, piece in zip(decoder._parts, pieces, strict=True))
    assert decoder.feed(b"\n") == [b"".join(pieces)]
    assert decoder._parts == []


def test_a_line_over_the_limit_is_never_buffered_whole() -> None:
    decoder = LineDecoder(1 * MIB)
    piece = b"x" * (64 * 1024)
    most = 0
    for _ in range(320):  # 20 MiB
        assert decoder.feed(piece) == []
        most = max(most, sum(map(len, decoder._parts)) + len(decoder._head) + len(decoder._tail))
    assert most <= 1 * MIB + len(piece)
    assert sum(map(len, decoder._parts)) + len(decoder._head) + len(decoder._tail) <= 6 * 1024
    assert decoder.feed(b"\nnext\n") == [LongLine(b"x" * 4096, b"x" * 1024, 20 * MIB), b"next"]


def test_unfinished_lines_share_one_bound_and_each_has_its_share() -> None:
    budget = Budget(1000, sharers=10)
    first, second, third = (LineDecoder(900, budget) for _ in range(3))
    assert first.feed(b"a" * 900) == [] and budget.taken_bytes == 900
    assert second.feed(b"b" * 100) == [], "its share"
    assert second.feed(b"b") == [], "too much, but it shows only at the end of the line"
    assert second.feed(b"b" * 700 + b"\nnext\n") == [LongLine(b"b" * 801, b"b" * 801, 801), b"next"]
    assert third.feed(b"c" * 100 + b"\n") == [b"c" * 100]
    assert first.feed(b"\n" + b"a" * 500) == [b"a" * 900]
    assert second.feed(b"b" * 500) == [], "there is room again"
    assert second.close() == b"b" * 500 and first.close() == b"a" * 500
    assert budget.taken_bytes == 0
