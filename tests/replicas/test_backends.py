"""Sessions of a server elsewhere: whose they are there, and which of them have a place here."""

import asyncio

from mooring.remote.options import RemoteOptions
from tests.faults.test_remote_server import CALL, Elsewhere
from tests.mcp_client import McpClient
from tests.raw_server import raw_server
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.replicas.test_releasing import knows_another
from tests.support import within

__all__ = ["server"]

TOOL = {"name": "x", "arguments": {}}


async def test_a_session_there_is_shown_to_no_other_server(server: Server) -> None:
    """After a change of `--url`, replica by replica: whoever has the name of a session may use it."""
    another = Elsewhere()
    another.sessions = 100  # so that its own have other names
    async with (
        raw_server(Elsewhere()) as before,
        raw_server(another) as after,
        opened(server.port) as store,
        replica(server, remote=RemoteOptions(url=f"{before.url}?token=canary")) as old,
        replica(server, remote=RemoteOptions(url=after.url)) as new,
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
