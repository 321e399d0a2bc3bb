"""One connection: an asyncio Protocol that reads requests and knows when to end.

Invariants:
- What was read beyond the pipeline depth, or while the peer does not read its answers, is
  in `_waiting` and `_unfed`. Reading is paused exactly while something waits there.
- `_input_over`: no further request is taken. Once nothing is pending, the connection closes.
- The app is called from `data_received` or `_pump`, never from inside an answer.
- A request that offers a WebSocket is handed to the app when all before it are answered, and what
  follows it waits until it is answered too: then it is known whether that is HTTP.
- Every wait is bounded, by `sweep`; the hot path sets no timer and asks for no time.

How answers keep their order is the business of `Pipeline`.
"""

import asyncio
import logging
import os
import random
from collections import deque
from typing import TYPE_CHECKING, cast

from mooring.http.exchange import UNANSWERED
from mooring.http.house import House, has_unread, overloaded, peer_name
from mooring.http.pipeline import Pipeline
from mooring.http.problems import Refusal, too_busy
from mooring.http.reader import FREE_BODY_BYTES, IDLE, STOPPED, RequestReader
from mooring.http.rendering import render_request
from mooring.http.waits import Overdue, Waits
from mooring.wire.http import App, Head, Request
from mooring.wire.websocket import INTERNAL_ERROR, WebSocket

if TYPE_CHECKING:
    from mooring.http.websocket import WebSocketConnection

__all__ = ["Connection"]

log = logging.getLogger("mooring.http")

SLICE_BYTES = 16 * 1024
"""How much is parsed before looking whether the pipeline is full: some 500 of the smallest requests.

A body that is under way may be parsed in one go: it is no further request.
"""

REQUEST_BYTES = 1024
"""What a request that waits its turn takes beside its body."""

NOTHING = memoryview(b"")


