"""The revisions of MCP, and what differs between those with a handshake for a bridge.

The one without (2026-07-28) is `wire.modern`; `wire.eras` has what one era says, for ears of the other.
"""

from typing import NamedTuple

__all__ = ["HANDSHAKE_REVISIONS", "LATEST", "MODERN", "SERVED", "Rules", "rules_for"]

MODERN = "2026-07-28"


class Rules(NamedTuple):
    """What a revision allows or wants of a bridge."""

    batches: bool
    """A POST may carry a JSON-RPC batch."""
    priming: bool
    """A stream begins with an event of an id and empty data; older clients choke on it."""


HANDSHAKE_REVISIONS: dict[str, Rules] = {
    "2025-11-25": Rules(batches=False, priming=True),
    "2025-06-18": Rules(batches=False, priming=False),
    "2025-03-26": Rules(batches=True, priming=False),
    "2024-11-05": Rules(batches=False, priming=False),
}
LATEST = "2025-11-25"
SERVED = (MODERN, *HANDSHAKE_REVISIONS)
"""What clients may speak here, whatever the server does: whoever asks is told the same everywhere."""


def rules_for(revision: str) -> Rules:
    """The rules of a revision; of the most cautious one if it is unknown."""
    return HANDSHAKE_REVISIONS.get(revision, HANDSHAKE_REVISIONS["2024-11-05"])
