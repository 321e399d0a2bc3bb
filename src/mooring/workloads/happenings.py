"""What `mooring events` tells: which changes of a server are worth a line, and its words."""

from enum import StrEnum
from typing import NamedTuple

from mooring.runtimes.exits import Exit
from mooring.supervise.snapshot import Snapshot
from mooring.supervise.states import State

__all__ = ["Happening", "Kind", "exit_happening", "given_up_happening", "state_happening"]


class Kind(StrEnum):
    """Stable: programs match them."""

    STARTED = "started"
    """A generation has begun; whether the server works is not known yet."""
    READY = "ready"
    EXITED = "exited"
    """An instance ended, and nobody had asked it to."""
    BACKOFF = "backoff"
    FAILED = "failed"
    STOPPED = "stopped"
    REPLACED = "replaced"
    """A generation with another definition has begun."""
    REMOVED = "removed"
    REMOVED_OUTSIDE = "removed_outside"
    """Somebody has removed a container of it, and not by Mooring: the server ends."""
    GIVEN_UP = "given_up"
    """An instance runs on and is of no use: it is stopped."""
    SESSION_LOST = "session_lost"
    """A client came with a session that is not known any more, and was told so."""
    CLIENTS = "clients"
    """Its entries in the files of AI clients were changed, could not be, or do not stand as they should."""
    LEFTOVER_ENDED = "leftover_ended"
    """A process of a killed Mooring was still there."""
    DAEMON_STARTED = "daemon_started"
    DAEMON_RECOVERED = "daemon_recovered"
    """The one before had no time to say that it ends."""
    DAEMON_TOOK_OVER = "daemon_took_over"
    """The one before handed everything over to it."""
    DAEMON_ENDED = "daemon_ended"


class Happening(NamedTuple):
    """Something that happened."""

    kind: Kind
    text: str


def state_happening(seen: Snapshot, before: State) -> Happening | None:
    """What a change of state has to tell, if anything."""
    if seen.state is before:
        return None
    if seen.state is State.READY:
        return Happening(Kind.READY, "it works again" if seen.restarts else "it works")
    if seen.state is State.BACKOFF:
        attempt = f"attempt {seen.attempt} of {seen.attempts}"
        return Happening(Kind.BACKOFF, f"restarting in {seen.retry_in_s or 0:.0f} s, {attempt}")
    if seen.state is State.FAILED:
        hint = f" ({seen.reason.hint})" if seen.reason.hint else ""
        return Happening(Kind.FAILED, f"{seen.reason.text}{hint}")
    return None


def exit_happening(title: str, exit: Exit, ran_s: float) -> Happening:
    """An unasked exit of the instance with that title."""
    return Happening(Kind.EXITED, f"{title}: {exit}, after {ran_s:.1f} s")


def given_up_happening(title: str, reason: str) -> Happening:
    """An instance that does not do its part."""
    return Happening(Kind.GIVEN_UP, f"{title}: {reason}")
