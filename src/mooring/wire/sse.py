"""Server-sent events as bytes.

Encoding: one message is one event of one `data:` line, which needs a payload without line
breaks (`jsonrpc.one_line`). Decoding follows the WHATWG rules, in linear time and for any
cutting of the stream: lines end at LF, CR or CRLF, one leading BOM is skipped, an event
without data is not a message but may carry an id or a retry. Only what is no UTF-8 is not
replaced (`EVENT_TEXT`).
"""

from typing import NamedTuple

from mooring.errors import LocalProtocolError, RemoteProtocolError
from mooring.wire.pieces import Pieces, keep_piece

__all__ = ["EVENT_TEXT", "KEEP_ALIVE", "Event", "EventDecoder", "encode_event", "encode_position"]

KEEP_ALIVE = b": keep-alive\n\n"
EVENT_TEXT = ("utf-8", "surrogateescape")
"""How the bytes of a stream are its text, and that is the bytes again, whatever they were.

The rules say "replace", by which what is no UTF-8 would become a message that nobody has sent.
"""
MAX_RETRY_DIGITS = 15
"""Longer is no span of time."""
_LF, _CR = b"\n\r"


def encode_event(data: bytes, *, event: bytes = b"message", id: bytes = b"") -> bytes:
    """One event. `data` must be a single line."""
    if _LF in data or _CR in data:
        raise LocalProtocolError("an event's data must be one line", code="event_not_one_line")
    if id:
        return b"".join((b"event: ", event, b"\nid: ", id, b"\ndata: ", data, b"\n\n"))
    return b"".join((b"event: ", event, b"\ndata: ", data, b"\n\n"))


def encode_position(id: bytes, *, retry_ms: int, with_data: bool) -> bytes:
    """An event that says only where the stream stands and when to come back.

    2025-11-25 defines it with an empty `data`; clients of older revisions choke on that, and get none.
    """
    tail = b"\ndata: \n\n" if with_data else b"\n\n"
    return b"".join((b"id: ", id, b"\nretry: ", b"%d" % retry_ms, tail))


class Event(NamedTuple):
    """A dispatched event. `id` is the last one seen on the stream, as the rules want it."""

    event: str
    data: str
    id: str
    retry_ms: int | None


class EventDecoder:
    """Feed it bytes as they come; it returns the events that are now complete.

    Events with nothing but an id or a retry are returned too, with empty data: whoever resumes
    streams needs them. An event over the limit (the lines of its data, their names included, or
    any one line) raises RemoteProtocolError; what follows on that stream cannot be read.
    """

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._limit = limit_bytes
        self._parts: Pieces = []
        self._pending = 0
        self._after_cr = False
        self._first = True
        self._event = ""
        self._data: list[str] = []
        self._data_bytes = 0
        self._id = ""
        self._retry: int | None = None
        self._touched = False

    def feed(self, data: bytes) -> list[Event]:
        """The events completed by `data`."""
        events: list[Event] = []
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        start = 0
        lf, cr = data.find(b"\n"), data.find(b"\r")
        while lf >= 0 or cr >= 0:
            end = max(lf, cr) if lf < 0 or cr < 0 else min(lf, cr)
            keep_piece(self._parts, data[start:end])
            line = b"".join(self._parts)
            self._parts.clear()
            self._pending = 0
            start = end + 1
            if data[end] == 0x0D:
                if start == len(data):
                    self._after_cr = True
                elif data[start] == 0x0A:
                    start += 1
            # Each is looked for only from where it was found last: linear, whatever ends the lines.
            if 0 <= lf < start:
                lf = data.find(b"\n", start)
            if 0 <= cr < start:
                cr = data.find(b"\r", start)
            if event := self._line(line):
                events.append(event)
        if start < len(data):
            keep_piece(self._parts, data[start:])
            self._pending += len(data) - start
            self._check(self._pending)
        return events

    def _check(self, line_bytes: int) -> None:
        if self._data_bytes + line_bytes > self._limit:
            raise RemoteProtocolError(f"an event over {self._limit} bytes", code="event_too_long")

    def _line(self, line: bytes) -> Event | None:
        self._check(len(line))
        text = line.decode(*EVENT_TEXT)
        if self._first:
            self._first = False
            text = text.removeprefix("\ufeff")
        if not text:
            return self._dispatch()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._data_bytes += len(line)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
            self._touched = True
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
            self._retry = int(value)
            self._touched = True
        return None

    def _dispatch(self) -> Event | None:
        wanted = bool(self._data) or self._touched
        event = Event(self._event or "message", "\n".join(self._data), self._id, self._retry)
        self._event, self._data, self._data_bytes = "", [], 0
        self._retry, self._touched = None, False
        return event if wanted else None
