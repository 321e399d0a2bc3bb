"""Heads that were seen before. A client sends the same one with every call, but for Content-Length.

What a head means depends on its bytes alone, so one that was parsed and found good need not be
parsed again. That takes a third off the instructions that a call costs (`docs/adr/0009-known-heads.md`).

- Only whole requests that arrived in one piece are found here: a head known byte by byte, the
  number in its one Content-Length field apart, and behind it exactly so many bytes of body.
- A head is remembered after the parser has read it, and only if nothing but its bytes and the
  length of the body decided how: HTTP/1.1, kept alive, no upgrade, no expectation.
- A head that is shared has the Content-Length of the request it was first seen in: how long a
  body is says the body.
- What each layer concludes from a head it may note on it (`Head.notes`), and not conclude again.
- A connection looks first whether it is the head it saw last: nearly always it is.
- Bounded in number and size; the oldest gives way.
"""

from mooring.wire.http import Head

__all__ = ["KnownHead", "KnownHeads"]

MAX_HEADS = 2048
"""Each takes about 1.5 KiB, and those of sessions that have ended stay until they are the oldest."""
MAX_HEAD_BYTES = 4096
MAX_LENGTH_DIGITS = 9
END = b"\r\n\r\n"
LENGTH_FIELDS = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
"""As clients write it; a head with another spelling is parsed every time."""

Key = tuple[bytes, bytes]
"""A head before and after the number in Content-Length."""


class KnownHead:
    """One of them."""

    __slots__ = ("_after", "_before", "head")

    def __init__(self, key: Key, head: Head) -> None:
        self._before, self._after = key
        self.head = head

    def body_of(self, data: bytes) -> bytes | None:
        """The body, if `data` is exactly one request with this head."""
        if not data.startswith(self._before):
            return None
        start = len(self._before)
        stop = data.find(b"\r", start, start + MAX_LENGTH_DIGITS + 1)
        begin = stop + len(self._after)
        if not data.startswith(self._after, stop) or data[start:stop] != b"%d" % (len(data) - begin):
            return None
        return data[begin:]


class KnownHeads:
    """The memory of one listener."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[Key, KnownHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, data: bytes) -> KnownHead | None:
        """The one with which `data` begins, if it is known."""
        key = _find_key(data)
        return None if key is None else self._heads.get(key)

    def remember(self, data: bytes, head: Head, body: bytes) -> None:
        """The parser made `head` and `body` of `data`, and of nothing else."""
        key = _find_key(data)
        if key is None or len(data) - len(body) > MAX_HEAD_BYTES:
            return
        known = KnownHead(key, head)
        # Where the parser saw the end of the head must be where we look for it.
        if known.body_of(data) == body:
            if len(self._heads) >= MAX_HEADS:
                del self._heads[next(iter(self._heads))]
            self._heads[key] = known


def _find_key(data: bytes) -> Key | None:
    at = data.find(LENGTH_FIELDS[0])
    if at < 0:
        at = data.find(LENGTH_FIELDS[1])
        if at < 0:
            return None
    start = at + len(LENGTH_FIELDS[0])
    stop = data.find(b"\r", start, start + MAX_LENGTH_DIGITS + 1)
    end = data.find(END)  # of the first head: what stands behind it is a body, or another request
    return (data[:start], data[stop : end + len(END)]) if at < stop <= end else None
