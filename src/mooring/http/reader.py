"""Bytes in, requests out: httptools, our rules and the limits of a request. No I/O, no clock.

- A request is handed on once, complete, and in the order of its bytes, however these
  were split.
- The first `Refusal` ends it: nothing is parsed after one.
- What is held for an unfinished request is bounded by the limits, plus one read.
- Trailer fields are read and dropped, or refused: nothing in a body's tail can pass for a header.
- A request that asks for an upgrade is a normal request. httptools stops at the end of
  its head, without its body (Java's HTTP client offers h2c on every POST), so framing is
  replayed into a fresh parser that goes on with the body.
- Only behind one that offers a WebSocket does reading stop: what follows may be frames. It is kept
  (`take_unread`) until somebody has decided; `resume` says that it is HTTP after all.
"""

from collections.abc import Callable

import httptools

from mooring.http.heads import KnownHead, KnownHeads
from mooring.http.limits import Limits
from mooring.http.problems import Refusal, too_busy
from mooring.http.rules import (
    CHUNKED,
    METHODS,
    body_length,
    check_host,
    expects_continue,
    offers_websocket,
    split_target,
    wants_close,
)
from mooring.wire.budget import Budget
from mooring.wire.http import Head, Request, Response
from mooring.wire.pieces import Pieces, keep_piece

__all__ = [
    "BODY",
    "FREE_BODY_BYTES",
    "HEAD",
    "HEAD_OVERHEAD_BYTES",
    "IDLE",
    "STOPPED",
    "Admission",
    "RequestReader",
]

IDLE, HEAD, BODY, REPLAY, STOPPED = range(5)

SINGLE_NAMES = frozenset({b"host", b"content-length", b"transfer-encoding", b"expect"})
# llhttp heeds these wherever they stand, and would refuse the next request of a connection it calls closed.
CONNECTION_NAMES = frozenset({b"connection", b"proxy-connection"})
# A head with one of these decides more than where its body ends.
CHANGING = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
NO_HEAD = Head()
# A chunk costs its size line and two line ends; beyond that, extensions count as header bytes.
CHUNK_OVERHEAD_BYTES = 20
# What a head has beside its target and fields: method, version, line ends.
HEAD_OVERHEAD_BYTES = 32

FREE_BODY_BYTES = 64 * 1024
"""A body up to this size is read before anybody is asked: small enough to hold, and judged afterwards.
It is read also while others send more than all together may."""

