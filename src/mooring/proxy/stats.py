"""Counts of what happened: plain integers, read by `/readyz` and `/metrics`."""

from bisect import bisect_left
from typing import Any

__all__ = ["BUCKETS_S", "Stats"]

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Stats:
    """One workload's counts since it started."""

    __slots__ = (
        "calls",
        "calls_failed",
        "calls_retried",
        "duration_buckets",
        "duration_sum_s",
        "junk_lines",
        "sessions_closed",
        "sessions_opened",
        "sessions_recovered",
        "sessions_refused",
    )

    def __init__(self) -> None:
        self.calls = 0
        self.calls_failed: dict[str, int] = {}
        self.calls_retried = 0
        self.duration_buckets = [0] * (len(BUCKETS_S) + 1)
        self.duration_sum_s = 0.0
        self.junk_lines = 0
        self.sessions_opened = 0
        self.sessions_closed = 0
        self.sessions_recovered = 0
        self.sessions_refused = 0

    def dump(self) -> dict[str, Any]:
        """All of them, for another Mooring."""
        return {name: getattr(self, name) for name in self.__slots__}

    def load(self, counts: dict[str, Any]) -> None:
        """What `dump` has told; of those that are known here."""
        for name in self.__slots__:
            setattr(self, name, counts.get(name, getattr(self, name)))

    def answered(self, duration_s: float) -> None:
        """The server answered a call, with a result or with an error of its own."""
        self.duration_buckets[bisect_left(BUCKETS_S, duration_s)] += 1
        self.duration_sum_s += duration_s

    def failed(self, reason: str) -> None:
        """A call was answered by us, with an error."""
        self.calls_failed[reason] = self.calls_failed.get(reason, 0) + 1
