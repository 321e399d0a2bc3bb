"""Requests that wait for an agent that is expected: those of a relay that has just begun are on their way.

Each waits once, for a bound, and is then served as if it had just come, whoever is there by then.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from mooring.relay.bodies import Bodies

__all__ = ["Parked"]


class Parkable(Protocol):
    """An exchange, or a connection of a client."""

    on_disconnect: Callable[[], None] | None
    """Called when nobody waits for its answer any more."""

    @property
    def disconnected(self) -> bool:
        """Nobody does."""
        ...


T = TypeVar("T", bound=Parkable)


class Parked(Generic[T]):
    """By the names of agents. `serve` is asked again when the agent is there, or the time is over."""

    def __init__(
        self,
        serve: Callable[[T], None],
        bodies: Bodies,
        size_of: Callable[[T], int],
        hold_s: float,
        max_each: int,
    ) -> None:
        """`size_of`: the bytes of one's body."""
        self._serve = serve
        self._bodies = bodies
        self._size_of = size_of
        self._hold_s = hold_s
        self._max_each = max_each
        self._waiting: dict[str, dict[int, tuple[T, asyncio.TimerHandle]]] = {}
        self._again: set[int] = set()
        """Those that are being served again, by `id`: they do not wait twice."""
        self._came: set[str] = set()
        """Agents that were here: each name is one of a token's, so there are not more than of these."""

    def may_wait(self, agent: str, exchange: T) -> bool:
        """Not for an agent that was here, and has gone since; and nobody twice."""
        return agent not in self._came and not self.has_waited(exchange)

    def has_waited(self, exchange: T) -> bool:
        """Is it being served again?"""
        return id(exchange) in self._again

    def park(self, agent: str, exchange: T) -> None:
        """Let it wait; if too many do, it is served now."""
        those = self._waiting.setdefault(agent, {})
        if len(those) >= self._max_each:
            self._serve_again(exchange)
            return
        timer = asyncio.get_running_loop().call_later(self._hold_s, self._end, agent, exchange)
        those[id(exchange)] = exchange, timer
        self._bodies.keep(agent, self._size_of(exchange))
        exchange.on_disconnect = lambda: self._drop(agent, exchange)

    def go_on(self, agent: str) -> None:
        """The agent is there."""
        self._came.add(agent)
        for exchange, timer in self._waiting.pop(agent, {}).values():
            timer.cancel()
            self._bodies.drop(agent, self._size_of(exchange))
            self._serve_again(exchange)

    def go_on_all(self) -> None:
        """Nobody is waited for any more."""
        for agent in tuple(self._waiting):
            self.go_on(agent)

    def _end(self, agent: str, exchange: T) -> None:
        self._drop(agent, exchange)
        self._serve_again(exchange)

    def _drop(self, agent: str, exchange: T) -> None:
        those = self._waiting.get(agent, {})
        found = those.pop(id(exchange), None)
        if found is not None:
            found[1].cancel()
            self._bodies.drop(agent, self._size_of(exchange))
        if not those:
            self._waiting.pop(agent, None)

    def _serve_again(self, exchange: T) -> None:
        exchange.on_disconnect = None
        if exchange.disconnected:
            return
        self._again.add(id(exchange))
        try:
            self._serve(exchange)
        finally:
            self._again.discard(id(exchange))
