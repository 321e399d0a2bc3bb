"""Events of one stream, kept so that a client that lost the connection can go on where it was.

- Event ids are `<stream>-<n>`, unique within a session; `n` counts from 1, 0 is the start.
- The log forgets its oldest events when told to; a client that asks for what has been
  forgotten is told so (`has_gap_after`), never served a stream with a hole.
"""

from collections import deque
from itertools import islice

__all__ = ["EventLog", "parse_event_id"]


class EventLog:
    """The messages of one stream, in order, each with its number."""

    __slots__ = ("_entries", "last", "size_bytes", "stream")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.last = 0
        self.size_bytes = 0
        self._entries: deque[bytes] = deque()

    @property
    def oldest(self) -> int:
        """Number of the oldest message still here; one more than the last if there is none."""
        return self.last + 1 - len(self._entries)

    @classmethod
    def resumed(cls, stream: str, last: int, entries: list[bytes]) -> "EventLog":
        """One that another had: the n-th message was the last so far, and these are kept."""
        log = cls(stream)
        log.last, log.size_bytes = last, sum(map(len, entries))
        log._entries.extend(entries)
        return log

    def append(self, data: bytes) -> int:
        """Record a message; returns its number."""
        self.last += 1
        self._entries.append(data)
        self.size_bytes += len(data)
        return self.last

    def id_of(self, n: int) -> bytes:
        """The id of the n-th event."""
        return f"{self.stream}-{n}".encode()

    def after(self, n: int) -> list[bytes]:
        """The messages that followed the n-th, as far as they are still here."""
        return list(islice(self._entries, max(0, n + 1 - self.oldest), None))

    def has_gap_after(self, n: int) -> bool:
        """Has a message that followed the n-th been forgotten?"""
        return n + 1 < self.oldest

    def forget_oldest(self) -> int:
        """Give up the oldest message; returns how many bytes that freed (0: there is none)."""
        if not self._entries:
            return 0
        data = self._entries.popleft()
        self.size_bytes -= len(data)
        return len(data)


def parse_event_id(value: str) -> tuple[str, int] | None:
    """(stream, n) of one of our event ids; None if it is not one."""
    stream, dash, n = value.rpartition("-")
    if not dash or not stream.isalnum() or not n.isascii() or not n.isdigit() or len(n) > 18:
        return None
    return stream, int(n)
