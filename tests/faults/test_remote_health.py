"""A server elsewhere that hangs: its sessions are opened anew, and nothing of it is counted as an exit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import pytest

from mooring.remote.options import RemoteOptions
from mooring.workloads import obstacles, workload
from tests.faults.test_remote_renewal import state_of
from tests.faults.test_remote_server import CALL, Elsewhere
from tests.hosting import Host, hosting
from tests.integration.test_eras import ModernClient
from tests.integration.test_sharing import readyz
from tests.mcp_client import McpClient, client_of
from tests.modern_script import ModernScript
from tests.raw_server import Asked, RawServer, Wire, answer, raw_server
from tests.support import until, within

TOOL = {"name": "look", "arguments": {}}
QUICK: dict[str, Any] = {"ping_interval_s": 0.05, "ping_timeout_s": 0.3, "handshake_timeout_s": 0.5}


class Mute(Elsewhere):
    """Takes what is said, and answers nothing, for a while."""

    is_mute = False

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        if not self.is_mute:
            return await super().__call__(asked, wire)
        await wire.closed_by_peer()
        return None


class Moody:
    """A server of 2026-07-28 that answers, is mute, or refuses everything with some status."""

    def __init__(self, status: str = "") -> None:
        self.is_mute = False
        self.status = status
        self.script = ModernScript(self._special)

    async def _special(self, asked: Asked, wire: Wire) -> bytes | None:
        if self.is_mute:
            await wire.closed_by_peer()
            return None
        return answer(status=self.status) if self.status else b""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in trouble is looked at again soon, and kept from nobody."""
    monkeypatch.setattr(obstacles, "TROUBLE_AGAIN_S", 0.2)
    monkeypatch.setattr(obstacles, "TROUBLE_S", 0.0)


@asynccontextmanager
async def in_front(
    script: Any, transport: Literal["auto", "http"] = "auto", **options: Any
) -> AsyncIterator[tuple[RawServer, Host]]:
    async with (
        raw_server(script) as server,
        hosting(remote=RemoteOptions(url=server.url, transport=transport), **QUICK, **options) as host,
    ):
        yield server, host


def uncounted(host: Host) -> bool:
    states = {vars(record)["state"] for record in host.events("state")}
    return not states & {"backoff", "failed"} and not any(vars(r)["restarts"] for r in host.events("state"))


async def test_a_session_whose_server_is_silent_twice_is_opened_anew() -> None:
    async def deaf(asked: Asked, wire: Wire) -> bytes | None:
        if asked.headers["mcp-session-id"] != forgotten:
            return b""
        await wire.closed_by_peer()
        return None

    script = Elsewhere()
    async with in_front(script) as (server, host), client_of(host.port) as client:
        assert "n" in await client.result(CALL, TOOL)
        [called] = await server.count(1, CALL)
        forgotten, sessions = called.headers["mcp-session-id"], script.sessions
        ours, script.special = client.session, deaf
        assert "did not answer 2 pings" in (await host.logged("server_given_up")).getMessage()
        assert "n" in await client.result(CALL, TOOL)
        assert client.session == ours and script.sessions == sessions + 1
        assert uncounted(host)


async def test_one_that_hangs_is_found_when_it_speaks_again_and_is_never_held_to_crash() -> None:
    script = Mute()
    async with in_front(script, recovery_wait_s=0.3) as (_, host), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(host.port)) for _ in range(5)]
        for client in clients:
            assert "n" in await client.result(CALL, TOOL)
        script.is_mute = True
        await host.logged("server_given_up", len(clients))
        await host.logged("unreachable")
        refused = await clients[0].ask(CALL, TOOL)
        assert refused["error"]["data"]["reason"] in ("unreachable", "server_unavailable")
        seen = await readyz(host)
        assert (seen["state"], seen["reason"]) == ("starting", "unreachable"), seen
        assert uncounted(host)
        script.is_mute = False
        for client in clients:
            ours = client.session
            await until_served(client)
            assert client.session == ours
        assert uncounted(host) and (await readyz(host))["state"] == "ready"


async def until_served(client: McpClient) -> None:
    """For a moment after trouble nobody else is let run into it."""
    async with within():
        while "result" not in await client.ask(CALL, TOOL):
            pass


