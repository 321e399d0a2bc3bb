"""Any replica serves any request of any session, wherever its server runs."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mooring.replicas.forwarding import NEIGHBOURS_PATH
from mooring.replicas.link_frames import SUBPROTOCOL
from mooring.replicas.seal import SPAN_S, Seal
from mooring.wire.sse import EventDecoder
from tests.e2e.mooring import DEMO, Mooring
from tests.e2e.replicas.fleet import Roaming, port_of, running_fleet
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.replicas.stores import KINDS, Server, running_server
from tests.support import within

LEASE = ("--lease", "3s")
"""So that replicas soon know each other."""


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
    """Who could say for whom it asks would be anybody. And what is passed on is not passed on again."""
    async with running_fleet(2, store, ledger.command) as fleet, McpClient(fleet.ports[0]) as client:
        await client.initialize()
        for port in fleet.ports:
            headers = {"mooring-replica": "x 1 local " + "0" * 64}
            async with McpClient(port, headers=headers) as stranger:
                stranger.session = client.session
                for stranger.path in ("/mcp", NEIGHBOURS_PATH):
                    answer = await stranger.raw("POST", stranger.request("x/mark", {"mark": "passed on"}))
                    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (
                        401,
                        "replica_untrusted",
                    )
    assert not ledger.marks()


async def test_no_replica_says_for_a_client_what_replicas_say_to_each_other(
    store: Server, ledger: Ledger
) -> None:
    """What is passed on is sealed: whoever could choose that path would speak as a replica."""
    async with (
        running_fleet(2, store, ledger.command, *LEASE) as fleet,
        Roaming(fleet.ports) as client,
    ):
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        client.go_only_to(other)
        async with within():
            while await gauge(owner, "mooring_websockets") == 0:
                await client.ask("ping")
        client.path = f"{NEIGHBOURS_PATH}?holds=somebody"
        assert (await client.raw("POST", b"{}")).status == 404
        client.path = "/mcp"
        client.go_only_to(owner)
        await client.raw("DELETE")
        client.go_only_to(other)
        client.path = f"{NEIGHBOURS_PATH}?holds=somebody"
        assert (await client.raw("POST", b"{}")).status == 404


async def test_nobody_but_a_replica_has_a_link(store: Server, ledger: Ledger) -> None:
    asks = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
    }
    async with running_fleet(1, store, ledger.command) as fleet:
        for status, seal in ((404, {}), (401, {"mooring-replica": "x 1 local " + "0" * 64})):
            async with McpClient(fleet.ports[0], path=NEIGHBOURS_PATH, headers={**asks, **seal}) as stranger:
                assert (await stranger.raw("GET")).status == status


async def test_calls_that_are_passed_on_share_one_connection(store: Server, ledger: Ledger) -> None:
    """And each is executed once; the answers are those of the one that was asked."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, AsyncExitStack() as stack:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        clients = [await stack.enter_async_context(Roaming(fleet.ports)) for _ in range(20)]
        for client in clients:
            client.go_only_to(owner)
            await client.initialize()
            client.go_only_to(other)
            await client.mark(f"first-{client.session}")
        async with within():
            while await gauge(owner, "mooring_websockets") == 0:
                await clients[0].ask("ping")
        answers = await asyncio.gather(
            *(client.mark(f"{n}-{client.session}") for client in clients for n in range(5))
        )
        assert len({answer["result"]["pid"] for answer in answers}) == len(clients)
        assert set(ledger.marks().values()) == {1}
        assert len(ledger.marks()) == 6 * len(clients)
        assert await gauge(owner, "mooring_websockets") == 1


async def gauge(replica: Mooring, name: str) -> float:
    """One figure of its metrics."""
    async with McpClient(port_of(replica), path="/metrics") as reader:
        text = (await reader.raw("GET")).body.decode()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


