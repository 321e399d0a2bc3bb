"""A dead child is an event, not an ending."""

import asyncio
import json
import os
import signal
from pathlib import Path

from mooring.supervise.restart import RestartPolicy
from tests.hosting import DEMO, SCRIPTED, Host, hosting
from tests.mcp_client import McpClient, client_of, emission
from tests.support import alive, suspend, until, within


async def kill(host: Host, pid: int) -> None:
    """kill -9, and wait until Mooring knows."""
    number = len(host.events("server_exited")) + 1
    os.kill(pid, signal.SIGKILL)
    await host.logged("server_exited", number)


async def heard_by(client: McpClient, text: bytes) -> None:
    while not any(text in line for line in await client.heard()):
        pass


async def test_calls_in_flight_get_a_typed_error_and_the_session_goes_on() -> None:
    async with hosting(DEMO) as host, client_of(host.port) as client:
        before = json.loads(await client.text("counter"))
        calls = [
            asyncio.create_task(client.ask("tools/call", {"name": "sleep", "arguments": {"seconds": 60}}))
            for _ in range(50)
        ]
        await _in_flight(host.port, 50)
        os.kill(before["pid"], signal.SIGKILL)
        for answer in await asyncio.gather(*calls):
            error = answer["error"]
            assert error["code"] == -32603
            assert error["data"] == {
                "reason": "server_exited",
                "retryable": False,
                "exit": {"code": None, "signal": 9},
            }
        after = json.loads(await client.text("counter"))
        assert after["pid"] != before["pid"] and after["count"] == 1


async def _in_flight(port: int, number: int) -> None:
    async with McpClient(port, path="/readyz") as probe, within():
        while json.loads((await probe.raw("GET")).body)["calls_in_flight"] < number:
            pass


async def test_no_server_is_told_twice_that_the_client_is_ready() -> None:
    async with hosting(SCRIPTED) as host, McpClient(host.port) as client:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        opened = await client.raw("POST", client.request("initialize", params))
        client.session = opened.headers["mcp-session-id"]
        pid = await client.pid()
        await suspend(pid)
        unread = asyncio.create_task(client.ask("x/any", {"text": "x" * 1_000_000}))
        await _in_flight(host.port, 1)
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        waiting = await client.send("POST", note)  # behind what the server does not read
        await _connections(host.port, 3)
        await kill(host, pid)
        assert "result" in await unread
        async with within():
            assert (await waiting.answer()).status == 202
        assert sum(b"notifications/initialized" in line for line in await client.heard()) == 1


async def _connections(port: int, number: int) -> None:
    """So many, ours included, have been heard by Mooring."""
    async with McpClient(port, path="/metrics") as probe, within():
        while f'mooring_connections{{server="test"}} {number}'.encode() not in (await probe.raw("GET")).body:
            pass


async def test_what_the_client_told_the_server_is_told_to_the_next_one(tmp_path: Path) -> None:
    argv = (*SCRIPTED, "--state", str(tmp_path / "starts"))
    async with hosting(argv, spare=0) as host, client_of(host.port) as client:
        await client.result("logging/setLevel", {"level": "debug"})
        await client.result("resources/subscribe", {"uri": "a://1"})
        await client.result("resources/subscribe", {"uri": "a://2"})
        await client.result("resources/unsubscribe", {"uri": "a://1"})
        first = await client.heard()
        news = await client.stream()
        await kill(host, await client.pid())
        second = await client.heard()
        assert second[:2] == first[:2], "initialize and initialized, to the byte"
        replayed = [json.loads(line) for line in second[2:4]]
        assert [(line["method"], line["params"]) for line in replayed] == [
            ("logging/setLevel", {"level": "debug"}),
            ("resources/subscribe", {"uri": "a://2"}),
        ]
        assert (await news.message())["method"] == "notifications/tools/list_changed"
        told = (await news.message())["params"]
        assert told["logger"] == "mooring" and "SIGKILL" in told["data"]


async def test_an_unasked_exit_0_is_an_exit_like_any_other() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        answer = await client.emit(exit=0)
        assert answer["error"]["data"]["exit"] == {"code": 0, "signal": None}
        assert await client.pid()


