"""What an engine sends of a container's output: pieces of stdout and stderr in one stream.

Before each piece stands a head of eight bytes: which stream, three zeros, and the length of the piece as a
big-endian number. A piece is handed on as it comes, never gathered: whatever length a head announces, no more
than an unfinished head is kept here.
"""

import struct
from enum import IntEnum

from mooring.errors import RemoteProtocolError

__all__ = ["FrameSplitter", "Stream"]

HEAD_BYTES = 8
_HEAD = struct.Struct(">BxxxL")


class Stream(IntEnum):
    """Whose bytes they are. An engine sends 0 for what it echoes of stdin, which it does not do here."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2


_STREAMS = {int(stream): stream for stream in Stream}


class FrameSplitter:
    """Feed it what was read; it returns what belongs to which stream, in order."""

    __slots__ = ("_head", "_left", "_stream")

    def __init__(self, state: bytes = b"") -> None:
        """`state`: that of another, which has read so far."""
        self._head = b""
        self._left = 0
        self._stream = Stream.STDOUT
        if state:
            stream, self._left = _HEAD.unpack(state[:HEAD_BYTES])
            self._stream, self._head = _STREAMS[stream], state[HEAD_BYTES:]

    @property
    def state(self) -> bytes:
        """Where it has come to: what is left of a piece, and what has come of a head."""
        return _HEAD.pack(self._stream, self._left) + self._head

    def feed(self, data: bytes) -> list[tuple[Stream, bytes]]:
        """Raises RemoteProtocolError at what is no head; nothing can be read after that."""
        found: list[tuple[Stream, bytes]] = []
        at = 0
        while at < len(data):
            if not self._left:
                at = self._read_head(data, at)
                continue
            piece = data[at : at + self._left]
            self._left -= len(piece)
            at += len(piece)
            found.append((self._stream, piece))
        return found

    def _read_head(self, data: bytes, at: int) -> int:
        end = at + HEAD_BYTES - len(self._head)
        self._head += data[at:end]
        if len(self._head) < HEAD_BYTES:
            return len(data)
        stream, self._left = _HEAD.unpack(self._head)
        if stream not in _STREAMS or any(self._head[1:4]):
            raise RemoteProtocolError(
                "the container engine sends output without saying whose it is",
                code="bad_frame",
                hint="is the container without a terminal, and the engine one of Docker or Podman?",
            )
        self._stream, self._head = _STREAMS[stream], b""
        return end
