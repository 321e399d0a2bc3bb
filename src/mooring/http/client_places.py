"""How many connections there may be at once; whoever waits for one is served in order."""

import asyncio
from collections import deque

__all__ = ["Places"]


class Places:
    """As a semaphore, of which one can also be had without waiting."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def taken(self) -> int:
        """How many are in use."""
        return self._count - self._free

    def take_now(self) -> bool:
        """Take one if it is free."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Take one, when it is free and all have theirs who came before."""
        if self.take_now():
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.give_back()  # it came at the same moment
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def give_back(self) -> None:
        """It is the next one's, or free."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
