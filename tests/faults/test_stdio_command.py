"""The installed command, `mooring stdio`, in front of `mooring run`, which is stopped and killed."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.cli.main import cli
from tests.e2e.mooring import DEMO, LINUX_ONLY, running_mooring
from tests.e2e.program import ROOT
from tests.faults.test_stdio_server import CALL, McpScript, only
from tests.raw_server import Asked, Wire, raw_server
from tests.stdio_client import Launched, launched
from tests.support import free_port, open_descriptors, until, within

pytestmark = LINUX_ONLY


@asynccontextmanager
async def mooring_at(port: int) -> AsyncIterator[str]:
    async with running_mooring("--port", str(port), server=DEMO) as mooring:
        yield mooring.url


async def counter(client: Launched) -> str:
    return await client.text("counter")


async def test_a_session_survives_the_restart_of_mooring() -> None:
    port = free_port()
    async with launched(f"http://127.0.0.1:{port}/mcp") as client:
        handshake = asyncio.ensure_future(client.initialize())
        await client.logged("unreachable")
        async with mooring_at(port):
            await handshake
            await client.logged("reachable")
            first = await counter(client)
        # Mooring has ended, as asked.
        call = asyncio.ensure_future(counter(client))
        await client.logged("unreachable", 2)
        async with mooring_at(port):
            assert await call != first
            await client.logged("session_reopened")
            await client.message(lambda one: one.get("method") == "notifications/tools/list_changed")
            client.close_stdin()
            assert await client.ended() == 0


async def test_a_session_survives_the_death_of_mooring_and_no_call_is_sent_twice() -> None:
    port = free_port()
    async with launched(f"http://127.0.0.1:{port}/mcp") as client:
        async with running_mooring("--port", str(port), server=DEMO) as mooring:
            await client.initialize()
            await counter(client)
            sleep = await client.request("tools/call", {"name": "sleep", "arguments": {"seconds": 3600}})
            await until_calls(mooring.base, 1)
            mooring.exit_status = -signal.SIGKILL
            mooring.signal(signal.SIGKILL)
            await mooring.ended()
            error = (await client.answer(sleep))["error"]
            assert error["data"] == {"reason": "connection_lost", "retryable": False}
        waiting = [await client.request("tools/call", {"name": "counter"}) for _ in range(5)]
        async with mooring_at(port):
            for id in waiting:
                assert "result" in await client.answer(id)
            # Each was executed once: the sixth call is number six.
            assert "6" in await counter(client)


async def until_calls(base: str, number: int) -> None:
    async def calls() -> int:
        reader, writer = await asyncio.open_connection(*base.removeprefix("http://").split(":"))
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        page = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        return int(page.partition('"calls_in_flight":')[2].partition(",")[0])

    async with within():
        while await calls() < number:
            await asyncio.sleep(0.01)


async def test_the_server_process_may_be_killed_under_it() -> None:
    async with running_mooring(server=DEMO) as mooring, launched(mooring.url) as client:
        await client.initialize()
        pid = int("".join(filter(str.isdigit, (await counter(client)).rpartition("pid")[2])))
        await mooring.kill(pid)
        assert str(pid) not in await counter(client)


async def test_fifty_calls_at_once_leave_nothing_behind() -> None:
    async with running_mooring(server=DEMO) as mooring, launched(mooring.url) as client:
        await client.initialize()
        params = {"name": "sleep", "arguments": {"seconds": 0.2}}
        ids = [await client.request("tools/call", params) for _ in range(50)]
        for id in ids:
            assert "result" in await client.answer(id)

        def sockets() -> int:
            held = open_descriptors(client.process.pid)
            return sum(what.startswith("socket:") for what in held.values())

        await until(lambda: sockets() <= 4)  # the stream of its own, and what the loop has
        client.close_stdin()
        assert await client.ended() == 0
        assert all(len(client.answers(id)) == 1 for id in ids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals(number: signal.Signals) -> None:
    go_on = asyncio.Event()

    async def slowly(_asked: Asked, _wire: Wire) -> bytes:
        await go_on.wait()
        return b""

    async with raw_server(McpScript(only("tools/call", slowly))) as server, launched(server.url) as client:
        await client.initialize()
        call = await client.request("tools/call", CALL)
        await server.count(1, "tools/call")
        client.process.send_signal(number)
        await client.logged("draining")
        go_on.set()
        assert "result" in await client.answer(call)
        assert await client.ended() == 0
        await server.count(1, "DELETE")


async def test_a_call_that_is_cut_off_is_exit_status_3() -> None:
    async def never(_asked: Asked, wire: Wire) -> None:
        await wire.closed_by_peer()

    async with (
        raw_server(McpScript(only("tools/call", never))) as server,
        launched("--drain-timeout", "10ms", server.url) as client,
    ):
        await client.initialize()
        call = await client.request("tools/call", CALL)
        await server.count(1, "tools/call")
        client.process.send_signal(signal.SIGTERM)
        assert await client.ended() == 3
        assert (await client.answer(call))["error"]["data"]["reason"] == "shutting_down"


async def test_a_header_from_the_environment_and_none_from_argv() -> None:
    async with (
        raw_server(McpScript()) as server,
        launched("--header-env", "X-Key=THE_KEY", server.url, THE_KEY="s3cret") as client,
    ):
        await client.initialize()
        assert server.requests[0].headers["x-key"] == "s3cret"
        assert "s3cret" not in str(client.log)


def test_the_example_in_the_documentation_is_understood() -> None:
    page = (ROOT / "docs/stdio.md").read_text()
    examples = [json.loads(line) for line in re.findall(r"^ {4}(\{.*)$", page, re.MULTILINE)]
    servers = {name: entry for example in examples for name, entry in example["mcpServers"].items()}
    understood = {}
    for server, entry in servers.items():
        assert entry["command"] == "mooring"
        name, *arguments = entry["args"]
        understood[server] = cli.commands[name].make_context(name, arguments).params["server"]
    assert understood == {"demo": "demo", "other": "https://mcp.example/mcp"}
    known = {option for parameter in cli.commands["stdio"].params for option in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page)) <= known


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["localhost:4670/mcp"], b"write: http://localhost:4670/mcp"),
        (["http://x", "--header-env", "X-Key=MOORING_NO_SUCH"], b"MOORING_NO_SUCH is not set"),
        (["http://x", "--header-env", "Host=PATH"], b"'Host' cannot be set"),
        (["http://x", "--header-env", "X-Key=sk-123"], b"name of an environment variable"),
        (["http://x", "--token-file", "/no/such/file"], b"does not exist"),
        (["https://x", "--ca-file", __file__], b"no PEM certificate"),
        ([], b"URL"),
        (["No_Name"], b"cannot be a name"),
    ],
)
async def test_wrong_usage_says_what_to_do(arguments: list[str], words: bytes) -> None:
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "mooring"), "stdio", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with within(60):
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert words in err and b"sk-123" not in err
