"""The process that a Mooring is, as labels of its containers name it: has it ended?"""

import contextlib
import os
from pathlib import Path

from mooring.runtimes.proctable import read_process, start_time
from mooring.runtimes.roll import boot_id

__all__ = ["may_live", "this_process"]


def this_process() -> str:
    """For the label `process` of containers that this process starts."""
    return f"{os.getpid()} {start_time(os.getpid())} {boot_id() or '-'} {_namespace()}"


def _namespace() -> str:
    """In which processes have these numbers."""
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return "-"


def may_live(process: str, *, is_running: bool) -> bool:
    """Does the process of that label run, so far as we can know? `is_running`: its container does.

    For those of whom nothing but their end proves that they have ended: Moorings in the foreground, who have
    no lock. Of one whose processes we cannot see, we know nothing. One of another boot was on this machine
    before it went down, or is on another one now that uses the same engine; with the machine its
    containers would have ended, too.
    """
    pid, started, boot, namespace = (*process.split(), "", "", "", "")[:4]
    if not pid.isdecimal():
        return True
    if boot not in ("-", boot_id() or "-"):
        return is_running
    if namespace != _namespace():
        return True
    found = read_process(int(pid))
    return found is not None and found.running and found.started == started
