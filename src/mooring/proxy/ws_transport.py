"""WebSocket: one JSON-RPC message per text message, otherwise as over stdio. `docs/websocket.md`.

- A connection has one session at most, from its `initialize` on. It lives as long as the connection:
  a client that has gone has ended it, and with it its calls.
- Everything for the client goes down the one connection, through the session's only stream: so a client
  that reads slowly holds back its own server.
- Requests of 2026-07-28 need no session, and may come beside one: each is answered by a message with its
  id. `notifications/cancelled` cancels one, the end of the connection all.
- A message that breaks the rules is answered with an error; the connection stays.
"""

from collections.abc import Callable
from typing import NamedTuple

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import call_errors, refusals
from mooring.proxy.batches import is_batch, read_batch
from mooring.proxy.calls import StreamReply
from mooring.proxy.proxy import Proxy
from mooring.proxy.session import RESTARTED, Session
from mooring.wire import jsonrpc
from mooring.wire.http import Exchange
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.memory import check_initialize
from mooring.wire.modern import DISCOVER, LISTEN, Rejection, read_request
from mooring.wire.params import cancelled_id, client_name, modern_version
from mooring.wire.websocket import GOING_AWAY, INTERNAL_ERROR, SERVICE_RESTART, WebSocket

__all__ = ["WebSocketTransport"]

TRANSPORT = "websocket"
SUBPROTOCOL = "mcp"
SHUTTING_DOWN = "Mooring is shutting down"
CONNECT_AGAIN = f"{RESTARTED}: connect again"


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


def _goodbye(proxy: Proxy) -> tuple[int, str]:
    """With what connections end that the end of this Mooring ends."""
    return (SERVICE_RESTART, CONNECT_AGAIN) if proxy.is_restarted else (GOING_AWAY, SHUTTING_DOWN)


class Conversation:
    """What is said on one connection."""

    __slots__ = ("_bound", "_goodbye", "_principal", "_proxy", "_requests", "_socket")

    def __init__(self, proxy: Proxy, socket: WebSocket, principal: str) -> None:
        self._proxy = proxy
        self._socket = socket
        self._principal = principal
        self._bound: _Bound | None = None
        self._requests: dict[Id, _SocketReply] = {}
        """Those of 2026-07-28 that are not answered."""
        self._goodbye: tuple[int, str] | None = None
        """With what to close, once they are."""
        socket.on_message = self._on_message
        socket.on_closed = self._on_closed
        proxy.visitors.add(self)

    def hang_up(self) -> None:
        """See `Visitor`."""
        self.close(*_goodbye(self._proxy))

    def close(self, code: int, reason: str) -> None:
        """End the connection, when everything is answered that has an answer."""
        for reply in list(self._requests.values()):
            if reply.lasting:
                reply.leave()
        if self._requests:
            self._goodbye = (code, reason)
        else:
            self._socket.close(code, reason)

    def _on_closed(self, code: int, reason: str) -> None:
        self._proxy.visitors.discard(self)
        for reply in list(self._requests.values()):
            reply.leave()
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
            self.say(refusals.bad_request(error).body)

    def _take(self, message: Envelope, line: bytes) -> None:
        bound = self._bound
        if message.method == "notifications/cancelled" and self._requests and self._cancel(message):
            pass
        elif self._goodbye is not None:
            if message.is_request:
                self.say(call_errors.session_ended(message.request_id))
        elif message.method == DISCOVER or modern_version(message.params) is not None:
            self._take_stateless(message)
        elif self._requests and message.is_request and message.request_id in self._requests:
            self.say(call_errors.id_in_use(message.request_id))
        elif message.method == "initialize":
            self._initialize(message, line)
        elif bound is None:
            if message.is_request:
                self.say(call_errors.out_of_order(message.request_id, begun=False))
        elif message.is_request:
            bound.session.request(message, line, bound.reply)
        elif message.is_response:
            bound.session.respond(message, line, _nothing)
        else:
            bound.session.notify(message, line, _nothing)

    def _take_stateless(self, message: Envelope) -> None:
        """A request of a revision without sessions: but for its id it has nothing to do with ours."""
        if message.is_notification:
            self._proxy.tell(message)
        if not message.is_request:
            return
        id, proxy, bound = message.request_id, self._proxy, self._bound
        request = read_request(message, None)
        if id in self._requests or (bound is not None and id in bound.session.calls):
            self.say(call_errors.id_in_use(id))
        elif len(self._requests) >= proxy.policy.max_calls:
            self.say(call_errors.too_many_calls(id, proxy.policy.max_calls))
        elif isinstance(request, Rejection):
            self.say(request.response(id))
        else:
            reply = self._requests[id] = _SocketReply(self, id, lasting=request.method == LISTEN)
            try:
                proxy.take(request, reply, self._principal)
            except Unavailable as error:
                reply.answer(refusals.unavailable(error, id).body, jsonrpc.INTERNAL_ERROR, proxy.clock())

    def finish(self, id: Id) -> None:
        """A request of 2026-07-28 is no longer there."""
        self._requests.pop(id, None)
        if self._goodbye is not None and not self._requests:
            self._socket.close(*self._goodbye)

    def _cancel(self, note: Envelope) -> bool:
        """Was it a request of 2026-07-28 that the client does not want any more?"""
        id = cancelled_id(note.params)
        reply = self._requests.get(id) if id is not None else None
        if reply is not None:
            reply.leave()
        return reply is not None

    def _initialize(self, message: Envelope, line: bytes) -> None:
        """The first time, or again after it was refused; if it is out of order, the session says so."""
        if not message.is_request:
            raise RemoteProtocolError("initialize must be a request", code="invalid_request")
        try:
            check_initialize(line)
            bound = self._bound or self._open(client_name(message.params))
        except RemoteProtocolError as error:
            self.say(refusals.bad_request(error, message.request_id).body)
            return
        except Unavailable as error:
            self.say(refusals.unavailable(error, message.request_id).body)
            return
        bound.session.request(message, line, bound.reply)

    def _open(self, client: str) -> _Bound:
        session = self._proxy.open(self._principal, TRANSPORT, client)
        self._proxy.visitors.discard(self)
        stream = session.streams.open_socket()
        stream.join(_SocketOutlet(self, self._socket, self._proxy), self._proxy.clock())
        self._bound = bound = _Bound(session, StreamReply(stream, session.streams))
        return bound

    # To the client

    @property
    def keeps_up(self) -> bool:
        """The client reads what it is sent."""
        return self._socket.writable

    def say(self, data: bytes) -> None:
        """Something of our own, behind all that waits for the client."""
        if self._bound is not None and self._goodbye is None:
            self._bound.reply.deliver(data, self._proxy.clock())
        else:
            self._socket.send(data)