@pytest.mark.slow  # a minute
async def test_a_seal_that_has_run_out_is_not_believed(store: Server, ledger: Ledger, tmp_path: Path) -> None:
    """Whoever has seen one can use it for a while only, however often its head came before."""
    key, tokens = tmp_path / "key", tmp_path / "tokens"
    key.write_text("k" * 32)
    tokens.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\n")
    options = ("--token-file", str(tokens), "--replica-key", f"file:{key}")
    for file in (key, tokens):
        file.chmod(0o600)
    async with running_fleet(1, store, ledger.command, *options) as fleet:
        while time.time() % SPAN_S > SPAN_S / 2:  # until there is time enough for it to be believed
            await asyncio.sleep(0.1)
        seal = Seal(b"k" * 32, lambda: time.time() - SPAN_S)
        name, value = seal.header("somebody-0123456789", "alice")
        runs_out_at = (time.time() // SPAN_S + 1) * SPAN_S
        async with McpClient(fleet.ports[0], headers={name.decode(): value.decode()}) as thief:
            await thief.initialize()
            body = thief.request("ping")
            assert (await thief.raw("POST", body)).status == 200
            while time.time() <= runs_out_at:
                await asyncio.sleep(0.1)
            assert (await thief.raw("POST", body)).status == 401
            assert (await thief.raw("POST", body, X_New="1")).status == 401


@pytest.mark.parametrize("has_tokens", [True, False])
async def test_replicas_with_different_keys_do_not_believe_each_other(
    has_tokens: bool, store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    """No client hears of that as if it were its own fault; and it is told where it can be mended."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\n")
    tokens.chmod(0o600)
    alice = {"Authorization": "Bearer aaaaaaaaaaaaaaaaaaaaaaaa"}
    options = ("--token-file", str(tokens)) if has_tokens else ()
    async with running_fleet(0, store, ledger.command, *options) as fleet:
        for n in range(2):
            key = tmp_path / f"key-{n}"
            key.write_text(str(n) * 32)
            key.chmod(0o600)
            await fleet.add("--replica-key", f"file:{key}")
        await fleet.know_each_other()
        owner, other = fleet.replicas
        async with Roaming(fleet.ports, headers=alice) as client:
            client.go_only_to(owner)
            await client.initialize()
            client.go_only_to(other)
            assert (await client.unavailable("x/mark"))["reason"] == "replica_unreachable"
            client.go_only_to(owner)
            await client.mark("here")
        told = await other.logged("replica_untrusted")
        assert told["level"] == "warning"
        assert [line for line in other.log if line["event"] == "replica_untrusted"] == [told]
        assert not [line for line in owner.log if line["event"] == "replica_untrusted"]
    assert ledger.marks() == {"here": 1}


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


MARK = json.dumps({"jsonrpc": "2.0", "id": "odd", "method": "x/mark", "params": {"mark": "odd"}}).encode()


class Odd(NamedTuple):
    """A request of a session, to the byte."""

    field: bytes = b""
    method: bytes = b"POST"
    path: bytes = b"/mcp"
    host: bytes = b"localhost"
    body: bytes = MARK

    def of(self, session: str) -> bytes:
        fields = [
            b"Host: " + self.host,
            b"Accept: application/json, text/event-stream",
            b"Mcp-Session-Id: " + session.encode(),
            b"MCP-Protocol-Version: 2025-11-25",
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(self.body),
            *([self.field] if self.field else []),
        ]
        return b"%b %b HTTP/1.1\r\n%b\r\n\r\n%b" % (self.method, self.path, b"\r\n".join(fields), self.body)


ODD: dict[str, dict[str, Odd]] = {
    "fields": {
        "a tab": Odd(b"X-Odd: a\tb"),
        "spaces": Odd(b"X-Odd:  x "),
        "nothing": Odd(b"X-Odd:"),
        "Latin-1": Odd(b"X-Odd: caf\xe9"),
        "DEL": Odd(b"X-Odd: a\x7fb"),
        "SOH": Odd(b"X-Odd: a\x01b"),
        "VT": Odd(b"X-Odd: a\x0bb"),
        "the session is between neighbours": Odd(b"Connection: keep-alive, mcp-session-id"),
        "the last on its connection": Odd(b"Connection: close"),
        "another protocol": Odd(b"Upgrade: h2c\r\nConnection: upgrade"),
        "it waits for a word": Odd(b"Expect: 100-continue"),
        "trailers": Odd(b"TE: trailers"),
        "compressed": Odd(b"Accept-Encoding: gzip"),
        "two sessions": Odd(b"Mcp-Session-Id: another-session"),
        "a forged seal": Odd(b"Mooring-Replica: x 1 bob " + b"0" * 64),
        "two forged seals": Odd(b"MOORING-REPLICA: a\r\nmooring-replica: b"),
        "a foreign origin": Odd(b"Origin: http://evil.example"),
        "an origin of this machine": Odd(b"Origin: http://localhost:3000"),
        "a foreign host": Odd(host=b"evil.example"),
    },
    "paths": {
        "a query": Odd(path=b"/mcp?x=%2F%3F&y"),
        "an empty query": Odd(path=b"/mcp?"),
        "a session in the query": Odd(path=b"/mcp?session_id=another-session"),
        "a letter in other words": Odd(path=b"/%6dcp"),
        "a slash that is none": Odd(path=b"/e2e%2Fmcp"),
        "a question mark that is none": Odd(path=b"/mcp%3Fx"),
        "UTF-8": Odd(path=b"/m%C3%A9"),
        "half of UTF-8": Odd(path=b"/m%C3"),
        "UTF-8 as it is": Odd(path="/mcp?é".encode()),
        "one slash more": Odd(path=b"/mcp/"),
        "two slashes": Odd(path=b"//mcp"),
        "parameters": Odd(path=b"/mcp;x"),
        "a whole URL": Odd(path=b"http://localhost/mcp"),
    },
    "methods": {
        name: Odd(method=name.encode(), body=b"") for name in ("PUT", "PATCH", "OPTIONS", "TRACE", "BREW")
    },
    "bodies": {
        "a batch": Odd(body=b"[" + MARK + b"]"),
        "broken JSON": Odd(body=b"{"),
        "no JSON": Odd(body=b"\xff\x00"),
        "nothing": Odd(body=b""),
        "3 MB": Odd(body=MARK.replace(b'"odd"}', b'"odd", "big": "%b"}' % (b"x" * 3_000_000))),
    },
}


@pytest.mark.parametrize("kind", ODD)
async def test_a_replica_that_passes_on_answers_as_the_owner_does(
    kind: str, store: Server, ledger: Ledger
) -> None:
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        here = await answers_of(owner, client, ODD[kind])
        assert await answers_of(other, client, ODD[kind]) == here
        async with within():
            while await gauge(owner, "mooring_websockets") == 0:
                await client.ask("ping")
        assert await answers_of(other, client, ODD[kind]) == here  # now that it knows where, and by a link
        client.go_only_to(owner, other)
        assert len({(await client.mark(f"after-{n}"))["result"]["pid"] for n in range(2)}) == 1


async def answers_of(replica: Mooring, client: Roaming, requests: dict[str, Odd]) -> dict[str, Any]:
    client.go_only_to(replica)
    return {what: await answer_to(client, odd) for what, odd in requests.items()}


async def answer_to(client: Roaming, odd: Odd) -> tuple[int, Any] | None:
    """Status and JSON; None: the connection was closed instead."""
    async with within():
        peer = await client.peer()
        peer.send(odd.of(client.session))
        try:
            head = await peer.head()
            while head.status < 200:
                head = await peer.head()
            answer = await peer.rest(head)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        finally:
            await peer.aclose()
    return answer.status, said_in(answer.headers.get("content-type", ""), answer.body)


def said_in(kind: str, body: bytes) -> Any:
    if kind == "text/event-stream":
        return [json.loads(event.data) for event in EventDecoder().feed(body) if event.data]
    return json.loads(body) if body else None


async def test_heads_are_answered_as_by_the_owner(store: Server, ledger: Ledger) -> None:
    """With a length, and nothing behind it."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        answers = []
        for replica in (owner, other, other):
            client.go_only_to(replica)
            async with within():
                peer = await client.send("HEAD", Connection="close")
                answer = await peer.answer(to_head=True)
                assert await peer.at_end()
            answers.append((answer.status, {**answer.headers, "date": ""}))
        assert answers[1:] == answers[:1] * 2
