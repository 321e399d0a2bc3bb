"""How measurements are made: targets in turn, in short windows, the best of several.

A `Probe` is one target made ready for one group of rows. All probes of a group are open at the same time
and measured round robin, so that a moment in which the machine is busy elsewhere hits all of them. The best
window of each is its figure; what two are against each other is asked of each turn (`ratios`). What fails
becomes a dash with its reason; the run goes on.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from bench.results import MEASURES, PYTHON_CHILD, Row, row

__all__ = ["Figures", "Group", "Plan", "Probe", "Progress", "Unable", "measure"]

T = TypeVar("T")

# Where the best window would be a boast, the worst one counts.
WORST = frozenset(
    {
        "generator_share",
        "sigterm_lost",
        "container_error",
        "container_error_podman",
        "replica_commands",
        "replica_commands_elsewhere",
        "replica_batches",
    }
)


class Unable(Exception):
    """This target cannot do this; the text is the note beside its dash."""


class Figures(NamedTuple):
    """What one window found: row id -> value, and remarks, row id -> note."""

    values: Mapping[str, float | None]
    notes: Mapping[str, str] = {}


class Probe(NamedTuple):
    """One target made ready: entering `ready` prepares it, calling what that gives is one window."""

    target: str
    ids: tuple[str, ...]
    ready: AbstractContextManager[Callable[[], Figures]]


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    targets: tuple[str, ...]
    quick: bool = False

    def among(self, *targets: str) -> list[str]:
        """Those of these targets that are measured."""
        return [target for target in self.targets if target in targets]


@dataclass(frozen=True)
class Group:
    """Rows that come from the same windows."""

    ids: tuple[str, ...]
    probes: Callable[[Plan], Iterator[Probe]]
    windows: int
    quick_windows: int = 0
    """0: not part of a quick run, unless asked for."""


class Progress(Protocol):
    """Who is told how far it is."""

    def begin(self, group: Group) -> None: ...

    def step(self, target: str, text: str) -> None: ...

    def end(self, rows: Sequence[Row]) -> None: ...


class _Board:
    """The best so far, and all of it."""

    def __init__(self) -> None:
        self._values: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
        self._notes: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._turns: defaultdict[str, defaultdict[str, list[float | None]]]
        self._turns = defaultdict(lambda: defaultdict(list))
        self._failed: set[Probe] = set()

    def add(self, probe: Probe, figures: Figures) -> None:
        """One window's figures; a note goes with the value that it came with."""
        target = probe.target
        for id, value in figures.values.items():
            self._turns[id][target].append(_rounded(value))
            best = self._values[id].get(target)
            if best is not None and (value is None or not _is_better(id, value, best)):
                continue
            self._values[id][target] = value
            self._notes[id][target] = figures.notes.get(id, "")

    def fail(self, probe: Probe, reason: str) -> None:
        """This probe is measured no more. What it reached before stays."""
        self._failed.add(probe)
        for id in probe.ids:
            before = (
                "" if self._values[id].setdefault(probe.target, None) is None else "a later window failed: "
            )
            self._notes[id][probe.target] = _short(before + reason)

    def has_failed(self, probe: Probe) -> bool:
        return probe in self._failed

    def rows(self, group: Group) -> list[Row]:
        notes = {
            id: {target: note for target, note in some.items() if note} for id, some in self._notes.items()
        }
        return [
            row(id, self._values[id], notes.get(id), self._several_turns(id))
            for id in group.ids
            if id in self._values
        ]

    def _several_turns(self, id: str) -> dict[str, list[float | None]]:
        return {target: turns for target, turns in self._turns[id].items() if len(turns) > 1}


def _is_better(id: str, value: float, best: float) -> bool:
    id = id.removesuffix(PYTHON_CHILD)
    return (value < best) is ((MEASURES[id].better == "lower") is not (id in WORST))


def _rounded(value: float | None) -> float | None:
    """To what a ratio needs: turns are kept in a file that people read."""
    return None if value is None else float(f"{value:.5g}")


def measure(group: Group, plan: Plan, progress: Progress) -> list[Row]:
    """The rows of a group."""
    board = _Board()
    windows = (plan.quick and group.quick_windows) or group.windows
    progress.begin(group)
    with ExitStack() as stack:
        ready: list[tuple[Probe, Callable[[], Figures]]] = []
        for probe in group.probes(plan):
            progress.step(probe.target, "starting")
            if window := _attempt(board, probe, partial(stack.enter_context, probe.ready)):
                ready.append((probe, window))
        for number in range(1, windows + 1):
            for probe, window in ready:
                if board.has_failed(probe):
                    continue
                progress.step(probe.target, f"window {number} of {windows}")
                if figures := _attempt(board, probe, window):
                    board.add(probe, figures)
        progress.step("all", "ending")
    rows = board.rows(group)
    progress.end(rows)
    return rows


def _attempt(board: _Board, probe: Probe, action: Callable[[], T]) -> T | None:
    try:
        return action()
    except Unable as unable:
        board.fail(probe, str(unable))
    except Exception as error:
        board.fail(probe, f"{type(error).__name__}: {error}")
    return None


def _short(text: str, most: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
