"""The benchmark's own instruments: a server, a load generator and a bridge that must not lie."""

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bench import programs
from bench.containers import by_hand, engine, options
from bench.targets import free_port
from mooring.runtimes.containers.labels import Owned, Owner
from mooring.runtimes.containers.spec import ContainerSpec, creation
from tests.containers.engines import RealDocker
from tests.hosting import hosting
from tests.mcp_client import McpClient, client_of
from tests.raw_server import Asked, Wire, answer, raw_server
from tests.support import within

MIB = 1024 * 1024

Json = dict[str, Any]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the C programs. Without a C compiler this fails, and says how to get one."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("child", "load", "responder"):
        programs.build(name, folder=folder)
    return folder


@pytest.fixture
def child(built: Path) -> str:
    return str(built / "child")


@asynccontextmanager
async def running(*argv: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(*argv)
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def generate(built: Path, *words: str) -> Json:
    """What the load generator reports."""
    process = await asyncio.create_subprocess_exec(built / "load", *words, stdout=asyncio.subprocess.PIPE)
    async with within(60):
        said, _ = await process.communicate()
    assert process.returncode == 0
    report: Json = json.loads(said)
    return report


async def counted(client: McpClient, name: str) -> int:
    """One of Mooring's own counters."""
    page = (await client.raw("GET", Accept="text/plain")).body.decode()
    [line] = [line for line in page.splitlines() if line.startswith(f"mooring_{name}{{")]
    return int(float(line.split()[-1]))


# The server.


def talk(child: str, *lines: bytes, options: tuple[str, ...] = ()) -> list[Json]:
    """What the server says to these lines."""
    argv = [child, *options]
    done = subprocess.run(argv, input=b"".join(lines), capture_output=True, check=True, timeout=20)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_server_reads_json_in_any_order_and_spacing(child: str) -> None:
    answers = talk(
        child,
        b'{ "id" : "a \\" b" , "method" : "ping" }\n',
        b'{"params":{"arguments":{"id":9,"text":"{\\"id\\":8}"},"name":"echo"},"method":"tools/call","id":7}\r\n',
        b'{"method":"notifications/initialized","params":{"id":1}}\n',
        b'{"jsonrpc":"2.0","id":3,"result":{"method":"ping"}}\n',
        b'{"jsonrpc":"2.0","id":4,"method":"resources/list"}\n',
    )
    assert [answer["id"] for answer in answers] == ['a " b', 7, 4]
    assert answers[0]["result"] == {}
    assert answers[1]["result"]["content"][0]["text"] == '{"id":8}'
    assert answers[2]["error"]["code"] == -32601


def test_the_server_takes_a_line_of_20_mib(child: str) -> None:
    text = "x" * (20 * MIB)
    call = {"name": "echo", "arguments": {"text": text}}
    line = json.dumps({"id": 1, "method": "tools/call", "params": call}).encode() + b"\n"
    [answer] = talk(child, line)
    assert answer["result"]["content"][0]["text"] == text


def test_the_modern_server_speaks_2026_07_28_and_nothing_else(child: str) -> None:
    refused, discovered, called, unknown = talk(
        child,
        b'{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n',
        b'{"id":2,"method":"server/discover"}\n',
        b'{"id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}\n',
        b'{"id":4,"method":"ping"}\n',
        options=("--modern",),
    )
    assert refused["error"]["code"] == -32022
    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert called["result"] == {"resultType": "complete", "content": [{"type": "text", "text": "hello"}]}
    assert unknown["error"]["code"] == -32601


async def test_the_servers_tools_behind_mooring(child: str) -> None:
    async with hosting((child,)) as host, client_of(host.port) as client:
        tools = {tool["name"] for tool in (await client.result("tools/list"))["tools"]}
        assert tools == {"echo", "big", "events", "sleep", "pid", "die"}
        assert await client.text("echo", text='é "quoted"\n') == 'é "quoted"\n'
        assert len(await client.text("big", bytes=MIB)) == MIB
        slow = asyncio.create_task(client.text("sleep", ms=200))
        pid = int(await client.text("pid"))
        assert not slow.done()
        assert await slow == "slept"
        died = await client.ask("tools/call", {"name": "die", "arguments": {"code": 3}})
        assert died["error"]["data"]["reason"] == "server_exited"
        assert int(await client.text("pid")) != pid


# The load generator.


@pytest.mark.parametrize("name", ["", "/test"])
async def test_the_generator_makes_as_many_calls_as_it_says(built: Path, child: str, name: str) -> None:
    async with hosting((child,)) as host, McpClient(host.port, path="/metrics") as metrics:
        address = f"127.0.0.1:{host.port}{name}"
        before = await counted(metrics, "calls_total")
        report = await generate(built, "http", address, "-c", "8", "-s", "20", "-n", "1000")
        assert (report["calls"], report["errors"]) == (1000, 0)
        assert await counted(metrics, "calls_total") - before == 1000 + 20  # each session's initialize
        assert await counted(metrics, "sessions_opened_total") == 20
        assert await counted(metrics, "sessions_closed_total") == 20


async def test_the_generator_spreads_its_calls_over_several(built: Path, child: str) -> None:
    """And begins sessions where it is told."""
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(hosting((child,), shared=1)) for _ in range(3)]
        asking = [McpClient(host.port, path="/metrics") for host in hosts]
        metrics = [await stack.enter_async_context(one) for one in asking]
        where = ",".join(f"127.0.0.1:{host.port}" for host in hosts)
        # Clients without sessions: these three know nothing of each other.
        report = await generate(built, "http", where, "-m", "-c", "6", "-n", "600")
        assert (report["calls"], report["errors"]) == (600, 0)
        counts = [await counted(one, "calls_total") for one in metrics]
        assert sum(counts) == 600 and min(counts) > 0
        # And with them: wherever the generator is told, all begin at the one.
        before = [await counted(one, "sessions_opened_total") for one in metrics]
        third = f"127.0.0.1:{hosts[2].port}"
        report = await generate(built, "http", third, "-e", third, "-s", "4", "-c", "2", "-n", "20")
        assert (report["calls"], report["errors"]) == (20, 0)
        lost = await generate(built, "http", where, "-e", third, "-s", "4", "-c", "3", "-n", "30")
        assert lost["errors"] > 0 and "404" in lost["complaint"], "who has no such session says so"
        opened = [await counted(one, "sessions_opened_total") for one in metrics]
        assert [now - then for now, then in zip(opened, before, strict=True)] == [0, 0, 8]


