"""Calls of a server of 2026-07-28 elsewhere: what is within them, and arguments that are headers too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.remote.options import RemoteOptions
from mooring.remote.relisting import MOST_PAGES
from tests.faults.test_remote_server import CALL
from tests.hosting import Host, hosting
from tests.integration.test_eras import ModernClient
from tests.mcp_client import Json, client_of
from tests.modern_script import ModernScript
from tests.raw_server import Asked, RawServer, Wire, answer, raw_server
from tests.stdio_client import modern, speaking
from tests.support import until

LOOK: Json = {"name": "look", "arguments": {"region": "eu"}}
REFUSED = -32020


async def strict(asked: Asked, _wire: Wire) -> bytes:
    """As the specification has it: who names a region in the body does in the head."""
    if asked.message["method"] != CALL or asked.headers.get("mcp-param-region") == "eu":
        return b""
    return ModernScript.refusal(asked, REFUSED, "Mcp-Param-Region is missing")


def idle(host: Host) -> int:
    """How many conversations were ended because nobody used them."""
    return sum(record.getMessage().endswith("is stopped: idle") for record in host.records)


@asynccontextmanager
async def in_front(script: ModernScript, **options: Any) -> AsyncIterator[tuple[RawServer, Host]]:
    async with (
        raw_server(script) as server,
        hosting(remote=RemoteOptions(url=server.url), **options) as host,
    ):
        yield server, host


async def test_what_is_within_params_and_result_goes_through_to_the_byte() -> None:
    arguments = b'{"a":1.0e0,\t"b": 9007199254740993, "c": "\\u0061\\ud83d",  "region":"eu" }'
    result = b'{"resultType" : "complete","content":[],  "x": 1.50e1, "y": "\\u00e9\\ud83d" }'

    async def odd(asked: Asked, _wire: Wire) -> bytes:
        if asked.message["method"] != CALL:
            return b""
        return answer(b'{"id": %d, "result":%b, "jsonrpc":"2.0"}' % (asked.message["id"], result))

    async with in_front(ModernScript(odd)) as (server, host), ModernClient(host.port) as client:
        body, headers = client.question(CALL, {"name": "look", "arguments": {}})
        assert body.count(b'"arguments": {}') == 1
        body = body.replace(b'"arguments": {}', b'"arguments": %b' % arguments)
        heard = await client.raw("POST", body, **headers, Mcp_Other="x")
        assert heard.status == 200 and result in heard.body, heard
        assert heard.headers["content-type"] == "application/json"
        [called] = await server.count(1, CALL)
        assert arguments in called.body and "mcp-other" not in called.headers


async def test_what_a_list_said_holds_for_every_conversation_after_it() -> None:
    async with in_front(ModernScript(strict), idle_timeout_s=0.2) as (server, host):
        async with ModernClient(host.port) as client:
            for slept in (1, 2):
                body, headers = client.question(CALL, LOOK)
                heard = await client.raw("POST", body, **headers, Mcp_Param_Region="eu")
                assert heard.status == 200 and b'"content"' in heard.body, heard
                await until(lambda: idle(host) == slept)  # noqa: B023
        called = await server.count(2, CALL)
        assert [asked.headers["mcp-param-region"] for asked in called] == ["eu", "eu"]
        assert len(await server.count(1, "tools/list")) == 1


@pytest.mark.parametrize("kind", ["2026-07-28", "handshake", "stdio"])
async def test_a_call_whose_headers_are_refused_is_sent_once_more_with_what_the_list_says(kind: str) -> None:
    async with in_front(ModernScript(strict)) as (server, host):
        if kind == "2026-07-28":
            async with ModernClient(host.port) as client:
                assert (await client.tool(**LOOK))["content"] == []
        elif kind == "handshake":
            async with client_of(host.port) as client:
                assert (await client.result(CALL, LOOK))["content"] == []
        else:
            async with speaking(server.url) as client:
                assert (await client.result(CALL, modern(**LOOK)))["content"] == []
        refused, done = await server.count(2, CALL)
        assert "mcp-param-region" not in refused.headers and done.headers["mcp-param-region"] == "eu"
        assert refused.body == done.body
        assert len(await server.count(1, "tools/list")) == 1


async def test_what_is_refused_for_other_reasons_is_the_servers_own_word_and_not_repeated() -> None:
    async def never(asked: Asked, _wire: Wire) -> bytes:
        if asked.message["method"] != CALL:
            return b""
        return ModernScript.refusal(asked, REFUSED, "Mcp-Something is missing")

    async with in_front(ModernScript(never)) as (server, host), client_of(host.port) as client:
        refused = await client.ask(CALL, {"name": "other", "arguments": {}})
        assert refused["error"]["code"] == REFUSED, refused
        assert len(await server.count(1, CALL)) == 1
        assert len(await server.count(1, "tools/list")) == 1
        refused = await client.ask(CALL, LOOK)
        assert refused["error"]["code"] == REFUSED, refused
        assert len(await server.count(2, CALL)) == 2, "its headers were right"


async def test_a_list_without_end_is_read_no_further_and_the_refusal_goes_on() -> None:
    async def endless(asked: Asked, wire: Wire) -> bytes:
        if asked.message["method"] != "tools/list":
            return await strict(asked, wire)
        more = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {"tools": [], "nextCursor": "more"}}
        return answer(more)

    async with raw_server(ModernScript(endless)) as server, speaking(server.url) as client:
        assert (await client.error(CALL, modern(**LOOK)))["code"] == REFUSED
        pages = await server.count(MOST_PAGES, "tools/list")
        assert len(pages) == MOST_PAGES
        assert [page.message["params"].get("cursor") for page in pages[:2]] == [None, "more"]


async def test_calls_that_are_refused_together_wait_for_one_list() -> None:
    """A server that is slow to list its tools holds up none of them for longer than that."""
    calls, refused = 5, 0

    async def slow(asked: Asked, _wire: Wire) -> bytes:
        nonlocal refused
        if asked.message["method"] == CALL:
            refused += 1
            return ModernScript.refusal(asked, REFUSED, "Mcp-Something is missing")
        if asked.message["method"] == "tools/list":
            await until(lambda: refused == calls)
        return b""

    async with raw_server(ModernScript(slow)) as server, speaking(server.url) as client:
        other = modern(name="other", arguments={})
        errors = await asyncio.gather(*(client.error(CALL, other) for _ in range(calls)))
        assert [error["code"] for error in errors] == [REFUSED] * calls
        # (One that hears of its refusal only after the list may have another.)
        assert len(await server.count(1, "tools/list")) <= 2
