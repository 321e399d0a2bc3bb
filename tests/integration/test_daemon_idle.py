"""Servers that nobody uses have no process, but one guardian for all; with the next call they are there."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from mooring.proxy.policy import SessionPolicy
from mooring.workloads.definition import ServerOptions, dump_options
from tests.hosting import ENVIRONMENT, SHORT
from tests.integration.test_daemon import Life, living
from tests.integration.test_eras import HANDSHAKE, MODERN, ModernClient
from tests.mcp_client import McpClient, client_of
from tests.support import alive, children, until, within

SOON = SessionPolicy(idle_timeout_s=0.3)


async def run(life: Life, name: str, argv: tuple[str, ...], sessions: SessionPolicy) -> None:
    options = ServerOptions(name=name, argv=argv, env=ENVIRONMENT, patience=SHORT, sessions=sessions)
    body = {"options": msgspec.json.decode(dump_options(options)), "replace": False}
    await life.ask("PUT", f"/servers/{name}", body)


async def idle(life: Life, name: str) -> None:
    """Wait until the server is ready and has no process."""
    async with within():
        while True:
            server = await life.ask("GET", f"/servers/{name}")
            if server["state"] == "ready" and not server["instances"]:
                return
            await asyncio.sleep(0.02)


async def port_of(life: Life) -> int:
    return int((await life.ask("GET", "/daemon"))["port"])


async def test_idle_servers_share_one_guardian_and_have_no_process(tmp_path: Path) -> None:
    before = children()
    async with living(tmp_path) as life:
        for n in range(5):
            await run(life, f"server-{n}", HANDSHAKE, SOON)
        for n in range(5):
            await idle(life, f"server-{n}")
        [guardian] = children() - before
        port = await port_of(life)
        async with client_of(port, path="/server-1/mcp") as one, client_of(port, path="/server-2/mcp") as two:
            assert await one.call("echo") and await two.call("echo")
            assert len(children() - before) >= 3
        for n in (1, 2):
            await idle(life, f"server-{n}")
        assert children() - before == {guardian}
        await life.ask("DELETE", "/servers/server-1")
        assert alive(guardian), "it is nobody's alone"
    assert children() <= before


@pytest.mark.parametrize(
    ("server", "client_kind", "shared"),
    [
        (HANDSHAKE, "handshake", 0),
        (HANDSHAKE, "modern", 0),
        (HANDSHAKE, "handshake", 1),
        (MODERN, "handshake", 0),
        (MODERN, "modern", 0),
    ],
    ids=["session", "modern-client", "shared", "modern-server", "both-modern"],
)
async def test_whoever_used_it_its_processes_end_and_come_back_with_the_next_call(
    tmp_path: Path, server: tuple[str, ...], client_kind: str, shared: int
) -> None:
    before = children()
    async with living(tmp_path) as life:
        await run(life, "one", server, SessionPolicy(idle_timeout_s=0.3, shared=shared))
        async with (ModernClient if client_kind == "modern" else McpClient)(await port_of(life)) as client:
            client.path = "/one/mcp"
            if client_kind == "handshake":
                await client.initialize()
            for _ in range(2):
                assert "result" in await client.ask("tools/call", {"name": "echo", "arguments": {}})
                await idle(life, "one")
                await until(lambda: len(children() - before) == 1)
