"""`mooring run NAME --url`, as a user and the SDKs' clients have it, in front of real servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import parts
from tests.e2e.client import RemoteError, connected
from tests.e2e.mooring import LINUX_ONLY, running_mooring
from tests.e2e.program import Program
from tests.e2e.serving import fixture_over_http
from tests.e2e.test_daemon_command import Home, home
from tests.hosting import DEMO
from tests.mcp_client import client_of
from tests.support import free_port, until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]


@asynccontextmanager
async def everything(port: int, transport: str = "streamableHttp") -> AsyncIterator[str]:
    """The reference server over HTTP; its URL."""
    parts.require("npm", "node")
    environment = {**parts.node_environment(), "PORT": str(port)}
    argv = [*parts.npm_command("mcp-server-everything"), transport]
    async with Program(argv, listen_to="stderr", environment=environment):
        await until(lambda: _listens(port), 60)
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"


def _listens(port: int) -> bool:
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    return any(
        words[1].endswith(f":{port:04X}") and words[3] == "0A"
        for words in (line.split() for line in listening.splitlines()[1:])
        if len(words) > 3
    )


@asynccontextmanager
async def demo_over_http(port: int = 0) -> AsyncIterator[str]:
    """A server of the handshake era: the demo, behind a Mooring of its own."""
    async with running_mooring("--port", str(port), server=list(DEMO), name="upstream") as upstream:
        yield upstream.url


async def becomes(place: Home, reason: str) -> dict[str, Any]:
    async with within(60):
        while True:
            found: dict[str, Any] = await place.told("status", "far")
            if found["reason"] == reason:
                return found
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("client_name", ["python-1", "python-2", "typescript-1"])
async def test_clients_of_the_sdks_use_one_that_is_elsewhere(client_name: str) -> None:
    async with (
        fixture_over_http() as url,
        running_mooring(server=url) as mooring,
        connected(client_name, mooring.url) as (client, _),
    ):
        assert "test_simple_text" in await client.do("list_tools")
        assert (await client.call("test_simple_text"))["content"]


async def test_the_reference_server_is_restarted_under_a_session() -> None:
    async with AsyncExitStack() as all:
        port = free_port()
        async with everything(port) as url:
            mooring = await all.enter_async_context(running_mooring(server=url))
            client, _ = await all.enter_async_context(connected("python-2", mooring.url))
            assert "get-sum" in await client.do("list_tools")
            assert "is 5" in (await client.call("get-sum", a=2, b=3))["content"][0]["text"]
        with pytest.raises(RemoteError) as refused:
            await client.call("echo", message="is anybody there?")
        assert refused.value.data["reason"] in ("unreachable", "connection_lost")
        async with everything(port):
            await mooring.logged("reachable")
            assert "is 7" in (await client.call("get-sum", a=3, b=4))["content"][0]["text"]


async def test_it_is_named_shown_exported_and_kept_by_the_daemon(tmp_path: Path) -> None:
    async with demo_over_http() as upstream, home(tmp_path) as place:
        url = (await place.done("run", "far", "--url", upstream)).strip()
        port = int(url.split(":")[2].split("/")[0])
        place.environment["MOORING_PORT"] = str(port)
        server = await place.told("status", "far")
        assert (server["state"], server["address"], server["command"]) == ("ready", upstream, [])
        assert f"server:      {upstream}" in await place.done("status", "far")
        assert await place.done("call", "far", "echo", "text=hi") == "hi\n"
        async with client_of(port, path="/far/mcp") as client:
            assert await client.text("echo", text="hi") == "hi"
            [instance] = (await place.told("status", "far"))["instances"]
            assert instance["pid"] is None and client.session.startswith(instance["session"])
            await place.done("daemon", "restart")
            assert await client.text("echo", text="again") == "again"
            await place.done("restart", "far")
            assert await client.text("echo", text="and again") == "and again"
        exported = await place.done("export", "far")
        assert f'url = "{upstream}"' in exported
        (tmp_path / "mooring.toml").write_text(exported)
        planned = await place.done("up", "-f", str(tmp_path / "mooring.toml"), "--adopt", "--dry-run")
        assert "change" not in planned and "add" not in planned, planned
        await place.done("rm", "far")
        assert await place.told("ls") == []


async def test_one_that_is_down_is_said_to_be_and_is_found_again(tmp_path: Path) -> None:
    port = free_port()
    async with home(tmp_path) as place:
        async with demo_over_http(port) as upstream:
            await place.done("run", "far", "--url", upstream)
        status, _, err = await place.mooring("call", "far", "echo", "text=hi")
        assert status == 1 and "cannot be reached" in err, err
        assert (await becomes(place, "unreachable"))["state"] == "starting"
        assert "(unreachable)" in await place.done("ls")
        async with demo_over_http(port):
            await becomes(place, "idle")
            assert await place.done("call", "far", "echo", "text=back") == "back\n"


URL, TOKEN = "http://127.0.0.1:9/mcp", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--url", URL, "--header", f"Authorization: Bearer {TOKEN}"],
            "mooring secret set far-authorization",
        ),
        (["--url", URL, "--header", f"X-A: {TOKEN}"], "mooring secret set far-x-a"),
        (["--url", f"{URL}?api_key={TOKEN}"], "--url literal:URL"),
    ],
)
async def test_a_secret_is_not_taken_from_the_command_line(
    tmp_path: Path, words: list[str], told: str
) -> None:
    async with home(tmp_path) as place:
        status, out, err = await place.mooring("run", "far", *words)
        assert status == 2 and told in " ".join(err.split()), err
        assert "0123456789" not in out + err


async def test_what_only_looks_like_a_secret_is_taken(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        meant = ("--url", f"literal:{URL}?api_key={TOKEN}", "--header", f"X-A: literal:{TOKEN}")
        await place.done("run", "far", "--no-wait", *meant)
        assert (await place.told("status", "far"))["address"] == URL


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--url", "127.0.0.1:9/mcp"], "write: http://127.0.0.1:9/mcp"),
        (["--url", "http://u:p@127.0.0.1/mcp"], "user name or a password"),
        (["--url", "http://127.0.0.1:9/mcp", "--image", "x"], "takes the place of --image"),
        (["--url", "http://127.0.0.1:9/mcp", "--", "x"], "takes the place of a command"),
        (["--url", "http://127.0.0.1:9/mcp", "--env", "A=b"], "means nothing to a server elsewhere"),
        (["--header", "A: b", "--", "x"], "works only with --url"),
        (["--url", "http://127.0.0.1:9/mcp", "--header", "Host: b"], "Mooring itself has to set"),
    ],
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, words: list[str], told: str) -> None:
    async with home(tmp_path) as place:
        status, _, err = await place.mooring("run", "far", *words)
        assert status == 2 and told in " ".join(err.split()), err


@pytest.mark.parametrize("said", ["auto", "sse"])
async def test_a_server_of_the_older_transport_is_found_and_used(said: str) -> None:
    port = free_port()
    async with (
        everything(port, "sse") as url,
        running_mooring("--transport", said, server=url) as mooring,
        connected("python-2", mooring.url) as (client, connection),
    ):
        assert connection["version"] == "2025-11-25"
        assert "is 5" in (await client.call("get-sum", a=2, b=3))["content"][0]["text"]


async def test_a_client_without_handshakes_uses_a_server_of_the_older_transport() -> None:
    port = free_port()
    async with (
        everything(port, "sse") as url,
        running_mooring(server=url) as mooring,
        connected("python-2", mooring.url, mode="2026-07-28") as (client, connection),
    ):
        assert connection["version"] == "2026-07-28"
        assert "is 5" in (await client.call("get-sum", a=2, b=3))["content"][0]["text"]
