"""Real clients: everything crosses, and a session outlives its server.

Each client is tried against the fixture's own HTTP transport first (the control, so that a failure through
Mooring is Mooring's), then through Mooring in front of the demo server, on both transports.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import CLIENTS, Client, RemoteError, connected
from tests.e2e.inspector import list_and_call
from tests.e2e.mooring import DEMO, LINUX_ONLY, Mooring, running_mooring
from tests.e2e.program import kill
from tests.e2e.serving import fixture_over_http
from tests.e2e.tapping import Tap, tapped_mooring
from tests.support import until

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

MODERN = "2026-07-28"
HANDSHAKE = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
LONG_S = 600
WAYS = [*product(CLIENTS, ("http", "sse")), ("typescript-1", "ws")]
"""The other SDKs have no WebSocket any more."""


@asynccontextmanager
async def tapped_demo(path: Path) -> AsyncIterator[tuple[Mooring, Tap]]:
    async with tapped_mooring(path, server=DEMO) as (mooring, tap):
        yield mooring, tap


async def kill_under_a_call(client: Client, pid: int, **call: Any) -> RemoteError:
    """Kill a process while that call is in flight; how the call failed."""
    number = await client.start("call", progress=True, **call)
    await client.event("progress", call=number)
    kill(pid)
    with pytest.raises(RemoteError) as failure:
        await client.answer(number)
    return failure.value


@pytest.mark.parametrize("kind", CLIENTS)
async def test_control_the_client_works_with_the_fixture_itself(kind: str) -> None:
    async with fixture_over_http() as url, connected(kind, url) as (client, connection):
        assert connection["version"] == "2025-11-25"
        assert "test_simple_text" in await client.do("list_tools")
        assert await client.text("test_simple_text") == "This is a simple text response for testing."

        number = await client.start("call", tool="test_tool_with_progress", progress=True)
        assert not (await client.answer(number)).get("isError")
        for done in (0, 50, 100):
            await client.event("progress", call=number, progress=done, total=100)

        assert "forty-two" in await client.text("test_elicitation", message="How many?")
        await client.event("asked", method="elicitation/create")
        assert await client.text("test_sampling", prompt="Say") == "LLM response: a model's words"
        await client.do("set_level", level="debug")
        await client.text("test_tool_with_logging")
        await client.event("notification", method="notifications/message")
        await client.text("test_trigger_tool_change")
        await client.event("notification", method="notifications/tools/list_changed")
        await client.do("subscribe", uri="test://watched-resource")
        await client.text("touch_watched_resource")
        await client.event("notification", method="notifications/resources/updated")

        number = await client.start("call", tool="test_tool_with_progress", progress=True)
        await client.event("progress", call=number)
        await client.do("cancel", call=number)
        with pytest.raises(RemoteError):
            await client.answer(number)
        assert await client.text("test_simple_text")

        with pytest.raises(RemoteError) as unknown:
            await client.call("no_such_tool")
        assert unknown.value.code == -32602


@pytest.mark.parametrize(("kind", "transport"), WAYS)
class TestThroughMooring:
    async def test_everything_crosses(self, kind: str, transport: str, tmp_path: Path) -> None:
        async with (
            tapped_demo(tmp_path) as (mooring, tap),
            connected(kind, mooring.endpoint(transport), transport=transport) as (client, connection),
        ):
            assert connection["version"] in {None, *HANDSHAKE}
            assert {"echo", "add", "sleep"} <= set(await client.do("list_tools"))
            assert await client.text("echo", text="über 🚢 \u2028 9007199254740993") == (
                "über 🚢 \u2028 9007199254740993"
            )
            assert await client.text("add", a=2, b=3) == "5"

            # Progress, on the stream of its own call
            number = await client.start(
                "call", tool="sleep", arguments={"seconds": 0.3, "steps": 3}, progress=True
            )
            assert not (await client.answer(number)).get("isError")
            # The SDKs for TypeScript drop the handler at the answer, but run it later: the last may be lost.
            for step in (1, 2) if kind.startswith("typescript") else (1, 2, 3):
                await client.event("progress", call=number, progress=step, total=3)

            # Questions to the client, and its answers back
            assert "forty-two" in await client.text("ask", message="How many?")
            asked = await client.event("asked", method="elicitation/create")
            assert asked["params"]["message"] == "How many?"
            assert "a model's words" in await client.text("sample", prompt="Say something")
            assert "file:///harbour" in await client.text("roots")

            # What the server says unasked
            await client.do("set_level", level="debug")
            await client.text("log", level="debug", message="a word")
            await client.matching(
                lambda message: (
                    message.get("method") == "notifications/message" and message["params"]["data"] == "a word"
                )
            )
            await client.text("toggle")
            await client.event("notification", method="notifications/tools/list_changed")
            assert "extra" in await client.do("list_tools")
            await client.do("subscribe", uri="demo://note")
            await client.text("touch", text="changed")
            await client.event("notification", method="notifications/resources/updated")
            assert tap.conversation()[:3] == ["initialize", "notifications/initialized", "tools/list"]

    async def test_a_cancelled_call_is_cancelled_at_the_server(
        self, kind: str, transport: str, tmp_path: Path
    ) -> None:
        async with (
            tapped_demo(tmp_path) as (mooring, tap),
            connected(kind, mooring.endpoint(transport), transport=transport) as (client, _),
        ):
            steps = LONG_S * 10
            number = await client.start(
                "call", tool="sleep", arguments={"seconds": LONG_S, "steps": steps}, progress=True
            )
            await client.event("progress", call=number)
            call = tap.call_of("sleep")
            await client.do("cancel", call=number)
            with pytest.raises(RemoteError):
                await client.answer(number)
            await until(lambda: tap.lines("notifications/cancelled"))
            assert [line["params"]["requestId"] for line in tap.lines("notifications/cancelled")] == [
                call["id"]
            ]
            assert await client.text("echo", text="still here") == "still here"

    async def test_the_session_outlives_its_server(self, kind: str, transport: str) -> None:
        async with (
            running_mooring(server=DEMO) as mooring,
            connected(kind, mooring.endpoint(transport), transport=transport) as (client, _),
        ):
            await client.do("set_level", level="debug")
            await client.do("subscribe", uri="demo://note")
            first = json.loads(await client.text("counter"))
            assert first["count"] == 1
            seen = client.seen

            error = await kill_under_a_call(
                client, first["pid"], tool="sleep", arguments={"seconds": LONG_S, "steps": LONG_S * 10}
            )
            assert error.code == -32603
            assert error.data["reason"] == "server_exited"
            assert "retryable" in error.data
            assert "exit" in error.data

            # The next call on the same session works, at a new server that was told the same things.
            second = json.loads(await client.text("counter"))
            assert second["count"] == 1
            assert second["pid"] != first["pid"]
            await client.event("notification", method="notifications/tools/list_changed", since=seen)
            await client.event("notification", method="notifications/message", since=seen)
            seen = client.seen
            await client.text("touch", text="again")
            await client.event("notification", method="notifications/resources/updated", since=seen)
            seen = client.seen
            await client.text("log", level="debug", message="the level was set again")
            await client.event("notification", method="notifications/message", since=seen)
            assert (await mooring.get("/readyz"))[0] == 200
            # And killed while nothing runs, which no call notices.
            await mooring.kill(second["pid"])
            assert json.loads(await client.text("counter"))["count"] == 1


async def test_control_the_inspector_works_with_the_fixture_itself(tmp_path: Path) -> None:
    async with fixture_over_http() as url:
        said = await list_and_call(url, "test_simple_text", {}, transport="http", home=tmp_path)
        assert "for testing" in said


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_the_inspector_lists_and_calls(transport: str, tmp_path: Path) -> None:
    async with running_mooring(server=DEMO) as mooring:
        url = mooring.endpoint(transport)
        said = await list_and_call(url, "echo", {"text": "ahoy"}, transport=transport, home=tmp_path)
        assert "ahoy" in said


async def test_clients_do_not_disturb_each_other() -> None:
    """Three SDKs at once, each with a server of its own; when one server is killed, the others go on."""
    async with (
        running_mooring(server=DEMO) as mooring,
        connected("python-1", mooring.url) as (one, _),
        connected("python-2", mooring.url) as (two, _),
        connected("typescript-2", mooring.url) as (three, _),
    ):
        pids = {json.loads(await client.text("counter"))["pid"] for client in (one, two, three)}
        assert len(pids) == 3
        number = await two.start("call", tool="sleep", arguments={"seconds": 0.5, "steps": 5}, progress=True)
        await two.event("progress", call=number)
        victim = json.loads(await one.text("counter"))
        await mooring.kill(victim["pid"])
        assert not (await two.answer(number)).get("isError")
        assert json.loads(await three.text("counter"))["count"] == 2
        assert json.loads(await one.text("counter"))["count"] == 1
