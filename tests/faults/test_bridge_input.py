"""A server that does not read holds up its own clients, and nobody else; clients are kept in bounds too."""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack

import pytest

from tests.hosting import SCRIPTED, Host, hosting
from tests.http_client import Answer
from tests.mcp_client import Json, McpClient, client_of, emission
from tests.support import until, within

PAD = "x" * 100_000
"""A pipe and the high-water mark hold three of them."""


async def in_flight(host: Host, number: int) -> None:
    async with McpClient(host.port, path="/readyz") as probe, within():
        while json.loads((await probe.raw("GET")).body)["calls_in_flight"] != number:
            pass


async def stalled(client: McpClient) -> int:
    """From now on the server reads nothing; its pid."""
    pid = await client.pid()
    await client.ask("x/stall")
    return pid


async def fill(host: Host, client: McpClient, number: int) -> list[asyncio.Task[Json]]:
    """Calls that the server never reads, more than the pipe takes."""
    calls = [asyncio.create_task(client.ask("x/any", {"pad": PAD, "n": n})) for n in range(number)]
    await in_flight(host, number)
    return calls


async def test_only_the_clients_of_a_server_that_does_not_read_feel_it() -> None:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(hosting(SCRIPTED, max_message_bytes=1_000_000))
        client = await stack.enter_async_context(client_of(host.port))
        other = await stack.enter_async_context(client_of(host.port))
        pid = await stalled(client)
        calls = await fill(host, client, 6)
        note = asyncio.create_task(client.notify("x/note", {"held": "back"}))
        # More than may wait: told so at once, in words, while what waits goes on waiting.
        surplus = [asyncio.create_task(client.ask("x/any", {"pad": PAD})) for _ in range(20)]
        async with within():
            done, _ = await asyncio.wait([*calls, note, *surplus], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            answer: Json = task.result()  # type: ignore[assignment]
            assert answer["error"]["data"] == {"reason": "server_busy", "retryable": True}
        for _ in range(20):
            assert await other.pid() != pid
        assert not any(task.done() for task in calls)
        assert not note.done(), "its 202 is held back: the client should wait"
        # A new process reads: what the old one never read is sent to it, in order.
        os.kill(pid, signal.SIGKILL)
        for answer in await asyncio.gather(*calls):
            assert answer["result"] == {"method": "x/any"}
        await note
        answers = await asyncio.gather(*surplus)
        assert any("result" in answer for answer in answers) and any("error" in answer for answer in answers)


async def fill_up(host: Host, client: McpClient) -> list[asyncio.Task[Json]]:
    """Calls until no more are taken: the pipe is full, and so is what may wait for it."""
    calls: list[asyncio.Task[Json]] = []
    async with within():
        while not any(call.done() for call in calls):
            calls.append(asyncio.create_task(client.ask("x/any", {"pad": PAD, "n": len(calls)})))
            await asyncio.wait(calls, timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
    [refused] = [call for call in calls if call.done()]
    assert refused.result()["error"]["data"] == {"reason": "server_busy", "retryable": True}
    calls.remove(refused)
    return calls


async def test_a_notification_for_which_there_is_no_room_is_dropped_and_logged() -> None:
    async with hosting(SCRIPTED, max_message_bytes=250_000) as host, client_of(host.port) as client:
        pid = await stalled(client)
        calls = await fill_up(host, client)
        await client.notify("x/note", {"pad": PAD})  # 202: a dropped message must not hang its sender
        assert host.events("message_dropped")
        os.kill(pid, signal.SIGKILL)
        for answer in await asyncio.gather(*calls):
            assert answer["result"]


async def test_a_call_that_is_cancelled_while_it_waits_never_reaches_the_server() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        pid = await stalled(client)
        calls = await fill(host, client, 6)
        waiting = await client.send("POST", client.request("x/unwanted", id="w"))
        await in_flight(host, 7)
        await client.notify("notifications/cancelled", {"requestId": "w"})
        async with within():
            error = json.loads((await waiting.answer()).body)["error"]
        assert error["data"] == {"reason": "cancelled", "retryable": True}
        os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*calls)
        heard = await client.heard()
        assert not any(b"x/unwanted" in line or b"cancelled" in line for line in heard)
        numbers = [json.loads(line)["params"]["n"] for line in heard if b'"x/any"' in line]
        assert numbers == list(range(6)), "all others did, in order"


async def test_a_call_that_timed_out_while_it_waited_is_not_sent_after_all() -> None:
    async with hosting(SCRIPTED, call_timeout_s=0.5) as host, client_of(host.port) as client:
        pid = await stalled(client)
        for answer in await asyncio.gather(*await fill(host, client, 6)):
            assert answer["error"]["data"]["reason"] == "timeout"
        os.kill(pid, signal.SIGKILL)
        heard = await client.heard()
        assert not any(b'"x/any"' in line for line in heard)


STALLING = (
    sys.executable,
    "-c",
    # Answers x/stall, and only then, with nothing in flight, asks; then it reads no more.
    r"""
import json, sys, time
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"]})
    elif method == "x/stall":
        say(id=message["id"], result={})
        say(id="q", method="roots/list")
        time.sleep(3600)
    elif "id" in message:
        say(id=message["id"], result={})
""",
)


async def test_a_question_waits_on_while_calls_are_refused() -> None:
    """A call that was refused at once is no way to the client: the question must not be lost in it."""
    async with (
        hosting(STALLING, max_message_bytes=250_000, drain_timeout_s=0.2) as host,
        client_of(host.port) as client,
    ):
        await client.ask("x/stall")
        calls: list[asyncio.Task[Answer]] = []
        async with within():
            while not any(call.done() for call in calls):
                body = client.request("x/any", {"pad": PAD})
                calls.append(asyncio.create_task(client.raw("POST", body, Accept="application/json")))
                await asyncio.wait(calls, timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
        # No call so far could carry the question, and the next is refused at once.
        answer = await client.raw("POST", client.request("x/any", {"pad": PAD}))
        assert json.loads(answer.body)["error"]["data"]["reason"] == "server_busy"
        stream = await client.stream()
        assert (await stream.message())["id"] == "q"
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_five_thousand_notifications_arrive_in_order() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        peer = await client.peer()

        async def post() -> None:
            for n in range(5000):
                body = json.dumps({"jsonrpc": "2.0", "method": "x/note", "params": {"n": n}}).encode()
                peer.send(client.head("POST", body))
                await peer.writer.drain()

        posting = asyncio.create_task(post())
        async with within(60):
            for _ in range(5000):
                assert (await peer.answer()).status == 202
            await posting
        heard = [json.loads(line) for line in await client.heard()]
        assert [m["params"]["n"] for m in heard if m["method"] == "x/note"] == list(range(5000))


async def test_calls_of_one_session_are_counted() -> None:
    async with (
        hosting(SCRIPTED, max_calls=5, drain_timeout_s=0.2) as host,
        client_of(host.port) as client,
        client_of(host.port) as other,
    ):
        held = [await client.send("POST", client.request("x/hold", id=f"h{n}")) for n in range(4)]
        while len([line for line in await client.heard() if b"x/hold" in line]) < 4:
            pass
        await client.send("POST", client.request("x/hold", id="fifth"))
        await in_flight(host, 5)
        answer = await client.ask("x/any")
        assert answer["error"]["data"] == {"reason": "too_many_calls", "retryable": True}
        assert (await other.ask("x/any"))["result"]
        await client.notify("notifications/cancelled", {"requestId": "fifth"})  # no answer comes of itself
        for peer in held:
            await peer.aclose()
        assert (await other.ask("x/any"))["result"], "and closed connections cancel nothing"
        await in_flight(host, 5)


async def test_a_stalled_server_that_is_let_go_for_idleness_does_not_keep_its_senders_waiting() -> None:
    async with (
        hosting(SCRIPTED, idle_timeout_s=0.3, call_timeout_s=0.3) as host,
        client_of(host.port) as client,
    ):
        await stalled(client)
        await asyncio.gather(*[client.ask("x/any", {"pad": PAD}) for _ in range(6)])  # they time out
        note = asyncio.create_task(client.notify("x/note", {"n": 1}))
        await host.logged("session_idle")
        await note
        assert any(b"x/note" in line for line in await client.heard())


async def test_a_server_that_never_answers_initialize_is_given_up() -> None:
    async with (
        hosting((*SCRIPTED, "--mute"), handshake_timeout_s=0.5, spare=0) as host,
        McpClient(host.port) as client,
    ):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        answer = await client.raw("POST", client.request("initialize", params))
        if answer.status == 200:  # it came before the workload was known to have failed
            assert json.loads(answer.body)["error"]["data"]["reason"] == "initialize_timeout"
            assert "mcp-session-id" not in answer.headers
        await until(lambda: any(getattr(r, "state", "") == "failed" for r in host.events("state")))
        answer = await client.raw("POST", client.request("initialize", params))
        assert answer.status == 503
        assert json.loads(answer.body)["error"]["data"]["reason"] == "initialize_failed"
        async with McpClient(host.port, path="/readyz") as probe, within():
            while json.loads((await probe.raw("GET")).body)["instances"]:
                pass
            assert json.loads((await probe.raw("GET")).body)["sessions"] == 0


async def test_one_token_on_two_calls_still_serves_the_second() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        params = {"_meta": {"progressToken": "t"}}
        first = await client.send("POST", client.request("x/hold", params, id="first"))
        await in_flight(host, 1)
        second = await client.send("POST", client.request("x/hold", params, id="second"))
        await in_flight(host, 2)
        await client.emit({"jsonrpc": "2.0", "id": "first", "result": {}})
        async with within():
            assert (await first.answer()).status == 200
        progress = {"progressToken": "t", "progress": 1}
        await client.emit({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        await client.emit({"jsonrpc": "2.0", "id": "second", "result": {}})
        async with within():
            assert b"notifications/progress" in (await second.answer()).body


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_slow_stream_that_is_let_go_holds_its_server_back_no_longer(version: str) -> None:
    """The newest of too many streams is kept; the oldest, which nobody read, must not block what remains."""
    big: list[Json] = [
        {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": f"{n}", "pad": PAD}}
        for n in range(200)
    ]
    async with (
        hosting(SCRIPTED, unsent_bytes=10_000, max_streams=1) as host,
        client_of(host.port, version) as client,
    ):
        slow = await client.peer()
        slow.send(client.head("GET"))
        async with within():
            await slow.head()
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        flood = asyncio.create_task(client.ask("x/emit", emission(*big), Accept="application/json"))
        async with client_of(host.port) as other:
            for _ in range(20):
                assert await other.pid()
        assert not flood.done()
        newer = await client.stream()
        seen = [int((await newer.message())["params"]["uri"])]
        while seen[-1] < 199:
            seen.append(int((await newer.message())["params"]["uri"]))
        assert seen == list(range(seen[0], 200)), "what the older stream never sent is sent here"
        async with within():
            assert (await flood)["result"] == {"emitted": 200}
