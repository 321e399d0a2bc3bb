"""Requests of our own to an instance, and the wait for their answers.

A wait ends with the answer or when the instance is lost; its bound is the caller's.
"""

import asyncio

from mooring.errors import ServerFailed
from mooring.proxy.ports import Channel
from mooring.wire.jsonrpc import Envelope, Id

__all__ = ["OwnRequests"]


class OwnRequests:
    """What we have asked one instance."""

    __slots__ = ("_lost", "_open")

    def __init__(self) -> None:
        self._open: dict[Id, asyncio.Future[Envelope]] = {}
        self._lost = ""

    async def ask(self, channel: Channel, line: bytes, id: Id) -> Envelope:
        """Send a request and wait for its answer, as long as the caller likes. Raises ServerFailed."""
        if self._lost:
            # It ended between its last answer and this question: nobody will ever answer.
            raise ServerFailed(self._lost, code="server_exited")
        waiter: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._open[id] = waiter
        channel.send(line)
        try:
            return await waiter
        finally:
            self._open.pop(id, None)

    def resolve(self, response: Envelope) -> bool:
        """Was this the answer to one of them?"""
        waiter = self._open.get(response.request_id)
        if waiter is None:
            return False
        if not waiter.done():
            waiter.set_result(response)
        return True

    def lose(self, reason: str) -> None:
        """The instance is gone."""
        self._lost = reason
        for waiter in self._open.values():
            if not waiter.done():
                waiter.set_exception(ServerFailed(reason, code="server_exited"))
