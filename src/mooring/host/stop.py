"""The wish to end: asked for once, and a second time by whoever cannot wait.

A second request counts only 500 ms after the first: a process group gets some signals twice,
from the terminal and from the parent.
"""

import asyncio
from collections.abc import Callable

__all__ = ["Stop"]

SECOND_AFTER_S = 0.5


class Stop:
    """Given to every long-running command; tests use it in place of signals."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._requested = asyncio.Event()
        self._forced = asyncio.Event()
        self._since = 0.0
        self.cause = ""
        self.last_cause = ""
        """Of whoever asked last, however soon after the first."""

    @property
    def requested(self) -> bool:
        """Someone asked to end."""
        return self._requested.is_set()

    @property
    def forced(self) -> bool:
        """Someone asked again: do not wait for anything any more."""
        return self._forced.is_set()

    def request(self, cause: str) -> None:
        """Ask to end; a second time, to end at once."""
        self.last_cause = cause
        if not self._requested.is_set():
            self.cause = cause
            self._since = self._clock()
            self._requested.set()
        elif self._clock() - self._since >= SECOND_AFTER_S:
            self._forced.set()

    async def wait_requested(self) -> None:
        """Until someone asks."""
        await self._requested.wait()

    async def wait_forced(self, timeout_s: float | None = None) -> bool:
        """Until someone asks again, or for that long; was it asked?"""
        try:
            async with asyncio.timeout(timeout_s):
                await self._forced.wait()
        except TimeoutError:
            pass
        return self.forced
