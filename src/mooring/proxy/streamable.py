"""Streamable HTTP: POST, GET and DELETE of one endpoint, for clients of both eras.

The order of checks is the order of their cost for an attacker: nothing reaches an instance
before body, version and session have been found good.
"""

import logging
from functools import partial

from msgspec import Struct

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import refusals
from mooring.proxy.batches import is_batch, read_batch
from mooring.proxy.calls import JSON_HEADERS, Reply
from mooring.proxy.modern_reply import ModernReply
from mooring.proxy.proxy import Proxy
from mooring.proxy.session import Session
from mooring.proxy.streams import EventStream
from mooring.proxy.trail import VIA, goes_round
from mooring.wire import jsonrpc
from mooring.wire.events import parse_event_id
from mooring.wire.http import Exchange, Head, Response
from mooring.wire.jsonrpc import INTERNAL_ERROR, Envelope, Id
from mooring.wire.memory import check_initialize
from mooring.wire.modern import (
    HEADER_MISMATCH,
    LISTEN,
    ModernRequest,
    Rejection,
    http_status,
    read_request,
)
from mooring.wire.params import client_name
from mooring.wire.revisions import HANDSHAKE_REVISIONS

__all__ = ["StreamableHTTP"]

log = logging.getLogger("mooring.session")

TRANSPORT = "streamable-http"
ACCEPTED = Response(202)
MODERN_METHOD = "server/discover"


