"""Arguments of tools that are headers too: nobody can have them say something else than the body."""

import asyncio
import json
from collections.abc import Callable

import pytest

from mooring.proxy import tool_lists
from tests.http_client import Answer
from tests.integration.test_era_discovery import odd
from tests.integration.test_eras import HANDSHAKE, MODERN, ModernClient, modern_client_of
from tests.mcp_client import Json
from tests.support import within

CALL: Json = {"name": "sql", "arguments": {"region": "eu"}}
Change = Callable[[bytes], bytes]


async def call(client: ModernClient, region: str, change: Change = bytes) -> Answer:
    body, headers = client.question("tools/call", CALL)
    return await client.raw("POST", change(body), **headers, Mcp_Param_Region=region)


def code_of(answer: Answer) -> int:
    return int(json.loads(answer.body)["error"]["code"])


async def list_all(client: ModernClient) -> None:
    await client.ask("tools/list")
    await client.ask("tools/list", {"cursor": "more"})


@pytest.mark.parametrize(
    "change",
    [
        bytes,
        lambda body: body.replace(b'"arguments"', b'"uri": 5, "arguments"'),
        lambda body: body.replace(b'"region"', b'"x": 1e999, "region"'),
        lambda body: body.replace(b'"region"', b'"x": ' + b"[" * 3000 + b"]" * 3000 + b', "region"'),
    ],
    ids=["plain", "uri-that-is-no-text", "number-out-of-range", "deep"],
)
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "never-listed"])
async def test_a_header_that_says_something_else_is_refused(change: Change, listed: bool) -> None:
    async with modern_client_of(odd("marked")) as (client, _):
        if listed:
            await list_all(client)
        answer = await call(client, "us", change)
        assert answer.status == 400 and code_of(answer) in (-32020, -32700), "nobody reads the deepest ones"
        assert "tools/call" not in await heard_by(client)


@pytest.mark.parametrize("server", [HANDSHAKE, MODERN], ids=["handshake", "modern"])
@pytest.mark.parametrize("shared", [0, 1], ids=["alone", "shared"])
async def test_before_anybody_has_listed_the_tools(server: tuple[str, ...], shared: int) -> None:
    async with modern_client_of(server, shared=shared) as (client, _), within():
        body, headers = client.question("tools/call", {"name": "echo", "arguments": {"region": "eu"}})
        answers = await asyncio.gather(
            *(client.raw("POST", body, **headers, Mcp_Param_Region=region) for region in ("us", "eu", "us"))
        )
        assert [answer.status for answer in answers] == [400, 200, 400]
        heard = await client.said("heard")
        assert sum(message.get("method") == "tools/list" for message in heard) == 1
        assert sum("echo" in json.dumps(message) for message in heard) == 1


async def heard_by(client: ModernClient) -> list[str]:
    """The methods of all that has reached the server."""
    heard = (await client.ask("x/heard"))["result"]["heard"]
    return [message.get("method", "") for message in heard]


async def test_who_leaves_meanwhile_has_not_called() -> None:
    async with modern_client_of(odd("late-list")) as (client, _), within():
        body, headers = client.question("tools/call", CALL)
        peer = await client.send("POST", body, **headers, Mcp_Param_Region="eu")
        while "tools/list" not in await heard_by(client):
            pass
        peer.reset()
        await client.ask("x/list")
        assert (await call(client, "eu")).status == 200
        assert (await heard_by(client)).count("tools/call") == 1


async def test_tools_that_changed_are_listed_again() -> None:
    async with modern_client_of(HANDSHAKE) as (client, _), within():
        body, headers = client.question("tools/call", {"name": "echo", "arguments": {"region": "eu"}})
        for _ in range(2):
            await client.raw("POST", body, **headers, Mcp_Param_Region="eu")
            await client.said("change")
        heard = await client.said("heard")
        assert sum(message.get("method") == "tools/list" for message in heard) == 2


@pytest.mark.parametrize("bound", [{"max_calls": 2}, {"max_message_bytes": 700}], ids=["calls", "bytes"])
async def test_those_who_wait_for_the_list_are_bounded(bound: dict[str, int]) -> None:
    async with modern_client_of(odd("late-list"), **bound) as (client, _), within():
        body, headers = client.question("tools/call", CALL)
        waiting = [await client.send("POST", body, **headers, Mcp_Param_Region="eu") for _ in range(3)]
        answers = [asyncio.create_task(peer.answer()) for peer in waiting]
        [refused], waiters = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert b"tools_unknown" in refused.result().body
        await client.ask("x/list")
        assert [(await answer).status for answer in waiters] == [200, 200]


async def test_a_list_without_end_is_not_read_and_the_call_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_lists, "MOST_PAGES", 1)
    async with modern_client_of(odd("marked")) as (client, _), within():
        answer = await call(client, "eu")
        assert json.loads(answer.body)["error"]["data"] == {"reason": "tools_unknown", "retryable": True}
        assert "tools/call" not in await heard_by(client)


async def test_a_server_that_does_not_list_its_tools_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_lists, "LIST_S", 0.1)
    async with modern_client_of(odd("late-list")) as (client, _), within():
        await client.ask("x/heard")
        answer = await call(client, "eu")
        assert json.loads(answer.body)["error"]["data"] == {"reason": "tools_unknown", "retryable": True}
        heard = await heard_by(client)
        assert "tools/call" not in heard and "notifications/cancelled" in heard
