"""Resident memory of the proxy process itself; servers and helpers are named beside it."""

from bench.client import first_answer
from bench.generator import generator
from bench.measuring import Figures, Unable
from bench.processes import rss_bytes
from bench.results import MINIMAL, MOORING, PEERS
from bench.rows.fresh import from_scratch
from bench.targets import SHARED, Running, native_child, serving, spawned

__all__ = ["GROUPS", "helpers"]

FEW, MANY = 50, 1000
CALLS = "10000"
MANY_IDS = ("rss_1000", "rss_per_session")


def _megabytes(running: Running) -> float:
    return rss_bytes(running.process.pid) / 1e6


def _company(running: Running) -> str:
    """Who else is there because of the proxy."""
    servers = len(running.servers())
    return f"{servers} server process{'' if servers == 1 else 'es'}{helpers(running)}"


def helpers(running: Running) -> str:
    """The proxy's own other processes, to be said after the number of its servers."""
    found = [process.pid for process in running.own_processes() if process.pid != running.process.pid]
    if not found:
        return ""
    megabytes = sum(map(rss_bytes, found)) / 1e6
    return f", {len(found)} helper{'' if len(found) == 1 else 's'} of {megabytes:.0f} MB"


def _used(target: str) -> Figures:
    """After one call, and after ten thousand."""
    with spawned(target, native_child()) as running:
        first_answer(running.port)
        idle_mb, company = _megabytes(running), _company(running)
        with generator(running, "-c", "32", "-n", CALLS) as load:
            load()
            return Figures({"rss_idle": idle_mb, "rss_10k": _megabytes(running)}, {"rss_idle": company})


def _with_sessions(target: str) -> Figures:
    """With few and then with many sessions in the same process: all open, each called, none busy."""
    with serving(target, native_child()) as running, generator(running, *_sessions(FEW)) as load:
        load()
        few_mb, company = _megabytes(running), _company(running)
        many = _with_many(running, few_mb)
        return Figures({"rss_50": few_mb, **many.values}, {"rss_50": company, **many.notes})


def _with_many(running: Running, few_mb: float) -> Figures:
    try:
        with generator(running, *_sessions(MANY - FEW)) as load:
            load()
            many_mb, company = _megabytes(running), _company(running)
    except Unable as unable:
        return Figures(dict.fromkeys(MANY_IDS), dict.fromkeys(MANY_IDS, str(unable)))
    each_kib = (many_mb - few_mb) * 1e6 / 1024 / (MANY - FEW)
    return Figures({"rss_1000": many_mb, "rss_per_session": each_kib}, {"rss_1000": company})


def _without_sessions(_: str) -> Figures:
    """With many clients that have no sessions: all connected, each called, none busy. One server for all."""
    options = ("-m", "-o", "-c", str(MANY), "-n", str(10 * MANY))
    with serving(SHARED, native_child()) as running, generator(running, *options) as load:
        load()
        return Figures({"rss_1000_stateless": _megabytes(running)}, {"rss_1000_stateless": _company(running)})


def _sessions(number: int) -> tuple[str, ...]:
    return "-s", str(number), "-c", "32", "-n", str(2 * number)


_PROXIES = (MOORING, MINIMAL, *PEERS)

GROUPS = (
    from_scratch(("rss_idle", "rss_10k"), _used, windows=1, quick_windows=1, targets=_PROXIES),
    from_scratch(("rss_50", *MANY_IDS), _with_sessions, windows=1, quick_windows=1, targets=_PROXIES),
    from_scratch(("rss_1000_stateless",), _without_sessions, windows=1, quick_windows=1, targets=(MOORING,)),
)
