"""Any replica serves any request of any session, wherever its server runs."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.mooring import DEMO
from tests.e2e.replicas.fleet import Roaming, port_of, running_fleet
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.replicas.stores import KINDS, Server, running_server
from tests.support import within


@pytest.mark.parametrize("kind", KINDS)
async def test_every_request_may_go_to_another_replica(kind: str, tmp_path: Path, ledger: Ledger) -> None:
    async with (
        running_server(kind, tmp_path / "kind") as store,
        running_fleet(3, store, ledger.command) as fleet,
        Roaming(fleet.ports) as client,
    ):
        await client.initialize()
        pids = {(await client.mark(f"m{n}"))["result"]["pid"] for n in range(9)}
        assert len(pids) == 1
        assert all(count == 1 for count in ledger.marks().values())
        assert (await client.raw("DELETE")).status == 204
        for _ in fleet.replicas:
            assert (await client.raw("POST", client.request("ping"))).status == 404


async def test_a_session_is_its_principals_on_every_replica(
    store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbbbbbbbbbb\n")
    tokens.chmod(0o600)
    alice = {"Authorization": "Bearer aaaaaaaaaaaaaaaaaaaaaaaa"}
    bob = {"Authorization": "Bearer bbbbbbbbbbbbbbbbbbbbbbbb"}
    async with running_fleet(2, store, ledger.command, "--token-file", str(tokens)) as fleet:
        async with Roaming(fleet.ports, headers=alice) as client, Roaming(fleet.ports, headers=bob) as other:
            await client.initialize()
            await client.mark("hers")
            await client.mark("hers too")
            other.session = client.session
            for _ in fleet.replicas:
                answer = await other.raw("POST", other.request("x/mark", {"mark": "his"}))
                assert answer.status == 404
        async with Roaming(fleet.ports) as nobody:
            nobody.session = client.session
            assert (await nobody.raw("POST", nobody.request("ping"))).status == 401
    assert not ledger.has("his")


async def test_nobody_but_a_replica_is_believed(store: Server, ledger: Ledger) -> None:
    """Who could say for whom it asks would be anybody."""
    async with running_fleet(2, store, ledger.command) as fleet:
        headers = {"mooring-replica": "x 1 local " + "0" * 64}
        async with McpClient(fleet.ports[0], path="/.mooring/replica", headers=headers) as stranger:
            assert (await stranger.raw("POST", b"{}")).status == 404


async def test_what_the_server_asks_is_answered_through_another_replica(
    store: Server, ledger: Ledger
) -> None:
    async with running_fleet(3, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        await client.initialize(capabilities={"roots": {}})
        for n in range(3):  # by each replica once
            stream = await client.stream("POST", client.request("x/ask", {"mark": f"asked-{n}"}))
            question = await stream.message()
            assert question["method"] == "roots/list"
            await client.respond(question["id"], {"roots": []})
            assert (await stream.message())["result"]["mark"] == f"asked-{n}"
        assert ledger.marks() == {"asked-0": 1, "asked-1": 1, "asked-2": 1}


async def test_news_reach_a_stream_at_another_replica(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        await client.initialize(capabilities={"roots": {}})
        client.go_only_to(fleet.replicas[1])
        listening = await client.stream("GET")
        client.go_only_to(fleet.replicas[0])
        # A call whose client cannot take a stream: what the server asks goes to the one that listens.
        peer = await client.send("POST", client.request("x/ask", {"mark": "m"}), Accept="application/json")
        question = await listening.message()
        assert question["method"] == "roots/list"
        client.go_only_to(fleet.replicas[1])
        await client.respond(question["id"], {"roots": []})
        async with within():
            assert json.loads((await peer.answer()).body)["result"]["mark"] == "m"


async def test_the_older_transport_works_across_replicas(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command) as fleet:
        here, there = fleet.ports
        async with McpClient(here, path="/sse") as reader, McpClient(there) as writer:
            stream = await reader.stream("GET")
            event = await stream.event()
            assert event is not None
            writer.path = event.data
            params = {
                "protocolVersion": "2024-11-05",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            assert (await writer.raw("POST", writer.request("initialize", params))).status == 202
            assert (await stream.message())["result"]["serverInfo"]["name"] == "ledger"
            assert (await writer.raw("POST", writer.request("x/mark", {"mark": "m"}))).status == 202
            assert (await stream.message())["result"]["mark"] == "m"
            stream.reset()


async def test_a_parked_call_is_found_from_any_replica(store: Server) -> None:
    """Revision 2026-07-28: what the client sends back names the replica that waits."""
    async with running_fleet(3, store, DEMO) as fleet:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask"}
        async with Roaming(fleet.ports, headers=headers) as client:
            params = {"name": "ask", "arguments": {"message": "who?"}, "_meta": meta}
            for _ in fleet.replicas:
                asked = (await client.ask("tools/call", params))["result"]
                assert asked["resultType"] == "input_required", asked
                answers = {
                    key: {"action": "accept", "content": {"answer": "Ada"}} for key in asked["inputRequests"]
                }
                again = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
                result = (await client.ask("tools/call", again))["result"]
                assert result["resultType"] == "complete", result


async def test_many_at_once_through_all_replicas(store: Server, ledger: Ledger) -> None:
    async with running_fleet(3, store, ledger.command) as fleet:

        async def one(n: int) -> None:
            async with Roaming(fleet.ports[n % 3 :] + fleet.ports[: n % 3]) as client:
                await client.initialize()
                for m in range(10):
                    assert (await client.mark(f"{n}-{m}"))["result"]["mark"] == f"{n}-{m}"
                await client.raw("DELETE")

        async with within():
            await asyncio.gather(*(one(n) for n in range(12)))
    assert len(ledger.marks()) == 120
    assert set(ledger.marks().values()) == {1}


async def test_whoever_has_no_room_lets_the_longest_unused_go(store: Server, ledger: Ledger) -> None:
    """Sessions in memory are bounded; those that gave way are had again when they are used."""
    options = ("--max-sessions", "3", "--idle-timeout", "1s")
    async with running_fleet(1, store, ledger.command, *options) as fleet:
        clients = [McpClient(port_of(fleet.replicas[0])) for _ in range(5)]
        try:
            for n, client in enumerate(clients):
                async with within():
                    while True:
                        answer = await client.raw("POST", client.request("initialize", _hello()))
                        if answer.status == 200:
                            break
                        await asyncio.sleep(0.2)  # until one of the others sleeps
                client.session = answer.headers["mcp-session-id"]
                await client.notify("notifications/initialized")
                await client.result("x/mark", {"mark": f"first-{n}"})
            for n, client in enumerate(clients):
                async with within():
                    while (
                        await client.raw("POST", client.request("x/mark", {"mark": f"then-{n}"}))
                    ).status != 200:
                        await asyncio.sleep(0.2)
        finally:
            for client in clients:
                await client.__aexit__()
    assert all(count == 1 for count in ledger.marks().values())
    assert len(ledger.marks()) == 10


def _hello() -> dict[str, object]:
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
