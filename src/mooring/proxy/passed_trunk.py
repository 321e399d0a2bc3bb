"""An instance that many use, on its way to another Mooring: for whom it is, and what was said to it."""

from typing import NamedTuple

from msgspec import Struct

__all__ = ["LEASED", "MODERN", "NOBODY", "POOLED", "SEAT", "SHARED", "PassedTrunk", "Purpose"]

SHARED = "shared"
"""Everybody's (`--shared`)."""
POOLED = "pooled"
"""A handshake server's, for requests that can be asked nothing."""
LEASED = "leased"
"""The same, for one request at a time that can be."""
MODERN = "modern"
"""Of a server of 2026-07-28, for requests."""
SEAT = "seat"
"""The same, for one session of a handshake client: it goes with that session."""


class Purpose(NamedTuple):
    """Whom an instance is for: it goes to nobody else."""

    kind: str
    principal: str = ""
    capabilities: bytes = b"{}"
    """What it was told that can be asked of its client."""

    @property
    def is_common(self) -> bool:
        """Many may have calls on it at once."""
        return self.kind in (SHARED, POOLED, MODERN)


NOBODY = Purpose("nobody")
"""What its instance still does is for nobody else to hear."""


class PassedTrunk(Struct, array_like=True):
    """See `Trunk`."""

    name: str
    purpose: Purpose
    initialize_result: bytes
    repeatable: dict[str, bool]
    numbers: int
    """So many calls have had one; none is used twice."""
    strays: list[int]
    listeners: list[int]
    """Calls that have no end of their own, and nobody waits for any more."""
    log_level: str | None
