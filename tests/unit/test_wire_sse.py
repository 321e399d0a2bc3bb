"""Server-sent events: what is written, and the WHATWG rules of reading, one by one."""

import pytest

from mooring.errors import LocalProtocolError, RemoteProtocolError
from mooring.wire.sse import KEEP_ALIVE, Event, EventDecoder, encode_event, encode_position


def decode(*pieces: bytes, limit: int = 1000) -> list[Event]:
    decoder = EventDecoder(limit)
    return [event for piece in pieces for event in decoder.feed(piece)]


def message(data: str, *, event: str = "message", id: str = "", retry_ms: int | None = None) -> Event:
    return Event(event, data, id, retry_ms)


def test_an_event_is_written_with_its_name_its_id_and_one_line_of_data() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", id=b"s-1") == b"event: message\nid: s-1\ndata: {}\n\n"
    assert encode_event(b"/m", event=b"endpoint") == b"event: endpoint\ndata: /m\n\n"


@pytest.mark.parametrize("data", [b"a\nb", b"a\rb", b"\r\n", b"a\n"])
def test_data_of_more_than_one_line_is_our_mistake(data: bytes) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        encode_event(data)
    assert caught.value.code == "event_not_one_line"


def test_a_position_has_an_id_a_retry_and_data_only_for_those_who_want_it() -> None:
    with_data = encode_position(b"s-0", retry_ms=250, with_data=True)
    without = encode_position(b"s-0", retry_ms=250, with_data=False)
    assert with_data == b"id: s-0\nretry: 250\ndata: \n\n"
    assert without == b"id: s-0\nretry: 250\n\n"
    assert decode(with_data) == decode(without) == [message("", id="s-0", retry_ms=250)]


def test_keep_alive_is_a_comment() -> None:
    assert decode(KEEP_ALIVE, b"data: a\n\n", KEEP_ALIVE) == [message("a")]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_ends_a_line(end: bytes) -> None:
    stream = end.join((b"event: e", b"id: 7", b"data: one", b"data: two", b"", b"data: three", b"", b""))
    wanted = [message("one\ntwo", event="e", id="7"), message("three", id="7")]
    assert decode(stream) == wanted
    assert decode(*(stream[n : n + 1] for n in range(len(stream)))) == wanted


def test_a_crlf_that_is_cut_is_one_line_end_and_two_line_ends_are_two() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [message("a\nb")]
    assert decode(b"data: a\r", b"", b"\ndata: b\n\n") == [message("a\nb")]
    assert decode(b"data: a\r", b"\rdata: b\r\r") == [message("a"), message("b")]
    assert decode(b"data: a\n\rdata: b\n\r") == [message("a"), message("b")]


def test_one_leading_bom_is_skipped_and_no_other() -> None:
    bom = b"\xef\xbb\xbf"
    assert decode(bom + b"data: a\n\n") == [message("a")]
    assert decode(bom[:1], bom[1:] + b"data: a\n\n") == [message("a")]
    assert decode(bom + bom + b"data: a\n\n") == []
    assert decode(b"data: a\n" + bom + b"data: b\n\n") == [message("a")]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data:a\n\n", [message("a")]),
        (b"data:  a \n\n", [message(" a ")]),
        (b"data: a: b\n\n", [message("a: b")]),
        (b"data\n\n", [message("")]),
        (b"data:\ndata:\n\n", [message("\n")]),
        (b": comment\n:\ndata: a\n\n", [message("a")]),
        (b"other: x\nDATA: x\n data: x\ndata: a\n\n", [message("a")]),
        (b"event: e\n\ndata: a\n\n", [message("a")]),
        (b"event: e\nevent: f\ndata: a\n\n", [message("a", event="f")]),
        (b"event\ndata: a\n\n", [message("a")]),
        (b"\n\n\n", []),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"data: \xff\n\n", [message("\udcff")]),
    ],
)
def test_fields(stream: bytes, events: list[Event]) -> None:
    assert decode(stream) == events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"id: 1\ndata: a\n\ndata: b\n\n", [message("a", id="1"), message("b", id="1")]),
        (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [message("a", id="1"), message("b", id="")]),
        (b"id: 1\n\ndata: b\n\n", [message("", id="1"), message("b", id="1")]),
        (b"id: 1\nid: a\0b\ndata: a\n\n", [message("a", id="1")]),
        (b"id: a\0b\n\n", []),
        (b"id: 1\nid: 2\ndata: a\n\n", [message("a", id="2")]),
    ],
)
def test_the_last_id_stays_until_another_comes_and_never_holds_nul(
    stream: bytes, events: list[Event]
) -> None:
    assert decode(stream) == events


