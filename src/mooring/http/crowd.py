"""Connections that there is no room for: each is told so, all are counted, and the log hears of it rarely."""

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator

from mooring.http.head import render_head
from mooring.http.problems import problem

__all__ = ["TOO_MANY", "Crowd", "SpareDescriptor"]

log = logging.getLogger("mooring.http")

TOO_MANY = problem(503, "too_many_connections", "too many connections", headers=[(b"retry-after", b"1")])

SILENCE_S = 60.0
"""Between two lines in the log: a crowd must not fill the disk as well."""
UNREAD_BYTES = 64 * 1024


class Crowd:
    """Whoever is turned away. `count`: how many that were, since the beginning."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.count = 0
        self._clock = clock
        self._quiet_until = float("-inf")

    def turn_away(self, sock: socket.socket, *, is_tls: bool) -> None:
        """Say 503, as far as that goes without waiting, and close. (Over TLS it would not be understood.)"""
        with sock, contextlib.suppress(OSError):
            if not is_tls:
                sock.setblocking(False)
                # Closing with something unread would be a reset, which can take the answer away.
                with contextlib.suppress(BlockingIOError):
                    sock.recv(UNREAD_BYTES)
                sock.send(_too_many())

    def note(self, why: str) -> None:
        """One more was turned away."""
        self.count += 1
        self.complain(why)

    def complain(self, why: str) -> None:
        """Tell the log, unless it heard of this a moment ago."""
        now = self._clock()
        if now < self._quiet_until:
            return
        self._quiet_until = now + SILENCE_S
        extra = {"event": "connections_refused", "refused": self.count}
        log.warning("no room for another connection: %s; refused so far: %d", why, self.count, extra=extra)


def _too_many() -> bytes:
    head = render_head(TOO_MANY.status, TOO_MANY.headers, [])
    framing = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(TOO_MANY.body)
    return b"".join((*head, framing, TOO_MANY.body))


class SpareDescriptor:
    """A descriptor kept in hand: with it a connection can be refused when there is no other left.

    Without it, a connection that cannot be accepted stays with the kernel, and its peer waits in vain.
    """

    def __init__(self) -> None:
        self._number: int | None = None

    def take(self) -> None:
        """Have one, if there is one to be had."""
        if self._number is None:
            with contextlib.suppress(OSError):
                self._number = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def give(self) -> None:
        """Let it go."""
        if self._number is not None:
            os.close(self._number)
            self._number = None

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Within the block there is one descriptor more."""
        self.give()
        try:
            yield
        finally:
            self.take()
