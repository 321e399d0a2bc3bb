"""The shutdown contract, with the real command and real signals: no failed request, the right exit
status, nothing left."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.mooring import COMMAND, DEMO, Mooring, running_mooring
from tests.e2e.program import Program, carrying
from tests.hosting import SCRIPTED
from tests.http_client import Peer
from tests.mcp_client import McpClient, client_of
from tests.support import alive, until, within

SLEEP = {"name": "sleep", "arguments": {"seconds": 1.5}}
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, sys, runpy; signal.signal(15, signal.SIG_IGN); sys.argv[1:] = []; "
    f"runpy.run_path({SCRIPTED[1]!r}, run_name='__main__'); signal.pause()",
]


def port_of(mooring: Mooring) -> int:
    return urlsplit(mooring.url).port or 0


@asynccontextmanager
async def served(*options: str, server: list[str] | None = None) -> AsyncIterator[tuple[Mooring, McpClient]]:
    async with (
        running_mooring("--stop-grace", "1s", *options, server=server or DEMO) as mooring,
        client_of(port_of(mooring)) as client,
    ):
        yield mooring, client


async def in_flight(mooring: Mooring, number: int) -> None:
    async with within():
        while (await mooring.get("/readyz"))[1]["calls_in_flight"] != number:
            pass


async def draining(mooring: Mooring) -> None:
    await mooring.logged("draining")


async def no_longer_accepting(mooring: Mooring) -> None:
    """Its listening socket is closed. Looked up, not tried: a knock could take a second to be refused."""
    here = f":{port_of(mooring):04X}"

    def listens() -> bool:
        sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(fields[1].endswith(here) and fields[3] == "0A" for fields in sockets)

    await until(lambda: not listens())


async def test_calls_in_flight_finish_and_readiness_ends_first() -> None:
    async with served("--drain-delay", "1s") as (mooring, client):
        calls = [asyncio.create_task(client.ask("tools/call", SLEEP)) for _ in range(200)]
        await in_flight(mooring, 200)
        mooring.signal(signal.SIGTERM)
        await draining(mooring)
        status, seen = await mooring.get("/readyz")
        assert (status, seen["state"], seen["cause"]) == (503, "draining", "SIGTERM")
        assert (await mooring.get("/livez"))[0] == 200
        # Both eras of requests still succeed, and answers say that the connection closes.
        answer = await client.raw("POST", client.request("ping"))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        async with client_of(port_of(mooring)) as late:
            assert await late.text("echo", text="during the delay") == "during the delay"
        for answered in await asyncio.gather(*calls):
            assert "result" in answered
        assert await mooring.ended() == 0


async def test_a_connection_accepted_before_the_signal_gets_its_answer() -> None:
    async with served("--drain-delay", "1s") as (mooring, client):
        silent = await client.peer()
        idle = await client.peer()
        idle.send(client.head("POST", client.request("ping")))
        async with within():
            assert (await idle.answer()).status == 200
        mooring.signal(signal.SIGTERM)
        await draining(mooring)
        for peer in (silent, idle):
            await asyncio.sleep(0.2)  # as the contract's cases say: 200 ms after the signal
            peer.send(client.head("POST", client.request("ping")))
            async with within():
                answer = await peer.answer()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert await peer.at_end()


async def test_without_a_delay_an_accepted_connection_still_gets_its_answer() -> None:
    async with served() as (mooring, client):
        silent = await client.peer()
        await client.ask("ping")  # by now the connection before it is accepted too
        mooring.signal(signal.SIGTERM)
        await draining(mooring)
        await asyncio.sleep(0.2)
        silent.send(client.head("POST", client.request("ping")))
        async with within():
            assert (await silent.answer()).status == 200


async def test_after_the_delay_new_sessions_are_refused_in_words() -> None:
    async with served() as (mooring, client):
        held = await client.peer()
        call = asyncio.create_task(client.ask("tools/call", SLEEP))
        await in_flight(mooring, 1)
        mooring.signal(signal.SIGTERM)
        await no_longer_accepting(mooring)
        body = client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, id="n")
        held.send(client.head("POST", body, Mcp_Session_Id=""))
        async with within():
            refused = await held.answer()
        assert refused.status == 503 and refused.headers["retry-after"]
        told = json.loads(refused.body)
        assert (told["id"], told["error"]["data"]["reason"]) == ("n", "shutting_down")
        assert "result" in await call


async def test_a_thousand_streams_end_with_a_position_and_a_time_to_return() -> None:
    async with served("--drain-delay", "1s") as (mooring, client):
        streams = [await client.stream() for _ in range(1000)]
        mooring.signal(signal.SIGTERM)
        for stream in streams:
            events = []
            while (event := await stream.event()) is not None:
                events.append(event)
            assert stream.ended
            assert events[-1].id and events[-1].retry_ms, events


async def test_a_call_that_does_not_finish_is_cut_with_an_error_and_exit_status_3() -> None:
    async with served("--drain-timeout", "1s") as (mooring, client):
        mooring.exit_status = 3
        forever = {"name": "sleep", "arguments": {"seconds": 600}}
        call = asyncio.create_task(client.ask("tools/call", forever))
        await in_flight(mooring, 1)
        mooring.signal(signal.SIGTERM)
        error = (await call)["error"]
        assert (error["code"], error["data"]["reason"]) == (-32603, "shutting_down")
        assert "SIGTERM" in error["message"]


async def test_a_second_signal_does_not_wait() -> None:
    async with served("--drain-timeout", "none") as (mooring, client):
        mooring.exit_status = 3
        call = asyncio.create_task(client.ask("tools/call", {"name": "sleep", "arguments": {"seconds": 600}}))
        await in_flight(mooring, 1)
        mooring.signal(signal.SIGINT)
        mooring.signal(signal.SIGINT)  # at once: counts as the same wish
        await draining(mooring)
        await asyncio.sleep(0.6)  # the contract: at least 500 ms after the first
        assert not call.done()
        mooring.signal(signal.SIGTERM)
        assert (await call)["error"]["data"]["reason"] == "shutting_down"


async def test_sigquit_shows_what_runs_and_in_a_drain_does_only_that() -> None:
    async with served() as (mooring, client):
        call = asyncio.create_task(client.ask("tools/call", SLEEP))
        await in_flight(mooring, 1)
        mooring.signal(signal.SIGTERM)
        await draining(mooring)
        mooring.signal(signal.SIGQUIT)
        await until(lambda: any("tasks" in word for word in mooring.words))
        assert "result" in await call


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGHUP])
async def test_other_signals_end_it_too(number: signal.Signals) -> None:
    async with served() as (mooring, _client):
        mooring.signal(number)
        assert await mooring.ended() == 0


async def test_a_child_that_ignores_everything_is_ended_within_the_deadline() -> None:
    options = ("--drain-timeout", "3s", "--eof-grace", "500ms", "--stop-grace", "60s")
    async with running_mooring(*options, server=STUBBORN) as mooring:
        async with client_of(port_of(mooring)) as client:
            pid = await client.pid()
        mooring.signal(signal.SIGTERM)
        assert await mooring.ended() == 0
        assert not alive(pid)


async def test_a_client_that_reads_nothing_does_not_hold_it_up() -> None:
    async with served("--drain-timeout", "3s") as (mooring, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(mooring), limit=1)
        peer = Peer(reader, writer)
        big = {"name": "big", "arguments": {"bytes": 30_000_000}}
        peer.send(client.head("POST", client.request("tools/call", big)))
        async with within():
            await reader.read(1)
        await in_flight(mooring, 0)
        mooring.signal(signal.SIGTERM)
        assert await mooring.ended() == 0
        await peer.aclose()


async def test_a_signal_while_starting_opens_nothing_and_leaves_nothing() -> None:
    token = f"MOORING_E2E=starting-{os.getpid()}"
    for delay_s in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3):
        argv: list[str | Path] = [
            COMMAND,
            "run",
            "--foreground",
            "x",
            "--port",
            "0",
            "--env",
            token,
            "--",
            *DEMO,
        ]
        program = Program(argv, listen_to="stdout", environment=dict(os.environ))
        async with program:
            await asyncio.sleep(delay_s)
            program.process.send_signal(signal.SIGTERM)
            status = await program.ended()
            # Before Python runs our code at all, the signal's own default is what ends it.
            assert status == 0 or (status == -15 and not program.words), program.told()
        await until(lambda: not carrying(token))


async def test_a_taken_port_is_exit_1_and_says_by_whom() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        argv: list[str | Path] = [COMMAND, "run", "--foreground", "x", "--port", str(port), "--", *DEMO]
        async with Program(argv, listen_to="stdout", environment=dict(os.environ)) as program:
            assert await program.ended() == 1
            told = "\n".join(program.words)
            assert f"pid {os.getpid()}" in told and "--port" in told


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (["/no/such/program"], "/no/such/program"),
        (["no-such-program-anywhere"], "no-such-program-anywhere"),
        (["/etc/passwd"], "/etc/passwd"),
    ],
)
async def test_a_server_that_cannot_be_started_is_exit_2_before_anything_listens(
    server: list[str], words: str
) -> None:
    argv: list[str | Path] = [COMMAND, "run", "--foreground", "x", "--port", "0", "--", *server]
    async with Program(argv, listen_to="stdout", environment=dict(os.environ)) as program:
        assert await program.ended() == 2
        told = "\n".join(program.words)
        assert words in told and "served at" not in told and "Traceback" not in told


async def test_kill_9_leaves_nothing(tmp_path: Path) -> None:
    """Pain 2: 20 children, stubborn ones with stubborn grandchildren; and a bystander that is not touched."""
    bystander = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    family = tmp_path / "family.sh"
    family.write_text(
        "#!/bin/sh\ntrap '' TERM HUP INT\n(trap '' TERM HUP INT; exec sleep 600) &\n"
        f"exec {' '.join(SCRIPTED)}\n"
    )
    family.chmod(0o755)
    try:
        async with running_mooring(server=[str(family)]) as mooring:
            clients = [McpClient(port_of(mooring)) for _ in range(20)]
            for client in clients:
                await client.initialize()
            assert len(mooring.servers()) >= 40
            mooring.exit_status = -9
            mooring.signal(signal.SIGKILL)
            await until(lambda: not mooring.servers())
            for client in clients:
                await client.__aexit__()
        assert alive(bystander.pid)
    finally:
        bystander.kill()
        await bystander.wait()


@pytest.mark.slow
@pytest.mark.parametrize("round", range(50))
async def test_no_request_fails_fifty_times(round: int) -> None:
    """All cases of the contract at once: a call in flight, a silent connection, an idle one, streams."""
    async with served("--drain-delay", "1s") as (mooring, client):
        silent, idle = await client.peer(), await client.peer()
        idle.send(client.head("POST", client.request("ping")))
        async with within():
            assert (await idle.answer()).status == 200
        streams = [await client.stream() for _ in range(50)]
        calls = [asyncio.create_task(client.ask("tools/call", SLEEP)) for _ in range(20)]
        await in_flight(mooring, 20)
        mooring.signal(signal.SIGTERM)
        await asyncio.sleep(0.2)  # as the contract's cases say: 200 ms after the signal
        for peer in (silent, idle):
            peer.send(client.head("POST", client.request("ping")))
            async with within():
                assert (await peer.answer()).status == 200
        assert all("result" in answer for answer in await asyncio.gather(*calls))
        for stream in streams:
            while (event := await stream.event()) is not None:
                last = event
            assert last.id and last.retry_ms
        assert await mooring.ended() == 0


@pytest.mark.slow
async def test_a_session_survives_ten_kills() -> None:
    """Three at once, the others after the back-off that the policy asks for; every call is executed once."""
    async with served() as (mooring, client):
        for _ in range(10):
            said = json.loads(await client.text("counter"))
            await mooring.kill(said["pid"])
            async with within(120):
                while "error" in (answer := await client.ask("tools/call", {"name": "counter"})):
                    assert answer["error"]["data"] == {"reason": "server_unavailable", "retryable": True}
            again = json.loads(answer["result"]["content"][0]["text"])
            assert (again["count"], again["pid"] != said["pid"]) == (1, True)
