"""A fleet out of its steady state: its heartbeats alone, a replica killed, all replicas restarted in turn.

What flows here is amounts, not single calls: a million sessions that change hands are many, and what matters
is the rate at which they do.
"""

from math import exp, inf

from msgspec import Struct

from bench.simulation.costs import Costs
from bench.simulation.fleet import Fleet
from bench.simulation.resources import work_s
from bench.simulation.traffic import FIND_COMMANDS, Place, heartbeats, jobs

__all__ = ["Heartbeats", "Killed", "Rolled", "Rolling", "beating", "kill_one", "restart_all"]

STEP_S = 0.02
READY_S = 5.0
"""From the end of a replica to the readiness of the one in its place."""


# Heartbeats


class Heartbeats(Struct, frozen=True):
    """What replicas ask of Redis although nobody calls."""

    commands_per_s: float
    redis_share: float
    troubled_share: float
    """The same while all of them are in trouble with Redis, and look around at each attempt."""
    most_replicas: float
    """With more, a Redis with nothing else to do cannot answer all looks of replicas in trouble within their
    bound: trouble that has begun does not end by itself."""


def beating(fleet: Fleet, costs: Costs) -> Heartbeats:
    """Of a Redis of one node."""
    policy = fleet.policy
    redis_share = sum(work_s(heartbeats(fleet, costs), Place.REDIS).values())
    find_s = costs.find_us / 1e6
    a_look = 2 + fleet.replicas  # with the renewal before it
    looking_s = a_look * (find_s + (costs.asking_us + costs.wire_us) / 1e6)
    troubled_per_s = fleet.replicas * a_look / (policy.failing_s + looking_s)
    return Heartbeats(
        commands_per_s=redis_share / find_s,
        redis_share=redis_share,
        troubled_share=troubled_per_s * find_s,
        most_replicas=(policy.renew_s / find_s) ** 0.5,
    )


# A replica is killed


class Killed(Struct, frozen=True):
    """What comes of it."""

    waiting: float
    """Calls for its sessions that wait at the end of its lease, at all replicas."""
    refused: float
    """Calls that are told to come back: too many wait, or for too long."""
    redis_share: float
    """The most, while they wait and look again and again."""
    replica_share: float
    """The same of each other replica. Over 1: they look less often than they would."""
    delay_s: float
    """From the end of the lease until those that waited are served."""


def kill_one(fleet: Fleet, costs: Costs) -> Killed:
    """Of two or more. Its calls wait for the end of its lease; then whoever is asked takes over."""
    policy, others = fleet.policy, fleet.replicas - 1
    orphans = fleet.sessions / fleet.replicas
    asked_per_s = orphans * fleet.calls_per_second_per_session
    wanted = asked_per_s * min(policy.lease_s, policy.route_s)
    waiting = min(wanted, others * policy.max_waiting)
    refused = asked_per_s * policy.lease_s - waiting
    looks_per_s = waiting * FIND_COMMANDS / policy.look_again_s
    redis_share, replica_share = _shares(fleet, costs)
    sessions = min(waiting, orphans * (1 - exp(-wanted / orphans)))
    redis_s = _drained_s(sessions * costs.takeover_redis_us / 1e6 / fleet.redis_nodes, redis_share)
    replica_s = _drained_s(sessions * costs.takeover_us / 1e6 / others, replica_share)
    return Killed(
        waiting=waiting,
        refused=refused,
        redis_share=redis_share + looks_per_s * costs.find_us / 1e6 / fleet.redis_nodes,
        replica_share=replica_share + looks_per_s * costs.asking_us / 1e6 / others,
        delay_s=policy.look_again_s + max(redis_s, replica_s),
    )


def _shares(fleet: Fleet, costs: Costs, missed_share: float | None = None) -> tuple[float, float]:
    """Of Redis and of each replica, where one of these is away."""
    going_on = jobs(fleet, costs, missed_share=missed_share)
    redis_share = sum(work_s(going_on, Place.REDIS).values()) / fleet.redis_nodes
    replica_share = sum(work_s(going_on, Place.FRONT, Place.OWNER).values()) / (fleet.replicas - 1)
    return redis_share, replica_share


def _drained_s(work_s: float, share: float) -> float:
    """How long a core takes for work that comes at once, beside what it does anyway."""
    return work_s / (1 - share) if share < 1 else inf


# All are restarted


class Rolled(Struct, frozen=True):
    """What comes of it."""

    took_s: float
    letting_go_s: float
    """Of the replica that takes longest to let go of all that it has."""
    redis_share: float
    """The most at any time."""
    replica_share: float
    takeovers_per_s: float
    """The most at any time: so many servers are started."""
    most_held: float
    """Sessions of one replica, at the worst time. That is what `--max-sessions` and its memory must allow."""


def restart_all(fleet: Fleet, costs: Costs) -> Rolled:
    """Of two or more, one after the other: lets go of its sessions, ends, comes back with none.

    Those who were told where sessions are have to look for them again, so nobody knows any place.
    """
    others = fleet.replicas - 1
    rolling = Rolling(fleet, costs)
    held = [fleet.sessions / fleet.replicas] * fleet.replicas
    took_s = letting_go_s = 0.0
    most_held = held[0]
    for one in range(fleet.replicas):
        rolling.held, rolling.taken = held[one], 0.0
        leaving_s = held[one] * rolling.release_s
        span_s = leaving_s + READY_S
        rolling.go_on(span_s)
        held = [0.0 if n == one else sessions + rolling.taken / others for n, sessions in enumerate(held)]
        took_s += span_s
        letting_go_s = max(letting_go_s, leaving_s)
        most_held = max(most_held, *held)
    return Rolled(
        took_s=took_s,
        letting_go_s=letting_go_s,
        redis_share=rolling.redis_share,
        replica_share=rolling.replica_share,
        takeovers_per_s=rolling.takeovers_per_s,
        most_held=most_held,
    )


class Rolling:
    """Sessions on their way from one replica to the others. All that is let go of is taken when it is asked
    for, so none is lost between steps: held, nobody's and taken are always as many as there were."""

    def __init__(self, fleet: Fleet, costs: Costs) -> None:
        self._fleet, self._costs = fleet, costs
        self._base_redis, self._base_replica = _shares(fleet, costs, missed_share=1.0)
        self.release_s = (costs.asking_us + costs.write_us + costs.wire_us) / 1e6
        """Of one session: they are let go of one after the other."""
        self.held = self.nobodys = self.taken = 0.0
        self.redis_share = self.replica_share = self.takeovers_per_s = 0.0

    def go_on(self, span_s: float) -> None:
        steps = max(1, round(span_s / STEP_S))
        for _ in range(steps):
            self._step(span_s / steps)

    def _step(self, step_s: float) -> None:
        released = min(self.held, step_s / self.release_s)
        self.held -= released
        self.nobodys += released
        taken = self.nobodys * (1 - exp(-self._fleet.calls_per_second_per_session * step_s))
        self.nobodys -= taken
        self.taken += taken

        costs, fleet = self._costs, self._fleet
        redis_us = (released * costs.write_us + taken * costs.takeover_redis_us) / fleet.redis_nodes
        replica_us = taken * costs.takeover_us / (fleet.replicas - 1)
        self.redis_share = max(self.redis_share, self._base_redis + redis_us / 1e6 / step_s)
        self.replica_share = max(self.replica_share, self._base_replica + replica_us / 1e6 / step_s)
        self.takeovers_per_s = max(self.takeovers_per_s, taken / step_s)
