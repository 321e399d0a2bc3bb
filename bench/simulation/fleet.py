"""A fleet: its size, and what its clients do."""

from math import expm1

from msgspec import Struct

from bench.simulation.places import misses
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.seal import SPAN_S

__all__ = ["Fleet"]


class Fleet(Struct, frozen=True, kw_only=True):
    """Replicas of one server that share a Redis."""

    replicas: int = 100
    sessions: int = 1_000_000
    calls_per_second_per_session: float = 0.02
    """One in 50 s: many sessions are open, few are busy."""
    affinity: float = 0.0
    """The share of calls that the balancer brings to the owner on purpose; the rest goes anywhere."""
    hashed: bool = False
    """Does the balancer bring a session to the same replica always, as by a hash of its id? Whose it is the
    hash does not know: it was begun wherever its first request, without an id, happened to land."""
    event_share: float = 0.1
    """Of calls, those that are answered with events."""
    lease_s: float = 10.0
    session_life_s: float = 3600.0
    stream_share: float = 1.0
    """Of sessions, those whose client listens on a stream of its own, as the SDKs' clients do."""
    server_s: float = 0.1
    """That a server takes for a call."""
    redis_nodes: int = 1
    """That share the sessions: more than one is a Redis Cluster."""
    redis_gb: float = 8.0
    """Of each node."""
    replica_gb: float = 2.0
    """For Mooring itself, without the servers."""

    @property
    def policy(self) -> ReplicaPolicy:
        """The bounds of its replicas."""
        return ReplicaPolicy(lease_s=self.lease_s)

    @property
    def calls_per_s(self) -> float:
        """Of all sessions."""
        return self.sessions * self.calls_per_second_per_session

    @property
    def passed_share(self) -> float:
        """Of calls, those that come to another replica than the owner."""
        return (1 - self.affinity) * (1 - 1 / self.replicas)

    @property
    def foreign_sessions(self) -> float:
        """Those that come to a replica although another has them."""
        return self.sessions * (1 - 1 / self.replicas) / (self.replicas if self.hashed else 1)

    @property
    def missed_share(self) -> float:
        """Of calls that are passed on, those whose owner is looked for in Redis first."""
        if self.replicas == 1:
            return 0.0
        room, each = self.policy.remembered_places, self._calls_at_one
        return misses(self.foreign_sessions, calls_per_s=each, life_s=self.session_life_s, room=room)

    @property
    def new_head_share(self) -> float:
        """Of calls that are passed on, those with a head that was not sent ahead: the first of its client at
        that replica since seals changed."""
        between_changes = self._calls_at_one * SPAN_S
        return -expm1(-between_changes) / between_changes if between_changes else 1.0

    @property
    def _calls_at_one(self) -> float:
        """Of one session in a second, at one of the replicas that do not have it."""
        each = self.calls_per_second_per_session * (1 - self.affinity)
        return each if self.hashed else each / self.replicas
