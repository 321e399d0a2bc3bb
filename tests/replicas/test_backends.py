"""Sessions of a server elsewhere: whose they are there, and which of them have a place here."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from mooring.remote.options import RemoteOptions
from tests.e2e.replicas.conftest import ledger
from tests.faults.test_remote_server import CALL, Elsewhere
from tests.hosting import hosting
from tests.integration.test_sharing import readyz
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.raw_server import raw_server
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.replicas.test_releasing import HELLO, knows_another
from tests.support import until, within

__all__ = ["ledger", "server"]

TOOL = {"name": "x", "arguments": {}}


async def test_a_session_there_is_shown_to_no_other_server(server: Server) -> None:
    """After a change of `--url`, replica by replica: whoever has the name of a session may use it."""
    another = Elsewhere()
    another.sessions = 100  # so that its own have other names
    async with (
        raw_server(Elsewhere()) as before,
        raw_server(another) as after,
        opened(server.port) as store,
        replica(server, remote=RemoteOptions(url=after.url)) as new,
        replica(server, remote=RemoteOptions(url=f"{before.url}?token=canary")) as old,
        McpClient(old.port) as client,
    ):
        await knows_another(old)
        await client.initialize()
        place = await store.find(client.session)
        assert place is not None
        assert (place.record.backend, bool(place.record.upstream)) == (before.url, True)
        assert await old.end() == 0
        client.port = new.port
        async with within():
            assert "n" in await client.result(CALL, TOOL)
        shown = {asked.headers.get("mcp-session-id") for asked in after.requests}
        assert place.record.upstream not in shown
        async with within():
            while (found := await store.find(client.session)) and found.record.backend != after.url:
                await asyncio.sleep(0.02)
        assert found is not None
        assert found.record.upstream in {asked.headers.get("mcp-session-id") for asked in after.requests}


async def test_a_session_that_ends_as_it_is_taken_over_ends_there_too(server: Server, ledger: Ledger) -> None:
    async with (
        hosting(ledger.command) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as heir,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as owner,
        McpClient(owner.port) as client,
        within(),
    ):
        await knows_another(owner)
        await client.initialize()
        assert await owner.end() == 0
        assert (await readyz(elsewhere))["sessions"] == 1
        client.port = heir.port
        assert (await client.raw("DELETE")).status == 204
        while (await readyz(elsewhere))["sessions"]:
            await asyncio.sleep(0.02)


async def test_nothing_is_begun_to_end_a_session_with_another_server(server: Server, ledger: Ledger) -> None:
    """What is served now is a program: none is started to be told of a session that it never knew."""
    async with (
        hosting(ledger.command) as elsewhere,
        replica(server, spare=0) as heir,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as owner,
        McpClient(owner.port) as client,
        McpClient(heir.port) as another,
        within(),
    ):
        await knows_another(owner)
        await client.initialize()
        assert await owner.end() == 0
        started = len(heir.events("instance_started"))
        client.port = heir.port
        assert (await client.raw("DELETE")).status == 204
        await another.initialize()
        assert len(heir.events("instance_started")) == started + 1


async def test_at_the_bound_a_session_that_is_quiet_gives_way(server: Server, ledger: Ledger) -> None:
    """The longest unused, though its server is awake; and goes on as it was when it is used."""
    async with (
        hosting(ledger.command) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url), max_sessions=2) as host,
        AsyncExitStack() as stack,
        within(),
    ):
        clients = [await stack.enter_async_context(McpClient(host.port)) for _ in range(4)]
        pids = []
        for n, client in enumerate(clients):
            await client.initialize()
            pids.append((await client.result("x/mark", {"mark": f"first-{n}"}))["pid"])
        for n, client in enumerate(clients):
            assert (await client.result("x/mark", {"mark": f"then-{n}"}))["pid"] == pids[n]
        assert len(set(pids)) == len(clients)
        assert (await readyz(elsewhere))["sessions"] == len(clients)
    assert set(ledger.marks().values()) == {1}


@pytest.mark.parametrize("holds", ["a stream", "a call"])
async def test_at_the_bound_one_that_is_used_stays(holds: str, server: Server, ledger: Ledger) -> None:
    async with (
        hosting(ledger.command) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url), max_sessions=1) as host,
        McpClient(host.port) as client,
        McpClient(host.port) as another,
    ):
        await client.initialize()
        if holds == "a stream":
            await client.stream()
        else:
            await client.send("POST", client.request("x/mark", {"mark": "long", "delay_s": 60}))
            await until(lambda: ledger.has("long"))
        refused = await another.raw("POST", another.request("initialize", HELLO))
        assert refused.status == 503
        assert json.loads(refused.body)["error"]["data"]["reason"] == "too_many_sessions"
        await client.raw("DELETE")


async def test_at_the_bound_a_session_whose_server_knows_it_by_its_stream_stays(
    server: Server, ledger: Ledger
) -> None:
    """Of the older transport: with the stream all is gone that its server knows."""
    async with hosting(ledger.command) as elsewhere:
        remote = RemoteOptions(url=elsewhere.url.replace("/mcp", "/sse"), transport="sse")
        async with (
            replica(server, remote=remote, max_sessions=1) as host,
            McpClient(host.port) as client,
            McpClient(host.port) as another,
            within(),
        ):
            await client.initialize()
            pid = (await client.result("x/mark", {"mark": "first"}))["pid"]
            refused = await another.raw("POST", another.request("initialize", HELLO))
            assert refused.status == 503
            assert json.loads(refused.body)["error"]["data"]["reason"] == "too_many_sessions"
            assert (await client.result("x/mark", {"mark": "then"}))["pid"] == pid
