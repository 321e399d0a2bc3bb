"""Streams: whatever is delivered, cut and resumed, at any speed, arrives once and in order."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.proxy.policy import SessionPolicy
from mooring.proxy.streams import EventStream, Streams
from mooring.wire.budget import Budget
from mooring.wire.events import parse_event_id
from mooring.wire.sse import Event, EventDecoder
from tests.unit.test_proxy_parts import FakeExchange

OF_ALL_BYTES = 2000


class Cutting(RuleBasedStateMachine):
    """One GET stream of a session, a client that comes and goes, and one that reads when it likes."""

    @initialize(priming=st.booleans(), retained=st.sampled_from([50, 400, 1 << 20]))
    def begin(self, priming: bool, retained: int) -> None:
        self.pressure = 0
        self.kept = Budget(OF_ALL_BYTES, sharers=10)
        self.others_bytes = 0
        policy = SessionPolicy(retained_bytes=retained)
        self.streams = Streams(policy, self.kept, self._on_pressure, self._on_cut)
        self.streams.priming = priming
        self.stream: EventStream = self.streams.open(standalone=True)
        self.other = self.streams.open(standalone=False)
        self.exchange: FakeExchange | None = None
        self.decoder = EventDecoder()
        self.read = 0
        self.position = ""
        self.seen: list[int] = []
        self.count = 0
        self.hole = False

    def _on_pressure(self) -> None:
        self.pressure += 1

    def _on_cut(self, stream: EventStream) -> None:
        assert stream is self.stream and self.exchange is not None and self.exchange.ended
        self.client_reads(1 << 20)
        self.exchange = None

    @rule(count=st.sampled_from([0, OF_ALL_BYTES - 100, OF_ALL_BYTES + 1]))
    def others_keep(self, count: int) -> None:
        self.kept.taken_bytes += count - self.others_bytes
        self.others_bytes = count

    @rule(size=st.integers(0, 60))
    def deliver(self, size: int) -> None:
        self.count += 1
        data = json.dumps({"n": self.count, "pad": "x" * size}).encode()
        self.streams.deliver(self.stream, data, 0.0)
        assert not self.kept.is_exceeded or self.streams.retained_bytes <= self.kept.share_bytes

    @rule()
    def deliver_elsewhere(self) -> None:
        self.streams.deliver(self.other, b'{"n":0}', 0.0)

    @precondition(lambda self: self.exchange is None)
    @rule(writable=st.booleans())
    def attach(self, writable: bool) -> None:
        position = parse_event_id(self.position) if self.position else (self.stream.log.stream, 0)
        assert position is not None and position[0] == self.stream.log.stream
        if self.stream.log.has_gap_after(position[1]):
            self.hole = True  # said so, and logged
        self.exchange, self.decoder, self.read = FakeExchange(writable=writable), EventDecoder(), 0
        self.stream.attach(self.exchange, headers=[], after=position[1], now=0.0)

    @precondition(lambda self: self.exchange is not None)
    @rule(writable=st.booleans())
    def turn(self, writable: bool) -> None:
        assert self.exchange is not None
        self.exchange.turn(writable)

    @precondition(lambda self: self.exchange is not None)
    @rule(most=st.integers(0, 300))
    def client_reads(self, most: int) -> None:
        assert self.exchange is not None
        chunk = self.exchange.sent[self.read : self.read + most]
        self.read += len(chunk)
        for event in self.decoder.feed(chunk):
            self._take(event)

    def _take(self, event: Event) -> None:
        self.position = event.id or self.position
        if event.data:
            n = json.loads(event.data)["n"]
            assert event.id == f"{self.stream.log.stream}-{n}"
            last = self.seen[-1] if self.seen else 0
            assert n > last if self.hole else n == last + 1, "in order, none twice, none missing"
            self.hole = False
            self.seen.append(n)

    @precondition(lambda self: self.exchange is not None)
    @rule()
    def cut(self) -> None:
        """The connection breaks; what was on the way is lost with it."""
        assert self.exchange is not None
        self.exchange.lose()
        self.exchange = None

    @precondition(lambda self: self.exchange is not None)
    @rule()
    def hang_up(self) -> None:
        assert self.exchange is not None
        self.stream.hang_up(1000)
        assert self.exchange.ended
        self.client_reads(1 << 20)
        self.exchange = None

    @precondition(lambda self: self.exchange is not None)
    @rule()
    def catch_up(self) -> None:
        assert self.exchange is not None
        self.exchange.turn(True)
        self.client_reads(1 << 20)
        assert self.stream.sent == self.count, "nothing is left behind"
        assert self.hole or len(self.seen) == 0 == self.count or self.seen[-1] == self.count

    @invariant()
    def bounded_and_consistent(self) -> None:
        if not hasattr(self, "streams"):
            return
        assert 0 <= self.stream.sent <= self.stream.log.last
        unsent = sum(map(len, self.stream.log.after(self.stream.sent)))
        assert self.stream.unsent_bytes == (unsent if self.stream.attached else 0)
        assert self.streams.in_use is (self.exchange is not None)
        assert self.kept.taken_bytes == self.streams.retained_bytes + self.others_bytes


TestCutting = Cutting.TestCase
TestCutting.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(st.lists(st.booleans(), max_size=30))
def test_a_stream_without_numbers_keeps_nothing_that_was_sent(writable: list[bool]) -> None:
    streams = Streams(SessionPolicy(), Budget(OF_ALL_BYTES), lambda: None, lambda stream: None)
    streams.resumable = False
    stream = streams.open(standalone=True)
    exchange = FakeExchange()
    stream.attach(exchange, headers=[], after=0, now=0.0)
    for n, open_ in enumerate(writable):
        exchange.turn(open_)
        streams.deliver(stream, b"%d" % n, 0.0)
    exchange.turn(True)
    assert [event.data for event in EventDecoder().feed(exchange.sent)] == [
        str(n) for n in range(len(writable))
    ]
    assert streams.retained_bytes == 0 and b"id:" not in exchange.sent
