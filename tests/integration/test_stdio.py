"""`mooring stdio` in front of a real Mooring, in one loop."""

import asyncio
import base64
import json
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.host.stdio import StdioOptions, run
from mooring.host.stop import Stop
from tests.hosting import SCRIPTED, hosting
from tests.mcp_client import emission
from tests.stdio_client import Json, modern, speaking
from tests.support import on_both_loops, until


@on_both_loops
async def test_a_conversation() -> None:
    async with hosting() as host, speaking(host.url) as client:
        result = await client.initialize()
        assert result["serverInfo"]["name"] == "mooring-demo"
        assert await client.text("echo", text="hé 😀") == "hé 😀"
        assert len(await client.text("big", bytes=3_000_000)) == 3_000_000
        assert await client.text("echo", text="x" * 3_000_000) == "x" * 3_000_000
        client.close_stdin()
        assert await client.ended() == 0
        await host.logged("session_closed")
    assert not client.events("unreachable")


async def test_messages_are_passed_on_to_the_byte_and_ids_as_they_are() -> None:
    async with hosting(SCRIPTED) as host, speaking(host.url) as client:
        await client.initialize()
        for id in (7, "seven", "ü", 2**53, 0, -1, ""):
            await client.request("x/echo", {"n": 2**64 - 1}, id=id)
            assert (await client.answer(id))["result"] == {"method": "x/echo"}
        line = b'{"method":"x/odd","params":{"z":1.0,"a":"\\u00e9"},"id":"odd","jsonrpc":"2.0"}'
        await client.write(line + b"\n")
        await client.answer("odd")
        heard = await client.result("x/heard")
        assert line in [base64.b64decode(item) for item in heard["lines"]]


async def test_fifty_calls_at_once_have_each_their_answer() -> None:
    async with hosting() as host, speaking(host.url) as client:
        await client.initialize()
        ids = [
            await client.request("tools/call", {"name": "add", "arguments": {"a": n, "b": 1}})
            for n in range(50)
        ]
        for n, id in enumerate(ids):
            answer = await client.answer(id)
            assert json.loads(answer["result"]["content"][0]["text"]) == n + 1
        assert all(len(client.answers(id)) == 1 for id in ids)


async def test_what_is_sent_before_the_handshake_is_answered_waits_for_it() -> None:
    """A server on a pipe reads one line after the other."""
    async with hosting() as host, speaking(host.url) as client:
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        first = await client.request("initialize", params)
        await client.notify("notifications/initialized")
        second = await client.request("tools/list")
        client.close_stdin()
        assert "result" in await client.answer(first)
        assert "result" in await client.answer(second)
        assert [one["id"] for one in client.messages] == [first, second]
        assert await client.ended() == 0


async def test_questions_of_the_server_and_progress_come_through() -> None:
    async with hosting() as host, speaking(host.url) as client:
        await client.initialize(capabilities={"elicitation": {}})
        params: Json = {"name": "ask", "arguments": {"message": "Who?"}}
        call = await client.request("tools/call", params)
        question = await client.message(lambda one: one.get("method") == "elicitation/create")
        await client.respond(question["id"], {"action": "accept", "content": {"answer": "me"}})
        assert "me" in json.dumps((await client.answer(call))["result"])
        params = {
            "name": "sleep",
            "arguments": {"seconds": 0.05, "steps": 3},
            "_meta": {"progressToken": "t"},
        }
        call = await client.request("tools/call", params)
        await client.answer(call)
        progress = [one for one in client.messages if one.get("method") == "notifications/progress"]
        assert len(progress) >= 3


async def test_what_belongs_to_no_call_comes_on_the_stream_of_its_own() -> None:
    async with hosting(SCRIPTED) as host, speaking(host.url) as client:
        await client.initialize()
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await client.result("x/emit", emission(note))
        await client.message(lambda one: one.get("method") == "notifications/tools/list_changed")


async def test_a_cancelled_call_is_cancelled_at_the_server_and_answered_once() -> None:
    async with hosting(SCRIPTED) as host, speaking(host.url, cancel_wait_s=0.05) as client:
        await client.initialize()
        call = await client.request("x/hold")
        await client.result("x/echo")
        await client.notify("notifications/cancelled", {"requestId": call, "reason": "enough"})
        assert (await client.answer(call))["error"]["data"]["reason"] == "cancelled"
        heard = await client.result("x/heard")
        assert any(b"enough" in base64.b64decode(item) for item in heard["lines"])
        assert len(client.answers(call)) == 1


async def test_the_death_of_the_server_process_is_an_error_and_no_more() -> None:
    async with hosting() as host, speaking(host.url) as client:
        await client.initialize()
        answer = await client.error("tools/call", {"name": "crash", "arguments": {}})
        assert answer["data"]["reason"] == "server_exited"
        assert await client.text("echo", text="still here") == "still here"


async def test_a_client_of_the_new_era_and_one_of_the_old_at_the_same_server() -> None:
    async with hosting() as host, speaking(host.url) as client:
        found = await client.result("server/discover", modern())
        assert "2026-07-28" in found["supportedVersions"]
        await client.initialize()
        assert await client.result("ping") == {}


