"""How many bytes of requests wait at a relay: their bodies are kept until they are answered."""

from collections import Counter

__all__ = ["Bodies"]


class Bodies:
    """By the names of agents, with a bound for each and for all of them."""

    def __init__(self, max_bytes: int, max_each_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._max_each_bytes = max_each_bytes
        self._bytes = 0
        self._each_bytes: Counter[str] = Counter()

    def has_room(self, agent: str, count: int) -> bool:
        """For one of so many bytes. One without a body needs none."""
        total, each = self._bytes + count, self._each_bytes[agent] + count
        return not count or (total <= self._max_bytes and each <= self._max_each_bytes)

    def keep(self, agent: str, count: int) -> None:
        """It waits."""
        self._bytes += count
        self._each_bytes[agent] += count

    def drop(self, agent: str, count: int) -> None:
        """It does not any more."""
        self._bytes -= count
        self._each_bytes[agent] -= count
        if not self._each_bytes[agent]:
            del self._each_bytes[agent]
