"""Bytes in, one answer after the other out: httptools and the limits of a head. No I/O, no clock.

- Interim answers (1xx) are skipped.
- A body without a length ends with the connection (RFC 9112 §6.3): `end` says whether that was it.
- Bytes that nobody asked for, after an answer or before a request, are an error.
- After `101`, if that was asked for, nothing is HTTP any more: it is kept in `unread`.
"""

from collections.abc import Callable

import httptools

from mooring.http.client_errors import BadAnswer
from mooring.http.client_limits import ClientLimits
from mooring.wire.http import Headers

__all__ = ["AnswerReader"]

IDLE, HEAD, BODY, SWITCHED = range(4)
# Colon, space and line end of a field.
FIELD_OVERHEAD_BYTES = 4


class AnswerReader:
    """Feed it what was read; it calls `on_head(status, headers)`, `on_body(piece)`, `on_end(reusable)`."""

    def __init__(
        self,
        limits: ClientLimits,
        on_head: Callable[[int, Headers], None],
        on_body: Callable[[bytes], None],
        on_end: Callable[[bool], None],
    ) -> None:
        self._limits = limits
        self._tell_head = on_head
        self._tell_body = on_body
        self._tell_end = on_end
        self._parser = httptools.HttpResponseParser(self)
        self._state = IDLE
        self._headers: Headers = []
        self._fed_bytes = 0
        self._head_bytes = 0
        self._interim = False
        self._until_close = False
        self._broken: BadAnswer | None = None
        self._may_switch = False
        self.unread = b""

    def expect(self, *, may_switch: bool = False) -> None:
        """A request goes out: from now on an answer may come. `may_switch`: to another protocol."""
        self._state = HEAD
        self._may_switch = may_switch
        self._fed_bytes = self._head_bytes = 0

    def feed(self, data: bytes) -> None:
        """Raises BadAnswer; nothing can be read after that."""
        if self._state == IDLE:
            raise BadAnswer("the server speaks without being asked", code="bad_answer")
        if self._state == SWITCHED:
            self.unread += data
            return
        if self._state == HEAD:
            self._fed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as switched:
            if self._state != SWITCHED:
                raise self._broken or _switched_unasked() from None
            self.unread = data[switched.args[0] :]
            return
        except httptools.HttpParserError as error:
            raise self._broken or BadAnswer(f"not HTTP: {error}", code="bad_answer") from None
        # The parser tells of a field when it is whole, and this one may never be.
        if self._state == HEAD and self._fed_bytes > self._limits.max_answer_head_bytes:
            raise self._too_long()

    def end(self) -> bool:
        """The connection has ended: was that the end of a body?"""
        if self._state != BODY or not self._until_close:
            return False
        self._state = IDLE
        self._tell_end(False)
        return True

    # Called by the parser.

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self._state != HEAD:
            self._broken = BadAnswer("the server answers twice", code="bad_answer")
            raise self._broken
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field; one in a trailer means nothing to us."""
        if self._state == HEAD:
            self._headers.append((name.lower(), value.strip(b" \t")))
            self._head_bytes += len(name) + len(value) + FIELD_OVERHEAD_BYTES
            if self._head_bytes > self._limits.max_answer_head_bytes:
                self._broken = self._too_long()
                raise self._broken

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()
        if status == 101 and self._may_switch:
            self._state = SWITCHED
            self._tell_head(status, self._headers)
            return
        if status == 101:
            self._broken = _switched_unasked()
            raise self._broken
        self._interim = status < 200
        if self._interim:
            return
        fields = dict(self._headers)
        self._check_coding(fields)
        self._state = BODY
        self._until_close = b"content-length" not in fields and b"transfer-encoding" not in fields
        self._tell_head(status, self._headers)

    def _check_coding(self, fields: dict[bytes, bytes]) -> None:
        """We asked for none, so there is none to undo."""
        coding = fields.get(b"content-encoding", b"identity").lower()
        transfer = fields.get(b"transfer-encoding", b"chunked").lower()
        if coding not in (b"identity", b"") or transfer != b"chunked":
            name = (coding if transfer == b"chunked" else transfer)[:40].decode("latin-1")
            text = f"the body is encoded as {name!r}, which was not asked for"
            self._broken = BadAnswer(text, code="bad_answer")
            raise self._broken

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._tell_body(piece)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._interim:
            self._interim = False
            return
        if self._state == SWITCHED:
            return
        self._state = IDLE
        self._tell_end(self._parser.should_keep_alive())

    def _too_long(self) -> BadAnswer:
        return BadAnswer(f"the head of the answer is over {self._limits.max_answer_head_bytes} bytes")


def _switched_unasked() -> BadAnswer:
    return BadAnswer("the server switches to another protocol", code="bad_answer")