@pytest.mark.parametrize("clients", [1, 3, 4])
@pytest.mark.parametrize("places", [2, 3])
async def test_calls_of_a_client_go_to_several_in_turn_and_its_session_stays(
    built: Path, places: int, clients: int
) -> None:
    """Also where the number of clients is a multiple of theirs."""
    went: dict[str, list[int]] = {}  # session → where its calls came, in order
    ways: dict[Wire, set[str]] = {}  # connection → whose calls came there
    begun: dict[str, int] = {}

    def at(place: int) -> Callable[[Asked, Wire], Awaitable[bytes]]:
        async def serve(asked: Asked, wire: Wire) -> bytes:
            if asked.method == "DELETE" or "id" not in asked.message:
                return answer(status="202 Accepted")
            result = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {}}
            if asked.message["method"] == "initialize":
                begun[session := f"session-{len(begun)}"] = place
                return answer(result, Mcp_Session_Id=session)
            session = asked.headers["mcp-session-id"]
            went.setdefault(session, []).append(place)
            ways.setdefault(wire, set()).add(session)
            return answer(result)

        return serve

    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(raw_server(at(place))) for place in range(places)]
        where = ",".join(f"127.0.0.1:{server.port}" for server in servers)
        many = str(clients)
        report = await generate(built, "http", where, "-c", many, "-s", many, "-n", str(30 * clients))
    assert (report["calls"], report["errors"]) == (30 * clients, 0)
    assert list(begun.values()) == [number % places for number in range(clients)]
    assert went.keys() == begun.keys()
    for session, came in went.items():
        assert came == [(begun[session] + number) % places for number in range(len(came))]
    assert [len(sessions) for sessions in ways.values()] == [1] * clients * places


