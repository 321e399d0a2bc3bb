"""The values of one HTTP exchange, and the port through which it is answered.

The `http` package makes exchanges, the `proxy` and `host` packages answer them; neither
knows the other. Rules of an exchange:

- It is answered once: either `respond`, or `start` + any number of `write` + `end`.
- After the peer has gone (`disconnected`), answering is allowed and does nothing.
- `on_disconnect` is called at most once, and only while the exchange is unanswered or
  its stream is open. `on_writable` is called when `writable` turns true again.
- The end of the peer's sending ends an open stream (clients that leave close both ways), but not
  an answer that is still to come.
- `abort` cuts the whole connection, and does not call this exchange's own `on_disconnect`.
- `upgrade` is an answer too: whole (a refusal, in words), or a WebSocket that takes the connection over.
- Names of response headers are lower case; those that frame the message are the connection's.
- `extra_headers` are added to the answer, whatever it is (CORS needs that).
- Callbacks are called from the event loop, never from inside `respond`, `start`,
  `write` or `end`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Struct

from mooring.wire.websocket import WebSocket

__all__ = ["HOP_BY_HOP", "App", "Exchange", "Head", "Headers", "Request", "Response"]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"content-length",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Fields between two neighbours only, and what frames a message: whoever passes it on says his own."""
Headers = list[tuple[bytes, bytes]]
"""Header fields; names are lower case."""


class Head:
    """What stands before the body.

    Requests may share one: it is never changed once it is read, and its Content-Length may be another's.
    """

    __slots__ = ("fields", "method", "notes", "path", "query", "repeated")

    def __init__(
        self, method: str = "", path: str = "/", query: str = "", headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        self.method = method
        # Decoded and without the query; always begins with a slash.
        self.path = path
        self.query = query
        # The first field of each (lower case) name, and apart from them the few that come again:
        # every question about a header is then one look-up.
        self.fields: dict[bytes, bytes] = {}
        self.repeated: Headers = []
        # What somebody has concluded from this head, by whoever has: the next request may have the
        # same one.
        self.notes: dict[object, Any] = {}
        for name, value in headers:
            self.add(name, value)

    def add(self, name: bytes, value: bytes) -> None:
        """One more field; its name is lower case."""
        if name in self.fields:
            self.repeated.append((name, value))
        else:
            self.fields[name] = value

    def get_all(self, name: bytes) -> list[bytes]:
        """Every field of that (lower case) name, in order."""
        first = self.fields.get(name)
        if first is None:
            return []
        if not self.repeated:
            return [first]
        return [first, *(value for key, value in self.repeated if key == name)]


class Request(Struct, eq=False):
    """A complete request: the body has been read, within the limits."""

    head: Head
    body: bytes = b""
    peer: str = ""
    """`address:port`, or `unix`."""
    tls: bool = False
    principal: str = "local"
    """Who asks: `local`, or the name of the token that was presented."""
    prefix: str = ""
    """What stood before the path where its sender asked: a relay's name for this machine."""
    offers_websocket: bool = False
    """Its connection stands still behind it, and can become a WebSocket (`Exchange.upgrade`)."""

    @property
    def method(self) -> str:
        """GET, POST, …"""
        return self.head.method

    @property
    def path(self) -> str:
        """Decoded and without the query; always begins with a slash."""
        return self.head.path

    @property
    def query(self) -> str:
        """What follows the question mark, as it came."""
        return self.head.query

    @property
    def headers(self) -> Headers:
        """All fields; those of one name in the order in which they came."""
        return [*self.head.fields.items(), *self.head.repeated]

    def header(self, name: bytes) -> bytes | None:
        """The first field of that (lower case) name."""
        return self.head.fields.get(name)

    def header_all(self, name: bytes) -> list[bytes]:
        """Every field of that (lower case) name, in order."""
        return self.head.get_all(name)

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path} {len(self.body)} bytes>"


class Response(Struct, eq=False):
    """A complete answer. Content-Length, Date and Connection are added by the connection."""

    status: int
    body: bytes = b""
    headers: Headers = []

    def __repr__(self) -> str:
        return f"<Response {self.status} {len(self.body)} bytes>"


class Exchange(Protocol):
    """One request and the right to answer it."""

    request: Request
    extra_headers: Headers
    on_disconnect: Callable[[], None] | None
    on_writable: Callable[[], None] | None

    @property
    def disconnected(self) -> bool:
        """The peer has gone: nothing written from now on will be read."""
        ...

    @property
    def writable(self) -> bool:
        """The peer keeps up: less than the high-water mark is waiting to be sent."""
        ...

    def respond(self, response: Response) -> None:
        """Answer whole."""
        ...

    def start(self, status: int, headers: Headers) -> None:
        """Answer as a stream: send the head now."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of the stream."""
        ...

    def end(self) -> None:
        """End the stream properly, so that the peer knows that it is complete."""
        ...

    def abort(self) -> None:
        """Cut the connection: the stream is visibly incomplete."""
        ...

    def upgrade(self, subprotocol: str) -> WebSocket | None:
        """Make the connection a WebSocket of that subprotocol; None: it cannot be, and was answered."""
        ...


App = Callable[[Exchange], None]
"""What answers requests: called once per request, answers now or later."""
