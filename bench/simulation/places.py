"""How often a replica knows where a session of another is: it remembers the places that it used last.

    misses(sessions, calls_per_s=0.0002, life_s=3600, room=100_000)

Che's approximation of a least-recently-used cache: an entry is forgotten after a certain span without use,
the same for all, and that span is such that the cache is just full. Here sessions also begin, so that the
first call of each is never known, and end, so that dead entries take room until they are forgotten.
"""

from math import exp, expm1, inf

__all__ = ["misses"]

STEPS = 60
"""Halvings, more than the digits of a float ask for."""


def misses(sessions: float, *, calls_per_s: float, life_s: float, room: float) -> float:
    """The share of calls whose session is not in a table with so much room.

    `calls_per_s`: of each session, at this table.
    """
    if not sessions or not calls_per_s:
        return 1.0
    span_s = _span_s(sessions, calls_per_s, life_s, room)
    return 1.0 - _again_within(span_s, calls_per_s, life_s)


def _again_within(span_s: float, calls_per_s: float, life_s: float) -> float:
    """How likely the last call of the session was no longer ago than that: it may have just begun."""
    either = calls_per_s + 1 / life_s
    return calls_per_s / either * -expm1(-either * span_s)


def _entries(span_s: float, sessions: float, calls_per_s: float, life_s: float) -> float:
    """How many sessions were called within that span, those among them that have ended since."""
    either = calls_per_s + 1 / life_s
    again = calls_per_s / either
    quiet_s = span_s * (1 - again) + again * (1 - exp(-either * span_s)) / either
    return sessions * calls_per_s * quiet_s


def _span_s(sessions: float, calls_per_s: float, life_s: float, room: float) -> float:
    """After which an entry without use is forgotten; inf: never, nearly."""
    low, high = 0.0, 1000 * (life_s + 1 / calls_per_s)
    if _entries(high, sessions, calls_per_s, life_s) <= room:
        return inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _entries(middle, sessions, calls_per_s, life_s) <= room:
            low = middle
        else:
            high = middle
    return low
