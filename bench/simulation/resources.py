"""How full a fleet makes everything, what is full first as it grows, and what to do then."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from bench.simulation.costs import Costs
from bench.simulation.fleet import Fleet
from bench.simulation.traffic import Job, Place, Reason, jobs
from mooring.http.limits import Limits
from mooring.replicas.link_frames import HEADS_KEPT
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.redis_client import MOST_CONNECTIONS

__all__ = [
    "CPU",
    "FULL",
    "Full",
    "Resource",
    "Use",
    "full_as_calls_grow",
    "full_as_sessions_grow",
    "fullest",
    "remedy",
    "uses",
    "work_s",
]

FULL = 0.8
"""Whoever waits for a core that is this busy waits four times as long as the work itself takes."""
REDIS_CLIENTS = 10_000
"""`maxclients` of Redis, unless it is told otherwise."""
CONNECTION_BYTES = 6 * 1024
"""See `Limits.max_connections`."""
HALVINGS = 50
ENDED = "streams that ended"


class Resource(StrEnum):
    """What there is a bounded amount of."""

    REPLICA_CPU = "replica CPU"
    REDIS_CPU = "Redis CPU"
    REDIS_MEMORY = "Redis memory"
    REPLICA_MEMORY = "replica memory"
    REPLICA_CONNECTIONS = "connections of a replica"
    PAIR_CONNECTIONS = "connections between two replicas"
    REDIS_CONNECTIONS = "connections of Redis"


class Use(Struct, frozen=True):
    """Which share of it is used, and what for most of all."""

    resource: Resource
    share: float
    reason: str


class Full(Struct, frozen=True):
    """What is full first as a fleet grows, and how far it has grown by then."""

    resource: Resource
    reason: str
    at: float
    """0: at any load."""


def uses(fleet: Fleet, costs: Costs) -> list[Use]:
    """Of everything."""
    going_on = jobs(fleet, costs)
    return [
        _cpu(Resource.REPLICA_CPU, work_s(going_on, Place.FRONT, Place.OWNER), fleet.replicas),
        _cpu(Resource.REDIS_CPU, work_s(going_on, Place.REDIS), fleet.redis_nodes),
        _redis_memory(fleet, costs),
        _replica_memory(fleet, costs),
        *_connections(fleet),
    ]


def fullest(found: Iterable[Use]) -> Use:
    """Of these."""
    return max(found, key=lambda use: use.share)


def work_s(going_on: Iterable[Job], *places: Place) -> dict[Reason, float]:
    """Seconds of work in each second at these places, by what it is for."""
    found: defaultdict[Reason, float] = defaultdict(float)
    for job in going_on:
        for step in job.steps:
            if step.place in places:
                found[step.reason] += job.per_s * step.us / 1e6
    return dict(found)


def _cpu(resource: Resource, spent: dict[Reason, float], cores: int) -> Use:
    return Use(resource, sum(spent.values()) / cores, max(spent, key=spent.__getitem__))


def _redis_memory(fleet: Fleet, costs: Costs) -> Use:
    streams = fleet.calls_per_s * fleet.event_share * fleet.policy.ended_stream_s
    parts = {"sessions": fleet.sessions * costs.session_bytes, ENDED: streams * costs.stream_bytes}
    room = fleet.redis_nodes * fleet.redis_gb * 1e9
    return Use(Resource.REDIS_MEMORY, sum(parts.values()) / room, max(parts, key=parts.__getitem__))


def _replica_memory(fleet: Fleet, costs: Costs) -> Use:
    places = min(fleet.foreign_sessions, fleet.policy.remembered_places)
    parts = {
        "Mooring itself": costs.replica_bytes,
        "sessions": fleet.sessions / fleet.replicas * costs.held_bytes,
        "places of other sessions": places * costs.place_bytes,
        "connections": _incoming(fleet) * CONNECTION_BYTES,
        "heads of calls that others pass on": (fleet.replicas - 1) * HEADS_KEPT * costs.head_bytes,
    }
    share = sum(parts.values()) / (fleet.replica_gb * 1e9)
    return Use(Resource.REPLICA_MEMORY, share, max(parts, key=parts.__getitem__))


def _connections(fleet: Fleet) -> list[Use]:
    incoming = _incoming(fleet) / Limits().max_connections
    pairs = fleet.replicas * max(1, fleet.replicas - 1)
    pair = _listening(fleet) * fleet.passed_share / pairs / ReplicaPolicy().max_connections
    redis = fleet.replicas * MOST_CONNECTIONS / REDIS_CLIENTS
    return [
        Use(Resource.REPLICA_CONNECTIONS, incoming, "streams"),
        Use(Resource.PAIR_CONNECTIONS, pair, "streams"),
        Use(Resource.REDIS_CONNECTIONS, redis, f"{MOST_CONNECTIONS} of each replica at most"),
    ]


def _listening(fleet: Fleet) -> float:
    """Streams of those who listen. Passed on, each has a connection; calls share one."""
    return fleet.sessions * fleet.stream_share


def _incoming(fleet: Fleet) -> float:
    """At one replica: of clients, and of other replicas."""
    calls = fleet.calls_per_s * fleet.server_s
    return (calls + _listening(fleet) * (1 + fleet.passed_share)) / fleet.replicas


# As it grows


CPU = (Resource.REPLICA_CPU, Resource.REDIS_CPU)


def full_as_calls_grow(
    fleet: Fleet, costs: Costs, among: Collection[Resource] = tuple(Resource), limit: float = FULL
) -> Full:
    """With the same sessions, each with more calls. How far: in calls per second of all."""

    def grown(calls_per_s: float) -> list[Use]:
        rate = calls_per_s / fleet.sessions
        found = uses(replace(fleet, calls_per_second_per_session=rate), costs)
        return [use for use in found if use.resource in among]

    return _grow(grown, limit, 1e-3, 1e12)


def full_as_sessions_grow(fleet: Fleet, costs: Costs) -> Full:
    """With more sessions of the same kind. How far: in sessions."""
    return _grow(lambda size: uses(replace(fleet, sessions=int(size)), costs), FULL, 1.0, 1e12)


def _grow(grown: Callable[[float], list[Use]], limit: float, low: float, high: float) -> Full:
    use = fullest(grown(low))
    if use.share >= limit:
        return Full(use.resource, use.reason, 0.0)
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        if fullest(grown(middle)).share < limit:
            low = middle
        else:
            high = middle
    use = fullest(grown(high))
    return Full(use.resource, use.reason, high)


# What to do then

REPLICAS = "more replicas"
HASHING = "a balancer that hashes `Mcp-Session-Id`"
LEARNING = "a balancer that learns the owner"
LEASE = "a longer `--lease`"
CLUSTER = "a Redis Cluster, or more nodes of it"
APART = "several fleets, each with its own Redis"
PREFIXES = "several fleets, each with its own `--sessions-prefix`"

_REMEDIES: dict[tuple[Resource, str], tuple[str, ...]] = {
    (Resource.REPLICA_CPU, Reason.PASSING): (REPLICAS, LEARNING),
    (Resource.REPLICA_CPU, Reason.FINDING): (HASHING, LEARNING, REPLICAS),
    (Resource.REPLICA_CPU, Reason.BEATING): (LEASE, PREFIXES),
    (Resource.REDIS_CPU, Reason.FINDING): (HASHING, LEARNING, CLUSTER),
    (Resource.REDIS_CPU, Reason.BEATING): (LEASE, PREFIXES),
    (Resource.REDIS_MEMORY, ENDED): ("`stream-node-max-bytes 512` in Redis", CLUSTER),
}
_OTHERWISE: dict[Resource, tuple[str, ...]] = {
    Resource.REPLICA_CPU: (REPLICAS,),
    Resource.REDIS_CPU: (CLUSTER, APART),
    Resource.REDIS_MEMORY: ("more memory", CLUSTER),
    Resource.REPLICA_MEMORY: (REPLICAS, "more memory"),
    Resource.REPLICA_CONNECTIONS: (REPLICAS, LEARNING),
    Resource.PAIR_CONNECTIONS: (REPLICAS, LEARNING),
    Resource.REDIS_CONNECTIONS: ("a larger `maxclients` in Redis",),
}


def remedy(full: Full, fleet: Fleet) -> str:
    """What this fleet has not done yet and could do then."""
    done = {HASHING, LEARNING} if fleet.affinity else {HASHING} if fleet.hashed else set()
    possible = _REMEDIES.get((full.resource, full.reason), _OTHERWISE[full.resource])
    return "; ".join(one for one in possible if one not in done)
