"""Frames: however messages are cut into frames, and these into reads, they arrive as they were sent."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.http.frames import Frames
from tests.websocket_client import CLOSE, CONT, PING, PONG, TEXT, frame

LIMIT = 300
MASKS = st.binary(min_size=4, max_size=4)
TEXTS = st.text(max_size=80).map(str.encode)
RANDOM = st.randoms(use_true_random=False)


def cut(random: Any, data: bytes) -> list[bytes]:
    """Pieces of it, some of them empty."""
    marks = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(6)))
    return [data[start:stop] for start, stop in zip([0, *marks], [*marks, len(data)], strict=True)]


def framed(random: Any, message: bytes, mask: bytes) -> bytes:
    """A message in any number of frames, with control frames between them."""
    pieces = cut(random, message)
    wire = b""
    for number, piece in enumerate(pieces):
        wire += frame(CONT if number else TEXT, piece, fin=number == len(pieces) - 1, mask=mask)
        if random.random() < 0.3:
            wire += frame(random.choice((PING, PONG)), b"p" * random.randrange(126), mask=mask)
    return wire


@given(st.lists(TEXTS, max_size=5), MASKS, RANDOM)
def test_any_cutting_gives_the_same_messages(messages: list[bytes], mask: bytes, random: Any) -> None:
    wire = b"".join(framed(random, message, mask) for message in messages)
    for reads in ([wire], [wire[at : at + 1] for at in range(len(wire))], cut(random, wire)):
        frames = Frames(1 << 20)
        assert [message for data in reads for message in frames.feed(data)] == messages
        assert frames.is_open and not frames.is_unfinished and frames.held_bytes == 0


@given(st.binary(max_size=400), RANDOM)
def test_any_bytes_are_messages_or_an_end_and_bounded(data: bytes, random: Any) -> None:
    frames = Frames(LIMIT)
    for read in cut(random, data):
        for message in frames.feed(read):
            assert len(message) <= LIMIT
            message.decode()
        # One frame's head beyond the message, and the read that was fed last.
        assert frames.held_bytes <= LIMIT + 14 + len(read)
        assert not frames.is_over or frames.held_bytes == 0
    code, reason = frames.ending
    assert frames.is_open == (code == 1006), (code, reason)


@given(st.binary(min_size=1, max_size=100), MASKS, RANDOM)
def test_any_text_is_heard_or_refused_as_python_reads_it(data: bytes, mask: bytes, random: Any) -> None:
    frames = Frames(LIMIT)
    heard = frames.feed(framed(random, data, mask))
    try:
        data.decode()
    except UnicodeDecodeError:
        assert heard == [] and frames.is_over and frames.ending[0] == 1007
    else:
        assert heard == [data] and frames.is_open


def test_the_peers_goodbye_is_answered_and_said_first() -> None:
    frames = Frames(LIMIT)
    assert frames.feed(frame(TEXT, b"x") + frame(CLOSE, b"\x0f\xa0bye") + frame(TEXT, b"late")) == [b"x"]
    assert frames.output == [b"\x88\x05\x0f\xa0bye"] and frames.is_over
    assert frames.ending == (4000, "bye")
    frames.message(b"late")
    frames.ping()
    frames.close(1000, "late")
    assert frames.output == []
