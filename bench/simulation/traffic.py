"""What goes on in a fleet, and what it asks of whom.

The same jobs are added up (`resources.py`) and drawn one by one for the queues (`steady.py`), so that both
speak of the same fleet.
"""

from collections.abc import Iterator
from enum import StrEnum
from math import exp
from typing import NamedTuple

from bench.simulation.costs import Costs
from bench.simulation.fleet import Fleet
from mooring.replicas.membership import LOOK_TURNS

__all__ = ["FIND_COMMANDS", "Job", "Place", "Reason", "Step", "calls", "heartbeats", "jobs"]

FIND_COMMANDS = 2
"""To find a session: whose it is, and whether that one lives (`Front._try`)."""
LOOK_COMMANDS = 4
"""Who there is; whether Redis still keeps what it was told: two; and the key (`Membership._look_around`)."""
EVENTS_EACH = 3
"""Stored of a call that is answered with events: that there is a stream, one notification, the answer."""


class Place(StrEnum):
    """Where work is done: at the replica that is asked, at the one that has the session, in Redis."""

    FRONT = "front"
    OWNER = "owner"
    REDIS = "Redis"


class Reason(StrEnum):
    """What work is for."""

    SERVING = "calls"
    PASSING = "passing calls on"
    FINDING = "looking for sessions"
    STORING = "events"
    TOUCHING = "noting that sessions are used"
    CHANGING = "sessions that begin and end"
    BEATING = "heartbeats"


class Step(NamedTuple):
    """Work at one place."""

    place: Place
    us: float
    reason: Reason


class Job(NamedTuple):
    """Something that happens so often, in these steps."""

    per_s: float
    steps: list[Step]
    is_call: bool = False


def jobs(fleet: Fleet, costs: Costs, *, missed_share: float | None = None) -> list[Job]:
    """All that goes on; `missed_share`, where it is another than in steady state."""
    missed = fleet.missed_share if missed_share is None else missed_share
    return [*calls(fleet, costs, missed), *_sessions(fleet, costs), *heartbeats(fleet, costs)]


def calls(fleet: Fleet, costs: Costs, missed_share: float) -> Iterator[Job]:
    """At the owner, or passed on to one that is known, or looked for; answered at once, or with events."""
    serving = [Step(Place.OWNER, costs.call_us, Reason.SERVING)]
    batch_us = costs.find_us + EVENTS_EACH * costs.event_us  # each call's is a round trip of its own
    streaming = [*serving, *_asking(costs, Place.OWNER, batch_us, Reason.STORING)]
    finding = _asking(costs, Place.FRONT, costs.find_us, Reason.FINDING) * FIND_COMMANDS
    passing_us = costs.passing_us + costs.head_us * fleet.new_head_share
    passing = [Step(Place.FRONT, passing_us / 2, Reason.PASSING)]  # there, and back
    passed = fleet.passed_share
    for answering, share in ((serving, 1 - fleet.event_share), (streaming, fleet.event_share)):
        per_s = fleet.calls_per_s * share
        elsewhere = [*passing, *answering, *passing]
        yield Job(per_s * (1 - passed), answering, is_call=True)
        yield Job(per_s * passed * (1 - missed_share), elsewhere, is_call=True)
        yield Job(per_s * passed * missed_share, [*finding, *elsewhere], is_call=True)


def _sessions(fleet: Fleet, costs: Costs) -> Iterator[Job]:
    touch_s = fleet.policy.touch_s
    used_share = 1 - exp(-touch_s * fleet.calls_per_second_per_session)
    touch = _asking(costs, Place.OWNER, costs.write_us, Reason.TOUCHING)
    yield Job(fleet.sessions * used_share / touch_s, touch)

    write = _asking(costs, Place.OWNER, costs.write_us, Reason.CHANGING)
    # What a session that begins costs its replica no row has; one that is taken over has its server
    # started and told the same.
    start = Step(Place.OWNER, costs.takeover_us, Reason.CHANGING)
    per_s = fleet.sessions / fleet.session_life_s
    yield Job(per_s, [start, *write])
    yield Job(per_s, write)


def heartbeats(fleet: Fleet, costs: Costs) -> Iterator[Job]:
    """A renewal is one command; a look around is some about all replicas, then one for each, in turn."""
    turns_per_s = fleet.replicas / fleet.policy.renew_s
    command = _asking(costs, Place.OWNER, costs.find_us, Reason.BEATING)
    yield Job(turns_per_s, command)
    yield Job(turns_per_s / LOOK_TURNS, command * (LOOK_COMMANDS + fleet.replicas))


def _asking(costs: Costs, place: Place, redis_us: float, reason: Reason) -> list[Step]:
    return [Step(place, costs.asking_us, reason), Step(Place.REDIS, redis_us, reason)]
