"""Whatever the client and the server do, `mooring stdio` holds no more and waits no longer than it says."""

import asyncio
import json
from functools import partial
from itertools import islice

import pytest

from mooring.host import stdio
from mooring.http.client import Client
from mooring.http.client_limits import ClientLimits
from mooring.remote.policy import RemotePolicy
from mooring.remote.waits import JITTER, delays_s
from tests.faults.test_stdio_server import CALL, McpScript, always, only, result
from tests.raw_server import LAST_CHUNK, Asked, Wire, answer, chunk, event, raw_server, stream_head
from tests.stdio_client import QUICK, speaking
from tests.support import until, within


async def never(_asked: Asked, wire: Wire) -> None:
    await wire.closed_by_peer()


async def test_calls_in_flight_are_counted() -> None:
    script = McpScript(only("tools/call", never))
    async with (
        raw_server(script) as server,
        speaking(server.url, max_calls=3, drain_timeout_s=0.0) as client,
    ):
        await client.initialize()
        for _ in range(3):
            await client.request("tools/call", CALL)
        await server.count(3, "tools/call")
        assert (await client.error("tools/list"))["data"] == {"reason": "too_many_calls", "retryable": True}


async def test_answers_of_the_client_wait_while_calls_have_all_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = ClientLimits(max_connections=3, place_timeout_s=0.05)
    monkeypatch.setattr(stdio, "Client", partial(Client, limits=few))
    calls: list[tuple[Asked, Wire]] = []

    async def asking(asked: Asked, wire: Wire) -> None:
        calls.append((asked, wire))
        question = {"jsonrpc": "2.0", "id": f"q{len(calls)}", "method": "ping"}
        wire.send(stream_head() + event(question))
        if len(calls) == 2:
            await wire.closed_by_peer()

    async with (
        raw_server(McpScript(only("tools/call", asking))) as server,
        speaking(server.url, drain_timeout_s=0.0) as client,
    ):
        await client.initialize()
        await server.count(1, "GET")  # which is the first
        ids = [await client.request("tools/call", CALL) for _ in range(2)]
        for number in (1, 2):
            await client.message(lambda one, number=number: one.get("id") == f"q{number}")  # type: ignore[misc]
        await client.respond("q1", {})
        for _ in range(3):
            error = await client.error("tools/call", CALL)
            assert error["data"] == {"reason": "too_busy", "retryable": True}, error
        assert not client.events("unreachable") and len(calls) == 2
        asked, wire = calls[0]
        wire.send(event(result(asked, {})) + LAST_CHUNK)
        assert "result" in await client.answer(ids[0])
        async with within():
            while not any(b'"q1"' in one.body for one in server.requests):
                await asyncio.sleep(0.01)


async def test_what_calls_hold_together_is_bounded() -> None:
    script = McpScript(only("tools/call", never))
    large = {"name": "t", "arguments": {"x": "y" * 850}}
    async with (
        raw_server(script) as server,
        speaking(server.url, max_message_bytes=1000, shared_bytes=1, drain_timeout_s=0.0) as client,
    ):
        await client.initialize()
        for _ in range(4):
            await client.request("tools/call", large)
        await server.count(4, "tools/call")
        assert (await client.error("tools/call", large))["data"] == {"reason": "too_busy", "retryable": True}
        await client.notify("notifications/large", large)
        await until(lambda: [r for r in client.records if "was dropped" in r.getMessage()])


async def test_what_answers_hold_together_is_bounded() -> None:
    async def partly(asked: Asked, wire: Wire) -> None:
        body = json.dumps(result(asked, {"x": "y" * 900})).encode()
        wire.send(answer(body)[:-1])
        await wire.closed_by_peer()

    async with (
        raw_server(McpScript(only("tools/call", partly))) as server,
        speaking(server.url, max_message_bytes=1000, shared_bytes=1, drain_timeout_s=0.0) as client,
    ):
        await client.initialize()
        for _ in range(5):
            await client.request("tools/call", CALL)
        error = (await client.message(lambda one: "error" in one))["error"]
        assert error["data"] == {"reason": "too_busy", "retryable": False}


