"""Connections that go to another listener, perhaps of another process, with what was read of them.

A connection goes when nothing is under way on it: every request that was begun here is answered, and the
answer is with the system. Its peer sees nothing of it. What it has sent and nobody has served goes along, and
is read first by whoever takes it.
"""

import asyncio
from collections.abc import Callable

from mooring.http.connection import Connection
from mooring.http.listener import Listener

__all__ = ["Passage"]

LOOK_AGAIN_S = 0.02
"""For a connection on which something is under way; nobody tells us of the end of it."""
AT_ONCE = 32
"""So many go in one turn of the loop: each takes a second descriptor for a moment."""


class Passage:
    """Gives connections of a listener to `give(descriptor, begun)`, which owns the descriptor."""

    def __init__(self, listener: Listener, give: Callable[[int, bytes], None]) -> None:
        self._house = listener.house
        self._give = give
        self._leaving: set[Connection] = set()
        self._gives_all = False
        self._timer: asyncio.Handle | None = None
        self._house.on_put_back = self._on_put_back

    def give_all(self) -> None:
        """From now on every connection goes, as soon as it can."""
        self._gives_all = True
        self._look_soon()

    def close(self) -> None:
        """No more go; those that were about to are served here."""
        self._gives_all = False
        self._house.on_put_back = lambda connection: None
        for connection in self._leaving & self._house.connections:
            connection.serve_by(self._house.app, self._house.depth)
        self._leaving.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_put_back(self, connection: Connection) -> None:
        # Not now: it is being read from.
        self._leaving.add(connection)
        self._look_soon()

    def _look_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        there = self._house.connections
        if self._gives_all:
            self._leaving |= there
        self._leaving &= there
        loop, gone = asyncio.get_running_loop(), 0
        for connection in tuple(self._leaving):
            if gone == AT_ONCE:
                self._timer = loop.call_soon(self._look)
                return
            try:
                left = connection.leave()
            except OSError:
                break  # no descriptor is left just now
            if left is not None:
                gone += 1
                self._leaving.discard(connection)
                self._give(*left)
        self._timer = None
        if self._leaving or self._gives_all:
            self._timer = loop.call_later(LOOK_AGAIN_S, self._look)
