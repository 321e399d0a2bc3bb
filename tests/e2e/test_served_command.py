"""`mooring run NAME --transport http`, as a user has it: real servers that speak HTTP, started by Mooring."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import parts
from tests.e2e.mooring import LINUX_ONLY, running_mooring
from tests.e2e.test_daemon_command import Home, home
from tests.faults.test_served_server import SERVER, about, error_of, hung
from tests.mcp_client import McpClient, client_of
from tests.support import alive, until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

HTTP = ("--transport", "http", "--port-env", "PORT")
SSE = ("--transport", "sse", "--port-env", "PORT")
FIXTURE = Path(__file__).with_name("fixture_server.py")


def everything(transport: str) -> list[str]:
    """The reference server; it has its port from PORT."""
    parts.require("npm", "node")
    return [*map(str, parts.npm_command("mcp-server-everything")), transport]


async def port_of(place: Home) -> int:
    return int((await place.told("daemon", "status"))["port"])


async def program_of(place: Home, name: str) -> int:
    """The pid of the one program of a server."""
    [program] = [one for one in (await place.told("status", name))["instances"] if one["use"] == "program"]
    return int(program["pid"])


async def slow_call(client: McpClient, **arguments: Any) -> Any:
    """A long call of the reference server, of which it has told that it is at it."""
    params = {
        "name": "trigger-long-running-operation",
        "arguments": {"duration": 60, "steps": 600},
        "_meta": {"progressToken": "it"},
    }
    stream = await client.stream("POST", client.request("tools/call", params))
    assert (await stream.message())["method"] == "notifications/progress"
    return stream


@pytest.mark.parametrize(("options", "transport"), [(HTTP, "streamableHttp"), (SSE, "sse")])
async def test_the_reference_server_killed_under_a_call(
    tmp_path: Path, options: tuple[str, ...], transport: str
) -> None:
    command = everything(transport)
    async with home(tmp_path) as place:
        url = (await place.done("run", "ref", *options, "--", *command)).strip()
        assert (await place.done("run", "ref", *options, "--", *command)).strip() == url, (
            "once more is nothing"
        )
        async with client_of(await port_of(place), path="/ref/mcp") as client:
            assert "hi" in await client.text("echo", message="hi")
            call = await slow_call(client)
            program = await program_of(place, "ref")
            os.kill(program, signal.SIGKILL)
            error = await error_of(call)
            assert error["data"]["reason"] == "server_exited", error
            assert error["data"]["exit"]["signal"] == signal.SIGKILL
            assert "hi" in await client.text("echo", message="hi")
            assert await program_of(place, "ref") != program
        [exit] = (await place.told("status", "ref"))["exits"]
        assert (exit["pid"], exit["signal"]) == (program, signal.SIGKILL)


async def test_the_fixture_of_the_conformance_suite(tmp_path: Path) -> None:
    parts.require("sdk-2")
    script = 'exec "$0" "$@" --http "$PORT"'
    command = ["sh", "-c", script, str(parts.python_of("sdk-2")), str(FIXTURE)]
    async with home(tmp_path) as place:
        await place.done("run", "fixture", *HTTP, "--", *command)
        async with client_of(await port_of(place), path="/fixture/mcp") as client:
            assert (await client.result("tools/list"))["tools"]


async def test_from_run_to_rm(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "one", *HTTP, "--", *SERVER)
        await place.done("run", "two", *HTTP, "--env", "COLOUR=red", "--", *SERVER)
        port = await port_of(place)
        async with client_of(port, path="/one/mcp") as one, client_of(port, path="/two/mcp") as two:
            first, second = await about(one), await about(two, "COLOUR")
            assert first["pid"] != second["pid"] and second["value"] == "red"
            assert await program_of(place, "one") == first["pid"]
            seen = await place.told("status", "one")
            assert sorted(each["use"] for each in seen["instances"]) == ["program", "serving"]
            assert seen["memory_bytes"] > 0
            assert str(first["pid"]) in await place.done("status", "one")
            assert "about to listen on" in await place.done("logs", "one")
            assert "a word on stderr" in await place.done("logs", "one")

            await place.done("restart", "one")
            assert (await about(one))["pid"] != first["pid"], "the session is the same, the program is not"
            await until(lambda: not alive(first["pid"]))
            await place.done("stop", "two")
            assert not alive(second["pid"])
            await place.done("start", "two")
            assert (await about(two, "COLOUR"))["value"] == "red"
            assert "echo" in await place.done("call", "two", "echo", "text=echo")
        last = await program_of(place, "one")
        await place.done("rm", "one")
        assert not alive(last)


async def test_a_file_can_say_the_same(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "web", *HTTP, "--", *SERVER)
        file = tmp_path / "mooring.toml"
        file.write_text(await place.done("export", "web"))
        assert 'transport = "http"' in file.read_text()
        await place.done("rm", "web")
        await place.done("up", "-f", str(file))
        program = await program_of(place, "web")
        await place.done("up", "-f", str(file))
        assert await program_of(place, "web") == program, "once more is nothing"
        await place.done("down", "-f", str(file))
        assert not alive(program)


async def test_a_hand_over_begins_another_program_and_ends_the_first(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "web", *HTTP, "--", *SERVER)
        place.environment["MOORING_PORT"] = str(await port_of(place))
        async with client_of(await port_of(place), path="/web/mcp") as client:
            first = (await about(client))["pid"]
            session = client.session
            await place.done("daemon", "restart")
            assert (await about(client))["pid"] != first and client.session == session
            await until(lambda: not alive(first), 60)


async def test_a_killed_daemon_leaves_no_program(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "web", *HTTP, "--", *SERVER)
        program = await program_of(place, "web")
        os.kill((await place.told("daemon", "status"))["pid"], signal.SIGKILL)
        await until(lambda: not alive(program), 60)
        await place.done("start", "--all")
        assert await program_of(place, "web") != program


async def test_one_that_cannot_work_is_told_of(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        status, _, err = await place.mooring("run", "web", *HTTP, "--", *SERVER, "--exit=3")
        assert status == 1 and "exit status 3" in err and "a word on stderr" in err
        status, _, err = await place.mooring("run", "other", *HTTP, "--", *SERVER, "--path=/other")
        assert status == 1 and "is its path right" in err


async def test_the_same_in_the_foreground() -> None:
    async with (
        running_mooring(*HTTP, server=SERVER) as mooring,
        AsyncExitStack() as stack,
    ):
        port = int(mooring.base.rpartition(":")[2])
        clients = [await stack.enter_async_context(client_of(port)) for _ in range(3)]
        [program] = {(await about(client))["pid"] for client in clients}
        assert mooring.servers() == {program}
        call = await hung(clients[0])
        await mooring.kill(program)
        assert (await error_of(call))["data"]["reason"] == "server_exited"
        async with within():
            while "result" not in await clients[1].ask("tools/call", {"name": "echo", "arguments": {}}):
                await asyncio.sleep(0.01)
        assert len(mooring.servers()) == 1
