"""What a call costs Mooring in each way it can serve: across eras, one server for all, as a daemon, or not.

A Mooring for each way, all there at once and measured in turn, so that their figures can be compared.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

from bench.daemon import served_by_daemon
from bench.generator import generator
from bench.measuring import Figures, Group, Plan, Probe
from bench.results import MOORING
from bench.targets import SHARED, Argv, Running, modern_child, native_child, serving

__all__ = ["GROUPS"]

CONNECTIONS = ("-c", "32")
SESSIONS = ("-s", "32")
MODERN = ("-m",)
"""The client speaks 2026-07-28."""


class Way(NamedTuple):
    """Which server, how Mooring runs, and what the client does."""

    id: str
    child: Callable[[], Argv]
    options: tuple[str, ...] = ()
    served: Callable[[Argv], AbstractContextManager[Running]] = partial(serving, MOORING)


WAYS = (
    Way("cpu_handshake", native_child),
    Way("cpu_to_modern", modern_child),
    Way("cpu_modern", modern_child, MODERN),
    Way("cpu_to_handshake", native_child, MODERN),
    Way("cpu_32s", native_child, SESSIONS),
    Way("cpu_shared", native_child, SESSIONS, partial(serving, SHARED)),
    Way("cpu_daemon", native_child, served=served_by_daemon),
)


@contextmanager
def _ready(way: Way, plan: Plan) -> Iterator[Callable[[], Figures]]:
    def window() -> Figures:
        found = load()
        return Figures({way.id: found.proxy_cpu_s / found.calls * 1e6})

    seconds = "0.5" if plan.quick else "1"
    with (
        way.served(way.child()) as running,
        generator(running, *CONNECTIONS, "-d", seconds, *way.options) as load,
    ):
        yield window


def _probes(plan: Plan) -> Iterator[Probe]:
    for target in plan.among(MOORING):
        for way in WAYS:
            yield Probe(target, (way.id,), _ready(way, plan))


GROUPS = (Group(tuple(way.id for way in WAYS), _probes, windows=5, quick_windows=4),)
