"""What the connections of one listener share, and what they ask of a transport's socket."""

import asyncio
import logging
import select
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mooring.http.crowd import TOO_MANY
from mooring.http.heads import KnownHeads
from mooring.http.limits import Limits
from mooring.http.neighbours import Neighbours
from mooring.http.reader import Admission
from mooring.wire.budget import Budget
from mooring.wire.http import App, Exchange

if TYPE_CHECKING:
    from mooring.http.connection import Connection
    from mooring.http.websocket import WebSocketConnection

__all__ = ["House", "has_unread", "keep_queue_short", "overloaded", "peer_name", "reset_on_close"]


log = logging.getLogger("mooring.http")


class Slow(Protocol):
    """A connection for which something waits to be sent."""

    @property
    def unsent_bytes(self) -> int:
        """How much."""
        ...

    def abort(self) -> None:
        """Cut it now."""
        ...


class House:
    """The state that is one for all connections; the listener changes it, they read it."""

    def __init__(
        self, app: App, limits: Limits, clock: Callable[[], float], admit: Admission | None = None
    ) -> None:
        self.app = app
        self.limits = limits
        self.clock = clock
        self.admit = admit
        self.budget = Budget(limits.max_unfinished_bytes)
        """Bodies and messages that arrive, and requests that wait behind others of their connection."""
        self.depth = limits.max_pipelined
        """Requests of a new connection that are with the app at once."""
        self.known_heads = KnownHeads()
        self.arriving: set[Connection] = set()
        """Accepted, on their way to a transport."""
        self.connections: set[Connection] = set()
        self.upgraded: set[WebSocketConnection] = set()
        """Those that have become WebSockets: for the app to end, not for us when they are idle."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a connection has come or gone."""
        self.on_put_back: Callable[[Connection], None] = lambda connection: None
        """Called when a request on it is to be served by somebody else."""
        self.announces_close = False
        """Answers say `Connection: close`."""
        self.stopped = False
        """No connection comes any more; idle ones close, spread over `spread_s`."""
        self.spread_s = 1.0
        self.refused: Counter[str] = Counter()
        """Requests that no app was asked about, by the codes of their refusals."""
        self.neighbours: Neighbours | None = None
        """Where connections that have not become WebSockets come from, if that matters."""
        self._slow: set[Slow] = set()
        self._weighing = False

    def all_served(self) -> "tuple[Connection | WebSocketConnection, ...]":
        """Every connection that has a transport."""
        return (*self.connections, *self.upgraded)

    def forget(self, connection: "Connection") -> None:
        """It is no connection for requests any more."""
        self.arriving.discard(connection)
        self.connections.discard(connection)
        if self.neighbours is not None:
            self.neighbours.leave(connection)

    def note_slow(self, connection: Slow) -> None:
        """Answers wait there for a peer to read them. Looked at in the next turn: by then many are sent."""
        self._slow.add(connection)
        if not self._weighing:
            self._weighing = True
            asyncio.get_running_loop().call_soon(self._weigh)

    def note_fast(self, connection: Slow) -> None:
        """None does any more."""
        self._slow.discard(connection)

    def _weigh(self) -> None:
        """Where more waits than may, cut the connections that hold most of it, until no more does."""
        self._weighing = False
        unsent = {connection: connection.unsent_bytes for connection in self._slow}
        total, limit = sum(unsent.values()), self.limits.max_unsent_bytes
        for connection in sorted(unsent, key=lambda each: unsent[each], reverse=True):
            if total <= limit:
                return
            total -= unsent[connection]
            self._slow.discard(connection)
            log.warning("%r aborted: too much waits for peers that do not read, and most for it", connection)
            connection.abort()


UNSENT_IN_KERNEL_BYTES = 64 * 1024


def keep_queue_short(transport: asyncio.Transport) -> None:
    """Let little wait in the kernel, where nothing can overtake it, rather than with us.

    By itself it takes megabytes: on a slow line an urgent message would come seconds late.
    """
    option = getattr(socket, "TCP_NOTSENT_LOWAT", 25 if sys.platform == "linux" else None)
    sock = transport.get_extra_info("socket")
    if option is not None and sock is not None and sock.family != getattr(socket, "AF_UNIX", None):
        sock.setsockopt(socket.IPPROTO_TCP, option, UNSENT_IN_KERNEL_BYTES)


def overloaded(exchange: Exchange) -> None:
    """The app of connections that are one too many."""
    exchange.respond(TOO_MANY)


def peer_name(transport: asyncio.BaseTransport) -> str:
    """Who is at the other end: `address:port`, or `unix`."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return "unix"
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def has_unread(transport: asyncio.Transport) -> bool:
    """Has something arrived that the loop has not read yet? An end of stream counts too."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def reset_on_close(transport: asyncio.Transport) -> None:
    """Make closing a reset, which no peer can take for a proper end."""
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
