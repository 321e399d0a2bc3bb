"""The parts of the proxy that decide and hold, without sockets or processes."""

import json
from collections.abc import Callable

import pytest

from mooring.proxy.call_errors import overdue
from mooring.proxy.calls import Call, Reply, StreamReply
from mooring.proxy.delivery import Delivery
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.streams import EventStream, Streams
from mooring.proxy.waiting import MOST_LINES, Waiting, WaitingLine
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.http import Head, Headers, Request, Response
from mooring.wire.jsonrpc import Envelope
from mooring.wire.sse import EventDecoder


class FakeExchange:
    """An exchange that remembers, as strict as the real one about its order."""

    def __init__(self, *, writable: bool = True) -> None:
        self.request = Request(Head("POST", "/mcp"))
        self.extra_headers: Headers = []
        self.on_disconnect: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.disconnected = False
        self.writable = writable
        self.responses: list[Response] = []
        self.status: int | None = None
        self.headers: Headers = []
        self.sent = b""
        self.writes = 0
        self.ended = False

    def respond(self, response: Response) -> None:
        assert not self.responses and self.status is None
        self.responses.append(response)

    def start(self, status: int, headers: Headers) -> None:
        assert not self.responses and self.status is None
        self.status, self.headers = status, headers

    def write(self, data: bytes) -> None:
        assert self.status and not self.ended
        self.sent += data
        self.writes += 1

    def end(self) -> None:
        assert self.status and not self.ended
        self.ended = True

    def abort(self) -> None:
        raise AssertionError("nobody aborts here")

    def upgrade(self, subprotocol: str) -> None:
        raise AssertionError("nobody upgrades here")

    def turn(self, writable: bool) -> None:
        before, self.writable = self.writable, writable
        if writable and not before and self.on_writable is not None:
            self.on_writable()

    def lose(self) -> None:
        self.disconnected = True
        callback, self.on_disconnect = self.on_disconnect, None
        if callback is not None:
            callback()


def events(exchange: FakeExchange) -> list[str]:
    return [event.data for event in EventDecoder().feed(exchange.sent) if event.data]


def message(method: str, id: int | str | None = None) -> tuple[Envelope, bytes]:
    line = jsonrpc.notification(method) if id is None else jsonrpc.request(id, method)
    return jsonrpc.parse(line), line


NEWS = message("notifications/tools/list_changed")
LOG = message("notifications/message")
QUESTION = message("roots/list", "q")


class Parts:
    def __init__(self, **policy: int) -> None:
        self.policy = SessionPolicy(**policy)  # type: ignore[arg-type]
        self.kept = Budget(self.policy.budget_bytes, self.policy.max_sessions)
        self.cut: list[EventStream] = []
        self.streams = Streams(self.policy, self.kept, lambda: None, self.cut.append)
        self.delivery = Delivery(self.streams, self.policy)

    def reply(self, *ids: int, batch: bool = False, streamable: bool = True) -> tuple[Reply, FakeExchange]:
        exchange = FakeExchange()
        return Reply(exchange, self.streams, streamable, ids, len(ids), batch), exchange

    def call(self, id: int, *, sent: bool = True, streamable: bool = True) -> Call:
        request, line = message("x/any", id)
        reply = self.reply(id, streamable=streamable)[0]
        call = Call(id, request.method or "", request.params, line, reply, 0.0, 0.0, 0.0)
        call.sent = sent
        return call

    def listening(self) -> tuple[EventStream, FakeExchange]:
        stream, exchange = self.streams.open(standalone=True), FakeExchange()
        stream.attach(exchange, headers=[], after=0, now=0.0)
        self.delivery.listen(stream, 0.0)
        return stream, exchange


# Where a message goes ------------------------------------------------------------------------


def test_the_only_call_in_flight_gets_what_belongs_to_no_list() -> None:
    parts = Parts()
    parts.listening()
    only = parts.call(1)
    assert parts.delivery.place(LOG[0], [only, parts.call(2, sent=False)]) is only.reply


def test_among_several_calls_a_get_stream_is_the_place_and_else_the_oldest_call() -> None:
    parts = Parts()
    calls = [parts.call(1, streamable=False), parts.call(2), parts.call(3)]
    assert parts.delivery.place(LOG[0], calls) is calls[1].reply, "the oldest that can be told anything"
    stream, exchange = parts.listening()
    assert parts.delivery.place(LOG[0], calls) is stream
    exchange.lose()
    assert parts.delivery.place(LOG[0], calls) is calls[1].reply
    assert parts.delivery.place(LOG[0], []) is stream, "its client may come back"


def test_news_go_to_get_streams_only() -> None:
    parts = Parts()
    assert parts.delivery.place(NEWS[0], [parts.call(1)]) is None
    stream, exchange = parts.listening()
    assert parts.delivery.place(NEWS[0], [parts.call(1)]) is stream
    exchange.lose()
    assert parts.delivery.place(NEWS[0], [parts.call(1)]) is stream


