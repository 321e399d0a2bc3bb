"""The connections of one client: how requests are sent on them, and how they end."""

import asyncio
import socket
from typing import NamedTuple

from tests.faults.hell.facts import HANG_S
from tests.http_client import Peer
from tests.support import within

__all__ = ["GONE", "PLAIN", "Address", "Manner", "Wires"]

GONE = (ConnectionError, asyncio.IncompleteReadError)
"""What a reader is told when the other side has closed."""
SMALL_BUFFER_BYTES = 4096


class Address(NamedTuple):
    """Where the server of a run is reached, and with which token."""

    port: int
    base: str
    token: str


class Manner(NamedTuple):
    """How a request is sent, and its answer read."""

    sends: str = "whole"
    """Or dribbling, or half of it and no more."""
    leaves: str = ""
    """At once, later, or in the stream; half: it ends its own side and still reads."""
    leaves_after: int = 0
    """So many events."""
    resets: bool = False
    comes_back: bool = False
    reads_slowly: bool = False
    reuses: bool = True
    """A connection that is free."""
    accepts: str = "application/json, text/event-stream"


PLAIN = Manner()


class Wires:
    """All connections of one client."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._all: set[Peer] = set()
        self._free: list[Peer] = []

    async def take(self, manner: Manner = PLAIN) -> Peer:
        """A connection: a new one, or one that is free."""
        while self._free and manner.reuses and not manner.reads_slowly:
            peer = self._free.pop()
            if not peer.reader.at_eof():
                return peer
            await self.close(peer)
        peer = await self._open(SMALL_BUFFER_BYTES if manner.reads_slowly else 0)
        self._all.add(peer)
        return peer

    async def _open(self, buffer_bytes: int) -> Peer:
        sock = socket.socket()
        try:
            sock.setblocking(False)
            if buffer_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._address.port))
            return Peer(*await asyncio.open_connection(sock=sock))
        except BaseException:
            sock.close()
            raise

    def give_back(self, peer: Peer) -> None:
        """An answer was read to its end: there may be another request."""
        self._free.append(peer)

    async def send(self, peer: Peer, data: bytes, manner: Manner = PLAIN) -> None:
        """All of it, in one piece or in many. Raises ConnectionError, also if we have cut it ourselves."""
        step = len(data) if manner.sends == "whole" else max(1, len(data) // 5)
        async with within(HANG_S):
            for at in range(0, len(data), step):
                if peer.writer.is_closing():
                    raise ConnectionAbortedError
                peer.send(data[at : at + step])
                await peer.writer.drain()
                if step < len(data):
                    await asyncio.sleep(0.001)

    async def leave(self, peer: Peer, manner: Manner) -> None:
        """In the middle of something."""
        if manner.resets and not peer.writer.is_closing():
            peer.reset()
        await self.close(peer)

    async def close(self, peer: Peer) -> None:
        self._all.discard(peer)
        await peer.aclose()

    def cut_all(self) -> None:
        """Without a word."""
        for peer in self._all:
            if not peer.writer.is_closing():
                peer.reset()

    async def close_all(self) -> None:
        while self._all:
            await self.close(self._all.pop())
