"""The HTTP+SSE transport of 2024-11-05."""

import asyncio
import json
import os
import signal

from tests.hosting import DEMO, SCRIPTED, hosting
from tests.mcp_client import Json, McpClient, Stream, emission
from tests.support import alive, until

HELLO = {
    "protocolVersion": "2024-11-05",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class SseClient(McpClient):
    """Messages go to an address that the stream names first; answers come on the stream."""

    events: Stream

    async def connect(self, base: str = "", version: str = "2024-11-05") -> None:
        self.path = f"{base}/sse"
        self.events = await self.stream()
        first = await self.events.event()
        assert first is not None and first.event == "endpoint"
        self.path = first.data
        assert "result" in await self.said("initialize", {**HELLO, "protocolVersion": version})
        await self.notify("notifications/initialized")

    async def said(self, method: str, params: Json | None = None, *, id: int | str = 1) -> Json:
        answer = await self.raw("POST", self.request(method, params, id=id))
        assert answer.status == 202, answer
        while (message := await self.events.message()).get("id") != id or "method" in message:
            pass
        return message


async def test_a_session_on_the_old_transport() -> None:
    async with hosting(DEMO) as host, SseClient(host.port) as client:
        await client.connect()
        echo = {"name": "echo", "arguments": {"text": "hi"}}
        answer = await client.said("tools/call", echo, id="one")
        assert answer["result"]["content"][0]["text"] == "hi"


async def test_the_address_keeps_the_name_of_the_server() -> None:
    async with hosting(DEMO) as host, SseClient(host.port) as client:
        await client.connect("/test")
        assert client.path.startswith("/test/messages?session_id=")


async def test_the_session_survives_its_server() -> None:
    async with hosting(SCRIPTED) as host, SseClient(host.port) as client:
        await client.connect()
        pid = (await client.said("x/pid"))["result"]["pid"]
        held = await client.raw("POST", client.request("x/hold", id="held"))
        assert held.status == 202
        await client.said("x/any", id=2)  # answered in order: the server has read what came before
        os.kill(pid, signal.SIGKILL)
        message = await client.events.message()
        assert message["id"] == "held" and message["error"]["data"]["reason"] == "server_exited"
        assert (await client.said("x/pid", id=3))["result"]["pid"] != pid


async def test_questions_and_progress_come_on_the_one_stream() -> None:
    question = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    async with hosting(SCRIPTED) as host, SseClient(host.port) as client:
        await client.connect()
        await client.raw("POST", client.request("x/emit", emission(question), id=9))
        assert await client.events.message() == question
        assert (await client.events.message())["id"] == 9
        answer = await client.raw("POST", json.dumps({"jsonrpc": "2.0", "id": "q", "result": {}}).encode())
        assert answer.status == 202


async def test_a_client_that_disconnects_has_ended_its_session() -> None:
    async with hosting(SCRIPTED) as host, SseClient(host.port) as client:
        await client.connect()
        pid = (await client.said("x/pid"))["result"]["pid"]
        client.events.reset()
        await host.logged("session_closed")
        await until(lambda: not alive(pid))
        assert (await client.raw("POST", client.request("x/any"))).status == 404


async def test_messages_without_a_session_are_refused() -> None:
    async with hosting(SCRIPTED) as host, McpClient(host.port, path="/messages") as client:
        assert (await client.raw("POST", client.request("x/any"))).status == 400
        client.path = "/messages?session_id=nobody"
        assert (await client.raw("POST", client.request("x/any"))).status == 404
        assert (await client.raw("POST", b"{")).status == 400


async def test_nothing_reaches_a_server_that_is_not_initialized() -> None:
    async with hosting(SCRIPTED) as host, SseClient(host.port) as client:
        client.path = "/sse"
        client.events = await client.stream()
        first = await client.events.event()
        assert first is not None
        client.path = first.data
        assert (await client.said("x/pid"))["error"]["code"] == -32600
        await client.said("initialize", HELLO, id=2)
        assert (await client.said("initialize", HELLO, id=3))["error"]["code"] == -32600
        assert await asyncio.wait_for(client.said("x/pid", id=4), 20)


async def test_a_client_that_was_refused_may_try_again_on_its_stream() -> None:
    async with hosting(DEMO) as host, SseClient(host.port) as client:
        client.path = "/sse"
        client.events = await client.stream()
        first = await client.events.event()
        assert first is not None
        client.path = first.data
        assert "error" in await client.said("initialize", {"protocolVersion": 7})
        assert "result" in await client.said("initialize", HELLO, id=2)


async def test_batches_only_where_they_exist() -> None:
    calls = [
        {
            "jsonrpc": "2.0",
            "id": id,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": id}},
        }
        for id in ("a", "b")
    ]
    note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    for version in ("2024-11-05", "2025-03-26"):
        async with hosting(DEMO) as host, SseClient(host.port) as client:
            await client.connect(version=version)
            answer = await client.raw("POST", json.dumps([*calls, note]).encode())
            if version == "2024-11-05":
                assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)
                continue
            assert answer.status == 202
            messages = [await client.events.message(), await client.events.message()]
            assert {one["id"]: one["result"]["content"][0]["text"] for one in messages} == {
                "a": "a",
                "b": "b",
            }
            assert (await client.raw("POST", json.dumps([note]).encode())).status == 202
