"""How a client speaks: requests that carry calls, in all manners, and the reading of what comes back."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mooring.wire.sse import EventDecoder
from tests.faults.hell.facts import HANG_S, Call, Facts, Id
from tests.faults.hell.hearing import Hearing, Reading
from tests.faults.hell.wires import GONE, PLAIN, Address, Manner, Wires
from tests.http_client import Answer, Peer
from tests.support import within

__all__ = ["Talker"]

SLOW_EVENTS = 30
"""So many are read slowly; whoever goes on like that does not come to an end where others are busy."""


class Talker:
    """One session of Streamable HTTP, as far as the wire goes."""

    ANSWERS: tuple[int, ...] = (200,)
    """The statuses of what may be an answer to a call."""

    def __init__(self, facts: Facts, address: Address, marker: str) -> None:
        self.address = address
        self.marker = marker
        self.session = ""
        """Its id, once it is open."""
        self.hearing = Hearing(facts, marker, self.on_question)
        self.wires = Wires(address)
        self._facts = facts
        self._has_left = False

    def tell(self, text: str) -> None:
        self._facts.tell(self.marker, text)

    def problem(self, text: str) -> None:
        self._facts.problem(f"{self.marker}: {text}")

    def on_question(self, id: Id, question: str, reading: Reading) -> None:
        """The server asks something."""

    # Calls

    def expect(self, reading: Reading) -> None:
        """These calls are about to be sent."""
        for call in reading.calls.values():
            call.whole, call.session_id = True, self.session
            call.left = call.left or self._has_left  # nobody is there to read what comes back

    async def post(self, reading: Reading, body: bytes, manner: Manner) -> None:
        """Send calls, and read what comes back."""
        self.tell(f"POST {reading} {body[:100]!r} ({manner.sends}, leaves {manner.leaves or 'not'})")
        calls = reading.calls.values()
        is_greeting = any(call.method == "initialize" for call in calls)
        head = self.head("POST", body, session="" if is_greeting else self.session)
        data = head.replace(PLAIN.accepts.encode(), manner.accepts.encode()) + body
        peer = await self.wires.take(manner)
        if manner.sends == "half":
            with suppress(*GONE):
                await self.wires.send(peer, data[: -1 - len(body) * manner.leaves_after // 5])
            await self._give_up(peer, reading, manner)
            return
        self.expect(reading)
        try:
            await self.wires.send(peer, data, manner)
            if manner.leaves == "half":
                for call in calls:
                    call.left = True  # gets an answer that comes alone, but no stream
                if not peer.writer.is_closing():  # uvloop raises RuntimeError then
                    peer.writer.write_eof()
        except GONE:
            await self._cut(peer, reading)
            return
        if manner.leaves in ("at once", "later"):
            await asyncio.sleep(0.02 if manner.leaves == "later" else 0)
            await self._give_up(peer, reading, manner)
        else:
            await self.read(peer, reading, manner)

    async def pipeline(self, calls: Sequence[Call], bodies: Sequence[bytes]) -> None:
        """Several requests at once on one connection."""
        self.tell(f"POST {' | '.join(call.token for call in calls)}")
        peer = await self.wires.take(Manner(reuses=False))
        self.expect(Reading(calls))
        with suppress(*GONE):
            await self.wires.send(peer, b"".join(self.head("POST", body) + body for body in bodies))
        for call in calls:
            await self.read(peer, Reading([call]), Manner(reuses=False))
        await self.wires.close(peer)

    # Reading

    async def read(self, peer: Peer, reading: Reading, manner: Manner) -> None:
        """The answer to some calls: to its end, or to where we leave it."""
        try:
            async with within(HANG_S):
                is_whole = await self._read(peer, reading, manner)
        except TimeoutError:
            self.problem(f"no answer in {HANG_S:g} s to {reading}")
            await self._give_up(peer, reading, manner)
            return
        except GONE:
            await self._cut(peer, reading)
            return
        if not is_whole:
            await self._give_up(peer, reading, manner)
            if manner.comes_back and reading.at:
                await self.resume(reading)
            return
        self.hearing.over(reading)
        for call in reading.calls.values():
            call.status = reading.status if reading.status not in self.ANSWERS else 0
        if manner.reuses and manner.leaves != "half":
            self.wires.give_back(peer)

    async def resume(self, reading: Reading) -> None:
        """Go on where a stream was left."""
        self.tell(f"GET after {reading.at}, for {reading}")
        resumed = Reading(reading.calls.values(), at=reading.at)
        self.hearing.resumes(resumed)
        peer = await self.wires.take()
        with suppress(*GONE):
            await self.wires.send(peer, self.head("GET", after=reading.at))
        await self.read(peer, resumed, PLAIN)
        for call in reading.calls.values():
            call.status = 0  # of the resumption, not of the call

    async def _read(self, peer: Peer, reading: Reading, manner: Manner) -> bool:
        """One HTTP answer. False: it was left in the middle."""
        if manner.reads_slowly:
            await asyncio.sleep(0.01)
        head = await peer.head()
        reading.status, reading.headers = head.status, head.headers
        self.tell(f"  {head.status} {head.headers.get('content-type', '')} for {reading}")
        if head.headers.get("content-type") == "text/event-stream":
            return await self._read_stream(peer, reading, manner)
        answer = await peer.rest(head)
        if head.status in self.ANSWERS:
            self.hearing.body(answer.body, reading)
        return True

    async def _read_stream(self, peer: Peer, reading: Reading, manner: Manner) -> bool:
        decoder = EventDecoder()
        async for chunk in peer.chunks():
            for event in decoder.feed(chunk):
                self.hearing.event(event, reading)
                if manner.leaves == "in the stream" and reading.events > manner.leaves_after:
                    return False
            if manner.reads_slowly and reading.events < SLOW_EVENTS:
                await asyncio.sleep(0.005)
        self.tell(f"  the stream of {reading} has ended after {reading.at}")
        return True

    async def _give_up(self, peer: Peer, reading: Reading, manner: Manner) -> None:
        self.tell(f"  leaves {reading}")
        reading.is_over = True
        for call in reading.calls.values():
            call.left = True
        await self.wires.leave(peer, manner)

    async def _cut(self, peer: Peer, reading: Reading) -> None:
        self.tell(f"  was cut off: {reading}")
        for call in reading.calls.values():
            call.cut = not call.answers
        await self.wires.close(peer)

    # Requests

    def path_for(self, method: str, session: str) -> str:
        """Where a request of that session goes, or of none."""
        return f"{self.address.base}/mcp"

    def head(self, method: str, body: bytes = b"", *, after: str = "", session: str | None = None) -> bytes:
        name = self.session if session is None else session
        lines = [
            f"{method} {self.path_for(method, name)} HTTP/1.1",
            "Host: localhost",
            f"Accept: {PLAIN.accepts}",
            f"Authorization: Bearer {self.address.token}",
        ]
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if after:
            lines.append(f"Last-Event-ID: {after}")
        if name:
            lines.append(f"Mcp-Session-Id: {name}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def simple(
        self, method: str, body: bytes, *expected: int, session: str | None = None
    ) -> Answer | None:
        """A request that carries no call, or none that may be executed. None: there was no answer."""
        peer = await self.wires.take()
        try:
            async with within(HANG_S):
                await self.wires.send(peer, self.head(method, body, session=session) + body)
                answer = await peer.answer()
        except TimeoutError:
            self.problem(f"no answer in {HANG_S:g} s to {method} {body[:100]!r}")
        except GONE:
            if not self._has_left:
                self.problem(f"the connection ended without an answer to {method} {body[:100]!r}")
        else:
            if answer.status not in expected:
                self.problem(
                    f"{method} {body[:100]!r} was answered with {answer.status} {answer.body[:200]!r}"
                )
            if answer.headers.get("connection") != "close":
                self.wires.give_back(peer)
                return answer
        await self.wires.close(peer)
        return None
