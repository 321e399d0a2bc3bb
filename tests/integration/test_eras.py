"""Clients of either era at servers of either era: every way a message can take, on the wire."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.wire.modern import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LEVEL_KEY,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)
from mooring.wire.revisions import HANDSHAKE_REVISIONS
from tests.era_server import TOOLS
from tests.hosting import SCRIPTED, Host, hosting
from tests.http_client import Answer
from tests.mcp_client import Json, McpClient, Stream, client_of
from tests.support import until, within

SERVER = str(Path(__file__).parents[1] / "era_server.py")
HANDSHAKE = (sys.executable, SERVER, "handshake")
SILENT = (sys.executable, SERVER, "handshake", "--silent")
MODERN = (sys.executable, SERVER, "modern")
BOTH = pytest.mark.parametrize("server", [HANDSHAKE, MODERN], ids=["handshake", "modern"])
ASKABLE: Json = {"elicitation": {}, "sampling": {}}


class ModernClient(McpClient):
    """Has no session: everything is in each request."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.capabilities: Json = {}

    def question(self, method: str, params: Json | None = None, **meta: Any) -> tuple[bytes, dict[str, str]]:
        envelope = {
            VERSION_KEY: "2026-07-28",
            CAPABILITIES_KEY: self.capabilities,
            CLIENT_KEY: {"name": "test", "version": "1"},
            **meta,
        }
        params = {**(params or {}), "_meta": envelope}
        headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
        if "name" in params or "uri" in params:
            headers["Mcp_Name"] = params.get("name") or params["uri"]
        return self.request(method, params), headers

    async def post(self, method: str, params: Json | None = None, **meta: Any) -> Answer:
        body, headers = self.question(method, params, **meta)
        return await self.raw("POST", body, **headers)

    async def ask(self, method: str, params: Json | None = None, **meta: Any) -> Json:
        answer = await self.post(method, params, **meta)
        assert answer.status == 200, answer
        return json.loads(answer.body)  # type: ignore[no-any-return]

    async def tool(self, name: str, **params: Any) -> Json:
        answer = await self.ask("tools/call", {"name": name, **params})
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def said(self, name: str, **params: Any) -> Any:
        return json.loads((await self.tool(name, **params))["content"][0]["text"])

    async def watch(self, method: str, params: Json, **meta: Any) -> Stream:
        body, headers = self.question(method, params, **meta)
        return await self.stream("POST", body, **headers)


@asynccontextmanager
async def modern_client_of(
    server: tuple[str, ...], **options: Any
) -> AsyncIterator[tuple[ModernClient, Host]]:
    async with hosting(server, **options) as host, ModernClient(host.port) as client:
        yield client, host


# Clients of 2026-07-28


