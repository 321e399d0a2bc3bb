"""Real clients: everything crosses, and a session outlives its server.

Each client is tried against the fixture's own HTTP transport first (the control, so that a failure through
Mooring is Mooring's), then through Mooring in front of the demo server, on both transports.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests import parts
from tests.e2e.client import CLIENTS, Client, RemoteError, connected
from tests.e2e.mooring import DEMO, LINUX_ONLY, Mooring, running_mooring
from tests.e2e.program import ROOT, Json, Program, kill
from tests.e2e.serving import FIXTURE, fixture_over_http
from tests.support import until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

MODERN = "2026-07-28"
HANDSHAKE = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}
LONG_S = 600
WAYS = [*product(CLIENTS, ("http", "sse")), ("typescript-1", "ws")]
"""The SDK for Python has no WebSocket any more."""


class Tap:
    """What arrived at the servers, by `tap.py`: one file for each of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _records(self) -> list[list[Json]]:
        # At b"\n" and nowhere else: JSON may hold what Python takes for the end of a line.
        return [
            [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
            for path in self._folder.iterdir()
        ]

    def lines(self, method: str) -> list[Json]:
        return [
            message for record in self._records() for message in record if message.get("method") == method
        ]

    def call_of(self, tool: str) -> Json:
        """The only call of that tool."""
        (call,) = [call for call in self.lines("tools/call") if call["params"]["name"] == tool]
        return call

    def conversation(self) -> list[str]:
        """The methods that the only server that served calls was given."""
        (record,) = [
            record for record in self._records() if any(line.get("method") == "tools/call" for line in record)
        ]
        return [message["method"] for message in record if "method" in message]


@asynccontextmanager
async def tapped_demo(path: Path) -> AsyncIterator[tuple[Mooring, Tap]]:
    record = path / "record"
    record.mkdir()
    server: list[str | Path] = [sys.executable, ROOT / "tests/e2e/tap.py", record, *DEMO]
    async with running_mooring(server=server) as mooring:
        yield mooring, Tap(record)


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
            # The TypeScript SDK drops the handler at the answer, but runs it later: the last may be lost.
            for step in (1, 2) if kind == "typescript-1" else (1, 2, 3):
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


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", MODERN), (MODERN, MODERN)])
async def test_the_python_client_of_both_eras_at_a_handshake_server(mode: str, version: str) -> None:
    """What the server asks of its client crosses the eras."""
    async with (
        running_mooring(server=DEMO) as mooring,
        connected("python-2", mooring.url, mode=mode) as (client, connection),
    ):
        assert connection["version"] == version
        assert await client.text("echo", text=mode) == mode
        number = await client.start(
            "call", tool="sleep", arguments={"seconds": 0.3, "steps": 3}, progress=True
        )
        assert not (await client.answer(number)).get("isError")
        await client.event("progress", call=number, progress=3, total=3)
        assert "forty-two" in await client.text("ask", message="How many?")
        assert "a model's words" in await client.text("sample", prompt="Say something")
        assert "file:///harbour" in await client.text("roots")


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_handshake_client_at_a_server_of_2026(kind: str) -> None:
    """The other way round: the server answers that it needs input, the client is asked by real requests."""
    python = parts.python_of("sdk-2")
    server: list[str | Path] = [python, ROOT / "tests/e2e/one_revision.py", MODERN, python, FIXTURE]
    async with (
        running_mooring(server=server) as mooring,
        connected(kind, mooring.url) as (client, connection),
    ):
        assert connection["version"] in {None, *HANDSHAKE}
        assert await client.text("test_simple_text") == "This is a simple text response for testing."
        number = await client.start("call", tool="test_tool_with_progress", progress=True)
        assert not (await client.answer(number)).get("isError")
        assert "Hello" in await client.text("test_input_required_result_elicitation")
        await client.event("asked", method="elicitation/create")
        assert "a model's words" in await client.text("test_input_required_result_sampling")
        assert "3 answers" in await client.text("test_input_required_result_multiple_inputs")
        assert "state-ok" in await client.text("test_input_required_result_request_state")
        await client.do("set_level", level="debug")
        await client.text("test_tool_with_logging")
        await client.event("notification", method="notifications/message")
        await client.text("test_trigger_tool_change")
        await client.event("notification", method="notifications/tools/list_changed")
        await client.do("subscribe", uri="test://watched-resource")
        await client.text("touch_watched_resource")
        await client.event("notification", method="notifications/resources/updated")


async def inspect(url: str, *words: str, transport: str, home: Path) -> Any:
    """One run of the Inspector's command line, which writes into its home."""
    parts.require("npm", "node")
    argv = [*parts.npm_command("mcp-inspector"), "--cli", url, "--transport", transport, *words]
    async with Program(argv, environment={**parts.node_environment(), "HOME": str(home)}) as inspector:
        async with within(60):
            status = await inspector.process.wait()
        await inspector.ended()
    assert status == 0, inspector.told()
    (said,) = inspector.messages  # On one line of stdout; advice goes to stderr.
    return said


async def list_and_call(url: str, tool: str, arguments: Json, *, transport: str, home: Path) -> str:
    tools = await inspect(url, "--method", "tools/list", "--format", "json", transport=transport, home=home)
    assert tool in json.dumps(tools)
    words = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
    return json.dumps(await inspect(url, *words, "--format", "json", transport=transport, home=home))


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
        connected("typescript-1", mooring.url) as (three, _),
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
