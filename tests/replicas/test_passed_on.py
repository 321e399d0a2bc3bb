"""What was passed on is not passed on again: a replica that does not have it says that, and does nothing."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mooring.replicas.seal import Seal
from mooring.replicas.shared_store import Place, SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from tests.e2e.replicas.conftest import ledger
from tests.e2e.replicas.test_losing import ASKS, META
from tests.hosting import DEMO, Host
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.replicas.test_names import listening
from tests.replicas.test_releasing import knows_another

__all__ = ["ledger", "server"]


@asynccontextmanager
async def passing_on(to: Host, server: Server, **headers: str) -> AsyncIterator[McpClient]:
    """What it says, another replica has passed on."""
    async with opened(server.port) as store:
        key = await store.known_secret()
    assert key is not None
    name, value = Seal(key, time.time).header("somebody-0123456789", "local")
    async with McpClient(to.port, headers={name.decode(): value.decode(), **headers}) as client:
        yield client


@asynccontextmanager
async def a_session_elsewhere(server: Server, ledger: Ledger) -> AsyncIterator[McpClient]:
    """Calls of it are passed on to a replica that does not have it, though another has."""
    async with (
        replica(server, argv=ledger.command) as owner,
        replica(server, argv=ledger.command) as other,
        McpClient(owner.port) as client,
        passing_on(other, server) as passing,
    ):
        await knows_another(other)
        await client.initialize()
        passing.session = client.session
        yield passing


async def test_a_call_of_a_session(server: Server, ledger: Ledger) -> None:
    async with a_session_elsewhere(server, ledger) as passing:
        answer = await passing.raw("POST", passing.request("x/mark", {"mark": "it"}))
        assert (answer.status, answer.body) == (421, b"")
    assert not ledger.marks()


async def test_a_call_whose_seal_runs_out_while_it_waits(
    server: Server, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_run_out = False
    find, read = SharedStore.find, Seal.read

    async def find_late(store: SharedStore, id: str) -> Place | None:
        nonlocal has_run_out
        if not has_run_out:
            has_run_out = True
            raise StoreUnavailable("it is slow")
        return await find(store, id)

    async with a_session_elsewhere(server, ledger) as passing:
        with monkeypatch.context() as late:
            late.setattr(SharedStore, "find", find_late)
            late.setattr(Seal, "read", lambda seal, request: None if has_run_out else read(seal, request))
            answer = await passing.raw("POST", passing.request("x/mark", {"mark": "it"}))
        assert has_run_out
        assert answer.status == 421
    assert not ledger.marks()


async def test_a_message_that_names_another(server: Server, ledger: Ledger) -> None:
    async with (
        replica(server, argv=ledger.command) as owner,
        replica(server, argv=ledger.command) as other,
        passing_on(other, server) as passing,
    ):
        await knows_another(other)
        async with listening(owner, other) as (client, stream):
            passing.path = client.path
            answer = await passing.raw("POST", passing.request("x/mark", {"mark": "it"}))
            assert (answer.status, answer.body) == (421, b"")
            stream.reset()
    assert not ledger.marks()


async def test_a_call_that_waits_at_another(server: Server) -> None:
    async with (
        replica(server, argv=DEMO) as owner,
        replica(server, argv=DEMO) as other,
        McpClient(owner.port, headers=ASKS) as client,
        passing_on(other, server, **ASKS) as passing,
    ):
        await knows_another(other)
        params = {"name": "ask", "arguments": {"message": "who?"}, "_meta": META}
        asked = (await client.ask("tools/call", params))["result"]
        answers = {key: {"action": "accept", "content": {"answer": "Ada"}} for key in asked["inputRequests"]}
        again = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
        answer = await passing.raw("POST", passing.request("tools/call", again))
        assert (answer.status, answer.body) == (421, b"")
        passing.port = owner.port  # which has it still
        assert (await passing.ask("tools/call", again))["result"]["resultType"] == "complete"
