"""Floods, churn and crowds on real sockets: each is served, or told that there is no room."""

import asyncio
import os
import re
import resource
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mooring.host.capacity import connections_within
from mooring.http.connection import SLICE_BYTES
from mooring.http.limits import Limits
from mooring.wire.http import Exchange, Response
from tests.e2e.mooring import DEMO, LINUX_ONLY, Mooring, running_mooring
from tests.e2e.program import Program
from tests.http_client import Held, Peer, Served, echo, get, post, serving
from tests.mcp_client import McpClient
from tests.support import on_both_loops, until, within

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
CROWD = [sys.executable, str(Path(__file__).with_name("idle_crowd.py"))]


def dropped(port: int, number: int) -> None:
    """Connect, perhaps send a part of something, and leave with a reset or properly."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall((b"", b"GET / HT", post(b"12345")[:-2], get() * 3)[number % 4])
        if number % 3:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def flood(number: int, *, seconds: float) -> None:
    async with serving(echo) as served, within(seconds):
        worker = await served.peer()
        for begin in range(0, number, 100):
            for one in range(begin, begin + 100):
                dropped(served.port, one)
            assert (await worker.get()).status == 200
        await until(lambda: served.listener.connections == 1)
        assert served.listener.refused == 0
        assert (await worker.get()).status == 200


@on_both_loops
async def test_a_flood_of_connections_that_leave_at_once() -> None:
    await flood(2000, seconds=60)


@pytest.mark.slow
@on_both_loops
async def test_a_long_flood_of_connections_that_leave_at_once() -> None:
    await flood(30_000, seconds=600)  # those that leave properly occupy a port for a minute


@on_both_loops
async def test_connections_that_come_ask_and_go() -> None:
    async def client(served: Served) -> None:
        for number in range(50):
            peer = await served.peer()
            assert (await peer.get(f"/{number}")).body == b"GET /%d  " % number
            await peer.aclose()

    async with serving(echo) as served, within(60):
        await asyncio.gather(*(client(served) for _ in range(20)))
        await until(lambda: served.listener.connections == 0)


@on_both_loops
async def test_a_flood_of_pipelined_requests_is_answered_in_order_and_never_piled_up() -> None:
    most = 0

    def app(exchange: Exchange) -> None:
        nonlocal most
        most = max(most, len(served.connection._waiting))
        exchange.respond(Response(200, exchange.request.path.encode()))

    async with serving(app) as served, within(60):
        peer = await served.peer()
        peer.send(b"".join(get(f"/{number}") for number in range(10_000)))
        for number in range(10_000):
            assert (await peer.answer()).body == b"/%d" % number
        assert most <= SLICE_BYTES / len(get("/0"))


@on_both_loops
async def test_a_flood_of_pipelined_requests_waits_for_an_app_that_is_slow() -> None:
    held = Held()
    async with serving(held) as served, within(60):
        peer = await served.peer()
        peer.send(get() * 5000)
        for answered in range(5000):
            exchanges = await held.at_least(answered + 1)
            assert len(exchanges) - answered <= Limits().max_pipelined
            assert len(served.connection._waiting) <= SLICE_BYTES / len(get())
            exchanges[answered].respond(Response(200))
            assert (await peer.answer()).status == 200


class Crowd:
    """Many connections, in programs of their own."""

    def __init__(self, programs: list[Program]) -> None:
        self._programs = programs
        self._times = 0

    async def counted(self) -> Counter[str]:
        """What they say, all together, the next time."""
        told = [await program.message(lambda _: True, since=self._times) for program in self._programs]
        self._times += 1
        return sum(map(Counter, told), Counter())

    async def ask_again(self) -> Counter[str]:
        for program in self._programs:
            await program.send({})
        return await self.counted()


@asynccontextmanager
async def crowd(port: int, number: int, programs: int) -> AsyncIterator[Crowd]:
    async with AsyncExitStack() as stack:
        share = [*CROWD, str(port), str(number // programs)]
        started = [Program(share, environment=os.environ) for _ in range(programs)]
        yield Crowd([await stack.enter_async_context(program) for program in started])


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0])


async def counter(peer: Peer, name: str) -> float:
    page = (await peer.get("/metrics")).body.decode()
    return float(re.findall(rf"^mooring_{name}{{.*}} (\S+)$", page, re.MULTILINE)[0])


async def fill_up(mooring: Mooring, *, room: int, number: int, programs: int) -> str:
    """More connections than there is room for: the first are kept, the rest refused, and work goes on."""
    async with McpClient(urlsplit(mooring.url).port or 0) as client, within(900):
        control = await client.peer()
        before_kib = resident_kib(mooring.pid)
        async with crowd(client.port, number, programs) as all_of_them:
            counting = asyncio.ensure_future(all_of_them.counted())
            while not counting.done():
                assert (await control.get("/livez")).status == 200
                await asyncio.wait([counting], timeout=5)
            told = counting.result()
            assert told == {"open": room - 1, "refused": number - room + 1}
            assert await counter(control, "connections") == room
            assert await counter(control, "connections_refused_total") == told["refused"]
            kib = (resident_kib(mooring.pid) - before_kib) / told["open"]
            figures = f"{told['open']} idle connections, {kib:.1f} KiB each; {told['refused']} refused"
            # There are descriptors left for a server, and the connections are of use.
            control.send(client.head("POST", client.request("initialize", INITIALIZE)))
            assert (await control.answer()).status == 200
            assert (await all_of_them.ask_again())["open"] == told["open"]
        while await counter(control, "connections") > 1:
            pass
        assert (await (await client.peer()).get("/livez")).status == 200
        warnings = [line for line in mooring.log if line.get("event") == "connections_refused"]
        assert 1 <= len(warnings) < 20, "a line now and then, not one for each"
        assert (await control.get("/livez")).status == 200
    return figures


@LINUX_ONLY
async def test_the_descriptor_limit_bounds_the_connections() -> None:
    async with running_mooring("--max-sessions", "10", server=DEMO, descriptors=300) as mooring:
        await fill_up(mooring, room=150, number=400, programs=1)


@LINUX_ONLY
@pytest.mark.slow
async def test_twenty_thousand_idle_connections(capsys: pytest.CaptureFixture[str]) -> None:
    """Or as many as this machine's limit of descriptors allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = min(hard, 20_200)
    room = min(20_000, connections_within(descriptors, servers=11))
    async with running_mooring("--max-sessions", "10", server=DEMO, descriptors=descriptors) as mooring:
        figures = await fill_up(mooring, room=room, number=room - room % 3 + 999, programs=3)
    with capsys.disabled():
        print(f"\n{figures}")
