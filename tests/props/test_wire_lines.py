"""Any cutting of any lines decodes to those lines, and a long one disturbs no other."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from mooring.wire import lines
from mooring.wire.lines import LineDecoder, LongLine

HEAD, TAIL = 7, 5
"""So short here that every relation to the limit is met."""

PIECES = st.lists(st.binary(max_size=30) | st.text("ab\r\n", max_size=30).map(str.encode), max_size=30)
LIMITS = st.integers(1, 24)


def kept(line: bytes, limit: int) -> bytes | LongLine:
    return LongLine(line[:HEAD], line[-TAIL:], len(line)) if len(line) > limit else line


def run(pieces: list[bytes], limit: int) -> tuple[list[bytes | LongLine], bytes | LongLine | None]:
    with patch.object(lines, "HEAD_BYTES", HEAD), patch.object(lines, "TAIL_BYTES", TAIL):
        decoder = LineDecoder(limit)
        return [line for piece in pieces for line in decoder.feed(piece)], decoder.close()


@given(PIECES, LIMITS)
def test_any_pieces_decode_to_what_their_sum_says(pieces: list[bytes], limit: int) -> None:
    *ended, last = b"".join(pieces).split(b"\n")
    ended = [line.removesuffix(b"\r") for line in ended]
    assert run(pieces, limit) == (
        [kept(line, limit) for line in ended if line],
        kept(last, limit) if last else None,
    )


@given(
    st.lists(st.binary(min_size=1, max_size=40).filter(lambda line: b"\n" not in line), max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
    LIMITS,
    st.data(),
)
def test_any_cutting_of_any_lines_decodes_to_those_lines(
    wanted: list[bytes], end: bytes, limit: int, data: st.DataObject
) -> None:
    wanted = [line for line in wanted if not line.endswith(b"\r")]
    stream = b"".join(line + end for line in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert run(pieces, limit) == ([kept(line, limit) for line in wanted], None)
