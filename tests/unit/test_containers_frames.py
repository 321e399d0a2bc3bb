"""What an engine sends of a container's output, cut into streams however it comes."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import RemoteProtocolError
from mooring.runtimes.containers.frames import HEAD_BYTES, FrameSplitter, Stream

FRAMES = st.lists(
    st.tuples(st.sampled_from([Stream.STDOUT, Stream.STDERR]), st.binary(max_size=40)), max_size=8
)


def encoded(frames: list[tuple[Stream, bytes]]) -> bytes:
    return b"".join(struct.pack(">BxxxL", stream, len(data)) + data for stream, data in frames)


def joined(pieces: list[tuple[Stream, bytes]], wanted: Stream) -> bytes:
    return b"".join(data for stream, data in pieces if stream is wanted)


@given(FRAMES, st.lists(st.integers(0, 400), max_size=12))
def test_any_chunking_gives_the_same_streams_and_keeps_no_more_than_a_head(
    frames: list[tuple[Stream, bytes]], cuts: list[int]
) -> None:
    whole = encoded(frames)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    splitter, found = FrameSplitter(), []
    for begin, end in itertools.pairwise(places):
        found += splitter.feed(whole[begin:end])
        assert len(splitter.state) < 2 * HEAD_BYTES
    for stream in (Stream.STDOUT, Stream.STDERR):
        assert joined(found, stream) == joined(frames, stream)


@given(FRAMES, st.integers(0, 400))
def test_another_goes_on_where_one_has_come_to(frames: list[tuple[Stream, bytes]], cut: int) -> None:
    whole = encoded(frames)
    first = FrameSplitter()
    found = first.feed(whole[:cut])
    found += FrameSplitter(first.state).feed(whole[cut:])
    for stream in (Stream.STDOUT, Stream.STDERR):
        assert joined(found, stream) == joined(frames, stream)


def test_a_frame_of_four_gigabytes_is_handed_on_piece_by_piece() -> None:
    splitter = FrameSplitter()
    splitter.feed(struct.pack(">BxxxL", 1, 0xFFFFFFFF))
    for _ in range(3):
        assert splitter.feed(b"x" * 1000) == [(Stream.STDOUT, b"x" * 1000)]
    assert len(splitter.state) == HEAD_BYTES


@pytest.mark.parametrize("head", [b"\x03\0\0\0\0\0\0\1", b"\1\1\0\0\0\0\0\1", b"HTTP/1.1", b'{"a": 1}'])
def test_what_is_no_head_is_refused(head: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        FrameSplitter().feed(head + b"x")
