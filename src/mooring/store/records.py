"""What the store keeps, as values. `definition` and `memory` are JSON of whoever made them."""

from enum import StrEnum
from typing import NamedTuple

__all__ = ["Desired", "Era", "Event", "Owner", "Session", "Workload"]


class Desired(StrEnum):
    """What the user wants of a workload; what it does is asked, not stored."""

    RUNNING = "running"
    STOPPED = "stopped"


class Owner(NamedTuple):
    """Who may write. Known by a random nonce; pid and boot are for people."""

    nonce: str
    pid: int
    boot: str
    since: float


class Workload(NamedTuple):
    """A named server as it was asked for."""

    name: str
    generation: int
    definition: bytes
    desired: Desired
    created_at: float
    changed_at: float
    origin: str = ""
    """The file that it was made from; empty if somebody asked for it alone."""
    why_stopped: str = ""
    """A code of whoever has stopped it; empty: somebody asked for that."""

    @property
    def is_stopped(self) -> bool:
        """It is not to run."""
        return self.desired is Desired.STOPPED


class Session(NamedTuple):
    """What a session needs to go on with another instance, or another Mooring."""

    id: str
    name: str
    principal: str
    transport: str
    client: str
    memory: bytes
    opened_at: float
    used_at: float


class Era(NamedTuple):
    """Which era the server of a command speaks, as it was when it said to be of this version."""

    command: str
    version: str
    discovery: bytes
    """Empty: that of handshakes."""


class Event(NamedTuple):
    """Something that happened to a workload."""

    number: int
    at: float
    name: str
    generation: int
    kind: str
    text: str
