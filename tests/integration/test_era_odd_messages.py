"""Messages at the edges of the protocol: what they may be, and what they may not."""

import json
from typing import Any

import pytest

from mooring.wire.modern import LEVEL_KEY
from tests.hosting import hosting
from tests.integration.test_era_discovery import odd
from tests.integration.test_eras import ASKABLE, HANDSHAKE, MODERN, modern_client_of
from tests.mcp_client import Json, McpClient
from tests.support import within
from tests.websocket_client import ws_client

META = "io.modelcontextprotocol/"
STATED: Json = {"_meta": {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}}
WHO: Json = {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {}}}
BOTH = pytest.mark.parametrize("server", [HANDSHAKE, MODERN], ids=["handshake", "modern"])


# On the wire


async def test_a_batch_is_no_message_of_this_revision() -> None:
    async with modern_client_of(MODERN) as (client, _):
        body, headers = client.question("tools/list")
        answer = await client.raw("POST", b"[" + body + b"]", **headers)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)


async def test_a_header_is_ascii() -> None:
    """What is not has an encoding of its own, so that nobody reads it otherwise than we do."""
    async with modern_client_of(HANDSHAKE) as (client, _):
        body, headers = client.question("tools/call", {"name": "e"})
        body = body.replace(b'"name": "e"', '"name": "\u00e9"'.encode(), 1)
        head = client.head("POST", body, **{**headers, "Mcp_Name": "NAME"}).replace(b"NAME", b"\xe9", 1)
        peer = await client.peer()
        peer.send(head)
        async with within():
            assert json.loads((await peer.answer()).body)["error"]["code"] == -32020


@pytest.mark.parametrize("slash", ["\\/", "\\u002f"])
async def test_a_slash_may_be_escaped(slash: str) -> None:
    """As some write all of theirs; it is the same JSON."""
    async with hosting(MODERN) as host, ws_client(host.port, version="") as client:
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": STATED})
        await client.connection.send(message.replace("/", slash))
        assert "result" in await client.answer(1)


@BOTH
async def test_a_cancellation_may_have_an_envelope_too(server: tuple[str, ...]) -> None:
    async with hosting(server) as host, ws_client(host.port, version="") as client, within():

        async def has_heard(word: str) -> bool:
            return word in json.dumps(await client.ask("tools/call", {"name": "heard", **STATED}))

        await client.send("tools/call", {"name": "hold", **STATED}, id="h")
        while not await has_heard("hold"):
            pass
        await client.notify("notifications/cancelled", {"requestId": "h", **STATED})
        while not await has_heard("notifications/cancelled"):
            pass


# Calls of 2026-07-28 at handshake servers


async def test_a_retry_may_have_its_members_in_another_order() -> None:
    async with modern_client_of(HANDSHAKE) as (client, _):
        client.capabilities = ASKABLE
        asked = await client.tool("ask", arguments={"a": 1, "b": {"c": 2, "d": [3]}})
        [key] = asked["inputRequests"]
        retry = {"requestState": asked["requestState"], "arguments": {"b": {"d": [3], "c": 2}, "a": 1}}
        await client.tool("ask", **retry, inputResponses={key: {"action": "cancel"}})


@pytest.mark.parametrize("response", [None, 5, [], "x"], ids=repr)
async def test_what_is_asked_is_answered_by_an_object(response: Any) -> None:
    async with modern_client_of(odd("asking")) as (client, _):
        client.capabilities = ASKABLE
        asked = await client.tool("x")
        [key] = asked["inputRequests"]
        params = {"name": "x", "inputResponses": {key: response}, "requestState": asked["requestState"]}
        answer = await client.post("tools/call", params)
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32602)
        params["inputResponses"] = {key: {"action": "cancel"}}
        assert "cancel" in json.dumps(await client.ask("tools/call", params))


@pytest.mark.parametrize("method", ["tools/list", "completion/complete"])
async def test_a_client_is_asked_only_where_the_revision_says_so(method: str) -> None:
    async with modern_client_of(odd("asking")) as (client, _):
        client.capabilities = ASKABLE
        answer = await client.post(method, None, **{LEVEL_KEY: "debug"})
        assert b"-32601" in answer.body and b"input_required" not in answer.body


@pytest.mark.parametrize("declared", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}], ids=repr)
async def test_a_client_that_visits_no_pages_is_told_that_it_must(declared: Json) -> None:
    async with modern_client_of(odd("url")) as (client, _):
        client.capabilities = declared
        answer = await client.post("tools/call", {"name": "x"})
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (400, -32021)
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_a_client_that_visits_pages_is_asked_to() -> None:
    async with modern_client_of(odd("url")) as (client, _):
        client.capabilities = {"elicitation": {"form": {}, "url": {}}}
        asked = (await client.tool("x"))["inputRequests"]
        assert [question["params"]["mode"] for question in asked.values()] == ["url"]


async def test_a_question_may_be_taken_back() -> None:
    async with modern_client_of(odd("changing-its-mind")) as (client, _):
        client.capabilities = ASKABLE
        assert (await client.said("x")) == "never mind"


# Calls of handshake clients at servers of 2026-07-28


@pytest.mark.parametrize("declared", [{}, {"sampling": {}}], ids=repr)
async def test_a_client_is_not_asked_for_what_it_has_not_declared(declared: Json) -> None:
    async with hosting(odd("scripted")) as host, McpClient(host.port) as client:
        await client.initialize(capabilities=declared)
        answer = await client.ask("tools/call", {"name": "x", "arguments": {"ask": {"a": WHO}}})
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