async def test_batches_only_where_they_exist() -> None:
    batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in ("a", "b")]
    async with hosting() as host, speaking(host.url) as client:
        await client.initialize("2025-03-26")
        await client.send(batch)
        assert (await client.answer("a"))["result"] == (await client.answer("b"))["result"] == {}
    async with hosting() as host, speaking(host.url) as client:
        await client.initialize()
        await client.send(batch)
        assert (await client.message(lambda one: "error" in one))["error"]["code"] == -32600


async def test_garbage_on_stdin_is_answered_and_what_follows_works() -> None:
    async with hosting() as host, speaking(host.url, max_message_bytes=100_000) as client:
        await client.initialize()
        for line, code in (
            (b"hello", -32700),
            (b'{"jsonrpc":"1.0","id":1,"method":"x"}', -32600),
            (b"\xff", -32700),
        ):
            since = len(client.messages)
            await client.write(line + b"\n\r\n\n")
            message = await client.message(lambda one: "error" in one, since=since)
            assert (message["error"]["code"], message["id"]) == (code, None)
        long = {"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {"x": "y" * 100_000}}
        await client.send(long)
        assert (await client.answer("long"))["error"]["data"]["reason"] == "message_too_long"
        assert await client.text("echo", text="on") == "on"


async def test_an_id_in_use_and_a_second_handshake_are_refused() -> None:
    async with hosting(SCRIPTED) as host, speaking(host.url, drain_timeout_s=0.0) as client:
        await client.initialize()
        await client.request("x/hold", id="same")
        await client.request("x/echo", id="same")
        assert (await client.answer("same"))["error"]["data"]["reason"] == "id_in_use"
        error = await client.error("initialize", {"protocolVersion": "2025-11-25"})
        assert error["data"]["reason"] == "already_initialized"


async def test_over_a_unix_socket_and_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("me 0123456789abcdef\n")
    listen = {"unix": tmp_path / "socket", "token_file": tmp_path / "tokens"}
    async with hosting(listen=listen) as host:
        async with speaking(host.url) as client:
            error = await client.error("ping")
            assert error["data"]["reason"] == "unauthorized"
            assert "--token-file" in client.events("unauthorized")[0].getMessage()
        async with speaking(host.url, options={"token_file": tmp_path / "tokens"}) as client:
            await client.initialize()
            assert await client.text("echo", text="hi") == "hi"


async def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("new-0123456789abcdef\n")
    (tmp_path / "mine").write_text("old-0123456789abcdef\n")
    async with (
        hosting(listen={"token_file": tmp_path / "tokens"}) as host,
        speaking(host.url, options={"token_file": tmp_path / "mine"}) as client,
    ):
        assert (await client.error("ping"))["data"]["reason"] == "unauthorized"
        (tmp_path / "mine").write_text("new-0123456789abcdef\n")
        await client.initialize()


@on_both_loops
async def test_input_from_a_file_and_from_nothing(tmp_path: Path) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    (tmp_path / "in").write_bytes(line + b"\n" + line.replace(b'"id":1', b'"id":2'))
    async with hosting() as host:
        for name in ("in", "/dev/null"):
            with (tmp_path / name).open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
                options = StdioOptions(url=host.url, stdin=stdin.fileno(), stdout=stdout.fileno())
                assert await run(options, _never()) == 0
            lines = (tmp_path / "out").read_bytes().splitlines()
            assert len(lines) == (2 if name == "in" else 0)


def _never() -> Stop:
    return Stop(asyncio.get_running_loop().time)


async def test_a_url_that_is_none() -> None:
    with pytest.raises(UserError):
        await run(StdioOptions(url="localhost:4670"), _never())


async def test_stdout_that_is_closed_ends_it() -> None:
    async with hosting(SCRIPTED) as host, speaking(host.url) as client:
        await client.initialize()
        await client.request("x/hold")
        client.close_stdout()
        await client.request("x/echo")
        assert await client.ended() == 0


async def test_whoever_has_no_patience_is_told_that_the_server_cannot_be_reached_and_goes_on_when_it_can(
    tmp_path: Path,
) -> None:
    socket = tmp_path / "server.sock"
    async with speaking(f"unix:{socket}", patience_s=0) as client:
        id = await client.request("tools/list")
        error = (await client.answer(id))["error"]
        assert error["data"] == {"reason": "unreachable", "retryable": True}
        assert "not executed" in error["message"] and "no such socket" in error["message"]
        async with hosting(listen={"unix": socket}):
            await until(lambda: client.events("reachable"))
            await client.initialize()
            assert await client.text("echo", text="hello") == "hello"
        # The session was opened, and its server is gone: what is asked for now is not waited for either.
        id = await client.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        assert (await client.answer(id))["error"]["data"]["reason"] in ("unreachable", "connection_lost")
        id = await client.request("tools/list")
        assert (await client.answer(id))["error"]["data"]["reason"] == "unreachable"
        client.close_stdin()
        assert await client.ended() == 0
