"""Clients that came with a session which is not known here any more: told to whoever can help them.

A client that does not open a new session by itself asks again and again, often twice at once (a call and a
stream): it is told at most once in `EVERY_S`, and while that goes on more and more seldom, so that a server's
history has room for other things. Requests that find their session pay nothing.
"""

import math
from collections.abc import Callable

__all__ = ["LostSessions"]

EVERY_S = 10.0
SELDOM_S = 60.0


class LostSessions:
    """Of one workload."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.on_lost: Callable[[], None] = _nothing
        self._clock = clock
        self._not_before = -math.inf
        self._wait_s = EVERY_S

    def note(self) -> None:
        """A client was told that there is no such session."""
        now = self._clock()
        if now < self._not_before:
            return
        goes_on = now < self._not_before + SELDOM_S
        self._wait_s = min(2 * self._wait_s, SELDOM_S) if goes_on else EVERY_S
        self._not_before = now + self._wait_s
        self.on_lost()


def _nothing() -> None:
    pass
