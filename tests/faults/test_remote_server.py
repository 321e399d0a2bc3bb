"""A server elsewhere that cuts, forgets, refuses and talks nonsense, and Mooring in front of it.

Whatever it does, and wherever in an exchange: the call gets an error at once that says what happened, the
next one is answered, and the client's session is the same.
"""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from mooring.remote.options import RemoteOptions
from mooring.secrets.vault import Vault
from mooring.workloads import workload
from tests.faults.test_stdio_server import McpScript, only, result
from tests.hosting import Host, hosting
from tests.mcp_client import Json, McpClient, client_of
from tests.raw_server import (
    LAST_CHUNK,
    Asked,
    RawServer,
    Wire,
    answer,
    chunk,
    event,
    raw_server,
    stream_head,
)
from tests.support import until, within

CALL = "tools/call"
INTRODUCTION: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
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


def refuses(status: str, **headers: str) -> Fault:
    """As servers of some SDKs do: with an error of JSON-RPC's, about no call."""
    error = {"code": -32001, "message": "No, said the server"}
    return says(answer({"jsonrpc": "2.0", "error": error, "id": None}, status, **headers))


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
    "an encoded answer": (
        says(answer(gzip.compress(b'{"jsonrpc": "2.0", "id": 2, "result": {}}'), Content_Encoding="gzip")),
        "bad_answer",
    ),
    "another's answer": (says(answer({"jsonrpc": "2.0", "id": "other", "result": {}})), "bad_answer"),
    "garbage in a stream that stays open": (says(stream_head() + chunk(b"data: {garbage\n\n")), "bad_answer"),
    "no UTF-8": (
        says(answer(b'{"jsonrpc": "2.0", "id": 2, "result": {"text": "\xff"}}')),
        "bad_answer",
    ),
    "no UTF-8 in a stream that stays open": (
        says(stream_head() + chunk(b'data: {"jsonrpc": "2.0", "id": 2, "result": {"text": "\xff"}}\n\n')),
        "bad_answer",
    ),
    "no message": (says(answer(b'"text"')), "bad_answer"),
    "an empty answer": (says(answer(status="202 Accepted")), "http_202"),
    "401": (says(answer(status="401 Unauthorized", WWW_Authenticate="Bearer")), "unauthorized"),
    "403": (says(answer(status="403 Forbidden")), "forbidden"),
    "401 in words of JSON-RPC": (refuses("401 Unauthorized", WWW_Authenticate="Bearer"), "unauthorized"),
    "403 in words of JSON-RPC": (refuses("403 Forbidden"), "forbidden"),
    "429 in words of JSON-RPC": (refuses("429 Too Many", Retry_After="9"), "server_busy"),
    "503 in words of JSON-RPC": (refuses("503 Busy", Retry_After="9"), "server_busy"),
    "405": (says(answer(status="405 Method Not Allowed")), "not_mcp"),
    "429": (says(answer(status="429 Too Many Requests")), "http_429"),
    "429 for a moment": (says(answer(status="429 Too Many", Retry_After="0")), "server_busy"),
    "429 for an hour": (says(answer(status="429 Too Many", Retry_After="3600")), "server_busy"),
    "503 for a moment": (says(answer(status="503 Busy", Retry_After="0")), "server_busy"),
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


TOOLS: Json = {
    "tools": [
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "do", "inputSchema": {"type": "object"}},
    ]
}


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("name", ["look", "do"])
@pytest.mark.parametrize("fault", ["cut", "500"])
async def test_a_tool_that_may_be_run_twice_is_where_the_operator_wants_it(
    name: str, retry: bool, fault: str
) -> None:
    async def special(asked: Asked, wire: Wire) -> bytes | None:
        method = asked.message.get("method") if asked.body else ""
        if method == "tools/list":
            return answer(result(asked, TOOLS))
        if method != CALL:
            return b""
        return answer(status="500 Oh") if fault == "500" else await sends_and_cuts(b"")(asked, wire)

    async with raw_server(Elsewhere(special)) as server:
        remote = RemoteOptions(url=server.url)
        async with hosting(remote=remote, retry=retry) as host, client_of(host.port) as client:
            await client.result("tools/list")
            refused = await client.ask(CALL, {"name": name, "arguments": {}})
            assert refused["error"]["data"]["retryable"] is (name == "look")
            times = 2 if retry and name == "look" and fault == "cut" else 1
            assert len(await server.count(times, CALL)) == times


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


