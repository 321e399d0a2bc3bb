"""Our own stdin and stdout as lines, whatever they are: pipes, sockets, files, a terminal.

Invariants:
- stdin is read by nobody else, and only when there is something: it need not be made non-blocking,
  which would reach beyond us where it is shared.
- A client that does not read makes us hold what is under way and no more: `turn` gives no room above
  the high-water mark, and whoever reads stdin stops then (`on_pressure`).
- Neither descriptor is closed here: they belong to the process. What was changed is put back.
"""

import asyncio
import logging
import os
import select
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mooring.wire.lines import LineDecoder, LongLine

__all__ = ["LineInput", "LineOutput"]

log = logging.getLogger("mooring.host")

READ_BYTES = 256 * 1024
MAX_UNREAD_BYTES = 1024 * 1024
"""What may wait for a client that does not read our stdout, beside one message of any size."""
_LARGE_BYTES = 64 * 1024


class LineInput:
    """Calls `on_line` for each line, and `on_end` once."""

    def __init__(
        self,
        descriptor: int,
        limit_bytes: int,
        on_line: Callable[[bytes | LongLine], None],
        on_end: Callable[[], None],
    ) -> None:
        self._descriptor = descriptor
        self._decoder = LineDecoder(limit_bytes)
        self._on_line = on_line
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._watched = False
        self._always_ready = False
        self._scheduled = False
        self._paused = True
        self._ended = False

    def resume(self) -> None:
        """Read on."""
        if self._paused and not self._ended:
            self._paused = False
            self._watch()

    def pause(self) -> None:
        """Leave what comes where it is."""
        self._paused = True
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Read no more."""
        self._ended = True
        self.pause()

    def _watch(self) -> None:
        if not self._always_ready:
            try:
                self._loop.add_reader(self._descriptor, self._read)
                self._watched = True
                return
            except OSError:  # a file, or /dev/null: the kernel does not watch what never waits
                self._always_ready = True
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._scheduled = False
        if self._paused or self._ended:
            return
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a terminal that is gone, say
            data = b""
        lines = self._decoder.feed(data)
        if not data:
            self.close()
            last = self._decoder.close()
            lines = [last] if last else []
        for line in lines:
            try:
                self._on_line(line)
            except Exception:  # one line that we cannot cope with must not cost the others
                log.exception("a line could not be taken")
        if not data:
            self._on_end()
        elif self._always_ready and not self._paused:
            self._watch()


class LineOutput:
    """Takes lines; `on_lost` is called once if nobody can read them any more."""

    def __init__(self, descriptor: int, on_lost: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_lost = on_lost
        self.on_pressure: Callable[[bool], None] = lambda _much: None
        """Called with True when too much waits, with False when there is room again."""
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes | memoryview] = deque()
        self._waiting_bytes = 0
        self._scheduled = False
        self._watched = False
        self._lost = False
        self._turn = asyncio.Lock()
        self._relaxed = asyncio.Event()
        self._relaxed.set()
        self._empty = asyncio.Event()
        self._empty.set()
        mode = os.fstat(descriptor).st_mode
        self._can_wait = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._was_blocking = os.get_blocking(descriptor)
        if self._can_wait:
            os.set_blocking(descriptor, False)
            # A write end is never readable: it only shows that nobody reads the other one any more.
            self._loop.add_reader(descriptor, self._on_news)

    def write(self, line: bytes) -> None:
        """Queue a line; it goes nowhere once nobody reads."""
        if self._lost:
            return
        self._queue += (line, b"\n")
        self._waiting_bytes += len(line) + 1
        self._empty.clear()
        if not self._scheduled and not self._watched:
            # At the end of the loop's turn: what comes in one turn goes out in one write.
            self._scheduled = True
            self._loop.call_soon(self._flush)
        self._weigh()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for room, and for those who came before."""
        async with self._turn:
            await self._relaxed.wait()
            yield

    async def wait_empty(self) -> None:
        """Until everything was taken, or nobody takes it."""
        await self._empty.wait()

    def close(self) -> None:
        """Write no more, and leave the descriptor as it was."""
        self._lose(told=True)
        if self._can_wait:
            os.set_blocking(self._descriptor, self._was_blocking)

    def _flush(self) -> None:
        self._scheduled = False
        while self._queue:
            piece = self._next_piece()
            try:
                written = os.write(self._descriptor, piece)
            except BlockingIOError:
                written = 0
            except OSError:
                self._lose()
                return
            self._waiting_bytes -= written
            if written < len(piece):
                self._queue.appendleft(memoryview(piece)[written:])
                self._watch(wanted=True)
                self._weigh()
                return
        self._watch(wanted=False)
        self._empty.set()
        self._weigh()

    def _next_piece(self) -> bytes | memoryview:
        """What is queued, as one; or a large line alone, which need not be copied."""
        if len(self._queue) == 1 or len(self._queue[0]) >= _LARGE_BYTES:
            return self._queue.popleft()
        pieces: list[bytes | memoryview] = []
        while self._queue and len(self._queue[0]) < _LARGE_BYTES:
            pieces.append(self._queue.popleft())
        return b"".join(pieces)

    def _watch(self, *, wanted: bool) -> None:
        if wanted == self._watched:
            return
        self._watched = wanted
        if wanted:
            self._loop.add_writer(self._descriptor, self._flush)
        else:
            self._loop.remove_writer(self._descriptor)

    def _weigh(self) -> None:
        is_much = self._waiting_bytes > MAX_UNREAD_BYTES
        if is_much == self._relaxed.is_set():
            (self._relaxed.clear if is_much else self._relaxed.set)()
            self.on_pressure(is_much)

    def _on_news(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            self._lose()
        else:  # a socket into which the client writes: nothing that we would read
            self._loop.remove_reader(self._descriptor)

    def _lose(self, *, told: bool = False) -> None:
        if self._lost:
            return
        self._lost = True
        self._queue.clear()
        self._waiting_bytes = 0
        if self._can_wait:
            self._loop.remove_reader(self._descriptor)
        self._watch(wanted=False)
        self._empty.set()
        self._weigh()
        if not told:
            self._on_lost()