Admission = Callable[[Request], Response | None]
"""Judges a request by its head; an answer refuses it."""
OnRequest = Callable[[Request, bool, bool], None]


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
        "_fields",
        "_head",
        "_keep_alive",
        "_known",
        "_last",
        "_length",
        "_limits",
        "_on_expect",
        "_on_request",
        "_parser",
        "_peer",
        "_target",
        "_tls",
        "_unread",
        "_upgrading",
        "_version",
        "_whole",
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
        known: KnownHeads | None = None,
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
        self._unread = b""
        self._upgrading = False
        self._begun = False
        self._target = b""
        self._head = NO_HEAD
        self._fields = NO_HEAD.fields
        self._known = KnownHeads() if known is None else known
        self._last: KnownHead | None = None
        self._whole = b""  # what is being fed, if it may be a whole request
        self._body: Pieces = []
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Parse `data`. Raises `Refusal`, after which there is nothing more to feed."""
        if self.state == IDLE and type(data) is bytes:
            known = self._last
            body = None if known is None else known.body_of(data)
            if body is None and (known := self._known.find(data)) is not None:
                self._last = known
                body = known.body_of(data)
            if body is not None and known is not None and len(body) <= self._limits.max_body_bytes:
                self._on_request(Request(known.head, body, self._peer, self._tls), True, False)
                return
            self._whole = data
        elif self.state == STOPPED:
            self._unread += data
            return
        rest = data
        while True:
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                rest = memoryview(rest)[upgrade.args[0] :]
                if offers_websocket(self._head, self._length, self._version) and self._keep_alive:
                    self._stop_at_upgrade(bytes(rest))
                    return
                self._resume_after_upgrade()
            except httptools.HttpParserCallbackError as error:
                raise error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise _malformed(error, data) from None
        self._whole = b""
        if self.state != IDLE:
            self._check_unfinished(len(data))

    def _check_unfinished(self, fed_bytes: int) -> None:
        if len(self._fields) + len(self._head.repeated) > self._limits.max_headers:
            raise _too_many_headers(self._limits)
        # The parser keeps an unfinished field or chunk extension to itself, so what it was fed is
        # counted instead, but for the read in which the request began: that may hold other requests.
        if self._begun:
            self._begun = False
            return
        self._wire_bytes += fed_bytes
        most = self._limits.max_header_bytes + self._limits.max_target_bytes + HEAD_OVERHEAD_BYTES
        if self.state == HEAD:
            if self._wire_bytes > most:
                raise _too_many_header_bytes()
        elif self._length == CHUNKED:
            overhead = self._wire_bytes - self._body_bytes - self._chunks * CHUNK_OVERHEAD_BYTES
            if overhead > most:
                raise Refusal(400, "bad_framing", "more chunk extensions and trailers than body")

    def _stop_at_upgrade(self, rest: bytes) -> None:
        self._upgrading = False
        self._parser = httptools.HttpRequestParser(self)
        self._whole = b""
        self._unread = rest
        self.state = STOPPED
        self._on_request(Request(self._head, b"", self._peer, self._tls, offers_websocket=True), True, False)

    def take_unread(self) -> bytes:
        """What came behind a request at which reading stopped."""
        unread, self._unread = self._unread, b""
        return unread

    def resume(self) -> None:
        """That request did not change the protocol: what follows is another one."""
        self.state = IDLE

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
        self.state = REPLAY
        self._parser.feed_data(head)
        if self.state == REPLAY:  # otherwise it had no body and is complete
            self.state = BODY

    # Called by httptools.

    def on_message_begin(self) -> None:
        """A first byte."""
        if self.state == REPLAY:
            return
        self.state = HEAD
        self._begun = True
        self._target = b""
        self._head = head = Head()
        self._fields = head.fields
        self._wire_bytes = self._body_bytes = self._length = self._chunks = 0

    def on_url(self, piece: bytes) -> None:
        """A piece of the target, possibly empty."""
        if self.state != HEAD:
            return
        self._target += piece
        if len(self._target) > self._limits.max_target_bytes:
            raise Refusal(414, "target_too_long", f"the target is over {self._limits.max_target_bytes} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A whole field, of the head or of a chunked body's trailer."""
        if self.state != HEAD:
            if self.state == BODY and name.lower() in CONNECTION_NAMES:
                raise Refusal(400, "bad_framing", f"{name.decode()} in a trailer")
            return
        name = name.lower()
        if name in self._fields:
            if name in SINGLE_NAMES:
                raise Refusal(400, "bad_header", f"two {name.decode()} headers in one request")
            self._head.repeated.append((name, value.rstrip(b" \t")))
        else:
            self._fields[name] = value.rstrip(b" \t")

    def on_headers_complete(self) -> None:
        """The head is complete: everything that can be refused before the body is, here."""
        if self.state != HEAD:
            return
        parser, limits, head, fields = self._parser, self._limits, self._head, self._fields
        self._version = version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise Refusal(505, "unknown_version", "only HTTP/1.1 and HTTP/1.0 are spoken here")
        _check_size(head, limits)
        method = METHODS.get(parser.get_method())
        if method is None:
            raise Refusal(501, "unknown_method", "this method is not served here")
        head.method = method
        host = fields.get(b"host")
        check_host(host, version)
        head.path, head.query = split_target(method, self._target, host)
        self._length = length = body_length(fields, version)
        if length > limits.max_body_bytes:
            raise _body_too_large(limits)
        if self._admit is not None and (length > FREE_BODY_BYTES or length == CHUNKED):
            self._check_admission(self._admit)
        self._keep_alive = parser.should_keep_alive()
        if version == "1.0" and self._keep_alive:
            # llhttp lets keep-alive win here.
            self._keep_alive = not wants_close(head.get_all(b"connection"))
        self._upgrading = parser.should_upgrade()
        self.state = BODY
        if b"expect" in fields and expects_continue(fields, version) and length:
            self._on_expect()

    def _check_admission(self, admit: Admission) -> None:
        answer = admit(Request(self._head, b"", self._peer, self._tls))
        if answer is not None:
            raise Refusal(answer.status, "refused", "refused by its head", answer=answer)

    @property
    def body_left(self) -> int:
        """How much of the body is still to come, if its length was told."""
        return self._length - self._body_bytes if self.state == BODY and self._length != CHUNKED else 0

    def rest(self) -> None:
        """Nothing is to be expected soon: keep nothing for it."""
        self._last = None

    def give_up(self) -> None:
        """The request will not be finished: what was held for it is free."""
        if self.state == BODY:
            self._budget.taken_bytes -= self._body_bytes
            self._body_bytes = 0
            self._body = []

    def close(self) -> None:
        """Nothing more is read. It lets go of its parser and its owner, who know it, too.

        So all of them are freed at once, and not when Python looks for cycles.
        """
        self.give_up()
        del self._parser, self._on_request, self._on_expect

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
        if budget.taken_bytes > budget.limit_bytes and self._body_bytes > FREE_BODY_BYTES:
            raise too_busy()
        if self._body:
            keep_piece(self._body, piece)
        else:
            self._body.append(piece)  # nearly always the only one

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._upgrading:
            return
        head, body = self._head, b""
        if self._body:
            body = b"".join(self._body)  # a single piece is not copied
            self._body = []
            self._budget.taken_bytes -= self._body_bytes
        # An idle connection keeps nothing of the request before.
        self._head, self._fields, self._target = NO_HEAD, NO_HEAD.fields, b""
        self.state = IDLE
        is_http_1_0 = self._version == "1.0"
        whole, self._whole = self._whole, b""  # what follows in it is another request
        if whole and self._keep_alive and not is_http_1_0 and head.fields.keys().isdisjoint(CHANGING):
            self._known.remember(whole, head, body)
        self._on_request(Request(head, body, self._peer, self._tls), self._keep_alive, is_http_1_0)


