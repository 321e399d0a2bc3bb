"""Any message in any pieces comes back as it was; any bytes are read as the WHATWG rules say."""

import re

from hypothesis import given
from hypothesis import strategies as st

from mooring.wire import jsonrpc
from mooring.wire.sse import EVENT_TEXT, KEEP_ALIVE, Event, EventDecoder, encode_event, encode_position
from tests.props.test_wire_jsonrpc import MESSAGES

WORDS = ["data", "event", "id", "retry", ":", " ", "\n", "\r", "\r\n", "1", "x", "\0", "\ufeff", "é", "😀"]
STREAMS = (
    st.lists(st.sampled_from(WORDS), max_size=40).map(lambda words: "".join(words).encode())
    | st.lists(
        st.tuples(
            st.sampled_from(["data", "data: ", "data:", "id: ", "id", "event: ", "retry: ", ":", "", ""]),
            st.sampled_from(["", "a", "1", "a:b", " x", "12", "\0"]),
            st.sampled_from(["\n", "\r", "\r\n"]),
        ).map("".join),
        max_size=20,
    ).map(lambda lines: "".join(lines).encode())
    | st.binary(max_size=60)
)
NAMES = st.text("abcdefghij-0123456789", min_size=1, max_size=12).map(str.encode)


def pieces_of(stream: bytes, data: st.DataObject) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=15)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def decode(pieces: list[bytes]) -> list[Event]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


def by_the_book(stream: bytes) -> list[Event]:
    """Section 9.2.6 of the HTML standard, on the whole stream at once; but no byte is replaced."""
    *lines, _unfinished = re.split("\r\n|\r|\n", stream.decode(*EVENT_TEXT).removeprefix("\ufeff"))
    events: list[Event] = []
    name, data, last_id, retry, noted = "", "", "", None, False
    for line in lines:
        field, _, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if not line:
            if data or noted:
                events.append(Event(name or "message", data[:-1], last_id, retry))
            name, data, retry, noted = "", "", None, False
        elif field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id, noted = value, True
        elif field == "retry" and re.fullmatch("[0-9]{1,15}", value):
            retry, noted = int(value), True
    return events


@given(STREAMS, st.data())
def test_any_bytes_in_any_pieces_are_read_by_the_book(stream: bytes, data: st.DataObject) -> None:
    assert decode(pieces_of(stream, data)) == by_the_book(stream)


@given(st.lists(st.tuples(MESSAGES, NAMES, NAMES | st.just(b"")), max_size=5), st.data())
def test_any_message_comes_back_as_it_was(
    messages: list[tuple[bytes, bytes, bytes]], data: st.DataObject
) -> None:
    lines = [(jsonrpc.one_line(body), name, id) for body, name, id in messages]
    stream = b"".join(encode_event(line, event=name, id=id) + KEEP_ALIVE for line, name, id in lines)
    events = decode(pieces_of(stream, data))
    # One space after the colon is the standard's; what the message begins with beyond it is its own.
    assert [(event.data.encode(), event.event.encode()) for event in events] == [
        (line, name) for line, name, _ in lines
    ]
    last = b""
    for event, (_, _, id) in zip(events, lines, strict=True):
        last = id or last
        assert event.id.encode() == last


@given(NAMES, st.integers(0, 10**9), st.booleans(), st.data())
def test_any_position_comes_back_as_it_was(
    id: bytes, retry_ms: int, with_data: bool, data: st.DataObject
) -> None:
    stream = encode_position(id, retry_ms=retry_ms, with_data=with_data)
    assert decode(pieces_of(stream, data)) == [Event("message", "", id.decode(), retry_ms)]