async def test_a_revision_that_no_header_can_say_is_no_handshake_and_goes_no_further() -> None:
    script = Elsewhere()
    script.version = "2025-11-25\r\nX-Evil: 1"
    async with raw_server(script) as server, hosting(remote=RemoteOptions(url=server.url)) as host:
        async with McpClient(host.port) as client:
            refused = await client.raw("POST", client.request("initialize", INTRODUCTION))
        assert "mcp-session-id" not in refused.headers
        assert not any("x-evil" in asked.headers for asked in server.requests)
        assert not host.events("bug")


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
            assert asked.headers["accept-encoding"] == "identity"
        assert not any("s3cret" in record.getMessage() for record in host.records)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_message_goes_through_to_the_byte_as_one_line(is_stream: bool) -> None:
    said = (
        b'{"jsonrpc":"2.0",%b"id":%d, "result": {"a":1.0e0,\t"b": 9007199254740993, "c": "\\u0061\\ud83d"}}'
    )

    async def odd(asked: Asked, wire: Wire) -> bytes | None:
        id = asked.message["id"]
        if is_stream:
            return stream_head() + chunk(b"data: " + said % (b" \ndata: ", id) + b"\n\n") + LAST_CHUNK
        return answer(said % (b"\r\n", id))

    async with in_front(Elsewhere(only(CALL, odd))) as (_, _, client):
        heard = await client.raw("POST", client.request(CALL, {"name": "x", "arguments": {}}, id=7))
        assert heard.body == said % (b"  ", 7)


async def test_what_a_server_says_to_learn_who_asks_is_not_for_the_client() -> None:
    wants = 'Bearer resource_metadata="https://elsewhere.example/", scope="a"'
    refusal = says(answer(status="401 No", WWW_Authenticate=wants))
    async with in_front(Elsewhere(only(CALL, refusal))) as (_, _, client):
        heard = await client.raw("POST", client.request(CALL, {"name": "x", "arguments": {}}))
        assert heard.status == 200 and b'"unauthorized"' in heard.body
        assert "www-authenticate" not in heard.headers


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_who_is_not_let_in_is_no_answer_of_the_servers_whatever_its_words(status: str) -> None:
    async with in_front(Elsewhere(only(CALL, refuses(status)))) as (_, host, client):
        refused = await client.ask(CALL, {"name": "x", "arguments": {}})
        message = refused["error"]["message"]
        if status.startswith("403"):
            assert message == "the server does not let us in (403): No, said the server"
        else:
            assert message.endswith("; it says: No, said the server")
        await until(lambda: any("calls_fail" in str(vars(r).get("reason")) for r in host.events("state")))


@pytest.mark.parametrize(
    ("status", "reason"), [("401 No", "unauthorized"), ("403 No", "forbidden"), ("429 Later", "server_busy")]
)
@pytest.mark.parametrize("is_late", [False, True], ids=["", "cut in the middle"])
async def test_a_refusal_that_repeats_the_token_is_for_no_client_and_no_log(
    status: str, reason: str, is_late: bool
) -> None:
    token = "Bearer nobody/should-read-this+=="

    async def repeats(asked: Asked, _wire: Wire) -> bytes:
        said = "x" * 270 * is_late + f"the token {asked.headers['authorization']} has expired"
        body = json.dumps({"error": {"code": "expired", "message": said}})
        body = body.replace("/", "\\/").replace("=", "\\u003d")  # as some encoders write it
        return answer(body.encode(), status, Retry_After="1")

    script = Elsewhere(only(CALL, repeats))
    async with in_front(script, headers={"Authorization": token}) as (_, host, client):
        refused = await client.ask(CALL, {"name": "x", "arguments": {}})
        assert refused["error"]["data"]["reason"] == reason
        await until(lambda: any("calls_fail" in str(vars(r).get("reason")) for r in host.events("state")))
        told = [refused["error"]["message"], *(str(vars(record)) for record in host.records)]
        assert not [text for text in told if "nobody" in text]


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


