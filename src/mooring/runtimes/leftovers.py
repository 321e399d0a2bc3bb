"""Ending what a killed Mooring has left, when the next one starts: whoever is on the roll and still there.

Usually nobody is: the guardian of the dead one ends its children. It may have been killed too, or still be at
it, and of a child that had just been started it does not know.

Nobody else is touched. A process counts if it is in the session of one who is on the roll: by pid and start
time of the one who leads it, or, once that one is gone, by the marker in its own environment. Each is looked
at again, while a descriptor holds on to it, right before it is signalled (`proctable`).
"""

from collections.abc import Callable
from typing import NamedTuple

from mooring.runtimes import proctable
from mooring.runtimes.guardian_main import end_sessions
from mooring.runtimes.lookout import look_now
from mooring.runtimes.proctable import Session
from mooring.runtimes.roll import Entry, Roll

__all__ = ["Leftover", "end_leftovers", "find_leftovers"]


class Leftover(NamedTuple):
    """What was left of one child."""

    name: str
    """Of the server."""
    pids: tuple[int, ...]
    survivors: tuple[int, ...]
    """Those that could not be ended; they stay on the roll."""


def find_leftovers(roll: Roll) -> list[Leftover]:
    """Whoever is left. Nothing is done about it."""
    return [Leftover(entry.name, pids, pids) for entry in roll.entries() if (pids := _living(roll, entry)[1])]


def end_leftovers(roll: Roll, is_kept: Callable[[str], bool] = lambda marker: False) -> list[Leftover]:
    """End whoever is left, and strike who is gone. Blocks for as long as a guardian may take: 4.5 s.

    `is_kept`: whose marker this is, lives on.
    """
    found: list[tuple[Entry, Session, tuple[int, ...]]] = []
    for entry in [entry for entry in roll.entries() if not is_kept(entry.marker)]:
        session, pids = _living(roll, entry)
        if session is not None and pids:
            found.append((entry, session, pids))
        else:
            roll.strike(entry.marker)
    if found:  # there is a look at all processes in it, even for none
        end_sessions([session for _, session, _ in found])
    leftovers = [Leftover(entry.name, pids, _pids(session)) for entry, session, pids in found]
    for (entry, _, _), leftover in zip(found, leftovers, strict=True):
        if not leftover.survivors:
            roll.strike(entry.marker)
    return leftovers


def _living(roll: Roll, entry: Entry) -> tuple[Session | None, tuple[int, ...]]:
    session = _session(entry) if roll.may_live(entry) else None
    return session, _pids(session) if session is not None else ()


def _session(entry: Entry) -> Session | None:
    """What the entry is about, as far as it can be there still."""
    if entry.pid is not None:
        return Session(entry.pid, entry.started, entry.marker, anchored=False, proof_needed=True)
    leader = proctable.find_leader(entry.marker)
    if leader is None:
        return None
    return Session(leader.pid, leader.started, entry.marker, anchored=False, proof_needed=True)


def _pids(session: Session) -> tuple[int, ...]:
    return tuple(process.pid for process in look_now(session))