async def test_the_generator_counts_the_events_of_a_stream(built: Path, child: str) -> None:
    events = ("-t", "events", "-p", "-a", '{"count":250}', "-n", "4", "-c", "2")
    async with hosting((child,)) as host:
        through = await generate(built, "http", f"127.0.0.1:{host.port}", *events)
    direct = await generate(built, "pipe", *events, "--", child)
    assert through["calls"] == direct["calls"] == 4
    assert through["events"] == direct["events"] == 1000


async def test_the_generator_sends_and_takes_large_messages(built: Path, child: str) -> None:
    async with hosting((child,)) as host:
        report = await generate(built, "http", f"127.0.0.1:{host.port}", "-b", str(MIB), "-n", "6", "-c", "2")
        assert (report["calls"], report["errors"]) == (6, 0)


async def test_the_generator_takes_no_error_for_an_answer(built: Path, child: str) -> None:
    async with hosting((child,)) as host:
        report = await generate(built, "http", f"127.0.0.1:{host.port}", "-t", "nothing", "-n", "5")
    assert (report["calls"], report["errors"]) == (0, 5)
    assert "no such tool" in report["complaint"]


async def test_the_generator_calls_at_fixed_moments(built: Path, child: str) -> None:
    async with hosting((child,)) as host:
        address = f"127.0.0.1:{host.port}"
        report = await generate(built, "http", address, "-r", "200", "-n", "100", "-c", "4")
        assert (report["calls"], report["errors"]) == (100, 0)
        assert report["rate"] <= 205, "the last one is not made before its moment"
        # Two connections for ten calls at once: each counts from the moment at which it should be made.
        words = ("-t", "sleep", "-a", '{"ms":50}', "-r", "1000", "-n", "10", "-c", "2")
        report = await generate(built, "http", address, *words)
        assert (report["calls"], report["errors"]) == (10, 0)
        # The child sleeps in whole milliseconds, so that each call may be one shorter.
        assert report["max_us"] >= 5 * 49_000 - 9_000 and report["min_us"] >= 49_000


async def test_the_generator_sends_the_field_it_is_given(built: Path, child: str) -> None:
    async with hosting((child,)) as host:
        words = ("http", f"127.0.0.1:{host.port}", "-n", "3", "-H")
        assert (await generate(built, *words, "X-Something: here"))["calls"] == 3
        refused = await asyncio.create_subprocess_exec(
            *(built / "load", *words, "Origin: http://elsewhere.example"), stderr=asyncio.subprocess.PIPE
        )
        async with within():
            _, said = await refused.communicate()
        assert b"HTTP status 403" in said


@pytest.mark.parametrize("server", [(), ("--modern",)], ids=["handshake", "modern"])
@pytest.mark.parametrize("client", [(), ("-m",)], ids=["handshake", "modern"])
@pytest.mark.parametrize("shared", [0, 1], ids=["alone", "shared"])
async def test_the_generator_and_the_server_speak_either_era(
    built: Path, child: str, client: tuple[str, ...], server: tuple[str, ...], shared: int
) -> None:
    host_of = hosting((child, *server), shared=shared)
    async with host_of as host, McpClient(host.port, path="/metrics") as metrics:
        address = f"127.0.0.1:{host.port}"
        report = await generate(built, "http", address, *client, "-c", "4", "-s", "2", "-n", "100")
        assert (report["calls"], report["errors"]) == (100, 0)
        opened = await counted(metrics, "sessions_opened_total")
        assert opened == (0 if client else 2)
        assert await counted(metrics, "calls_total") == 100 + opened  # each session's initialize
        assert await counted(metrics, "call_duration_seconds_count") == 100 + opened


@pytest.mark.parametrize("server", [(), ("--modern",)], ids=["handshake", "modern"])
@pytest.mark.parametrize("client", [(), ("-m",)], ids=["handshake", "modern"])
async def test_calls_leave_nothing_behind_that_only_the_collector_finds(
    built: Path, child: str, client: tuple[str, ...], server: tuple[str, ...]
) -> None:
    calls = 400
    async with hosting((child, *server)) as host:
        words = ("http", f"127.0.0.1:{host.port}", *client, "-c", "4", "-n", str(calls))
        await generate(built, *words)
        gc.collect()
        gc.disable()
        try:
            await generate(built, *words)
            assert gc.collect() < calls
        finally:
            gc.enable()


