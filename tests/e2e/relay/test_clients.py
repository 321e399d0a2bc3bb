"""The SDKs' clients through relay and agent, at real servers; and whose a session is."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests import parts
from tests.e2e.client import Client, RemoteError, connected
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.program import ROOT
from tests.e2e.relay.place import Place, Servers, bearer, place
from tests.e2e.serving import FIXTURE
from tests.e2e.tapping import Tap
from tests.e2e.test_cross_era import calls, cancellation, every_feature
from tests.hosting import DEMO, SCRIPTED
from tests.mcp_client import McpClient
from tests.support import within

pytestmark = [
    LINUX_ONLY,
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
CLIENTS = [
    ("python-1", "legacy"),
    ("python-2", "legacy"),
    ("python-2", MODERN),
    ("typescript-1", "legacy"),
    ("typescript-2", MODERN),
]
LARGE_BYTES = 3_000_000


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is written down what arrives at the server of the Python SDK."""
    return tmp_path_factory.mktemp("record")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(tmp_path_factory: pytest.TempPathFactory, record: Path) -> AsyncIterator[Place]:
    """One for all: clients come one after the other, of either era."""
    parts.require("npm", "node", "sdk-1", "sdk-2", "typescript-2")
    python = parts.python_of("sdk-2")
    servers: Servers = {
        "everything": [*parts.npm_command("mcp-server-everything"), "stdio"],
        "sdk": [python, ROOT / "tests/e2e/tap.py", record, python, FIXTURE],
        "demo": DEMO,
        "scripted": SCRIPTED,
    }
    async with place(tmp_path_factory.mktemp("there"), servers) as made:
        yield made


@pytest.mark.parametrize(("kind", "mode"), CLIENTS)
async def test_every_feature_of_a_server_of_the_python_sdk(
    there: Place, record: Path, kind: str, mode: str
) -> None:
    headers, tap = bearer(there.phone), Tap(record)
    async with connected(kind, there.url("sdk"), mode=mode, headers=headers) as (client, connection):
        assert connection["version"] == (HANDSHAKE if mode == "legacy" else MODERN)
        await every_feature(client)
        await cancellation(client, tap, f"{kind} {mode}")
        await calls(client)


@pytest.mark.parametrize("kind", ["python-1", "typescript-1"])
async def test_the_reference_server(there: Place, kind: str) -> None:
    headers = bearer(there.phone)
    async with connected(kind, there.url("everything"), headers=headers) as (client, _):
        assert {"echo", "get-sum"} <= set(await client.do("list_tools"))
        assert "is 5" in await client.text("get-sum", a=2, b=3)
        arguments = {"duration": 0.5, "steps": 5}
        number = await client.start(
            "call", tool="trigger-long-running-operation", arguments=arguments, progress=True
        )
        assert not (await client.answer(number)).get("isError")
        for step in (1, 2, 3, 4):
            await client.event("progress", call=number, progress=step, total=5)
        assert "a model's words" in json.dumps(
            await client.call("trigger-sampling-request", prompt="Say", maxTokens=10)
        )
        await client.event("asked", method="sampling/createMessage")
        assert "forty-two" in json.dumps(await client.call("trigger-elicitation-request"))
        assert "file:///harbour" in json.dumps(await client.call("get-roots-list"))


@pytest.mark.parametrize("kind", ["python-1", "python-2", "typescript-1"])
async def test_large_results(there: Place, kind: str) -> None:
    async with connected(kind, there.url("demo"), headers=bearer(there.phone)) as (client, _):
        assert len(await client.text("big", bytes=LARGE_BYTES)) == LARGE_BYTES
        text = "x" * LARGE_BYTES
        assert await client.text("echo", text=text) == text


async def counted(client: Client) -> tuple[int, int]:
    told = json.loads(await client.text("counter"))
    return told["count"], told["pid"]


@pytest.mark.parametrize("kind", ["python-1", "python-2", "typescript-1"])
async def test_a_session_goes_on_while_the_relay_is_restarted(there: Place, kind: str) -> None:
    """The client finds its way back by itself; what came for it meanwhile it gets on the resumed stream."""
    async with connected(kind, there.url("demo"), headers=bearer(there.phone)) as (client, _):
        await client.do("subscribe", uri="demo://note")
        count, pid = await counted(client)
        await client.text("touch", text="before")
        await client.event("notification", method="notifications/resources/updated")
        seen = client.seen
        assert "has restarted" in await there.done("relay", "restart")
        assert await counted(client) == (count + 1, pid)
        await client.text("touch", text="after")
        await client.event("notification", method="notifications/resources/updated", since=seen)


async def test_a_stream_that_was_cut_is_resumed_by_its_last_event(there: Place) -> None:
    async with there.caller("demo") as client:
        await client.initialize()
        params = {
            "name": "sleep",
            "arguments": {"seconds": 1.5, "steps": 15},
            "_meta": {"progressToken": "p"},
        }
        stream = await client.stream("POST", client.request("tools/call", params, id="long"))
        steps: list[int] = []
        last = ""
        while len(steps) < 3:
            event = await stream.event()
            assert event is not None
            last = event.id or last
            if event.data:
                steps.append(json.loads(event.data)["params"]["progress"])
        stream.reset()
        resumed = await client.stream("GET", Last_Event_ID=last)
        messages = [await resumed.message()]
        while messages[-1].get("id") != "long":
            messages.append(await resumed.message())
        resumed.reset()
        steps += [message["params"]["progress"] for message in messages[:-1]]
        assert steps == list(range(1, 16)) and "result" in messages[-1]


async def status_of(client: McpClient, **headers: str) -> int:
    return (await client.raw("POST", client.request("tools/list"), **headers)).status


async def test_nobody_uses_the_session_of_another_caller(there: Place) -> None:
    tablet = await there.token("tablet", "--call", "laptop/demo")
    daemon = await there.workstation.told("daemon", "status")
    async with (
        there.caller("demo") as phone,
        there.caller("demo", tablet) as other,
        McpClient(daemon["port"], path="/demo/mcp") as local,
    ):
        await phone.initialize()
        async with within():
            while await status_of(other) == 401:  # until the relay has heard of the token
                await there.told("relay", "status")
        other.session = local.session = phone.session
        assert await status_of(phone) == 200
        assert await status_of(other) == 404
        assert await status_of(other, Mooring_Caller="phone") == 404, (
            "what the caller says of itself is left out"
        )
        assert (await other.raw("DELETE")).status == 404
        # Whoever is on the same machine as the servers is not the caller either, nor can it say so.
        assert await status_of(local) == 404
        assert await status_of(local, Mooring_Caller="phone") == 403
        assert await status_of(local, Mooring_Caller="phone", Mooring_Proof="x") == 403
        assert await status_of(phone) == 200
        other.session = ""
        await other.initialize()
        assert await status_of(other) == 200 and other.session != phone.session
        assert (await other.raw("DELETE")).status == 204
        assert await status_of(other) == 404


async def test_an_error_of_a_server_is_the_servers_own(there: Place) -> None:
    async with connected("python-2", there.url("demo"), headers=bearer(there.phone)) as (client, _):
        with pytest.raises(RemoteError) as unknown:
            await client.call("no_such_tool")
        assert unknown.value.code == -32602
        count, pid = await counted(client)
        with pytest.raises(RemoteError) as crashed:
            await client.call("crash", code=3)
        assert crashed.value.data["reason"] == "server_exited"
        assert await counted(client) != (count + 1, pid)
