"""Notifications that no revision knows: they cross from era to era where they can concern nobody else."""

import json

import pytest

from tests.hosting import hosting
from tests.integration.test_era_discovery import odd
from tests.integration.test_era_odd_messages import STATED
from tests.integration.test_eras import ASKABLE, ModernClient, modern_client_of
from tests.mcp_client import Json, McpClient, client_of
from tests.support import within
from tests.websocket_client import ws_client

VENDOR = "notifications/vendor/called"
NOTE: Json = {"jsonrpc": "2.0", "method": VENDOR, "params": {"n": 12345678901234567890}}
CANCELLED: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
ANSWER = '{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}'


async def until_heard(client: McpClient | ModernClient, what: str) -> str:
    """All that the server has heard, once that is among it."""
    async with within():
        while what not in (heard := json.dumps(await client.ask("x/heard"))):
            pass
    return heard


# Of servers


async def test_of_a_modern_server_for_a_session_that_has_it_to_itself() -> None:
    said = "\n".join((json.dumps(NOTE), json.dumps(CANCELLED), ANSWER))
    async with hosting(odd("scripted")) as host, client_of(host.port) as client:
        stream = await client.stream(
            "POST", client.request("tools/call", {"name": "x", "arguments": {"raw": said}})
        )
        messages = await stream.rest()
        assert messages[0] == NOTE
        assert CANCELLED not in messages, "its numbers are ours"


async def test_of_a_modern_server_that_is_shared_nobody_hears_them() -> None:
    said = "\n".join((json.dumps(NOTE), ANSWER))
    async with hosting(odd("scripted"), shared=1) as host, client_of(host.port) as client:
        answer = await client.raw("POST", client.request("tools/call", {"arguments": {"raw": said}}))
        assert VENDOR.encode() not in answer.body and b"result" in answer.body


async def test_of_a_handshake_server_for_a_call_that_has_it_to_itself() -> None:
    async with modern_client_of(odd("vendor")) as (client, _):
        client.capabilities = ASKABLE
        answer = await client.post("tools/call", {"name": "x"})
        assert VENDOR.encode() in answer.body and b"resultType" in answer.body


async def test_of_a_handshake_server_that_others_use_too_nobody_hears_them() -> None:
    async with modern_client_of(odd("vendor")) as (client, _):
        assert VENDOR not in json.dumps(await client.tool("x"))


# Of clients, for a server of 2026-07-28


@pytest.mark.parametrize("shared", [0, 1], ids=["alone", "shared"])
async def test_of_a_handshake_client(shared: int) -> None:
    async with hosting(odd("scripted"), shared=shared) as host, client_of(host.port) as client:
        await client.notify("notifications/roots/list_changed")
        await client.notify(VENDOR, NOTE["params"])
        heard = await until_heard(client, VENDOR)
        assert "12345678901234567890" in heard and "roots" not in heard


@pytest.mark.parametrize("header", [VENDOR, "notifications/other"], ids=["as-it-is", "other-header"])
async def test_of_a_modern_client(header: str) -> None:
    async with modern_client_of(odd("scripted")) as (client, _):
        await client.ask("x/heard")
        for note in (CANCELLED, {**NOTE, "params": STATED}):
            headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": header}
            answer = await client.raw("POST", json.dumps(note).encode(), **headers)
            assert answer.status == 202
        await client.ask("x/heard")
        heard = json.dumps(await client.ask("x/heard"))
        assert (VENDOR in heard) is (header == VENDOR)
        assert "cancelled" not in heard, "it names a number that may be another's"


async def test_of_a_modern_client_on_a_websocket() -> None:
    async with hosting(odd("scripted")) as host, ws_client(host.port, version="") as client, within():
        await client.ask("x/heard", STATED)
        await client.notify(VENDOR, STATED)
        while VENDOR not in json.dumps(await client.ask("x/heard", STATED)):
            pass
