"""What the descriptors that this process may have suffice for: servers, and connections beside them."""

from mooring.http.limits import Limits
from mooring.runtimes.process import DESCRIPTORS_EACH

__all__ = ["connections_beside_many", "connections_within", "few_descriptors"]

OURS = 64
"""For the listening sockets, the event loop, the guardian, a start under way."""
OVERFLOW = Limits().max_overflow_connections
"""For connections that are told that there are too many."""
CONNECTIONS_EACH = 2
"""Of a session: one for its calls, one for a stream."""


def connections_within(limit: int, servers: int) -> int:
    """The room that `servers` leave; at least half of all, since a server that nobody reaches is no use."""
    return max(1, limit - min(OURS + OVERFLOW + DESCRIPTORS_EACH * servers, limit // 2))


def connections_beside_many(limit: int) -> int:
    """The same for servers whose number nobody knows yet: they get half."""
    return max(1, limit // 2)


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
