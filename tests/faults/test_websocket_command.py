"""WebSockets of the real command, with real signals: no call is lost, and nothing is left."""

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e.mooring import DEMO, LINUX_ONLY, Mooring, running_mooring
from tests.hosting import SCRIPTED
from tests.http_client import Peer
from tests.support import PATIENCE_S, until, within
from tests.websocket_client import TEXT, frame, goodbye, opened, read_frame, ws_client

SLEEP = {"name": "sleep", "arguments": {"seconds": 1.5}}


def port_of(mooring: Mooring) -> int:
    return urlsplit(mooring.url).port or 0


async def test_sigterm_with_calls_in_flight_on_many_sockets() -> None:
    async with running_mooring("--stop-grace", "1s", server=DEMO) as mooring:

        async def client() -> None:
            async with ws_client(port_of(mooring), path="/e2e/ws") as client:
                call = await client.send("tools/call", SLEEP)
                await client.result("ping")
                ready.release()
                await mooring.logged("draining")
                assert await client.text("echo", text="while draining") == "while draining"
                assert "result" in await client.answer(call)
                assert (await client.closed())[0] == 1001

        ready = asyncio.Semaphore(0)
        clients = [asyncio.create_task(client()) for _ in range(10)]
        async with within(60):
            for _ in clients:
                await ready.acquire()
            mooring.signal(signal.SIGTERM)
            await asyncio.gather(*clients)
        assert await mooring.ended() == 0


async def test_a_second_signal_cuts_the_call_in_words_and_then_the_socket() -> None:
    async with running_mooring("--stop-grace", "1s", server=SCRIPTED) as mooring:
        mooring.exit_status = 3
        async with ws_client(port_of(mooring)) as client:
            call = await client.send("x/hold")
            await client.result("x/any")
            mooring.signal(signal.SIGTERM)
            await mooring.logged("draining")
            await asyncio.sleep(0.6)  # as the contract says: at least 500 ms after the first
            mooring.signal(signal.SIGTERM)
            assert (await client.answer(call))["error"]["data"]["reason"] == "shutting_down"
            assert (await client.closed())[0] == 1001
        assert await mooring.ended() == 3


async def test_a_server_killed_while_many_call_it() -> None:
    async with running_mooring(server=SCRIPTED) as mooring, ws_client(port_of(mooring)) as client:
        for _ in range(3):
            pid = await client.pid()
            calls = [await client.send("x/hold") for _ in range(5)]
            await client.result("x/any")
            await mooring.kill(pid)
            for call in calls:
                assert (await client.answer(call))["error"]["data"]["reason"] == "server_exited"
            assert await client.pid() != pid


@LINUX_ONLY
async def test_connections_opened_and_dropped_leave_no_descriptor_task_or_process() -> None:
    async with running_mooring("--spare", "0", "--eof-grace", "0.5s", server=SCRIPTED) as mooring:
        await mooring.logged("state", state="ready")
        await until(lambda: not mooring.servers())
        before = await at_rest(mooring)
        for _ in range(20):
            await asyncio.gather(*[come_and_go(port_of(mooring), number) for number in range(10)])
        async with within(60):
            while mooring.servers() or await held(mooring) != before:
                await asyncio.sleep(0.05)


async def come_and_go(port: int, number: int) -> None:
    """Some with a session, and each with another end."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    await opened(peer, "/ws")
    if number % 5 == 0:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        peer.send(frame(TEXT, json.dumps(hello).encode()))
        async with within(60):
            assert b'"result"' in (await read_frame(peer.reader)).data
    if number % 2:
        peer.send(goodbye())
        async with within():
            assert (await read_frame(peer.reader)).code == 1000
    elif number % 4:
        peer.send(frame(TEXT, b"x" * 10_000)[:5_000])
        await peer.writer.drain()
    else:
        peer.reset()
    await peer.aclose()


async def at_rest(mooring: Mooring) -> dict[str, int]:
    """The same, once it does not change any more: what it has just stopped takes a moment to go."""
    looks: list[dict[str, int]] = []
    async with within(60):
        while len(looks) < 5 or looks[-5:] != [looks[-1]] * 5:
            looks.append(await held(mooring))
            await asyncio.sleep(0.05)
    return looks[-1]


async def held(mooring: Mooring) -> dict[str, int]:
    """What it has of everything; the connection that asks included."""

    def ask() -> str:
        with urllib.request.urlopen(f"{mooring.base}/metrics", timeout=PATIENCE_S) as page:
            return str(page.read(), "ascii")

    page = await asyncio.to_thread(ask)
    names = ("mooring_tasks", "mooring_connections{", "mooring_websockets", "mooring_held_bytes")
    found = {
        line.split()[0]: int(float(line.split()[1])) for line in page.splitlines() if line.startswith(names)
    }
    return found | {"descriptors": len(list(Path(f"/proc/{mooring.pid}/fd").iterdir()))}