async def test_a_session_that_was_named_and_never_opened_is_ended_there_too() -> None:
    class Half(Elsewhere):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            if not asked.body or asked.message["method"] != "initialize":
                return await super().__call__(asked, wire)
            wire.send(stream_head(Mcp_Session_Id="half-open"))
            await wire.closed_by_peer()
            return None

    async with (
        raw_server(Half()) as server,
        hosting(remote=RemoteOptions(url=server.url, transport="http"), handshake_timeout_s=0.2),
    ):
        deleted, *_ = await server.count(1, "DELETE")
        assert deleted.headers["mcp-session-id"] == "half-open"


async def test_one_in_trouble_is_not_hammered_and_its_words_are_masked(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    Vault(secrets).put("linear", "hush-very-secret")
    words = b'{"error": {"message": "too many for Bearer hush-very-secret"}}'
    is_busy = True

    class Busy(Elsewhere):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            if is_busy:
                return answer(words, "429 Too Many", Retry_After="3600")
            return await super().__call__(asked, wire)

    async with raw_server(Busy()) as server:
        remote = RemoteOptions(url=server.url, header_references={"Authorization": "Bearer {secret:linear}"})
        async with hosting(remote=remote, secrets=secrets) as host:
            await host.logged("server_busy")
            await asyncio.sleep(1)
            assert len(server.requests) < 10, "it is left alone for a while"
            client = McpClient(host.port)
            async with client:
                refused = await client.raw("POST", client.request("initialize", INTRODUCTION))
                assert refused.status in (200, 503), refused
                is_busy = False
                await asyncio.sleep(1.1)
                await client.initialize()
                assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            assert not any("hush-very-secret" in record.getMessage() for record in host.records)


async def test_a_session_that_wakes_while_it_is_in_trouble_is_told_why_and_nothing_is_counted() -> None:
    status = ""

    class Troubled(Elsewhere):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            return answer(status=status) if status else await super().__call__(asked, wire)

    async with raw_server(Troubled()) as server:
        remote = RemoteOptions(url=server.url)
        async with hosting(remote=remote, idle_timeout_s=0.2) as host, client_of(host.port) as client:
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            await host.logged("session_idle")
            status = "503 Service Unavailable"
            for _ in range(6):
                refused = await client.ask(CALL, {"name": "x", "arguments": {}})
                assert refused["error"]["data"]["reason"] == "http_503", refused
            assert not host.events("backoff")
            status = ""
            await asyncio.sleep(1.1)  # so long nobody else is let run into it
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})


async def test_a_session_that_wakes_and_is_let_in_no_more_shows_that_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload, "REFUSED_AGAIN_S", 2.0)
    status = ""

    class Guarded(Elsewhere):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            return answer(status=status) if status else await super().__call__(asked, wire)

    async with raw_server(Guarded()) as server:
        remote = RemoteOptions(url=server.url)
        async with hosting(remote=remote, idle_timeout_s=0.2) as host, client_of(host.port) as client:
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            await host.logged("session_idle")
            status, seen = "401 Unauthorized", len(host.events("state"))
            asked = len(await server.count(1, "initialize"))
            for _ in range(3):
                refused = await client.ask(CALL, {"name": "x", "arguments": {}})
                assert refused["error"]["data"]["reason"] == "unauthorized", refused
            shown = [vars(record) for record in host.events("state")[seen:]]
            states = [(one["state"], one["reason"]) for one in shown if one["state"] != "ready"]
            assert states == [("failed", "unauthorized")] and not shown[-1]["restarts"]
            assert "(mooring login test)" in host.events("state")[-1].getMessage()
            assert len(await server.count(1, "initialize")) == asked + 1, "the others were held off"
            status = ""
            async with within():
                while "result" not in await client.ask(CALL, {"name": "x", "arguments": {}}):
                    pass


async def test_any_header_that_names_a_secret_is_looked_up_again(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "secrets")
    vault.put("key", "old")

    async def guarded(asked: Asked, wire: Wire) -> bytes | None:
        return b"" if asked.headers["x-api-key"] == vault.look_up("key") else answer(status="401 No")

    async with raw_server(Elsewhere(guarded)) as server:
        remote = RemoteOptions(url=server.url, header_references={"X-Api-Key": "secret:key"})
        async with (
            hosting(remote=remote, secrets=tmp_path / "secrets") as host,
            client_of(host.port) as client,
        ):
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})
            vault.put("key", "new")
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})


