"""The client from hell on the transport of 2024-11-05: all answers come on the one stream of its session."""

import asyncio
from collections.abc import Callable

from mooring.wire.sse import EventDecoder
from tests.faults.hell.client import Client
from tests.faults.hell.facts import HANG_S
from tests.faults.hell.hearing import Reading
from tests.faults.hell.wires import GONE, PLAIN, Manner
from tests.http_client import Peer
from tests.support import within

__all__ = ["SseClient"]


class SseClient(Client):
    """A session that lives as long as its stream."""

    CANNOT: tuple[str, ...] = ("listen", "hang-up", "come-back", "twins", "greet-again")
    _stream: Peer | None = None
    _reader: "asyncio.Task[None] | None" = None
    _is_over = False
    _has_closed = False

    async def open(self) -> bool:
        before = self.session
        self._is_over = self._has_closed = False
        self._everything = Reading()
        self._news = asyncio.Event()
        self._revision = "2024-11-05"
        self._reader = asyncio.get_running_loop().create_task(self._read_all())
        if not await self._heard(lambda: self.session != before):
            return False
        for _ in range(3):
            reading = await self.greet(self._new_greeting())
            if reading.negotiated():
                await self.notify("notifications/initialized")
                return True
        return False

    async def _read_all(self) -> None:
        self.tell("GET the stream")
        decoder = EventDecoder()
        self._stream = await self.wires.take(Manner(reuses=False))
        try:
            await self.wires.send(self._stream, self.head("GET"))
            head = await self._stream.head()
            if head.status != 200:
                self.tell(f"  {head.status}: there is none")
                return
            async for chunk in self._stream.chunks():
                for event in decoder.feed(chunk):
                    if event.event == "endpoint":
                        self.session = event.data.rpartition("=")[2]
                    else:
                        self.hearing.event(event, self._everything)
                self._news.set()
        except GONE:
            if not (self._has_closed or self._has_left):
                self.problem("its stream was cut")
        finally:
            self.tell("  its stream has ended")
            self._is_over = True
            self._news.set()
            await self.wires.close(self._stream)

    async def _heard(self, condition: Callable[[], bool]) -> bool:
        """Wait for something on the stream. False: the stream is over, or it does not come."""
        try:
            async with within(HANG_S):
                while not condition() and not self._is_over:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            self.problem(f"nothing in {HANG_S:g} s on its stream")
        return condition()

    def expect(self, reading: Reading) -> None:
        super().expect(reading)
        self._everything.calls.update(reading.calls)

    async def read(self, peer: Peer, reading: Reading, manner: Manner) -> None:
        await super().read(peer, reading, manner)
        if reading.status != 202:
            return
        calls = list(reading.calls.values())
        for call in calls:
            call.status = 0
        await self._heard(lambda: all(call.answers or call.left for call in calls))
        for call in calls:
            call.cut = not call.answers

    async def delete(self) -> None:
        """The end of the stream is the end of the session."""
        self.tell("closes its stream")
        self._has_closed = True
        for call in self._calls:
            call.left = True
        if self._stream is not None:
            await self.wires.leave(self._stream, PLAIN)
        if self._reader is not None:
            await self._reader

    async def finish(self) -> None:
        await self.settle()
        await self.delete()
        await super().finish()

    def path_for(self, method: str, session: str) -> str:
        if method == "GET":
            return f"{self.address.base}/sse"
        return f"{self.address.base}/messages?session_id={session or self.session}"
