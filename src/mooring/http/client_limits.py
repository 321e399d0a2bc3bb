"""Every bound of an HTTP client, each with the reason for its default."""

from dataclasses import dataclass

__all__ = ["ClientLimits"]

KIB = 1024


@dataclass(frozen=True, kw_only=True)
class ClientLimits:
    """What a client grants its server. Spans are in seconds."""

    max_connections: int = 1024
    """At once, to one server; a request beyond that waits for its turn. As many descriptors as are usual."""
    max_idle_connections: int = 64
    """Kept for the next request, and not for long. With fewer, many calls at once open one each time."""
    max_redirects: int = 3
    """From one place of a server to another; nobody needs more than two."""
    max_answer_head_bytes: int = 64 * KIB
    """Twice what our own listener takes: nginx and Node stop at 16 to 32 KiB."""
    read_high_water_bytes: int = 256 * KIB
    """Of a body that nobody has taken yet; beyond that the socket is not read."""

    connect_timeout_s: float = 10.0
    """For the name, the connection and TLS: three round trips, and a second chance for lost packets."""
    place_timeout_s: float = 30.0
    """For one of `max_connections` to become free. Streams may hold all of them for days."""
    idle_timeout_s: float = 4.0
    """uvicorn and Node close after 5 s. A request that meets such an end may or may not have been
    executed, and nobody could tell: so the connection is given up before."""
    vanished_s: float | None = None
    """After so long without a sign of the other machine, a connection is given up: also one on which we have
    said something. None: as the system does it, which goes on sending for a quarter of an hour; a server may
    be away for long, and come back."""
