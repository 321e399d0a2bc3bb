"""How many sessions do the descriptors suffice for?"""

from mooring.runtimes.process import DESCRIPTORS_EACH

__all__ = ["few_descriptors"]

OURS = 64
"""For the listening sockets, the event loop, the guardian, a start under way."""
CONNECTIONS_EACH = 2
"""Of a session: one for its calls, one for a stream."""


def few_descriptors(limit: int, max_sessions: int, spare: int) -> str | None:
    """What to tell if `limit` descriptors are not enough for so many sessions; None if they are."""
    each = DESCRIPTORS_EACH + CONNECTIONS_EACH
    others = OURS + spare * DESCRIPTORS_EACH
    needed = others + max_sessions * each
    if needed <= limit:
        return None
    enough_for = max(0, (limit - others) // each)
    return (
        f"{limit} open files are enough for {enough_for} sessions, not for {max_sessions} (--max-sessions); "
        f"to have more: ulimit -n {needed}, or LimitNOFILE={needed} in a systemd unit"
    )