@pytest.mark.parametrize("is_mute_for_ever", [False, True])
async def test_one_of_2026_07_28_is_asked_what_it_knows(is_mute_for_ever: bool) -> None:
    is_mute = False

    async def special(asked: Asked, wire: Wire) -> bytes | None:
        if not is_mute:
            return b""
        await wire.closed_by_peer()
        return None

    async with in_front(ModernScript(special)) as (server, host), ModernClient(host.port) as client:
        assert (await client.tool("look"))["content"] == []
        before = len(await server.count(1, "server/discover"))
        await server.count(before + 2, "server/discover")
        assert not host.events("server_given_up")
        is_mute = True
        assert "did not answer 2 pings" in (await host.logged("server_given_up")).getMessage()
        if is_mute_for_ever:
            await host.logged("unreachable")
            assert (await readyz(host))["state"] == "starting"
        is_mute = False
        await until_served(client)
        assert uncounted(host)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("401 Unauthorized", ("failed", "unauthorized")),
        ("404 Not Found", ("failed", "not_mcp")),
        ("502 Bad Gateway", ("starting", "unreachable")),
    ],
)
async def test_one_of_2026_07_28_works_again_when_it_answers_and_not_when_it_is_answered_for(
    quick: None, status: str, state: tuple[str, str]
) -> None:
    moody = Moody()
    async with in_front(moody.script) as (server, host), ModernClient(host.port) as client:
        assert (await client.tool("look"))["content"] == []
        asked, seen = await fall_silent_and_say(status, moody, server, host)
        await until(lambda: len(server.requests) > asked and state_of(host) == state)
        assert {vars(record)["state"] for record in host.events("state")[seen:]} <= {"starting", state[0]}


async def fall_silent_and_say(status: str, moody: Moody, server: RawServer, host: Host) -> tuple[int, int]:
    """And nothing else from then on; returns how much was asked and told before that."""
    moody.is_mute = True
    await host.logged("unreachable")
    moody.is_mute, moody.status = False, status
    return len(server.requests), len(host.events("state"))


async def test_and_its_callers_are_told_so_and_do_not_make_it_ready(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "REFUSED_AGAIN_S", 2.0)
    moody = Moody()
    async with in_front(moody.script) as (server, host), ModernClient(host.port) as client:
        assert (await client.tool("look"))["content"] == []
        _, seen = await fall_silent_and_say("401 Unauthorized", moody, server, host)
        await until(lambda: state_of(host) == ("failed", "unauthorized"))
        asked = len(server.requests)
        for _ in range(3):
            refused = (await client.ask(CALL, TOOL))["error"]
            assert refused["data"] == {"reason": "unauthorized", "retryable": True}, refused
            assert state_of(host) == ("failed", "unauthorized")
        assert len(server.requests) == asked + 1, "the first was an attempt, the others were held off"
        states = host.events("state")
        assert "ready" not in {vars(record)["state"] for record in states[seen:]}
        assert "(mooring login test)" in states[-1].getMessage()
        moody.status = ""
        await until_served(client)
        assert state_of(host)[0] == "ready"


async def test_who_goes_while_it_is_asked_leaves_nothing_behind(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstacles, "TROUBLE_AGAIN_S", 60.0)
    moody = Moody()
    async with in_front(moody.script) as (server, host):
        async with client_of(host.port) as client:
            assert "result" in await client.ask(CALL, TOOL)
            moody.is_mute = True
            await host.logged("unreachable")
            asked = len(server.requests)
            calling = asyncio.create_task(client.ask(CALL, TOOL))
            await until(lambda: len(server.requests) > asked)
            async with McpClient(host.port) as other:
                other.session = client.session
                assert (await other.raw("DELETE")).status == 204
            assert "error" in await calling
        async with within():
            while (await readyz(host))["instances"]:
                pass


async def test_one_that_showed_its_era_late_is_not_asked_without_end(quick: None) -> None:
    moody = Moody("503 Service Unavailable")
    async with in_front(moody.script, "http") as (server, host), ModernClient(host.port) as client:
        await host.logged("http_503")
        moody.status = ""
        await until(lambda: state_of(host)[0] == "ready")
        assert (await client.tool("look"))["content"] == []
        await fall_silent_and_say("", moody, server, host)
        await until(lambda: state_of(host)[0] == "ready")
        asked = len(server.requests)
        await asyncio.sleep(0.2)
        assert len(server.requests) <= asked + 10
        await until_served(client)
