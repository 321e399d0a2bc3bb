"""What two replicas say on a link: frames, any number of them in one message. Pure.

    KIND:1 NUMBER:8 VALUE:4 LENGTH:4 PAYLOAD

    both        HELLO                         the first word: without one nobody waits long
    who asks    HEAD    of a head             the head of requests to come, as HTTP has it
                CALL    of a call, head       one request; its body
                CREDIT  of a call, bytes      so many more of its answer may come
                CANCEL  of a call             nobody wants its answer
    who answers ANSWER  of a call, parts      head (but for its last line) and body, as HTTP has them
                BEGIN   of a call, parts      the head of an answer whose body comes piece by piece
                PIECE   of a call             some of that body, as HTTP has it
                END     of a call             it was the last
                CUT     of a call             no more of the answer comes, and it is not whole
                GOODBYE of the last call      none after it was looked at; the link ends with those before

- Calls and heads are numbered upwards, each from 1. Of heads the last `HEADS_KEPT` can be named.
- An answer is ANSWER, or BEGIN, any number of PIECE, and END; CUT may stand for all that is left.
- Of what follows a BEGIN, `WINDOW_BYTES` may be under way; CREDIT makes room for more.
"""

import struct
from collections.abc import Callable
from enum import IntEnum

from mooring.errors import RemoteProtocolError

__all__ = [
    "HEADS_KEPT",
    "HEAD_NAMES",
    "MAX_BODY_BYTES",
    "MAX_HEAD_BYTES",
    "MAX_MESSAGE_BYTES",
    "PIECE_BYTES",
    "SUBPROTOCOL",
    "WINDOW_BYTES",
    "Batch",
    "Frame",
    "Kind",
    "parts",
    "parts_of",
    "read_frames",
]

SUBPROTOCOL = "mooring.replica.1"
MAX_HEAD_BYTES = 4 * 1024
"""Of a head that is sent ahead: many are kept, for as long as the link lives. A listener remembers none that
is longer either."""
MAX_BODY_BYTES = 64 * 1024
"""Of a call on a link. A longer one would let all others wait behind it: it has a connection of its own."""
PIECE_BYTES = 64 * 1024
"""Of an answer, at once."""
WINDOW_BYTES = 2 * PIECE_BYTES
HEADS_KEPT = 256
"""Some 2.5 KB each, on as many links as there are replicas. In a large fleet nearly every call has a new one
anyway: its client asks less often than seals change."""
HEAD_NAMES = 1 << 32
"""A call names its head by the number of that, less as many times this as can be."""
BATCH_BYTES = 64 * 1024
"""A message is sent when it is this long, or when two turns of the loop are over (`Batch`)."""
MAX_MESSAGE_BYTES = 1024 * 1024

_FIELDS = struct.Struct("!BQII")
_pack, _unpack_from, FIELDS_BYTES = _FIELDS.pack, _FIELDS.unpack_from, _FIELDS.size
HEAD_BITS = 20


class Kind(IntEnum):
    """What a frame says."""

    HELLO = 1
    HEAD = 2
    CALL = 3
    CREDIT = 4
    CANCEL = 5
    ANSWER = 6
    BEGIN = 7
    PIECE = 8
    END = 9
    CUT = 10
    GOODBYE = 11


Frame = tuple[int, int, int, bytes]
"""Kind, number, value, payload."""


def parts(status: int, head_bytes: int) -> int:
    """The value of an answer: its status, and how much of it is its head."""
    if not 0 <= head_bytes < 1 << HEAD_BITS:
        raise ValueError("the head of the answer is too long")
    return status << HEAD_BITS | head_bytes


def parts_of(value: int) -> tuple[int, int]:
    """See `parts`."""
    return value >> HEAD_BITS, value & ((1 << HEAD_BITS) - 1)


def read_frames(message: bytes) -> list[Frame]:
    """The frames of a message. Raises RemoteProtocolError."""
    found: list[Frame] = []
    at, end = 0, len(message)
    while at < end:
        start = at + FIELDS_BYTES
        if start > end:
            raise RemoteProtocolError("a frame is cut short", code="bad_link")
        kind, number, value, length = _unpack_from(message, at)
        at = start + length
        if at > end:
            raise RemoteProtocolError("a frame is longer than its message", code="bad_link")
        found.append((kind, number, value, message[start:at]))
    return found


class Batch:
    """Frames on their way into one message: `later` is asked to call `flush` soon, `send` gets it then."""

    __slots__ = ("_bytes", "_is_due", "_later", "_parts", "_send")

    def __init__(self, send: Callable[[bytes], None], later: Callable[[Callable[[], None]], object]) -> None:
        self._send = send
        self._later = later
        self._parts: list[bytes] = []
        self._bytes = 0
        self._is_due = False

    def put(self, kind: Kind, number: int, value: int = 0, payload: bytes = b"") -> None:
        """One more frame."""
        length = len(payload)
        if self._bytes + length > BATCH_BYTES:
            self._send_all()
        self._parts.append(_pack(kind, number, value, length))
        if length:
            self._parts.append(payload)
        self._bytes += length + FIELDS_BYTES
        if not self._is_due:
            self._is_due = True
            self._later(self._wait)

    def _wait(self) -> None:
        # Not yet: what has arrived meanwhile is read before the next turn, and shares the message. With few
        # calls at once that makes them dearer by one look at the sockets, with many cheaper by a tenth.
        self._later(self.flush)

    def flush(self) -> None:
        """What was said in this turn and the one before goes out."""
        self._is_due = False
        self._send_all()

    def _send_all(self) -> None:
        if self._parts:
            message = b"".join(self._parts)
            self._parts.clear()
            self._bytes = 0
            self._send(message)
