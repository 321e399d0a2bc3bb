"""The client from hell on a WebSocket: a session and requests of 2026-07-28, all on one connection.

What comes has no place but the connection: an answer is told by its id, news by the id of whoever listens.
"""

import asyncio
import json

from tests.faults.hell.client import REVISIONS, Client
from tests.faults.hell.facts import HANG_S, Call, Json
from tests.faults.hell.hearing import Reading
from tests.faults.hell.modern_client import ModernClient
from tests.faults.hell.sse_client import SseClient
from tests.faults.hell.wires import GONE, PLAIN, Manner
from tests.http_client import Answer
from tests.support import within
from tests.websocket_client import CLOSE, CONT, PING, PONG, TEXT, frame, goodbye, read_frame, upgrade

__all__ = ["WsClient"]

BROKEN = (
    frame(TEXT, b"{}", mask=None),
    frame(TEXT, b"{}", reserved=0x40),
    frame(CONT, b"{}"),
    frame(TEXT, b"\xff\xfe"),
    frame(3, b"{}"),
    frame(PING, b"x" * 126),
    frame(TEXT, b"{", fin=False) + frame(TEXT, b"}"),
    frame(TEXT, b'{"jsonrpc":"2.0"')[:-3],
)
"""Frames that end a connection; the last one is never whole."""