async def test_an_answer_that_is_too_long_fails_its_own_call_only() -> None:
    async def long(asked: Asked, _wire: Wire) -> bytes:
        message = result(asked, {"x": "y" * 10_000})
        if asked.message["params"]["name"] == "json":
            return answer(message)
        return stream_head() + event(message)

    script = McpScript(only("tools/call", long))
    async with raw_server(script) as server, speaking(server.url, max_message_bytes=10_000) as client:
        await client.initialize()
        for name in ("json", "events"):
            error = await client.error("tools/call", {"name": name})
            assert error["data"]["reason"] == "message_too_long"
        assert await client.result("tools/list")


async def test_questions_that_the_client_does_not_answer_are_counted() -> None:
    script = McpScript()
    async with raw_server(script) as server, speaking(server.url, max_asked=2) as client:
        await client.initialize()
        await until(lambda: script.stream is not None)
        assert script.stream is not None
        for n in range(3):
            script.stream.send(event({"jsonrpc": "2.0", "id": n, "method": "roots/list"}))
        await until(lambda: [asked for asked in server.requests if asked.body and "error" in asked.message])
        [refusal] = [a.message for a in server.requests if a.body and "error" in a.message]
        assert refusal["id"] == 2
        assert len([one for one in client.messages if one.get("method") == "roots/list"]) == 2


async def test_notifications_that_wait_are_counted() -> None:
    go_on = asyncio.Event()

    async def slowly(_asked: Asked, _wire: Wire) -> bytes:
        await go_on.wait()
        return answer(status="202 Accepted")

    script = McpScript(only("notifications/x", slowly))
    async with raw_server(script) as server, speaking(server.url, max_notes=2) as client:
        await client.initialize()
        await server.count(1, "GET")  # it follows `initialized`
        for _ in range(4):
            await client.notify("notifications/x")
        await until(lambda: sum("was dropped" in r.getMessage() for r in client.records) == 2)
        go_on.set()
        await server.count(2, "notifications/x")


async def test_a_server_that_never_takes_a_notification_holds_up_no_other_for_ever() -> None:
    script = McpScript(only("notifications/x", never))
    async with raw_server(script) as server, speaking(server.url, note_timeout_s=0.05) as client:
        await client.initialize()
        await client.notify("notifications/x")
        await client.notify("notifications/y")
        await server.count(1, "notifications/y")
        assert len(await server.count(1, "notifications/x")) == 1


async def test_a_server_that_is_mute_when_the_session_is_opened_anew_is_asked_again() -> None:
    script = McpScript(only("GET", always(answer(status="405 No"))))
    mute = 0

    async def sometimes_mute(asked: Asked, wire: Wire) -> bytes | None:
        nonlocal mute
        if asked.method == "POST" and asked.message.get("method") == "initialize" and mute:
            mute -= 1
            await wire.closed_by_peer()
            return None
        return await script(asked, wire)

    async with raw_server(sometimes_mute) as server, speaking(server.url, handshake_timeout_s=0.1) as client:
        await client.initialize()
        script.known.clear()
        mute = 2
        assert await client.result("tools/call", CALL)
        assert len(await server.count(4, "initialize")) == 4


async def test_a_server_that_does_not_hear_of_the_end_is_not_waited_for() -> None:
    script = McpScript(only("DELETE", never))
    async with raw_server(script) as server, speaking(server.url, farewell_timeout_s=0.05) as client:
        await client.initialize()
        client.close_stdin()
        assert await client.ended() == 0
        await server.count(1, "DELETE")


async def test_waits_between_attempts_grow_up_to_their_bound() -> None:
    policy = RemotePolicy()
    delays = list(islice(delays_s(policy), 12))
    assert policy.first_wait_s <= delays[0] <= policy.first_wait_s * (1 + JITTER)
    assert policy.longest_wait_s <= delays[-1] <= policy.longest_wait_s * (1 + JITTER)
    assert QUICK["first_wait_s"] < policy.first_wait_s


async def test_a_client_that_does_not_read_gets_everything_when_it_does() -> None:
    async def large(asked: Asked, _wire: Wire) -> bytes:
        message = result(asked, {"x": "y" * 500_000})
        if asked.message["params"]["name"] == "json":
            return answer(message)
        return stream_head() + event(message) + chunk(b"")

    async with raw_server(McpScript(only("tools/call", large))) as server, speaking(server.url) as client:
        await client.initialize()
        client.stop_reading()
        ids = [await client.request("tools/call", {"name": "json" if n % 2 else "events"}) for n in range(20)]
        await server.count(20, "tools/call")
        client.read()
        for id in ids:
            assert len((await client.answer(id))["result"]["x"]) == 500_000
