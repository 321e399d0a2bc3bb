"""The transport of 2024-11-05: one event stream for a session, and a POST address for its messages.

The session lives as long as its stream: a client that disconnects has ended it.
"""

from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import refusals
from mooring.proxy.batches import is_batch, read_batch
from mooring.proxy.calls import StreamReply
from mooring.proxy.proxy import Proxy
from mooring.proxy.session import Session
from mooring.proxy.trail import VIA, goes_round
from mooring.wire import jsonrpc, sse
from mooring.wire.http import Exchange, Response
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import check_initialize
from mooring.wire.params import client_name

__all__ = ["SSETransport"]

TRANSPORT = "sse"
ACCEPTED = Response(202, b"Accepted", [(b"content-type", b"text/plain")])


class SSETransport:
    """The adapter between the two addresses and sessions."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def get(self, exchange: Exchange) -> None:
        """Open a session, and its stream; the first event names the address for messages."""
        if self._proxy.trail.comes_back(exchange.request.header(VIA)):
            exchange.respond(goes_round(None))
            return
        try:
            session = self._proxy.open(exchange.request.principal, TRANSPORT, "")
        except Unavailable as error:
            exchange.respond(refusals.unavailable(error, None))
            return
        session.streams.resumable = False
        stream = session.streams.open(standalone=True)
        stream.attach(exchange, headers=[], after=0, now=self._proxy.clock())
        exchange.on_disconnect = lambda: session.close("the client disconnected")
        base = exchange.request.prefix + exchange.request.path.removesuffix("/sse")
        address = f"{base}/messages?session_id={session.id}"
        exchange.write(sse.encode_event(address.encode(), event=b"endpoint"))

    def post(self, exchange: Exchange) -> None:
        """A message of the client, or (2025-03-26) a batch of them; answers come on the stream."""
        body = exchange.request.body
        try:
            message = None if is_batch(body) else jsonrpc.parse(body)
            if message is not None and message.method == "initialize":
                check_initialize(body)
            session = self._session(exchange)
            if session is None:
                return
            stream = session.streams.listening()
            if stream is None:
                exchange.respond(refusals.session_unknown(None))
                return
            reply = StreamReply(stream, session.streams)
            if message is None:
                self._take_batch(exchange, session, reply)
                return
        except RemoteProtocolError as error:
            exchange.respond(refusals.bad_request(error))
            return
        if message.is_request and message.method == "initialize":
            session.client = client_name(message.params)
        _take(session, message, jsonrpc.one_line(body), reply, partial(exchange.respond, ACCEPTED))

    def _take_batch(self, exchange: Exchange, session: Session, reply: StreamReply) -> None:
        messages = read_batch(exchange.request.body, session.revision)
        exchange.respond(ACCEPTED)
        for message, line in messages:
            _take(session, message, line, reply, _nothing)

    def _session(self, exchange: Exchange) -> Session | None:
        values = parse_qs(exchange.request.query).get("session_id", [])
        if not values:
            error = RemoteProtocolError("session_id is missing in the address", code="invalid_request")
            exchange.respond(refusals.bad_request(error))
            return None
        session = self._proxy.find(values[0], exchange.request.principal, TRANSPORT)
        if session is None:
            self._proxy.lost_sessions.note()
            exchange.respond(refusals.session_unknown(None))
            return None
        return session


def _take(
    session: Session, message: Envelope, line: bytes, reply: StreamReply, accepted: Callable[[], None]
) -> None:
    if message.is_request:
        accepted()
        session.request(message, line, reply)
    elif message.is_response:
        session.respond(message, line, accepted)
    else:
        session.notify(message, line, accepted)


def _nothing() -> None:
    pass
