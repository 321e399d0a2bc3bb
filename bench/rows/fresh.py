"""The other usual group: whatever is measured begins with a process of its own in every window."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.measuring import Figures, Group, Plan, Probe
from bench.results import TARGETS

__all__ = ["from_scratch"]


def from_scratch(
    ids: tuple[str, ...],
    window: Callable[[str], Figures],
    *,
    windows: int,
    quick_windows: int = 0,
    targets: tuple[str, ...] = TARGETS,
) -> Group:
    """A group whose windows share nothing. `targets`: those that have such a figure at all."""

    @contextmanager
    def ready(target: str) -> Iterator[Callable[[], Figures]]:
        yield lambda: window(target)

    def probes(plan: Plan) -> Iterator[Probe]:
        for target in plan.targets:
            if target in targets:
                yield Probe(target, ids, ready(target))

    return Group(ids, probes, windows, quick_windows)
