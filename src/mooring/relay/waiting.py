"""A client's connection that waits for an agent: what is said on it meanwhile is kept.

That is no more than the window allows, as nothing of it counts as consumed before somebody listens.
"""

from collections.abc import Callable

from mooring.relay.keeper import Keeper
from mooring.relay.link import Stream
from mooring.relay.words import Head, Opening, Reset

__all__ = ["WaitingCall"]


class WaitingCall:
    """Its ear until then. `Parked` takes it for an exchange."""

    def __init__(self, client: Keeper, stream: Stream, opening: Opening) -> None:
        self.client = client
        self.stream = stream
        self.opening = opening
        self.on_disconnect: Callable[[], None] | None = None
        self._said: list[tuple[bytes, bool]] = []
        self._is_ended = False
        stream.ear = self

    @property
    def disconnected(self) -> bool:
        """Nobody waits for an answer any more."""
        return self.stream.is_over

    def go_on(self) -> None:
        """Somebody else listens now, and hears what was said."""
        ear = self.stream.ear
        for data, more in self._said:
            ear.on_data(data, more)
        if self._is_ended:
            ear.on_end()

    def on_head(self, head: Head) -> None:
        """A caller has none to say."""

    def on_data(self, data: bytes, more: bool) -> None:
        """A piece of the request."""
        self._said.append((data, more))

    def on_end(self) -> None:
        """It is whole."""
        self._is_ended = True

    def on_reset(self, reset: Reset) -> None:
        """Its caller has gone."""
        if self.on_disconnect is not None:
            self.on_disconnect()

    def on_writable(self) -> None:
        """Nothing is said here."""
