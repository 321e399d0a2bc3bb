"""What two replicas say on a link, as bytes: whatever is put in comes out, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import RemoteProtocolError
from mooring.replicas.link_frames import (
    BATCH_BYTES,
    FIELDS_BYTES,
    MAX_BODY_BYTES,
    MAX_MESSAGE_BYTES,
    Batch,
    Frame,
    Kind,
    parts,
    parts_of,
    read_frames,
)

FRAMES = st.tuples(
    st.sampled_from(Kind),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=100) | st.integers(0, MAX_BODY_BYTES).map(bytes),
)
TURN_OVER = st.just(None)


@given(st.lists(FRAMES | TURN_OVER, max_size=20))
def test_frames_come_out_as_they_went_in_a_message_for_each_turn(said: list[Frame | None]) -> None:
    messages: list[bytes] = []
    due: list[int] = []
    batch = Batch(messages.append, lambda flush: due.append(1))
    for one in said:
        if one is None:
            batch.flush()
            due.clear()
        else:
            kind, number, value, payload = one
            batch.put(Kind(kind), number, value, payload)
            assert due == [1], "asked once in a turn"
    batch.flush()
    assert [frame for message in messages for frame in read_frames(message)] == [one for one in said if one]
    assert all(0 < len(message) <= MAX_MESSAGE_BYTES for message in messages)


def test_a_message_that_is_long_goes_before_the_turn_is_over() -> None:
    messages: list[bytes] = []
    batch = Batch(messages.append, lambda flush: None)
    for number in range(3):
        batch.put(Kind.CALL, number, 0, bytes(BATCH_BYTES // 2))
    assert len(messages) == 2
    batch.flush()
    assert [[frame[1] for frame in read_frames(message)] for message in messages] == [[0], [1], [2]]


def test_nothing_is_sent_if_nothing_was_said() -> None:
    messages: list[bytes] = []
    batch = Batch(messages.append, lambda flush: None)
    batch.flush()
    assert messages == []


@given(st.lists(FRAMES, min_size=1, max_size=5), st.data())
def test_a_message_that_is_cut_is_refused_or_ends_between_two_frames(
    said: list[Frame], data: st.DataObject
) -> None:
    messages: list[bytes] = []
    batch = Batch(messages.append, lambda flush: None)
    for kind, number, value, payload in said:
        batch.put(Kind(kind), number, value, payload)
    batch.flush()
    message = messages[0]
    cut = message[: data.draw(st.integers(0, len(message) - 1))]
    try:
        found = read_frames(cut)
    except RemoteProtocolError as error:
        assert error.code == "bad_link"
    else:
        assert found == read_frames(message)[: len(found)]


@given(st.binary(max_size=200))
def test_garbage_is_read_or_refused(message: bytes) -> None:
    try:
        found = read_frames(message)
    except RemoteProtocolError as error:
        assert error.code == "bad_link"
    else:
        assert sum(FIELDS_BYTES + len(payload) for *_, payload in found) == len(message)


@given(st.integers(200, 599), st.integers(0, 2**20 - 1))
def test_parts(status: int, head_bytes: int) -> None:
    assert parts_of(parts(status, head_bytes)) == (status, head_bytes)
    assert parts(status, head_bytes) < 2**32


def test_a_head_that_is_too_long_to_be_told() -> None:
    with pytest.raises(ValueError, match="too long"):
        parts(200, 2**20)