async def test_the_last_words_of_a_dying_server_are_delivered() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        last = {"jsonrpc": "2.0", "id": 1000, "result": {"last": "words"}}
        body = client.request("x/emit", emission(last, exit=3), id=1000)
        assert json.loads((await client.raw("POST", body)).body) == last
        assert await client.pid()


async def test_a_question_of_the_dead_is_withdrawn_and_its_late_answer_reaches_nobody() -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "?"}}
    async with hosting(SCRIPTED, drain_timeout_s=0.2) as host, client_of(host.port) as client:
        stream = await client.stream("POST", client.request("x/emit", emission(question, answer=False)))
        assert await stream.message() == question
        await kill(host, await client.pid())
        withdrawn, error = await stream.message(), await stream.message()
        assert withdrawn["method"] == "notifications/cancelled" and withdrawn["params"]["requestId"] == 1
        assert error["error"]["data"]["reason"] == "server_exited"
        # The next server asks under the same id; the late answer to the first must not reach it.
        again = await client.stream("POST", client.request("x/emit", emission(question, answer=False)))
        asked = await again.message()
        assert asked["params"] == question["params"] and asked["id"] != 1
        await client.respond(1, {"late": True})
        await client.respond(asked["id"], {"late": False})
        heard = [json.loads(line) for line in await client.heard()]
        assert {"jsonrpc": "2.0", "id": 1, "result": {"late": False}} in heard
        assert not any(line.get("result") == {"late": True} for line in heard)


async def test_with_retry_what_may_be_repeated_is_run_again_and_nothing_else() -> None:
    async with hosting(DEMO, retry=True) as host, client_of(host.port) as client:
        await client.result("tools/list")  # shows which tools say that they may be repeated
        pid = json.loads(await client.text("counter"))["pid"]
        tools = (("sleep", {"seconds": 1}), ("crash", {"after_ms": 600_000}))
        calls = [
            asyncio.create_task(client.ask("tools/call", {"name": name, "arguments": arguments}))
            for name, arguments in tools
        ]
        await _in_flight(host.port, 2)
        await client.text("echo", text="by now both have been read")
        await kill(host, pid)
        repeatable, other = await asyncio.gather(*calls)
        assert "result" in repeatable
        assert other["error"]["data"]["reason"] == "server_exited"


async def test_an_idle_child_is_ended_its_session_is_not() -> None:
    async with hosting(SCRIPTED, idle_timeout_s=0.3, spare=0) as host, client_of(host.port) as client:
        pid = await client.pid()
        await host.logged("session_idle")
        await until(lambda: not alive(pid))
        assert await client.pid() != pid


async def test_a_stream_that_is_open_keeps_the_child() -> None:
    async with hosting(SCRIPTED, idle_timeout_s=0.3) as host, client_of(host.port) as client:
        stream = await client.stream()
        pid = await client.pid()
        async with client_of(host.port) as other:
            await other.pid()
            await host.logged("session_idle")  # the other one's
        assert await client.pid() == pid
        stream.reset()


async def test_a_server_that_speaks_another_revision_after_a_restart_ends_the_session(tmp_path: Path) -> None:
    argv = (*SCRIPTED, "--state", str(tmp_path / "n"), "--version-after", "3:2025-03-26")
    async with hosting(argv, spare=0) as host:
        await host.logged("state")  # the probe is start 1
        async with client_of(host.port) as client:
            await kill(host, await client.pid())
            assert (await client.ask("x/any"))["error"]["data"]["reason"] == "version_changed"
            await host.logged("session_closed")
            assert (await client.raw("POST", client.request("x/any"))).status == 404


async def test_other_capabilities_after_a_restart_are_kept_with_a_warning(tmp_path: Path) -> None:
    server = tmp_path / "server.sh"
    state = tmp_path / "n"
    quoted = " ".join(SCRIPTED)
    server.write_text(
        "#!/bin/sh\n"
        f'[ "$(cat {state} 2>/dev/null)" = .. ] && kind=prompts || kind=tools\n'
        f'exec {quoted} --state {state} --capabilities "{{\\"$kind\\":{{}}}}"\n'
    )
    server.chmod(0o755)
    async with hosting((str(server),), spare=0) as host:
        await host.logged("state")
        async with client_of(host.port) as client:
            await kill(host, await client.pid())
            assert await client.pid()
            await host.logged("capabilities_changed")