def test_the_backlog_is_bounded_keeps_questions_and_tells_equal_news_once() -> None:
    parts = Parts(backlog_messages=3)
    put = parts.delivery.put
    put(None, *NEWS, 0.0)
    put(None, *NEWS, 0.0)
    put(None, *QUESTION, 0.0)
    room = [parts.delivery.has_room(LOG[1])]
    put(None, *LOG, 0.0)
    assert [*room, parts.delivery.has_room(LOG[1])] == [True, False]
    put(None, *LOG, 0.0)  # the news give way, the question does not
    _, exchange = parts.listening()
    assert [json.loads(data)["method"] for data in events(exchange)] == [
        "roots/list",
        *["notifications/message"] * 2,
    ]
    assert not parts.delivery.backlog


def test_a_question_goes_to_the_next_call_that_can_carry_it() -> None:
    parts = Parts()
    parts.delivery.put(None, *QUESTION, 0.0)
    parts.delivery.put(None, *LOG, 0.0)
    plain, _ = parts.reply(1, streamable=False)
    parts.delivery.put_questions(plain, 0.0)
    assert parts.delivery.backlog
    reply, exchange = parts.reply(2)
    parts.delivery.put_questions(reply, 0.0)
    assert [json.loads(data)["id"] for data in events(exchange)] == ["q"]
    assert parts.delivery.backlog, "the rest waits for a GET stream"


def test_a_question_that_was_never_shown_is_taken_back() -> None:
    parts = Parts()
    parts.delivery.put(None, *QUESTION, 0.0)
    assert parts.delivery.withdraw("q") and not parts.delivery.withdraw("q")
    assert not parts.delivery.backlog


def test_a_surplus_stream_leaves_what_it_never_sent_to_the_newest() -> None:
    parts = Parts(max_streams=1)
    stream, slow = parts.listening()
    slow.turn(False)
    parts.streams.deliver(stream, b"1", 0.0)
    assert parts.streams.unsent_bytes == 1
    _, newer = parts.listening()
    assert slow.ended and events(newer) == ["1"]
    assert parts.streams.unsent_bytes == 0 and len(parts.streams) == 1


# Streams --------------------------------------------------------------------------------------


def test_an_ended_stream_is_kept_for_a_while_and_only_so_many() -> None:
    parts = Parts(retained_streams=2)
    streams = [parts.streams.open(standalone=False) for _ in range(4)]
    for n, stream in enumerate(streams):
        parts.streams.finish(stream, float(n))
    assert len(parts.streams) == 2 and parts.streams.find(streams[0].log.stream) is None
    parts.streams.tick(2.5 + parts.policy.retained_s)
    assert len(parts.streams) == 1
    parts.streams.tick(4.0 + parts.policy.retained_s)
    assert len(parts.streams) == 0


def test_the_backlog_is_bounded_in_bytes_too() -> None:
    parts = Parts(retained_bytes=200)
    for size in (60, 60, 61, 200):  # the last alone is too large, and takes nobody's place
        note = jsonrpc.notification("notifications/message", {"data": "x" * size})
        parts.delivery.put(None, jsonrpc.parse(note), note, 0.0)
    assert parts.kept.taken_bytes == parts.streams.retained_bytes > 100
    _, exchange = parts.listening()
    [event] = events(exchange)
    assert "x" * 61 in event
    parts.delivery.close()
    assert parts.kept.taken_bytes == 0


def test_while_all_sessions_keep_too_much_each_keeps_its_share() -> None:
    parts = Parts(retained_bytes=1000, shared_bytes=0, max_message_bytes=1000, max_sessions=20)
    note = jsonrpc.notification("notifications/message", {"data": "x" * 60})
    assert parts.kept.share_bytes == 200 > len(note)
    for _ in range(3):
        parts.delivery.put(None, jsonrpc.parse(note), note, 0.0)
    assert len(parts.delivery.backlog) == 3
    parts.kept.taken_bytes += 4000  # others'
    parts.delivery.put(None, jsonrpc.parse(note), note, 0.0)
    assert len(parts.delivery.backlog) == 1
    stream, exchange = parts.listening()
    exchange.turn(False)
    assert not parts.cut
    parts.streams.deliver(stream, note, 0.0)
    parts.streams.deliver(stream, note, 0.0)
    assert parts.cut == [stream] and exchange.ended, (
        "it does not keep up, and there is no room to wait for it"
    )
    assert parts.streams.retained_bytes <= 200
    later = FakeExchange()
    stream.attach(later, headers=[], after=0, now=0.0)
    assert len(events(later)) == 1, "what is still kept can be had"


