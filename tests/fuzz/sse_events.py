"""Event streams: any bytes in any pieces are read by the book, and whatever we write comes back as it was.

An input is a list of places to cut at, and a stream. Its first byte says how many places there are.
"""

import re

from mooring.errors import LocalProtocolError, RemoteProtocolError
from mooring.wire.sse import EVENT_TEXT, KEEP_ALIVE, Event, EventDecoder, encode_event, encode_position
from tests.fuzz.pieces import divided
from tests.props.test_wire_sse import by_the_book

BOM = b"\xef\xbb\xbf"
LIMIT = 40
"""So short that an input of a fuzzer's size goes beyond it."""


def check(data: bytes) -> None:
    pieces, stream = divided(data)
    events = _decode(pieces, 1 << 20)
    assert events == by_the_book(stream)
    assert _decode([stream[at : at + 1] for at in range(len(stream))], 1 << 20) == events
    _check_limit(pieces, stream)
    for event in events or ():
        _check_again(event)
    _check_encoding(stream)


def _decode(pieces: list[bytes], limit_bytes: int) -> list[Event] | None:
    """The events, or None if the limit was passed."""
    decoder = EventDecoder(limit_bytes)
    try:
        return [event for piece in pieces for event in decoder.feed(piece)]
    except RemoteProtocolError as error:
        assert error.code == "event_too_long"
        return None


def _check_limit(pieces: list[bytes], stream: bytes) -> None:
    """Too long is what is too long, however it comes; nothing within the limit is lost."""
    expected = None if _is_too_long(stream) else by_the_book(stream)
    assert _decode(pieces, LIMIT) == expected
    assert _decode([stream], LIMIT) == expected


def _is_too_long(stream: bytes) -> bool:
    """Has it a line, or an event's lines of data together, over the limit?"""
    data_bytes = 0
    for number, line in enumerate(re.split(b"\r\n|\r|\n", stream)):
        if data_bytes + len(line) > LIMIT:
            return True
        text = line.removeprefix(BOM) if number == 0 else line
        if not text:
            data_bytes = 0
        elif text.partition(b":")[0] == b"data":
            data_bytes += len(line)
    return False


def _check_again(event: Event) -> None:
    """What was read can be written, and read again."""
    if "\n" in event.data:
        return
    data, name, id = (text.encode(*EVENT_TEXT) for text in (event.data, event.event, event.id))
    written = encode_event(data, event=name, id=id)
    again = (_decode([written], 1 << 20) or [])[0]
    assert again[:2] == event[:2]


def _check_encoding(payload: bytes) -> None:
    """A payload of one line comes back from between others; one of several lines is refused."""
    try:
        written = encode_event(payload, id=b"g1x0-1")
    except LocalProtocolError:
        assert b"\n" in payload or b"\r" in payload
        return
    around = encode_position(b"g1x0-0", retry_ms=7, with_data=True), encode_event(b"{}", id=b"g1x0-2")
    events = _decode([KEEP_ALIVE, around[0], written, KEEP_ALIVE, around[1]], 1 << 20)
    assert events == [
        Event("message", "", "g1x0-0", 7),
        Event("message", payload.decode(*EVENT_TEXT), "g1x0-1", None),
        Event("message", "{}", "g1x0-2", None),
    ]
