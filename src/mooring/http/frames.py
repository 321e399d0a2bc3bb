"""Bytes in, messages out, and back: RFC 6455 by the core of the `websockets` package. No I/O, no clock.

- A message is handed on once and complete, however its bytes and frames were split; text is valid UTF-8.
- The core answers pings and the peer's goodbye by itself, and fails the connection by the rules of the
  RFC. What is ours: one kind of message is taken, text that must be UTF-8, or binary.
- What is held for an unfinished message is bounded by `limit_bytes`, plus one feed: the length of a frame is
  looked at before the frame is taken.

Nearly every frame is a whole message, masked as it must be and not too long. These are taken here, at a tenth
of what the core takes for them; the core gets every other frame, whole or in pieces, and never sees these.
From the first frame on whose head is against the rules it gets all that comes: what is wrong, and when that
can be told, is for the core to say. It is made when there is something for it: many a connection never needs
one.
"""

import logging
import os
from struct import Struct

from websockets.frames import Close, Frame, Opcode
from websockets.protocol import Protocol, Side, State

from mooring.wire.pieces import Pieces, keep_piece
from mooring.wire.websocket import INVALID_TEXT, LOST, UNSUPPORTED_DATA

try:
    from websockets.speedups import apply_mask
except ImportError:  # built without a compiler
    from websockets.utils import apply_mask

__all__ = ["Frames"]

# The core tells of every connection that it has ended.
log = logging.getLogger("mooring.http.frames")
log.setLevel(logging.WARNING)

DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})
REASON_BYTES = 123
"""A goodbye is a control frame: 125 bytes, of which the code takes two (RFC 6455 §5.5)."""
OWN_BYTES = 128 * 1024
"""Of a frame that is taken here although it comes in pieces. A longer one is put together by the core."""

OPEN = State.OPEN
FIN, MASKED = 0x80, 0x80
CONTROL = 0x08
_OPCODES = frozenset(int(opcode) for opcode in Opcode)
_SHORT, _MIDDLE, _LONG = Struct(">BB"), Struct(">BBH"), Struct(">BBQ")
_MIDDLE_LENGTH, _LONG_LENGTH = Struct(">H"), Struct(">Q")
BROKEN = 0