async def test_a_long_refusal_that_nobody_reads_costs_no_later_answer() -> None:
    script = Elsewhere()

    async def forgets(asked: Asked, wire: Wire) -> bytes | None:
        if asked.headers["mcp-session-id"] == forgotten:
            return answer(b"x" * (256 * 1024 + 200), "404 Not Found", kind="text/plain")
        return b""

    async with in_front(script) as (_, _, client):
        forgotten = next(iter(script.known - {"session-1"}))
        script.special = only(CALL, forgets)
        for _ in range(3):
            assert "n" in await client.result(CALL, {"name": "x", "arguments": {}})


@pytest.mark.parametrize(
    ("text", "is_own"),
    [
        ("charged the card, but the database session timed out", True),
        ("charged the card, but the payment session expired", True),
        ("charged the card, but the payment session expired", False),
        ("Session expired", True),
    ],
)
async def test_an_error_that_speaks_of_sessions_is_the_servers_own_and_the_call_is_not_repeated(
    text: str, is_own: bool
) -> None:
    said = {"code": -32000, "message": text}

    async def fails(asked: Asked, wire: Wire) -> bytes | None:
        id = asked.message["id"] if is_own else None
        return answer({"jsonrpc": "2.0", "id": id, "error": said}, "400 Bad Request")

    async with in_front(Elsewhere(only(CALL, fails))) as (server, _, client):
        assert (await client.ask(CALL, {"name": "x", "arguments": {}}))["error"] == said
        assert len(await server.count(1, CALL)) == 1


async def test_of_one_that_is_busy_nobody_is_told_later_than_at_once_and_all_are_told_when() -> None:
    said, then = "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:09 GMT"
    busy = says(answer(status="503 Busy", Date=said, Retry_After=then))
    for method in (CALL, "tools/list"):
        async with in_front(Elsewhere(only(method, busy))) as (server, _, client):
            refused = await client.ask(method, {"name": "x", "arguments": {}})
            is_read = method != CALL
            told = {"reason": "server_busy", "retryable": is_read, "retry_after_s": 9}
            assert refused["error"]["data"] == told
            assert len(await server.count(1, method)) == 1


@pytest.mark.parametrize("kind", ["half a refusal", "cut resumptions", "empty resumptions"])
async def test_what_would_go_on_for_ever_is_told(kind: str) -> None:
    streams = {"cut resumptions", "empty resumptions"}

    async def begun(asked: Asked, wire: Wire) -> bytes | None:
        if kind == "half a refusal":
            return b"HTTP/1.1 500 Oh\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nx"
        return await sends_and_cuts(stream_head() + event(PROGRESS, id="1", retry=1))(asked, wire)

    async def resumed(asked: Asked, wire: Wire) -> bytes | None:
        if "last-event-id" not in asked.headers or kind not in streams:
            return b""
        ends = (
            sends_and_cuts(b"") if kind == "cut resumptions" else sends_and_ends(stream_head() + LAST_CHUNK)
        )
        return await ends(asked, wire)

    async def special(asked: Asked, wire: Wire) -> bytes | None:
        return await (resumed if asked.method == "GET" else only(CALL, begun))(asked, wire)

    reasons = {"half a refusal": "http_500"}
    async with in_front(Elsewhere(special)) as (_, _, client):
        async with within(30):
            refused = await client.ask(CALL, {"name": "x", "arguments": {}})
        assert refused["error"]["data"]["reason"] == reasons.get(kind, "connection_lost"), refused


@pytest.mark.parametrize(
    ("fault", "transport", "reason", "told"),
    [
        (says(answer(status="405 No")), "auto", "not_mcp", "no MCP server at this URL (405)"),
        (says(answer(status="405 No")), "sse", "not_mcp", "and is --transport sse what it speaks?"),
        (refuses("200 OK"), "auto", "initialize_failed", "it refuses initialize: No, said the server ("),
    ],
)
async def test_what_is_of_no_use_is_told_in_words_for_people(
    fault: Fault, transport: Literal["auto", "sse"], reason: str, told: str
) -> None:
    async with (
        raw_server(fault) as server,
        hosting(remote=RemoteOptions(url=server.url, transport=transport)) as host,
    ):
        await until(lambda: any(vars(one)["state"] == "failed" for one in host.events("state")))
        line = host.events("state")[-1]
        assert vars(line)["reason"] == reason
        assert told in line.getMessage() and "{" not in line.getMessage()