class _SocketOutlet:
    """A WebSocket as the outlet of a stream. That it closed is told to the conversation."""

    __slots__ = ("_conversation", "_proxy", "_socket", "on_disconnect")

    def __init__(self, conversation: Conversation, socket: WebSocket, proxy: Proxy) -> None:
        self._conversation = conversation
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
        if self._proxy.refusing is not None or self._proxy.is_restarted:
            self._conversation.close(*_goodbye(self._proxy))
        else:
            self._conversation.close(INTERNAL_ERROR, "the session has ended; the log says why")


class _SocketReply:
    """See `StatelessReply`: the answer to a request of 2026-07-28 is a message among others."""

    __slots__ = ("_begun", "_conversation", "_gone", "_id", "is_over", "lasting")

    def __init__(self, conversation: Conversation, id: Id, *, lasting: bool) -> None:
        self._begun = False
        self._conversation = conversation
        self._gone: Callable[[], None] | None = None
        self._id = id
        self.is_over = False
        self.lasting = lasting
        """It has no end of its own: a listener."""

    def on_gone(self, gone: Callable[[], None]) -> None:
        """What to do when the client goes, or cancels."""
        self._gone = gone

    def begin_stream(self, now: float) -> None:
        """Everything here is one stream."""

    def note(self, line: bytes, now: float) -> None:
        """Something that comes before the answer; a client that does not keep up misses it.

        But a listener is told what it will hear, which is the first thing that it is told.
        """
        is_due = self.lasting and not self._begun
        if not self.is_over and (is_due or self._conversation.keeps_up):
            self._begun = True
            self._conversation.say(line)

    def answer(self, line: bytes, code: int, now: float) -> None:
        """The answer."""
        if not self.is_over:
            self.is_over = True
            self._conversation.say(line)
            self._conversation.finish(self._id)

    def tick(self, now: float) -> None:
        """The connection has a pulse of its own."""

    def leave(self) -> None:
        """The client has gone, or wants no answer."""
        if not self.is_over:
            self.is_over = True
            self._conversation.finish(self._id)
            if self._gone is not None:
                self._gone()


def _nothing() -> None:
    pass
