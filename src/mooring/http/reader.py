"""Bytes in, requests out: httptools, our rules and the limits of a request. No I/O, no clock.

- A request is handed on once, complete, and in the order of its bytes, however these
  were split.
- The first `Refusal` ends it: nothing is parsed after one.
- What is held for an unfinished request is bounded by the limits, plus one read.
- Trailer fields are read and dropped: nothing in a body's tail can pass for a header.
- A request that asks for an upgrade is a normal request. httptools stops at the end of
  its head, without its body (Java's HTTP client offers h2c on every POST), so framing is
  replayed into a fresh parser that goes on with the body. WebSocket's hand-over will
  branch off in `_resume_after_upgrade`, before that.
"""

from collections.abc import Callable

import httptools

from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.rules import CHUNKED, METHODS, body_length, check_host, expects_continue, split_target
from mooring.wire.http import Headers, Request, Response

__all__ = ["BODY", "HEAD", "IDLE", "Admission", "Budget", "RequestReader"]

IDLE, HEAD, BODY = range(3)

SINGLE_NAMES = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})
# A chunk costs its size line and two line ends; beyond that, extensions count as header bytes.
CHUNK_OVERHEAD_BYTES = 20

FREE_BODY_BYTES = 64 * 1024
"""A body up to this size is read before anybody is asked: small enough to hold, and judged afterwards."""

Admission = Callable[[Request], Response | None]
"""Judges a request by its head; an answer refuses it."""
OnRequest = Callable[[Request, bool, bool], None]


