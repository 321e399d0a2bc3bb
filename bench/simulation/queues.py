"""Queues, event by event: work that goes from place to place, each of which does one thing at a time.

    simulate([Arrival(0.0, [Visit(0, 0.001), Visit(1, 0.002)])], places=2)

Whatever comes first to a place is done first. Nothing is refused, so that all that comes also ends.
"""

import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

__all__ = ["Arrival", "Run", "Visit", "percentile", "simulate"]


class Visit(NamedTuple):
    """At one place, for so long; before it, a way on which nobody is kept busy."""

    place: int
    service_s: float
    way_s: float = 0.0


class Arrival(NamedTuple):
    """Something that comes at a moment, and where it goes."""

    at: float
    visits: Sequence[Visit]


class Run(NamedTuple):
    """What came of it."""

    busy_s: list[float]
    """Of each place."""
    waits_s: list[list[float]]
    """At each place, of each visit, without the service."""
    took_s: list[float]
    """Of each arrival, from its coming to its end, in the order in which they came."""
    until: float
    """When the last one ended."""


def simulate(arrivals: Iterable[Arrival], places: int) -> Run:
    """All of them, to their ends."""
    come = sorted(arrivals, key=lambda arrival: arrival.at)
    free_at = [0.0] * places
    busy_s = [0.0] * places
    waits_s: list[list[float]] = [[] for _ in range(places)]
    took_s = [0.0] * len(come)
    order = count()  # of two that come at the same moment, the first is first
    due = [(one.at + one.visits[0].way_s, next(order), n, 0) for n, one in enumerate(come) if one.visits]
    heapq.heapify(due)
    now = 0.0
    while due:
        now, _, n, step = heapq.heappop(due)
        visits = come[n].visits
        place, service_s, _ = visits[step]
        begun = max(now, free_at[place])
        free_at[place] = ended = begun + service_s
        busy_s[place] += service_s
        waits_s[place].append(begun - now)
        if step + 1 < len(visits):
            heapq.heappush(due, (ended + visits[step + 1].way_s, next(order), n, step + 1))
        else:
            took_s[n] = ended - come[n].at
    return Run(busy_s, waits_s, took_s, max([now, *free_at]))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of them does not exceed; 0 of none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
