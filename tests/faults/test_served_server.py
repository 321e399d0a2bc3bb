"""A program that Mooring has started and speaks to over HTTP: how it begins, fails, hangs and ends."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.remote.options import ServedOptions
from mooring.workloads import remote_instance, served_program
from mooring.workloads.served_instance import REMEMBERED_LINES
from tests.hosting import Host, hosting
from tests.mcp_client import Json, McpClient, client_of
from tests.support import alive, until, within

SERVER = (sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "served_server.py"))
LOST = ("unreachable", "connection_lost", "server_exited")
BY_PORT = ServedOptions(port_env="PORT")


@asynccontextmanager
async def serving(*options: str, served: ServedOptions = BY_PORT, **more: Any) -> AsyncIterator[Host]:
    async with hosting((*SERVER, *options), served=served, **more) as host:
        yield host


async def about(client: McpClient, variable: str = "") -> Json:
    found: Json = json.loads(await client.text("about", variable=variable))
    return found


async def hung(client: McpClient) -> Any:
    """A call that the program has begun with, and never ends."""
    stream = await client.stream("POST", client.request("tools/call", {"name": "hang", "arguments": {}}))
    assert (await stream.message())["method"] == "notifications/message"
    return stream


async def error_of(stream: Any) -> Json:
    *_, last = await stream.rest()
    error: Json = last["error"]
    return error


@pytest.mark.parametrize(
    "how",
    [
        *("--json", "--late=0.5", "--detached", "--path=/mcp"),
        *(f"--unready=9 --unready-status={status}" for status in (200, 404, 405, 500, 503)),
        *(f"--unready=5 --bare-status={status}" for status in (401, 404, 500)),
    ],
)
async def test_it_is_spoken_to_as_soon_as_it_can_be(how: str) -> None:
    async with serving(*how.split()) as host, client_of(host.port) as client, client_of(host.port) as other:
        assert await client.text("echo", text="hi") == "hi"
        seen = await about(client)
        assert alive(seen["pid"]) and (await about(other))["pid"] == seen["pid"], "one for all"
        assert not host.events("unreachable"), "that it begins is no trouble"
    await until(lambda: not alive(seen["pid"]))


async def test_what_it_writes_is_in_the_log() -> None:
    async with serving() as host:
        await host.logged("server_stderr", 2)
        said = {record.getMessage() for record in host.events("server_stderr")}
        assert "a word on stderr" in said and any(text.startswith("about to listen") for text in said)


async def test_sessions_are_ended_there_and_the_program_stays() -> None:
    async with serving() as host, client_of(host.port) as client:
        async with client_of(host.port) as other:
            program = (await about(other))["pid"]
            assert (await other.raw("DELETE")).status == 204
        async with within():
            while (seen := await about(client))["sessions"] != 1:
                await asyncio.sleep(0.01)
        assert seen["pid"] == program


async def test_killed_its_calls_are_told_at_once_and_sessions_go_on() -> None:
    async with serving() as host, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(host.port)) for _ in range(3)]
        calls = [await hung(client) for client in clients[:2]]
        program = (await about(clients[2]))["pid"]
        os.kill(program, signal.SIGKILL)
        for call in calls:
            error = await error_of(call)
            assert error["data"]["reason"] == "server_exited", error
            assert error["data"]["exit"]["signal"] == signal.SIGKILL, error
        found = {(await about(client))["pid"] for client in clients}
        assert len(found) == 1 and program not in found
        assert len(host.events("server_exited")) == 1, "one exit, however many sessions"


@pytest.mark.parametrize("is_answered", [False, True])
async def test_one_that_exits_on_a_call_has_told_its_status(is_answered: bool) -> None:
    async with serving() as host, client_of(host.port) as client:
        params = {"name": "crash", "arguments": {"code": 7, "answered": is_answered}}
        answer = await client.ask("tools/call", params)
        if is_answered:
            assert answer["result"]["content"][0]["text"] == "crashing", answer
        else:
            assert answer["error"]["data"]["reason"] == "server_exited", answer
            assert answer["error"]["data"]["exit"]["code"] == 7, answer
        assert await _until_answered(client) == "hi"


async def test_a_connection_that_is_cut_is_told_of_if_the_program_lives() -> None:
    async with serving() as host, client_of(host.port) as client:
        program = (await about(client))["pid"]
        answer = await client.ask("tools/call", {"name": "cut", "arguments": {}})
        assert answer["error"]["data"]["reason"] == "connection_lost", answer
        assert (await about(client))["pid"] == program


async def test_one_that_hangs_is_replaced_for_all() -> None:
    async with (
        serving(ping_interval_s=0.2, ping_timeout_s=0.3) as host,
        client_of(host.port) as idle,
        client_of(host.port) as busy,
    ):
        program = (await about(idle))["pid"]
        call = await hung(busy)
        os.kill(program, signal.SIGSTOP)
        error = await error_of(call)
        assert error["data"]["reason"] == "server_exited" and "ping" in error["message"], error
        assert (await about(idle))["pid"] == (await about(busy))["pid"] != program
        await until(lambda: not alive(program))


async def test_one_that_listens_no_more_is_replaced() -> None:
    async with serving(recovery_wait_s=1.0) as host, client_of(host.port) as client:
        program = (await about(client))["pid"]
        assert await client.text("close") == "closed"
        async with within(30):
            while True:
                answer = await client.ask("tools/call", {"name": "about", "arguments": {}})
                if "error" in answer:
                    assert answer["error"]["data"]["reason"] in LOST, answer
                elif json.loads(answer["result"]["content"][0]["text"])["pid"] != program:
                    break
                await asyncio.sleep(0.05)
        assert "does not listen any more" in (await host.logged("server_exited")).getMessage()
        await until(lambda: not alive(program))


async def test_calls_that_have_all_connections_do_not_make_it_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_instance, "FEW_SESSIONS", 0)  # all connections: so few that a test has them
    pings: dict[str, Any] = {"ping_interval_s": 0.2, "ping_timeout_s": 1.0}
    async with (
        serving(max_sessions=2, recovery_wait_s=0.5, **pings) as host,
        client_of(host.port) as busy,
        client_of(host.port) as idle,
    ):
        program = (await about(idle))["pid"]
        call = await hung(busy)
        for _ in range(2 * remote_instance.CONNECTIONS_EACH - 1):
            await busy.send("POST", busy.request("tools/call", {"name": "hang", "arguments": {}}))
            assert (await call.message())["method"] == "notifications/message", "it has begun"
        for _ in range(6):  # longer than two pings of the other, and than it is waited for one that is deaf
            answer = await busy.ask("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
            assert answer["error"]["data"] == {"reason": "too_busy", "retryable": True}, answer
        assert alive(program) and not host.events("server_exited") and not host.events("unreachable")
        os.kill(program, signal.SIGKILL)
        assert (await error_of(call))["data"]["reason"] == "server_exited"


async def test_calls_that_never_went_out_are_given_to_the_next_as_far_as_that_is_known() -> None:
    async with serving("--json", recovery_wait_s=2.0) as host, client_of(host.port) as client:
        assert await client.text("close") == "closed"
        [said] = [r.getMessage() for r in host.events("server_stderr") if "listen" in r.getMessage()]
        await until(lambda: not _listens(int(said.split()[-1])))
        most = 2 * REMEMBERED_LINES
        answers = await asyncio.gather(*(_echo(host.port, client.session, n) for n in range(most)))
        told = {n: answer["error"]["data"]["reason"] for n, answer in answers if "error" in answer}
        assert set(told.values()) == {"server_exited"}, told
        assert len(told) <= most - REMEMBERED_LINES, "as many as are remembered are answered"
        assert all(answer["result"]["content"][0]["text"] == str(n) for n, answer in answers if n not in told)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


async def _echo(port: int, session: str, n: int) -> tuple[int, Json]:
    """One of many calls of one session, on a connection of its own."""
    async with McpClient(port) as client:
        client.session = session
        params = {"name": "echo", "arguments": {"text": str(n)}}
        answer = await client.raw("POST", client.request("tools/call", params, id=f"call-{n}"))
        return n, json.loads(answer.body)


async def test_one_that_never_listens_is_told_of_and_ended() -> None:
    async with serving("--never", handshake_timeout_s=1.0) as host:
        await until(lambda: any("cannot be used" in record.getMessage() for record in host.records))
        [told] = [record for record in host.records if "cannot be used" in record.getMessage()]
        assert "PORT" in told.getMessage() and "127.0.0.1" in told.getMessage()
        [begun] = {record.pid for record in host.events("server_stderr")}  # type: ignore[attr-defined]
        await until(lambda: not alive(begun))


async def test_one_that_listens_elsewhere_is_the_same() -> None:
    async with serving("--port=0", handshake_timeout_s=1.0) as host:
        await until(lambda: any("cannot be used" in record.getMessage() for record in host.records))


async def test_one_at_another_path_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_program, "STRANGE_S", 0.5)
    async with serving("--path=/other") as host:
        await until(lambda: any("cannot be used" in record.getMessage() for record in host.records))
        [told] = [record for record in host.records if "cannot be used" in record.getMessage()]
        assert "404" in told.getMessage()
    async with (
        serving("--path=/other", served=ServedOptions(port_env="PORT", path="/other")) as host,
        client_of(host.port) as client,
    ):
        assert await client.text("echo", text="hi") == "hi"


async def test_one_that_exits_at_once_is_tried_less_and_less_often() -> None:
    async with serving("--exit=3") as host:
        await until(lambda: any("next try in" in record.getMessage() for record in host.records))
        assert len(host.events("server_exited")) == 4
        assert "exit status 3" in host.events("server_exited")[0].getMessage()


async def test_one_that_exits_while_nobody_uses_it_is_started_when_somebody_does() -> None:
    async with serving() as host:
        async with client_of(host.port) as client:
            program = (await about(client))["pid"]
            assert (await client.raw("DELETE")).status == 204
        await host.logged("instance_stopping", 2)
        os.kill(program, signal.SIGKILL)
        await host.logged("server_exited")
        async with client_of(host.port) as client:
            assert (await about(client))["pid"] != program


async def test_two_at_once_have_nothing_to_do_with_each_other() -> None:
    async with (
        serving() as one,
        serving() as two,
        client_of(one.port) as here,
        client_of(two.port) as there,
    ):
        first, second = (await about(here))["pid"], (await about(there))["pid"]
        assert first != second
        os.kill(first, signal.SIGKILL)
        assert (await about(there))["pid"] == second
        assert await _until_answered(here) == "hi"
        assert (await about(here))["pid"] not in (first, second)


async def test_all_sessions_can_share_one() -> None:
    async with (
        serving(shared=1) as host,
        client_of(host.port) as client,
        client_of(host.port) as other,
    ):
        assert await client.text("echo", text="hi") == "hi"
        seen = await about(other)
        assert seen["sessions"] <= 2, "that of all, and perhaps the one that was tried"
        os.kill(seen["pid"], signal.SIGKILL)
        assert await _until_answered(client) == await _until_answered(other) == "hi"


async def test_a_crowd_of_sessions_that_loses_its_program_is_one_incident() -> None:
    async with serving() as host, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(host.port)) for _ in range(20)]
        await asyncio.gather(*(client.text("echo", text="hi") for client in clients))
        for _ in range(3):
            os.kill((await about(clients[0]))["pid"], signal.SIGKILL)
            texts = await asyncio.gather(*(_until_answered(client) for client in clients))
            assert texts == ["hi"] * len(clients)
        assert len(host.events("server_exited")) == 3
        assert len({(await about(client))["pid"] for client in clients}) == 1


async def _until_answered(client: McpClient) -> str:
    """A call that met the exit is told so, and may be made again."""
    async with within():
        while "result" not in (
            answer := await client.ask("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        ):
            assert answer["error"]["data"]["reason"] == "server_exited", answer
        return str(answer["result"]["content"][0]["text"])
