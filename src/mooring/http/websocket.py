"""A connection that has become a WebSocket, as `mooring.wire.websocket.WebSocket` describes.

Invariants:
- It took over from a `Connection`, with its transport and the bytes that nobody had read yet, and
  is in the `upgraded` of the house until the transport is closed. It is drained by the app alone.
- Reading is paused exactly while something is `_unfed`, or the peer does not read: pongs and answers
  to a peer that only sends would have no bound. (Not so if the app has said `reads_on`.)
- What arrived and is no message yet counts in the budget of the house. When that is used up, whoever
  holds more than a small message is sent away. (Not so if it is of many.)
- Every wait is bounded, by `sweep`: for the rest of a message, for a sign of life, for the peer to read,
  for its goodbye.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.http.frames import Frames
from mooring.http.house import House, keep_queue_short
from mooring.http.pulse import Beat, Pulse
from mooring.http.reader import BODY, FREE_BODY_BYTES
from mooring.http.waits import Overdue, Waits
from mooring.wire.websocket import INTERNAL_ERROR, POLICY_VIOLATION, TRY_AGAIN_LATER

__all__ = ["WebSocketConnection"]

log = logging.getLogger("mooring.http")

SLICE_BYTES = 32 * 1024
"""How much is taken apart in one turn of the loop: some thousands of the smallest frames."""

NOTHING = memoryview(b"")


class WebSocketConnection(asyncio.Protocol):
    """One peer."""

    def __init__(
        self, house: House, transport: asyncio.Transport, peer: str, unread: bytes, *, is_client: bool = False
    ) -> None:
        self.on_message: Callable[[bytes], None] | None = None
        self.on_closed: Callable[[int, str], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self._house = house
        self._transport = transport
        self._peer = peer
        self._frames = Frames(house.limits.max_body_bytes, is_client=is_client)
        self._waits = Waits(house.limits)
        self._pulse = Pulse(house.limits)
        self._unfed = memoryview(unread)
        self._held_bytes = 0
        self._discarded_bytes = 0
        self._written_bytes = 0
        self._messages = 0
        self._heard = False
        self._is_held = False
        self._is_paused = False
        self._reads_on = False
        self._is_of_many = False
        self._is_leaving = False
        """We have said goodbye: what the peer says now comes too late."""
        self._is_over = False
        """Nothing is sent or heard any more: only the peer's end of the connection is waited for."""
        self._pump_scheduled = False
        self._rests_until = 0.0
        """Idle when it was last looked at: until then only what is heard or sent can change that."""
        self._count()
        # Whoever asked for the upgrade has to say first what is to become of messages.
        transport.pause_reading()
        self._schedule_pump()

    def __repr__(self) -> str:
        return f"<WebSocketConnection of {self._peer}{'' if self._frames.is_open else ' closing'}>"

    # For the app.

    @property
    def writable(self) -> bool:
        """The peer keeps up."""
        # A transport that failed to send knows that the peer has gone a turn before we are told. And behind
        # our own goodbye nothing is sent.
        return not self._is_paused and not self._is_leaving and not self._transport.is_closing()

    def expect_binary(
        self, max_message_bytes: int, *, reads_on: bool = False, is_of_many: bool = False
    ) -> None:
        """Messages are binary, either way."""
        self._frames.expect(max_message_bytes, is_binary=True)
        self._reads_on = reads_on
        self._is_of_many = is_of_many
        keep_queue_short(self._transport)

    @property
    def _waits_for_peer(self) -> bool:
        return self._is_paused and not self._reads_on

    def send(self, message: bytes) -> None:
        """Send one message."""
        self._frames.message(message)
        self._flush()

    def close(self, code: int, reason: str) -> None:
        """Say goodbye; `sweep` waits for the peer's answer."""
        self._is_leaving = True
        self._frames.close(code, reason)
        self._flush()

    def hold(self) -> None:
        """What comes waits, until `go_on`."""
        self._is_held = True
        self._rests_until = 0.0
        self._transport.pause_reading()

    def go_on(self) -> None:
        """After `hold`."""
        self._is_held = False
        self._schedule_pump()

    def _flush(self) -> None:
        self._rests_until = 0.0
        transport = self._transport
        for data in self._frames.output:
            if not transport.is_closing():
                self._written_bytes += len(data)
                transport.write(data)

    # The transport's side.

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer."""
        self._heard = True
        if self._is_over:
            self._discard(len(data))
        elif self._unfed or self._waits_for_peer or self._is_held or len(data) > SLICE_BYTES:
            self._unfed = memoryview(bytes(self._unfed) + data if self._unfed else data)
            self._count()
            self._transport.pause_reading()
            self._schedule_pump()
        else:
            self._feed(data)

    def eof_received(self) -> bool:
        """The peer sends no more. Without a goodbye it is gone: nobody reads what is not sent yet."""
        if not self._is_over:
            self._transport.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed."""
        self._is_over = True
        self._unfed = NOTHING
        self._count()
        self._house.note_fast(self)
        self._house.upgraded.discard(self)
        self._house.on_change()
        self._tell_closed()

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write."""
        self._is_paused = True
        self._house.note_slow(self)
        if not self._reads_on:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._is_paused = False
        self._house.note_fast(self)
        # By way of the loop: a transport may call this from inside a write.
        asyncio.get_running_loop().call_soon(self._tell_writable)
        self._schedule_pump()

    # Messages.

    def _schedule_pump(self) -> None:
        if not self._pump_scheduled:
            self._pump_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Go on with what had to wait, one slice a turn: others want to be heard too."""
        self._pump_scheduled = False
        if self._waits_for_peer or self._is_held or self._is_over:
            return
        piece, self._unfed = self._unfed[:SLICE_BYTES], self._unfed[SLICE_BYTES:]
        if piece:
            self._feed(piece)
        if self._unfed:
            self._schedule_pump()
        elif not self._waits_for_peer and not self._transport.is_closing():
            self._transport.resume_reading()

    def _feed(self, data: bytes | memoryview) -> None:
        frames = self._frames
        messages = frames.feed(data)
        if self._held_bytes or not frames.is_at_rest:
            self._weigh(frames)
        for message in messages:
            if self._is_leaving:
                break
            self._messages += 1
            if self.on_message is not None:
                try:
                    self.on_message(message)
                except Exception:
                    log.exception("a message of %r could not be taken", self)
                    self.close(INTERNAL_ERROR, "a message could not be taken; the log says why")
        if frames.is_over:
            self._end()

    def _weigh(self, frames: Frames) -> None:
        """Of a message that is not whole something is held; or there is something to be said."""
        if self._held_bytes or frames.is_unfinished:
            self._count()
            is_small = self._held_bytes <= FREE_BODY_BYTES or self._is_of_many
            if self._house.budget.is_exceeded and not is_small:
                frames.fail(TRY_AGAIN_LATER, "too much is being sent here at the same time; try again")
        if frames.has_output:
            self._flush()

    def _count(self) -> None:
        """What we hold of messages that are not complete."""
        held_bytes = 0 if self._is_over else len(self._unfed) + self._frames.held_bytes
        self._house.budget.taken_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes

    def _tell_writable(self) -> None:
        if self.on_writable is not None and self.writable and not self._is_over:
            self._call(self.on_writable)

    def _tell_closed(self) -> None:
        callback, self.on_closed = self.on_closed, None
        if callback is not None:
            self._call(callback, *self._frames.ending)

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:
            log.exception("a callback of %r failed", self)

    # Ends.

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not read, so far as we still hold it."""
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Cut it now."""
        self._transport.abort()

    def sweep(self, now: float) -> None:
        """End what has been waited for long enough."""
        if now < self._rests_until and not self._heard:
            return
        self._rests_until = 0.0
        waits, buffered = self._waits, self._transport.get_write_buffer_size()
        heard, self._heard = self._heard, False
        waits.look_at_turns(self._messages)
        if self._is_paused:
            self._house.note_slow(self)  # more may wait there by now
        if waits.look_at_output(now, written=self._written_bytes, buffered=buffered) is Overdue.WRITE:
            log.info("%r aborted: it does not read", self)
            self._transport.abort()
        elif not self._frames.is_open:
            taken = self._written_bytes - buffered
            if waits.look_at_linger(now, taken=taken) is Overdue.LINGER:
                # Closing would wait on: for what is not read, and in TLS for a goodbye of its own.
                self._transport.abort()
        elif self._is_paused or self._is_held or self._unfed:
            self._pulse.look(now, heard=True)
        elif self._frames.is_unfinished:
            if waits.look_at_request(now, state=BODY, heard=heard) is Overdue.REQUEST:
                self._frames.fail(POLICY_VIOLATION, "a message took too long to arrive")
                self._flush()
                self._end()
        elif not self._messages and waits.look_at_idle(now) is Overdue.USE:
            self.close(POLICY_VIOLATION, "no message came")
        else:
            self._check_pulse(now, heard=heard)

    def _check_pulse(self, now: float, *, heard: bool) -> None:
        beat = self._pulse.look(now, heard=heard)
        if beat is Beat.NOTHING and self._messages and not self._transport.get_write_buffer_size():
            self._rests_until = self._pulse.next_at
        elif beat is Beat.ASK:
            self._frames.ping()
            self._flush()
        elif beat is Beat.LOST:
            log.info("%r aborted: it gives no sign of life", self)
            self._transport.abort()

    def _end(self) -> None:
        """All is said. The peer may still be sending: a reset could take our goodbye away from it."""
        if self._is_over:
            return
        self._is_over = True
        self._unfed = NOTHING
        self._count()
        self._tell_closed()
        transport = self._transport
        if transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        elif not transport.get_write_buffer_size():
            transport.close()  # TLS has no half-closed connections; its own goodbye waits for the peer's
            return
        transport.resume_reading()

    def _discard(self, count: int) -> None:
        self._discarded_bytes += count
        if self._discarded_bytes > self._house.limits.linger_bytes:
            self._transport.abort()
