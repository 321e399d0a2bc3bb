"""Calls of clients without sessions at a handshake server, when somebody leaves, dies or does not read."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mooring.wire.modern import LEVEL_KEY
from tests.hosting import Host
from tests.integration.test_eras import ASKABLE, HANDSHAKE, ModernClient, modern_client_of
from tests.mcp_client import Json, McpClient
from tests.support import alive, suspend, until, within


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


async def answers_with(client: ModernClient, state: str, **params: object) -> Json:
    """Call again with that state; refusals come with 400."""
    call = {"name": "ask-two", "inputResponses": {}, "requestState": state, **params}
    answer: Json = json.loads((await client.post("tools/call", call)).body)
    return answer


async def test_a_state_of_an_earlier_round_is_refused_and_the_call_goes_on() -> None:
    async with askable_client() as (client, _):
        asked = await client.tool("ask-two")
        first, answers = asked["requestState"], {key: {"by": key} for key in asked["inputRequests"]}
        one, two = answers
        again = await answers_with(client, first, inputResponses={one: answers[one]})
        second = again["result"]["requestState"]
        assert second != first
        for _ in range(2):
            refused = await answers_with(client, first, inputResponses={two: {"by": "nobody"}})
            assert "used before" in refused["error"]["message"] and refused["error"]["code"] == -32602
        last = await answers_with(client, second, inputResponses={two: answers[two]})
        said = json.loads(last["result"]["content"][0]["text"])
        assert list(said.values()) == list(answers.values())


async def test_of_two_who_come_back_with_one_state_one_is_served() -> None:
    async with askable_client() as (client, _):
        asked = await client.tool("ask-two")
        answers = {key: {"by": key} for key in asked["inputRequests"]}
        both = [answers_with(client, asked["requestState"], inputResponses=answers) for _ in range(2)]
        ends = await asyncio.gather(*both)
        assert sorted("result" in end for end in ends) == [False, True]
        [refused] = [end["error"] for end in ends if "error" in end]
        assert refused["code"] == -32602 or refused["data"]["reason"] == "call_lost"
        assert calls_of(await client.said("heard"), "ask-two") == 1


async def test_a_state_is_bound_to_the_method() -> None:
    async with askable_client() as (client, _):
        asked = await client.tool("ask-two")
        call = {"name": "ask-two", "inputResponses": {}, "requestState": asked["requestState"]}
        answer = await client.post("prompts/get", call)
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (400, -32602) and "another request" in error["message"]


async def test_a_state_that_has_expired_is_refused_and_the_call_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.proxy.bridged_call.PARK_S", 0.0)
    async with askable_client() as (client, _):
        pid = (await client.said("echo"))["pid"]
        asked = await client.tool("ask-two")
        for _ in range(2):
            refused = await answers_with(client, asked["requestState"])
            assert "expired" in refused["error"]["message"] and refused["error"]["code"] == -32602
        await until(lambda: not alive(pid))


async def test_an_instance_that_did_not_answer_in_time_is_given_to_nobody_else() -> None:
    """It may still ask, or log, on behalf of that call."""
    async with modern_client_of(HANDSHAKE, spare=0, call_timeout_s=0.5) as (client, _):
        client.capabilities = ASKABLE
        pid = (await client.said("echo"))["pid"]
        late = await client.ask("tools/call", {"name": "hold"})
        assert late["error"]["data"]["reason"] == "timeout"
        assert (await client.said("echo"))["pid"] != pid
        await until(lambda: not alive(pid))


@pytest.mark.parametrize("wanted", [{}, {"notifications": []}, {"notifications": {"toolsListChanged": "?"}}])
async def test_a_listener_that_cannot_be_understood_is_refused_as_a_whole(wanted: Json) -> None:
    async with modern_client_of(HANDSHAKE, spare=0) as (client, _):
        answer = await client.post("subscriptions/listen", wanted)
        assert answer.status == 400 and json.loads(answer.body)["error"]["code"] == -32602
