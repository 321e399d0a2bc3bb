"""Requests of our own to an instance, and the wait for their answers.

Every wait ends: with the answer, at its bound, or when the instance is lost.
"""

import asyncio

from mooring.errors import ServerFailed
from mooring.proxy.ports import Channel
from mooring.wire.jsonrpc import Envelope, Id

__all__ = ["Questions"]


class Questions:
    """What we have asked one instance."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Id, asyncio.Future[Envelope]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    async def ask(self, channel: Channel, line: bytes, id: Id, timeout_s: float) -> Envelope:
        """Send a request and wait for its answer. Raises ServerFailed."""
        waiter: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._open[id] = waiter
        channel.send(line)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            raise ServerFailed(f"did not answer within {timeout_s:g} s", code="initialize_timeout") from None
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
        for waiter in self._open.values():
            if not waiter.done():
                waiter.set_exception(ServerFailed(reason, code="server_exited"))
