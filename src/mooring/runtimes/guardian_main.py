"""The guardian's program: ends the children and the containers of a Mooring process that was killed.

Run by path, as `python -I -S guardian_main.py`, with the read end of a pipe as its stdin whose
write end only Mooring holds. Only the standard library, and little of it. On the pipe:

    +PID START_TIME MARKER      a child was started
    -PID                        it was reaped, and nothing of its session is left
    +@NAME WHERE                a container of that name is about to be made, by the engine at WHERE:
                                the path of its socket, or HOST:PORT
    -@NAME                      it is removed

The end of the input is the end of Mooring. Whoever is registered then was not stopped by it:

1. Its stdin has ended together with Mooring; give it a second to leave by itself.
2. SIGTERM to every process of its session, or to the container; one and a half seconds.
3. SIGKILL, again and again until none is left; two seconds at most.

A container is removed besides, as soon as it has exited (`guardian_containers`). Processes and containers do
not wait for each other. All of it in less than five seconds; only an engine that is busy removing many gets
more time, for as long as it gets on with it. After a clean stop nobody is registered, and it just exits.
"""

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
if TYPE_CHECKING or __package__:
    from mooring.runtimes.proctable import Process, Session, in_sessions
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is heavy
    from proctable import Process, Session, in_sessions

__all__ = ["containers_in", "end_all", "end_sessions", "main", "read_registrations", "sessions_in"]

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
    end_all(read_registrations(0))


def read_registrations(descriptor: int) -> dict[str, str]:
    """Follow the pipe to its end; who is registered then, and what was told of each."""
    registered: dict[str, str] = {}
    rest = b""
    while data := os.read(descriptor, READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            _register(registered, line.decode("utf-8", "surrogateescape"))
    return registered


def _register(registered: dict[str, str], line: str) -> None:
    who, _, what = line[1:].partition(" ")
    if line.startswith("-"):
        registered.pop(who, None)
    else:
        registered[who] = what


def sessions_in(registered: dict[str, str]) -> list[Session]:
    """The children among those who are registered."""
    found = []
    for who, what in registered.items():
        if not who.startswith("@"):
            started, _, marker = what.partition(" ")
            found.append(Session(int(who), started, marker, anchored=False))
    return found


def containers_in(registered: dict[str, str]) -> dict[str, str]:
    """The containers among them: name → where its engine is."""
    return {who[1:]: where for who, where in registered.items() if who.startswith("@")}


def end_all(registered: dict[str, str]) -> None:
    """The three steps of the module's docstring, for whoever is registered."""
    containers, ending = containers_in(registered), None
    try:
        if containers:
            ending = _begin_to_end(containers)
    finally:  # children are ended even where no thread can be had
        end_sessions(sessions_in(registered))
    if ending is not None:
        ending.join()


def _begin_to_end(containers: dict[str, str]) -> "Thread":
    """In a thread, which ends within the bounds of the three steps."""
    leave_by = time.monotonic() + EOF_GRACE_S
    from threading import Thread  # noqa: PLC0415 - more than all else, and of no use while it waits

    if TYPE_CHECKING or __package__:
        from mooring.runtimes.guardian_containers import end_containers  # noqa: PLC0415 - the same
    else:
        from guardian_containers import end_containers  # noqa: PLC0415 - the same

    bounds = (leave_by, leave_by + TERM_GRACE_S, KILL_PATIENCE_S)
    ending = Thread(target=end_containers, args=(containers, *bounds), daemon=True)
    ending.start()
    return ending


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
