"""What is said on a link: messages of envelopes, as bytes and as values. Pure.

A message of the WebSocket is binary and holds one envelope or several. An envelope is a head of 18 bytes, big
endian, and a payload:

| bytes | | |
|---|---|---|
| 4 | length | of the payload |
| 1 | kind | see `Kind` |
| 1 | flags | of its kind; unknown ones mean nothing |
| 4 | connection | which it is about; 0: the link itself |
| 8 | sequence | 1, 2, … in each direction of a link; 0: not counted, and not sent again |

Several in one message, because a frame of a WebSocket costs more than all the rest of a small envelope.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import msgspec

__all__ = [
    "HEAD_BYTES",
    "MAX_DATA_BYTES",
    "MAX_MESSAGE_BYTES",
    "MAX_WORDS_BYTES",
    "MORE",
    "SUBPROTOCOL",
    "VERSION",
    "BadEnvelope",
    "Envelope",
    "Gap",
    "Kind",
    "encode",
    "fields",
    "pack_head",
    "read_json",
    "read_number",
    "split",
    "write_json",
    "write_number",
]

VERSION = 1
SUBPROTOCOL = "mooring-relay-1"
MAX_MESSAGE_BYTES = 256 * 1024
"""Of one message of the WebSocket. Whoever has more to say splits it."""
MAX_DATA_BYTES = 16 * 1024
"""Of one DATA envelope as we send it: nobody waits for longer than that behind somebody else's."""
MAX_WORDS_BYTES = 160 * 1024
"""Of the words of one OPEN, HEAD or RESET: the longest head of HTTP that we accept has 64 KiB, and up to 2.25
times as many as JSON. With all that can be before it in a message, it stays within that."""
MORE = 1
"""A flag of DATA: the message goes on in the connection's next one."""

_HEAD = Struct(">IBBIQ")
_NUMBER = Struct(">Q")
HEAD_BYTES = _HEAD.size
pack_head, _unpack_from = _HEAD.pack, _HEAD.unpack_from


class Kind(IntEnum):
    """What an envelope is. Those from 16 on are counted by the sequence, and sent again after a loss."""

    HELLO = 1
    WELCOME = 2
    ACK = 3
    PING = 4
    PONG = 5
    RESTART = 6
    GOODBYE = 7

    OPEN = 16
    HEAD = 17
    DATA = 18
    END = 19
    RESET = 20
    CREDIT = 21


class BadEnvelope(Exception):
    """What came is none; the text says why, and repeats nothing of it."""


class Gap(BadEnvelope):
    """Something was left out: what follows cannot be relied on."""


class Envelope(NamedTuple):
    """One of them."""

    kind: int
    """Of a newer version perhaps: then it is none of `Kind`."""
    flags: int
    connection: int
    sequence: int
    payload: bytes


def encode(
    kind: int,
    connection: int = 0,
    payload: bytes | memoryview = b"",
    *,
    sequence: int = 0,
    flags: int = 0,
) -> bytes:
    """One envelope as bytes."""
    return pack_head(len(payload), kind, flags, connection, sequence) + payload


def split(message: bytes) -> Iterator[Envelope]:
    """The envelopes of a message. Raises BadEnvelope at the first that is broken: the rest cannot be read."""
    return map(Envelope._make, fields(message))


def fields(message: bytes) -> Iterator[tuple[int, int, int, int, bytes]]:
    """The same as bare tuples, for whoever takes many: kind, flags, connection, sequence, payload."""
    at, end = 0, len(message)
    while at < end:
        start = at + HEAD_BYTES
        if start > end:
            raise BadEnvelope(f"{end - at} bytes are no envelope")
        length, kind, flags, connection, sequence = _unpack_from(message, at)
        at = start + length
        if at > end:
            raise BadEnvelope("an envelope is longer than its message")
        yield kind, flags, connection, sequence, message[start:at]


def write_json(value: Any) -> bytes:
    """A payload of words."""
    return msgspec.json.encode(value)


T = TypeVar("T")


def read_json(payload: bytes, kind: type[T]) -> T:
    """A payload of words; fields that are not known are ignored. Raises BadEnvelope."""
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "does not say what it must" if isinstance(error, msgspec.ValidationError) else "is not JSON"
        raise BadEnvelope(f"a payload {what}") from None


def write_number(value: int) -> bytes:
    """A payload that is a number."""
    return _NUMBER.pack(value)


def read_number(payload: bytes) -> int:
    """A payload that is a number. Raises BadEnvelope."""
    if len(payload) != _NUMBER.size:
        raise BadEnvelope("a payload is not a number of eight bytes")
    value: int = _NUMBER.unpack(payload)[0]
    return value
