"""A server elsewhere that cuts, forgets, refuses and talks nonsense, and Mooring in front of it.

Whatever it does, and wherever in an exchange: the call gets an error at once that says what happened, the
next one is answered, and the client's session is the same.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.remote.options import RemoteOptions
from mooring.secrets.vault import Vault
from tests.faults.test_stdio_server import McpScript, only, result
from tests.hosting import Host, hosting
from tests.mcp_client import Json, McpClient, client_of
from tests.raw_server import Asked, RawServer, Wire, answer, chunk, event, raw_server, stream_head
from tests.support import until, within

CALL = "tools/call"
Fault = Callable[[Asked, Wire], Awaitable[bytes | None]]


class Elsewhere(McpScript):
    """With as many sessions as are opened: Mooring has one of its own, to see whether it works."""

    def _open(self, id: int | str) -> bytes:
        known = self.known
        opened = super()._open(id)
        self.known |= known
        return opened


def says(data: bytes) -> Fault:
    async def fault(asked: Asked, wire: Wire) -> bytes | None:
        return data

    return fault


def sends_and_cuts(data: bytes) -> Fault:
    async def fault(asked: Asked, wire: Wire) -> bytes | None:
        wire.send(data)
        await wire.writer.drain()
        wire.cut()
        return None

    return fault


def sends_and_ends(data: bytes) -> Fault:
    async def fault(asked: Asked, wire: Wire) -> bytes | None:
        wire.send(data)
        await wire.writer.drain()
        wire.close()
        return None

    return fault


PROGRESS: Json = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
FAULTS: dict[str, tuple[Fault, str]] = {
    "reset before an answer": (sends_and_cuts(b""), "connection_lost"),
    "end before an answer": (sends_and_ends(b""), "connection_lost"),
    "reset in the head": (sends_and_cuts(b"HTTP/1.1 200 OK\r\nContent-"), "connection_lost"),
    "end in the body": (
        sends_and_ends(
            b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"js'
        ),
        "connection_lost",
    ),
    "reset before the first event": (sends_and_cuts(stream_head()), "connection_lost"),
    "end in a stream": (sends_and_ends(stream_head() + event(PROGRESS)), "connection_lost"),
    "reset in an event": (sends_and_cuts(stream_head() + chunk(b'data: {"jsonrpc": "2.')), "connection_lost"),
    "not HTTP": (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "bad_answer"),
    "a page": (says(answer(b"<html>", kind="text/html")), "not_mcp"),
    "no JSON": (says(answer(b"{nonsense")), "bad_answer"),
    "another's answer": (says(answer({"jsonrpc": "2.0", "id": "other", "result": {}})), "bad_answer"),
    "no message": (says(answer(b'"text"')), "bad_answer"),
    "an empty answer": (says(answer(status="202 Accepted")), "http_202"),
    "401": (says(answer(status="401 Unauthorized", WWW_Authenticate="Bearer")), "unauthorized"),
    "403": (says(answer(status="403 Forbidden")), "forbidden"),
    "405": (says(answer(status="405 Method Not Allowed")), "not_mcp"),
    "429": (says(answer(status="429 Too Many Requests")), "http_429"),
    "429 for an hour": (says(answer(status="429 Too Many", Retry_After="3600")), "server_busy"),
    "500": (says(answer(status="500 Internal Server Error")), "http_500"),
    "502": (says(answer(b"<html>", "502 Bad Gateway", kind="text/html")), "http_502"),
    "503": (says(answer(status="503 Service Unavailable")), "http_503"),
    "504": (says(answer(status="504 Gateway Time-out")), "http_504"),
    "a redirect to another origin": (
        says(answer(status="307 Temporary Redirect", Location="https://elsewhere.example/mcp")),
        "redirected",
    ),
}


@asynccontextmanager
async def in_front(
    script: Elsewhere, **options: str | dict[str, str]
) -> AsyncIterator[tuple[RawServer, Host, McpClient]]:
    """A server, Mooring in front of it, and a client with a session."""
    async with raw_server(script) as server:
        remote = RemoteOptions(url=server.url, **options)  # type: ignore[arg-type]
        async with hosting(remote=remote) as host, client_of(host.port) as client:
            yield server, host, client


@pytest.mark.parametrize("name", FAULTS)
async def test_a_call_is_told_at_once_and_the_session_goes_on(name: str) -> None:
    fault, reason = FAULTS[name]
    is_due = True

    async def once(asked: Asked, wire: Wire) -> bytes | None:
        nonlocal is_due
        is_due, was_due = False, is_due
        return await fault(asked, wire) if was_due else answer(result(asked, {"n": 1}))

    async with in_front(Elsewhere(only(CALL, once))) as (server, _, client):
        session = client.session
        async with within(20):
            refused = await client.ask(CALL, {"name": "x", "arguments": {}})
        assert refused["error"]["data"]["reason"] == reason, refused
        assert refused["error"]["code"] == -32603
        assert (await client.result(CALL, {"name": "x", "arguments": {}})) == {"n": 1}
        assert client.session == session
        calls = [asked for asked in server.requests if asked.body and asked.message.get("method") == CALL]
        assert len(calls) == 2, "none was sent twice"


async def test_what_may_have_been_executed_is_not_repeated_and_reads_are() -> None:
    async with in_front(Elsewhere(only(CALL, sends_and_cuts(b"")))) as (server, _, client):
        refused = await client.ask(CALL, {"name": "x", "arguments": {}})
        assert refused["error"]["data"] == {"reason": "connection_lost", "retryable": False}
        assert len(await server.count(1, CALL)) == 1
    fails = 1

    async def at_first(asked: Asked, wire: Wire) -> bytes | None:
        nonlocal fails
        fails -= 1
        return await sends_and_cuts(b"")(asked, wire) if fails >= 0 else b""

    async with in_front(Elsewhere(only("tools/list", at_first))) as (server, _, client):
        assert "n" in await client.result("tools/list")
        assert len(await server.count(2, "tools/list")) == 2


async def test_a_session_that_the_server_has_forgotten_is_opened_anew_and_the_call_done_once() -> None:
    script = Elsewhere()
    async with in_front(script) as (server, _, client):
        ours = client.session
        assert ours not in script.known, "the client's session is ours"
        await client.result("logging/setLevel", {"level": "debug"})
        before = len(server.requests)
        script.known = set()
        assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
        since = [asked.message.get("method") for asked in server.requests[before:] if asked.body]
        assert since.count("initialize") == 1 and since.count("logging/setLevel") == 1
        executed = [
            asked
            for asked in server.requests[before:]
            if asked.body
            and asked.message.get("method") == CALL
            and asked.headers["mcp-session-id"] in script.known
        ]
        assert len(executed) == 1
        assert client.session == ours


async def test_one_that_is_gone_costs_its_own_calls_and_is_found_when_it_is_back() -> None:
    script = Elsewhere()
    async with in_front(script) as (server, host, client):
        assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
        await server.close()
        for _ in range(3):
            refused = await client.ask(CALL, {"name": "x", "arguments": {}})
            assert refused["error"]["data"] == {"reason": "unreachable", "retryable": True}
        await host.logged("unreachable")
        await server.open()
        await host.logged("reachable")
        script.known = set()  # it was restarted
        assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})


async def test_one_that_was_never_there_is_waited_for() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    remote = RemoteOptions(url=f"http://127.0.0.1:{port}/mcp")
    async with hosting(remote=remote) as host:
        await host.logged("unreachable")
        server = RawServer(Elsewhere())
        server.port = port
        await server.open()
        await host.logged("reachable")
        try:
            async with client_of(host.port) as client:
                assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
        finally:
            await server.close()


async def test_a_name_that_leads_nowhere_is_told_so() -> None:
    remote = RemoteOptions(url="http://no-such-host.invalid/mcp")
    async with hosting(remote=remote) as host:
        record = await host.logged("unreachable")
        assert "no-such-host.invalid" in record.getMessage()


async def test_headers_are_sent_and_the_clients_own_are_not(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    Vault(secrets).put("linear", "s3cret")
    script = Elsewhere()
    async with raw_server(script) as server:
        remote = RemoteOptions(
            url=server.url,
            headers={"X-Team": "deck"},
            header_references={"Authorization": "Bearer {secret:linear}"},
        )
        async with (
            hosting(remote=remote, secrets=secrets) as host,
            client_of(
                host.port, headers={"Authorization": "Bearer the-clients-own", "X-Other": "1"}
            ) as client,
        ):
            await client.result(CALL, {"name": "x", "arguments": {}})
        assert server.requests
        for asked in server.requests:
            assert asked.headers["authorization"] == "Bearer s3cret"
            assert asked.headers["x-team"] == "deck" and "x-other" not in asked.headers
        assert not any("s3cret" in record.getMessage() for record in host.records)


async def test_a_secret_that_was_changed_is_used_after_a_401(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "secrets")
    vault.put("linear", "old")
    wanted = "old"

    async def guarded(asked: Asked, wire: Wire) -> bytes | None:
        return b"" if asked.headers["authorization"] == f"Bearer {wanted}" else answer(status="401 No")

    async with raw_server(Elsewhere(guarded)) as server:
        remote = RemoteOptions(url=server.url, header_references={"Authorization": "Bearer {secret:linear}"})
        async with (
            hosting(remote=remote, secrets=tmp_path / "secrets") as host,
            client_of(host.port) as client,
        ):
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            wanted = "new"
            refused = await client.ask(CALL, {"name": "x", "arguments": {}})
            assert refused["error"]["data"]["reason"] == "unauthorized"
            vault.put("linear", "new")
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})


async def test_a_call_that_is_cancelled_is_cancelled_there() -> None:
    async def never(asked: Asked, wire: Wire) -> bytes | None:
        wire.send(stream_head())
        await wire.closed_by_peer()
        return None

    async with in_front(Elsewhere(only(CALL, never))) as (server, _, client):
        call = await client.send("POST", client.request(CALL, {"name": "x", "arguments": {}}, id="it"))
        await server.count(1, CALL)
        await client.notify("notifications/cancelled", {"requestId": "it"})
        [told] = await server.count(1, "notifications/cancelled")
        [sent] = await server.count(1, CALL)
        assert told.message["params"]["requestId"] == sent.message["id"]
        call.reset()


async def test_the_end_of_a_session_is_told_there_and_nothing_is_left() -> None:
    async with in_front(Elsewhere()) as (server, _, client):
        assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
        assert (await client.raw("DELETE")).status == 204
        deleted = await server.count(1, "DELETE")
        assert deleted[0].headers["mcp-session-id"].startswith("session-")
    await until(lambda: not [task for task in asyncio.all_tasks() if "conversation" in task.get_name()])
