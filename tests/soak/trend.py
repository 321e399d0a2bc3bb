"""Does it grow? A straight line through the samples under load, and a comparison of two rests.

Memory is judged by its lower edge: what was freed is kept for a while, so that up to 8 MiB come and go
(docs/adr/0010). A leak lifts that edge like everything else.

What may grow under load is stated as the rise of the line over the whole span: the noise of samples
does not shrink with a shorter span, so the shorter it was the steeper a minute may be.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tests.soak.sampling import Sample

__all__ = ["AT_REST", "UNDER_LOAD", "Line", "Rest", "Trend", "fit", "line_of", "rests", "trends"]

UNDER_LOAD = {
    "rss_mib": 3.0,
    "guardian_mib": 0.5,
    "descriptors": 12.0,
    "threads": 1.0,
    "processes": 5.0,
    "tasks": 5.0,
    "objects": 10_000.0,
    "sessions": 5.0,
    "connections": 8.0,
}
"""Series → what its line may rise over the span. `held_mib` is not judged there: it explains the RSS."""
AT_REST = {
    "rss_mib": 3.0,
    "guardian_mib": 0.5,
    "descriptors": 2.0,
    "threads": 0.0,
    "processes": 0.0,
    "tasks": 2.0,
    "objects": 5_000.0,
    "connections": 0.0,
    "held_mib": 0.1,
}
"""Series → how much more there may be at the later rest. Sessions that sleep are bounded by their limit."""

SIGMAS = 2
EDGE_SAMPLES = 5
"""The least of so many in a row is one point of the lower edge."""


@dataclass(frozen=True)
class Line:
    """y = level + slope · x."""

    level: float
    slope: float
    error: float = 0.0
    """The standard error of the slope."""

    def at(self, x: float) -> float:
        return self.level + self.slope * x


def fit(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """The line of least squares; flat if all points lie at one x."""
    x_mean, y_mean = fmean(xs), fmean(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    if not spread:
        return Line(y_mean, 0.0)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread
    line = Line(y_mean - slope * x_mean, slope)
    misses = sum((y - line.at(x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return replace(line, error=math.sqrt(misses / max(1, len(xs) - 2) / spread))


def line_of(samples: Sequence[Sample], series: str) -> Line:
    """Of one series, over minutes."""
    points = _lower_edge(samples) if series == "rss_mib" else samples
    return fit([sample.at_s / 60 for sample in points], [getattr(sample, series) for sample in points])


def _lower_edge(samples: Sequence[Sample]) -> list[Sample]:
    """The leanest of each few in a row; all of them if there are only a few."""
    if len(samples) < 4 * EDGE_SAMPLES:
        return list(samples)
    rows = (samples[n : n + EDGE_SAMPLES] for n in range(0, len(samples), EDGE_SAMPLES))
    return [min(row, key=lambda sample: sample.rss_mib) for row in rows]


@dataclass(frozen=True)
class Trend:
    """How one series of one target went under load."""

    target: str
    series: str
    first: float
    last: float
    slope: float
    """A minute."""
    error: float
    allowed: float
    """A minute."""

    @property
    def grows(self) -> bool:
        """More than allowed, beyond what the scatter of the samples explains."""
        return self.slope - SIGMAS * self.error > self.allowed

    def __str__(self) -> str:
        return (
            f"{self.target:8} {self.series:13} {self.first:9.2f} → {self.last:9.2f}"
            f"  {self.slope:+9.4f} ± {self.error:.4f} a minute (allowed {self.allowed:.4f})"
            + ("  GROWS" if self.grows else "")
        )


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Of each series of one target's samples, all taken under the same load."""
    begin, end = samples[0].at_s / 60, samples[-1].at_s / 60
    found = []
    for series, rise in UNDER_LOAD.items():
        line = line_of(samples, series)
        allowed = rise / (end - begin) if end > begin else math.inf
        found.append(
            Trend(samples[0].target, series, line.at(begin), line.at(end), line.slope, line.error, allowed)
        )
    return found


@dataclass(frozen=True)
class Rest:
    """One series of one target at two rests."""

    target: str
    series: str
    before: float
    after: float
    allowed: float

    @property
    def grows(self) -> bool:
        return self.after - self.before > self.allowed

    def __str__(self) -> str:
        return (
            f"{self.target:8} {self.series:13} {self.before:9.2f} → {self.after:9.2f}"
            f"  (allowed +{self.allowed:g})" + ("  GROWS" if self.grows else "")
        )


def rests(before: Sequence[Sample], after: Sequence[Sample]) -> list[Rest]:
    """The means of one target's samples, at the earlier and at the later rest."""

    def mean(samples: Sequence[Sample], series: str) -> float:
        return fmean(getattr(sample, series) for sample in samples)

    return [
        Rest(before[0].target, series, mean(before, series), mean(after, series), allowed)
        for series, allowed in AT_REST.items()
    ]