class Budget:
    """What all connections together hold of bodies that are still arriving."""

    __slots__ = ("limit_bytes", "taken_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.taken_bytes = 0


class RequestReader:
    """Feed it what was read; it calls `on_request(request, keep_alive, is_http_1_0)`.

    `on_expect()` is called when the peer waits for leave to send its body.
    """

    __slots__ = (
        "_admit",
        "_begun",
        "_body",
        "_body_bytes",
        "_budget",
        "_chunks",
        "_framing",
        "_head_bytes",
        "_headers",
        "_keep_alive",
        "_length",
        "_limits",
        "_method",
        "_muted",
        "_on_expect",
        "_on_request",
        "_parser",
        "_path",
        "_peer",
        "_query",
        "_target",
        "_tls",
        "_upgrading",
        "_version",
        "_wire_bytes",
        "state",
    )

    def __init__(
        self,
        limits: Limits,
        on_request: OnRequest,
        on_expect: Callable[[], None],
        *,
        peer: str = "",
        tls: bool = False,
        admit: Admission | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.state = IDLE
        self._admit = admit
        self._budget = budget or Budget(limits.max_unfinished_bytes)
        self._body_bytes = 0
        self._limits = limits
        self._on_request = on_request
        self._on_expect = on_expect
        self._peer = peer
        self._tls = tls
        self._muted = False
        self._upgrading = False
        self._begun = False
        self._target = b""
        self._headers: Headers = []
        self._framing: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Parse `data`. Raises `Refusal`, after which there is nothing more to feed."""
        rest = data
        while True:
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                self._resume_after_upgrade()
                rest = memoryview(rest)[upgrade.args[0] :]
            except httptools.HttpParserCallbackError as error:
                raise error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise _malformed(error, data) from None
        if self.state != IDLE:
            self._check_unfinished(len(data))

    def _check_unfinished(self, fed_bytes: int) -> None:
        # The parser keeps an unfinished field or chunk extension to itself, so what it was fed is
        # counted instead, but for the read in which the request began: that may hold other requests.
        if self._begun:
            self._begun = False
            return
        self._wire_bytes += fed_bytes
        most = self._limits.max_header_bytes + self._limits.max_target_bytes
        if self.state == HEAD:
            if self._wire_bytes > most:
                raise _too_many_header_bytes()
        elif self._length == CHUNKED:
            overhead = self._wire_bytes - self._body_bytes - self._chunks * CHUNK_OVERHEAD_BYTES
            if overhead > most:
                raise Refusal(400, "bad_framing", "more chunk extensions and trailers than body")

    def _resume_after_upgrade(self) -> None:
        self._upgrading = False
        self._parser = httptools.HttpRequestParser(self)
        head = b"POST / HTTP/1.1\r\n"
        if not self._keep_alive:
            head += b"connection: close\r\n"
        if self._length == CHUNKED:
            head += b"transfer-encoding: chunked\r\n\r\n"
        else:
            head += b"content-length: %d\r\n\r\n" % self._length
        self._muted = True
        self._parser.feed_data(head)
        self._muted = False

    # Called by httptools.

    def on_message_begin(self) -> None:
        """A first byte."""
        if self._muted:
            return
        self.state = HEAD
        self._begun = True
        self._target = b""
        self._headers = []
        self._framing = {}
        self._head_bytes = self._wire_bytes = self._body_bytes = self._length = self._chunks = 0

    def on_url(self, piece: bytes) -> None:
        """A piece of the target, possibly empty."""
        if self._muted:
            return
        self._target += piece
        if len(self._target) > self._limits.max_target_bytes:
            raise Refusal(414, "target_too_long", f"the target is over {self._limits.max_target_bytes} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole field, of the head or of a chunked body's trailer."""
        if self.state != HEAD or self._muted:
            return
        name = name.lower()
        value = value.rstrip(b" \t")
        if name in SINGLE_NAMES:
            if name in self._framing:
                raise Refusal(400, "bad_header", f"two {name.decode()} headers in one request")
            self._framing[name] = value
        self._head_bytes += len(name) + len(value) + 4
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete: everything that can be refused before the body is, here."""
        if self._muted:
            return
        parser, limits, framing = self._parser, self._limits, self._framing
        self._version = version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Refusal(505, "unknown_version", "only HTTP/1.1 and HTTP/1.0 are spoken here")
        if len(self._headers) > limits.max_headers:
            raise Refusal(431, "too_many_headers", f"more than {limits.max_headers} header fields")
        if self._head_bytes > limits.max_header_bytes:
            raise _too_many_header_bytes()
        method = METHODS.get(parser.get_method())
        if method is None:
            raise Refusal(501, "unknown_method", "this method is not served here")
        self._method = method
        host = framing.get(b"host")
        check_host(host, version)
        self._path, self._query = split_target(method, self._target, host)
        self._length = length = body_length(framing, version)
        if length > limits.max_body_bytes:
            raise _body_too_large(limits)
        if self._admit is not None and (length > FREE_BODY_BYTES or length == CHUNKED):
            self._check_admission(self._admit)
        self._keep_alive = parser.should_keep_alive()
        self._upgrading = parser.should_upgrade()
        self.state = BODY
        if b"expect" in framing and expects_continue(framing, version) and length:
            self._on_expect()

    def _check_admission(self, admit: Admission) -> None:
        answer = admit(self._request(b""))
        if answer is not None:
            raise Refusal(answer.status, "refused", "refused by its head", answer=answer)

    def _request(self, body: bytes) -> Request:
        return Request(
            self._method,
            self._path,
            query=self._query,
            headers=self._headers,
            body=body,
            peer=self._peer,
            tls=self._tls,
        )

    def give_up(self) -> None:
        """The request will not be finished: what was held for it is free."""
        if self.state == BODY:
            self._budget.taken_bytes -= self._body_bytes
            self._body_bytes = 0
            self._body = []

    def on_chunk_header(self) -> None:
        """The size line of a chunk."""
        self._chunks += 1

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._body_bytes += len(piece)
        budget = self._budget
        budget.taken_bytes += len(piece)
        if self._body_bytes > self._limits.max_body_bytes:
            raise _body_too_large(self._limits)
        if budget.taken_bytes > budget.limit_bytes:
            raise Refusal(503, "too_busy", "too much is being sent here at the same time; try again")
        self._body.append(piece)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._upgrading:
            return
        body = b""
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = []
        self._budget.taken_bytes -= self._body_bytes
        request = self._request(body)
        self.state = IDLE
        self._on_request(request, self._keep_alive, self._version == "1.0")


def _malformed(error: httptools.HttpParserError, data: bytes | memoryview) -> Refusal:
    if data[:2] == b"\x16\x03":
        return Refusal(400, "tls_on_plain_port", "this port speaks plain HTTP: use http://")
    if "PRI" in str(error):
        return Refusal(505, "unknown_version", "HTTP/2 is not spoken here: use HTTP/1.1")
    return Refusal(400, "malformed", f"not a well-formed HTTP/1.1 request: {error}")


def _too_many_header_bytes() -> Refusal:
    return Refusal(431, "headers_too_large", "the header fields of this request are too large")


def _body_too_large(limits: Limits) -> Refusal:
    return Refusal(413, "body_too_large", f"the body is over {limits.max_body_bytes} bytes")
