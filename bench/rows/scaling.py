"""What a call costs Mooring however many sessions there are.

One call at a time, each to another session than the last: every call then is the same work. With more in
flight, one session's answers would come several to a read, and one session would look cheaper than many for
that alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.generator import generator
from bench.measuring import Figures, Group, Plan, Probe
from bench.results import MOORING
from bench.targets import native_child, serving

__all__ = ["GROUPS", "SESSIONS"]

SESSIONS = (1, 32, 100, 300, 1000)


@contextmanager
def _cost(sessions: int) -> Iterator[Callable[[], Figures]]:
    def window() -> Figures:
        found = load()
        return Figures({f"cost_{sessions}": found.proxy_cpu_s / found.calls * 1e6})

    with (
        serving(MOORING, native_child()) as running,
        generator(running, "-s", str(sessions), "-d", "1") as load,
    ):
        yield window


def _probes(plan: Plan) -> Iterator[Probe]:
    # A Mooring for each number of sessions, all there at once, so that they too are measured in turn.
    for target in plan.among(MOORING):
        for sessions in SESSIONS:
            yield Probe(target, (f"cost_{sessions}",), _cost(sessions))


GROUPS = (Group(tuple(f"cost_{sessions}" for sessions in SESSIONS), _probes, windows=5),)
