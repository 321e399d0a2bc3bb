"""A fleet in steady state, call by call: how long whoever comes waits, for a replica and for Redis.

Only the mean of each cost is measured. Services are drawn from an exponential distribution around it, which
is the cautious choice: it spreads more than work of one kind does.
"""

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from bench.simulation.costs import Costs
from bench.simulation.fleet import Fleet
from bench.simulation.queues import Arrival, Visit, percentile, simulate
from bench.simulation.traffic import Job, Place, jobs

__all__ = ["Steady", "Waiting", "steady"]

CALLS = 10_000
SPAN_S = 20.0
"""So much is simulated at most, and nobody waits yet when it begins. With a core at 95 %, p99 of the wait for
it comes out a third lower than with eight times as many calls; at 80 %, the same within chance."""


class Waiting(Struct, frozen=True):
    """Of all visits to places of one kind, in milliseconds, without the service."""

    p50_ms: float
    p99_ms: float


class Steady(Struct, frozen=True):
    """What came of it."""

    calls: int
    replica_share: float
    redis_share: float
    replica_wait: Waiting
    redis_wait: Waiting
    call: Waiting
    """From its coming to its answer; without what its server takes."""


def steady(fleet: Fleet, costs: Costs, seed: int) -> Steady:
    """Some seconds of it. Nothing may be over-full, or it would never end."""
    draw = Random(seed)
    span_s = min(SPAN_S, CALLS / fleet.calls_per_s)
    drawn = sorted(_arrivals(fleet, costs, span_s, draw), key=lambda one: one[0].at)
    run = simulate((arrival for arrival, _ in drawn), fleet.replicas + fleet.redis_nodes)
    took_s = [took_s for took_s, (_, is_call) in zip(run.took_s, drawn, strict=True) if is_call]
    waits_s, busy_s, split = run.waits_s, run.busy_s, fleet.replicas
    return Steady(
        calls=len(took_s),
        replica_share=sum(busy_s[:split]) / fleet.replicas / span_s,
        redis_share=sum(busy_s[split:]) / fleet.redis_nodes / span_s,
        replica_wait=_waiting([wait_s for place in waits_s[:split] for wait_s in place]),
        redis_wait=_waiting([wait_s for place in waits_s[split:] for wait_s in place]),
        call=_waiting(took_s),
    )


def _waiting(seconds: list[float]) -> Waiting:
    seconds.sort()
    return Waiting(percentile(seconds, 0.5) * 1000, percentile(seconds, 0.99) * 1000)


def _arrivals(fleet: Fleet, costs: Costs, span_s: float, draw: Random) -> Iterator[tuple[Arrival, bool]]:
    """Each, and whether it is a call. Many who know nothing of each other: a Poisson process."""
    for job in jobs(fleet, costs):
        at = draw.expovariate(job.per_s) if job.per_s else span_s
        while at < span_s:
            yield Arrival(at, _visits(fleet, costs, job, draw)), job.is_call
            at += draw.expovariate(job.per_s)


def _visits(fleet: Fleet, costs: Costs, job: Job, draw: Random) -> list[Visit]:
    owner = draw.randrange(fleet.replicas)
    front = (owner + draw.randrange(1, fleet.replicas)) % fleet.replicas if fleet.replicas > 1 else owner
    node = fleet.replicas + draw.randrange(fleet.redis_nodes)
    where = {Place.OWNER: owner, Place.FRONT: front, Place.REDIS: node}
    visits: list[Visit] = []
    for step in job.steps:
        place = where[step.place]
        is_elsewhere = bool(visits) and visits[-1].place != place
        service_s = draw.expovariate(1e6 / step.us) if step.us else 0.0
        visits.append(Visit(place, service_s, costs.wire_us / 2e6 if is_elsewhere else 0.0))
    return visits
