"""The transport of 2024-11-05: one event stream for a session, and a POST address for its messages.

The session lives as long as its stream: a client that disconnects has ended it.
"""

from urllib.parse import parse_qs

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import refusals
from mooring.proxy.calls import StreamReply
from mooring.proxy.proxy import Proxy
from mooring.proxy.session import Session
from mooring.wire import jsonrpc, sse
from mooring.wire.http import Exchange, Response
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
        try:
            session = self._proxy.open(exchange.request.principal, TRANSPORT, "")
        except Unavailable as error:
            exchange.respond(refusals.unavailable(error, None))
            return
        session.streams.resumable = False
        stream = session.streams.open(standalone=True)
        stream.attach(exchange, headers=[], after=0, now=self._proxy.clock())
        exchange.on_disconnect = lambda: session.close("the client disconnected")
        base = exchange.request.path.removesuffix("/sse")
        address = f"{base}/messages?session_id={session.id}"
        exchange.write(sse.encode_event(address.encode(), event=b"endpoint"))

    def post(self, exchange: Exchange) -> None:
        """A message of the client; its answer comes on the stream."""
        request = exchange.request
        try:
            message = jsonrpc.parse(request.body)
            if message.method == "initialize":
                check_initialize(request.body)
        except RemoteProtocolError as error:
            exchange.respond(refusals.bad_request(error))
            return
        session = self._session(exchange)
        if session is None:
            return
        stream = session.streams.listening()
        if stream is None:
            exchange.respond(refusals.session_unknown(None))
            return
        line = jsonrpc.one_line(request.body)
        if message.is_request:
            if message.method == "initialize":
                session.client = client_name(message.params)
            exchange.respond(ACCEPTED)
            session.request(message, line, StreamReply(stream, session.streams))
        elif message.is_response:
            session.respond(message, line, lambda: exchange.respond(ACCEPTED))
        else:
            session.notify(message, line, lambda: exchange.respond(ACCEPTED))

    def _session(self, exchange: Exchange) -> Session | None:
        values = parse_qs(exchange.request.query).get("session_id", [])
        if not values:
            error = RemoteProtocolError("session_id is missing in the address", code="invalid_request")
            exchange.respond(refusals.bad_request(error))
            return None
        session = self._proxy.find(values[0], exchange.request.principal, TRANSPORT)
        if session is None:
            exchange.respond(refusals.session_unknown(None))
            return None
        return session
