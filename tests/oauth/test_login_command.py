"""`mooring login` as a user has it: a server that asks for one, a browser, and calls that go on for days."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.faults.test_remote_server import CALL, Elsewhere
from tests.hosting import DEMO
from tests.mcp_client import client_of
from tests.oauth.authority import Authority
from tests.oauth.browser import Browser
from tests.oauth.resource import Protected
from tests.raw_server import Asked, Wire
from tests.support import within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]


class ProtectedServer(Protected):
    """Speaks MCP to whoever has a good token."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(authority)
        self._script = Elsewhere()

    async def _answer(self, asked: Asked, wire: Wire) -> bytes:
        said = await super()._answer(asked, wire)
        if asked.target != "/mcp" or not said.startswith(b"HTTP/1.1 200"):
            return said
        return await self._script(asked, wire) or b""


async def log_in(place: Home, *words: str) -> tuple[int, str, str]:
    """Open what it shows, as a person would; its exit status, and what it said on stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        MOORING,
        *("login", *words),
        env=place.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    async with within(60):
        told = (await process.stderr.readline()).decode()
        found = re.search(r"http://\S+", told)
        if found is not None:
            await Browser().log_in(found[0])
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), told + err.decode()


async def test_a_login_makes_a_server_work_and_is_renewed(authority: Authority, tmp_path: Path) -> None:
    async with ProtectedServer(authority).serving() as server, home(tmp_path) as place:
        status, _, err = await place.mooring("run", "far", "--url", server.url)
        assert status == 1 and "mooring login far" in err, err
        seen = await place.told("status", "far")
        assert (seen["state"], seen["reason"]) == ("failed", "unauthorized")

        status, out, err = await log_in(place, "far")
        assert status == 0, err
        assert out.splitlines()[0].startswith(f"logged in to far, by {authority.issuer}"), out
        assert (await place.told("status", "far"))["state"] == "ready"
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/far/mcp") as client:
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            first = server.seen[-1]
            await authority.control("revoke", first)
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            assert server.seen[-1] != first and await authority.refreshes() == 1
            await place.done("daemon", "restart")
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
        said = "".join(path.read_text() for path in (tmp_path / "state").rglob("*.log"))
        assert said and not any(token in said for token in server.seen)

        assert "logged out of far; its tokens are revoked" in await place.done("logout", "far")
        assert "nobody was logged in" in await place.done("logout", "far")
        status, _, err = await place.mooring("call", "far", "x")
        assert status == 1 and "401" in err, err


async def test_one_that_refuses_in_words_of_json_rpc_can_be_logged_in_to(
    authority: Authority, tmp_path: Path
) -> None:
    async with ProtectedServer(authority).serving() as server, home(tmp_path) as place:
        server.words = b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Unauthorized"},"id":null}'
        status, _, err = await place.mooring("run", "far", "--url", server.url)
        assert status == 1 and "mooring login far" in err, err
        status, _, err = await log_in(place, "far")
        assert status == 0, err
        assert (await place.told("status", "far"))["state"] == "ready"


async def test_uninstalling_logs_out(authority: Authority, tmp_path: Path) -> None:
    async with ProtectedServer(authority).serving() as server, home(tmp_path) as place:
        await place.mooring("run", "far", "--url", server.url)
        status, _, err = await log_in(place, "far")
        assert status == 0, err
        token = server.seen[-1]
        assert await authority.control("token", token) is not None
        out = await place.done("uninstall", "--yes")
        assert f"log out of 1 server elsewhere: {server.url}" in out
        assert await authority.control("token", token) is None
        assert not (tmp_path / "state").exists()


async def test_what_cannot_be_logged_in_to_is_said(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "here", "--", *DEMO)
        status, _, err = await place.mooring("login", "here")
        assert status == 2 and "here runs here, and asks nobody to log in" in err, err
        status, _, err = await place.mooring("login", "nobody")
        assert status == 2 and "there is no server nobody" in err, err
        status, _, err = await place.mooring(
            "login", "http://127.0.0.1:9/mcp", "--client-id", "me", "--client-secret", "hunter2"
        )
        assert status == 2 and "secret set" in err and "hunter2" not in err
