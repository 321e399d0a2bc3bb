"""How often something is done again: what failed, what does not help, what somebody else undoes. Pure.

Moments are those of one clock that never goes back; they are remembered for as long as they matter.
"""

from collections.abc import Collection, Hashable

__all__ = ["Tries", "Turns"]


class Tries:
    """Each thing at once, and while it is still to be done, later and later."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next: dict[Hashable, tuple[float, float]] = {}
        """When, and how long after that."""

    def keep(self, keys: Collection[Hashable]) -> None:
        """All others are done."""
        self._next = {key: when for key, when in self._next.items() if key in keys}

    def begin(self, key: Hashable, now: float) -> float:
        """When it may be tried: that is now if it is not later than that. The next time is later then."""
        when, wait_s = self._next.get(key, (now, self._first_s))
        if when <= now:
            self._next[key] = (now + wait_s, min(2 * wait_s, self._longest_s))
        return when

    def end(self, key: Hashable) -> None:
        """It is done: when it is to be done again, it is at once."""
        self._next.pop(key, None)

    def when(self, key: Hashable) -> float:
        """The next time, of what was begun."""
        return self._next[key][0]


class Turns:
    """What was done how often of late, for each of many."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._moments: dict[Hashable, list[float]] = {}

    def of(self, key: Hashable, now: float) -> list[float]:
        """The moments when it was done, the last one last."""
        self._moments = {
            known: kept
            for known, moments in self._moments.items()
            if (kept := [moment for moment in moments if now - moment < self._window_s])
        }
        return self._moments.get(key, [])

    def note(self, key: Hashable, now: float) -> None:
        """It is done."""
        self._moments.setdefault(key, []).append(now)
