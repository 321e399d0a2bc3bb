"""What an engine tells of a container, as a value. Pure.

Docker and Podman have different words for some of it; here there is one for each. An event only says where to
look: what is the case is asked (`states`), since events may come late, or not at all.
"""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["Event", "Happened", "read_event"]


class Happened(StrEnum):
    """What matters to us."""

    STARTED = "started"
    MEDDLED = "meddled"
    """Somebody has asked for its end or its restart; if it was not us, it was somebody else.

    Not if it began with SIGKILL: so begins no restart. SIGHUP, SIGUSR1 and their like ask for something else.
    """
    DIED = "died"
    REMOVED = "removed"
    PAUSED = "paused"
    UNPAUSED = "unpaused"
    OUT_OF_MEMORY = "out_of_memory"


_ACTIONS = {
    "start": Happened.STARTED,
    "kill": Happened.MEDDLED,
    "stop": Happened.MEDDLED,
    "restart": Happened.MEDDLED,
    "die": Happened.DIED,
    "died": Happened.DIED,
    "destroy": Happened.REMOVED,
    "remove": Happened.REMOVED,
    "pause": Happened.PAUSED,
    "unpause": Happened.UNPAUSED,
    "oom": Happened.OUT_OF_MEMORY,
}
_SIGNALS = ("", "2", "INT", "3", "QUIT", "15", "TERM")
"""By which an end is asked for; Podman may not tell which it was."""


class Event(Struct, frozen=True):
    """One of them."""

    container: str
    happened: Happened
    exit_code: int | None = None


def read_event(line: bytes) -> Event | None:
    """What a line says; None: nothing that matters."""
    try:
        said: Any = msgspec.json.decode(line)
        actor = said["Actor"]
        container, action = actor["ID"], said["Action"]
        attributes = actor.get("Attributes") or {}
        happened = _ACTIONS.get(action)
        code = attributes.get("exitCode", "")
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return None
    if happened is None or not isinstance(container, str):
        return None
    if action == "kill" and str(attributes.get("signal", "")).removeprefix("SIG") not in _SIGNALS:
        return None
    is_exit = happened is Happened.DIED and isinstance(code, str) and code.isdecimal()
    return Event(container, happened, int(code) if is_exit else None)
