"""`mooring run NAME --url` in front of servers of one era on Streamable HTTP: the SDKs' clients of either.

The other half of `test_cross_era`, whose servers are on stdio.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests import parts
from tests.e2e.client import connected
from tests.e2e.conformance import examine
from tests.e2e.mooring import LINUX_ONLY, Mooring, running_mooring
from tests.e2e.program import ROOT, Program
from tests.e2e.test_conformance import NEEDS_MODERN_TOOLS, REQUIRED
from tests.e2e.test_cross_era import CLIENTS, HANDSHAKE, MODERN, calls, every_feature
from tests.e2e.test_url_command import everything
from tests.support import free_port, within

pytestmark = [
    LINUX_ONLY,
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

NEEDS_HANDSHAKE_TOOLS = {
    *("tools-call-sampling", "tools-call-elicitation"),
    *("elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
}
"""Scenarios for tools that ask while they run, which a server of 2026-07-28 cannot."""


@asynccontextmanager
async def fixture_of(revision: str) -> AsyncIterator[str]:
    """The fixture on the SDK 2's own transport, of that revision only; its URL."""
    parts.require("sdk-2")
    argv: list[str | Path] = [parts.python_of("sdk-2"), ROOT / "tests/e2e/one_revision_http.py", revision]
    async with Program(argv, environment=parts.node_environment()) as server:
        async with within(60):
            url = await server.word(lambda line: line.startswith("http://"))
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[HANDSHAKE, MODERN])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Mooring]:
    """One Mooring for all clients of a server."""
    async with fixture_of(request.param) as url, running_mooring(server=url) as mooring:
        yield mooring


@pytest.mark.parametrize(("kind", "mode"), CLIENTS)
async def test_every_feature_crosses(served: Mooring, kind: str, mode: str) -> None:
    async with connected(kind, served.url, mode=mode) as (client, connection):
        assert connection["version"] == (HANDSHAKE if mode == "legacy" else MODERN)
        await every_feature(client)
        await calls(client)


@asynccontextmanager
async def sdk_1() -> AsyncIterator[str]:
    """A server of the SDK 1, which knows handshakes only."""
    parts.require("sdk-1")
    port = free_port()
    argv: list[str | Path] = [
        parts.python_of("sdk-1"),
        ROOT / "tests/e2e/sdk_sse_server.py",
        str(port),
        "streamable-http",
    ]
    async with Program(argv, listen_to="none", environment=parts.node_environment()) as server:
        async with within(60):
            await server.word(lambda line: "Uvicorn running" in line)
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("python-1", "legacy"), ("typescript-1", "legacy"), ("python-2", MODERN), ("typescript-2", MODERN)],
)
async def test_a_server_of_the_first_sdk(kind: str, mode: str) -> None:
    async with (
        sdk_1() as url,
        running_mooring(server=url) as mooring,
        connected(kind, mooring.url, mode=mode) as (client, connection),
    ):
        assert connection["version"] == (HANDSHAKE if mode == "legacy" else MODERN)
        assert {"add", "count_to"} <= set(await client.do("list_tools"))
        assert await client.text("add", a=2, b=3) == "5"
        number = await client.start("call", tool="count_to", arguments={"number": 3}, progress=True)
        assert (await client.answer(number))["content"][0]["text"] == "done"
        await client.event("progress", call=number, progress=1, total=3)


@pytest.mark.parametrize("mode", ["legacy", MODERN])
@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_the_reference_server(transport: str, mode: str) -> None:
    async with (
        everything(free_port(), transport) as url,
        running_mooring(server=url) as mooring,
        connected("typescript-2", mooring.url, mode=mode) as (client, connection),
    ):
        assert connection["version"] == (HANDSHAKE if mode == "legacy" else MODERN)
        assert {"get-sum", "echo"} <= set(await client.do("list_tools"))
        assert "is 5" in await client.text("get-sum", a=2, b=3)
        arguments = {"duration": 0.2, "steps": 2}
        number = await client.start(
            "call", tool="trigger-long-running-operation", arguments=arguments, progress=True
        )
        assert not (await client.answer(number)).get("isError")
        await client.event("progress", call=number, progress=1, total=2)


@pytest.mark.parametrize(
    ("revision", "other", "cannot"),
    [(HANDSHAKE, MODERN, NEEDS_MODERN_TOOLS), (MODERN, HANDSHAKE, NEEDS_HANDSHAKE_TOOLS)],
)
async def test_the_suite_passes_but_for_tools_of_the_other_era(
    revision: str, other: str, cannot: set[str], tmp_path: Path
) -> None:
    parts.require("npm", "node")
    async with fixture_of(revision) as url, running_mooring(server=url) as mooring:
        own = await examine(mooring.url, revision, tmp_path / "own")
        crossing = await examine(mooring.url, other, tmp_path / "crossing")
    assert own.passed == len(own.required) == REQUIRED[revision], own.table()
    # One check of `server-stateless` waits 0.6 s for what is slow on a busy machine.
    assert cannot <= set(crossing.failed) <= cannot | {"server-stateless"}, crossing.table()
    assert len(crossing.required) == REQUIRED[other]
