"""Heads that were seen before. A client sends the same one with every call, but for Content-Length.

What a head means depends on its bytes alone, so one that was parsed and found good need not be
parsed again. That takes two thirds off the cost of reading a request (`docs/performance.md`).

- Only whole requests that arrived in one piece are found here: a head known byte by byte, the
  number in its one Content-Length field apart, and behind it exactly so many bytes of body.
- A head is remembered after the parser has read it, and only if nothing but its bytes and the
  length of the body decided how: HTTP/1.1, kept alive, no upgrade, no expectation.
- A head that is shared has the Content-Length of the request it was first seen in: how long a
  body is says the body.
- What each layer concludes from a head it may note on it (`Head.notes`), and not conclude again.
- Bounded in number and size; the oldest gives way.
"""

from mooring.wire.http import Head

__all__ = ["KnownHeads"]

MAX_HEADS = 4096
MAX_HEAD_BYTES = 4096
MAX_LENGTH_DIGITS = 9
END = b"\r\n\r\n"
LENGTH_FIELDS = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
"""As clients write it; a head with another spelling is parsed every time."""

Key = tuple[bytes, bytes]


class KnownHeads:
    """The memory of one listener."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[Key, Head] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Head and body, if `data` is exactly one request whose head is known."""
        parts = _take_apart(data)
        if parts is None:
            return None
        key, body = parts
        head = self._heads.get(key)
        return None if head is None else (head, body)

    def remember(self, data: bytes, head: Head, body: bytes) -> None:
        """The parser made `head` and `body` of `data`, and of nothing else."""
        parts = _take_apart(data)
        # Where the parser saw the end of the head must be where we look for it.
        if parts is None or parts[1] != body or len(data) - len(body) > MAX_HEAD_BYTES:
            return
        if len(self._heads) >= MAX_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[parts[0]] = head


def _take_apart(data: bytes) -> tuple[Key, bytes] | None:
    """The head before and after the number in Content-Length, and the body, if that has this length."""
    at = data.find(LENGTH_FIELDS[0])
    if at < 0:
        at = data.find(LENGTH_FIELDS[1])
        if at < 0:
            return None
    start = at + len(LENGTH_FIELDS[0])
    stop = data.find(b"\r", start, start + MAX_LENGTH_DIGITS + 1)
    end = data.find(END)
    digits = data[start:stop]
    if not at < stop <= end or not digits.isdigit() or len(data) != end + len(END) + int(digits):
        return None
    return (data[:start], data[stop:end]), data[end + len(END) :]
