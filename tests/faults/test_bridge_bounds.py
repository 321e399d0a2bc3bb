"""Every wait ends and every queue is bounded, whatever a server or a client does."""

import asyncio
import base64
import json
import os
import signal
import sys
from pathlib import Path

from mooring.supervise.restart import RestartPolicy
from tests.hosting import SCRIPTED, hosting
from tests.mcp_client import Json, McpClient, client_of, emission
from tests.support import until, within


def server(body: str) -> tuple[str, ...]:
    """A server made of a few lines; `receive()` gives the next message, `send(**members)` writes one."""
    lines = r"""
import itertools, json, os, select, sys, time
text, kept = b"", []
def receive(patience=None):
    global text
    if kept: return kept.pop(0)
    while b"\n" not in text:
        if not select.select([0], [], [], patience)[0]: os._exit(0)
        chunk = os.read(0, 65536)
        if not chunk: os._exit(0)
        text += chunk
    line, _, text = text.partition(b"\n")
    return json.loads(line)
def send(**members): print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
def welcome(message, **capabilities):
    version = message["params"]["protocolVersion"]
    info = {"name": "made up", "version": "1"}
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    send(id=message["id"], result=result)
"""
    return (sys.executable, "-c", lines + body)


async def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


async def test_a_call_behind_a_replay_that_hangs_waits_as_long_as_any_other(tmp_path: Path) -> None:
    """The second instance never answers initialize; nor do its successors."""
    state = tmp_path / "starts"
    mute = server(f"""
from pathlib import Path
state = Path({str(state)!r})
starts = int(state.read_text()) + 1 if state.exists() else 1
state.write_text(str(starts))
while True:
    message = receive()
    if "id" not in message or starts > 2: continue
    if message["method"] == "initialize": welcome(message)
    else: send(id=message["id"], result={{"pid": os.getpid()}})
""")
    async with hosting(mute, spare=0, recovery_wait_s=0.5) as host:
        await host.logged("state")  # the probe is start 1
        async with client_of(host.port) as client:
            await kill((await client.result("x/pid"))["pid"])
            while (answer := await client.ask("x/pid"))["error"]["data"]["reason"] == "server_exited":
                pass
            assert answer["error"]["data"] == {"reason": "server_unavailable", "retryable": True}
            await client.notify("x/note")  # is not held for ever either


async def test_a_server_that_asks_before_it_answers_is_answered_while_it_is_introduced() -> None:
    """It wants the roots before anything else, also when it is told the log level again."""
    curious = server("""
while True:
    message = receive()
    if message.get("method") == "initialize":
        welcome(message, logging={})
    elif message.get("method") == "notifications/initialized":
        send(id="roots", method="roots/list")
        others = []
        while (answer := receive()).get("id") != "roots": others.append(answer)
        kept += others
    elif "id" in message:
        send(id=message["id"], result={"pid": os.getpid()})
""")
    async with hosting(curious) as host, McpClient(host.port) as client:
        answer = await client.raw(
            "POST", client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        )
        client.session = answer.headers["mcp-session-id"]
        stream = await client.stream()
        await client.notify("notifications/initialized")

        answered = asyncio.Event()

        async def answer_roots() -> None:
            while True:
                message = await stream.message()
                if message["method"] == "roots/list":
                    await client.respond(message["id"], {"roots": []})
                    answered.set()

        answering = asyncio.create_task(answer_roots())
        async with within():
            await answered.wait()  # with a call in flight the question would go to that one
        await client.result("logging/setLevel", {"level": "debug"})
        await kill((await client.result("x/pid"))["pid"])
        await host.logged("session_recovered")
        assert (await client.result("x/pid"))["pid"]
        answering.cancel()


async def test_a_server_that_pings_and_does_not_read_costs_no_memory() -> None:
    deaf = server("""
message = receive()
welcome(message)
for n in itertools.count():
    send(id=n, method="ping")
    if n == 60_000: send(id="done", method="notifications/x") or time.sleep(600)
""")
    async with hosting(deaf) as host, McpClient(host.port) as client:
        answer = await client.raw(
            "POST", client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        )
        client.session = answer.headers["mcp-session-id"]
        stream = await client.stream()
        seen = 0
        while seen < 1000:  # now that somebody listens pings go there: it has not stopped
            message = await stream.message()
            seen += message["method"] == "ping"
        await client.raw("DELETE")


async def test_messages_that_nobody_hears_are_bounded_in_bytes() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 300_000}}
    async with hosting(SCRIPTED, retained_bytes=1_000_000) as host, client_of(host.port) as client:
        # Written behind the answer, so that no call is in flight.
        lines: list[Json] = [{"jsonrpc": "2.0", "id": 1000, "result": {}}, *[note] * 20]
        await client.raw("POST", client.request("x/emit", emission(*lines, b"behind them"), id=1000))
        await host.logged("junk_on_stdout")  # with a call in flight, they would be that one's
        stream = await client.stream()
        await client.raw("DELETE")
        assert 1 <= len(await stream.rest()) <= 3


