"""Clients that came with a session which is not known here any more: told to whoever can help them.

A client that does not open a new session by itself asks again and again: that is told at once, then at most once
in `EVERY_S`, and the last time of a burst is told too. Requests that find their session pay nothing.
"""

import asyncio
import math
from collections.abc import Callable

__all__ = ["LostSessions"]

EVERY_S = 10.0


class LostSessions:
    """Of one workload."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.on_lost: Callable[[], None] = _nothing
        self._clock = clock
        self._not_before = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def note(self) -> None:
        """A client was told that there is no such session."""
        wait_s = self._not_before - self._clock()
        if wait_s <= 0:
            self._tell()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tell)

    def _tell(self) -> None:
        self.close()
        self._not_before = self._clock() + EVERY_S
        self.on_lost()

    def close(self) -> None:
        """Nobody is told any more of what was noted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    pass
