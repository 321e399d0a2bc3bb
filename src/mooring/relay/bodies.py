"""How many bytes of requests and messages wait here: bodies are kept until they are answered, and messages of
WebSockets until they are whole and have been passed on."""

from collections import Counter

__all__ = ["Bodies", "Share"]


class Bodies:
    """By names, of agents or callers, with a bound for each and for all of them."""

    def __init__(self, max_bytes: int, max_each_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_each_bytes = max_each_bytes
        self._bytes = 0
        self._each_bytes: Counter[str] = Counter()

    def has_room(self, name: str, count: int) -> bool:
        """For one of so many bytes. One without a body needs none."""
        total, each = self._bytes + count, self._each_bytes[name] + count
        return not count or (total <= self._max_bytes and each <= self._max_each_bytes)

    def keep(self, name: str, count: int) -> None:
        """It waits."""
        self._bytes += count
        self._each_bytes[name] += count

    def drop(self, name: str, count: int) -> None:
        """It does not any more."""
        self._bytes -= count
        self._each_bytes[name] -= count
        if not self._each_bytes[name]:
            del self._each_bytes[name]


class Share:
    """What one connection has of it. Whoever made it lets it go at the end: `shrink_to(0)`."""

    __slots__ = ("_bodies", "_bytes", "_name")

    def __init__(self, bodies: Bodies, name: str) -> None:
        self._bodies = bodies
        self._name = name
        self._bytes = 0

    def grow(self, count: int) -> bool:
        """So many more; False: there is no room for them."""
        if not self._bodies.has_room(self._name, count):
            return False
        self._bodies.keep(self._name, count)
        self._bytes += count
        return True

    def shrink_to(self, count: int) -> None:
        """The rest does not wait any more."""
        if self._bytes > count:
            self._bodies.drop(self._name, self._bytes - count)
            self._bytes = count