def _check_size(head: Head, limits: Limits) -> None:
    fields, repeated = head.fields, head.repeated
    count = len(fields) + len(repeated)
    if count > limits.max_headers:
        raise _too_many_headers(limits)
    size = sum(map(len, fields)) + sum(map(len, fields.values())) + 4 * count
    if repeated:
        size += sum(len(name) + len(value) for name, value in repeated)
    if size > limits.max_header_bytes:
        raise _too_many_header_bytes()


def _malformed(error: httptools.HttpParserError, data: bytes | memoryview) -> Refusal:
    if data[:2] == b"\x16\x03":
        return Refusal(400, "tls_on_plain_port", "this port speaks plain HTTP: use http://")
    if "PRI" in str(error):
        return Refusal(505, "unknown_version", "HTTP/2 is not spoken here: use HTTP/1.1")
    return Refusal(400, "malformed", f"not a well-formed HTTP/1.1 request: {error}")


def _too_many_headers(limits: Limits) -> Refusal:
    return Refusal(431, "too_many_headers", f"more than {limits.max_headers} header fields")


def _too_many_header_bytes() -> Refusal:
    return Refusal(431, "headers_too_large", "the header fields of this request are too large")


def _body_too_large(limits: Limits) -> Refusal:
    return Refusal(413, "body_too_large", f"the body is over {limits.max_body_bytes} bytes")
