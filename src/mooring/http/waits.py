"""When has a connection been waited for long enough? A pure decision, taken at each sweep.

No moment is noted while requests are served: a sweep sees that something has happened
since the last one, and the wait begins anew then. So every wait lasts at least its span
and at most one sweep interval longer, and the hot path never asks for the time.
"""

from enum import Enum, auto

from mooring.http.limits import Limits
from mooring.http.reader import HEAD

__all__ = ["Overdue", "Waits"]


class Overdue(Enum):
    """What a connection has waited for in vain, and hence what becomes of it."""

    NOTHING = auto()
    REQUEST = auto()
    """The rest of a request: 408."""
    USE = auto()
    """A next request, or a first one: closed without a word."""
    WRITE = auto()
    """That the peer reads: aborted."""
    LINGER = auto()
    """That the peer closes after our last answer, or answers our goodbye: closed."""


class Waits:
    """The waits of one connection. `close_at` is the moment from which it is no longer kept idle."""

    __slots__ = (
        "_heard",
        "_idle",
        "_limits",
        "_linger",
        "_lingered",
        "_request",
        "_stalled",
        "_taken",
        "_turns",
        "close_at",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.close_at: float | None = None
        self._idle: float | None = None
        self._request: float | None = None
        self._heard = 0.0
        self._linger: float | None = None
        self._lingered = 0
        self._stalled: float | None = None
        self._taken = 0
        self._turns = 0

    def look_at_turns(self, turns: int) -> None:
        """So many requests were read and answers given: when that has changed, another wait begins."""
        if turns != self._turns:
            self._turns = turns
            self._request = self._idle = None

    def look_at_output(self, now: float, *, written: int, buffered: int) -> Overdue:
        """`written` bytes in all, of which `buffered` are still ours because the peer does not read."""
        if not buffered:
            self._stalled = None
        elif self._stalled is None or written - buffered != self._taken:
            self._stalled, self._taken = now, written - buffered
        elif now - self._stalled >= self._limits.write_stall_timeout_s:
            return Overdue.WRITE
        return Overdue.NOTHING

    def look_at_linger(self, now: float, *, taken: int = 0) -> Overdue:
        """All is said; the peer may still be reading it: of our bytes it has `taken` so many."""
        if self._linger is None or taken != self._lingered:
            self._linger, self._lingered = now, taken
        return Overdue.LINGER if now - self._linger >= self._limits.linger_timeout_s else Overdue.NOTHING

    def look_at_request(self, now: float, *, state: int, heard: bool) -> Overdue:
        """A request has begun; `heard` says whether a byte has come since the last sweep."""
        if self._request is None:
            self._request = self._heard = now
        if heard:
            self._heard = now
        if now - self._heard >= self._limits.read_idle_timeout_s:
            return Overdue.REQUEST
        if state == HEAD and now - self._request >= self._limits.header_timeout_s:
            return Overdue.REQUEST
        return Overdue.NOTHING

    def look_at_idle(self, now: float) -> Overdue:
        """Nothing is under way."""
        if self._idle is None:
            self._idle = now
        return Overdue.USE if now >= self.idle_until else Overdue.NOTHING

    @property
    def idle_until(self) -> float:
        """How long it may stay idle, once it was found so."""
        end = (self._idle or 0.0) + self._limits.keep_alive_timeout_s
        return end if self.close_at is None else min(end, self.close_at)
