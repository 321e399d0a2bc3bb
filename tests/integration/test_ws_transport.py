"""MCP over WebSocket: the client of the `websockets` package, a real host, real servers."""

import asyncio
import json
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.hosting import DEMO, SCRIPTED, hosting
from tests.http_client import Peer
from tests.integration.test_eras import HANDSHAKE, MODERN
from tests.mcp_client import Json, McpClient, client_of
from tests.support import alive, suspend, until, within
from tests.websocket_client import BINARY, TEXT, WsClient, frame, opened, read_frame, upgrade, ws_client

META = "io.modelcontextprotocol/"
STATED = {"_meta": {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def sleeping(seconds: float, **meta: Any) -> Json:
    return {"name": "sleep", "arguments": {"seconds": seconds}, **({"_meta": meta} if meta else {})}


async def test_a_session_from_its_first_to_its_last_word() -> None:
    async with hosting(DEMO) as host:
        async with ws_client(host.port, path="/test/ws", version="") as client:
            assert client.connection.subprotocol == "mcp"
            result = await client.initialize()
            assert result["protocolVersion"] == "2025-11-25"
            opened = await host.logged("session_opened")
            assert opened.transport == "websocket"  # type: ignore[attr-defined]
            text = "über 🚢 \u2028 9007199254740993"
            assert await client.text("echo", text=text) == text
            assert await client.text("add", a=2, b=3) == "5"
            # Many at once, answered as they come.
            ids = [await client.send("tools/call", sleeping(0.2)) for _ in range(20)]
            ids.append(await client.send("ping"))
            answers = [await client.message() for _ in ids]
            assert {answer["id"] for answer in answers} == set(ids) and answers[0]["id"] == ids[-1]
        await host.logged("session_closed")


async def test_progress_questions_logs_and_cancellation() -> None:
    abilities = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
    async with hosting(DEMO) as host, ws_client(host.port, version="") as client:
        await client.initialize(capabilities=abilities)
        # Progress
        id = await client.send("tools/call", {**sleeping(0.3, progressToken="p")})
        assert "result" in await client.answer(id)
        assert {note["params"]["progressToken"] for note in client.notes} == {"p"}
        # What the server asks, answered by the client
        id = await client.send("tools/call", {"name": "roots", "arguments": {}})
        question = await client.message()
        assert question["method"] == "roots/list"
        await client.respond(question["id"], {"roots": [{"uri": "file:///harbour"}]})
        assert "file:///harbour" in json.dumps(await client.answer(id))
        # Logs, which belong to no call
        await client.result("logging/setLevel", {"level": "debug"})
        client.notes.clear()
        await client.text("log", level="warning", message="hear, hear")
        await client.result("ping")
        assert any(note["method"] == "notifications/message" for note in client.notes)
        # Cancellation: the call is never answered by the server, and by us within its bound
        id = await client.send("tools/call", sleeping(600))
        await client.notify("notifications/cancelled", {"requestId": id})
        answer = await client.answer(id)
        assert "error" in answer or answer["result"].get("isError")
        assert await client.text("echo", text="still here") == "still here"


async def test_what_is_out_of_order_or_malformed_is_told_and_the_connection_stays() -> None:
    async with hosting(SCRIPTED) as host, ws_client(host.port, version="") as client:
        for bad, code in (
            ("{", -32700),
            ("", -32700),
            ("nonsense", -32700),
            ('{"jsonrpc":"1.0","id":1,"method":"x"}', -32600),
            ('{"jsonrpc":"2.0","method":"initialize"}', -32600),
            ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
            ("[]", -32600),
        ):
            await client.connection.send(bad)
            answer = await client.message()
            assert (answer["id"], answer["error"]["code"]) == (None, code), bad
        # Before `initialize`
        assert (await client.ask("x/pid"))["error"]["code"] == -32600
        await client.notify("notifications/initialized")
        await client.respond("nobody asked", {})
        assert (await client.ask("initialize", {"padding": "x" * 300_000}))["error"]["code"] == -32600
        await client.initialize()
        # Once is enough
        assert (await client.ask("initialize", HELLO))["error"]["code"] == -32600
        await client.connection.send("{")
        assert (await client.answer(None))["error"]["code"] == -32700
        # Line breaks are white space, and never a second line
        await client.connection.send('{"jsonrpc":"2.0",\r\n"id":"l",\n"method":"x/any"}')
        assert (await client.answer("l"))["result"] == {"method": "x/any"}
        # An id in use
        held = await client.send("x/hold")
        assert (await client.ask("x/any", id=held))["error"]["code"] == -32600


BOTH = pytest.mark.parametrize("server", [HANDSHAKE, MODERN], ids=["handshake", "modern"])


@BOTH
@pytest.mark.parametrize("session", ["", "2025-11-25"])
async def test_requests_of_the_stateless_revision_need_no_session(
    server: tuple[str, ...], session: str
) -> None:
    async with hosting(server) as host, ws_client(host.port, version=session) as client:
        discovered = await client.result("server/discover", STATED)
        assert "2026-07-28" in discovered["supportedVersions"]
        echo = {"name": "echo", "arguments": {"a": 1}, **STATED}
        result = await client.result("tools/call", echo)
        assert result["resultType"] == "complete"
        assert json.loads(result["content"][0]["text"])["arguments"] == {"a": 1}
        # Beside a session, whose ids are its own
        if session:
            assert json.loads(await client.text("echo", b=2))["arguments"] == {"b": 2}
        # Progress, under the client's token
        meta = {**STATED["_meta"], "progressToken": "p"}
        call = await client.send("tools/call", {"name": "progress", "_meta": meta})
        await client.answer(call)
        told = [note["params"] for note in client.notes if note["method"] == "notifications/progress"]
        assert [params["progressToken"] for params in told] == ["p"] * 3
        # A question is part of the answer, and is answered by asking again
        meta = {**STATED["_meta"], f"{META}clientCapabilities": {"elicitation": {}}}
        asked = await client.result("tools/call", {"name": "ask", "_meta": meta})
        assert asked["resultType"] == "input_required"
        [key] = asked["inputRequests"]
        answered = {
            "name": "ask",
            "_meta": meta,
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "decline"}},
        }
        assert "decline" in (await client.result("tools/call", answered))["content"][0]["text"]


