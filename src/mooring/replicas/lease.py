"""A replica's right to its sessions: a lease that runs out, by a clock that counts suspension. Pure.

    none → held → lapsed, for ever: whoever has lapsed begins anew under another name

Redis keeps the lease for `lease_s` after each renewal; the holder relies on a bit less, counted from *before*
it asked. So whatever holds here is still kept there, and what nobody keeps there any more holds here no
longer.

The clock must go on while the machine sleeps or the process is stopped: `CLOCK_BOOTTIME`, where there is one.
What remains: a holder that is stopped between its last look at the clock and the write that follows, in the
same turn of the loop, and for longer than the margin of its lease, writes one line too late.
"""

import time
from collections.abc import Callable
from functools import partial

__all__ = ["Lease", "suspending_clock"]


def suspending_clock() -> Callable[[], float]:
    """Seconds that pass also while everything sleeps."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if (
        boottime is None
    ):  # macOS: its monotonic clock may stand still in sleep; there, leases are for trying out
        return time.monotonic
    return partial(time.clock_gettime, boottime)  # looked at for every call: no step that is none


class Lease:
    """Of one incarnation of a replica."""

    __slots__ = ("_clock", "_span_s", "until")

    def __init__(self, span_s: float, clock: Callable[[], float]) -> None:
        self._span_s = span_s
        self._clock = clock
        self.until = 0.0
        """For whoever looks at it with every call: by the clock that counts."""

    def now(self) -> float:
        """By the clock that counts: the moment from which a renewal counts, if it succeeds."""
        return self._clock()

    def renewed(self, asked_at: float) -> None:
        """Whoever keeps it has said so to a question of that moment. Never shortens it."""
        self.until = max(self.until, asked_at + self._span_s)

    def lapse(self) -> None:
        """It is known to be lost."""
        self.until = 0.0

    @property
    def holds(self) -> bool:
        """May its holder act?"""
        return self._clock() < self.until

    @property
    def left_s(self) -> float:
        """How long it goes on if nobody renews it."""
        return max(0.0, self.until - self._clock())