@pytest.mark.parametrize(
    ("value", "retry_ms"),
    [
        (b"0", 0),
        (b"1500", 1500),
        (b"007", 7),
        (b"9" * 15, 10**15 - 1),
        (b"9" * 16, None),
        (b"1" * 5000, None),
        (b"", None),
        (b"-1", None),
        (b"1.5", None),
        (b"1s", None),
        (b" 1", None),
        ("٣".encode(), None),
        ("²".encode(), None),
    ],
)
def test_retry_is_ascii_digits_or_nothing(value: bytes, retry_ms: int | None) -> None:
    assert decode(b"retry: " + value + b"\ndata: a\n\n", limit=10_000) == [message("a", retry_ms=retry_ms)]


def test_a_retry_belongs_to_its_event_and_is_told_without_data() -> None:
    assert decode(b"retry: 5\n\ndata: a\n\n") == [message("", retry_ms=5), message("a")]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_limit_is_exact_for_the_data_of_an_event_and_for_any_line(size: int) -> None:
    def cut(stream: bytes) -> list[bytes]:
        return [stream[at : at + size] for at in range(0, len(stream), size)]

    fits = b"data: 4567\n"  # ten bytes, its name included
    assert decode(*cut((fits + b"\n") * 3), limit=10) == [message("4567")] * 3
    assert decode(*cut(fits + fits + b"\n"), limit=20) == [message("4567\n4567")]
    assert decode(*cut(b":" + b"c" * 9 + b"\n" + fits + b"\n"), limit=10) == [message("4567")]
    for stream in (b"data: 45678\n", fits + b"data\n", b":" + b"c" * 10 + b"\n", fits + b":\n"):
        with pytest.raises(RemoteProtocolError) as caught:
            decode(*cut(stream), limit=10)
        assert caught.value.code == "event_too_long"


def test_a_line_that_never_ends_is_refused_before_its_end() -> None:
    decoder = EventDecoder(1000)
    assert decoder.feed(b"x" * 1000) == []
    with pytest.raises(RemoteProtocolError):
        decoder.feed(b"x")


class Watched(bytes):
    """Counts how many bytes are searched."""

    searched = 0

    def find(self, *args: object) -> int:
        found = super().find(*args)  # type: ignore[arg-type]
        start = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
        Watched.searched += (len(self) if found < 0 else found + 1) - start
        return found


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_no_byte_is_searched_more_than_once_for_each_line_end(end: bytes) -> None:
    stream = Watched((b"data: a" + end + end) * 2000)
    Watched.searched = 0
    assert decode(stream) == [message("a")] * 2000
    assert 0 < Watched.searched <= 2 * len(stream)


def test_pieces_of_a_long_line_are_joined_once() -> None:
    decoder = EventDecoder()
    pieces = [b"data: "] + [b"x" * 65536] * 320
    for piece in pieces:
        assert decoder.feed(piece) == []
    assert all(kept is piece for kept, piece in zip(decoder._parts, pieces, strict=True))
    assert decoder.feed(b"\n\n") == [message("x" * (320 * 65536))]


def test_an_event_in_many_small_pieces_costs_no_object_for_each() -> None:
    decoder = EventDecoder()
    for _ in range(10_000):
        assert decoder.feed(b"da") == []
    assert len(decoder._parts) < 10
