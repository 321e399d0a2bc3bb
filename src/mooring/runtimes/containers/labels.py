"""Whose container it is, written on the container itself: by these labels, and by nothing else, it is ours.

owner        which Mooring, across its lives: the same after a restart or a kill, another for another one
life         which life of that Mooring: a nonce, never the same for two processes
process      the process that this life was, for whoever wants to know whether it has ended
workload     the name of the server
generation   of the workload

None of them holds a value of a variable: labels are shown to everybody who may list containers.
"""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["PREFIX", "Owned", "Owner", "labels_of", "owned", "owner_filter"]

PREFIX = "dev.mooring."
MOST_DIGITS = 18
"""Of a generation: whoever can make containers can write labels."""


class Owner(NamedTuple):
    """A Mooring that has containers."""

    id: str
    life: str
    process: str = ""
    """As `lives.this_process` writes it, where that is known."""


class Owned(NamedTuple):
    """What the labels of a container say."""

    owner: Owner
    workload: str
    generation: int


def labels_of(owned: Owned) -> dict[str, str]:
    """As they are put on a container."""
    return {
        f"{PREFIX}owner": owned.owner.id,
        f"{PREFIX}life": owned.owner.life,
        f"{PREFIX}process": owned.owner.process,
        f"{PREFIX}workload": owned.workload,
        f"{PREFIX}generation": str(owned.generation),
    }


def owned(labels: Mapping[str, str] | None) -> Owned | None:
    """Whose it is by its labels; None: nobody's of us."""
    found = labels or {}
    owner, life = found.get(f"{PREFIX}owner", ""), found.get(f"{PREFIX}life", "")
    workload, generation = found.get(f"{PREFIX}workload", ""), found.get(f"{PREFIX}generation", "")
    process = found.get(f"{PREFIX}process")
    is_number = generation.isascii() and generation.isdecimal() and len(generation) <= MOST_DIGITS
    if not owner or not life or process is None or not workload or not is_number:
        return None
    return Owned(Owner(owner, life, process), workload, int(generation))


def owner_filter(owner: str) -> dict[str, list[str]]:
    """For the engine: only containers of that Mooring."""
    return {"label": [f"{PREFIX}owner={owner}"]}