def test_what_an_attached_client_waits_for_is_never_forgotten() -> None:
    parts = Parts(retained_bytes=10)
    stream, exchange = parts.listening()
    exchange.turn(False)
    cut = parts.streams.open(standalone=False)
    for n in range(5):
        parts.streams.deliver(cut, b"cut %d" % n, 0.0)
        parts.streams.deliver(stream, b"live %d" % n, 0.0)
    assert cut.log.has_gap_after(0) and not stream.log.has_gap_after(0)
    exchange.turn(True)
    assert events(exchange) == [f"live {n}" for n in range(5)]


def test_hanging_up_says_where_and_when_and_keep_alives_fill_silence() -> None:
    parts = Parts()
    parts.streams.priming = True
    stream, exchange = parts.listening()
    stream.keep_alive(5.0, 10.0)
    assert b"keep-alive" not in exchange.sent
    stream.keep_alive(10.0, 10.0)
    assert exchange.sent.endswith(b": keep-alive\n\n")
    exchange.turn(False)
    stream.keep_alive(30.0, 10.0)
    assert exchange.sent.count(b"keep-alive") == 1, "a client that does not read needs none"
    exchange.turn(True)
    parts.streams.deliver(stream, b"1", 31.0)
    stream.hang_up(2000)
    assert exchange.ended and stream.log.id_of(1) + b"\nretry: 2000\n" in exchange.sent
    stream.hang_up(2000)  # nobody is there


def test_the_end_of_a_session_leaves_a_slow_reader_all_its_answers() -> None:
    parts = Parts()
    reply, exchange = parts.reply(1)
    reply.deliver(b"1", 0.0)
    exchange.turn(False)
    reply.deliver(b"2", 0.0)
    reply.answer(b"answer", 0.0)
    assert (events(exchange), exchange.writes) == (["1"], 1)
    parts.streams.close()
    assert exchange.ended and events(exchange) == ["1", "2", "answer"]
    assert exchange.writes == 2, "at once: should it have gone by now, it is written to once"


def test_hanging_up_loses_nothing_that_cannot_be_asked_for_again() -> None:
    parts = Parts()
    parts.streams.resumable = False
    stream, exchange = parts.listening()
    exchange.turn(False)
    StreamReply(stream, parts.streams).answer(b"answer", 0.0)
    stream.hang_up(2000)
    assert exchange.ended and events(exchange) == ["answer"]


def test_a_client_that_comes_back_replaces_its_old_connection() -> None:
    parts = Parts()
    stream, old = parts.listening()
    parts.streams.deliver(stream, b"1", 0.0)
    new = FakeExchange()
    stream.attach(new, headers=[], after=0, now=0.0)
    assert old.ended and events(new) == ["1"]
    old.lose()
    assert stream.attached, "the end of the old one is not the end of the new one"


# Replies --------------------------------------------------------------------------------------


def test_a_batch_is_answered_when_its_last_call_is() -> None:
    reply, exchange = Parts().reply(1, 2, batch=True)
    reply.answer(b'{"id":2}', 0.0)
    assert not exchange.responses
    reply.answer(b'{"id":1}', 0.0)
    [response] = exchange.responses
    assert json.loads(response.body) == [{"id": 2}, {"id": 1}]


def test_a_batch_that_becomes_a_stream_keeps_the_answers_it_had() -> None:
    reply, exchange = Parts().reply(1, 2, batch=True)
    reply.answer(b'{"id":2}', 0.0)
    reply.deliver(b'{"method":"note"}', 0.0)
    reply.answer(b'{"id":1}', 0.0)
    assert events(exchange) == ['{"id":2}', '{"method":"note"}', '{"id":1}']
    assert exchange.ended


def answer(id: int, size: int) -> bytes:
    return jsonrpc.result_response(id, {"data": "x" * size})


def test_answers_to_a_batch_become_a_stream_when_too_many_bytes_wait_for_the_last() -> None:
    parts = Parts(retained_bytes=300)
    reply, exchange = parts.reply(1, 2, 3, batch=True)
    reply.answer(answer(1, 200), 0.0)
    assert parts.kept.taken_bytes == len(answer(1, 200)) and not events(exchange)
    reply.answer(answer(2, 200), 0.0)
    assert exchange.status == 200
    reply.answer(answer(3, 200), 0.0)
    assert exchange.ended and [json.loads(event)["id"] for event in events(exchange)] == [1, 2, 3]
    assert parts.kept.taken_bytes == parts.streams.retained_bytes <= 300


