"""The bounds of a session: every wait, queue and store it has, with its default and the reason."""

from msgspec import Struct

__all__ = ["SessionPolicy"]

MIB = 1024 * 1024


class SessionPolicy(Struct, frozen=True, kw_only=True):
    """Values given where the workload is put together."""

    max_sessions: int = 1000
    shared: int = 0
    """Standing instances that all sessions share; 0: each session has one of its own."""
    max_message_bytes: int = 64 * MIB
    max_calls: int = 1024
    """Calls in flight on one session; the SDKs' clients send a handful."""
    max_asked: int = 1024
    """Requests of the server that the client has not answered."""

    call_timeout_s: float | None = None
    idle_timeout_s: float | None = 1800.0
    """30 minutes, as the SDKs' own servers have it."""
    forget_after_s: float = 7 * 86400.0
    """A client that does not come back for a week has forgotten its session too."""
    recovery_wait_s: float = 10.0
    """How long a call waits for a server that is being restarted."""
    handshake_timeout_s: float = 120.0
    """A first start may download a package; a server that is silent for longer is given up."""
    ping_interval_s: float | None = 30.0
    """How often an instance without calls is asked whether it lives; None: never."""
    ping_timeout_s: float = 10.0
    """A server that is busy with something of its own may be late; two such silences are too much."""
    cancel_wait_s: float = 5.0
    """A cancelled call that the server never answers is ended after this."""
    retry: bool = False

    stream_after_s: float = 15.0
    """Silence after which a POST is answered as a stream; with keep-alives no proxy in between cuts it."""
    keep_alive_s: float = 15.0
    retry_ms: int = 1000
    """How soon a client should come back to a stream that was cut."""
    drain_retry_ms: int = 2000
    """The same when we shut down: clients try twice only, so it must outlast a restart."""

    retained_bytes: int = 4 * MIB
    """Messages kept for clients that come back, for each session."""
    retained_streams: int = 32
    """Ended streams that can still be asked for, for each session."""
    retained_s: float = 300.0
    max_streams: int = 1024
    """GET streams open at once on one session; the oldest is ended. Connections have their own bound."""
    unsent_bytes: int = MIB
    """What may wait for a client that reads slowly before its server's output is left in the pipe."""
    backlog_messages: int = 256
    """Messages of the server for which no stream is open."""

    shared_bytes: int = 256 * MIB
    """What all sessions together may hold, of each kind; see `budget_bytes`."""

    @property
    def budget_bytes(self) -> int:
        """Whatever the bound of a message, four of the largest may be under way."""
        return max(self.shared_bytes, 4 * self.max_message_bytes)

    @property
    def waiting_bytes(self) -> int:
        """What may wait for a server that does not read."""
        return self.max_message_bytes