class StreamableHTTP:
    """The adapter between exchanges and sessions."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    # POST ----------------------------------------------------------------------------------

    def post(self, exchange: Exchange) -> None:
        """A message, or (2025-03-26) a batch of them."""
        request = exchange.request
        terms = request.head.notes.get(Terms) or _read_terms(request.head)
        if terms.refusal is not None:
            exchange.respond(terms.refusal)
            return
        body = request.body
        try:
            if is_batch(body):
                self._post_batch(exchange, terms)
                return
            message = jsonrpc.parse(body)
        except RemoteProtocolError as error:
            exchange.respond(refusals.bad_request(error))
            return
        id = message.request_id if message.is_request else None
        if terms.via is not None and self._proxy.trail.comes_back(terms.via):
            exchange.respond(goes_round(id))
            return
        if terms.is_modern or message.method == MODERN_METHOD:
            self._post_modern(exchange, terms, message)
            return
        line = jsonrpc.one_line(body)
        if message.method == "initialize" and terms.session is None:
            self._initialize(exchange, terms, message, line)
            return
        session = self._session(exchange, terms, id)
        if session is None:
            return
        if id is not None:
            session.request(message, line, Reply(exchange, session.streams, terms.events, (id,)))
        elif message.is_response:
            session.respond(message, line, lambda: exchange.respond(ACCEPTED))
        else:
            session.notify(message, line, lambda: exchange.respond(ACCEPTED))

    def _post_modern(self, exchange: Exchange, terms: "Terms", message: Envelope) -> None:
        """A message of the era without handshakes: a request, which is on its own."""
        if not message.is_request:
            if message.is_notification:  # whoever sends one need not be told what becomes of it
                if exchange.request.header(b"mcp-method") == (message.method or "").encode():
                    self._proxy.tell(message)
                exchange.respond(ACCEPTED)
                return
            error = RemoteProtocolError("responses cannot be sent in this revision", code="invalid_request")
            exchange.respond(refusals.bad_request(error))
            return
        head, lists = exchange.request.head, self._proxy.tool_lists
        request = read_request(message, head)
        if isinstance(request, Rejection):
            _reject(exchange, request, message.request_id)
        elif request.method == LISTEN and not terms.events:
            exchange.respond(refusals.not_acceptable("text/event-stream"))
        elif lists.are_wanted(request, head):
            lists.read(request, exchange.request.principal, partial(self._compare, exchange, terms, request))
        else:
            self._compare(exchange, terms, request, True)

    def _compare(self, exchange: Exchange, terms: "Terms", request: ModernRequest, tools_known: bool) -> None:
        """Serve it, if its headers say what its arguments do."""
        wrong = None
        if request.method == "tools/call":
            wrong = self._proxy.marked_tools.mismatch(request.params, exchange.request.head)
        if wrong is not None:
            _reject(exchange, Rejection(HEADER_MISMATCH, wrong), request.id)
        elif not tools_known:
            text = "the server does not list its tools, so that the headers cannot be compared with arguments"
            _reject(
                exchange,
                Rejection(INTERNAL_ERROR, text, {"reason": "tools_unknown", "retryable": True}),
                request.id,
            )
        elif not exchange.disconnected:
            self._serve(exchange, terms, request)

    def _serve(self, exchange: Exchange, terms: "Terms", request: ModernRequest) -> None:
        proxy = self._proxy
        reply = ModernReply(exchange, terms.events, proxy.clock(), proxy.policy.keep_alive_s)
        try:
            proxy.take(request, reply, exchange.request.principal)
        except Unavailable as error:
            exchange.respond(refusals.unavailable(error, request.id))

    def _initialize(self, exchange: Exchange, terms: "Terms", message: Envelope, line: bytes) -> None:
        if not message.is_request:
            error = RemoteProtocolError("initialize must be a request", code="invalid_request")
            exchange.respond(refusals.bad_request(error))
            return
        try:
            check_initialize(line)
            session = self._proxy.open(exchange.request.principal, TRANSPORT, client_name(message.params))
        except RemoteProtocolError as error:
            exchange.respond(refusals.bad_request(error, message.request_id))
            return
        except Unavailable as error:
            exchange.respond(refusals.unavailable(error, message.request_id))
            return
        reply = Reply(exchange, session.streams, terms.events, (message.request_id,))
        reply.headers = [(b"mcp-session-id", session.id.encode())]
        # Until its id is on the way nobody else knows of the session: whoever leaves now cannot end it.
        exchange.on_disconnect = partial(session.close, "its client left before it was open")
        session.request(message, line, reply)

    def _post_batch(self, exchange: Exchange, terms: "Terms") -> None:
        if terms.is_modern:
            raise RemoteProtocolError("batches are not part of this revision", code="invalid_request")
        session = self._session(exchange, terms, None)
        if session is None:
            return
        messages = read_batch(exchange.request.body, session.revision)
        ids = tuple(m.request_id for m, _ in messages if m.is_request)
        reply = Reply(exchange, session.streams, terms.events, ids, len(ids), True)
        for message, line in messages:
            if message.is_request:
                session.request(message, line, reply)
            elif message.is_response:
                session.respond(message, line, _nothing)
            else:
                session.notify(message, line, _nothing)
        if not ids:
            exchange.respond(ACCEPTED)

    def _session_in_era(self, exchange: Exchange, terms: "Terms") -> Session | None:
        """As `_session`, for a request whose revision has not been looked at."""
        if terms.is_modern:
            exchange.respond(refusals.only_post())
            return None
        return self._session(exchange, terms, None)

    def _session(self, exchange: Exchange, terms: "Terms", id: Id | None) -> Session | None:
        """The session that the request names; otherwise the request has been answered."""
        if terms.session is None:
            exchange.respond(refusals.session_missing(id))
            return None
        session = self._proxy.find(terms.session, exchange.request.principal, TRANSPORT)
        if session is None:
            if exchange.request.method != "DELETE":  # whoever ends one misses nothing
                self._proxy.lost_sessions.note()
            exchange.respond(refusals.session_unknown(id))
        return session

    # GET and DELETE ------------------------------------------------------------------------

    def get(self, exchange: Exchange) -> None:
        """A stream for what belongs to no call; or, with Last-Event-ID, the rest of one that was cut."""
        terms = _read_terms(exchange.request.head)
        if not terms.events and not terms.is_modern:
            exchange.respond(refusals.not_acceptable("text/event-stream"))
            return
        session = self._session_in_era(exchange, terms)
        if session is None:
            return
        last_event_id = exchange.request.header(b"last-event-id")
        if last_event_id:
            self._resume(session, exchange, last_event_id.decode("latin-1"))
        else:
            self._listen(session, exchange)

    def _listen(self, session: Session, exchange: Exchange) -> None:
        stream = session.streams.open(standalone=True)
        stream.attach(exchange, headers=[], after=0, now=self._proxy.clock())
        session.listen(stream)

    def _resume(self, session: Session, exchange: Exchange, last_event_id: str) -> None:
        position = parse_event_id(last_event_id)
        stream = session.streams.find(position[0]) if position else None
        if position is None or (stream is not None and position[1] > stream.log.last):
            error = RemoteProtocolError("Last-Event-ID is not one of ours", code="invalid_request")
            exchange.respond(refusals.bad_request(error))
        elif stream is None and position[0].startswith("g"):
            self._listen(session, exchange)  # nothing was left to send on it, or it is too long ago
        elif stream is None:
            text = "the stream of that event is no longer kept"
            exchange.respond(refusals.bad_request(RemoteProtocolError(text, code="invalid_request")))
        else:
            self._replay(session, stream, exchange, position[1])

    def _replay(self, session: Session, stream: EventStream, exchange: Exchange, after: int) -> None:
        now = session.last_used = self._proxy.clock()
        if stream.log.has_gap_after(after):
            log.warning(
                "session %s came back too late: messages after event %d are no longer kept",
                session.short_id,
                after,
                extra={"event": "events_lost", "session": session.short_id},
            )
            if stream.finished and stream.log.oldest > stream.log.last:
                # The answer itself is gone: an error in its place, so that nobody waits for ever.
                text = "the answer is no longer kept; the call was executed"
                data = {"reason": "answer_lost", "retryable": False}
                for id in stream.ids:
                    stream.append(jsonrpc.error_response(id, INTERNAL_ERROR, text, data))
        stream.attach(exchange, headers=[], after=after, now=now)

    def delete(self, exchange: Exchange) -> None:
        """The client ends its session."""
        session = self._session_in_era(exchange, _read_terms(exchange.request.head))
        if session is not None:
            session.close("the client ended it")
            exchange.respond(Response(204))


def _reject(exchange: Exchange, rejection: Rejection, id: Id) -> None:
    exchange.respond(Response(http_status(rejection.code), rejection.response(id), JSON_HEADERS))


def _nothing() -> None:
    pass


class Terms(Struct, frozen=True):
    """What the head of a request says about its message and the answer."""

    refusal: Response | None
    """Why a POST with this head cannot be taken."""
    events: bool
    """May the answer be a stream?"""
    is_modern: bool
    """Of a revision without handshakes and sessions."""
    session: str | None
    via: bytes | None
    """See `proxy.trail`."""


def _read_terms(head: Head) -> Terms:
    """Read them, and note them on the head."""
    json, events = _accepted(b",".join(head.get_all(b"accept")))
    refusal = None
    if not _is_json(head.fields.get(b"content-type", b"")):
        refusal = refusals.unsupported_media()
    elif not json and not events:
        refusal = refusals.not_acceptable("application/json and text/event-stream")
    version, session = head.fields.get(b"mcp-protocol-version"), head.fields.get(b"mcp-session-id")
    terms = head.notes[Terms] = Terms(
        refusal=refusal,
        events=events,
        is_modern=version is not None and version.decode("latin-1") not in HANDSHAKE_REVISIONS,
        session=None if session is None else session.decode("latin-1"),
        via=head.fields.get(VIA),
    )
    return terms


def _is_json(content_type: bytes) -> bool:
    return content_type.split(b";", 1)[0].strip().lower() == b"application/json"


def _accepted(accept: bytes) -> tuple[bool, bool]:
    """Does a client take JSON, and does it take events? No header at all means anything."""
    kinds: set[bytes] = set()
    for item in accept.lower().split(b","):
        kind, *parameters = (word.strip() for word in item.split(b";"))
        if not any(word.startswith(b"q=") and not word.strip(b"q=.0") for word in parameters):
            kinds.add(kind)
    anything = not accept or b"*/*" in kinds
    return (
        anything or not kinds.isdisjoint((b"application/json", b"application/*")),
        anything or not kinds.isdisjoint((b"text/event-stream", b"text/*")),
    )