@BOTH
async def test_listening_over_a_websocket(server: tuple[str, ...]) -> None:
    async with hosting(server) as host, ws_client(host.port, version="") as client:
        wanted = {"notifications": {"toolsListChanged": True}, **STATED}
        listener = await client.send("subscriptions/listen", wanted)
        note = await client.message()
        assert note["method"] == "notifications/subscriptions/acknowledged"
        assert note["params"]["_meta"][f"{META}subscriptionId"] == listener
        await client.result("tools/call", {"name": "change", **STATED})
        assert "notifications/tools/list_changed" in [note["method"] for note in client.notes]
        # It ends with an answer of its own when we shut down, before the connection does.
        ending = asyncio.create_task(host.end())
        assert (await client.answer(listener))["result"]["resultType"] == "complete"
        assert (await client.closed())[0] == 1001
        assert await ending == 0


@BOTH
async def test_a_request_without_a_session_is_cancelled_by_a_note_or_the_end(server: tuple[str, ...]) -> None:
    async def heard(client: WsClient, what: str) -> int:
        said = await client.result("tools/call", {"name": "heard", **STATED})
        return str(said["content"][0]["text"]).count(what)

    async with hosting(server) as host, ws_client(host.port, version="") as watcher:
        async with ws_client(host.port, version="") as client:
            hold = {"name": "hold", **STATED}
            held = [await client.send("tools/call", hold) for _ in range(2)]
            async with within():
                while await heard(watcher, '"hold"') < 2:
                    pass
            assert (await client.ask("tools/call", hold, id=held[0]))["error"]["code"] == -32600
            await client.notify("notifications/cancelled", {"requestId": held[0]})
            async with within():
                while await heard(watcher, "notifications/cancelled") < 1:
                    pass
            await client.notify("notifications/cancelled", {"requestId": "of nobody"})
            await client.result("server/discover", STATED)
        async with within():
            while await heard(watcher, "notifications/cancelled") < 2:
                pass


@pytest.mark.parametrize("session", ["", "2025-11-25"])
async def test_calls_without_a_session_are_finished_before_the_goodbye(session: str) -> None:
    async with hosting(DEMO) as host, ws_client(host.port, version=session) as client:
        call = await client.send("tools/call", {**sleeping(1.0), **STATED})
        async with within():
            while not (await readyz(host.port))["calls_in_flight"]:
                pass
        ending = asyncio.create_task(host.end())
        assert "result" in await client.answer(call)
        assert (await client.closed())[0] == 1001
        assert await ending == 0


