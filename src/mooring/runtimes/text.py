"""What a program says on stderr, as lines of text for people.

A line ends at LF and is otherwise left as it is: blank lines and a last one without its end are
lines too. Bytes that are no UTF-8 are replaced. Of a line over the limit only the head is kept,
with a mark that says how much is missing; the rest is dropped as it comes, not buffered.
"""

import codecs

from mooring.wire.pieces import Pieces, keep_piece

__all__ = ["MAX_TEXT_BYTES", "TextLines"]

MAX_TEXT_BYTES = 64 * 1024


class TextLines:
    """Feed it what was read; it returns the lines that are now complete."""

    __slots__ = ("_kept", "_length", "_limit", "_parts")

    def __init__(self, limit_bytes: int = MAX_TEXT_BYTES) -> None:
        self._limit = limit_bytes
        self._parts: Pieces = []
        self._kept = 0
        self._length = 0

    def feed(self, data: bytes) -> list[str]:
        """The lines completed by `data`."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            if self._length or len(end) > self._limit:
                self._keep(end)
                lines.append(self._finish())
            else:
                lines.append(end.decode("utf-8", "replace"))
        if rest:
            self._keep(rest)
        return lines

    @property
    def unfinished(self) -> bytes:
        """What is kept of a line that has not ended."""
        return b"".join(self._parts)

    def close(self) -> str | None:
        """The end of the stream: a last line without its line end, if there is one."""
        return self._finish() if self._length else None

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        room = self._limit - self._kept
        if room > 0:
            keep_piece(self._parts, piece[:room])
            self._kept += min(len(piece), room)

    def _finish(self) -> str:
        head, missing = b"".join(self._parts), self._length - self._kept
        self._parts.clear()
        self._kept = self._length = 0
        if not missing:
            return head.decode("utf-8", "replace")
        # Not final: a character that the cut went through is dropped, not replaced.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
        return f"{text}… [{missing} more bytes]"
