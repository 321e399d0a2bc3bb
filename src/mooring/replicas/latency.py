"""How long Redis takes: plain counts, read by `/metrics`."""

from bisect import bisect_left

__all__ = ["BUCKETS_S", "Latency"]

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 2.0)
"""A command in the same network takes less than a millisecond, and none may take longer than the last one."""


class Latency:
    """Of all that was asked."""

    __slots__ = ("buckets", "failures", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0
        self.failures = 0

    def took(self, seconds: float) -> None:
        """It was answered, refused or given up."""
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds
