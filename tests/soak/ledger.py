"""What became of every call, and what we did that explains the calls without an answer.

A call that failed is explained by a disturbance of ours that can have that effect and fell into the
time of the call. Whatever is not explained so is a failure of the soak.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Disturbance", "Failed", "Ledger", "Over"]

T = TypeVar("T")

KILL, TOO_MANY_KILLS, SIGTERM, SIGKILL = "kill", "kill too many", "sigterm", "sigkill"
KILLS = frozenset({KILL, TOO_MANY_KILLS})
RESTARTS = frozenset({SIGTERM, SIGKILL})
EXPLAINED_BY = {
    # Told by Mooring: JSON-RPC errors by their `data.reason`, refusals by status and reason.
    "server_exited": KILLS,
    "bad_answer": KILLS,  # killed in the middle of its answer
    "server_unavailable": frozenset({TOO_MANY_KILLS}),
    "503 waiting_to_restart": frozenset({TOO_MANY_KILLS}),
    "shutting_down": frozenset({SIGTERM}),  # it waited for a server in a back-off, which is not waited out
    "503 shutting_down": frozenset({SIGTERM}),
    "404 session_not_found": RESTARTS,
    # Seen by the client.
    "connection refused": RESTARTS,
    "connection lost": RESTARTS,
    "stream ended": RESTARTS,
}
"""Cause → the disturbances that can have it. A cause that is not here is never explained."""
SESSION_GOES_ON = frozenset({"server_exited", "bad_answer", "server_unavailable"})
"""After these the same session is used again: that it survives is the promise."""
AFTERMATH_S = 5.0
"""How long after a disturbance its effects may be seen, on a machine that is busy."""
NO_WORD = frozenset({"connection refused", "connection lost"})
UNDER_WAY_S = 0.5
"""A call begun so long before SIGTERM has reached Mooring, which must not leave it without a word."""
MOST_TOLD = 20
"""One by one; the others are only counted."""


class Failed(Exception):
    """A call without the right answer; its text is the cause, a few words that can be counted."""

    def __init__(self, cause: str, *, began: float | None = None) -> None:
        super().__init__(cause)
        self.began = began
        """When the request was begun that failed, if the call had several."""


class Over(Exception):
    """The session is gone; open another."""


@dataclass
class Disturbance:
    """Something we did to a Mooring; it has no end while it goes on."""

    kind: str
    began: float
    ended: float = float("inf")

    def explains(self, cause: str, began: float, ended: float) -> bool:
        """Can it be why a call of that time failed so?"""
        if self.kind not in EXPLAINED_BY.get(cause, ()):
            return False
        if self.kind == SIGTERM and cause in NO_WORD and began < self.began - UNDER_WAY_S:
            return False
        return began <= self.ended + AFTERMATH_S and ended >= self.began


class Ledger:
    """The calls to one Mooring."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._disturbances: deque[Disturbance] = deque(maxlen=100)
        self.right: Counter[str] = Counter()
        """Kind of call → right answers."""
        self.explained: Counter[str] = Counter()
        """Cause → calls without an answer, by our own doing."""
        self.unexplained: Counter[str] = Counter()
        """Kind and cause → calls without an answer that nobody can explain."""
        self.done: Counter[str] = Counter()
        """What we did: kills, resets, desertions."""

    @property
    def calls(self) -> int:
        return self.right.total() + self.explained.total() + self.unexplained.total()

    @contextmanager
    def disturbing(self, kind: str) -> Iterator[None]:
        """For the time of the block, and a little longer, calls may fail in the ways of that kind."""
        disturbance = Disturbance(kind, self._clock())
        self._disturbances.append(disturbance)
        self.done[kind] += 1
        try:
            yield
        finally:
            disturbance.ended = self._clock()

    async def count(self, kind: str, call: Awaitable[T]) -> T | None:
        """The call's result; None if it failed and the session goes on. Raises Over if it does not."""
        began = self._clock()
        try:
            result = await call
        except Failed as failure:
            self._failed(kind, str(failure), failure.began or began)
            if str(failure) not in SESSION_GOES_ON:
                raise Over from None
            return None
        except asyncio.CancelledError:
            self.explained["the soak ended first"] += 1
            raise
        self.right[kind] += 1
        return result

    def _failed(self, kind: str, cause: str, began: float) -> None:
        now = self._clock()
        if any(disturbance.explains(cause, began, now) for disturbance in self._disturbances):
            self.explained[cause] += 1
            return
        self.unexplained[f"{kind}: {cause}"] += 1
        if self.unexplained.total() <= MOST_TOLD:
            self._tell(f"unexplained, at {began:.1f} for {now - began:.1f} s, {kind}: {cause}")
