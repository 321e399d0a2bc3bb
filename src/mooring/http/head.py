"""The head of an answer as bytes.

- One line end per field, checked by counting them in the finished head: no value, wherever
  it comes from, can add a line (response splitting) for the price of three scans in C.
- Field names are checked once each, then remembered.
- Status line and Date are made once per second and status.
"""

import re
import time
from email.utils import formatdate
from http import HTTPStatus

from mooring.errors import LocalProtocolError
from mooring.wire.http import Headers

__all__ = ["render_head"]

# The connection writes these itself: a second one would change where the answer ends.
FRAMING_NAMES = frozenset(
    {b"connection", b"content-length", b"date", b"keep-alive", b"transfer-encoding", b"upgrade"}
)
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
REMEMBERED_NAMES = 256

_phrases = {status.value: status.phrase for status in HTTPStatus}
_good_names: set[bytes] = set()
_starts: dict[int, bytes] = {}
_starts_second = 0


def render_head(status: int, headers: Headers, extra: Headers) -> bytes:
    """Status line, Date and fields, each with its line end; the caller adds framing and the empty line."""
    parts = [_start(status)]
    for name, value in headers:
        if name not in _good_names:
            _admit(name)
        parts += (name, b": ", value, b"\r\n")
    for name, value in extra:
        if name not in _good_names:
            _admit(name)
        parts += (name, b": ", value, b"\r\n")
    head = b"".join(parts)
    lines = 2 + len(headers) + len(extra)
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise LocalProtocolError(
            "a response header value contains CR, LF or NUL",
            code="bad_response_header",
            hint="remove line breaks before setting the header",
        )
    return head


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
        phrase, date = _phrases.get(status, ""), formatdate(second, usegmt=True)
        start = _starts[status] = f"HTTP/1.1 {status} {phrase}\r\ndate: {date}\r\n".encode("ascii")
    return start


def _admit(name: bytes) -> None:
    if name in FRAMING_NAMES:
        raise LocalProtocolError(
            f"the response header {name.decode()} is written by the connection", code="bad_response_header"
        )
    if not TOKEN.fullmatch(name):
        raise LocalProtocolError(
            f"{name!r} is not the name of a header in lower case", code="bad_response_header"
        )
    if len(_good_names) < REMEMBERED_NAMES:
        _good_names.add(name)