class WsClient(ModernClient, SseClient):
    """A connection, which has one session at most."""

    CANNOT = ("come-back", "twins", "greet-again", "batch", "pipeline", "trespass")
    _garbage = 0
    _is_over = True

    async def open(self) -> bool:
        """A connection; most have a session, too."""
        self._everything = Reading()
        self._news = asyncio.Event()
        self._saying = asyncio.Lock()
        self._revision = self._dice.choice(REVISIONS)
        greets, self._has_closed = self._dice.random() < 0.8, False
        if not await self._connect():
            return False
        for _ in range(3 if greets else 0):
            reading = await self.greet(self._new_greeting())
            if reading.negotiated():
                await self.notify("notifications/initialized")
                break
        return True

    async def _connect(self) -> bool:
        self.tell("GET a WebSocket")
        peer = self._stream = await self.wires.take(Manner(reuses=False))
        fields = f"Authorization: Bearer {self.address.token}\r\nSec-WebSocket-Protocol: mcp\r\n"
        try:
            async with within(HANG_S):
                await self.wires.send(peer, upgrade(f"{self.address.base}/ws", fields))
                head = await peer.head()
        except GONE:
            self.problem("the connection ended before it was one")
            return False
        if head.status != 101:
            self.tell(f"  {head.status}: there is none")
            await self.wires.close(peer)
            return False
        self._is_over = False
        self._reader = asyncio.get_running_loop().create_task(self._read_all())
        return True

    async def act(self, name: str) -> None:
        if self._is_over:
            await self.delete()
            if not await self.open():
                return
        if name == "no-http":
            await self.break_rule(self._dice.choice(BROKEN))
        else:
            await super().act(name)

    async def _read_all(self) -> None:
        assert self._stream is not None
        try:
            while (said := await read_frame(self._stream.reader)).opcode != CLOSE:
                if said.opcode == PING:
                    await self._write(frame(PONG, said.data))
                elif said.opcode == TEXT:
                    self._hear(json.loads(said.data))
                    self._news.set()
            self.tell(f"  is told goodbye: {said.code} {said.data[2:]!r}")
            await self._write(goodbye(said.code))
        except GONE:
            if not (self._has_closed or self._has_left):
                self.problem("its connection was cut")
        finally:
            self.tell("  its connection has ended")
            self._is_over = True
            self._news.set()
            await self.wires.close(self._stream)

    def _hear(self, message: Json) -> None:
        if "method" not in message and message["id"] is None and self._garbage:
            self._garbage -= 1
        else:
            self.hearing.message(message, self._everything)

    # Saying

    async def say(self, data: bytes, manner: Manner = PLAIN) -> bool:
        """A message, in one frame or many. False: there is nobody to hear it."""
        if self._is_over or self._has_left:
            return False
        if manner.sends == "whole":
            return await self._write(frame(TEXT, data))
        step = max(1, len(data) // 4)
        parts = [data[at : at + step] for at in range(0, len(data), step)]
        frames = [
            frame(CONT if n else TEXT, part, fin=n == len(parts) - 1) + frame(PING, b"still there?") * (n % 2)
            for n, part in enumerate(parts)
        ]
        return await self._write(*frames)

    async def _write(self, *frames: bytes) -> bool:
        """Not between the frames of another message."""
        assert self._stream is not None
        async with self._saying:
            try:
                for data in frames:
                    await self.wires.send(self._stream, data)
            except GONE:
                return False
        return True

    async def post(self, reading: Reading, body: bytes, manner: Manner) -> None:
        self.tell(f"says {reading} {body[:100]!r} ({manner.sends}, leaves {manner.leaves or 'not'})")
        calls = list(reading.calls.values())
        if self._is_over:
            for call in calls:
                call.left = True
            return
        self.expect(reading)
        if await self.say(body, manner) and manner.leaves in ("at once", "later"):
            await asyncio.sleep(0.02 if manner.leaves == "later" else 0)
            await self._cancel(calls)
        await self._heard(lambda: all(call.answers or call.left for call in calls))
        for call in calls:
            call.cut = not call.answers

    async def _cancel(self, calls: list[Call]) -> None:
        for call in calls:
            call.left = True
            await self.notify("notifications/cancelled", {"requestId": call.id})

    async def notify(self, method: str, params: Json | None = None) -> None:
        """A call without a session that is cancelled is not answered."""
        call = self._everything.calls.get((params or {}).get("requestId", ""))
        if call is not None and call.capabilities is not None:
            call.left = True
            self._news.set()
        await super().notify(method, params)

    async def simple(
        self, method: str, body: bytes, *expected: int, session: str | None = None
    ) -> Answer | None:
        """Something that is not answered."""
        await self.say(body)
        return None

    async def send_garbage(self, body: bytes) -> None:
        if b"\xff" in body or b"\xc3" in body:
            return  # no text: that would be the end of the connection
        self.tell(f"says garbage {body[:60]!r}")
        self._garbage += 1
        await self.say(body)

    # Both eras

    def new_call(self, kind: tuple[str, str] | None = None, *, twin: Call | None = None) -> Call:
        is_modern = kind is None and self._dice.random() < 0.4
        call = super().new_call(kind) if is_modern else Client.new_call(self, kind)
        self.hearing.expect(call)
        return call

    def body_of(self, call: Call) -> bytes:
        return super().body_of(call) if call.capabilities is not None else Client.body_of(self, call)

    # News

    async def _listen(self, manner: Manner, reading: Reading) -> None:
        [call] = reading.calls.values()
        call.capabilities = {}
        self.tell(f"listens: {call.wanted}")
        self.expect(reading)
        try:
            is_said = await self.say(self.body_of(call), manner)
            while is_said and not (call.answers or self._is_over):
                self._news.clear()
                await self._news.wait()
            call.cut = not (call.answers or call.left)
        except asyncio.CancelledError:
            self.spawn(self._cancel([call]))
            raise

    # Endings

    async def break_rule(self, data: bytes) -> None:
        """The other side may end the connection, or wait for the rest until we end it."""
        self.tell(f"sends {data[:60]!r}")
        self._leave_all()
        await self._write(data)
        await asyncio.sleep(0.01)
        await self.delete()

    def _leave_all(self) -> None:
        self._has_closed = True
        for call in self._calls:
            call.left = True

    async def delete(self) -> None:
        """With a goodbye, which is answered by one."""
        self.tell("closes its connection")
        self._leave_all()
        if self._stream is None or self._reader is None:
            return
        if not self._is_over:
            await self._write(goodbye())
        await asyncio.wait([self._reader], timeout=1.0)
        await self.wires.leave(self._stream, PLAIN)
        await self._reader
