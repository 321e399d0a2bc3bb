"""Servers that show their era in another way than most do."""

import json
import sys
from pathlib import Path

import pytest

from mooring.proxy import stateless
from mooring.supervise.restart import RestartPolicy
from mooring.wire.modern import CAPABILITIES_KEY, CLIENT_KEY, VERSION_KEY
from tests.hosting import SCRIPTED, hosting
from tests.integration.test_eras import ModernClient, modern_client_of
from tests.integration.test_sharing import readyz
from tests.mcp_client import Json, McpClient, client_of
from tests.odd_server import LATER
from tests.support import within

INFO: Json = {"name": "t", "version": "1"}
HELLO: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
ENVELOPE: Json = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CLIENT_KEY: INFO}
SHARED = pytest.mark.parametrize("shared", [0, 1], ids=["alone", "shared"])


def odd(kind: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, str(Path(__file__).parents[1] / "odd_server.py"), kind, *options)


async def called(client: ModernClient) -> Json:
    return json.loads((await client.post("tools/call", {"name": "x"})).body)  # type: ignore[no-any-return]


# Servers with handshakes that do not answer the question


@SHARED
async def test_a_server_that_exits_when_it_is_asked_is_of_the_handshake_era(shared: int) -> None:
    async with modern_client_of(odd("dies-at-discover"), shared=shared) as (client, _):
        assert "result" in await called(client)


async def test_that_it_exits_then_is_no_crash_of_the_server() -> None:
    async with modern_client_of(odd("dies-at-discover"), spare=0) as (modern, host):
        async with McpClient(host.port) as old:
            await old.initialize()
        for _ in range(4):
            assert "result" in await called(modern)
        async with McpClient(host.port) as new, within():
            await new.initialize()
        assert not host.events("server_exited")


async def test_a_server_that_says_nothing_before_initialize_is_of_the_handshake_era() -> None:
    async with modern_client_of(odd("silent"), handshake_timeout_s=1.0) as (client, _), within():
        assert "result" in await called(client)


async def test_of_a_server_that_is_known_to_take_handshakes_less_silence_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stateless, "SILENCE_S", 0.2)
    async with modern_client_of(odd("silent"), handshake_timeout_s=600.0) as (client, host), within():
        async with client_of(host.port):
            pass
        assert "result" in await called(client)


async def test_what_was_only_supposed_is_asked_again(tmp_path: Path) -> None:
    """Its first processes are so slow that neither the question nor `initialize` is answered in time."""
    late = odd("strict", "--late", str(tmp_path / "started"))
    soon = RestartPolicy(failed_retry_s=0.1)
    options = {"handshake_timeout_s": 0.5, "spare": 0, "restarts": soon}
    async with modern_client_of(late, **options) as (client, _), within():
        while "error" in await called(client):
            pass


# Servers without handshakes


@SHARED
@pytest.mark.parametrize("code", ["-32600", "-32602", "-32603", "1"])
async def test_a_server_without_handshakes_may_refuse_them_with_any_code(code: str, shared: int) -> None:
    """The exact code is the implementation's choice."""
    server = odd("strict", "--code", code)
    async with hosting(server, shared=shared) as host, McpClient(host.port) as old, within():
        await old.initialize()
        assert await old.text("x") == '"ok"'
        async with ModernClient(host.port) as modern:
            assert "result" in await called(modern)
        assert (await readyz(host))["state"] == "ready"


async def test_a_server_of_a_later_revision_only_says_which() -> None:
    async with hosting(odd("later")) as host, ModernClient(host.port) as modern, within():
        for _ in range(2):
            answer = await modern.post("tools/call", {"name": "x"})
            error = json.loads(answer.body)["error"]
            assert (answer.status, error["code"]) == (400, -32022)
            assert error["data"] == {"supported": [LATER], "requested": "2026-07-28"}


# What is refused


async def told(client: McpClient, params: Json) -> Json:
    answer = await client.raw("POST", client.request("initialize", params))
    return json.loads(answer.body)  # type: ignore[no-any-return]


@pytest.mark.parametrize("first", [True, False], ids=["before-others", "after-others"])
@pytest.mark.parametrize(
    ("kind", "odd_one", "error"),
    [
        ("dual", {**HELLO, "_meta": ENVELOPE}, {"code": -32601, "message": "Method not found"}),
        ("dual", {"capabilities": {}}, {"code": -32602, "message": "no protocolVersion"}),
        ("vendor", {"capabilities": {}}, {"code": -32602, "message": "no protocolVersion"}),
    ],
    ids=["dual-enveloped", "dual-malformed", "handshake-malformed"],
)
async def test_an_odd_initialize_is_the_business_of_its_sender(
    kind: str, odd_one: Json, error: Json, first: bool
) -> None:
    """It hears what the server said; nobody else is served in another way because of it."""
    async with hosting(odd(kind)) as host:
        if not first:
            async with client_of(host.port):
                pass
        async with McpClient(host.port) as client:
            assert (await told(client, odd_one))["error"] == error
        for _ in range(3):
            async with client_of(host.port) as client:
                assert await client.text("x") == ('"handshake"' if kind == "dual" else '"ok"')


@SHARED
async def test_the_words_of_a_handshake_server_that_refuses_everybody(shared: int) -> None:
    async with hosting((*SCRIPTED, "--refuse"), shared=shared) as host, McpClient(host.port) as client:
        assert "no thanks" in (await told(client, HELLO))["error"]["message"]
