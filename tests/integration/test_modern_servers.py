"""Servers of 2026-07-28: who may use which of their instances, and listeners that end."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from mooring.proxy.era import find_era
from mooring.proxy.ports import Channel
from mooring.wire.modern import LEVEL_KEY
from tests.hosting import Host, hosting
from tests.http_client import Peer
from tests.integration.test_eras import ASKABLE, HANDSHAKE, MODERN, ModernClient, modern_client_of
from tests.integration.test_sharing import readyz
from tests.mcp_client import Json, McpClient, Stream, client_of
from tests.one_pipe import OnePipe, Pipe
from tests.support import alive, until, within

LOGGED = {LEVEL_KEY: "debug"}


class Unanswering(Pipe):
    """An instance that says nothing."""

    def send(self, line: bytes) -> int:
        return 0


class Lent(OnePipe):
    """Counts what it gets back."""

    released = 0

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None:
        self.released += 1


async def test_who_stops_asking_for_the_era_gives_the_instance_back() -> None:
    backend = Lent(Unanswering())
    asking = asyncio.create_task(find_era(backend, 60))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled() and backend.released == 1


async def hold_with_log(client: ModernClient, host: Host, number: int) -> Peer:
    """A call that is never answered, and reads the log."""
    body, headers = client.question("tools/call", {"name": "hold"}, **LOGGED)
    peer = await client.send("POST", body, **headers)
    in_flight = f'mooring_calls_in_flight{{server="test"}} {number}\n'.encode()
    async with ModernClient(host.port) as probe, within():
        probe.path = "/metrics"
        while in_flight not in (await probe.raw("GET")).body:
            pass
    return peer


async def test_an_instance_whose_log_reader_left_is_used_no_more() -> None:
    """It may still log on behalf of that call, and a log message names none."""
    async with modern_client_of(MODERN, spare=0) as (client, host):
        pid = (await client.said("echo"))["pid"]
        body, headers = client.question("tools/call", {"name": "hold"})
        riding = await client.send("POST", body, **headers)
        held = await hold_with_log(client, host, 2)
        held.reset()
        async with within():
            while (await client.said("echo"))["pid"] == pid:
                pass
        assert alive(pid), "for whoever rides there already"
        riding.reset()
        await until(lambda: not alive(pid))


async def test_one_that_ends_while_nobody_asks_is_tried_once() -> None:
    async with modern_client_of(MODERN, spare=0) as (client, host):
        pid = (await client.said("echo"))["pid"]
        async with within():  # until nothing of the first look at it is left
            while [entry["use"] for entry in (await readyz(host))["instances"]] != ["serving"]:
                pass
        started, told = len(host.events("instance_started")), len(host.events("state"))
        os.kill(pid, signal.SIGKILL)
        await until(
            lambda: [vars(one)["state"] for one in host.events("state")[told:]][:2] == ["starting", "ready"]
        )
        await asyncio.sleep(0.2)
        assert len(host.events("instance_started")) == started + 1
        assert (await client.said("echo"))["pid"] != pid


async def test_readers_of_the_log_have_no_more_instances_than_there_may_be_sessions() -> None:
    async with modern_client_of(MODERN, spare=0, max_sessions=2, drain_timeout_s=0.1) as (client, host):
        await hold_with_log(client, host, 1)
        await hold_with_log(client, host, 2)
        refused = await client.ask("tools/call", {"name": "log"}, **LOGGED)
        assert refused["error"]["data"] == {"reason": "too_many_listeners", "retryable": True}
        assert await client.said("echo"), "whoever wants no log rides with others"


async def test_a_listener_that_kills_the_server_is_not_given_to_the_next_one() -> None:
    async with modern_client_of(MODERN) as (client, host):
        wanted = {"notifications": {"resourceSubscriptions": ["res://deadly"]}}
        stream = await client.watch("subscriptions/listen", wanted)
        assert (await stream.message())["error"]["data"]["reason"] == "server_exited"
        assert await client.said("echo")
        assert len(host.events("server_exited")) == 1


@pytest.mark.parametrize("server", [HANDSHAKE, MODERN], ids=["handshake", "modern"])
async def test_a_token_that_only_the_server_sees_reaches_nobody_else(server: tuple[str, ...]) -> None:
    """Of two members with one name Mooring takes the last, this server the first."""
    async with modern_client_of((*server, "--first"), drain_timeout_s=0.1) as (client, _):
        await client.said("echo")
        holding = {"name": "hold"}
        body, headers = client.question("tools/call", holding, progressToken="victim")
        held = await client.send("POST", body, **headers)
        async with within():
            while not (
                holds := [m for m in await client.said("heard") if m.get("params", {}).get("name") == "hold"]
            ):
                pass
        number = holds[0]["id"]
        for token in (
            b'"progressToken":%d,"progressToken":null',
            b'"progress\\u0054oken":%d,"progressToken":null',
        ):
            body, headers = client.question("tools/call", {"name": "progress"}, forged=True)
            forged = body.replace(b'"forged": true', token % number)
            answer = await client.raw("POST", forged, **headers)
            assert answer.status == 200 and answer.headers["content-type"] == "application/json"
        await client.ask("tools/call", {"name": "die"})
        async with within():
            answer = await held.answer()
        assert answer.headers["content-type"] == "application/json", "no progress came before the answer"


async def test_subscriptions_of_a_handshake_client_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.wire.memory.MAX_SUBSCRIPTIONS", 2)
    async with hosting(MODERN) as host, client_of(host.port) as client:
        for uri in ("res://1", "res://2", "res://2"):
            assert await client.result("resources/subscribe", {"uri": uri}) == {}
        refused = await client.ask("resources/subscribe", {"uri": "res://3"})
        assert "too many subscriptions" in refused["error"]["message"]
        await client.result("resources/unsubscribe", {"uri": "res://1"})
        assert await client.result("resources/subscribe", {"uri": "res://3"}) == {}
        filters = [
            message["params"]["notifications"].get("resourceSubscriptions", [])
            for message in json.loads(await client.text("heard"))
            if message.get("method") == "subscriptions/listen"
        ]
        assert filters[-1] == ["res://2", "res://3"] and max(map(len, filters)) == 2


async def test_a_session_listens_again_when_the_server_has_ended_its_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.proxy.modern_face.LISTEN_AGAIN_S", 0.01)
    async with hosting(MODERN) as host, client_of(host.port) as client:
        stream = await client.stream()
        await client.call("end-listeners")
        async with within():
            while "subscriptions/listen" not in (await client.text("heard")).partition("end-listeners")[2]:
                pass
        await client.call("change")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


@asynccontextmanager
async def askable_client_of(port: int) -> AsyncIterator[McpClient]:
    async with McpClient(port) as client:
        await client.initialize(capabilities=ASKABLE)
        yield client


async def asked_by(stream: Stream) -> dict[str, Json]:
    """The two questions of `ask-two`, by their method."""
    questions = [await stream.message() for _ in range(2)]
    return {question["method"]: question for question in questions}


async def test_questions_that_are_refused_at_once_do_not_make_the_call_again() -> None:
    async with hosting(MODERN, max_asked=0) as host, askable_client_of(host.port) as client:
        answer = await client.ask("tools/call", {"name": "ask-two"})
        assert "unanswered" in answer["error"]["message"], "sampling was refused"
        heard = json.loads(await client.text("heard"))
        assert sum(message.get("params", {}).get("name") == "ask-two" for message in heard) == 1


async def test_a_question_is_withdrawn_when_its_call_is_over() -> None:
    async with hosting(MODERN) as host, askable_client_of(host.port) as client:
        stream = await client.stream("POST", client.request("tools/call", {"name": "ask-two"}))
        questions = await asked_by(stream)
        refused = {"jsonrpc": "2.0", "id": questions["sampling/createMessage"]["id"]}
        refusal = {**refused, "error": {"code": -1, "message": "no"}}
        assert (await client.raw("POST", json.dumps(refusal).encode())).status == 202
        withdrawn = await stream.message()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == questions["elicitation/create"]["id"]
        assert (await stream.message())["error"]["message"] == "no"


async def test_the_rounds_of_a_dialogue_do_not_mix() -> None:
    """Answers and state are those of the last round, and what the client sent stays as it was."""
    async with hosting(MODERN) as host, askable_client_of(host.port) as client:
        meta = {"progressToken": "p", "own": [1]}
        params = {"name": "rounds", "arguments": {"text": "\\u005f"}, "_meta": meta}
        stream = await client.stream("POST", client.request("tools/call", params))
        while "method" in (message := await stream.message()):
            await client.respond(message["id"], {"action": "accept", "content": {}})
        assert "result" in message
        heard = json.loads(await client.text("heard"))
        rounds = [m["params"] for m in heard if m.get("params", {}).get("name") == "rounds"]
        assert [each.get("requestState") for each in rounds] == [None, "one", "two", "two"]
        assert ["inputResponses" in each for each in rounds] == [False, False, False, True]
        for each in rounds:
            assert each["arguments"] == params["arguments"] and each["_meta"]["own"] == [1]


async def test_one_instance_is_asked_for_its_era_whoever_wants_to_know() -> None:
    async with hosting(MODERN, spare=0) as host, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(McpClient(host.port)) for _ in range(5)]
        async with ModernClient(host.port) as modern:
            await asyncio.gather(*(client.initialize() for client in clients), modern.said("echo"))
        asked = [record for record in host.records if "its era is known" in record.getMessage()]
        assert len(asked) <= 1, "none, if the probe of the start has found it out"


async def test_a_log_that_was_silenced_is_heard_again_of_the_next_process() -> None:
    """A call that was given up may log on; but not in a process that never had it."""
    async with (
        hosting(MODERN, shared=1, spare=0, idle_timeout_s=0.5) as host,
        client_of(host.port) as client,
    ):
        await client.result("logging/setLevel", {"level": "debug"})
        say = {"name": "log", "arguments": {"say": "hm"}}

        async def hears_log() -> bool:
            return (
                b"notifications/message" in (await client.raw("POST", client.request("tools/call", say))).body
            )

        assert await hears_log()
        peer = await client.send("POST", client.request("tools/call", {"name": "hold"}, id="held"))
        async with within():
            while "hold" not in await client.text("heard"):
                pass
        await client.notify("notifications/cancelled", {"requestId": "held"})
        peer.reset()
        assert not await hears_log()
        pid = json.loads(await client.text("echo"))["pid"]
        await until(lambda: not alive(pid))
        assert await hears_log()
