"""A container that is passed from one Mooring to the next: what is told of it, and its connection.

The connection itself goes, by its descriptor: the container notices nothing, whichever the engine. Attaching
anew would not do: Podman ends a container's stdin with what was attached to it, and so does Docker here (see
adr/0015).
"""

from typing import NamedTuple

from msgspec import Struct

__all__ = ["ContainerPassport", "PassedContainer"]


class ContainerPassport(Struct, array_like=True):
    """What is told of it."""

    id: str
    life: str
    """When it was started, as the engine tells it: with the id, it names this very life."""
    pid: int
    started_at: float
    """By the system's monotonic clock, which all processes share."""
    frames: bytes
    """How far the frames of its output were read."""
    stdout: bytes
    """What was read of it and heard by nobody."""
    stderr: bytes
    is_paused: bool = False


class PassedContainer(NamedTuple):
    """The same with its descriptor."""

    about: ContainerPassport
    descriptors: tuple[int, ...]
