"""A child's stdin, written by ourselves so that we know how much of it the child has read.

When a child dies, what it had not read was not executed, and can be given to its successor:
that is the difference between "the call failed" and "nothing happened". A pipe keeps its
unread bytes as long as one end is open, and tells their number (FIONREAD).

Invariants:
- Lines are written in order; `position` counts every byte given to `send_line`, written or not.
- `consumed` never says less than the child may have read: while anybody holds the read end, or
  where the kernel does not tell, everything written counts as read.
- Where somebody else may have the child's work by now, what has waited is written after a look only
  (`may_write`). Whoever gives a line has looked: what is written in that turn of the loop needs no other.
- The descriptor is closed exactly once; `on_lost` is called once, from the loop, after that.
"""

import array
import asyncio
import fcntl
import os
import select
import sys
import termios
from collections.abc import Callable

from mooring.runtimes.pipes import Descriptor

__all__ = ["InputPipe"]

HIGH_WATER_BYTES = 256 * 1024
"""So much may wait for a child to read it before it counts as not writable."""
_LARGE_BYTES = 64 * 1024
"""Lines from this size on are written from where they are; smaller ones are joined to one write."""
_LOOK_AGAIN_S = 0.1
"""Until what may not be written is looked at again."""
_NOTHING = memoryview(b"")


class InputPipe:
    """The write end of a child's stdin."""

    def __init__(self, on_writable: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_writable = on_writable
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._descriptor: Descriptor | None = None
        self._queue: list[bytes] = []
        self._rest = _NOTHING
        self._position = 0
        self._written = 0
        self._consumed = 0
        self._scheduled = False
        self._waiting = False
        self._closing = False
        self._held = False
        self.may_write: Callable[[], bool] | None = None
        """May what has waited be written now? If not it waits, and goes nowhere once the pipe is closed."""
        self.writable = True
        """Less than the high-water mark is waiting."""

    def connect(self, descriptor: Descriptor) -> None:
        """Take the descriptor; it is ours from now on."""
        os.set_blocking(descriptor.fileno(), False)
        # A pipe's write end is never readable: it only shows that nobody reads the other one any more.
        self._loop.add_reader(descriptor.fileno(), self._lose)
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int | None:
        """If nothing is queued and more can be: all that was sent is in the pipe, or read."""
        if self._descriptor is None or self._closing or self._queue or self._rest:
            return None
        return self._descriptor.fileno()

    @property
    def closed(self) -> bool:
        """The descriptor is given back."""
        return self._descriptor is None

    @property
    def consumed(self) -> int:
        """Up to which position the child has read, at most."""
        return self._consumed if self._descriptor is None else self._measure(self._descriptor.fileno())

    def send_line(self, line: bytes) -> int:
        """Queue a line; returns the position where it begins. It goes nowhere once the pipe is closed."""
        begins = self._position
        self._position += len(line) + 1
        if self._closing or self._descriptor is None:
            return begins
        self._queue += (line, b"\n")
        if not self._scheduled and not self._waiting:
            # At the end of the loop's turn: what comes in one turn goes out in one write.
            self._scheduled = True
            self._loop.call_soon(self._flush)
        if self._position - self._written > HIGH_WATER_BYTES:
            self.writable = False
        return begins

    def hold(self) -> None:
        """Not writable, until `go_on`."""
        self._held = True
        self.writable = False

    def go_on(self) -> None:
        """After `hold`."""
        self._held = False
        self._relax()

    def close(self) -> None:
        """Send what is queued, then the end of the input."""
        if not self._closing:
            self._close_to_lines()
            if (not self._queue and not self._rest) or self._is_forbidden():
                self._release()

    def abort(self) -> None:
        """The end of the input now, whatever is queued."""
        self._close_to_lines()
        self._release()

    def _close_to_lines(self) -> None:
        self._closing = True
        self.writable = False

    def _flush(self) -> None:
        self._scheduled = False
        if self._descriptor is None:
            return
        while self._queue or self._rest:
            piece = self._rest or self._next_piece()
            try:
                number = os.write(self._descriptor.fileno(), piece)
            except BlockingIOError:
                self._rest = memoryview(piece)
                self._wait(self._descriptor.fileno())
                return
            except OSError:  # the child closed it, or is gone
                self._lose()
                return
            self._written += number
            self._rest = memoryview(piece)[number:] if number < len(piece) else _NOTHING
        self._wrote_all()

    def _go_on_writing(self) -> None:
        if self._is_forbidden():
            self._put_off()
        else:
            self._flush()

    def _is_forbidden(self) -> bool:
        return self.may_write is not None and not self.may_write()

    def _put_off(self) -> None:
        if self._closing:
            self._release()
            return
        self._stop_waiting()
        self._scheduled = True
        self._loop.call_later(_LOOK_AGAIN_S, self._go_on_writing)

    def _next_piece(self) -> bytes:
        """What is queued, as one; or a large line alone, which need not be copied."""
        if len(self._queue[0]) >= _LARGE_BYTES:
            return self._queue.pop(0)
        piece = b"".join(self._queue)
        self._queue.clear()
        return piece

    def _wait(self, number: int) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(number, self._go_on_writing)
        self._relax()

    def _stop_waiting(self) -> None:
        if self._waiting and self._descriptor is not None:
            self._waiting = False
            self._loop.remove_writer(self._descriptor.fileno())

    def _wrote_all(self) -> None:
        self._stop_waiting()
        if self._closing:
            self._release()
        else:
            self._relax()

    def _relax(self) -> None:
        if self.writable or self._held or self._closing or self._position - self._written > HIGH_WATER_BYTES:
            return
        self.writable = True
        self._on_writable()

    def _lose(self) -> None:
        """Nobody reads it any more."""
        self._close_to_lines()
        self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        self._consumed = self._measure(descriptor.fileno())
        self._queue.clear()
        self._rest = _NOTHING
        self._loop.remove_reader(descriptor.fileno())
        if self._waiting:
            self._loop.remove_writer(descriptor.fileno())
        descriptor.close()
        self._loop.call_soon(self._on_lost)

    def _measure(self, number: int) -> int:
        if sys.platform != "linux":
            return self._written  # what other kernels tell of a pipe's write end is not known to us
        poll = select.poll()
        poll.register(number, 0)
        if not any(event & select.POLLERR for _, event in poll.poll(0)):
            return self._written  # somebody may still be reading
        unread = array.array("i", [0])
        fcntl.ioctl(number, termios.FIONREAD, unread)
        return self._written - unread[0]