async def test_requests_without_a_session_are_bounded_and_checked() -> None:
    async with hosting(HANDSHAKE, max_calls=3) as host, ws_client(host.port, version="") as client:
        bad = {"_meta": {f"{META}protocolVersion": "2027-01-01", f"{META}clientCapabilities": {}}}
        error = (await client.ask("tools/list", bad))["error"]
        assert error["code"] == -32022 and "2026-07-28" in error["data"]["supported"]
        incomplete = {"_meta": {f"{META}protocolVersion": "2026-07-28"}}
        assert (await client.ask("tools/list", incomplete))["error"]["code"] == -32602
        for _ in range(3):
            await client.send("tools/call", {"name": "hold", **STATED})
        error = (await client.ask("server/discover", STATED))["error"]
        assert error["data"]["reason"] == "too_many_calls"


async def test_an_id_in_use_on_the_connection_is_refused_with_or_without_a_session() -> None:
    async with hosting(SCRIPTED, drain_timeout_s=0.1) as host, ws_client(host.port) as client:
        for first, second in ((None, STATED), (STATED, None)):
            id = f"held {first}"
            await client.send("x/hold", first, id=id)
            refused = await client.ask("x/any", second, id=id)
            assert refused["error"]["message"] == "a call with this id is still running"


async def test_a_server_that_is_killed_during_a_call() -> None:
    async with hosting(SCRIPTED) as host, ws_client(host.port) as client:
        pid = await client.pid()
        held = await client.send("x/hold")
        await client.result("x/any")
        os.kill(pid, signal.SIGKILL)
        data = (await client.answer(held))["error"]["data"]
        assert (data["reason"], data["exit"]["signal"]) == ("server_exited", 9)
        assert await client.pid() != pid
        await host.logged("session_recovered")
        assert any(note["method"] == "notifications/tools/list_changed" for note in client.notes)
        assert not host.events("session_closed")


async def test_a_server_that_refuses_may_be_tried_again_on_the_same_connection() -> None:
    async with hosting(DEMO) as host, ws_client(host.port, version="") as client:
        assert "error" in await client.ask("initialize", {"protocolVersion": 7})
        await client.initialize()
        assert await client.text("echo", text="at last") == "at last"


async def test_a_client_that_leaves_ends_its_session_and_its_server() -> None:
    async with hosting(SCRIPTED) as host:
        async with ws_client(host.port) as client:
            pid = await client.pid()
            await client.send("x/hold")
            client.connection.transport.abort()
            await host.logged("session_closed")
        await until(lambda: not alive(pid))
        assert (await readyz(host.port))["sessions"] == 0


async def readyz(port: int) -> Json:
    async with McpClient(port, path="/readyz") as probe:
        return json.loads((await probe.raw("GET")).body)  # type: ignore[no-any-return]


async def test_when_there_is_no_room_initialize_is_told_and_may_be_tried_again() -> None:
    async with hosting(SCRIPTED, max_sessions=1) as host, ws_client(host.port, version="") as late:
        async with ws_client(host.port):
            answer = await late.ask("initialize", HELLO)
            assert answer["error"]["data"] == {"reason": "too_many_sessions", "retryable": True}
        await host.logged("session_closed")
        await late.initialize()


async def test_a_slow_reader_holds_back_its_own_server_only() -> None:
    """Answers of 50 MB in all: they stay in the pipe of the server, not in our memory."""
    params = {"name": "big", "arguments": {"bytes": 500_000}}
    async with hosting(DEMO) as host, client_of(host.port) as other:
        async with raw_ws(host.port) as peer:
            for id in range(100):
                message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
                peer.send(frame(TEXT, json.dumps(message).encode()))
            async with within():
                while await held_bytes(host.port) < 1_000_000:
                    pass
            for _ in range(20):
                assert await other.text("echo", text="others go on")
                assert await held_bytes(host.port) < 5_000_000
            async with within(60):
                for id in range(100):
                    answer = json.loads((await read_frame(peer.reader)).data)
                    assert answer["id"] == id and len(str(answer["result"])) > 500_000
        await until(lambda: len(host.events("session_closed")) == 1)
        async with within():
            while await held_bytes(host.port):
                pass


