"""The guardian's program: ends the children of a Mooring process that was killed.

Run by path, as `python -I -S guardian_main.py`, with the read end of a pipe as its stdin whose
write end only Mooring holds. Only the standard library, and little of it. On the pipe:

    +PID START_TIME MARKER      a child was started
    -PID                        it was reaped, and nothing of its session is left

The end of the input is the end of Mooring. Whoever is registered then was not stopped by it:

1. Its stdin has ended together with Mooring; give it a second to leave by itself.
2. SIGTERM to every process of its session; one and a half seconds.
3. SIGKILL, again and again until none is left; two seconds at most.

All of it in less than five seconds. After a clean stop nobody is registered, and it just exits.
"""

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from mooring.runtimes.proctable import Process, Session, in_sessions
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is heavy
    from proctable import Process, Session, in_sessions

__all__ = ["end_sessions", "main", "read_registrations"]

EOF_GRACE_S = 1.0
TERM_GRACE_S = 1.5
KILL_PATIENCE_S = 2.0
LOOK_S = 0.05
READ_BYTES = 4096
"""Some fifty registrations. Larger buffers for so little leave holes: a megabyte after 10,000 of them."""

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    """Guard until the input ends, then end what is left."""
    # Whoever signals everything (a terminal, systemd, a shell's kill 0) means Mooring, which
    # will stop its children; should it not, somebody has to be there still.
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    end_sessions(read_registrations(0))


def read_registrations(descriptor: int) -> list[Session]:
    """Follow the pipe to its end; who is registered then."""
    sessions: dict[int, Session] = {}
    rest = b""
    while data := os.read(descriptor, READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            _register(sessions, line.decode())
    return list(sessions.values())


def _register(sessions: dict[int, Session], line: str) -> None:
    if line.startswith("-"):
        sessions.pop(int(line[1:]), None)
    else:
        pid, started, marker = line[1:].split(" ", 2)
        sessions[int(pid)] = Session(int(pid), started, marker, anchored=False)


def end_sessions(sessions: list[Session]) -> None:
    """The three steps of the module's docstring, for all sessions together."""
    # 1
    if _gone_within(EOF_GRACE_S, sessions):
        return
    # 2
    _signal(sessions, signal.SIGTERM)
    if _gone_within(TERM_GRACE_S, sessions):
        return
    # 3
    deadline = time.monotonic() + KILL_PATIENCE_S
    while _members(sessions) and time.monotonic() < deadline:
        _signal(sessions, signal.SIGKILL)
        time.sleep(LOOK_S)


def _gone_within(seconds: float, sessions: list[Session]) -> bool:
    deadline = time.monotonic() + seconds
    while _members(sessions):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _members(sessions: list[Session]) -> list[tuple[Session, list[Process]]]:
    """Those sessions that still have members, found in one pass over all processes."""
    found = in_sessions()
    pairs = [(session, session.members(found.get(session.leader, []))) for session in sessions]
    return [(session, members) for session, members in pairs if members]


def _signal(sessions: list[Session], signum: int) -> None:
    for session, members in _members(sessions):
        session.signal(signum, members)


if __name__ == "__main__":
    main()
