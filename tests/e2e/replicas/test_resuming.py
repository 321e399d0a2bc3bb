"""A stream of 10,000 numbered events, cut again and again, gone on with at another replica each time."""

import asyncio
import json
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mooring.wire.sse import Event
from tests.e2e.mooring import LINUX_ONLY, Mooring
from tests.e2e.replicas.fleet import Fleet, Roaming, running_fleet
from tests.mcp_client import Json, Stream, emission
from tests.replicas.stores import Server
from tests.support import within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

SCRIPTED = (sys.executable, "-I", str(Path(__file__).parents[2] / "faults" / "scripted_server.py"))
EVENTS = 10_000
CHUNK = 100
AHEAD = CHUNK
"""Of the reader, before another chunk: what waits while no stream is open has its bound, 256 messages."""
MOST_BETWEEN_CUTS = 400
PATIENCE_S = 120
HELD_BACK = ("--drain-timeout", "60s")


@pytest.fixture
def chance() -> random.Random:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def numbered(numbers: Sequence[int]) -> list[Json]:
    return [
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": n}}
        for n in numbers
    ]


class Reader:
    """Reads one stream, which breaks when it pleases; each time it goes on elsewhere."""

    def __init__(self, client: Roaming, chance: random.Random) -> None:
        self.seen: list[int] = []
        self.answers: list[Json] = []
        self.cuts = 0
        self._client = client
        self._chance = chance
        self._position = ""

    async def read_to_the_end(self, stream: Stream) -> None:
        """Until the call is answered."""
        while not self.answers:
            await self._some(stream)
            if self.answers:
                break
            stream = await self.resumed()
        stream.reset()

    async def read_so_many(self, stream: Stream, count: int) -> None:
        while len(self.seen) < count:
            await self._some(stream, count)
            if len(self.seen) < count:
                stream = await self.resumed()
        stream.reset()

    async def resumed(self) -> Stream:
        """At the next replica."""
        assert self._position
        while True:
            peer = await self._client.send("GET", Last_Event_ID=self._position)
            async with within():
                head = await peer.head()
            if head.status == 200:
                return Stream(peer, head)
            # Not now: as a client does, ask again.
            answer = await peer.rest(head)
            assert answer.status == 503, answer
            await asyncio.sleep(0.1)

    async def _some(self, stream: Stream, count: int = EVENTS + 1) -> None:
        """A few events, up to the next cut; or to the end of the connection."""
        left = self._chance.randrange(MOST_BETWEEN_CUTS)
        while left and len(self.seen) < count and not self.answers:
            try:
                event = await stream.event()
            except (OSError, asyncio.IncompleteReadError):
                break
            if event is None:
                break
            self._take(event)
            left -= 1
        stream.reset()
        self.cuts += 1

    def _take(self, event: Event) -> None:
        if event.id:
            self._position = event.id
        if not event.data:
            return
        message = json.loads(event.data)
        if "method" not in message:
            self.answers.append(message)
        elif message["method"] == "notifications/message" and isinstance(message["params"]["data"], int):
            assert message["params"]["data"] == len(self.seen), (message, self.seen[-3:], event.id)
            self.seen.append(message["params"]["data"])


async def owner_of(fleet: Fleet) -> Mooring:
    """The replica with a session."""
    for replica in fleet.replicas:
        if (await replica.get("/readyz"))[1]["sessions"]:
            return replica
    raise AssertionError("nobody has it")


@pytest.mark.parametrize("drains", [False, True], ids=["stays", "drains"])
async def test_the_stream_of_a_call(drains: bool, store: Server, chance: random.Random) -> None:
    async with running_fleet(3, store, SCRIPTED, *HELD_BACK) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        await client.initialize()
        owner = await owner_of(fleet)
        body = client.request("x/emit", emission(*numbered(range(EVENTS))), id="all")
        reader = Reader(client, chance)
        async with within(PATIENCE_S):
            reading = asyncio.create_task(reader.read_to_the_end(await client.stream("POST", body)))
            if drains:
                while len(reader.seen) < EVENTS / 3 and not reading.done():
                    await asyncio.sleep(0)
                owner.signal(signal.SIGTERM)
                client.go_only_to(*(one for one in fleet.replicas if one is not owner))
            await reading
        print(f"{reader.cuts} cuts")
        assert reader.seen == list(range(EVENTS))
        assert reader.answers == [{"jsonrpc": "2.0", "id": "all", "result": {"emitted": EVENTS}}]


@pytest.mark.parametrize("drains", [False, True], ids=["stays", "drains"])
async def test_the_stream_of_a_session(drains: bool, store: Server, chance: random.Random) -> None:
    """The server speaks unasked, whoever it is: with the owner its server goes too."""
    async with running_fleet(3, store, SCRIPTED) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        await client.initialize()
        owner = await owner_of(fleet)
        reader = Reader(client, chance)

        async def speak() -> None:
            for first in range(0, EVENTS, CHUNK):
                while len(reader.seen) < first - AHEAD:
                    await asyncio.sleep(0)
                lines = numbered(range(first, first + CHUNK))
                # It cannot take a stream: all but its answer goes to the one that listens.
                body = client.request("x/emit", emission(*lines))
                answer = await client.raw("POST", body, Accept="application/json")
                assert answer.status == 200, answer
                assert json.loads(answer.body)["result"] == {"emitted": CHUNK}
                if drains and first == EVENTS // 2:
                    owner.signal(signal.SIGTERM)
                    client.go_only_to(*(one for one in fleet.replicas if one is not owner))

        async with within(PATIENCE_S):
            stream = await client.stream("GET")
            speaking = asyncio.create_task(speak())
            reading = asyncio.create_task(reader.read_so_many(stream, EVENTS))
            try:
                await asyncio.gather(speaking, reading)
            finally:
                speaking.cancel(), reading.cancel()
                await asyncio.gather(speaking, reading, return_exceptions=True)
        print(f"{reader.cuts} cuts")
        assert reader.seen == list(range(EVENTS))
