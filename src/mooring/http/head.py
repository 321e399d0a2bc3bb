"""The head of an answer as bytes.

- A field is checked and rendered once, then remembered: the same few are sent with every answer.
  No value, wherever it comes from, can add a line (response splitting).
- Status line and Date are made once per second and status.
"""

import re
import time
from http import HTTPStatus

from mooring.errors import LocalProtocolError
from mooring.wire.http import Headers

__all__ = ["may_be_sent", "render_head", "render_lines", "render_switch"]

# In English, wherever we are.
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The connection writes these itself: a second one would change where the answer ends.
FRAMING_NAMES = frozenset(
    {b"connection", b"content-length", b"date", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
LINE_BREAKS = re.compile(rb"[\r\n\0]")
# RFC 9110 §15.5.22: who demands an upgrade says to what. Connections here become nothing else.
UPGRADE = b"upgrade: websocket\r\nconnection: upgrade\r\n"
REMEMBERED_LINES = 256
REMEMBERED_BYTES = 256

_phrases = {status.value: status.phrase for status in HTTPStatus}
_lines: dict[tuple[bytes, bytes], bytes] = {}
_starts: dict[int, bytes] = {}
_starts_second = 0


def may_be_sent(field: tuple[bytes, bytes]) -> bool:
    """Can it stand in a head at all? What others have sent may not."""
    name, value = field
    return TOKEN.fullmatch(name) is not None and LINE_BREAKS.search(value) is None


def render_head(status: int, headers: Headers, extra: Headers) -> list[bytes]:
    """Status line, Date and fields, each with its line end; the caller adds framing and the empty line."""
    lines = [_start(status)]
    for field in headers:
        lines.append(_lines.get(field) or _line(field))
    for field in extra:
        lines.append(_lines.get(field) or _line(field))
    return lines


def render_lines(headers: Headers) -> list[bytes]:
    """Fields, each with its line end."""
    return [_lines.get(field) or _line(field) for field in headers]


def render_switch(headers: Headers) -> bytes:
    """The whole head that makes the connection a WebSocket."""
    lines = [b"HTTP/1.1 101 Switching Protocols\r\n", UPGRADE, *map(_line, headers), b"\r\n"]
    return b"".join(lines)


def _start(status: int) -> bytes:
    global _starts_second  # noqa: PLW0603 - one cache per process, for one clock
    second = int(time.time())
    if second != _starts_second:
        _starts.clear()
        _starts_second = second
    start = _starts.get(status)
    if start is None:
        if not 200 <= status <= 599:
            raise LocalProtocolError(f"{status} is not the status of an answer", code="bad_response_status")
        phrase, date = _phrases.get(status, ""), _date(second)
        start = f"HTTP/1.1 {status} {phrase}\r\ndate: {date}\r\n".encode("ascii")
        _starts[status] = start = start + UPGRADE if status == 426 else start
    return start


def _date(second: int) -> str:
    """As RFC 9110 has it. (`email.utils` can do it too, and takes a megabyte of memory.)"""
    now = time.gmtime(second)
    return time.strftime(f"{DAYS[now.tm_wday]}, %d {MONTHS[now.tm_mon - 1]} %Y %H:%M:%S GMT", now)


def _line(field: tuple[bytes, bytes]) -> bytes:
    name, value = field
    if name in FRAMING_NAMES:
        raise LocalProtocolError(
            f"the response header {name.decode()} is written by the connection", code="bad_response_header"
        )
    if not TOKEN.fullmatch(name):
        raise LocalProtocolError(
            f"{name!r} is not the name of a header in lower case", code="bad_response_header"
        )
    if LINE_BREAKS.search(value):
        raise LocalProtocolError(
            "a response header value contains CR, LF or NUL",
            code="bad_response_header",
            hint="remove line breaks before setting the header",
        )
    line = b"".join((name, b": ", value, b"\r\n"))
    if len(line) <= REMEMBERED_BYTES:
        if len(_lines) >= REMEMBERED_LINES:
            _lines.clear()
        _lines[field] = line
    return line
