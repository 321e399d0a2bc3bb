"""The usual group: every target under the load generator, each window turned into figures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.generator import Window, generator
from bench.measuring import Figures, Group, Plan, Probe
from bench.results import PYTHON_CHILD
from bench.targets import endpoint, native_child, python_child

__all__ = ["Reading", "under_load"]

Reading = Callable[[str, Window], Figures]
"""What a window of that target says."""


def under_load(
    ids: tuple[str, ...],
    reading: Reading,
    *options: str,
    windows: int,
    quick_windows: int = 0,
    python: bool = False,
) -> Group:
    """All targets with a generator, with these options, aimed at each. `python`: with the Python server."""
    suffix = PYTHON_CHILD if python else ""

    @contextmanager
    def ready(target: str, plan: Plan) -> Iterator[Callable[[], Figures]]:
        child = python_child() if python else native_child()
        seconds = "0.5" if plan.quick else "1"
        with endpoint(target, child) as where, generator(where, "-d", seconds, *options) as window:
            yield lambda: _renamed(reading(target, window()), suffix)

    def probes(plan: Plan) -> Iterator[Probe]:
        for target in plan.targets:
            yield Probe(target, suffixed, ready(target, plan))

    suffixed = tuple(id + suffix for id in ids)
    return Group(suffixed, probes, windows, quick_windows)


def _renamed(figures: Figures, suffix: str) -> Figures:
    values = {id + suffix: value for id, value in figures.values.items()}
    return Figures(values, {id + suffix: note for id, note in figures.notes.items()})
