"""A log handler whose callers never wait for stderr.

If stderr is a pipe that nobody reads, a plain handler would stop the event loop, and with
it every session, on the next line of log. Here lines are queued and one thread writes them.

Invariants: `_lines` and what is counted with it change only under `_changed`. At most
`limit_bytes` wait; what comes beyond that is dropped and counted, and the count is told as
soon as there is room. The thread writes to the descriptor itself: it may be stuck in there
for ever, and would then hold a lock of `sys.stderr` that the interpreter wants at exit.
"""

import errno
import logging
import os
import select
import threading

__all__ = ["BackgroundHandler"]


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Stderr is a file on a disk that is full: these lines are lost, but others may find room."""
LIMIT_BYTES = 8 * 1024 * 1024
"""Lines that wait for a reader of stderr: some ten thousand."""


class BackgroundHandler(logging.Handler):
    """Writes records to a descriptor from a thread of its own, between `start` and `close`."""

    def __init__(self, descriptor: int, *, limit_bytes: int = LIMIT_BYTES, patience_s: float = 1.0) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._limit_bytes = limit_bytes
        self._patience_s = patience_s
        """How long `close` waits for a reader."""
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._closing = False
        self._thread = threading.Thread(target=self._write_lines, name="log writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line; or count it, if too much waits already."""
        try:
            line = self._encoded(record)
        except Exception:  # as logging.Handler asks of its kind
            self.handleError(record)
            return
        with self._changed:
            if self._waiting_bytes + len(line) > self._limit_bytes:
                self._dropped += 1
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, but not for ever if nobody reads it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(self._patience_s)
        super().close()

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode(errors="backslashreplace") + b"\n"

    def _write_lines(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._dropped or self._closing)
                lines, dropped = self._lines, self._dropped
                self._lines, self._dropped = [], 0
                if not lines and not dropped:
                    return
            if dropped:
                lines.append(self._encoded(_told_of(dropped)))
            try:
                self._write(b"".join(lines))
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    return  # stderr is gone; what follows is dropped when the limit is reached
            with self._changed:
                self._waiting_bytes = sum(map(len, self._lines))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # whoever shares the pipe with us has made it non-blocking
                select.select([], [self._descriptor], [])


def _told_of(dropped: int) -> logging.LogRecord:
    record = logging.LogRecord(
        "mooring.log",
        logging.WARNING,
        __file__,
        0,
        "%d log lines were dropped: stderr was not read fast enough",
        (dropped,),
        None,
    )
    record.event, record.dropped = "log_dropped", dropped
    return record
