"""Connections by the place that they come from, so that no one place takes all the room of a listener.

Only those on which nothing is asked count: silent ones, idle ones, those whose request trickles in. A place
that has `most` of them may have another in exchange for one: whoever comes with a request is let in.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.http.connection import Connection

__all__ = ["Neighbours"]


class Neighbours:
    """`place_of` says of an address which place it belongs to; empty: to none that is counted."""

    def __init__(self, most: int, place_of: Callable[[str], str]) -> None:
        self.most = most
        self._place_of = place_of
        self._those: dict[str, dict[Connection, None]] = {}
        self._places: dict[Connection, str] = {}

    def rivals(self, address: str) -> list["Connection"]:
        """Of these one has to go before another comes from there; the first of them rather than the last."""
        those = self._those.get(self._place_of(address), ())
        if len(those) < self.most:
            return []
        unasked = [connection for connection in those if not connection.is_asked]
        if len(unasked) < self.most:
            return []
        return sorted(unasked, key=lambda connection: not (connection.is_fresh or connection.is_idle))

    def enter(self, connection: "Connection", address: str) -> None:
        """It comes from there."""
        place = self._place_of(address)
        if place:
            self._places[connection] = place
            self._those.setdefault(place, {})[connection] = None

    def leave(self, connection: "Connection") -> None:
        """It counts no more. Idempotent."""
        place = self._places.pop(connection, None)
        if place is not None:
            those = self._those[place]
            del those[connection]
            if not those:
                del self._those[place]
