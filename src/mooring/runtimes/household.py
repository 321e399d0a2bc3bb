"""What all runtimes of one process share: a name for its children, a guardian, one look at the processes.

Whoever makes a household closes it, after every runtime that belongs to it. With a roll, children are
written down too: should Mooring and its guardian be killed together, the next one finds them there.
"""

import secrets
from collections.abc import Callable

from mooring.runtimes.environment import is_of, marker
from mooring.runtimes.exits import ExitWatch, reap
from mooring.runtimes.guardian import Guardian
from mooring.runtimes.lookout import Lookout
from mooring.runtimes.proctable import Session
from mooring.runtimes.roll import Roll

__all__ = ["Household"]


class Household:
    """See the module. A child is expected, then taken in, then let go; or it never came."""

    def __init__(
        self, clock: Callable[[], float], *, owner: str | None = None, roll: Roll | None = None
    ) -> None:
        self.owner = owner or secrets.token_hex(8)
        """Who started a process, as its marker says: never the same for two of us."""
        self.guardian = Guardian(clock)
        self.lookout = Lookout()
        self._roll = roll
        self._expected = 0
        self._foster: list[ExitWatch] = []
        """Children of ours that others look after."""

    def expect(self, name: str) -> str:
        """A child of that name is about to be started; the marker for it, which no other ever carries."""
        self._expected += 1
        new = marker(self.owner, name, self._expected)
        if self._roll is not None:
            self._roll.expect(new)
        return new

    def take_in(self, session: Session) -> None:
        """It is there: from now on somebody ends it if we cannot."""
        self.guardian.register(session)
        if self._roll is not None:
            self._roll.enter(session)

    def has(self, marker: str) -> bool:
        """Is it that of a child of ours, or of one that another has passed on to us?"""
        return is_of(marker, self.owner) or any(own.marker == marker for own in self.guardian.sessions)

    def take_over(self, session: Session) -> None:
        """It was another's, and is on its roll, which is ours too."""
        self.guardian.ensure()
        self.guardian.register(session)

    def pass_on(self, pid: int) -> None:
        """It is another's from now on, and still our child: it stays on the roll, and is reaped here."""
        self.guardian.forget(pid)
        self._foster.append(ExitWatch(pid, lambda: _reap(pid)))

    def let_go(self, marker: str, pid: int | None = None) -> None:
        """It is reaped, with all of its session; or it never came to exist."""
        if pid is not None:
            self.guardian.forget(pid)
        if self._roll is not None:
            self._roll.strike(marker)

    async def aclose(self) -> None:
        """Idempotent."""
        for watch in self._foster:
            watch.close()
        await self.guardian.aclose()


def _reap(pid: int) -> None:
    reap(pid)
