"""WebSocket: one JSON-RPC message per text message, otherwise as over stdio. `docs/websocket.md`.

- A connection has one session at most, from its `initialize` on. It lives as long as the connection:
  a client that has gone has ended it, and with it its calls.
- Everything for the client goes down the one connection, through the session's only stream: so a client
  that reads slowly holds back its own server.
- A message that breaks the rules is answered with an error; the connection stays.
"""

from collections.abc import Callable
from typing import NamedTuple

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import call_errors, refusals
from mooring.proxy.batches import is_batch, read_batch
from mooring.proxy.calls import StreamReply
from mooring.proxy.proxy import Proxy
from mooring.proxy.session import Session
from mooring.wire import jsonrpc
from mooring.wire.http import Exchange
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import check_initialize
from mooring.wire.params import STATED_VERSION, client_name, stated_version
from mooring.wire.revisions import HANDSHAKE_REVISIONS, MODERN
from mooring.wire.websocket import GOING_AWAY, INTERNAL_ERROR, WebSocket

__all__ = ["WebSocketTransport"]

TRANSPORT = "websocket"
SUBPROTOCOL = "mcp"
MODERN_METHOD = "server/discover"
STATED = STATED_VERSION.encode()
SHUTTING_DOWN = "Mooring is shutting down"


class WebSocketTransport:
    """The adapter between WebSockets and sessions."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def get(self, exchange: Exchange) -> None:
        """Upgrade the connection, unless we shut down: then its client does better elsewhere."""
        refusal = self._proxy.refusing
        if refusal is not None:
            exchange.respond(refusals.unavailable(refusal, None))
            return
        socket = exchange.upgrade(SUBPROTOCOL)
        if socket is not None:
            Conversation(self._proxy, socket, exchange.request.principal)


class _Bound(NamedTuple):
    """The session of a connection, and where its messages go."""

    session: Session
    reply: StreamReply


class Conversation:
    """What is said on one connection."""

    __slots__ = ("_bound", "_principal", "_proxy", "_socket")

    def __init__(self, proxy: Proxy, socket: WebSocket, principal: str) -> None:
        self._proxy = proxy
        self._socket = socket
        self._principal = principal
        self._bound: _Bound | None = None
        socket.on_message = self._on_message
        socket.on_closed = self._on_closed
        proxy.visitors.add(self)

    def hang_up(self) -> None:
        """See `Visitor`."""
        self._socket.close(GOING_AWAY, SHUTTING_DOWN)

    def _on_closed(self, code: int, reason: str) -> None:
        self._proxy.visitors.discard(self)
        if self._bound is not None:
            self._bound.session.close(f"the connection was closed ({code}{f', {reason}' if reason else ''})")

    # From the client

    def _on_message(self, data: bytes) -> None:
        try:
            if is_batch(data):
                # Its answers come one by one, as they would on an event stream.
                for message, line in read_batch(data, self._bound.session.revision if self._bound else ""):
                    self._take(message, line)
            else:
                self._take(jsonrpc.parse(data), jsonrpc.one_line(data))
        except RemoteProtocolError as error:
            self._say(refusals.bad_request(error).body)

    def _take(self, message: Envelope, line: bytes) -> None:
        bound = self._bound
        version = _modern_version(message, line)
        if version is not None:
            self._take_stateless(message, version)
        elif message.method == "initialize":
            self._initialize(message, line)
        elif bound is None:
            if message.is_request:
                self._say(call_errors.out_of_order(message.request_id, begun=False))
        elif message.is_request:
            bound.session.request(message, line, bound.reply)
        elif message.is_response:
            bound.session.respond(message, line, _nothing)
        else:
            bound.session.notify(message, line, _nothing)

    def _take_stateless(self, message: Envelope, version: str) -> None:
        """A request of a revision without sessions: it has nothing to do with ours. Not spoken here yet."""
        if message.is_request:
            self._say(refusals.unsupported_version(version, message.request_id).body)

    def _initialize(self, message: Envelope, line: bytes) -> None:
        """The first time, or again after it was refused; if it is out of order, the session says so."""
        if not message.is_request:
            raise RemoteProtocolError("initialize must be a request", code="invalid_request")
        try:
            check_initialize(line)
            bound = self._bound or self._open(client_name(message.params))
        except RemoteProtocolError as error:
            self._say(refusals.bad_request(error, message.request_id).body)
            return
        except Unavailable as error:
            self._say(refusals.unavailable(error, message.request_id).body)
            return
        bound.session.request(message, line, bound.reply)

    def _open(self, client: str) -> _Bound:
        session = self._proxy.open(self._principal, TRANSPORT, client)
        self._proxy.visitors.discard(self)
        stream = session.streams.open_socket()
        stream.join(_SocketOutlet(self._socket, self._proxy), self._proxy.clock())
        self._bound = bound = _Bound(session, StreamReply(stream, session.streams))
        return bound

    # To the client

    def _say(self, data: bytes) -> None:
        """Something of our own, behind all that waits for the client."""
        if self._bound is not None:
            self._bound.reply.deliver(data, self._proxy.clock())
        else:
            self._socket.send(data)


class _SocketOutlet:
    """A WebSocket as the outlet of a stream. That it closed is told to the conversation."""

    __slots__ = ("_proxy", "_socket", "on_disconnect")

    def __init__(self, socket: WebSocket, proxy: Proxy) -> None:
        self.on_disconnect: Callable[[], None] | None = None
        self._proxy = proxy
        self._socket = socket

    @property
    def on_writable(self) -> Callable[[], None] | None:
        """Called when the client has caught up."""
        return self._socket.on_writable

    @on_writable.setter
    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self._socket.on_writable = callback

    @property
    def writable(self) -> bool:
        """The client keeps up."""
        return self._socket.writable

    def write(self, data: bytes) -> None:
        """Send a message."""
        self._socket.send(data)

    def end(self) -> None:
        """The session sends no more: without it the connection is of no use."""
        if self._proxy.refusing is not None:
            self._socket.close(GOING_AWAY, SHUTTING_DOWN)
        else:
            self._socket.close(INTERNAL_ERROR, "the session has ended; the log says why")


def _modern_version(message: Envelope, line: bytes) -> str | None:
    """The revision without handshakes that a message is of; None: it is of one that has them."""
    if message.method == MODERN_METHOD:
        return stated_version(message.params) or MODERN
    version = stated_version(message.params) if STATED in line else None
    return None if version in HANDSHAKE_REVISIONS else version


def _nothing() -> None:
    pass
