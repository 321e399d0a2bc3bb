"""What is held of something unfinished is about as large as what has come of it, however it was cut."""

import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import RequestReader
from mooring.runtimes.text import TextLines
from mooring.wire.http import Request
from mooring.wire.lines import LineDecoder
from mooring.wire.pieces import SMALL_BYTES, Pieces, keep_piece

NUMBER = 30_000
SMALL = [b"%02d" % (n % 100) for n in range(NUMBER)]
WHOLE = b"".join(SMALL)


def held_bytes(feed: Callable[[bytes], object], pieces: Iterable[bytes]) -> int:
    """What was allocated to take these pieces, and is still in use."""
    tracemalloc.start()
    try:
        for piece in pieces:
            feed(piece)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_pieces_of_any_size_are_their_sum() -> None:
    given = [b"a", b"b" * SMALL_BYTES, b"c", b"d", b"e" * (SMALL_BYTES - 1), b"f" * SMALL_BYTES, b"g"]
    pieces: Pieces = []
    for piece in given:
        keep_piece(pieces, piece)
    assert b"".join(pieces) == b"".join(given)
    assert len(pieces) == 5, "large ones are not copied"


def test_a_line_in_small_pieces_costs_little_more_than_its_bytes() -> None:
    decoder = LineDecoder(1_000_000)
    assert held_bytes(decoder.feed, SMALL) < 2 * len(WHOLE)
    assert decoder.feed(b"\n") == [WHOLE]


def test_a_body_in_small_chunks_costs_little_more_than_its_bytes() -> None:
    requests: list[Request] = []
    reader = RequestReader(Limits(), lambda request, *_: requests.append(request), lambda: None)
    reader.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunks = (b"2\r\n%s\r\n" % piece for piece in SMALL)
    assert held_bytes(reader.feed, chunks) < 2 * len(WHOLE)
    reader.feed(b"0\r\n\r\n")
    assert [request.body for request in requests] == [WHOLE]


def test_a_line_of_text_in_small_pieces_costs_little_more_than_its_bytes() -> None:
    lines = TextLines()
    assert held_bytes(lines.feed, SMALL) < 2 * len(WHOLE)
    assert lines.feed(b"\n") == [WHOLE.decode()]


def test_fields_without_end_are_refused_before_the_end_of_the_head() -> None:
    reader = RequestReader(Limits(), lambda *_: None, lambda: None)
    with pytest.raises(Refusal) as refused:
        for n in range(200):
            reader.feed((b"" if n else b"GET / HTTP/1.1\r\nHost: a\r\n") + b"a:\r\n")
    assert (refused.value.status, refused.value.code) == (431, "too_many_headers")
    assert n == Limits().max_headers
