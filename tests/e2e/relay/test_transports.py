"""Every transport through a relay, in plain text and with TLS; and by our own framing, without a header."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import parts
from tests.e2e.client import Client, connected
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.relay.place import AGENT, Command, Place, Where, bearer, place
from tests.hosting import DEMO
from tests.mcp_client import McpClient
from tests.support import until, within
from tests.websocket_client import WsClient, ws_client

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

LARGE_BYTES = 700_000
WAYS = [("python-1", "http"), ("python-1", "sse"), ("typescript-1", "http"), ("typescript-1", "sse")]


@pytest.fixture(params=["plain", "tls"])
async def there(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    parts.require("npm", "node", "sdk-1")
    async with place(tmp_path, {"demo": DEMO}, where=Where(has_tls=request.param == "tls")) as made:
        if made.ca_file is not None:  # as a user tells the SDKs' clients
            monkeypatch.setenv("SSL_CERT_FILE", str(made.ca_file))
            monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(made.ca_file))
        yield made


@asynccontextmanager
async def calling(there: Place) -> AsyncIterator[Command]:
    """`mooring connect --client`."""
    words = ("connect", there.address, "--client", "--server", f"{AGENT}/demo")
    async with there.command(*words, token=there.phone) as command:
        yield command
        assert await command.end() == 0, command.told()


async def everything_crosses(client: Client) -> None:
    assert (
        await client.text("echo", text="über 🚢 \u2028 9007199254740993") == "über 🚢 \u2028 9007199254740993"
    )
    number = await client.start("call", tool="sleep", arguments={"seconds": 0.3, "steps": 3}, progress=True)
    assert not (await client.answer(number)).get("isError")
    for step in (1, 2):
        await client.event("progress", call=number, progress=step, total=3)
    assert "forty-two" in await client.text("ask", message="How many?")
    assert "a model's words" in await client.text("sample", prompt="Say something")
    assert len(await client.text("big", bytes=LARGE_BYTES)) == LARGE_BYTES
    await client.do("subscribe", uri="demo://note")
    await client.text("touch", text="changed")
    await client.event("notification", method="notifications/resources/updated")


async def a_websocket_works(client: WsClient) -> None:
    assert await client.text("echo", text="über 🚢") == "über 🚢"
    assert len(await client.text("big", bytes=LARGE_BYTES)) == LARGE_BYTES
    text = "x" * LARGE_BYTES
    assert await client.text("echo", text=text) == text
    params = {"name": "sleep", "arguments": {"seconds": 0.2, "steps": 2}, "_meta": {"progressToken": "p"}}
    assert "result" in await client.ask("tools/call", params)
    assert [note["params"]["progress"] for note in client.notes if "params" in note] == [1, 2]


async def test_every_transport_of_a_caller(there: Place) -> None:
    for kind, transport in WAYS:
        url = there.url("demo", "mcp" if transport == "http" else transport)
        async with connected(kind, url, transport=transport, headers=bearer(there.phone)) as (client, _):
            await everything_crosses(client)
    options: dict[str, Any] = {"additional_headers": bearer(there.phone)}
    if there.ca_file is not None:
        options["ssl"] = ssl.create_default_context(cafile=there.ca_file)
    async with ws_client(there.port, path=f"/{AGENT}/demo/ws", **options) as socket:
        await a_websocket_works(socket)
    status = await there.told("relay", "status")
    assert status["agents"][0]["reconnects"] == status["agents"][0]["bad_envelopes"] == 0
    assert status["urls"] == [urlsplit(there.url("demo"))._replace(path="").geturl()]


async def test_every_transport_at_a_port_of_a_client_of_ours(there: Place) -> None:
    async with calling(there) as command:
        url = await command.printed("http://127.0.0.1")
        base = url.removesuffix("/mcp")
        assert urlsplit(url).path == f"/{AGENT}/demo/mcp"
        for transport, path in (("http", "/mcp"), ("sse", "/sse"), ("ws", "/ws")):
            address = base + path if transport != "ws" else base.replace("http", "ws", 1) + path
            async with connected("typescript-1", address, transport=transport) as (client, _):
                await everything_crosses(client)
        async with ws_client(urlsplit(url).port or 0, path=f"/{AGENT}/demo/ws") as socket:
            await a_websocket_works(socket)
        [told] = (await there.told("relay", "status"))["clients"]
        assert (told["name"], told["state"], told["bad_envelopes"]) == ("phone", "connected", 0)
        # It keeps its session, and finds the relay again by itself.
        async with McpClient(urlsplit(url).port or 0, path=f"/{AGENT}/demo/mcp") as client:
            await client.initialize()
            pid = json.loads(await client.text("counter"))["pid"]
            await there.done("relay", "restart")
            assert json.loads(await client.text("counter"))["pid"] == pid
    async with within():
        while (await there.told("relay", "status"))["clients"]:
            pass


async def test_the_older_transport_names_the_address_by_which_it_was_asked(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}) as there, there.caller("demo") as client:
        client.path = f"/{AGENT}/demo/sse"
        stream = await client.stream()
        event = await stream.event()
        assert event is not None and event.event == "endpoint"
        assert event.data.startswith(f"/{AGENT}/demo/messages?"), event
        client.path = event.data
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        assert (await client.raw("POST", client.request("initialize", params))).status == 202
        assert (await stream.message())["result"]["protocolVersion"] == "2024-11-05"
        stream.reset()
        daemon = (await there.workstation.told("daemon", "status"))["port"]
        async with McpClient(daemon, path="/demo/sse") as local:
            stream = await local.stream()
            event = await stream.event()
            assert event is not None and event.data.startswith("/demo/messages?"), "and here as ever"
            stream.reset()


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, where=Where(has_tls=True), connect=False) as there:
        status, out, err = await there.run("connect", there.address, MOORING_RELAY_TOKEN=there.laptop)
        assert status == 1 and not out and "certificate" in err and "--ca-file" in err, err
        assert there.laptop not in err
        assert not (await there.told("relay", "status"))["agents"]
        await there.connect()
        await until(lambda: there.agent.words)
        assert there.agent.words == [there.url("demo")]
