"""Towards the server: lines that cannot be sent yet, in order, and their senders with them.

Bounded in bytes: a sender that does not fit is told so. That, and a notification's 202 that
is held back until its line is on its way, is the back-pressure a client feels.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mooring.proxy.calls import Call

__all__ = ["Waiting", "WaitingLine"]


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

    __slots__ = ("_bytes", "_limit", "items")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self.items: deque[WaitingLine] = deque()
        self._bytes = 0

    def fits(self, line: bytes) -> bool:
        """One line always fits, whatever its size; more only within the bound."""
        return not self.items or self._bytes + len(line) <= self._limit

    def append(self, item: WaitingLine) -> None:
        """Queue a line."""
        self.items.append(item)
        self._bytes += len(item.line)

    def put_back(self, item: WaitingLine) -> None:
        """Queue a line before all others: it was sent to an instance that is gone."""
        self.items.appendleft(item)
        self._bytes += len(item.line)

    def pop(self) -> WaitingLine:
        """The next line."""
        item = self.items.popleft()
        self._bytes -= len(item.line)
        return item

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
            self._bytes -= sum(len(item.line) for item in taken)
        return taken
