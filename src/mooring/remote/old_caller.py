"""How one call gets its answer over HTTP+SSE: it is posted, and the answer comes on the one stream.

Everything that may happen to a POST is as `remote.caller` has it. Besides, at any moment the answer may come
(even before the POST is taken), or the stream may be cut: then no answer will.
"""

import asyncio
from typing import Any

from mooring.http.client import ClientResponse
from mooring.remote.caller import Caller, Lost, Outcome
from mooring.remote.calls import Call
from mooring.remote.endpoint import Standing

__all__ = ["OldCaller"]


class OldCaller(Caller):
    """Is told of answers, and of cuts."""

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._over: dict[Call, asyncio.Future[Outcome]] = {}
        """What becomes of each call that is being attempted."""

    def answered(self, call: Call) -> None:
        """There is nothing left to wait for."""
        self._end(call, None)

    def cut(self, why: str, code: str) -> None:
        """No answer comes any more to what was sent."""
        for call in [call for call in self._over if call.sent]:
            self._end(call, Lost(why, code))

    def _end(self, call: Call, outcome: Outcome) -> None:
        over = self._over.get(call)
        if over is not None and not over.done():
            over.set_result(outcome)

    async def _attempt(self, call: Call) -> Outcome:
        call.sent = False
        over: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._over[call] = over
        asking = asyncio.create_task(super()._attempt(call), name=f"post {call.method}")
        try:
            await asyncio.wait([asking, over], return_when=asyncio.FIRST_COMPLETED)
            if not over.done():
                return await asking
            if over.result() is None:
                # The server may not have taken it to the end: its connection can be used again then.
                await asyncio.wait([asking], timeout=self._policy.note_timeout_s)
            return over.result()
        finally:
            self._over.pop(call, None)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _read(self, call: Call, standing: Standing, response: ClientResponse) -> Outcome:
        over = self._over.get(call)
        if not 200 <= response.status < 300 or over is None:
            return await super()._read(call, standing, response)
        response.close()
        await asyncio.wait([over])
        return over.result()

    async def _reopen(self, call: Call, standing: Standing) -> Outcome:
        self._over.pop(call, None)  # it was not executed, although its stream is given up
        return await super()._reopen(call, standing)
