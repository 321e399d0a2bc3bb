"""What Mooring takes as a daemon: with servers that nobody uses, and with servers that do not work."""

import time

from bench.daemon import Daemon, daemon
from bench.installed import mooring_program, mooring_python
from bench.measuring import Figures
from bench.processes import cpu_s, descendants, rss_bytes
from bench.results import MOORING
from bench.rows.fresh import from_scratch
from bench.rows.starting import run_s
from bench.targets import python_child

__all__ = ["GROUPS"]

IDLE = 20
BROKEN = 200
QUITTER = ["false"]
SETTLE_S = 2.0
"""Processes that were told to end have ended, and what they took is free."""
LS_RUNS = 15
CRASHING_S = 20.0


def _idle(_: str) -> Figures:
    """Servers as people have them, ready and not in use; and how long it takes to list them."""
    with daemon() as found:
        found.run("idle-0", python_child())
        with_one = _at_rest(found)
        for n in range(1, IDLE):
            found.run(f"idle-{n}", python_child())
        with_all = _at_rest(found)
        values = {
            "rss_daemon": rss_bytes(found.process.pid) / 1e6,
            "idle_processes": (with_all - with_one) / (IDLE - 1),
            "ls": _ls_ms(found),
        }
        return Figures(values, {"rss_daemon": f"{with_all} processes beside it"})


def _at_rest(found: Daemon) -> int:
    """How many processes there are when all servers are ready and let go."""
    found.wait_for("ready")
    time.sleep(SETTLE_S)
    return len(found.processes())


def _ls_ms(found: Daemon) -> float:
    """`mooring ls` more than the bare interpreter that runs it, in turn; the best of each."""
    argvs = [mooring_program(), "ls"], [mooring_python(), "-c", "pass"]
    runs = [tuple(run_s(argv, found.environment) for argv in argvs) for _ in range(LS_RUNS)]
    return (min(ls for ls, _ in runs) - min(bare for _, bare in runs)) * 1000


def _crashing(_: str) -> Figures:
    """Servers that end as soon as they are started, from when each waits to be started again."""
    with daemon() as found:
        for n in range(BROKEN):
            found.run(f"broken-{n}", QUITTER)
        found.wait_for("backoff", "starting", "failed")
        own = [process for process in descendants(found.process.pid) if process.argv != tuple(QUITTER)]
        began, before_s = time.monotonic(), cpu_s(own)
        time.sleep(CRASHING_S)
        spent = (cpu_s(own) - before_s) / (time.monotonic() - began)
    return Figures({"crash_loops": spent * 1000})


GROUPS = (
    from_scratch(
        ("rss_daemon", "idle_processes", "ls"), _idle, windows=1, quick_windows=1, targets=(MOORING,)
    ),
    from_scratch(("crash_loops",), _crashing, windows=1, targets=(MOORING,)),
)