class Connection(asyncio.Protocol):
    """One peer. `overflow`: there are too many connections, its one request is answered with 503.

    `begun`: what another has read of it, who gave it to us.
    """

    _transport: asyncio.Transport
    _pipeline: Pipeline
    _reader: RequestReader
    _is_tls: bool

    def __init__(self, house: House, *, overflow: bool = False, begun: bytes = b"") -> None:
        self.waits = Waits(house.limits)
        self.is_fresh = True
        """No request has arrived so far."""
        self._house = house
        self._app = overloaded if overflow else house.app
        self._only_one = overflow
        self._waiting: deque[tuple[Request, bool] | Refusal] = deque()
        self._unfed = NOTHING
        self._waiting_bytes = 0
        self._depth = house.depth
        self._input_over = False
        self._owes_continue = False
        self._pump_scheduled = False
        self._closing = False
        self._linger = False
        self._discarded_bytes = 0
        self._heard = False
        self._heir: WebSocketConnection | None = None
        self._begun = begun
        self._turns = 0
        self._rests_until = 0.0
        """Idle when it was last looked at: until then only what is heard can change that, or `close_by`."""

    def __repr__(self) -> str:
        return f"<Connection of {self._peer}{' closing' if self._closing else ''}>"

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The peer is there (with TLS: the handshake is done)."""
        self._transport = cast("asyncio.Transport", transport)
        house, limits = self._house, self._house.limits
        self._transport.set_write_buffer_limits(high=limits.write_high_water_bytes)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._peer = peer_name(transport)
        self._pipeline = Pipeline(self, self._transport, limits.write_high_water_bytes)
        self._reader = RequestReader(
            limits,
            self._on_request,
            self._on_expect,
            peer=self._peer,
            tls=self._is_tls,
            admit=house.admit,
            budget=house.budget,
            known=house.known_heads,
        )
        if house.stopped or self._only_one:
            self.waits.close_at = house.clock() + limits.first_request_grace_s
        house.arriving.discard(self)
        house.connections.add(self)
        house.on_change()
        if self._begun:
            begun, self._begun = self._begun, b""
            self.data_received(begun)

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer."""
        self._heard = True
        if self._input_over:
            self._discard(len(data))
        elif self._unfed or len(data) > SLICE_BYTES:
            self._unfed = memoryview(bytes(self._unfed) + data if self._unfed else data)
            self._feed_slices()
        else:
            try:
                self._reader.feed(data)
            except Refusal as refusal:
                self._refuse(refusal)
            if self._waiting:
                self._pause()

    def eof_received(self) -> bool:
        """The peer sends no more. True keeps our side open, for the answers it still waits for."""
        pipeline = self._pipeline
        pipeline.peer_is_done = True
        if self._closing or not (pipeline.pending or self._waiting):
            return False
        if pipeline.has_stream:
            pipeline.lose()
            self._transport.abort()
            return False
        self._input_over = True
        # TLS has no half-closed connections: asyncio closes, and the exchanges hear of it.
        return not self._is_tls

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed."""
        self._pipeline.close()
        self._drop_waiting()
        self._house.note_fast(self)
        self._reader.close()
        self._house.forget(self)
        self._house.on_change()

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write."""
        self._pipeline.is_paused = True
        self._house.note_slow(self)

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._pipeline.resume()
        self._house.note_fast(self)
        if self._waiting:
            self._schedule_pump()

    # Requests.

    def _feed_slices(self) -> None:
        while self._unfed and not self._waiting and not self._input_over and self._reader.state != STOPPED:
            size = max(SLICE_BYTES, self._reader.body_left)
            piece, self._unfed = self._unfed[:size], self._unfed[size:]
            try:
                self._reader.feed(piece)
            except Refusal as refusal:
                self._refuse(refusal)
        if self._input_over and self._unfed:
            self._unfed = NOTHING
            self._linger = True
        if self._waiting:
            self._pause()

    def _pause(self) -> None:
        """Requests wait their turn: read no more. If there is no room for so much, none of them is taken."""
        self._transport.pause_reading()
        if self._reader.state == STOPPED:
            self._unfed = memoryview(self._reader.take_unread() + self._unfed)
        requests = [item[0] for item in self._waiting if not isinstance(item, Refusal)]
        bodies_bytes = sum(len(request.body) for request in requests)
        self._count_waiting(len(self._unfed) + bodies_bytes + REQUEST_BYTES * len(requests))
        if self._house.budget.is_exceeded and self._waiting_bytes > FREE_BODY_BYTES:
            self._drop_waiting()
            self._input_over = False  # the last of them may have said that it is the last
            self._refuse(too_busy())

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._unfed = NOTHING
        self._count_waiting(0)

    def _count_waiting(self, size_bytes: int) -> None:
        self._house.budget.taken_bytes += size_bytes - self._waiting_bytes
        self._waiting_bytes = size_bytes

    def _on_request(self, request: Request, keep_alive: bool, is_http_1_0: bool) -> None:
        pipeline = self._pipeline
        self.is_fresh = self._owes_continue = False
        self._turns += 1
        if self._input_over or pipeline.gone:
            self._linger = True
            return
        if not keep_alive or self._only_one:
            self._input_over = True
        if request.offers_websocket:
            self._waiting.append((request, is_http_1_0))
            self._schedule_pump()
        elif self._waiting or pipeline.is_paused or len(pipeline.pending) >= self._depth:
            self._waiting.append((request, is_http_1_0))
        else:
            self._dispatch(request, is_http_1_0)

    def _dispatch(self, request: Request, is_http_1_0: bool) -> None:
        exchange = self._pipeline.add(request, is_http_1_0)
        try:
            self._app(exchange)
        except Exception:
            log.exception("the answer to %r failed", request)
            if exchange.state == UNANSWERED:
                self._input_over = True
            exchange.fail()
            if self._heir is not None:
                self._heir.close(INTERNAL_ERROR, "the request failed inside Mooring; its log says why")

    def _refuse(self, refusal: Refusal) -> None:
        self._linger = True
        self._reader.give_up()
        if self._input_over:
            # Whatever is wrong behind the last request is nobody's request.
            return
        self._input_over = True
        if self._waiting:
            self._waiting.append(refusal)
        else:
            self._answer_refusal(refusal)

    def _answer_refusal(self, refusal: Refusal) -> None:
        self._house.refused[refusal.code] += 1
        self._pipeline.add(Request(Head())).respond(refusal.response())

    def _on_expect(self) -> None:
        if self._input_over:
            return
        if self._pipeline.pending or self._waiting:
            self._owes_continue = True
        else:
            self._pipeline.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _schedule_pump(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Go on with what had to wait."""
        self._pump_scheduled = False
        pipeline = self._pipeline
        while self._waiting and self._has_turn(self._waiting[0]):
            if pipeline.gone:
                return
            next_one = self._waiting.popleft()
            if isinstance(next_one, Refusal):
                self._answer_refusal(next_one)
            else:
                self._dispatch(*next_one)
        if self._waiting or pipeline.gone or self._closing:
            return
        if self._reader.state == STOPPED:
            if pipeline.pending:
                return
            self._unfed = memoryview(self._reader.take_unread() + self._unfed)
            self._reader.resume()
        self._count_waiting(0)
        self._feed_slices()
        if not self._waiting:
            self._transport.resume_reading()

    def _has_turn(self, item: tuple[Request, bool] | Refusal) -> bool:
        pipeline = self._pipeline
        if not isinstance(item, Refusal) and item[0].offers_websocket and pipeline.pending:
            return False
        return len(pipeline.pending) < self._depth and not pipeline.is_paused

    # For the pipeline.

    def decide_last(self) -> bool:
        """See `Owner`. From then on it is true."""
        if self._waiting:
            return False
        if self._house.announces_close and self._reader.state in (IDLE, STOPPED) and not self._unfed:
            self._input_over = True
        return self._input_over

    def on_answered(self) -> None:
        """See `Owner`: if nothing is under way any more, close or begin to be idle."""
        if self._waiting:
            self._schedule_pump()
        elif self._pipeline.pending:
            return
        elif self._input_over:
            self._close()
        elif self._owes_continue:
            self._owes_continue = False
            self._on_expect()
        elif self._reader.state == STOPPED:
            self._schedule_pump()
        else:
            self._turns += 1
            if self._house.stopped and self.waits.close_at is None:
                # A stream that began before the drain and could not say that it is the last answer.
                spread = random.random() * self._house.spread_s  # noqa: S311 - spreads load
                self.waits.close_at = self._house.clock() + spread

    def end_by_close(self) -> None:
        """See `Owner`: what else was asked gets no answer."""
        self._input_over = True
        self._drop_waiting()
        self._close()

    def hand_over(self) -> WebSocket:
        """See `Owner`: from now on the transport and its place in the house are another's."""
        from mooring.http.websocket import WebSocketConnection  # noqa: PLC0415 - 3 MB that few ever need

        house, unread = self._house, self._reader.take_unread() + self._unfed
        self._unfed = NOTHING
        self._count_waiting(0)
        house.note_fast(self)
        self._heir = heir = WebSocketConnection(house, self._transport, self._peer, unread)
        self._transport.set_protocol(heir)
        self._pipeline.close()
        self._reader.close()
        house.forget(self)
        house.upgraded.add(heir)
        return heir

    # Being given to somebody else: see `mooring.http.passing`.

    def serve_by(self, app: App, depth: int) -> None:
        """From now on `app` is asked, by so many requests at once; by none: they wait."""
        if not self._only_one:
            self._app, self._depth = app, depth
            if self._waiting:
                self._schedule_pump()

    def put_back(self, request: Request, is_http_1_0: bool) -> None:
        """See `Owner`: it waits again, before all others, and nothing more is served here."""
        self._depth = 0
        self._waiting.appendleft((request, is_http_1_0))
        self._pause()
        self._house.on_put_back(self)

    def leave(self) -> tuple[int, bytes] | None:
        """Let go of the peer: a descriptor of it, and what it has sent that nobody has served.

        None: something is under way, or it cannot be given away at all.
        """
        transport, pipeline, waiting = self._transport, self._pipeline, self._waiting
        if self._closing or pipeline.gone or pipeline.pending or self._only_one or self._is_tls:
            return None
        if transport.is_closing() or transport.get_write_buffer_size() or (self._input_over and not waiting):
            return None
        requests = [item for item in waiting if not isinstance(item, Refusal)]
        if len(requests) < len(waiting):
            return None  # what is malformed is refused here
        if self._reader.state not in (IDLE, STOPPED):
            transport.resume_reading()
            return None
        descriptor = os.dup(transport.get_extra_info("socket").fileno())
        unread = self._reader.take_unread() + self._unfed
        self._closing = self._input_over = pipeline.gone = True
        self._drop_waiting()
        transport.pause_reading()
        transport.close()
        return descriptor, b"".join(render_request(*item) for item in requests) + unread

    # Ends.

    @property
    def is_idle(self) -> bool:
        """Nothing is under way: no request begun, none unanswered."""
        return not (self._pipeline.pending or self._waiting or self._unfed) and self._reader.state == IDLE

    @property
    def is_asked(self) -> bool:
        """A request is with the app, or waits for its turn."""
        return self not in self._house.arriving and bool(self._pipeline.pending or self._waiting)

    def make_room(self) -> bool:
        """Cut it for another, unless something has just come on it; did it?"""
        if not self._transport.is_closing() and has_unread(self._transport):
            return False
        self._transport.abort()
        return True

    @property
    def unsent_bytes(self) -> int:
        """Answers that the peer has not read, so far as we still hold them."""
        return self._transport.get_write_buffer_size() + self._pipeline.held_bytes

    def close_by(self, moment: float) -> None:
        """From that moment on it is not kept idle."""
        self.waits.close_at = moment
        self._rests_until = 0.0

    def abort(self) -> None:
        """Cut it now; pending exchanges hear of it."""
        self._transport.abort()

    def sweep(self, now: float) -> None:
        """End what has been waited for long enough."""
        if now < self._rests_until and not self._heard:
            return
        self._rests_until = 0.0
        waits, written = self.waits, self._pipeline.written_bytes
        buffered = self._transport.get_write_buffer_size()
        heard, self._heard = self._heard, False
        waits.look_at_turns(self._turns)
        if self._pipeline.is_paused or len(self._pipeline.pending) > 1:
            self._house.note_slow(self)  # more may wait there by now
        if waits.look_at_output(now, written=written, buffered=buffered) is Overdue.WRITE:
            log.info("%r aborted: it does not read", self)
            self._transport.abort()
        elif self._closing:
            is_lingering = not buffered and not self._transport.is_closing()
            if is_lingering and waits.look_at_linger(now) is Overdue.LINGER:
                self._transport.close()  # once: a transport of TLS that is closed again cannot be aborted
        elif self._waiting or self._input_over or (state := self._reader.state) == STOPPED:
            return
        elif state != IDLE:
            if waits.look_at_request(now, state=state, heard=heard) is Overdue.REQUEST:
                self._refuse(Refusal(408, "too_slow", "the request took too long to arrive"))
        elif self.is_idle:
            if waits.look_at_idle(now) is Overdue.NOTHING:
                self._reader.rest()
                self._rests_until = 0.0 if buffered else waits.idle_until
            elif not has_unread(self._transport):
                # (A request that has arrived but was not read yet has won the race.)
                self._input_over = True
                self._close()

    def _close(self) -> None:
        if self._closing:
            return
        self._closing = True
        transport, peer_is_done = self._transport, self._pipeline.peer_is_done
        # asyncio gives TLS a fixed time to shut down, however much is still to be read.
        is_unread = self._is_tls and transport.get_write_buffer_size() > 0
        if not (self._linger or is_unread) or peer_is_done:
            transport.close()
            return
        # The peer may still be sending. Closing now would reset the connection and could take
        # the answer away before it is read: say that this was all, and drop what comes.
        if transport.can_write_eof():
            transport.write_eof()
        transport.resume_reading()

    def _discard(self, count: int) -> None:
        self._linger = True
        self._discarded_bytes += count
        if self._discarded_bytes > self._house.limits.linger_bytes:
            if self._closing:
                self._transport.abort()
            else:
                self._transport.pause_reading()
