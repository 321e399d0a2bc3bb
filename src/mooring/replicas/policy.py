"""The bounds of a replica: every wait and table that it has beside those of its sessions, with the reason."""

from msgspec import Struct

__all__ = ["ReplicaPolicy"]


class ReplicaPolicy(Struct, frozen=True, kw_only=True):
    """Values given where a replica is put together."""

    lease_s: float = 10.0
    """So long after its last sign of life does a replica keep its sessions. Others take them over then."""
    margin: float = 0.1
    """Of the lease that its holder does not use: clocks differ, and a write takes time to leave."""
    renewals: int = 4
    """In the span of one lease."""
    store_s: float = 2.0
    """For one answer of Redis."""
    start_s: float = 10.0
    """For Redis to be there when we begin."""
    route_s: float = 15.0
    """For a request to find its session: a lease may have to run out first."""
    look_again_s: float = 0.2
    """Between two looks at whose a session is."""
    connect_s: float = 2.0
    """For a connection to another replica."""
    max_connections: int = 16 * 1024
    """To one other replica: each client that listens there takes one for as long as it does (calls share a
    link). Beyond that a request is looked for anew, as if the other could not be reached."""
    hold_s: float = 1.0
    """For another replica to say that it will not take our sessions."""
    event_s: float = 1.0
    """For events to be stored before they are sent; then they are sent all the same."""
    touch_s: float = 60.0
    """How often it is written down that a session was used."""
    ended_stream_s: float = 300.0
    """How long the events of a stream can be asked for after its end."""
    open_stream_s: float = 3600.0
    """The same after the last event so far, if it has not ended: a call may be silent for long."""
    remembered_places: int = 100_000
    """Of sessions of others, where they are. The longest unused gives way."""
    remembered_s: float = 600.0
    """How long the address of a replica that is gone is kept, for those who look where it was."""
    max_waiting: int = 1024
    """Requests that look for their session at the same time; more are told to come back."""
    max_unstored_bytes: int = 64 * 1024 * 1024
    """Events on their way to Redis, of all sessions; more are sent without."""

    @property
    def holder_s(self) -> float:
        """How much of a lease its holder relies on."""
        return self.lease_s * (1 - self.margin)

    @property
    def renew_s(self) -> float:
        """Between two renewals."""
        return self.lease_s / self.renewals

    @property
    def renewal_s(self) -> float:
        """For one renewal: a Redis that is silent must be noticed, by us and by the others that we ask then,
        while the lease still holds."""
        return min(self.store_s, self.lease_s / 8)

    @property
    def failing_s(self) -> float:
        """Between two attempts while Redis does not answer."""
        return min(0.5, self.lease_s / 8)
