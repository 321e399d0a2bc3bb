"""Two connections made one: what comes on either goes out on the other, no faster than that takes it."""

from collections.abc import Callable

from mooring.relay.link import Stream
from mooring.relay.words import Head, Reset

__all__ = ["splice"]


class _Half:
    """The ear of one that speaks to the other."""

    __slots__ = ("_end", "_from", "_to")

    def __init__(self, heard: Stream, to: Stream, end: Callable[[Reset], None]) -> None:
        self._from = heard
        self._to = to
        self._end = end

    def on_head(self, head: Head) -> None:
        self._to.head(head)

    def on_data(self, data: bytes, more: bool) -> None:
        to = self._to
        to.send(data, more)
        if to.writable:
            self._from.consumed()

    def on_end(self) -> None:
        self._to.end()

    def on_reset(self, reset: Reset) -> None:
        self._end(reset)

    def on_writable(self) -> None:
        """It is the other direction that may go on."""
        other = self._to.ear
        if isinstance(other, _Half):
            other.settle()

    def settle(self) -> None:
        """Let more come, if what came has gone on."""
        if self._to.writable:
            self._from.consumed()


def splice(caller: Stream, server: Stream) -> None:
    """Join them, for good. What a server said before its end is its caller's; who has gone wants nothing."""
    caller.ear = _Half(caller, server, server.reset)
    server.ear = _Half(server, caller, caller.close)
