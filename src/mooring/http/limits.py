"""Every bound of a connection, each with the reason for its default.

A limit belongs to one buffer or one wait: whatever a peer does, it can make us hold no
more, and wait no longer, than is written here.
"""

from msgspec import Struct

__all__ = ["Limits"]

KIB = 1024
MIB = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """What one listener grants its peers. Spans are in seconds."""

    max_connections: int = 20_000
    """Idle ones take some 6 KiB each. Whoever makes a listener lowers it to what its descriptors allow."""
    max_overflow_connections: int = 64
    """Connections beyond that which get their 503 when they have asked; further ones get it unasked."""
    backlog: int = 1024
    """What the kernel may hold for us: a burst of returning clients (Linux caps it at somaxconn)."""

    max_target_bytes: int = 8000
    """RFC 9110 §4.1 recommends to support at least 8000; more is 414."""
    max_header_bytes: int = 32 * KIB
    """nginx's total (4 × 8 KiB); names, values and line ends of one request. More is 431."""
    max_headers: int = 100
    """Apache's LimitRequestFields; browsers send about 20. More is 431."""
    max_body_bytes: int = 64 * MIB
    """The size of the largest message the proxy takes. More is 413, on a WebSocket 1009."""
    max_unfinished_bytes: int = 256 * MIB
    """Bodies and messages that are still arriving, or wait behind others of their connection, of all
    connections together: four of the largest. More is 503 (on a WebSocket 1013), but for a small one."""
    max_unsent_bytes: int = 256 * MIB
    """Answers that peers have not read, of all connections together. Beyond that the slowest are cut."""
    max_pipelined: int = 8
    """Requests of one connection that are with the app at once. Real clients send one at a time."""

    header_timeout_s: float = 30.0
    """For a whole request head, however slowly it trickles in (Apache allows 20–40 s)."""
    read_idle_timeout_s: float = 20.0
    """Between two reads of an unfinished request or message. A body has no total bound: uploads may be
    slow."""
    keep_alive_timeout_s: float = 75.0
    """nginx's. Longer than the 60 s of common balancers, so that they close first. A WebSocket has as long
    for its first message."""
    handshake_timeout_s: float = 10.0
    """For TLS: three round trips, and a second chance for a lost packet."""

    write_high_water_bytes: int = 64 * KIB
    """asyncio's own default: beyond this `writable` is false."""
    write_stall_timeout_s: float = 30.0
    """A peer that takes not one byte for so long does not come back."""

    ping_interval_s: float = 20.0
    """A WebSocket that was not heard for so long is asked for a sign of life: before balancers (60 s) and
    most address translators (from 30 s on) forget it. The websockets library has the same."""
    ping_timeout_s: float = 20.0
    """And so long it may take to answer: three retransmissions, after a second of no network."""

    linger_timeout_s: float = 2.0
    """How long we read on after an early answer, so that a peer still sending gets it (nginx: 5 s); and
    how long a WebSocket has to answer our goodbye."""
    linger_bytes: int = 16 * MIB
    """And how much of it; beyond that the peer plainly does not listen."""
    first_request_grace_s: float = 1.0
    """At a drain: how long an accepted connection may take to begin its first request."""

    @property
    def sweep_interval_s(self) -> float:
        """How often waits are looked at: fine enough for the shortest, and never busy."""
        shortest = min(
            self.header_timeout_s,
            self.read_idle_timeout_s,
            self.keep_alive_timeout_s,
            self.write_stall_timeout_s,
            self.ping_interval_s,
            self.ping_timeout_s,
            self.linger_timeout_s,
            self.first_request_grace_s,
        )
        return min(1.0, max(0.01, shortest / 4))
