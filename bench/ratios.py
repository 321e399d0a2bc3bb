"""Two figures against each other, turn by turn.

A machine that is shared runs now faster, now slower, for a second or for minutes. The best windows of two
targets may then be of different speeds, and their ratio says more about luck than about either. In one turn
both had the same machine: so the ratio is taken in each turn, and of these the median counts.
"""

from statistics import median

from bench.results import MOORING, Row

__all__ = ["advantage", "ratio"]

ENOUGH_TURNS = 3
"""With fewer, the median is no better than the best windows."""


def ratio(row: Row, target: str, other: Row, other_target: str) -> float | None:
    """How many times the other figure it is; both rows are of one group. None: nothing to compare."""
    pairs = zip(row.turns.get(target, ()), other.turns.get(other_target, ()), strict=False)
    ratios = [ours / theirs for ours, theirs in pairs if ours and theirs]
    if len(ratios) >= ENOUGH_TURNS:
        return median(ratios)
    ours, theirs = row.values.get(target), other.values.get(other_target)
    # Nothing real costs nothing: to compare with zero is to compare with a measurement that failed.
    return None if ours is None or not theirs else ours / theirs


def advantage(row: Row, target: str) -> float | None:
    """How many times as good Mooring is there: over 1, Mooring is better, whatever the row's direction.

    None where there is nothing to compare, and for the work of the load generator, which is not Mooring's.
    """
    if not row.values.get(MOORING) or not row.values.get(target) or row.unit == "%":
        return None
    ours, theirs = (target, MOORING) if row.better == "lower" else (MOORING, target)
    return ratio(row, ours, row, theirs)
