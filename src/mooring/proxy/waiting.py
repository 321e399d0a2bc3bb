"""Towards the server: lines that cannot be sent yet, in order, and their senders with them.

Bounded in bytes, for each session, and for all together: a sender that does not fit is told so. That,
and a notification's 202 that is held back until its line is on its way, is the back-pressure a
client feels.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mooring.proxy.calls import Call
from mooring.wire.budget import Budget

__all__ = ["MOST_LINES", "Waiting", "WaitingLine"]

MOST_LINES = 4096
"""Of one session: a line takes some hundred bytes beside its own."""


class WaitingLine(NamedTuple):
    """A line, the call it carries, whom to tell when it has been sent, and since when it waits."""

    line: bytes
    call: Call | None = None
    accepted: Callable[[], None] | None = None
    since: float = 0.0
    bound: bool = False
    """It concerns the present instance only; another would take it for something else."""


class Waiting:
    """The queue of one session."""

    __slots__ = ("_bytes", "_in_flight", "_limit", "items")

    def __init__(self, limit_bytes: int, in_flight: Budget) -> None:
        self._limit = limit_bytes
        self._in_flight = in_flight  # has the calls already
        self.items: deque[WaitingLine] = deque()
        self._bytes = 0

    def fits(self, item: WaitingLine) -> bool:
        """One line always fits, whatever its size, more only within the bound; for a line of no call there
        must be room among all sessions too."""
        size = len(item.line)
        if self.items and (self._bytes + size > self._limit or len(self.items) >= MOST_LINES):
            return False
        return item.call is not None or self._in_flight.has_room(size, self._bytes)

    def append(self, item: WaitingLine) -> None:
        """Queue a line."""
        self.items.append(item)
        self._count(item, 1)

    def put_back(self, item: WaitingLine) -> None:
        """Queue a line before all others: it was sent to an instance that is gone."""
        self.items.appendleft(item)
        self._count(item, 1)

    def pop(self) -> WaitingLine:
        """The next line."""
        item = self.items.popleft()
        self._count(item, -1)
        return item

    def _count(self, item: WaitingLine, sign: int) -> None:
        self._bytes += sign * len(item.line)
        if item.call is None:
            self._in_flight.taken_bytes += sign * len(item.line)

    def remove(self, call: Call) -> None:
        """The call need not be sent any more."""
        self._take(lambda item: item.call is call)

    def take_overdue(self, before: float) -> list[WaitingLine]:
        """Lines without a call (calls have a clock of their own) that wait since before that moment."""
        return self._take(lambda item: item.call is None and item.since < before)

    def take_bound(self) -> list[WaitingLine]:
        """Lines for an instance that is gone."""
        return self._take(lambda item: item.bound)

    def take_all(self) -> list[WaitingLine]:
        """Everything, leaving nothing."""
        return self._take(lambda item: True)

    def _take(self, wanted: Callable[[WaitingLine], bool]) -> list[WaitingLine]:
        taken = [item for item in self.items if wanted(item)]
        if taken:
            self.items = deque(item for item in self.items if not wanted(item))
            for item in taken:
                self._count(item, -1)
        return taken
