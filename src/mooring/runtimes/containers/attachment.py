"""The connection to a container's stdin, stdout and stderr: one socket for all three.

Invariants:
- Lines are written in order; `position` counts every byte given to `send_line`, written or not.
- `consumed` never says less than the container may have read: what was given to the transport counts as read,
  for what an engine has taken it may have passed on.
- stderr is read though stdout is not to be: what comes of stdout meanwhile is held, up to HELD_BYTES; only
  then nothing is read any more, and the container has to wait.
- `on_end` is called once, from the loop, after all that was heard.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from mooring.errors import RemoteProtocolError
from mooring.runtimes.containers.exchange import Upgraded
from mooring.runtimes.containers.frames import FrameSplitter, Stream
from mooring.runtimes.output import Receiver, call
from mooring.runtimes.text import TextLines
from mooring.wire.budget import Budget
from mooring.wire.lines import LineDecoder, LongLine
from mooring.wire.pieces import Pieces, keep_piece

__all__ = ["Attachment"]

log = logging.getLogger("mooring.containers")

HIGH_WATER_BYTES = 256 * 1024
"""So much may wait for the container to read it before it counts as not writable."""
HELD_BYTES = 64 * 1024
"""Of stdout that nobody wants to hear now: as much as a pipe holds."""
_TRANSPORT_BYTES = 64 * 1024
_LOOK_AGAIN_S = 0.1
"""Until what may not be written is looked at again."""


class Attachment(asyncio.Protocol):
    """See the module."""

    def __init__(
        self,
        *,
        max_line_bytes: int,
        unfinished: Budget,
        on_text: Callable[[str], None],
        on_writable: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self.receiver: Receiver | None = None
        self.writable = True
        self._on_text = on_text
        self._on_writable = on_writable
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_over = False
        # To it
        self._queue: list[bytes] = []
        self._position = 0
        self._given = 0
        self._scheduled = False
        self._blocked = False
        self._closing = False
        self._held = False
        self.may_write: Callable[[], bool] | None = None
        """May what is queued be written now? Otherwise it waits, and goes nowhere once that is closed."""
        # From it
        self._splitter = FrameSplitter()
        self._decoder = LineDecoder(max_line_bytes, unfinished)
        self._text = TextLines()
        self._kept: Pieces = []
        self._kept_bytes = 0
        self._paused = False
        self._is_reading = False
        self._is_ending = False

    def connect(self, upgraded: Upgraded) -> None:
        """Take the connection; it is ours from now on."""
        self._take(upgraded.transport)
        upgraded.transport.set_protocol(self)
        if upgraded.rest:
            self.data_received(upgraded.rest)
        upgraded.transport.resume_reading()

    @property
    def closed(self) -> bool:
        """Nothing comes any more, and the descriptor is given back."""
        return self._is_over

    # To it

    @property
    def consumed(self) -> int:
        """Up to which position it has read, at most."""
        return self._given

    def send_line(self, line: bytes) -> int:
        """Queue a line; returns the position where it begins. It goes nowhere once the input is closed."""
        begins = self._position
        self._position += len(line) + 1
        if self._closing or self._is_over:
            return begins
        self._queue += (line, b"\n")
        if not self._scheduled and not self._blocked:
            # At the end of the loop's turn: what comes in one turn goes out in one write.
            self._scheduled = True
            self._loop.call_soon(self._flush)
        if self._position - self._given > HIGH_WATER_BYTES:
            self.writable = False
        return begins

    def close_input(self) -> None:
        """Send what is queued, then the end of the input."""
        if not self._closing:
            self._closing = True
            self.writable = False
            self._flush()

    def abort(self) -> None:
        """Give the connection back, whatever is queued; that is the end of the input, too."""
        self._closing = True
        self.writable = False
        self._queue.clear()
        if self._transport is not None:
            self._transport.abort()
        elif not self._is_over:
            self._is_over = True
            self._loop.call_soon(self._on_end)

    def _flush(self) -> None:
        self._scheduled = False
        transport = self._transport
        if transport is None or transport.is_closing() or self._held or self._blocked:
            return
        if self._queue and self.may_write is not None and not self.may_write():
            if not self._closing:
                self._scheduled = True
                self._loop.call_later(_LOOK_AGAIN_S, self._flush)
                return
            self._queue.clear()
        if self._queue:
            piece = b"".join(self._queue) if len(self._queue) > 1 else self._queue[0]
            self._queue.clear()
            self._given += len(piece)
            transport.write(piece)
        if self._closing and transport.can_write_eof():
            transport.write_eof()
        else:
            self._relax()

    def _relax(self) -> None:
        if self.writable or self._held or self._closing or self._blocked or self._is_over:
            return
        self.writable = True
        self._on_writable()

    # From it

    def attach(self, receiver: Receiver) -> None:
        """From now on `receiver` hears it."""
        self.receiver = receiver
        self._turn()

    def pause(self) -> None:
        """Hold back what comes; lines that were read already still come."""
        self._paused = True
        self._turn()

    def resume(self) -> None:
        """Hand on what was held, and read on."""
        self._paused = False
        self._turn()

    def finish(self) -> None:
        """Hand over what there is, an unterminated line included; what comes later is discarded."""
        self._is_ending = True
        self._deliver_kept()
        if line := self._decoder.close():
            self._deliver(line)
        if (text := self._text.close()) is not None:
            call(self._on_text, text)

    def read_to_end(self) -> None:
        """No more pauses: the container has ended, and what it left is not much."""
        self._paused = False
        self._held = False
        self._turn()

    # Being passed on

    @property
    def descriptor(self) -> int | None:
        """If nothing is on its way to it and more can be."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._closing or self._queue:
            return None
        if transport.get_write_buffer_size():
            return None
        return int(transport.get_extra_info("socket").fileno())

    @property
    def heard(self) -> tuple[bytes, bytes, bytes] | None:
        """What another needs to go on reading: of frames, of stdout, of stderr. None: not all is kept."""
        unfinished = self._decoder.unfinished
        if unfinished is None:
            return None
        return self._splitter.state, unfinished + b"".join(self._kept), self._text.unfinished

    def begin_with(self, frames: bytes, stdout: bytes, stderr: bytes) -> None:
        """Another has read so far."""
        self._splitter = FrameSplitter(frames)
        if stdout:
            self._kept, self._kept_bytes = [stdout], len(stdout)
        self._text.feed(stderr)

    def arrive(self, transport: asyncio.Transport) -> None:
        """The connection that another had: it reads by itself from now on."""
        self._take(transport)
        self._flush()

    def hold(self) -> None:
        """Neither read nor write, until `go_on`."""
        self._held = True
        self.writable = False
        self._turn()

    def go_on(self) -> None:
        """After `hold`."""
        self._held = False
        self._turn()
        self._flush()
        self._relax()

    def let_go(self) -> None:
        """Another goes on with it: nothing is heard of it here any more."""
        self.receiver = None
        self._on_text = lambda text: None
        self._is_ending = True
        self._decoder.close()
        self.abort()

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Only of one that another had; see `arrive`."""

    def data_received(self, data: bytes) -> None:
        """What it says, of both streams."""
        try:
            pieces = self._splitter.feed(data)
        except RemoteProtocolError as error:
            log.error("%s", error.message, extra={"event": error.code})
            self.abort()
            return
        for stream, piece in pieces:
            if stream is Stream.STDOUT:
                self._hear(piece)
            elif stream is Stream.STDERR:
                for text in self._text.feed(piece):
                    call(self._on_text, text)

    def pause_writing(self) -> None:
        """The engine does not read."""
        self._blocked = True

    def resume_writing(self) -> None:
        """It does."""
        self._blocked = False
        self._flush()

    def eof_received(self) -> bool:
        """It says no more; then nothing can be said to it either."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._transport = None
        self._is_over = True
        self._closing = True
        self.writable = False
        self._on_end()

    def _take(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_reading = True
        transport.set_write_buffer_limits(high=_TRANSPORT_BYTES)

    def _hear(self, piece: bytes) -> None:
        if self._is_ending:
            return
        if self._is_to_be_heard and not self._kept:
            for line in self._decoder.feed(piece):
                self._deliver(line)
            return
        keep_piece(self._kept, piece)
        self._kept_bytes += len(piece)
        self._turn()

    @property
    def _is_to_be_heard(self) -> bool:
        return self.receiver is not None and not self._paused and not self._held

    def _turn(self) -> None:
        """Hand on what is held, read, or leave it unread, as it should be now."""
        if self._is_to_be_heard:
            self._deliver_kept()
        wants = not self._held and self._kept_bytes < HELD_BYTES
        transport = self._transport
        if wants == self._is_reading or transport is None or transport.is_closing():
            return
        self._is_reading = wants
        if wants:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _deliver_kept(self) -> None:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for line in self._decoder.feed(b"".join(kept)) if kept else ():
            self._deliver(line)

    def _deliver(self, line: bytes | LongLine) -> None:
        if self.receiver is None:
            return
        if type(line) is bytes:
            call(self.receiver.on_line, line)
        else:
            call(self.receiver.on_long_line, cast("LongLine", line))
