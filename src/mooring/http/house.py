"""What the connections of one listener share, and what they ask of a transport's socket."""

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.http.heads import KnownHeads
from mooring.http.limits import Limits
from mooring.http.problems import problem
from mooring.http.reader import Admission, Budget
from mooring.wire.http import App, Exchange

if TYPE_CHECKING:
    from mooring.http.connection import Connection

__all__ = ["House", "has_unread", "overloaded", "peer_name", "reset_on_close"]


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
        self.known_heads = KnownHeads()
        self.arriving: set[Connection] = set()
        """Accepted, on their way to a transport."""
        self.connections: set[Connection] = set()
        self.on_change: Callable[[], None] = lambda: None
        """Called when a connection has come or gone."""
        self.announces_close = False
        """Answers say `Connection: close`."""
        self.stopped = False
        """No connection comes any more; idle ones close, spread over `spread_s`."""
        self.spread_s = 1.0


def overloaded(exchange: Exchange) -> None:
    """The app of connections that are one too many."""
    exchange.respond(
        problem(503, "too_many_connections", "too many connections", headers=[(b"retry-after", b"1")])
    )


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
