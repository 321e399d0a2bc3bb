"""What one client of 2026-07-28 sends must not reach another, nor turn off what others rely on."""

import asyncio
import base64
import json
import os
import signal

import pytest

from mooring.wire.modern import CAPABILITIES_KEY, LEVEL_KEY, VERSION_KEY
from tests.hosting import SCRIPTED, hosting
from tests.integration.test_eras import HANDSHAKE, MODERN, ModernClient, modern_client_of
from tests.integration.test_sharing import clients_of, readyz
from tests.mcp_client import Json, Stream, client_of
from tests.support import alive, until, within

FIRST_COUNTS = (*MODERN, "--first")
"""A server that reads the first of two members with one name, where we read the last."""
ENVELOPE = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
LOGGED = {LEVEL_KEY: "debug"}
UNKNOWN_LEVEL = {LEVEL_KEY: "loud"}
CHANGED = "notifications/tools/list_changed"


async def listening(client: ModernClient) -> Stream:
    stream = await client.watch("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
    return stream


async def in_flight(client: ModernClient, tool: str) -> None:
    """Until the server has it."""
    async with within():
        while tool not in json.dumps(await client.said("heard")):
            pass


# Log levels


@pytest.mark.parametrize("shared", [0, 1])
async def test_a_log_level_that_is_none_is_refused_and_harms_nobody(shared: int) -> None:
    async with clients_of(HANDSHAKE, 1, shared=shared) as (host, (other,)), ModernClient(host.port) as client:
        early = await client.post("tools/call", {"name": "echo"}, **UNKNOWN_LEVEL)
        await client.said("echo")
        late = await client.post("tools/call", {"name": "echo"}, **UNKNOWN_LEVEL)
        for answer in (early, late):
            assert answer.status == 400 and json.loads(answer.body)["error"]["code"] == -32602
        assert await other.result("logging/setLevel", {"level": "debug"}) == {}
        assert (await client.post("tools/call", {"name": "echo"}, **LOGGED)).status == 200
        assert (await readyz(host))["calls_in_flight"] == 0


async def test_a_session_cannot_ask_a_modern_server_for_a_level_that_is_none() -> None:
    async with hosting(MODERN) as host, client_of(host.port) as client:
        refused = await client.ask("logging/setLevel", {"level": "loud"})
        assert refused["error"]["code"] == -32602
        assert await client.text("echo")


@pytest.mark.parametrize("server", [HANDSHAKE, MODERN])
async def test_calls_that_want_their_log_get_no_process_of_their_own(server: tuple[str, ...]) -> None:
    async with clients_of(server, 0) as (host, _), ModernClient(host.port) as client:
        await client.said("echo")
        for _ in range(5):
            body, headers = client.question("tools/call", {"name": "hold"}, **LOGGED)
            await client.send("POST", body, **headers)
        async with within():
            while (await readyz(host))["calls_in_flight"] < 5:
                await asyncio.sleep(0.01)
        assert (await client.said("echo"))["pid"]
        async with within():  # the one on which its era was found out may still be stopping
            while len((await readyz(host))["instances"]) > 1:
                await asyncio.sleep(0.01)


# Tasks


@pytest.mark.parametrize("shared", [0, 1])
async def test_tasks_of_another_era_are_not_offered(shared: int) -> None:
    """With one process for all, every client could read those of others."""
    async with clients_of(SCRIPTED, 0, shared=shared) as (host, _), ModernClient(host.port) as client:
        for method in ("tasks/list", "tasks/result", "tasks/cancel"):
            answer = await client.post(method, {"taskId": "1"})
            assert answer.status == 404 and json.loads(answer.body)["error"]["code"] == -32601
        await client.post("x/any", {"task": {"ttl": 60_000}, "kept": 1})
        heard = json.loads((await client.post("x/heard")).body)["result"]["lines"]
        [line] = [line for line in map(base64.b64decode, heard) if b"x/any" in line]
        assert b"kept" in line and b"ttl" not in line


# Names that come twice


async def test_a_level_that_only_the_server_sees_does_not_reach_another_stream() -> None:
    async with (
        modern_client_of(FIRST_COUNTS, drain_timeout_s=0.2) as (reader, host),
        ModernClient(host.port) as forger,
    ):
        body, headers = reader.question("tools/call", {"name": "hold"}, **LOGGED)
        held = await reader.send("POST", body, **headers)
        await in_flight(forger, "hold")
        first, last = json.dumps(ENVELOPE | LOGGED), json.dumps(ENVELOPE)
        forged = f'{{"_meta":{first},"name":"log","arguments":{{"say":"forged"}},"_meta":{last}}}'
        method, body, headers = sent("log", forged)
        assert (await forger.raw(method, body, **headers)).status == 200
        await forger.ask("tools/call", {"name": "die"})
        async with within():
            answer = await held.answer()
        assert b"forged" not in answer.body


async def test_the_name_that_was_compared_is_the_one_that_is_called() -> None:
    async with modern_client_of(FIRST_COUNTS) as (client, _):
        params = f'{{"name":"structured","name":"echo","arguments":{{}},"_meta":{json.dumps(ENVELOPE)}}}'
        method, body, headers = sent("echo", params)
        answer = await client.raw(method, body, **headers)
        assert answer.status == 200 and b"structuredContent" not in answer.body


def sent(name: str, params: str) -> tuple[str, bytes, dict[str, str]]:
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()
    head = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": name}
    return "POST", body, head


# Listeners


@pytest.mark.parametrize("server", [HANDSHAKE, MODERN])
async def test_a_listener_hears_its_own_calls_wherever_they_are_served(server: tuple[str, ...]) -> None:
    async with clients_of(server, 0, shared=2) as (host, _), ModernClient(host.port) as client:
        stream = await listening(client)
        for _ in range(3):
            await client.said("change")
            assert (await stream.message())["method"] == CHANGED


async def test_a_listener_goes_where_its_calls_go_when_an_instance_is_used_no_more() -> None:
    """Somebody else read the log there, and left: what is still logged for that one must not be heard."""
    async with (
        modern_client_of(MODERN, spare=0, drain_timeout_s=0.2) as (client, host),
        ModernClient(host.port) as other,
    ):
        pid = (await client.said("echo"))["pid"]
        stream = await listening(client)
        body, headers = other.question("tools/call", {"name": "hold"}, **LOGGED)
        held = await other.send("POST", body, **headers)
        await in_flight(client, "hold")
        held.reset()
        await until(lambda: not alive(pid))
        await client.said("change")
        assert (await stream.message())["method"] == CHANGED


async def test_a_listener_hears_of_calls_that_have_an_instance_for_their_log() -> None:
    async with (
        modern_client_of(MODERN, spare=0, drain_timeout_s=0.2) as (client, host),
        ModernClient(host.port) as other,
    ):
        stream = await listening(client)
        body, headers = other.question("tools/call", {"name": "hold"}, **LOGGED)
        await other.send("POST", body, **headers)
        await in_flight(client, "hold")
        await client.ask("tools/call", {"name": "change"}, **LOGGED)
        assert (await stream.message())["method"] == CHANGED


async def test_subscriptions_of_all_are_told_the_next_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those for which one session alone would have no room."""
    monkeypatch.setattr("mooring.wire.memory.MAX_SUBSCRIPTIONS", 2)
    async with clients_of(SCRIPTED, 2) as (host, clients):
        for n, client in enumerate(clients):
            for uri in (f"res://{n}/a", f"res://{n}/b"):
                await client.result("resources/subscribe", {"uri": uri})
        os.kill(await clients[0].pid(), signal.SIGKILL)
        await host.logged("server_exited")
        async with within():
            while len(told(await clients[0].heard())) < 4:
                pass


def told(heard: list[bytes]) -> set[str]:
    messages: list[Json] = [json.loads(line) for line in heard]
    return {m["params"]["uri"] for m in messages if m.get("method") == "resources/subscribe"}
