"""Cutting a byte stream into lines, in linear time and bounded memory.

- A line ends at LF; one CR before it belongs to the line end. Empty lines are skipped:
  they carry no message.
- No byte is looked at twice: pieces of an unfinished line are kept in a list and joined
  once, when its end arrives (a growing buffer searched from its start is what makes the
  usual implementations quadratic).
- A line over the limit is never buffered whole. Its head and tail are kept, which is
  where the id of a JSON-RPC message stands, so that the one call it belongs to can fail. The
  same becomes of a line for which there is no room beside the unfinished ones of others.
"""

from typing import NamedTuple

from mooring.wire.budget import Budget
from mooring.wire.pieces import Pieces, keep_piece

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "LineDecoder", "LongLine"]

HEAD_BYTES = 4096
TAIL_BYTES = 1024


class LongLine(NamedTuple):
    """What is left of a line over the limit, or of one for which there was no room."""

    head: bytes
    tail: bytes
    length: int

    @classmethod
    def of(cls, line: bytes) -> "LongLine":
        """The ends of a line that is there whole."""
        return cls(line[:HEAD_BYTES], line[-TAIL_BYTES:], len(line))


class LineDecoder:
    """Feed it what was read; it returns the lines that are now complete."""

    __slots__ = ("_budget", "_head", "_limit", "_overflow", "_parts", "_pending", "_tail")

    def __init__(self, limit_bytes: int, budget: Budget | None = None) -> None:
        self._limit = limit_bytes
        self._budget = budget or Budget(limit_bytes + 1)
        self._parts: Pieces = []
        self._pending = 0
        self._overflow = False
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """The lines completed by `data`."""
        lines: list[bytes | LongLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._pending:
                self._keep(data[start:end])
                line = self._finish(b"\r")
            else:
                line = data[start:end].removesuffix(b"\r")
                if len(line) > self._limit:
                    line = LongLine.of(line)
            if line:
                lines.append(line)
            start = end + 1
        if start < len(data):
            self._keep(data[start:] if start else data)
        return lines

    @property
    def unfinished(self) -> bytes | None:
        """What has come of a line that has not ended; None: it is too long, and not all of it is kept."""
        return None if self._overflow else b"".join(self._parts)

    def close(self) -> bytes | LongLine | None:
        """The end of the stream: a last line without its line end, if there is one."""
        return self._finish(b"") if self._pending else None

    def _keep(self, piece: bytes) -> None:
        self._pending += len(piece)
        # One byte more than wanted: it may turn out to be the CR of the line end.
        if self._overflow:
            self._head += piece[: HEAD_BYTES - len(self._head)]
            self._tail = (self._tail + piece)[-TAIL_BYTES - 1 :]
            return
        keep_piece(self._parts, piece)
        budget = self._budget
        budget.taken_bytes += len(piece)
        if self._pending > self._limit + 1 or (
            budget.taken_bytes > budget.limit_bytes and self._pending > budget.share_bytes
        ):
            whole = b"".join(self._parts)
            self._parts.clear()
            budget.taken_bytes -= len(whole)
            self._overflow = True
            self._head, self._tail = whole[:HEAD_BYTES], whole[-TAIL_BYTES - 1 :]

    def _finish(self, line_end: bytes) -> bytes | LongLine:
        length, self._pending = self._pending, 0
        if self._overflow:
            tail = self._tail.removesuffix(line_end)
            length -= len(self._tail) - len(tail)
            long = LongLine(self._head[:length], tail[-TAIL_BYTES:], length)
            self._overflow, self._head, self._tail = False, b"", b""
            return long
        self._budget.taken_bytes -= length
        whole = b"".join(self._parts).removesuffix(line_end)
        self._parts.clear()
        return LongLine.of(whole) if len(whole) > self._limit else whole
