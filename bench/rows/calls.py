"""Small calls: one after another, and many at once."""

import subprocess
from functools import cache

from bench import processes
from bench.client import first_answer
from bench.generator import Window, generator
from bench.measuring import Figures
from bench.programs import build
from bench.results import MOORING, PIPE
from bench.rows.loading import under_load
from bench.targets import Running, free_port

__all__ = ["GROUPS"]

CONNECTIONS = "32"


def _latency(_: str, found: Window) -> Figures:
    return Figures({"seq_p50": found.p50_us / 1000, "seq_p99": found.p99_us / 1000})


def _rate_of_one_session(target: str, found: Window) -> Figures:
    """Calls a second, what each costs, and that it is not the generator that limits them."""
    values: dict[str, float | None] = {"rate_1s": found.rate, "generator_share": found.cpu_share * 100}
    if target != PIPE:
        values["cpu_per_call"] = found.proxy_cpu_s / found.calls * 1e6
    notes = (
        {"generator_share": f"alone it makes {_generator_alone():,.0f} calls/s"} if target == MOORING else {}
    )
    return Figures(values, notes)


def _rate_of_many_sessions(_: str, found: Window) -> Figures:
    return Figures({"rate_32s": found.rate})


@cache
def _generator_alone() -> float:
    """What the generator reaches against a server that does nothing but answer, in C."""
    port = free_port()
    argv = [str(build("responder")), str(port)]
    process = subprocess.Popen(argv, start_new_session=True)
    try:
        first_answer(port)
        with generator(Running(process, port, argv), "-c", CONNECTIONS, "-d", "0.5") as window:
            return max(window().rate for _ in range(3))
    finally:
        processes.end(process)


_ONE = (("rate_1s", "cpu_per_call", "generator_share"), _rate_of_one_session, "-c", CONNECTIONS)
_MANY = (("rate_32s",), _rate_of_many_sessions, "-c", CONNECTIONS, "-s", CONNECTIONS)
_IN_TURN = (("seq_p50", "seq_p99"), _latency)

GROUPS = (
    under_load(*_IN_TURN, windows=5, quick_windows=4),
    under_load(*_ONE, windows=5, quick_windows=4),
    under_load(*_MANY, windows=5, quick_windows=4),
    under_load(*_IN_TURN, windows=3, python=True),
    under_load(("rate_1s", "cpu_per_call"), *_ONE[1:], windows=3, python=True),
    under_load(*_MANY, windows=3, python=True),
)
