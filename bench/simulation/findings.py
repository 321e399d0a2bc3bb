"""All that the simulation says of a fleet, as values: what the page, the terminal and JSON are made of."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bench.simulation.costs import Costs
from bench.simulation.fleet import Fleet
from bench.simulation.incidents import Heartbeats, Killed, Rolled, beating, kill_one, restart_all
from bench.simulation.resources import (
    CPU,
    Full,
    Use,
    full_as_calls_grow,
    full_as_sessions_grow,
    remedy,
    uses,
)
from bench.simulation.steady import Steady, steady

__all__ = [
    "SEED",
    "Findings",
    "Incidents",
    "Load",
    "Pulse",
    "Remedy",
    "Size",
    "explore",
    "sizes_of",
]

SEED = 1
REPLICAS = (3, 10, 30, 100)
SESSIONS = (10_000, 100_000, 1_000_000)
LOADS = (0.25, 0.5, 0.8, 0.9)
"""Of what the first of the two kinds of CPU can do."""
LEARNT = 0.95
"""Of calls: a balancer that learns forgets, too, and does not hear of each takeover."""
MORE_REPLICAS, SHORTER_LEASE = 3, 5
"""Times; where heartbeats begin to tell."""


class Size(Struct, frozen=True):
    """A fleet at its load. `steady` is None where a core is asked for more than it can do."""

    fleet: Fleet
    missed_share: float
    uses: list[Use]
    first: Full
    """As calls grow."""
    steady: Steady | None


class Load(Struct, frozen=True):
    """The same fleet with other calls."""

    fleet: Fleet
    steady: Steady


class Remedy(Struct, frozen=True):
    """What would be full first, and with how many sessions, if one did that."""

    name: str
    first: Full
    then: str
    """What could be done then."""


class Pulse(Struct, frozen=True):
    """Heartbeats alone."""

    fleet: Fleet
    heartbeats: Heartbeats


class Incidents(Struct, frozen=True):
    """Replicas that end, of a fleet that has room for it."""

    fleet: Fleet
    killed: Killed
    rolled: Rolled


class Findings(Struct, frozen=True):
    """Of a fleet, and of the sizes on the way there."""

    fleet: Fleet
    sizes: list[Size]
    loads: list[Load]
    remedies: list[Remedy]
    pulses: list[Pulse]
    incidents: list[Incidents]


def sizes_of(
    fleet: Fleet, replicas: Sequence[int] = REPLICAS, sessions: Sequence[int] = SESSIONS
) -> list[Fleet]:
    """Fleets of the same kind."""
    return [replace(fleet, replicas=some, sessions=many) for some in replicas for many in sessions]


def explore(fleet: Fleet, sizes: Sequence[Fleet], costs: Costs, seed: int) -> Findings:
    """The same for the same seed. `fleet`: whose growth and remedies are told of."""
    found = [_size(one, costs, seed) for one in sizes]
    return Findings(
        fleet=fleet,
        sizes=found,
        loads=list(_loads(fleet, costs, seed)),
        remedies=[_remedied(name, one, costs) for name, one in _remedies(fleet)],
        pulses=[Pulse(one, beating(one, costs)) for one in _pulses(fleet)],
        incidents=[
            _incidents(size.fleet, costs) for size in found if size.steady and size.fleet.replicas > 1
        ],
    )


def _size(fleet: Fleet, costs: Costs, seed: int) -> Size:
    found = uses(fleet, costs)
    can_go_on = all(use.share < 1 for use in found if use.resource in CPU)
    return Size(
        fleet=fleet,
        missed_share=fleet.missed_share,
        uses=found,
        first=full_as_calls_grow(fleet, costs),
        steady=steady(fleet, costs, seed) if can_go_on else None,
    )


def _incidents(fleet: Fleet, costs: Costs) -> Incidents:
    return Incidents(fleet, kill_one(fleet, costs), restart_all(fleet, costs))


def _loads(fleet: Fleet, costs: Costs, seed: int) -> Iterator[Load]:
    most = full_as_calls_grow(fleet, costs, CPU, limit=1.0).at
    for share in LOADS if most else ():
        one = replace(fleet, calls_per_second_per_session=share * most / fleet.sessions)
        yield Load(one, steady(one, costs, seed))


def _remedied(name: str, fleet: Fleet, costs: Costs) -> Remedy:
    first = full_as_sessions_grow(fleet, costs)
    return Remedy(name, first, remedy(first, fleet))


def _remedies(fleet: Fleet) -> Iterator[tuple[str, Fleet]]:
    yield "nothing", fleet
    yield "twice the replicas", replace(fleet, replicas=2 * fleet.replicas)
    yield "three times the lease", replace(fleet, lease_s=3 * fleet.lease_s)
    yield "a Redis Cluster of three", replace(fleet, redis_nodes=3)
    yield "a balancer that hashes", replace(fleet, hashed=True)
    yield "a balancer that learns the owner", (learnt := replace(fleet, affinity=LEARNT))
    yield "that, and a cluster of three", replace(learnt, redis_nodes=3)


def _pulses(fleet: Fleet) -> Iterator[Fleet]:
    for replicas in (fleet.replicas, MORE_REPLICAS * fleet.replicas):
        for lease_s in (fleet.lease_s, fleet.lease_s / SHORTER_LEASE):
            yield replace(fleet, replicas=replicas, lease_s=lease_s)