async def test_without_introduction_the_pipe_is_of_2026_07_28_too(built: Path, child: str) -> None:
    words = ("-m", "-p", "-t", "events", "-a", '{"count":3}', "-c", "2", "-n", "10")
    report = await generate(built, "pipe", *words, "--", child, "--modern")
    assert (report["calls"], report["errors"], report["events"]) == (10, 0, 30)


@pytest.mark.parametrize(("options", "connections"), [((), 0), (("-o",), 7)], ids=["leaves", "stays"])
async def test_the_generator_stays_connected_if_told_to(
    built: Path, child: str, options: tuple[str, ...], connections: int
) -> None:
    async with hosting((child,)) as host, McpClient(host.port, path="/metrics") as metrics:
        words = ("http", f"127.0.0.1:{host.port}", "-w", "-c", "7", "-n", "20", *options)
        process = await asyncio.create_subprocess_exec(
            built / "load",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin and process.stdout
        async with within():
            await process.stdout.readline()
            process.stdin.write(b"\n")
            await process.stdout.readline()
            while await counted(metrics, "connections") != connections + 1:  # and the one that asks
                await asyncio.sleep(0.01)
            await process.communicate(b"")


async def test_windows_are_made_one_at_a_time_on_the_same_session(built: Path, child: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(built / "load", "pipe", "-w", "-n", "50", "--", child),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with within():
        said, _ = await process.communicate(b"\n\n")
    ready, *windows = map(json.loads, said.splitlines())
    assert ready == {"ready": True}
    assert [window["calls"] for window in windows] == [50, 50]


# What it is compared with.


@pytest.mark.parametrize("server", ["child", "demo"])
async def test_the_minimal_bridge_answers_every_session(built: Path, server: str) -> None:
    command = [sys.executable, "-m", "mooring.demo"] if server == "demo" else [str(built / "child")]
    port = str(free_port())
    async with running(sys.executable, "-m", "bench.minimal_bridge", port, *command):
        await listening(port)
        report = await generate(built, "http", f"127.0.0.1:{port}", "-c", "4", "-s", "4", "-n", "200")
    assert (report["calls"], report["errors"]) == (200, 0)


async def test_the_responder_answers_whatever_it_is_sent(built: Path) -> None:
    port = str(free_port())
    async with running(built / "responder", port):
        await listening(port)
        report = await generate(built, "http", f"127.0.0.1:{port}", "-c", "4", "-n", "200")
    assert (report["calls"], report["errors"]) == (200, 0)


async def listening(port: str) -> None:
    async with within():
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", int(port))
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                await writer.wait_closed()
                return


@pytest.mark.skipif(bool(RealDocker.lacks()), reason=RealDocker.lacks())
def test_by_hand_the_container_is_the_same() -> None:
    with engine() as where:
        words = by_hand(where, ["/bin/cat"])
        words[words.index("run")] = "create"
        made = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
        theirs = about(where.ask("GET", f"/containers/{made.stdout.strip()}/json"))
        spec = ContainerSpec.of(options(where), "tool", ("/bin/cat",), {})
        body = json.dumps(creation(spec, Owned(Owner("me", "now"), "tool", 0))).encode()
        _, answer = where.ask("POST", "/containers/create", body)
        ours = about(where.ask("GET", f"/containers/{answer['Id']}/json"))
    # Mooring removes it itself, once it has seen how it ended.
    assert theirs == ours | {"AutoRemove": True}


def about(answer: tuple[int, Any]) -> Json:
    """How a container is run, and on which streams; what is not asked for is written in many ways."""
    status, said = answer
    assert status == 200, said
    streams = ("AttachStdin", "AttachStdout", "AttachStderr", "OpenStdin", "StdinOnce", "Tty", "Cmd", "Image")
    asked = {**said["HostConfig"], **{name: said["Config"][name] for name in streams}}
    asked["Binds"] = sorted(asked["Binds"])  # docker's own command gives them in any order
    return {name: value for name, value in asked.items() if value}
