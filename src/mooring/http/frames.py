"""Bytes in, messages out, and back: RFC 6455 by the core of the `websockets` package. No I/O, no clock.

- A message is handed on once and complete, however its bytes and frames were split; text is valid UTF-8.
- The core answers pings and the peer's goodbye by itself, and fails the connection by the rules of the
  RFC. What is ours: one kind of message is taken, text that must be UTF-8, or binary.
- What is held for an unfinished message is bounded by `limit_bytes`, plus one feed: the core looks at the
  length of a frame before it takes the frame.
"""

import logging

from websockets.frames import Close, Frame, Opcode
from websockets.protocol import Protocol, Side, State

from mooring.wire.pieces import Pieces, keep_piece
from mooring.wire.websocket import INVALID_TEXT, LOST, UNSUPPORTED_DATA

__all__ = ["Frames"]

# The core tells of every connection that it has ended.
log = logging.getLogger("mooring.http.frames")
log.setLevel(logging.WARNING)

DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})
REASON_BYTES = 123
"""A goodbye is a control frame: 125 bytes, of which the code takes two (RFC 6455 §5.5)."""


class Frames:
    """One connection, from the first frame on; `output` is to be sent after each call."""

    __slots__ = ("_core", "_is_binary", "_pieces", "_pieces_bytes")

    def __init__(self, limit_bytes: int, *, is_binary: bool = False, is_client: bool = False) -> None:
        side = Side.CLIENT if is_client else Side.SERVER
        self._core = Protocol(side, state=State.OPEN, max_size=limit_bytes, logger=log)
        self._is_binary = is_binary
        self._pieces: Pieces = []
        self._pieces_bytes = 0

    @property
    def is_open(self) -> bool:
        """Nobody has said goodbye."""
        return self._core.state is State.OPEN

    @property
    def is_over(self) -> bool:
        """All is said: both have said goodbye, or the peer has broken the rules and is heard no more."""
        return self._core.eof_sent

    @property
    def held_bytes(self) -> int:
        """What was taken of a message that is not complete."""
        return len(self._core.reader.buffer) + self._pieces_bytes

    @property
    def is_unfinished(self) -> bool:
        """A frame or a message has begun."""
        return bool(self._core.reader.buffer or self._pieces)

    @property
    def ending(self) -> tuple[int, str]:
        """Code and reason of whoever said goodbye first."""
        core = self._core
        both = (core.close_rcvd, core.close_sent)
        first = next(filter(None, both if core.close_rcvd_then_sent else reversed(both)), Close(LOST, ""))
        return int(first.code), first.reason

    @property
    def output(self) -> list[bytes]:
        """What is to be sent, and was not asked for before."""
        return [data for data in self._core.data_to_send() if data]

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """The messages that are complete now."""
        self._core.receive_data(bytes(data))
        messages: list[bytes] = []
        for frame in self._core.events_received():
            if not isinstance(frame, Frame) or frame.opcode not in DATA:
                continue
            if frame.opcode is (Opcode.TEXT if self._is_binary else Opcode.BINARY):
                kind = "binary messages are" if self._is_binary else "text is"
                self.fail(UNSUPPORTED_DATA, f"only {kind} understood here")
                break
            message = self._joined(bytes(frame.data), frame.fin)
            if message is None:
                continue
            if not self._is_binary and not _is_utf8(message):
                self.fail(INVALID_TEXT, "not UTF-8")
                break
            messages.append(message)
        return messages

    def _joined(self, data: bytes, is_last: bool) -> bytes | None:
        """The whole message, if this is its last piece."""
        if is_last and not self._pieces:
            return data  # nearly always
        keep_piece(self._pieces, data)
        self._pieces_bytes += len(data)
        if not is_last:
            return None
        message = b"".join(self._pieces)
        self._forget()
        return message

    def _forget(self) -> None:
        self._pieces = []
        self._pieces_bytes = 0

    def message(self, message: bytes) -> None:
        """A message of ours."""
        if not self.is_open:
            return
        if self._is_binary:
            self._core.send_binary(message)
        else:
            self._core.send_text(message)

    def ping(self) -> None:
        """Ask for a sign of life; any answer will do."""
        if self.is_open:
            self._core.send_ping(b"")

    def close(self, code: int, reason: str) -> None:
        """Say goodbye; the peer's own goodbye is still to come."""
        if self.is_open:
            self._core.send_close(code, _shortened(reason))

    def fail(self, code: int, reason: str) -> None:
        """Say goodbye, and listen no more."""
        self._core.fail(code, _shortened(reason))
        self._forget()


def _is_utf8(message: bytes) -> bool:
    if message.isascii():
        return True
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shortened(reason: str) -> str:
    return reason.encode()[:REASON_BYTES].decode(errors="ignore")