@BOTH
async def test_a_call_and_what_it_says_of_the_server(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        result = await client.tool("echo", arguments={"n": 12345678901234567890})
        assert json.loads(result["content"][0]["text"])["arguments"] == {"n": 12345678901234567890}
        assert result["resultType"] == "complete"
        assert result["_meta"][SERVER_KEY]["name"] == "era"


async def test_a_server_that_says_nothing_to_what_it_does_not_know_is_of_the_handshake_era() -> None:
    async with modern_client_of(SILENT) as (client, _):
        assert (await client.tool("echo"))["resultType"] == "complete"


@BOTH
async def test_discovery(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        found = (await client.ask("server/discover"))["result"]
        assert set(found["supportedVersions"]) == {"2026-07-28", *HANDSHAKE_REVISIONS}
        assert found["instructions"] == "be kind"
        assert found["capabilities"]["tools"] == {"listChanged": True}
        assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
        assert found["_meta"][SERVER_KEY] == {"name": "era", "version": "1"}


@BOTH
async def test_lists_say_how_long_they_may_be_kept(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        result = (await client.ask("tools/list"))["result"]
        assert len(result["tools"]) == len(TOOLS) and result["resultType"] == "complete"
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@BOTH
async def test_errors_and_their_status(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        for method, params, status, code in [
            ("x/unknown", {}, 404, -32601),
            ("ping", {}, 404, -32601),
            ("initialize", {}, 404, -32601),
            ("resources/read", {"uri": "res://none"}, 400, -32602),
        ]:
            answer = await client.post(method, params)
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (status, code), method
        body, headers = client.question("tools/call", {"name": "echo"})
        answer = await client.raw("POST", body, **{**headers, "Mcp_Name": "other"})
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32020)
        for method in ("GET", "DELETE"):
            answer = await client.raw(method, MCP_Protocol_Version="2026-07-28")
            assert (answer.status, answer.headers["allow"]) == (405, "POST")


@BOTH
async def test_progress_under_the_clients_own_token(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        for token in ("t", 7):
            stream = await client.watch("tools/call", {"name": "progress"}, progressToken=token)
            *notes, last = await stream.rest()
            assert [note["params"]["progressToken"] for note in notes] == [token] * 3
            assert last["result"]["resultType"] == "complete"


@BOTH
async def test_the_log_of_a_call_that_wants_it(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        stream = await client.watch("tools/call", {"name": "log"}, **{LEVEL_KEY: "debug"})
        note, last = await stream.rest()
        assert note["method"] == "notifications/message" and "result" in last
        silent = await client.post("tools/call", {"name": "log"})
        assert silent.headers["content-type"] == "application/json"


@BOTH
async def test_one_question_and_its_answer(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        client.capabilities = ASKABLE
        asked = await client.tool("ask")
        assert asked["resultType"] == "input_required"
        [(key, question)] = asked["inputRequests"].items()
        assert question["method"] == "elicitation/create" and question["params"]["message"] == "who?"
        answer = {"action": "accept", "content": {"name": "Ada"}}
        heard = await client.said("ask", inputResponses={key: answer}, requestState=asked["requestState"])
        assert answer in (heard.get("elicitation/create"), (heard.get("answers") or {}).get(key))


async def test_questions_asked_at_once_are_put_together_and_those_left_open_again() -> None:
    async with modern_client_of(HANDSHAKE) as (client, _):
        client.capabilities = ASKABLE
        asked = await client.tool("ask-two")
        kinds = {question["method"]: key for key, question in asked["inputRequests"].items()}
        assert set(kinds) == {"elicitation/create", "sampling/createMessage"}
        again = await client.tool(
            "ask-two",
            inputResponses={kinds["elicitation/create"]: {"action": "decline"}},
            requestState=asked["requestState"],
        )
        assert [question["method"] for question in again["inputRequests"].values()] == [
            "sampling/createMessage"
        ]
        sample = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
        heard = await client.said(
            "ask-two",
            inputResponses=dict.fromkeys(again["inputRequests"], sample),
            requestState=again["requestState"],
        )
        assert heard == {"elicitation/create": {"action": "decline"}, "sampling/createMessage": sample}


async def test_a_state_is_good_for_one_round_of_one_call_of_one_client() -> None:
    async with modern_client_of(HANDSHAKE) as (client, _):
        client.capabilities = ASKABLE
        asked = await client.tool("ask", arguments={"a": 1})
        [key] = asked["inputRequests"]
        state, answers = asked["requestState"], {key: {"action": "cancel"}}
        for params in (
            {"name": "ask", "arguments": {"a": 2}, "requestState": state},
            {"name": "ask-two", "arguments": {"a": 1}, "requestState": state},
            {"name": "ask", "arguments": {"a": 1}, "requestState": state[:-2] + "AA"},
            {"name": "ask", "arguments": {"a": 1}, "requestState": "nonsense"},
        ):
            answer = await client.post("tools/call", {**params, "inputResponses": answers})
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32602)
        first = {"name": "ask", "arguments": {"a": 1}, "requestState": state, "inputResponses": answers}
        assert "result" in await client.ask("tools/call", first)
        second = await client.ask("tools/call", first)
        assert second["error"]["data"]["reason"] == "call_lost", "it is over, and not begun again"
        heard = await client.said("heard")
        assert sum(message.get("params", {}).get("name") == "ask" for message in heard) <= 1


async def test_a_question_to_a_client_that_cannot_be_asked() -> None:
    async with modern_client_of(HANDSHAKE) as (client, _):
        client.capabilities = {"sampling": {}}
        answer = await client.post("tools/call", {"name": "ask"})
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (400, -32021)
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        client.capabilities = {}
        heard = await client.said("ask")
        assert heard["elicitation/create"]["code"] == -32601, "on an instance that others use nobody is asked"


async def test_a_call_that_waits_and_whose_server_died_says_so_and_is_not_run_again() -> None:
    async with modern_client_of(HANDSHAKE) as (client, host):
        client.capabilities = ASKABLE
        asked = await client.tool("ask")
        [key] = asked["inputRequests"]
        for record in host.events("instance_started"):
            pid = record.pid  # type: ignore[attr-defined]
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        params = {
            "name": "ask",
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "cancel"}},
        }
        async with within():
            while True:
                answer = await client.ask("tools/call", params)
                if "error" in answer:
                    break
        assert answer["error"]["data"]["reason"] in ("server_exited", "call_lost")


@BOTH
async def test_a_server_that_dies_under_a_call(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        before = (await client.said("echo"))["pid"]
        answer = await client.ask("tools/call", {"name": "die"})
        assert answer["error"]["data"]["reason"] == "server_exited"
        assert (await client.said("echo"))["pid"] != before


@BOTH
async def test_a_client_that_disconnects_has_cancelled(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        await client.said("echo")
        body, headers = client.question("tools/call", {"name": "hold"})
        peer = await client.send("POST", body, **headers)
        async with within():
            while not any(m.get("params", {}).get("name") == "hold" for m in await client.said("heard")):
                pass
            peer.reset()
            while not any(m.get("method") == "notifications/cancelled" for m in await client.said("heard")):
                pass


@BOTH
async def test_whoever_listens_hears_what_it_asked_for_also_after_a_restart(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["res://a"]}
        body, headers = client.question("subscriptions/listen", {"notifications": wanted})
        id = json.loads(body)["id"]
        stream = await client.stream("POST", body, **headers)
        acknowledged = await stream.message()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == wanted
        await client.said("change")
        news = [await stream.message(), await stream.message()]
        assert {note["method"] for note in news} == {
            "notifications/tools/list_changed",
            "notifications/resources/updated",
        }
        assert all(note["params"]["_meta"][SUBSCRIPTION_KEY] == id for note in [acknowledged, *news])
        await client.ask("tools/call", {"name": "die"})
        await client.said("change")
        seen = set()
        async with within():
            while "notifications/resources/updated" not in seen:
                seen.add((await stream.message())["method"])


@pytest.mark.parametrize("called_before", [False, True])
async def test_whoever_listens_hears_of_a_resource_from_whichever_instance_serves_it(
    called_before: bool,
) -> None:
    """A client that can be asked something has another instance for its calls."""
    async with modern_client_of(HANDSHAKE) as (client, _):
        client.capabilities = ASKABLE
        if called_before:
            await client.said("echo")
        stream = await client.watch(
            "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["res://a"]}}
        )
        await stream.message()
        await client.said("change")
        assert (await stream.message())["method"] == "notifications/resources/updated"


@BOTH
async def test_whoever_listens_for_a_resource_hears_of_its_parts(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        wanted = {"notifications": {"resourceSubscriptions": ["res://a"]}}
        stream = await client.watch("subscriptions/listen", wanted)
        await stream.message()
        await client.said("change", arguments={"uri": "res://a/b"})
        assert (await stream.message())["params"]["uri"] == "res://a/b"


async def test_instances_are_told_when_nobody_listens_for_a_resource_any_more() -> None:
    async with modern_client_of(HANDSHAKE) as (client, _):
        client.capabilities = ASKABLE
        await client.said("echo")
        wanted = {"notifications": {"resourceSubscriptions": ["res://a"]}}
        stream = await client.watch("subscriptions/listen", wanted)
        await stream.message()
        stream.reset()
        async with within():
            while not any(m.get("method") == "resources/unsubscribe" for m in await client.said("heard")):
                pass


async def test_whoever_listens_does_not_keep_those_away_who_read_the_log() -> None:
    async with modern_client_of(MODERN) as (client, _):
        before = (await client.said("echo"))["pid"]
        wanted = {"notifications": {"toolsListChanged": True}}
        stream = await client.watch("subscriptions/listen", wanted, **{LEVEL_KEY: "debug"})
        await stream.message()
        answer = await client.ask("tools/call", {"name": "echo"}, **{LEVEL_KEY: "debug"})
        assert json.loads(answer["result"]["content"][0]["text"])["pid"] == before
        call = await client.watch("tools/call", {"name": "log"}, **{LEVEL_KEY: "debug"})
        note, _ = await call.rest()
        assert note["method"] == "notifications/message"


@BOTH
async def test_a_shutdown_ends_listeners_properly_and_lets_calls_finish(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, host):
        stream = await client.watch("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await stream.message()
        assert await host.end() == 0
        [last] = await stream.rest()
        assert last["result"]["resultType"] == "complete" and stream.ended


async def test_listeners_are_bounded_in_number_and_in_what_they_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.proxy.listening.MOST_LISTENERS", 1)
    monkeypatch.setattr("mooring.proxy.listening.MOST_RESOURCES", 1)
    async with modern_client_of(HANDSHAKE) as (client, _):
        wanted = {"notifications": {"resourceSubscriptions": ["res://a", "res://b"]}}
        first = await client.watch("subscriptions/listen", wanted)
        told = (await first.message())["params"]["notifications"]
        assert told == {"resourceSubscriptions": ["res://a"]}
        second = await client.watch("subscriptions/listen", wanted)
        assert (await second.message())["error"]["data"]["reason"] == "too_many_listeners"


@BOTH
async def test_arguments_in_headers_are_those_of_the_body(server: tuple[str, ...]) -> None:
    async with modern_client_of(server) as (client, _):
        call = {"name": "echo", "arguments": {"region": "us"}}
        body, headers = client.question("tools/call", call)
        assert (await client.raw("POST", body, **headers)).status == 200, "nothing is known of the tool"
        await client.ask("tools/list")
        for region, status in (("us", 200), ("eu", 400), ("", 400)):
            answer = await client.raw("POST", body, **headers, Mcp_Param_Region=region)
            assert answer.status == status
            assert status == 200 or json.loads(answer.body)["error"]["code"] == -32020


async def test_listeners_of_a_modern_server_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.proxy.modern_server.MOST_LISTENERS", 1)
    async with modern_client_of(MODERN, max_calls=1) as (client, _):
        wanted = {"notifications": {"toolsListChanged": True}}
        first = await client.watch("subscriptions/listen", wanted)
        await first.message()
        second = await client.post("subscriptions/listen", wanted)
        assert json.loads(second.body)["error"]["data"]["reason"] == "too_many_listeners"
        assert await client.said("echo"), "whoever listens takes no call from others"


async def test_an_instance_whose_call_was_given_up_serves_nobody_else() -> None:
    """It may go on with the call, and ask or log on its behalf."""
    async with modern_client_of(HANDSHAKE, spare=0) as (client, host):
        client.capabilities = ASKABLE
        used = (await client.said("echo"))["pid"]
        body, headers = client.question("tools/call", {"name": "hold"})
        peer = await client.send("POST", body, **headers)
        async with McpClient(host.port, path="/metrics") as probe, within():
            while b'mooring_calls_in_flight{server="test"} 1' not in (await probe.raw("GET")).body:
                pass
        peer.reset()
        async with within():
            while (await client.said("echo"))["pid"] == used:
                pass


@pytest.mark.parametrize("params", [[], None, {"_meta": 5}])
async def test_params_that_are_no_object_for_a_modern_server(params: Any) -> None:
    async with hosting(MODERN) as host, client_of(host.port) as client:
        message = {"jsonrpc": "2.0", "id": "odd", "method": "tools/list", "params": params}
        answer = await client.raw("POST", json.dumps(message).encode())
        assert json.loads(answer.body)["error"]["code"] == -32602
        assert await client.result("ping") == {}


async def test_a_server_that_does_not_speak_the_clients_revision_says_which_it_does() -> None:
    async with hosting((*SCRIPTED, "--version", "2025-11-25")) as host, McpClient(host.port) as client:
        assert (await client.initialize("2024-11-05"))["protocolVersion"] == "2025-11-25"


# Clients of the handshake era at servers of 2026-07-28


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_handshake_client_is_introduced(version: str) -> None:
    async with hosting(MODERN) as host, McpClient(host.port) as client:
        result = await client.initialize(version)
        assert result["protocolVersion"] == version and result["serverInfo"]["name"] == "era"
        assert result["instructions"] == "be kind"
        assert await client.result("ping") == {}
        assert len((await client.result("tools/list"))["tools"]) == len(TOOLS)
        assert (await client.call("echo", a=1)).keys() == {"content"}, "nothing of the other era"
        heard = json.loads(await client.text("heard"))
        assert all(
            message["params"]["_meta"][VERSION_KEY] == "2026-07-28" for message in heard if "id" in message
        )


async def test_the_first_client_may_come_before_we_know_the_era() -> None:
    async with hosting(MODERN, spare=0) as host:
        async with client_of(host.port) as client:
            assert json.loads(await client.text("echo"))["arguments"] == {}
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))


async def test_what_the_server_wants_is_asked_on_the_stream_of_its_call() -> None:
    async with hosting(MODERN) as host, McpClient(host.port) as client:
        await client.initialize(capabilities=ASKABLE)
        for name in ("ask", "ask-two", "rounds"):
            stream = await client.stream("POST", client.request("tools/call", {"name": name}))
            answers: Json = {}
            for _ in range(2 if name == "ask-two" else 1):
                question = await stream.message()
                answers[question["method"]] = answer = {
                    "action": "accept",
                    "content": {"for": question["method"]},
                }
                await client.respond(question["id"], answer)
            last = (await stream.rest())[-1]
            said = json.loads(last["result"]["content"][0]["text"])
            assert sorted(map(json.dumps, said["answers"].values())) == sorted(
                map(json.dumps, answers.values())
            )
            assert said["state"] == ("two" if name == "rounds" else 'é"1'), "byte by byte"


async def test_a_server_that_asks_without_end() -> None:
    async with hosting(MODERN) as host, client_of(host.port) as client:
        answer = await client.ask("tools/call", {"name": "forever"})
        assert "more than 10 rounds" in answer["error"]["message"]


async def test_a_client_that_refuses_to_answer() -> None:
    async with hosting(MODERN) as host, McpClient(host.port) as client:
        await client.initialize(capabilities=ASKABLE)
        stream = await client.stream("POST", client.request("tools/call", {"name": "ask-two"}))
        questions = [await stream.message(), await stream.message()]
        for question in questions:
            error = {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}}
            assert (await client.raw("POST", json.dumps(error).encode())).status == 202
        assert (await stream.rest())[-1]["error"]["message"] == "no"


async def test_progress_log_and_news_for_a_handshake_client() -> None:
    async with hosting(MODERN) as host, client_of(host.port) as client:
        params = {"name": "progress", "_meta": {"progressToken": "t"}}
        notes = await (await client.stream("POST", client.request("tools/call", params))).rest()
        assert [note.get("params", {}).get("progressToken") for note in notes[:-1]] == ["t"] * 3
        assert (await client.call("log"))["content"], "no level, no log"
        await client.result("logging/setLevel", {"level": "debug"})
        note, _ = await (await client.stream("POST", client.request("tools/call", {"name": "log"}))).rest()
        assert note["method"] == "notifications/message"
        stream = await client.stream()
        await client.result("resources/subscribe", {"uri": "res://a"})
        await client.call("change")
        methods: set[str] = set()
        async with within():
            while len(methods) < 2:
                news = await stream.message()
                assert SUBSCRIPTION_KEY not in news["params"].get("_meta", {})
                methods.add(news["method"])
        assert methods == {"notifications/tools/list_changed", "notifications/resources/updated"}


async def test_errors_in_the_words_of_the_handshake_era() -> None:
    async with hosting(MODERN) as host, client_of(host.port) as client:
        assert (await client.ask("resources/read", {"uri": "res://none"}))["error"]["code"] == -32002
        assert (await client.ask("x/unknown"))["error"]["code"] == -32601
        died = await client.ask("tools/call", {"name": "die"})
        assert died["error"]["data"]["reason"] == "server_exited"
        assert json.loads(await client.text("echo"))["arguments"] == {}, "the session goes on"


async def test_many_sessions_of_a_modern_server_come_and_go() -> None:
    async with hosting(MODERN) as host:
        for _ in range(5):
            async with client_of(host.port) as client:
                await client.text("echo")
                assert (await client.raw("DELETE")).status == 204
        async with McpClient(host.port, path="/readyz") as probe, within():
            while json.loads((await probe.raw("GET")).body)["instances"]:
                pass