class Frames:
    """One connection, from the first frame on; `output` is to be sent after each call."""

    __slots__ = (
        "_begun",
        "_core",
        "_expected",
        "_is_binary",
        "_is_the_cores",
        "_left",
        "_limit_bytes",
        "_masked",
        "_needed",
        "_output",
        "_pieces",
        "_pieces_bytes",
    )

    def __init__(self, limit_bytes: int, *, is_binary: bool = False, is_client: bool = False) -> None:
        self._core: Protocol | None = None
        self._masked = 0 if is_client else MASKED
        self._pieces: Pieces = []
        self._pieces_bytes = 0
        self._begun = bytearray()
        """Of a frame that is not whole, and not the core's."""
        self._needed = 0
        """How much of it must be there before there is anything to do."""
        self._left = 0
        """Of a frame that is the core's: how much is to come."""
        self._is_the_cores = False
        """All that comes."""
        self._output: list[bytes] = []
        self.expect(limit_bytes, is_binary=is_binary)

    def expect(self, limit_bytes: int, *, is_binary: bool) -> None:
        """Messages of this kind, no longer than this; before the first of them."""
        self._is_binary = is_binary
        self._limit_bytes = limit_bytes
        self._expected = FIN | (Opcode.BINARY if is_binary else Opcode.TEXT)
        """With what a frame begins that is a whole message."""

    @property
    def is_open(self) -> bool:
        """Nobody has said goodbye."""
        return self._core is None or self._core.state is OPEN

    @property
    def is_over(self) -> bool:
        """All is said: both have said goodbye, or the peer has broken the rules and is heard no more."""
        return self._core is not None and self._core.eof_sent

    @property
    def held_bytes(self) -> int:
        """What was taken of a message that is not complete."""
        core_bytes = 0 if self._core is None else len(self._core.reader.buffer)
        return len(self._begun) + core_bytes + self._pieces_bytes

    @property
    def is_unfinished(self) -> bool:
        """A frame or a message has begun."""
        return bool(self._begun or self._left or self._pieces or self.held_bytes)

    @property
    def is_at_rest(self) -> bool:
        """Nothing has begun and nothing is to be sent: as after nearly every feed, and told in one step."""
        return self._core is None and not self._begun and not self._output

    @property
    def ending(self) -> tuple[int, str]:
        """Code and reason of whoever said goodbye first."""
        core = self._core
        if core is None:
            return LOST, ""
        both = (core.close_rcvd, core.close_sent)
        first = next(filter(None, both if core.close_rcvd_then_sent else reversed(both)), Close(LOST, ""))
        return int(first.code), first.reason

    @property
    def has_output(self) -> bool:
        """Something is to be sent."""
        return bool(self._output)

    @property
    def output(self) -> list[bytes]:
        """What is to be sent, and was not asked for before."""
        output, self._output = self._output, []
        return output

    # What comes.

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """The messages that are complete now."""
        if self._begun:
            self._begun += data
            if len(self._begun) < self._needed and not self._is_the_cores:
                return []
            data = bytes(self._begun)
            self._begun.clear()
        elif not isinstance(data, bytes):
            data = bytes(data)
        messages: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            stop = self._take(data, at, end, messages)
            at = stop or self._take_otherwise(data, at, messages)
        return messages

    def _take(self, data: bytes, at: int, end: int, messages: list[bytes]) -> int:
        """The frame that begins there, if it is a whole message of the kind that is expected; where it ends.

        0: it is something else, or not all there.
        """
        if end - at < 2 or data[at] != self._expected or self._left or self._pieces or self._is_the_cores:
            return 0
        length, start = data[at + 1] ^ self._masked, at + 2  # (masked otherwise than it must be: over 127)
        if length == 126 and end - at >= 4:
            [length] = _MIDDLE_LENGTH.unpack_from(data, start)
            start += 2
        elif length > 125:
            if length != 127 or end - at < 10:
                return 0
            [length] = _LONG_LENGTH.unpack_from(data, start)
            start += 8
        if self._masked:
            start += 4
        stop = start + length
        if stop > end or length > self._limit_bytes:
            return 0
        message = data[start:stop]
        if self._masked:
            message = apply_mask(message, data[start - 4 : start])
        if not self._is_binary and not _is_utf8(message):
            self.fail(INVALID_TEXT, "not UTF-8")
        else:
            messages.append(message)
        return stop

    def _take_otherwise(self, data: bytes, at: int, messages: list[bytes]) -> int:
        """Keep it until it is whole, or give it to the core; where what is left begins."""
        if self._is_the_cores:
            self._give_core(data[at:], messages)
            return len(data)
        if not self._left:
            whole = self._measure(data, at)
            is_own = data[at] == self._expected and not self._pieces and whole <= OWN_BYTES
            if whole < BROKEN or (whole != BROKEN and is_own):
                self._begun += data[at:]
                self._needed = abs(whole)
                return len(data)
            if whole == BROKEN:
                self._is_the_cores = True
                return at
            self._left = whole
        piece = data[at : at + self._left]
        self._left -= len(piece)
        self._give_core(piece, messages)
        return at + len(piece)

    def _measure(self, data: bytes, at: int) -> int:
        """How long the frame is that begins there, head and all; `BROKEN`: its head is against the rules.

        Below 0: so much of it (without the sign) is needed to tell.
        """
        there = len(data) - at
        if there < 2:
            return -2
        first, length = data[at], data[at + 1] ^ self._masked
        opcode, head = first & 0x0F, 2
        if first & 0x70 or opcode not in _OPCODES or length > 127:
            return BROKEN
        if opcode & CONTROL and (length > 125 or not first & FIN):
            return BROKEN
        if length > 125:
            field = _MIDDLE_LENGTH if length == 126 else _LONG_LENGTH
            head += field.size
            if there < head:
                return -head
            [length] = field.unpack_from(data, at + 2)
        if length > self._limit_bytes - self._pieces_bytes:
            return BROKEN
        return head + (4 if self._masked else 0) + length

    def _made_core(self) -> Protocol:
        if self._core is None:
            side = Side.SERVER if self._masked else Side.CLIENT
            self._core = Protocol(side, state=OPEN, max_size=self._limit_bytes, logger=log)
        return self._core

    def _give_core(self, data: bytes, messages: list[bytes]) -> None:
        core = self._made_core()
        core.receive_data(data)
        self._collect(core)
        for frame in core.events_received():
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
        self._is_the_cores = self._is_the_cores or core.state is not OPEN

    def _joined(self, data: bytes, is_last: bool) -> bytes | None:
        """The whole message, if this is its last piece."""
        if is_last and not self._pieces:
            return data
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

    # What goes.

    def message(self, message: bytes) -> None:
        """A message of ours."""
        if self._core is not None and not self.is_open:
            return
        length, ours = len(message), self._masked ^ MASKED
        if length < 126:
            head = _SHORT.pack(self._expected, ours | length)
        elif length < 1 << 16:
            head = _MIDDLE.pack(self._expected, ours | 126, length)
        else:
            head = _LONG.pack(self._expected, ours | 127, length)
        if ours:
            mask = os.urandom(4)
            self._output.append(head + mask + apply_mask(message, mask))
        else:
            self._output.append(head + message)

    def ping(self) -> None:
        """Ask for a sign of life; any answer will do."""
        if self.is_open:
            core = self._made_core()
            core.send_ping(b"")
            self._collect(core)

    def close(self, code: int, reason: str) -> None:
        """Say goodbye; the peer's own goodbye is still to come."""
        if self.is_open:
            core = self._made_core()
            core.send_close(code, _shortened(reason))
            self._collect(core)
            self._is_the_cores = True

    def fail(self, code: int, reason: str) -> None:
        """Say goodbye, and listen no more."""
        core = self._made_core()
        core.fail(code, _shortened(reason))
        self._collect(core)
        self._is_the_cores = True
        self._begun.clear()
        self._left = 0
        self._forget()

    def _collect(self, core: Protocol) -> None:
        self._output += filter(None, core.data_to_send())


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
