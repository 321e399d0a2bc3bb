"""What the kernel says of processes, and their end."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Process", "cpu_s", "descendants", "end", "rss_bytes"]

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
GRACE_S = 10.0
"""From SIGTERM to SIGKILL."""


class Process(NamedTuple):
    """One process; its start tells it from another that got its number later."""

    pid: int
    parent: int
    started: int
    cpu_s: float
    argv: tuple[str, ...]


def _read(pid: int) -> Process | None:
    try:
        # The name, in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        argv = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) * TICK_S
    return Process(pid, int(fields[1]), int(fields[19]), cpu_s, tuple(argv))


def descendants(pid: int) -> list[Process]:
    """The process and everything below it; empty if it has ended."""
    table = [process for name in os.listdir("/proc") if name.isdigit() and (process := _read(int(name)))]  # noqa: PTH208
    found = [process for process in table if process.pid == pid]
    for process in found:
        found += [below for below in table if below.parent == process.pid]
    return found


def cpu_s(processes: Sequence[Process]) -> float:
    """User and system time that they have used so far."""
    return sum(now.cpu_s for process in processes if (now := _read(process.pid)))


def rss_bytes(pid: int) -> int:
    """Resident memory of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process of ours and whatever it leaves behind."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    # Servers see the end of their input when their proxy ends, and get a moment to leave by themselves.
    deadline = time.monotonic() + 1.0
    while (left := [one for one in below if _lives(one)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    for one in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)
    process.wait()


def _lives(process: Process) -> bool:
    now = _read(process.pid)
    # One that has ended and was not reaped yet has no argv any more.
    return now is not None and now.started == process.started and bool(now.argv)
