"""Whoever is not the principal of a session changes nothing of it, at whichever replica."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.mooring import LINUX_ONLY, Mooring
from tests.e2e.replicas.fleet import Fleet, Roaming, port_of, running_fleet
from tests.e2e.replicas.test_losing import LEASE, served
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_shared_store import opened
from tests.support import within

pytestmark = LINUX_ONLY

ALICE = {"Authorization": "Bearer aaaaaaaaaaaaaaaaaaaaaaaa"}
BOB = {"Authorization": "Bearer bbbbbbbbbbbbbbbbbbbbbbbb"}


@pytest.fixture
def tokens(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbbbbbbbbbb\n")
    return ("--token-file", str(file))


async def figure(replica: Mooring, name: str) -> float:
    async with McpClient(port_of(replica), path="/metrics", headers=BOB) as reader:
        text = (await reader.raw("GET")).body.decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


async def refused_everything(client: Roaming) -> None:
    """As if there were no such session."""
    answers = [
        await client.raw("POST", client.request("x/mark", {"mark": "his"})),
        await client.raw("POST", b'{"jsonrpc":"2.0","id":"asked","result":{}}'),
        await client.raw("GET"),
        await client.raw("DELETE"),
    ]
    assert [answer.status for answer in answers] == [404] * 4


@asynccontextmanager
async def a_session_and_a_stranger(fleet: Fleet) -> AsyncIterator[tuple[Roaming, Roaming]]:
    """Its client, at the first of the replicas; and somebody else who has come to know its name."""
    async with Roaming(fleet.ports, headers=ALICE) as client, Roaming(fleet.ports, headers=BOB) as stranger:
        await fleet.know_each_other()
        client.go_only_to(fleet.replicas[0])
        await client.initialize()
        stranger.session = client.session
        yield client, stranger


async def test_nothing_is_passed_on_for_somebody_else(
    tokens: tuple[str, ...], store: Server, ledger: Ledger
) -> None:
    """Neither by one that looks for the session, nor by one that knows where it is."""
    async with (
        running_fleet(2, store, ledger.command, *LEASE, *tokens) as fleet,
        a_session_and_a_stranger(fleet) as (client, stranger),
    ):
        owner, other = fleet.replicas
        client.go_only_to(other)
        stranger.go_only_to(other)
        await refused_everything(stranger)
        assert await figure(other, "mooring_forwards_total") == 0
        await client.mark("hers")
        passed_on = await figure(other, "mooring_forwards_total")
        assert passed_on > 0
        await refused_everything(stranger)
        assert await figure(other, "mooring_forwards_total") == passed_on
        stranger.go_only_to(owner)
        await refused_everything(stranger)
        await client.mark("hers-too")
    assert ledger.marks() == {"hers": 1, "hers-too": 1}


async def test_nobody_takes_over_the_session_of_somebody_else(
    tokens: tuple[str, ...], store: Server, ledger: Ledger
) -> None:
    async with (
        running_fleet(2, store, ledger.command, *LEASE, *tokens, "--sessions-prefix", "test") as fleet,
        opened(store.url, "e2e") as records,
        a_session_and_a_stranger(fleet) as (client, stranger),
    ):
        owner, other = fleet.replicas
        before = await records.find(client.session)
        assert before is not None
        owner.exit_status = -signal.SIGKILL
        owner.signal(signal.SIGKILL)
        await owner.ended()
        async with within():
            while await figure(other, "mooring_replicas_alive") > 1:
                await asyncio.sleep(0.05)
        stranger.go_only_to(other)
        await refused_everything(stranger)
        assert await records.find(client.session) == before
        assert await figure(other, "mooring_takeovers_total") == 0
        client.go_only_to(other)
        assert (await served(client, "hers"))["result"]["mark"] == "hers"
    assert ledger.marks() == {"hers": 1}