async def test_a_server_that_crashes_again_and_again_is_left_alone_for_a_while() -> None:
    async with hosting(SCRIPTED, spare=0, recovery_wait_s=0.5) as host, client_of(host.port) as client:
        for _ in range(3):
            await kill(host, await client.pid())
        answer = await client.ask("x/pid")
        while "error" not in answer or answer["error"]["data"]["reason"] == "server_exited":
            if "result" in answer:
                await kill(host, answer["result"]["pid"])
            answer = await client.ask("x/pid")
        assert answer["error"]["data"] == {"reason": "server_unavailable", "retryable": True}
        async with McpClient(host.port, path="/readyz") as probe:
            ready = await probe.raw("GET")
            assert (ready.status, json.loads(ready.body)["state"]) == (503, "backoff")


async def test_a_server_that_refuses_initialize_fails_and_new_sessions_are_refused_at_once() -> None:
    async with hosting((*SCRIPTED, "--refuse")) as host, McpClient(host.port) as client:
        await until(lambda: any(getattr(record, "state", "") == "failed" for record in host.events("state")))
        body = client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        answer = await client.raw("POST", body)
        assert answer.status == 503 and int(answer.headers["retry-after"]) <= 60
        assert json.loads(answer.body)["error"]["data"]["reason"] == "initialize_failed"


async def test_without_restart_the_first_exit_ends_mooring_with_1() -> None:
    async with (
        hosting(SCRIPTED, restarts=RestartPolicy(restart=False)) as host,
        client_of(host.port) as client,
    ):
        answer = await client.emit(exit=5)
        assert answer["error"]["data"]["reason"] == "server_exited"
        assert host.task is not None
        async with within():
            assert await host.task == 1


async def test_a_call_times_out_unless_it_makes_progress() -> None:
    async with hosting(DEMO, call_timeout_s=0.6) as host, client_of(host.port) as client:
        late = await client.ask("tools/call", {"name": "sleep", "arguments": {"seconds": 60}})
        assert late["error"]["data"]["reason"] == "timeout"
        params = {
            "name": "sleep",
            "arguments": {"seconds": 1.5, "steps": 15},
            "_meta": {"progressToken": "t"},
        }
        assert "result" in await client.ask("tools/call", params)


async def test_a_cancelled_call_that_is_never_answered_is_ended() -> None:
    async with hosting(SCRIPTED, cancel_wait_s=0.1) as host, client_of(host.port) as client:
        held = await client.send("POST", client.request("x/hold", id="h"))
        await heard_by(client, b"x/hold")
        await client.notify("notifications/cancelled", {"requestId": "h"})
        async with within():
            assert json.loads((await held.answer()).body)["error"]["data"]["reason"] == "cancelled"


async def test_sessions_are_counted_and_the_longest_asleep_gives_way() -> None:
    async with hosting(SCRIPTED, max_sessions=2, idle_timeout_s=2.5, spare=0) as host:  # noqa: SIM117
        async with client_of(host.port) as first, client_of(host.port) as second:
            await second.pid()
            body = first.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
            answer = await first.raw("POST", body, Mcp_Session_Id="")
            assert (answer.status, answer.headers["retry-after"]) == (503, "10")
            await host.logged("session_idle", 2)
            async with client_of(host.port) as third:
                assert await third.pid()
                gone = [
                    (await one.raw("POST", one.request("x/pid"))).status == 404 for one in (first, second)
                ]
                assert sorted(gone) == [False, True]


async def test_a_call_that_the_dead_server_never_read_is_given_to_the_next_one() -> None:
    """No window between a death and its being noticed: a call that fell into it was not executed."""
    async with hosting(DEMO) as host, client_of(host.port) as client:
        for _ in range(3):
            pid = json.loads(await client.text("counter"))["pid"]
            await suspend(pid)
            calls = [asyncio.create_task(client.call("counter")) for _ in range(10)]
            await _in_flight(host.port, 10)
            os.kill(pid, signal.SIGKILL)
            calls += [asyncio.create_task(client.call("counter")) for _ in range(10)]
            said = [json.loads(answer["content"][0]["text"]) for answer in await asyncio.gather(*calls)]
            assert sorted(answer["count"] for answer in said) == list(range(1, 21)), "each executed once"
            assert {answer["pid"] for answer in said} & {pid} == set()
