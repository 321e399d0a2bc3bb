"""Is a peer still there that says nothing? A pure decision, taken at each sweep.

A peer that vanished without a word (its machine slept, a router forgot the connection) is noticed
only by asking it. Whatever it says counts as an answer.
"""

from enum import Enum, auto

from mooring.http.limits import Limits

__all__ = ["Beat", "Pulse"]


class Beat(Enum):
    """What is to be done about a silence."""

    NOTHING = auto()
    ASK = auto()
    LOST = auto()
    """It was asked, and did not answer in time."""


class Pulse:
    """Of one connection. Like `Waits`, it notes no moment while messages flow."""

    __slots__ = ("_asked", "_heard", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._heard: float | None = None
        self._asked: float | None = None

    def look(self, now: float, *, heard: bool) -> Beat:
        """`heard`: a byte has come since the last look, or could not have, because nobody was reading."""
        if heard or self._heard is None:
            self._heard, self._asked = now, None
        elif self._asked is not None:
            if now - self._asked >= self._limits.ping_timeout_s:
                return Beat.LOST
        elif now - self._heard >= self._limits.ping_interval_s:
            self._asked = now
            return Beat.ASK
        return Beat.NOTHING

    @property
    def next_at(self) -> float:
        """Before this moment a look finds nothing to be done, unless something was heard."""
        if self._asked is not None:
            return self._asked + self._limits.ping_timeout_s
        return (self._heard or 0.0) + self._limits.ping_interval_s
