"""Tells that this machine's network has changed, or that it has slept: what was connected may not be now."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["watching_network"]

log = logging.getLogger("mooring.host")

# linux/rtnetlink.h: links, and addresses of both families.
LINK, IPV4_ADDRESS, IPV6_ADDRESS = 0x1, 0x10, 0x100
SETTLE_S = 0.3
"""Changes come in bursts: the last one counts."""
LOOK_S = 2.0
SLEPT_S = 5.0
"""The clock that stands still while a machine sleeps is so far behind: it has slept."""


@contextmanager
def watching_network(on_change: Callable[[], None]) -> Iterator[None]:
    """While it lasts, `on_change` is called after each change, once for those that come together."""
    watch = _Watch(on_change)
    watch.begin()
    try:
        yield
    finally:
        watch.end()


class _Watch:
    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._asleep_s = _asleep_s()

    def begin(self) -> None:
        self._look()
        try:
            self._socket = _kernel_news()
        except OSError as error:  # sandboxes forbid it
            log.debug("changes of the network cannot be seen here: %s", error)
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._on_news)

    def end(self) -> None:
        for timer in (self._settling, self._looking):
            if timer is not None:
                timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _on_news(self) -> None:
        assert self._socket is not None  # noqa: S101 - it is what was read
        with suppress(OSError):  # more was lost than came: news all the same
            self._socket.recv(65536)
        if self._settling is not None:
            self._settling.cancel()
        self._settling = self._loop.call_later(SETTLE_S, self._on_change)

    def _look(self) -> None:
        self._looking = self._loop.call_later(LOOK_S, self._look)
        before, self._asleep_s = self._asleep_s, _asleep_s()
        if self._asleep_s - before > SLEPT_S:
            self._on_change()


def _kernel_news() -> socket.socket | None:
    if hasattr(socket, "AF_NETLINK"):
        news = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        try:
            news.bind((0, LINK | IPV4_ADDRESS | IPV6_ADDRESS))
        except OSError:
            news.close()
            raise
        return news
    family = getattr(socket, "AF_ROUTE", None)  # macOS and its relatives
    if family is None:
        return None
    news = socket.socket(family, socket.SOCK_RAW, 0)
    news.setblocking(False)
    return news


def _asleep_s() -> float:
    """How long it has slept since it was started."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) - time.monotonic() if clock is not None else 0.0
