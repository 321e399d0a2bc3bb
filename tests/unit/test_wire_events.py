"""The events of one stream: numbers, ids, and what is no longer there."""

import pytest

from mooring.wire.events import EventLog, parse_event_id


def filled(*messages: bytes) -> EventLog:
    log = EventLog("s")
    for message in messages:
        log.append(message)
    return log


def test_messages_are_numbered_from_one() -> None:
    log = EventLog("s")
    assert (log.last, log.oldest, log.size_bytes) == (0, 1, 0)
    assert [log.append(b"a"), log.append(b"bb"), log.append(b"")] == [1, 2, 3]
    assert (log.last, log.oldest, log.size_bytes) == (3, 1, 3)


def test_ids_name_the_stream_and_the_number() -> None:
    log = EventLog("get1")
    assert [log.id_of(n) for n in (0, 1, 12)] == [b"get1-0", b"get1-1", b"get1-12"]
    assert parse_event_id(log.id_of(12).decode()) == ("get1", 12)


def test_what_followed_a_number() -> None:
    log = filled(b"a", b"b", b"c")
    assert [log.after(n) for n in range(5)] == [[b"a", b"b", b"c"], [b"b", b"c"], [b"c"], [], []]
    assert not any(log.has_gap_after(n) for n in range(5))


def test_the_oldest_is_forgotten_first_and_the_gap_is_told() -> None:
    log = filled(b"a", b"bb", b"ccc")
    assert (log.forget_oldest(), log.oldest, log.size_bytes) == (1, 2, 5)
    assert [log.has_gap_after(n) for n in range(4)] == [True, False, False, False]
    assert [log.after(n) for n in range(4)] == [[b"bb", b"ccc"], [b"bb", b"ccc"], [b"ccc"], []]
    assert [log.forget_oldest(), log.forget_oldest(), log.forget_oldest()] == [2, 3, 0]
    assert (log.oldest, log.last, log.size_bytes, log.after(0)) == (4, 3, 0, [])
    assert [log.has_gap_after(n) for n in range(4)] == [True, True, True, False]
    assert log.append(b"d") == 4
    assert log.after(3) == [b"d"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("s-1", ("s", 1)),
        ("s12-0", ("s12", 0)),
        ("s-007", ("s", 7)),
        ("s-" + "9" * 18, ("s", 10**18 - 1)),
        ("s-" + "9" * 19, None),
        ("s-" + "9" * 5000, None),
        ("", None),
        ("s", None),
        ("-", None),
        ("-1", None),
        ("s-", None),
        ("s-x", None),
        ("s--1", None),
        ("s-+1", None),
        ("s-1 ", None),
        ("s t-1", None),
        ("a-b-1", None),
        ("s-²", None),
        ("s-٣", None),
    ],
)
def test_only_our_own_ids_are_understood(value: str, found: tuple[str, int] | None) -> None:
    assert parse_event_id(value) == found
