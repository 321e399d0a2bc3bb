"""Which resources of which instance somebody wants to hear of.

A server knows one subscriber, whoever asked: so it is told of a resource when the first one wants it,
and again when the last one has gone.
"""

import msgspec
from msgspec import Raw, Struct

from mooring.proxy.riders import Indifferent
from mooring.proxy.trunk import Trunk
from mooring.wire.shared import covers
from mooring.wire.surrogates import tolerant

__all__ = ["UPDATED", "Subscriptions", "updated_uri"]

UPDATED = "notifications/resources/updated"


class _Updated(Struct):
    uri: str = ""


_read_updated = tolerant(msgspec.json.Decoder(_Updated).decode)


class Subscriptions:
    """Subscribers are told apart by identity."""

    def __init__(self) -> None:
        self._subscribers: dict[tuple[Trunk, str], dict[object, None]] = {}

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, trunk: Trunk, uri: str, who: object) -> bool:
        """One more; true if it is the first."""
        known = self._subscribers.setdefault((trunk, uri), {})
        known[who] = None
        return len(known) == 1

    def remove(self, trunk: Trunk, uri: str, who: object) -> bool:
        """One less; true if nobody is left."""
        known = self._subscribers.get((trunk, uri), {})
        known.pop(who, None)
        if known:
            return False
        self._subscribers.pop((trunk, uri), None)
        return True

    def of(self, trunk: Trunk, uri: str) -> set[object]:
        """Whoever wants to hear of it: by its name, or else by that of something it is a part of."""
        exactly = self._subscribers.get((trunk, uri))
        if exactly is not None:
            return set(exactly)
        return {
            who
            for (where, subscribed), known in self._subscribers.items()
            if where is trunk and covers(subscribed, uri)
            for who in known
        }

    def subscribe(self, trunk: Trunk, uri: str, who: object) -> None:
        """Tell the server, if it does not know."""
        if self.add(trunk, uri, who):
            trunk.ride(0, "resources/subscribe", msgspec.json.encode({"uri": uri}), Indifferent())

    def unsubscribe(self, trunk: Trunk, uri: str, who: object) -> None:
        """Tell the server, if nobody else wants it."""
        if (trunk, uri) in self._subscribers and self.remove(trunk, uri, who):
            trunk.ride(0, "resources/unsubscribe", msgspec.json.encode({"uri": uri}), Indifferent())

    def replay(self, trunk: Trunk) -> None:
        """Its next instance is told of all that the trunk had no room to remember."""
        for where, uri in list(self._subscribers):
            if where is trunk and not trunk.memory.is_subscribed(uri):
                trunk.ride(0, "resources/subscribe", msgspec.json.encode({"uri": uri}), Indifferent())

    def forget(self, trunk: Trunk) -> None:
        """It has ended."""
        for where, uri in list(self._subscribers):
            if where is trunk:
                del self._subscribers[where, uri]


def updated_uri(params: bytes | Raw) -> str:
    """The resource that a notification is about."""
    try:
        return _read_updated(params).uri
    except msgspec.DecodeError:
        return ""
