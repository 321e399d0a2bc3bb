"""Several addresses of one name: the first that lets us in, whatever the others do (RFC 8305).

A host with addresses of both kinds in a network that knows only one is not rare, and what is sent to the
other is lost without a word. (asyncio can do this too, uvloop cannot.)
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

__all__ = ["HEAD_START_S", "connected_socket", "first_of"]

HEAD_START_S = 0.25
"""Of an address before the next one, unless it fails sooner; as RFC 8305 and browsers have it."""
T = TypeVar("T")


async def connected_socket(host: str, port: int) -> socket.socket:
    """To the host of that name. Raises OSError, UnicodeError."""
    ways = [partial(_connected, family, address) for family, address in await _addresses(host, port)]
    return await first_of(ways, socket.socket.close)


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


async def _connected(family: int, address: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting


async def first_of(ways: Sequence[Callable[[], Coroutine[Any, Any, T]]], undo: Callable[[T], object]) -> T:
    """What the first that succeeds gives; `undo` what others have given at the same moment.

    Raises OSError: the one of all that says most.
    """
    attempts: list[asyncio.Task[T]] = []
    winner: asyncio.Task[T] | None = None
    try:
        for way in ways:
            attempts.append(asyncio.create_task(way(), name="connect"))
            is_last = len(attempts) == len(ways)
            winner = await _winner(attempts, None if is_last else HEAD_START_S)
            if winner is not None:
                return winner.result()
        raise max((error for each in attempts if (error := each.exception())), key=_telling)
    finally:
        await _end([each for each in attempts if each is not winner], undo)


async def _winner(attempts: Sequence[asyncio.Task[T]], head_start_s: float | None) -> asyncio.Task[T] | None:
    """None: it is the next one's turn, or there is nothing left to wait for."""
    while pending := [each for each in attempts if not each.done()]:
        done, _ = await asyncio.wait(pending, timeout=head_start_s, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            if each.exception() is None:
                return each
        if head_start_s is not None:
            break
    return None


def _telling(error: BaseException) -> int:
    """Somebody has answered; or somebody is there; or nobody knows."""
    return 2 if isinstance(error, ssl.SSLError) else int(isinstance(error, ConnectionRefusedError))


async def _end(attempts: Sequence[asyncio.Task[T]], undo: Callable[[T], object]) -> None:
    for each in attempts:
        each.cancel()
    for outcome in await asyncio.gather(*attempts, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            undo(outcome)
