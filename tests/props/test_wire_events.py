"""Whatever is appended and forgotten: the log serves what it has, and tells what it has not."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.events import EventLog, parse_event_id


@given(st.lists(st.binary(max_size=5) | st.none(), max_size=40), st.integers(0, 45))
def test_the_log_behaves_like_a_list_with_a_first_index(steps: list[bytes | None], n: int) -> None:
    log = EventLog("s")
    everything: list[bytes] = []
    forgotten = 0
    for step in steps:
        if step is not None:
            everything.append(step)
            assert log.append(step) == len(everything)
        elif forgotten < len(everything):
            assert log.forget_oldest() == len(everything[forgotten])
            forgotten += 1
        else:
            assert log.forget_oldest() == 0
    assert log.after(n) == everything[max(n, forgotten) :]
    assert log.has_gap_after(n) == (n < forgotten)
    assert (log.oldest, log.last) == (forgotten + 1, len(everything))
    assert log.size_bytes == sum(map(len, everything[forgotten:]))


@given(st.text("abc019", min_size=1), st.integers(0, 10**18 - 1))
def test_an_id_comes_back_as_stream_and_number(stream: str, n: int) -> None:
    assert parse_event_id(EventLog(stream).id_of(n).decode()) == (stream, n)


@given(st.text(max_size=10) | st.text("s-0 1²", max_size=10))
def test_whatever_is_understood_is_alphanumeric_and_a_number(value: str) -> None:
    found = parse_event_id(value)
    if found is None:
        stream, _, n = value.rpartition("-")
        assert not (stream.isalnum() and n.isascii() and n.isdigit())
    else:
        stream, number = found
        assert value.startswith(f"{stream}-")
        assert int(value[len(stream) + 1 :]) == number
