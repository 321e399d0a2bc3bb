"""Frames: however messages are cut into frames, and these into reads, they arrive as they were sent."""

from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from mooring.http.frames import OWN_BYTES, Frames
from tests.websocket_client import BINARY, CLOSE, CONT, PING, PONG, TEXT, frame

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


# Beside the core alone.


class Told(NamedTuple):
    """What came of some bytes."""

    messages: list[bytes]
    said: list[tuple[int, bytes]]
    """Opcode and data of every frame that went back, without its mask."""
    is_open: bool
    is_over: bool
    ending: tuple[int, str]


def read(wire: bytes, *, is_masked: bool) -> list[tuple[int, bytes]]:
    """The frames in it, by the core."""
    core = Protocol(Side.SERVER if is_masked else Side.CLIENT, max_size=None)
    core.receive_data(wire)
    frames = [event for event in core.events_received() if isinstance(event, Frame)]
    assert all(frame.fin for frame in frames) and not core.reader.buffer
    return [(int(frame.opcode), bytes(frame.data)) for frame in frames]


def by_the_core(wire: bytes, *, is_binary: bool, is_client: bool) -> Told:
    """What it makes of them alone, a byte at a time: then all happens in its order."""
    core = Protocol(Side.CLIENT if is_client else Side.SERVER, state=State.OPEN, max_size=LIMIT)
    messages: list[bytes] = []
    begun = b""
    for at in range(len(wire)):
        core.receive_data(wire[at : at + 1])
        for event in core.events_received():
            assert isinstance(event, Frame)
            if event.opcode in (Opcode.CLOSE, Opcode.PING, Opcode.PONG):
                continue
            if event.opcode is (Opcode.TEXT if is_binary else Opcode.BINARY):
                kind = "binary messages are" if is_binary else "text is"
                core.fail(1003, f"only {kind} understood here")
                break
            begun += bytes(event.data)
            if event.fin:
                if not is_binary and not is_utf8(begun):
                    core.fail(1007, "not UTF-8")
                    break
                messages.append(begun)
                begun = b""
    ends = (
        [core.close_rcvd, core.close_sent]
        if core.close_rcvd_then_sent
        else [core.close_sent, core.close_rcvd]
    )
    first = next((end for end in ends if end is not None), None)
    return Told(
        messages,
        read(b"".join(core.data_to_send()), is_masked=is_client),
        core.state is State.OPEN,
        core.eof_sent,
        (int(first.code), first.reason) if first is not None else (1006, ""),
    )


def by_us(reads: list[bytes], *, is_binary: bool, is_client: bool) -> Told:
    frames = Frames(LIMIT, is_binary=is_binary, is_client=is_client)
    messages = [message for data in reads for message in frames.feed(data)]
    said = read(b"".join(frames.output), is_masked=is_client)
    return Told(messages, said, frames.is_open, frames.is_over, frames.ending)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


LENGTHS = st.sampled_from([0, 1, 2, 7, 124, 125, 126, 127, 128, LIMIT - 1, LIMIT, LIMIT + 1])
DATA = st.one_of(
    st.binary(max_size=12),
    TEXTS,
    LENGTHS.map(lambda length: b"x" * length),
    st.tuples(st.sampled_from([999, 1000, 1001, 1005, 1006, 1011, 3000, 4000, 5000]), TEXTS).map(
        lambda end: end[0].to_bytes(2, "big") + end[1]
    ),
)
USUAL = st.sampled_from([TEXT, BINARY, TEXT, BINARY, CONT, PING, PONG, CLOSE])


ODDITIES = st.sampled_from(["opcode", "mask", "reserved", *[""] * 12])


@st.composite
def frames_as_they_come(draw: st.DrawFn, is_masked: bool) -> bytes:
    """Mostly by the rules, and never against more than one of them."""
    odd = draw(ODDITIES)
    return frame(
        draw(st.integers(0, 15)) if odd == "opcode" else draw(USUAL),
        draw(DATA),
        fin=draw(st.integers(0, 3)) > 0,
        mask=draw(MASKS) if is_masked ^ (odd == "mask") else None,
        reserved=draw(st.sampled_from([0x40, 0x20, 0x10])) if odd == "reserved" else 0,
    )


@given(st.data(), st.booleans(), st.booleans(), RANDOM)
@settings(max_examples=500, deadline=None)
def test_whatever_comes_is_taken_as_by_the_core_alone(
    data: st.DataObject, is_binary: bool, is_client: bool, random: Any
) -> None:
    wire = b"".join(data.draw(st.lists(frames_as_they_come(not is_client), max_size=6)))
    wire += data.draw(st.one_of(st.just(b""), st.binary(max_size=20)))
    expected = by_the_core(wire, is_binary=is_binary, is_client=is_client)
    for reads in ([wire], [wire[at : at + 1] for at in range(len(wire))], cut(random, wire)):
        assert by_us(reads, is_binary=is_binary, is_client=is_client) == expected


@given(st.sampled_from([0, 1, 125, 126, 65_535, 65_536, OWN_BYTES, OWN_BYTES + 1]), st.booleans(), RANDOM)
@settings(deadline=None)
@example(OWN_BYTES - 14, False, None)
def test_a_message_of_any_length_passes_from_one_end_to_the_other(
    length: int, is_client: bool, random: Any
) -> None:
    message = bytes(range(256)) * (length // 256) + bytes(length % 256)
    ours = Frames(1 << 20, is_binary=True, is_client=is_client)
    theirs = Frames(1 << 20, is_binary=True, is_client=not is_client)
    ours.message(message)
    ours.ping()
    ours.message(b"next")
    [one, ping, other] = ours.output
    assert read(one + ping + other, is_masked=is_client) == [
        (BINARY, message),
        (PING, b""),
        (BINARY, b"next"),
    ]
    reads = cut(random, one + ping + other) if random is not None else [one[:5], one[5:], ping + other]
    assert [said for data in reads for said in theirs.feed(data)] == [message, b"next"]
    assert read(b"".join(theirs.output), is_masked=not is_client) == [(PONG, b"")]
    assert not theirs.is_unfinished and theirs.held_bytes == 0


@pytest.mark.parametrize("length", [10, OWN_BYTES + 10])
def test_a_frame_that_has_begun_is_unfinished_and_held(length: int) -> None:
    frames = Frames(1 << 20, is_binary=True)
    wire = frame(BINARY, b"x" * length)
    for at in range(0, len(wire) - 1, 4096):
        assert frames.feed(wire[at : min(at + 4096, len(wire) - 1)]) == []
        assert frames.is_unfinished
    assert length - 1 <= frames.held_bytes <= len(wire)
    assert frames.feed(wire[-1:]) == [b"x" * length] and not frames.is_unfinished and not frames.held_bytes


@pytest.mark.parametrize("length", [10, OWN_BYTES + 10])
def test_what_has_begun_when_we_say_goodbye_is_still_read_up_to_the_peers(length: int) -> None:
    frames = Frames(1 << 20, is_binary=True)
    wire = frame(BINARY, b"x" * length)
    assert frames.feed(wire[:8]) == []
    frames.close(1000, "that was all")
    assert frames.feed(wire[8:] + frame(CLOSE, b"\x03\xe8")) == [b"x" * length]
    assert frames.is_over and frames.ending == (1000, "that was all")