async def test_held_notifications_are_answered_at_shutdown() -> None:
    async with (
        hosting(SCRIPTED, drain_timeout_s=1.0, recovery_wait_s=60) as host,
        client_of(host.port) as client,
    ):
        os.kill(await client.pid(), signal.SIGSTOP)
        note = json.dumps({"jsonrpc": "2.0", "method": "x/note", "params": "x" * 200_000}).encode()
        held = [await client.send("POST", note) for _ in range(6)]
        async with within():
            await asyncio.gather(*(peer.answer() for peer in held[:2]))
        ending = asyncio.create_task(host.end())
        async with within():
            answers = await asyncio.gather(*(peer.answer() for peer in held[2:]))
        assert {answer.status for answer in answers} == {202}
        await ending


async def test_a_notification_is_not_held_for_ever() -> None:
    async with hosting(SCRIPTED, recovery_wait_s=0.5) as host, client_of(host.port) as client:
        pid = await client.pid()
        os.kill(pid, signal.SIGSTOP)
        note = json.dumps({"jsonrpc": "2.0", "method": "x/note", "params": "x" * 200_000}).encode()
        answers = await asyncio.gather(*(client.raw("POST", note) for _ in range(6)))
        assert {answer.status for answer in answers} == {202}
        await host.logged("message_dropped")  # and not without a word
        os.kill(pid, signal.SIGCONT)


async def test_a_question_goes_to_a_stream_that_is_read_rather_than_to_one_that_was_cut() -> None:
    note = {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 1},
    }
    question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {}}
    async with hosting(SCRIPTED, drain_timeout_s=0.2) as host, client_of(host.port, "2025-06-18") as client:
        listening = await client.stream()
        params = {"_meta": {"progressToken": 1}, **emission(note, answer=False)}
        cut = await client.stream("POST", client.request("x/emit", params))
        assert await cut.message() == note
        cut.reset()
        line = base64.b64encode(json.dumps(question).encode()).decode()
        async with within():
            while True:  # until Mooring has seen the cut
                other = await client.send("POST", client.request("x/emit", {"lines": [line]}))
                if (await listening.message()) == question:
                    break
                await other.aclose()


async def test_a_call_whose_client_has_gone_does_not_hold_its_server_for_ever() -> None:
    async with hosting(SCRIPTED, idle_timeout_s=0.4, max_sessions=1, spare=0) as host:
        async with client_of(host.port) as client:
            gone = await client.send("POST", client.request("x/hold", id="h"))
            while not any(b"x/hold" in line for line in await client.heard()):
                pass
            gone.reset()
        await host.logged("session_idle")
        async with client_of(host.port) as other:
            assert await other.pid()


async def test_progress_of_a_task_arrives_after_the_call_that_began_it() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        stream = await client.stream()
        note = {"jsonrpc": "2.0", "method": "notifications/progress"}
        task = {**note, "params": {"progressToken": "task", "progress": 1}}
        stale = {**note, "params": {"progressToken": "call", "progress": 1}}
        await client.result("x/any", {"_meta": {"progressToken": "task"}, "task": {"ttl": 1}})
        await client.result("x/any", {"_meta": {"progressToken": "call"}})
        await client.emit(stale, task)
        assert await stream.message() == task


async def test_a_server_that_leaves_when_it_is_idle_is_no_crash_loop() -> None:
    """It exits by itself while nobody speaks to it, spare or not; sessions must not suffer for that."""
    leaving = server("""
while True:
    message = receive(patience=0.3)
    if "id" not in message: continue
    if message["method"] == "initialize": welcome(message)
    else: send(id=message["id"], result={"pid": os.getpid()})
""")
    async with hosting(leaving, recovery_wait_s=2.0, restarts=RestartPolicy(immediate=4)) as host:  # noqa: SIM117
        async with client_of(host.port) as client:
            first = (await client.result("x/pid"))["pid"]
            await until(lambda: len(host.events("server_exited")) >= 1)
            exits = len(host.events("server_exited"))
            async with client_of(host.port) as other:
                assert (await other.result("x/pid"))["pid"]
            assert (await client.result("x/pid"))["pid"] != first
            assert len(host.events("server_exited")) <= exits + 2


async def test_a_batch_is_looked_at_only_in_a_session_that_may_send_one() -> None:
    async with hosting(SCRIPTED) as host, McpClient(host.port) as client:
        flood = b"[" + b"0," * 1_000_000 + b"0]"
        assert (await client.raw("POST", flood)).status == 400
        await client.initialize("2025-03-26")
        assert (await client.raw("POST", flood)).status == 400
        too_long = b"[" + b" " * (4 * 1024 * 1024) + b"]"
        answer = await client.raw("POST", too_long)
        assert answer.status == 400 and b"one by one" in answer.body


async def test_a_session_of_one_transport_is_none_of_the_others() -> None:
    async with hosting(SCRIPTED) as host, McpClient(host.port, path="/sse") as old:
        stream = await old.stream()
        first = await stream.event()
        assert first is not None
        async with McpClient(host.port) as client:
            client.session = first.data.partition("session_id=")[2]
            assert (await client.raw("GET")).status == 404
            assert (await client.raw("POST", client.request("x/any"))).status == 404
