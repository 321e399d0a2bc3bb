"""What changed since the last recorded run.

    changes = compare(old, new)
    for change in worse(changes): ...

Figures of one machine move from run to run without any change of the code. Each unit has the band
within which two figures count as the same: wide for times and rates, narrow for what noise hardly
moves. The minimal bridge is the witness: where it changed as much, it was the machine.
"""

from typing import Literal, NamedTuple

from bench.results import MINIMAL, MOORING, Results, Row

__all__ = ["BANDS", "Change", "Verdict", "compare", "other_machine", "worse"]

Verdict = Literal["worse", "better", "tie", "gone", "new"]

# Unit -> the share by which a figure may differ and still be a tie. The CPU of the load generator, in %,
# has none: it says nothing about Mooring.
BANDS = {
    "ms": 0.15,
    "s": 0.15,
    "calls/s": 0.15,
    "events/s": 0.15,
    "×": 0.15,
    "µs": 0.05,
    "MB": 0.05,
    "KiB": 0.05,
    "instructions": 0.02,
    "ms/s": 0.15,
    "calls": 0.0,
    "processes": 0.0,
    "commands": 0.5,
    "batches": 0.5,
}

# What a figure depends on beside the code.
_SURROUNDINGS = ("cores", "cpu", "kernel", "python")


class Change(NamedTuple):
    """One row of Mooring's, then and now. A call that is slower is worse, and so is more memory.

    `factor` is the new figure over the old one, `witness` the same of the minimal bridge; None where
    either run has no figure, or a zero.
    """

    row: Row
    verdict: Verdict
    old: float | None
    new: float | None
    factor: float | None
    witness: float | None


def compare(old: Results, new: Results) -> list[Change]:
    """How Mooring did in each row of the new run against the old one; then what the new run lacks."""
    changes = [_change(old.row(row.id), row) for row in new.rows]
    missing = [_change(row, None) for row in old.rows if new.row(row.id) is None]
    return [change for change in [*changes, *missing] if change is not None]


def worse(changes: list[Change]) -> list[Change]:
    """What got worse, or is not measured any more, the worst first."""
    bad = [change for change in changes if change.verdict in ("worse", "gone")]
    return sorted(bad, key=_distance, reverse=True)


def other_machine(old: Results, new: Results) -> list[str]:
    """How the surroundings differ, in words; with any of these, times of the two runs mean little."""
    return [
        f"{what}: {old.machine.get(what)} → {new.machine.get(what)}"
        for what in _SURROUNDINGS
        if old.machine.get(what) != new.machine.get(what)
    ]


def _change(old: Row | None, new: Row | None) -> Change | None:
    row = new or old
    if row is None or row.unit not in BANDS:
        return None
    before, after = _value(old, MOORING), _value(new, MOORING)
    if before is None and after is None:
        return None
    witness = _factor(_value(old, MINIMAL), _value(new, MINIMAL))
    return Change(row, _verdict(row, before, after), before, after, _factor(before, after), witness)


def _value(row: Row | None, target: str) -> float | None:
    return None if row is None else row.values.get(target)


def _factor(before: float | None, after: float | None) -> float | None:
    return after / before if before and after else None


def _distance(change: Change) -> float:
    return float("inf") if change.factor is None else max(change.factor, 1 / change.factor)


def _verdict(row: Row, before: float | None, after: float | None) -> Verdict:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    if abs(after - before) <= BANDS[row.unit] * min(before, after):
        return "tie"
    return "worse" if (after > before) == (row.better == "lower") else "better"
