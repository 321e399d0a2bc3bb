"""Two ends of a link, cut at any moment: what was said arrives once, in order and whole."""

import sys
from collections import deque

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.relay import envelope
from mooring.relay.envelope import (
    HEAD_BYTES,
    MAX_DATA_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_WORDS_BYTES,
    MORE,
    BadEnvelope,
    Gap,
    Kind,
    encode,
    split,
)
from mooring.relay.link import (
    ACKNOWLEDGE_BESIDE,
    MAX_UNACKNOWLEDGED_BYTES,
    MAX_UNREAD_MESSAGES,
    Link,
    Stream,
)
from mooring.relay.words import Head, Opening, Reset

WINDOW = 40_000


class Heard:
    """What came on one connection."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream
        self.messages: list[bytes] = []
        self.begun = b""
        self.head: Head | None = None
        self.ended = 0
        self.resets: list[Reset] = []
        self.writable = 0
        self.consumes = True

    def on_head(self, head: Head) -> None:
        assert self.head is None and not self.ended
        self.head = head

    def on_data(self, data: bytes, more: bool) -> None:
        assert not self.ended and not self.resets
        self.begun += data
        if not more:
            self.messages.append(self.begun)
            self.begun = b""
        if self.consumes and self.stream is not None:
            self.stream.consumed()

    def on_end(self) -> None:
        self.ended += 1

    def on_reset(self, reset: Reset) -> None:
        self.resets.append(reset)

    def on_writable(self) -> None:
        self.writable += 1


class Pair:
    """A link, with a wire between its ends that delivers when told to."""

    def __init__(self) -> None:
        self.wanted = [0, 0]
        self.far: dict[int, Heard] = {}
        self.openings: dict[int, Opening] = {}
        self.near = Link(lambda: self._want(0), window=WINDOW, peer_window=WINDOW)
        self.there = Link(lambda: self._want(1), self._on_open, window=WINDOW, peer_window=WINDOW)
        self.wires: tuple[deque[bytes], deque[bytes]] = (deque(), deque())

    def _want(self, end: int) -> None:
        self.wanted[end] += 1

    def _on_open(self, stream: Stream, opening: Opening) -> None:
        self.far[stream.id] = stream.ear = Heard(stream)
        self.openings[stream.id] = opening

    def open(self, *, is_socket: bool = False) -> Heard:
        heard = Heard()
        heard.stream = self.near.open(Opening("time", "POST", "mcp", websocket=is_socket), heard)
        return heard

    def step(self, end: int) -> None:
        """One end puts a message on the wire. Whoever has one has said so."""
        link = (self.near, self.there)[end]
        is_wanted = link.is_wanted
        if message := link.take(limit_bytes=3000):
            assert is_wanted
            self.wires[end].append(message)

    def deliver(self, end: int) -> None:
        """The oldest message of an end arrives."""
        if self.wires[end]:
            (self.there, self.near)[end].receive(self.wires[end].popleft(), strict=True)

    def cut(self) -> None:
        """The socket is lost with all that was on its way; another takes its place."""
        for wire in self.wires:
            wire.clear()
        self.near.lose()
        self.there.lose()
        near, there = self.near.received, self.there.received
        self.near.resume(there)
        self.there.resume(near)

    def settle(self) -> None:
        for _ in range(100_000):
            before = (self.near.received, self.there.received)
            for end in (0, 1):
                self.step(end)
                self.deliver(end)
            if not any(self.wires) and before == (self.near.received, self.there.received):
                self.near.acknowledge()
                self.there.acknowledge()
                if self.near.is_idle and self.there.is_idle:
                    return
        raise AssertionError("it does not come to rest")


SIZES = st.sampled_from([0, 1, 17, 500, MAX_DATA_BYTES, MAX_DATA_BYTES + 1, WINDOW - 1, WINDOW, 3 * WINDOW])
DEEDS = st.one_of(
    st.tuples(st.just("open")),
    st.tuples(st.just("send"), st.booleans(), st.integers(0, 50), SIZES),
    st.tuples(st.just("end"), st.booleans(), st.integers(0, 50)),
    st.tuples(st.just("step"), st.integers(0, 1)),
    st.tuples(st.just("deliver"), st.integers(0, 1)),
    st.tuples(st.just("cut")),
)


@given(st.lists(DEEDS, max_size=60))
@example(
    [  # the last credit crosses the end: a stray, and nobody's mistake
        ("open",),
        ("send", False, 0, 3 * WINDOW),
        ("end", False, 0),
        ("step", 0),
        ("deliver", 0),
        ("end", True, 0),
    ]
)
@settings(deadline=None, max_examples=300)
def test_all_arrives_once_and_in_order_whatever_is_cut(deeds: list[tuple[object, ...]]) -> None:
    pair, opened = Pair(), []
    said: dict[tuple[bool, int], list[bytes]] = {}
    ended: set[tuple[bool, int]] = set()
    for number, (deed, *what) in enumerate(deeds):
        if deed == "open":
            heard = pair.open(is_socket=True)  # of a body nobody can tell where its pieces ended
            assert heard.stream is not None
            opened.append(heard)
        elif deed in ("send", "end") and opened:
            back, index = bool(what[0]), int(what[1]) % len(opened)  # type: ignore[call-overload]
            near = opened[index]
            assert near.stream is not None
            far = pair.far.get(near.stream.id)
            speaker = (far.stream if far else None) if back else near.stream
            if speaker is None or (back, index) in ended:
                continue
            if deed == "send":
                text = bytes([number % 251]) * int(what[2])  # type: ignore[call-overload]
                said.setdefault((back, index), []).append(text)
                speaker.send(text)
            else:
                ended.add((back, index))
                speaker.end()
        elif deed == "step":
            pair.step(int(what[0]))  # type: ignore[call-overload]
        elif deed == "deliver":
            pair.deliver(int(what[0]))  # type: ignore[call-overload]
        elif deed == "cut":
            pair.cut()
    pair.settle()
    for index, near in enumerate(opened):
        assert near.stream is not None
        far = pair.far[near.stream.id]
        assert far.messages == said.get((False, index), [])
        assert near.messages == said.get((True, index), [])
        assert not far.resets and not near.resets
        assert far.ended == ((False, index) in ended) and near.ended == ((True, index) in ended)
        is_over = {(False, index), (True, index)} <= ended
        assert (near.stream.id not in pair.near.streams) == is_over == near.stream.is_over
        assert (near.stream.id not in pair.there.streams) == is_over
    assert pair.near.bad == pair.there.bad == 0
    assert pair.near.unacknowledged_bytes == pair.there.unacknowledged_bytes == 0


WORDS = st.sampled_from([0, 1, 20_000, MAX_WORDS_BYTES - 100, MAX_WORDS_BYTES, 2 * MAX_MESSAGE_BYTES])
SAYINGS = st.one_of(
    st.tuples(st.just("head"), st.integers(0, 50), WORDS),
    st.tuples(st.just("data"), st.integers(0, 50), SIZES),
    st.tuples(st.just("reset"), st.integers(0, 50), WORDS),
    st.tuples(st.just("close"), st.integers(0, 50), WORDS),
    st.tuples(st.just("take"), st.just(0), st.just(0)),
    st.tuples(st.just("lose"), st.just(0), st.just(0)),
)


@given(st.lists(SAYINGS, max_size=60))
@settings(deadline=None, max_examples=200)
def test_no_message_is_longer_than_one_may_be(sayings: list[tuple[str, int, int]]) -> None:
    """Whatever is said in one turn, and sent again after a loss: the other end would close, for ever."""
    streams: list[Stream] = []
    link = Link(lambda: None, lambda stream, opening: streams.append(stream), peer_window=10_000_000)
    for number in range(10):
        opening = encode(
            Kind.OPEN, number + 1, b'{"server":"a","method":"b","path":"c"}', sequence=number + 1
        )
        link.receive(opening, strict=True)
    for deed, index, size in [*sayings, *[("take", 0, 0)] * 20]:
        stream = streams[index % len(streams)]
        if deed == "head":
            stream.head(Head(200, [("x", "y" * size)]))
        elif deed == "data":
            stream.send(b"x" * size)
        elif deed == "reset":
            stream.reset(Reset("x" * size, "y" * size))
        elif deed == "close":
            stream.close(Reset("x" * size, "y" * size))
        elif deed == "take":
            assert len(link.take()) <= MAX_MESSAGE_BYTES
        else:
            link.lose()
            link.resume(0)


def test_who_has_much_to_say_does_not_hold_up_the_others() -> None:
    pair = Pair()
    loud = pair.open()
    assert loud.stream is not None
    pair.settle()
    pair.far[loud.stream.id].consumes = True
    loud.stream.send(b"x" * 1_000_000)
    few = [pair.open() for _ in range(10)]
    for quiet in few:
        assert quiet.stream is not None
        quiet.stream.send(b"y" * 10)
        quiet.stream.end()
    taken = b""
    while len(taken) < 40_000:
        taken += pair.near.take()
    told = {got.connection for got in split(taken) if got.kind == Kind.END}
    assert told == {quiet.stream.id for quiet in few if quiet.stream is not None}


def test_everybody_gets_the_same_share() -> None:
    pair = Pair()
    pair.near.peer_window = pair.there.window = 10_000_000
    many = [pair.open() for _ in range(50)]
    for heard in many:
        assert heard.stream is not None
        heard.stream.send(b"x" * 400_000)
    shares: dict[int, int] = {}
    taken = 0
    while taken < 3_000_000:
        message = pair.near.take()
        taken += len(message)
        for got in split(message):
            shares[got.connection] = shares.get(got.connection, 0) + len(got.payload)
    assert len(shares) == 50 and max(shares.values()) <= 2 * min(shares.values())


def test_one_that_nobody_reads_stops_at_its_window_and_the_others_go_on() -> None:
    pair = Pair()
    slow, fast = pair.open(), pair.open()
    assert slow.stream is not None and fast.stream is not None
    pair.settle()
    pair.far[slow.stream.id].consumes = False
    slow.stream.send(b"s" * 1_000_000)
    assert not slow.stream.writable
    fast.stream.send(b"f" * 1_000_000)
    for _ in range(2000):
        for end in (0, 1):
            pair.step(end)
            pair.deliver(end)
    assert sum(map(len, pair.far[fast.stream.id].messages)) == 1_000_000 and fast.writable == 1
    stopped = pair.far[slow.stream.id]
    assert len(stopped.begun) == WINDOW and slow.stream.queued_bytes == HEAD_BYTES + 1_000_000 - WINDOW
    assert stopped.stream is not None
    stopped.consumes = True
    stopped.stream.consumed()
    pair.settle()
    assert sum(map(len, stopped.messages)) == 1_000_000


def test_what_is_kept_to_be_sent_again_is_bounded() -> None:
    pair = Pair()
    pair.near.peer_window = 100_000_000
    heard = pair.open()
    assert heard.stream is not None
    heard.stream.send(b"x" * (2 * MAX_UNACKNOWLEDGED_BYTES))
    taken = 0
    while message := pair.near.take():
        taken += len(message)
    assert MAX_UNACKNOWLEDGED_BYTES <= taken <= MAX_UNACKNOWLEDGED_BYTES + 2 * MAX_DATA_BYTES
    wanted = pair.wanted[0]
    pair.near.receive(encode(Kind.ACK, payload=envelope.write_number(100)), strict=True)
    assert pair.wanted[0] == wanted + 1 and pair.near.take()


def test_what_came_is_told_beside_what_is_said_but_not_with_every_word() -> None:
    pair = Pair()
    heard = pair.open()
    pair.settle()
    assert heard.stream is not None
    far = pair.far[heard.stream.id]
    assert far.stream is not None
    told = []
    for _ in range(3 * ACKNOWLEDGE_BESIDE):
        heard.stream.send(b"question")
        pair.step(0)
        pair.deliver(0)
        far.stream.send(b"answer")
        pair.step(1)
        told.append(any(got.kind == Kind.ACK for got in split(pair.wires[1][-1])))
        pair.deliver(1)
    assert told.count(True) == 3 and pair.near.unacknowledged_bytes < 30 * ACKNOWLEDGE_BESIDE


def test_a_long_message_is_not_copied_for_each_of_its_pieces() -> None:
    pair = Pair()
    pair.near.peer_window = 100_000_000
    heard = pair.open()
    assert heard.stream is not None
    body = bytes(range(256)) * 4096
    heard.stream.send(body)
    pair.near.take()
    rest = heard.stream._queue[0][2]
    assert isinstance(rest, memoryview) and rest.obj is body


def test_a_reset_overtakes_what_waits_and_what_follows_is_stray() -> None:
    pair = Pair()
    heard = pair.open()
    assert heard.stream is not None
    pair.settle()
    far = pair.far[heard.stream.id]
    heard.stream.send(b"x" * 30_000)
    heard.stream.reset(Reset("caller_gone"))
    heard.stream.reset(Reset("again"))
    assert far.stream is not None
    far.stream.send(b"late")
    pair.step(1)
    pair.settle()
    assert [reset.reason for reset in far.resets] == ["caller_gone"]
    assert not far.messages and not far.begun and not heard.messages and not heard.resets
    assert pair.near.stray == 1 and not pair.near.streams and not pair.there.streams


def test_whether_it_can_have_been_done_is_known() -> None:
    pair = Pair()
    heard = pair.open()
    stream = heard.stream
    assert stream is not None
    stream.send(b"x" * (WINDOW + 1))
    stream.end()
    before = stream.with_what_is_known(Reset("lost", "it is lost"))
    pair.settle()
    after = stream.with_what_is_known(Reset("lost", "it is lost"))
    assert (before.not_executed, after.not_executed) == (True, False)
    assert (before.message, after.message) == ("it is lost; the call was not executed", "it is lost")
    unsent = pair.open()
    assert unsent.stream is not None
    unsent.stream.reset(Reset("held_too_long"))
    assert not pair.near.take(), "of what never went out the other end need not know"


def test_what_was_said_on_a_websocket_may_have_been_done() -> None:
    """It never ends, and each of its messages may be a call."""
    pair = Pair()
    stream = pair.near.open(Opening("time", "GET", "ws", websocket=True), Heard())
    assert stream.with_what_is_known(Reset("lost")).not_executed
    stream.send(b"a call")
    pair.settle()
    assert pair.far[stream.id].messages == [b"a call"]
    assert not stream.with_what_is_known(Reset("lost")).not_executed


@pytest.mark.parametrize("size", [0, 10, WINDOW + 1])
def test_a_close_comes_after_all_that_was_said(size: int) -> None:
    pair = Pair()
    heard = pair.open(is_socket=True)
    pair.settle()
    assert heard.stream is not None
    heard.stream.send(b"x" * size)
    heard.stream.close(Reset("closed", close=1000))
    heard.stream.send(b"too late")
    pair.far[1].stream.send(b"nobody hears it")  # type: ignore[union-attr]
    pair.cut()
    pair.settle()
    far = pair.far[1]
    assert far.messages == [b"x" * size] and far.resets == [Reset("closed", close=1000)]
    assert not heard.messages and not heard.resets
    assert not pair.near.streams and not pair.there.streams


def test_who_is_not_read_is_not_closed_before_it_is_reset() -> None:
    pair = Pair()
    heard = pair.open()
    pair.settle()
    far = pair.far[1]
    far.consumes = False
    assert heard.stream is not None and far.stream is not None
    heard.stream.send(b"x" * (WINDOW + 1))
    heard.stream.close(Reset("closed"))
    pair.settle()
    assert len(far.begun) == WINDOW and not far.resets and pair.near.streams
    far.stream.reset(Reset("caller_gone"))
    pair.settle()
    assert not heard.resets and not pair.near.streams and not pair.there.streams


def test_more_than_there_is_room_for_ends_the_connection_and_nothing_else() -> None:
    pair = Pair()
    heard, other = pair.open(), pair.open()
    pair.settle()
    assert heard.stream is not None and other.stream is not None
    flood = encode(Kind.DATA, heard.stream.id, b"x" * (WINDOW + 1), sequence=pair.there.received + 1)
    pair.there.receive(flood, strict=False)
    assert pair.there.bad == 1
    pair.near._sent += 1  # of the forged one
    other.stream.send(b"still here")
    pair.settle()
    assert [reset.reason for reset in heard.resets] == ["flow_control"]
    assert pair.far[other.stream.id].messages == [b"still here"]


def held(stream: Stream) -> int:
    """What its queue takes of memory."""
    return sum(sys.getsizeof(payload) + 64 for _, _, payload in stream._queue)


@pytest.mark.parametrize("size", [0, 1, 30])
@pytest.mark.parametrize("is_socket", [False, True])
def test_small_pieces_hold_little_more_than_they_are_long(size: int, is_socket: bool) -> None:
    """As those that are passed on to one that takes nothing."""
    pair = Pair()
    stream = pair.open(is_socket=is_socket).stream
    assert stream is not None
    text = bytes(range(size))
    for _ in range(10_000):
        stream.send(text, more=is_socket)
    assert held(stream) < 2 * stream.queued_bytes + 1000 and stream.queued_bytes < 10_000 * size + 1000
    stream.send(b"")
    pair.settle()
    assert pair.far[1].messages == [text * 10_000] or not is_socket
    assert b"".join(pair.far[1].messages) + pair.far[1].begun == text * 10_000


def test_pieces_of_nothing_are_left_out() -> None:
    pair = Pair()
    body, socket = pair.open(), pair.open(is_socket=True)
    pair.settle()
    sent = pair.near._sent
    for number, (heard, flags) in enumerate(((body, 0), (body, MORE), (socket, MORE), (socket, 0)), start=1):
        assert heard.stream is not None
        pair.there.receive(
            encode(Kind.DATA, heard.stream.id, flags=flags, sequence=sent + number), strict=True
        )
    assert pair.far[1].messages == [] and pair.far[2].messages == [b""]


def test_messages_that_cost_no_credit_are_counted() -> None:
    """Those that are taken are not."""
    pair = Pair()
    heard, other = pair.open(is_socket=True), pair.open(is_socket=True)
    pair.settle()
    far = pair.far[1]
    pair.far[2].consumes = False
    assert heard.stream is not None and other.stream is not None
    for _ in range(MAX_UNREAD_MESSAGES + 1):
        heard.stream.send(b"")
    for _ in range(MAX_UNREAD_MESSAGES):
        other.stream.send(b"")
    pair.settle()
    assert len(far.messages) == MAX_UNREAD_MESSAGES + 1 and not heard.resets
    assert len(pair.far[2].messages) == MAX_UNREAD_MESSAGES and not other.resets
    other.stream.send(b"")
    pair.there.receive(pair.near.take(), strict=False)
    assert [reset.reason for reset in pair.far[2].resets] == ["flow_control"] and pair.there.bad == 1


def test_empty_messages_fill_a_queue_too() -> None:
    pair = Pair()
    heard = pair.open(is_socket=True)
    stream = heard.stream
    assert stream is not None
    sent = 0
    while stream.writable:
        stream.send(b"")
        sent += 1
    assert sent < 5000
    pair.settle()
    assert heard.writable == 1 and stream.queued_bytes == 0


def test_what_is_urgent_has_an_end_too() -> None:
    """A peer that asks, and does not read."""
    pair = Pair()
    pair.there.on_word = lambda got: pair.there.say(Kind.PONG, got.payload)
    ping = encode(Kind.PING, payload=b"x" * 16)
    for _ in range(2 * MAX_UNACKNOWLEDGED_BYTES // len(ping)):
        pair.there.receive(ping, strict=True)
    before = pair.there.is_ignored
    pair.there.receive(ping, strict=True)
    assert (before, pair.there.is_ignored) == (False, True)
    taken = 0
    while message := pair.there.take():
        taken += len(message)
    assert taken > 2 * MAX_UNACKNOWLEDGED_BYTES and not pair.there._urgent_bytes


BAD = {
    "short": b"\0" * 5,
    "longer than its message": encode(Kind.DATA, 1, b"abc", sequence=3)[:-1],
    "no sequence": encode(Kind.DATA, 1, b"abc"),
    "no number": encode(Kind.CREDIT, 1, b"abc", sequence=3),
    "no JSON": encode(Kind.RESET, 1, b"{", sequence=3),
    "wrong JSON": encode(Kind.HEAD, 1, b'{"status":"x"}', sequence=3),
    "an open one opened": encode(Kind.OPEN, 1, b'{"server":"a","method":"b","path":"c"}', sequence=3),
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD.keys())
def test_what_is_bad_is_told_or_left_out_and_counted(message: bytes) -> None:
    for strict in (True, False):
        pair = Pair()
        heard = pair.open()
        pair.settle()
        assert heard.stream is not None
        pair.there.received = 2
        if strict:
            with pytest.raises(BadEnvelope):
                pair.there.receive(message, strict=True)
            assert pair.there.bad == 1
        else:
            pair.there.receive(message, strict=False)
            assert pair.there.bad == 1
            after = pair.there.received + 1
            pair.there.receive(
                encode(Kind.OPEN, 7, b'{"server":"a","method":"b","path":"c"}', sequence=after), strict=False
            )
            assert pair.openings[7] == Opening("a", "b", "c") and pair.there.bad == 1


def test_after_a_gap_nobody_waits_for_what_was_left_out() -> None:
    pair = Pair()
    heard = pair.open()
    pair.settle()
    assert heard.stream is not None
    far = pair.far[heard.stream.id]
    for sequence, strict in ((5, False), (6, True), (2**64 - 1, False)):
        with pytest.raises(Gap):
            pair.there.receive(encode(Kind.DATA, 1, b"abc", sequence=sequence), strict=strict)
    assert [reset.reason for reset in far.resets] == ["link_damaged"]
    assert pair.there.bad == 3 and pair.there.received == 1, "what is next is what was next"


def test_unknown_kinds_flags_and_fields_mean_nothing() -> None:
    pair = Pair()
    opening = b'{"server":"a","method":"b","path":"c","colour":"red"}'
    pair.there.receive(
        encode(99, 5, b"?", sequence=1)
        + encode(9, 0, b"?")
        + encode(Kind.OPEN, 1, opening, sequence=2, flags=254),
        strict=True,
    )
    assert pair.openings == {1: Opening("a", "b", "c")} and pair.there.stray == 1


@pytest.mark.parametrize("received", [0, 4])
def test_a_peer_that_received_what_it_cannot_have_is_not_gone_on_with(received: int) -> None:
    pair = Pair()
    heard = pair.open()
    pair.settle()
    assert heard.stream is not None
    heard.stream.send(b"a")
    pair.near.take()
    pair.near.lose()
    with pytest.raises(BadEnvelope):
        pair.near.resume(received)


def test_the_end_of_a_link_ends_all_that_is_on_it() -> None:
    pair = Pair()
    several = [pair.open() for _ in range(3)]
    pair.settle()
    pair.near.fail(Reset("agent_gone"))
    assert all([reset.reason for reset in heard.resets] == ["agent_gone"] for heard in several)
    assert not pair.near.streams and pair.near.is_idle and not pair.near.take()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 255),
            st.integers(0, 255),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**64 - 1),
            st.binary(max_size=40),
        )
    )
)
def test_envelopes_are_read_as_they_were_written(given_: list[tuple[int, int, int, int, bytes]]) -> None:
    message = b"".join(
        encode(kind, connection, payload, sequence=sequence, flags=flags)
        for kind, flags, connection, sequence, payload in given_
    )
    assert [tuple(got) for got in split(message)] == given_


@given(st.binary(max_size=200))
def test_no_bytes_break_it(message: bytes) -> None:
    pair = Pair()
    pair.open()
    pair.settle()
    pair.there.receive(message, strict=False)
