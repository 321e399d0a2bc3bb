"""Calls of clients without sessions at a handshake server, when somebody leaves, dies or does not read."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mooring.wire.modern import LEVEL_KEY
from tests.hosting import Host
from tests.integration.test_eras import ASKABLE, HANDSHAKE, ModernClient, modern_client_of
from tests.mcp_client import Json, McpClient
from tests.support import suspend, within


@asynccontextmanager
async def askable_client() -> AsyncIterator[tuple[ModernClient, Host]]:
    """Whoever can be asked has an instance for the time of a call; one at a time, always the same."""
    async with modern_client_of(HANDSHAKE, spare=0) as (client, host):
        client.capabilities = ASKABLE
        yield client, host


async def calls_in_flight(host: Host, number: int) -> None:
    async with McpClient(host.port, path="/readyz") as probe, within():
        while json.loads((await probe.raw("GET")).body)["calls_in_flight"] != number:
            pass


def calls_of(heard: list[Json], tool: str) -> int:
    return sum(message.get("params", {}).get("name") == tool for message in heard)


async def test_a_call_whose_client_left_before_it_could_begin_is_not_made() -> None:
    async with askable_client() as (client, host):
        pid = (await client.said("echo"))["pid"]
        await suspend(pid)
        body, headers = client.question("tools/call", {"name": "log"}, **{LEVEL_KEY: "debug"})
        peer = await client.send("POST", body, **headers)
        await calls_in_flight(host, 1)
        peer.reset()
        await calls_in_flight(host, 0)
        os.kill(pid, signal.SIGCONT)
        heard = await client.said("heard")
        assert any(message.get("method") == "logging/setLevel" for message in heard), "the same instance"
        assert calls_of(heard, "log") == 0


async def test_answers_to_a_server_that_does_not_read_wait_for_it() -> None:
    """The first one fills its pipe; the second must not be dropped for that."""
    async with askable_client() as (client, _):
        asked = await client.tool("ask-two")
        answers = {key: {"text": key + "x" * 1_000_000} for key in asked["inputRequests"]}
        heard = await client.said("ask-two", inputResponses=answers, requestState=asked["requestState"])
        assert sorted(map(json.dumps, heard.values())) == sorted(map(json.dumps, answers.values()))


async def test_an_answer_to_a_server_that_died_does_not_reach_the_next_one() -> None:
    async with askable_client() as (client, host):
        pid = (await client.said("echo"))["pid"]
        asked = await client.tool("ask")
        [key] = asked["inputRequests"]
        os.kill(pid, signal.SIGKILL)
        await host.logged("server_exited")
        answered = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "cancel"}}}
        answer = await client.ask("tools/call", {"name": "ask", **answered})
        assert answer["error"]["data"]["reason"] == "server_exited"
        heard = await client.said("heard")
        assert all("method" in message for message in heard), "nobody asked this one anything"


async def test_progress_has_the_token_of_the_request_that_waits() -> None:
    async with askable_client() as (client, _):
        asked = await client.ask("tools/call", {"name": "ask-slowly"}, progressToken="first")
        [key] = asked["result"]["inputRequests"]
        params = {
            "name": "ask-slowly",
            "inputResponses": {key: {"action": "cancel"}},
            "requestState": asked["result"]["requestState"],
        }
        stream = await client.watch("tools/call", params, progressToken="second")
        note, answer = await stream.rest()
        assert note["params"] == {"progressToken": "second", "progress": 1}
        assert "result" in answer
