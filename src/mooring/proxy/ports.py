"""What the proxy needs from the outside: a pipe to a server instance, and who hands one out.

The process runtime and the workload satisfy these by shape; nobody imports them from here
but the proxy itself.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from mooring.errors import Unavailable
from mooring.wire.lines import LongLine
from mooring.wire.memory import Handshake

__all__ = ["Backend", "Channel", "Discarded", "ExitLike", "Fence", "Guarded", "Receiver", "Upstream", "named"]


def named(pid: int | None) -> str:
    """An instance, for people. What is elsewhere has no process, and a negative number; 0: none yet."""
    if not pid:
        return "no instance yet"
    return f"connection {-pid}" if pid < 0 else f"pid {pid}"


class ExitLike(Protocol):
    """How an instance ended; as text, for people."""

    @property
    def code(self) -> int | None:
        """Exit status, if it exited by itself."""
        ...

    @property
    def signal(self) -> int | None:
        """Number of the signal that ended it, if one did."""
        ...

    @property
    def reason(self) -> str:
        """A stable code, as calls that it has cut off are told: mostly `server_exited`."""
        ...

    @property
    def out_of_memory(self) -> bool:
        """It took more than it may have."""
        ...


class Discarded(NamedTuple):
    """How an instance ended, for its session, that may run on: we want it no more."""

    why: str
    code: int | None = None
    signal: int | None = None
    reason: str = "server_exited"
    out_of_memory: bool = False

    def __str__(self) -> str:
        return self.why


class Receiver(Protocol):
    """Who hears what an instance says. Called from the event loop, never re-entrantly from `send`."""

    def on_line(self, line: bytes) -> None:
        """One line of its output, without the line end."""
        ...

    def on_long_line(self, line: LongLine) -> None:
        """A line over the limit: what was kept of it."""
        ...

    def on_writable(self) -> None:
        """`Channel.writable` has turned true again."""
        ...

    def on_gone(self, exit: ExitLike) -> None:
        """It has exited and its output has been read to the end. Called once, last."""
        ...


class Channel(Protocol):
    """A message pipe to one instance."""

    @property
    def pid(self) -> int:
        """Names the instance in logs and reports."""
        ...

    @property
    def writable(self) -> bool:
        """Less than the high-water mark is waiting to be read by the instance."""
        ...

    @property
    def is_paused(self) -> bool:
        """Somebody has stopped it for a while: that it says nothing is no sign that it hangs."""
        ...

    def attach(self, receiver: Receiver) -> None:
        """Hand over an instance nobody has spoken to: from now on `receiver` hears it."""
        ...

    @property
    def consumed(self) -> int:
        """Up to which position it has read its input, at most: what begins there or later it never saw."""
        ...

    def send(self, line: bytes) -> int:
        """Queue one line, given without its line end; returns the position where it begins.

        Does nothing else once the instance is gone.
        """
        ...

    def pause_reading(self) -> None:
        """Leave its output in the pipe, so that the instance has to wait."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...


@runtime_checkable
class Upstream(Protocol):
    """A channel that is a session with a server elsewhere, which others could go on with."""

    backend: str
    """Where that server is, without what may be a secret; empty: nobody else could."""

    on_moved: Callable[[], None]
    """Called when the server has forgotten the session, and another has taken its place."""

    @property
    def upstream(self) -> str:
        """By which the server knows it; empty: it has none."""
        ...

    def go_on_with(self, upstream: str, handshake: Handshake) -> None:
        """Before it is introduced: this session is to be gone on with, rather than another opened."""
        ...

    def leave(self) -> None:
        """When it ends, the server is not told: others go on with the session."""
        ...


Fence = Callable[[], bool]
"""Is a session still ours, where others may take it over: may anything be said to its instance?"""


@runtime_checkable
class Guarded(Protocol):
    """A channel that may say later what it is told now: when there is room, or a way."""

    def guard(self, may_speak: Fence) -> None:
        """Asked before anything is said from now on; what may not be said yet waits, or is refused."""
        ...


class Backend(Protocol):
    """Hands out instances of one workload, as its restart policy allows."""

    def refusal(self) -> Unavailable | None:
        """Why no new session can be served now; None if one can."""
        ...

    async def acquire(self, *, expendable: bool = False) -> Channel:
        """An instance nobody has spoken to yet; the caller attaches itself at once.

        Waits out a back-off. Raises `Unavailable` or `ServerFailed` at once when there is no hope.
        `expendable`: it is asked what not every server bears, so that its exit does not count.
        """
        ...

    def spoke(self, channel: Channel) -> None:
        """The instance has answered `initialize`: it works."""
        ...

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None:
        """The instance is no longer needed: stop it, in the background and with all due patience.

        Its receiver hears nothing more. `failed`: it did not do its part, which counts like an exit.
        """
        ...

    def doubt_handshakes(self) -> bool:
        """An instance has refused `initialize`: is it worth trying again, because we look closer now?"""
        ...

    def take_leave(self, backend: str, upstream: str, handshake: Handshake) -> None:
        """A session has ended that another had opened at a server elsewhere (see `Upstream`), and that nobody
        has gone on with: that server is told, in the background."""
        ...

    def settle(self) -> None:
        """A session has ended that had no instance: nothing need be kept ready for it any more."""
        ...