def test_what_is_too_long_in_a_batch_that_cannot_become_a_stream_is_replaced_by_an_error() -> None:
    parts = Parts(retained_bytes=300)
    reply, exchange = parts.reply(1, 2, 3, batch=True, streamable=False)
    for id in (1, 2, 3):  # with the last one nothing has to wait any more
        reply.answer(answer(id, 200), 0.0)
    [response] = exchange.responses
    first, second, third = json.loads(response.body)
    assert (first["id"], third["id"]) == (1, 3) and "result" in first and "result" in third
    assert second["id"] == 2 and second["error"]["data"]["reason"] == "message_too_long"
    assert parts.kept.taken_bytes == 0


def test_silence_makes_a_stream_unless_the_client_wants_none_or_is_gone() -> None:
    parts = Parts()
    reply, exchange = parts.reply(1)
    reply.headers = [(b"mcp-session-id", b"s")]
    reply.stream_if_silent(15.0)
    assert exchange.status == 200 and (b"mcp-session-id", b"s") in exchange.headers
    plain, other = parts.reply(2, streamable=False)
    plain.stream_if_silent(100.0)
    gone, third = parts.reply(3)
    third.lose()
    gone.stream_if_silent(100.0)
    assert not other.status and not third.status


def test_on_the_old_transport_answers_go_to_the_one_stream() -> None:
    parts = Parts()
    parts.streams.resumable = False
    stream, exchange = parts.listening()
    reply = StreamReply(stream, parts.streams)
    assert reply.can_deliver
    reply.deliver(b"1", 0.0)
    reply.answer(b"2", 0.0)
    reply.stream_if_silent(100.0)
    assert events(exchange) == ["1", "2"]
    exchange.lose()
    assert not reply.can_deliver


# Waiting --------------------------------------------------------------------------------------


def test_lines_wait_in_order_within_a_bound_of_bytes() -> None:
    in_flight = Budget(20, sharers=2)
    parts, waiting = Parts(), Waiting(10, in_flight)
    calls = [parts.call(n, sent=False) for n in range(3)]
    assert waiting.fits(WaitingLine(b"x" * 100, calls[0])), "one line always fits, or it never would"
    waiting.append(WaitingLine(b"aaaa", calls[0]))
    assert waiting.fits(WaitingLine(b"x" * 6, calls[1])) and not waiting.fits(WaitingLine(b"x" * 7, calls[1]))
    waiting.append(WaitingLine(b"bbbbbb", calls[1]))
    waiting.put_back(WaitingLine(b"first", calls[2]))
    waiting.remove(calls[0])
    waiting.remove(calls[0])  # not there
    assert [waiting.pop().line, waiting.pop().line] == [b"first", b"bbbbbb"]
    assert not waiting.items and in_flight.taken_bytes == 0, "calls are counted by those who make them"


def test_lines_that_wait_are_bounded_in_number_too() -> None:
    waiting = Waiting(1 << 20, Budget(1 << 20))
    for _ in range(MOST_LINES):
        assert waiting.fits(WaitingLine(b"x"))
        waiting.append(WaitingLine(b"x"))
    assert not waiting.fits(WaitingLine(b"x"))
    waiting.pop()
    assert waiting.fits(WaitingLine(b"x"))


def test_lines_of_no_call_wait_within_a_bound_of_all_sessions_together() -> None:
    in_flight = Budget(20, sharers=2)
    waiting = Waiting(100, in_flight)
    waiting.append(WaitingLine(b"c" * 15))
    assert in_flight.taken_bytes == 15
    assert waiting.fits(WaitingLine(b"x" * 5)) and not waiting.fits(WaitingLine(b"x" * 6))
    assert Waiting(100, in_flight).fits(WaitingLine(b"x" * 10)), "another session's share"
    assert not Waiting(100, in_flight).fits(WaitingLine(b"x" * 11))
    assert [item.line for item in waiting.take_all()] == [b"c" * 15]
    assert not waiting.items and in_flight.taken_bytes == 0


@pytest.mark.parametrize(
    ("change", "served", "now", "reason"),
    [
        ({}, True, 1e6, None),
        ({"sent": False}, True, 1e6, None),
        ({"sent": False}, False, 9.9, None),
        ({"sent": False}, False, 10.0, "server_unavailable"),
        ({"deadline": 5.0}, True, 4.9, None),
        ({"deadline": 5.0}, True, 5.0, "timeout"),
        ({"cancelled_at": 1.0}, True, 5.9, None),
        ({"cancelled_at": 1.0}, True, 6.0, "cancelled"),
        ({"method": "initialize"}, True, 119.0, None),
        ({"method": "initialize"}, True, 120.0, "initialize_timeout"),
    ],
)
def test_time_alone_ends_a_call(
    change: dict[str, object], served: bool, now: float, reason: str | None
) -> None:
    call = Parts().call(1)
    for name, value in change.items():
        setattr(call, name, value)
    failure = overdue(call, now, SessionPolicy(call_timeout_s=5.0), served=served)
    assert (failure.reason if failure else None) == reason
