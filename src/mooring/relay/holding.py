"""Calls that wait for a lost link: each for so long, from the loss until the other end has answered.

A socket that came back is no answer yet: one that is lost again and again before anything passes would hold a
call for ever. Who is late while there is a socket is not given up before that is lost too.
"""

import asyncio
from collections.abc import Callable, Iterable

from mooring.relay.link import Stream

__all__ = ["Holding"]


class Holding:
    """Of one link. `give_up` is told of each that has waited for too long."""

    def __init__(
        self, hold_s: float, is_attached: Callable[[], bool], give_up: Callable[[Stream], None]
    ) -> None:
        self._hold_s = hold_s
        self._is_attached = is_attached
        self._give_up = give_up
        self._held: set[Stream] = set()
        self._late: list[Stream] = []

    def hold(self, streams: Iterable[Stream]) -> None:
        """The link is lost, and these wait for it; or they began while it was."""
        late, self._late = self._late, []
        self._end(late)
        fresh = [stream for stream in streams if stream not in self._held and not stream.is_over]
        if fresh:
            self._held.update(fresh)
            asyncio.get_running_loop().call_later(self._hold_s, self._on_late, fresh, self._held)

    def release(self) -> None:
        """The other end has answered: the next loss is another one."""
        self._held, self._late = set(), []

    def end(self) -> None:
        """The link is over, and so is all that waited for it: nobody is told any more."""
        self.release()
        self._is_attached, self._give_up = bool, _nobody

    def _on_late(self, streams: list[Stream], held: set[Stream]) -> None:
        if held is not self._held:
            return
        if self._is_attached():
            self._late += streams
        else:
            self._end(streams)

    def _end(self, streams: list[Stream]) -> None:
        for stream in streams:
            self._held.discard(stream)
            self._give_up(stream)


def _nobody(stream: Stream) -> None:
    """It is told by whoever has ended the link."""