async def test_a_listener_that_reads_slowly_is_told_what_it_will_hear() -> None:
    """News it may miss then, but not the word that it is heard."""
    big = {"name": "big", "arguments": {"bytes": 500_000}, **STATED}
    listen = {"notifications": {"toolsListChanged": True}, **STATED}
    async with hosting(DEMO) as host, raw_ws(host.port) as peer:
        for id in range(20):
            message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": big}
            peer.send(frame(TEXT, json.dumps(message).encode()))
        message = {"jsonrpc": "2.0", "id": "news", "method": "subscriptions/listen", "params": listen}
        peer.send(frame(TEXT, json.dumps(message).encode()))
        async with McpClient(host.port, path="/metrics") as probe, within():
            while b'calls_in_flight{server="test"} 0' not in (await probe.raw("GET")).body:
                pass
        async with within(60):
            while b"notifications/subscriptions/acknowledged" not in (await read_frame(peer.reader)).data:
                pass


class raw_ws:
    """A raw peer, upgraded and initialized, that reads only when it is told to."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Peer:
        self._peer = Peer(*await asyncio.open_connection("127.0.0.1", self._port, limit=1000))
        await opened(self._peer, "/ws")
        hello = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO}
        self._peer.send(frame(TEXT, json.dumps(hello).encode()))
        async with within():
            assert b'"result"' in (await read_frame(self._peer.reader)).data
        return self._peer

    async def __aexit__(self, *args: object) -> None:
        await self._peer.aclose()


async def held_bytes(port: int) -> float:
    async with McpClient(port, path="/metrics") as probe:
        page = (await probe.raw("GET")).body.decode()
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("mooring_held_bytes"))


async def test_a_server_that_does_not_read_holds_nobody_else_up() -> None:
    async with hosting(SCRIPTED) as host, ws_client(host.port) as stuck, ws_client(host.port) as other:
        await suspend(await stuck.pid())
        for _ in range(20):
            await stuck.send("x/any", {"padding": "x" * 100_000})
        assert await other.pid()


async def test_a_binary_message_ends_the_connection_with_1003() -> None:
    async with hosting(SCRIPTED) as host:
        async with ws_client(host.port) as client:
            await client.connection.send(b"{}")
            assert (await client.closed())[0] == 1003
        async with raw_ws(host.port) as peer:
            peer.send(frame(BINARY, b"{}"))
            assert (await read_frame(peer.reader)).code == 1003


async def test_a_message_over_the_limit_ends_the_connection_with_1009() -> None:
    async with hosting(SCRIPTED, max_message_bytes=100_000) as host, ws_client(host.port) as client:
        assert "result" in await client.ask("x/any", {"padding": "x" * 90_000})
        await client.send("x/any", {"padding": "x" * 110_000})
        assert (await client.closed())[0] == 1009


async def test_a_first_message_right_behind_the_request() -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    async with hosting(SCRIPTED) as host, within():
        peer = Peer(*await asyncio.open_connection("127.0.0.1", host.port))
        peer.send(upgrade("/ws") + frame(TEXT, json.dumps(hello).encode()))
        assert (await peer.head()).status == 101
        assert json.loads((await read_frame(peer.reader)).data)["id"] == 1
        await peer.aclose()


async def test_the_guard_judges_before_anything_is_upgraded(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("alice 0123456789abcdef\n")
    tokens.chmod(0o600)
    async with hosting(SCRIPTED, listen={"token_file": tokens}) as host:
        uri = f"ws://127.0.0.1:{host.port}/ws"
        token = {"Authorization": "Bearer 0123456789abcdef"}
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer 0123456789abcdeX"}, 401),
            ({**token, "Origin": "https://evil.example"}, 403),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(uri, proxy=None, additional_headers=headers)
            assert refused.value.response.status_code == status
        peer = Peer(*await asyncio.open_connection("127.0.0.1", host.port))
        peer.send(
            upgrade("/ws", "Authorization: Bearer 0123456789abcdef\r\n").replace(
                b"localhost", b"evil.example"
            )
        )
        assert (await peer.answer()).status == 403
        await peer.aclose()
        async with ws_client(
            host.port, additional_headers={**token, "Origin": "http://localhost:6274"}
        ) as client:
            assert await client.pid()


async def test_who_offers_other_subprotocols_only_is_told_which_one_it_takes() -> None:
    async with hosting(SCRIPTED) as host:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{host.port}/ws", proxy=None, subprotocols=["wamp"])  # type: ignore[list-item]
        assert refused.value.response.status_code == 400
        assert b"Sec-WebSocket-Protocol: mcp" in (refused.value.response.body or b"")
        async with ws_client(host.port, subprotocols=None) as client:
            assert client.connection.subprotocol is None
            assert await client.pid()
        async with McpClient(host.port, path="/ws") as plain:
            assert (await plain.raw("POST", b"{}")).status == 405


async def test_over_tls_and_over_a_unix_socket(tmp_path: Path) -> None:
    authority, trust = trustme.CA(), ssl.create_default_context()
    issued = authority.issue_cert("127.0.0.1")
    authority.configure_trust(trust)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    secured = hosting(SCRIPTED, listen={"tls_cert": cert, "tls_key": key})
    async with secured as host, ws_client(host.port, ssl=trust) as client:
        assert await client.pid()
    path = tmp_path / "socket"
    async with hosting(SCRIPTED, listen={"unix": path}), ws_client(1, unix=path) as client:
        assert await client.pid()


async def test_what_the_pages_tell() -> None:
    async with (
        hosting(SCRIPTED) as host,
        ws_client(host.port),
        McpClient(host.port, path="/metrics") as probe,
    ):
        page = (await probe.raw("GET")).body.decode()
        assert 'mooring_websockets{server="test"} 1' in page
        assert (await readyz(host.port))["sessions"] == 1


async def test_session_ends_with_its_reason(tmp_path: Path) -> None:
    """A server that comes back with another revision cannot go on with the session: its client is told."""
    server = (*SCRIPTED, "--state", str(tmp_path / "starts"), "--version-after", "3:2024-11-05")
    async with hosting(server, spare=0) as host, ws_client(host.port) as client:
        os.kill(await client.pid(), signal.SIGKILL)
        assert (await client.closed())[0] == 1011
        await host.logged("session_closed")


async def test_at_a_shutdown_each_socket_closes_when_its_calls_are_answered() -> None:
    async with (
        hosting(DEMO) as host,
        ws_client(host.port, version="") as visitor,
        ws_client(host.port) as idle,
        ws_client(host.port) as busy,
    ):
        call = await busy.send("tools/call", sleeping(1.0))
        await busy.result("ping")
        ending = asyncio.create_task(host.end())
        await host.logged("draining")
        assert (await visitor.closed())[0] == 1001
        assert (await idle.closed())[0] == 1001
        assert await busy.text("echo", text="still answered") == "still answered"
        assert "result" in await busy.answer(call)
        assert await busy.closed() == (1001, "Mooring is shutting down")
        assert await ending == 0


async def test_at_the_deadline_a_call_gets_its_error_and_the_socket_1001() -> None:
    async with hosting(DEMO, drain_timeout_s=2.0) as host, ws_client(host.port) as client:
        call = await client.send("tools/call", sleeping(600))
        await client.result("ping")
        ending = asyncio.create_task(host.end())
        answer = await client.answer(call)
        assert answer["error"]["data"]["reason"] == "shutting_down"
        assert (await client.closed())[0] == 1001
        assert await ending == 3


async def test_who_does_not_answer_the_goodbye_holds_no_shutdown_up() -> None:
    async with hosting(SCRIPTED) as host, raw_ws(host.port) as peer:
        ending = asyncio.create_task(host.end())
        async with within():
            assert (await read_frame(peer.reader)).code == 1001
            assert await peer.at_end()
        assert await ending == 0


async def test_nobody_is_upgraded_once_new_sessions_are_refused() -> None:
    async with hosting(DEMO) as host, ws_client(host.port) as busy:
        fresh = Peer(*await asyncio.open_connection("127.0.0.1", host.port))
        await busy.send("tools/call", sleeping(1.0))
        await busy.result("ping")
        ending = asyncio.create_task(host.end())
        await host.logged("draining")
        async with within():
            fresh.send(upgrade("/ws"))
            answer = await fresh.answer()
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert "retry-after" in answer.headers
        await fresh.aclose()
        assert (await busy.closed())[0] == 1001
        assert await ending == 0


async def test_a_listener_does_not_keep_a_connection_whose_session_has_ended(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    server = (*SCRIPTED, "--state", str(starts), "--version-after", "50:2025-03-26")
    async with hosting(server, spare=0) as host, ws_client(host.port) as client:
        await client.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}, **STATED})
        assert (await client.message())["method"] == "notifications/subscriptions/acknowledged"
        starts.write_bytes(b"x" * 50)  # the next process speaks another revision: that ends the session
        os.kill(await client.pid(), signal.SIGKILL)
        await host.logged("session_closed")
        async with within():
            await client.connection.wait_closed()
