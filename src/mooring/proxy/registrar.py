"""Where sessions are known to other replicas too: what the proxy asks of whoever sees to that.

Without one, sessions are this process's alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mooring.errors import Unavailable
from mooring.proxy.ports import Fence
from mooring.proxy.streams import EventVault

if TYPE_CHECKING:
    from mooring.proxy.session import Session

__all__ = ["Registrar"]


class Registrar(Protocol):
    """See the module; also a `Journal`."""

    @property
    def fence(self) -> Fence:
        """Of each session."""
        ...

    def new_id(self, transport: str) -> str:
        """For a session that is being opened."""
        ...

    def events_of(self, id: str) -> EventVault:
        """Where the events of a session are stored before they are sent."""
        ...

    def register(self, session: "Session", then: Callable[[Unavailable | None], None]) -> None:
        """A session is open: it must be known everywhere before its client hears of it, which is `then`.

        With an error: it cannot be made known.
        """
        ...

    def let_go(self, session: "Session") -> bool:
        """It gives way to others here; whoever is asked for it next has it. False: others do not know it."""
        ...

    def changed(self, session: "Session") -> None:
        """There is something new to remember."""
        ...

    def ended(self, session: "Session") -> None:
        """It need not be remembered any longer."""
        ...
