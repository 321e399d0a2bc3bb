"""What processes exist, and which of them belong to one child of ours.

Only the standard library, and little of it: the guardian runs this file too.

- A process is known by its pid *and* its start time. A pid alone may name somebody else by now.
- Each child leads its own session, so what it started is found by session id. The kernel gives
  no number away that still names a process, a process group or a session: while the leader
  is unreaped, or while its start time is the one we know, whatever is in the session is ours.
- Once the leader is gone its number may come back. Then a process is ours if it was seen in the
  session before, or if its environment does not contradict: it carries our marker, or none can
  be read (it was cleared, or belongs to another user).
- A process that made its own session was detached on purpose and is never found here.
"""

import os
import signal
import sys

__all__ = ["Process", "Session", "find_leader", "in_sessions", "read_process", "start_time"]

_LINUX = sys.platform == "linux"
_PS = ("ps", "-o", "ppid=,pgid=,stat=,lstart=", "-p")
_PS_ALL = ("ps", "-A", "-o", "pid=")


class Process:
    """One process, as it was when it was looked at."""

    __slots__ = ("group", "parent", "pid", "running", "started")

    def __init__(self, pid: int, parent: int, group: int, started: str, running: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.started = started
        """Opaque, without spaces; only to be compared."""
        self.running = running
        """False: it has ended and waits to be reaped."""


def read_process(pid: int) -> Process | None:
    """The process of that number, ended but unreaped ones included."""
    return _read_stat(pid) if _LINUX else _read_ps(pid)


def start_time(pid: int) -> str:
    """Of a child that is not reaped yet."""
    process = read_process(pid)
    return process.started if process else ""


def in_sessions() -> dict[int, list[int]]:
    """Session id → pids. One pass; cheap, because only the numbers are read."""
    found: dict[int, list[int]] = {}
    for pid in _pids_of_proc() if _LINUX else _pids_of_ps():
        try:
            found.setdefault(os.getsid(pid), []).append(pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def find_leader(marker: str) -> Process | None:
    """The child that was started with this marker, if it runs and leads a session.

    What it started has inherited the marker, and may lead a session too; but it is younger.
    """
    led = (read_process(pid) for pid, pids in in_sessions().items() if pid in pids and _carries(pid, marker))
    running = [process for process in led if process is not None and process.running]
    return min(running, key=lambda process: (len(process.started), process.started), default=None)


class Session:
    """What runs in the session that one child leads."""

    def __init__(
        self, leader: int, started: str, marker: str, *, anchored: bool, proof_needed: bool = False
    ) -> None:
        self.leader = leader
        self.started = started
        self.marker = marker
        self.anchored = anchored
        """The leader is our child and not reaped: its number can name nothing else."""
        self.proof_needed = proof_needed
        """The leader may be gone for long: of those found without it, only who carries the marker is ours."""
        self._seen: set[tuple[int, str]] = set()

    def members(self, pids: list[int]) -> list[Process]:
        """Those that run and are proven ours, the leader included; `pids`: what `in_sessions` found here."""
        found = [process for pid in pids if (process := read_process(pid)) and process.running]
        leader = None if self.anchored else read_process(self.leader)
        if leader is not None and leader.started != self.started:
            return []
        if self.anchored or leader is not None:
            self._seen.update((process.pid, process.started) for process in found)
            return found
        return [process for process in found if self._is_ours(process)]

    def signal(self, signum: int, members: list[Process]) -> None:
        """Send a signal to the leader's group and to the members, each once."""
        if self.anchored:
            # One call reaches the whole group, also what it forks meanwhile.
            _signal_group(self.leader, signum)
        for process in members:
            if not (self.anchored and process.group == self.leader):
                _signal_process(process, self.leader, signum)

    def reap_adopted(self, pids: list[int]) -> None:
        """Reap those that ended and were handed to us for want of a parent; process 1 is given such."""
        for pid in pids:
            process = read_process(pid)
            if pid != self.leader and process and not process.running and process.parent == os.getpid():
                os.waitpid(pid, os.WNOHANG)

    def _is_ours(self, process: Process) -> bool:
        if (process.pid, process.started) in self._seen:
            return True
        if _carries(process.pid, self.marker):
            return True
        return not self.proof_needed and not _environment(process.pid)


def _signal_group(group: int, signum: int) -> None:
    try:  # noqa: SIM105 - contextlib is one more import for the guardian
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it, or none whom we may signal


def _signal_process(process: Process, session: int, signum: int) -> None:
    """Signal that very process: looked at again while a descriptor holds on to it."""
    try:
        holder = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        holder = None
    try:
        now = read_process(process.pid)
        if now is None or now.started != process.started or os.getsid(process.pid) != session:
            return
        if holder is None:
            os.kill(process.pid, signum)
        else:
            signal.pidfd_send_signal(holder, signum)
    except (ProcessLookupError, PermissionError):
        pass
    finally:
        if holder is not None:
            os.close(holder)


def _pids_of_proc() -> list[int]:
    # In rising order: what is forked while we look has, but for a wrap-around, a higher number.
    with os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def _read_stat(pid: int) -> Process | None:
    try:
        stat = _read(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The second field is the program's name in brackets and may contain anything.
    fields = stat[stat.rindex(b")") + 2 :].split()
    state, threads = fields[0], int(fields[17])
    # A process whose first thread has ended is shown as a zombie while the others go on.
    running = state not in (b"Z", b"X") or threads > 1
    return Process(pid, int(fields[1]), int(fields[2]), fields[19].decode(), running)


def _carries(pid: int, marker: str) -> bool:
    return marker.encode() in _environment(pid).split(b"\0")


def _environment(pid: int) -> bytes:
    """What it was started with; empty if that cannot be read."""
    try:
        return _read(f"/proc/{pid}/environ")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _pids_of_ps() -> list[int]:
    return [int(word) for word in _run(*_PS_ALL).split()]


def _read_ps(pid: int) -> Process | None:
    fields = _run(*_PS, str(pid)).split(maxsplit=3)
    if len(fields) < 4:
        return None
    parent, group, state, started = fields
    return Process(pid, int(parent), int(group), "_".join(started.split()), not state.startswith(("Z", "X")))


def _run(*argv: str) -> str:
    import subprocess  # noqa: PLC0415 - costs the guardian 10 ms where /proc makes it needless

    return subprocess.run(argv, capture_output=True, text=True, check=False, env=_PS_ENVIRONMENT).stdout


_PS_ENVIRONMENT = {"PATH": "/bin:/usr/bin", "LC_ALL": "C"}
