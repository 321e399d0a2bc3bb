"""Bounds that have no other place: each is hit once, and something can still be done afterwards."""

import asyncio
import json
import os
import re
import select
import signal
import socket
import sys
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mooring.http.limits import Limits
from mooring.proxy.server_words import MAX_TASK_TOKENS
from mooring.runtimes.stopping import StopPatience
from mooring.wire.asked import MAX_ID_CHARACTERS
from mooring.wire.memory import MAX_INITIALIZE_BYTES
from tests.hosting import SCRIPTED, Host, hosting
from tests.http_client import Peer, echo, serving
from tests.mcp_client import McpClient, client_of
from tests.support import within

STUBBORN = (
    sys.executable,
    "-c",
    r"""
import json, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        version = message.get("params", {}).get("protocolVersion")
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
while True:
    signal.pause()
""",
)
"""Does not end when its input does, nor when it is asked to."""


async def test_sessions_that_come_and_go_faster_than_their_processes_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.workloads.definition.LEAST_LEAVING", 3)
    patience = StopPatience(eof_grace_s=60, stop_grace_s=60)
    async with hosting(STUBBORN, max_sessions=1, spare=0, patience=patience, drain_timeout_s=0.2) as host:
        for _ in range(4):  # with the probe's: two in use, and three that leave
            async with client_of(host.port) as client:
                await client.raw("DELETE")
        async with McpClient(host.port) as late:
            body = late.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
            answer = await late.raw("POST", body)
            assert answer.status == 503 and answer.headers["retry-after"] == "1"
            error = json.loads(answer.body)["error"]
            assert error["data"] == {"reason": "too_many_processes", "retryable": True}
            assert "5 instances" in error["message"]
        async with McpClient(host.port, path="/readyz") as probe:
            leaving = json.loads((await probe.raw("GET")).body)["instances"]
        assert [each["use"] for each in leaving] == ["stopping"] * 5
        os.kill(leaving[0]["pid"], signal.SIGKILL)
        async with McpClient(host.port) as late, within():
            while (await late.raw("POST", body)).status == 503:
                pass


async def held(host: Host, kind: str) -> float:
    """What `/metrics` says is held of that kind."""
    async with McpClient(host.port, path="/metrics") as probe:
        page = (await probe.raw("GET")).body.decode()
    [number] = re.findall(rf'^mooring_held_bytes{{.*of="{kind}"}} (\S+)$', page, re.MULTILINE)
    return float(number)


SMALL: dict[str, Any] = {"max_message_bytes": 1_000_000, "shared_bytes": 4_000_000, "max_sessions": 40}
"""Four of the largest messages for all, and a tenth of one for each session in any case."""
LARGE = "x" * 950_000


async def test_calls_of_all_sessions_share_one_bound_and_each_has_its_share() -> None:
    async with hosting(SCRIPTED, **SMALL) as host, client_of(host.port) as other:
        async with client_of(host.port) as client:
            for id in "abcd":
                await client.send("POST", client.request("x/hold", {"pad": LARGE}, id=id))
                async with within():
                    while await held(host, "calls") < (ord(id) - ord("a") + 1) * 950_000:
                        pass
                await client.pid()  # so it has read the one before
            refused = await other.ask("x/any", {"pad": LARGE})
            assert refused["error"]["data"] == {"reason": "too_busy", "retryable": True}
            assert await other.result("x/any", {"pad": "x" * 90_000}), "its share"
            refused = await client.ask("x/any", {"pad": "x" * 250_000})
            assert refused["error"]["data"]["reason"] == "too_busy", "this one has had it"
            await client.raw("DELETE")
        assert await other.result("x/any", {"pad": LARGE})
        assert await held(host, "calls") == 0


async def test_what_servers_do_not_read_counts_also_if_no_call_waits_for_it() -> None:
    """Notifications: one in the pipe of each stalled server, one behind it; then a call that has ended."""
    async with (
        hosting(SCRIPTED, **SMALL, recovery_wait_s=60, cancel_wait_s=0) as host,
        AsyncExitStack() as stack,
    ):
        stalled = [await stack.enter_async_context(client_of(host.port)) for _ in range(3)]
        pids = [await client.pid() for client in stalled]
        note = json.dumps({"jsonrpc": "2.0", "method": "x/note", "params": {"pad": LARGE}}).encode()
        for client in stalled:
            await client.ask("x/stall")
        await stalled[0].raw("POST", note)
        await stalled[1].raw("POST", note)
        unread = await stalled[2].send("POST", stalled[2].request("x/any", {"pad": LARGE}, id="c"))
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
        await stalled[2].send("POST", json.dumps(cancelled).encode())
        async with within():
            assert json.loads((await unread.answer()).body)["error"]["data"]["reason"] == "cancelled"
        assert await held(host, "calls") == pytest.approx(3 * 950_000, abs=1000)
        waiting = await stalled[0].send("POST", note)
        async with within():
            while await held(host, "calls") < 3_800_000:
                pass
        assert (await stalled[1].raw("POST", note)).status == 202, "dropped, and said so in the log"
        assert host.events("message_dropped")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        async with within():
            assert (await waiting.answer()).status == 202
            while await held(host, "calls"):
                pass


async def test_notes_to_servers_that_do_not_read_share_one_bound() -> None:
    """Each fits for itself, and would be written at once: all together they do not fit."""
    async with (
        hosting(SCRIPTED, **SMALL, recovery_wait_s=60) as host,
        AsyncExitStack() as stack,
    ):
        stalled = [await stack.enter_async_context(client_of(host.port)) for _ in range(6)]
        pids = [await client.pid() for client in stalled]
        note = json.dumps({"jsonrpc": "2.0", "method": "x/note", "params": {"pad": LARGE}}).encode()
        for client in stalled:
            await client.ask("x/stall")
        async with within():
            for client in stalled:
                assert (await client.raw("POST", note)).status == 202
        assert await held(host, "calls") <= 4_000_000
        assert len(host.events("message_dropped")) == 2
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


async def test_the_line_of_a_call_that_has_timed_out_is_not_kept() -> None:
    async with (
        hosting(SCRIPTED, **SMALL, call_timeout_s=0.5) as host,
        client_of(host.port) as client,
    ):
        pid = await client.pid()
        await client.ask("x/stall")
        async with within():
            for number in (2, 1):  # one goes into the pipe, one waits behind it; then there is room again
                calls = [
                    await client.send("POST", client.request("x/any", {"pad": LARGE}, id=n))
                    for n in range(number)
                ]
                for call in calls:
                    error = json.loads((await call.answer()).body)["error"]
                    assert error["data"]["reason"] == "timeout"
        assert await held(host, "calls") <= 950_100, "what is in the pipe"
        os.kill(pid, signal.SIGKILL)


LOUD = (
    sys.executable,
    "-c",
    r"""
import json, sys
def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    id, method, params = json.dumps(message.get("id")), message.get("method"), message.get("params") or {}
    if method == "x/part":
        write('{"jsonrpc":"2.0","id":%s,"result":"%s' % (id, "x" * params["size"]))
    elif method == "x/notes":
        note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d,"data":"%s"}}\n'
        write('{"jsonrpc":"2.0","id":%s,"result":{}}\n' % id)
        for n in range(params["number"]):
            write(note % (n, "x" * params["size"]))
        write("that was all\n")
    elif method == "x/rest":
        write('"}\n')
    elif "id" in message:
        write('{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (id, json.dumps(params)))
""",
)
"""Answers at any length, with a pause in the middle if asked to; and says what belongs to no call."""


async def test_lines_that_servers_do_not_finish_share_one_bound() -> None:
    async with hosting(LOUD, **SMALL) as host, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(host.port)) for _ in range(5)]
        calls = []
        for client in clients:
            calls.append(await client.send("POST", client.request("x/part", {"size": 950_000})))
            async with within():
                while await held(host, "unfinished") < min(len(calls), 4) * 950_000:
                    pass
        answers = []
        for client, call in reversed(list(zip(clients, calls, strict=True))):
            await client.notify("x/rest")
            async with within():
                answers.append(json.loads((await call.answer()).body))
        assert answers[0]["error"]["data"] == {"reason": "too_busy", "retryable": False}, (
            "no room when it came"
        )
        assert [answer["result"] for answer in answers[1:]] == ["x" * 950_000] * 4
        assert await held(host, "unfinished") == 0


async def test_a_batch_of_a_server_is_not_taken_apart_whatever_its_size() -> None:
    flood = b"[" + b"0," * 2_500_000 + b"0]"
    async with hosting(SCRIPTED) as host, client_of(host.port, "2025-03-26") as client:
        answer = await client.emit(flood)
        assert answer["error"]["data"] == {"reason": "message_too_long", "retryable": False}
        assert await client.pid()


async def notes(host: Host, client: McpClient, number: int) -> None:
    """So many notes of 90 kB come from its server."""
    before = len(host.events("junk_on_stdout"))
    await client.result("x/notes", {"number": number, "size": 90_000})
    await host.logged("junk_on_stdout", before + 1)


async def test_what_is_kept_for_clients_of_all_sessions_shares_one_bound() -> None:
    async with hosting(LOUD, **SMALL) as host, client_of(host.port) as first, client_of(host.port) as second:
        await notes(host, first, 30)
        await notes(host, second, 30)
        assert await held(host, "events") <= 4_100_000
        stream = await first.stream()
        assert [(await stream.message())["params"]["n"] for _ in range(30)] == list(range(30))
        stream = await second.stream()
        begin = (await stream.message())["params"]["n"]
        assert begin > 0, "it came second, and had to give up its oldest"
        assert [(await stream.message())["params"]["n"] for _ in range(begin + 1, 30)] == list(
            range(begin + 1, 30)
        )
        await notes(host, second, 10)
        assert [(await stream.message())["params"]["n"] for _ in range(10)] == list(range(10)), "and goes on"
        for client in (first, second):
            await client.raw("DELETE")
        assert await held(host, "events") == 0


async def test_a_client_that_does_not_read_loses_its_stream_when_there_is_no_room_to_wait_for_it() -> None:
    """On the old transport, where that is the end of its session."""
    async with hosting(LOUD, **SMALL) as host, client_of(host.port) as first, McpClient(host.port) as old:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(slow, ("127.0.0.1", host.port))
        await loop.sock_sendall(slow, b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = b""
        async with within():
            while not (found := re.search(rb"data: (/messages\?session_id=\S+)", text)):
                text += await loop.sock_recv(slow, 4096)
        old.path = found[1].decode()
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}}
        await old.raw("POST", old.request("initialize", hello))
        await host.logged("session_opened", 2)
        await notes(host, first, 44)  # nearly all that there is room for
        await old.raw("POST", old.request("x/notes", {"number": 200, "size": 90_000}))
        await host.logged("stream_cut")
        closed = await host.logged("session_closed")
        assert "reads too slowly" in closed.getMessage()
        assert await held(host, "events") <= 4_000_000
        slow.close()


async def test_of_the_calls_that_became_tasks_the_oldest_is_forgotten() -> None:
    """Their progress goes on after their answer; it is passed on for so many of them."""
    note = {"jsonrpc": "2.0", "method": "notifications/progress"}
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        for token in range(MAX_TASK_TOKENS + 1):
            await client.result("x/any", {"_meta": {"progressToken": token}, "task": {"ttl": 1}})
        long = "x" * (MAX_ID_CHARACTERS + 1)
        await client.result("x/any", {"_meta": {"progressToken": long}, "task": {"ttl": 1}})
        progress = [{**note, "params": {"progressToken": token, "progress": 1}} for token in (0, long, 1)]
        stream = await client.stream()
        await client.emit(*progress)
        assert await stream.message() == progress[2]


async def test_an_initialize_that_no_session_can_remember_opens_none() -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "pad": "x" * MAX_INITIALIZE_BYTES}
    async with hosting(LOUD) as host, McpClient(host.port) as client:
        answer = await client.raw("POST", client.request("initialize", hello))
        assert answer.status == 400 and b"may have 262144" in answer.body
        client.path = "/sse"
        stream = await client.stream()
        first = await stream.event()
        assert first is not None
        client.path = first.data
        answer = await client.raw("POST", client.request("initialize", hello))
        assert answer.status == 400 and b"may have 262144" in answer.body
        assert await held(host, "calls") == 0


async def test_a_server_that_says_too_much_of_itself_cannot_be_used() -> None:
    """What it says of itself is remembered by every session."""
    boastful = r"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        size = 10 if message["params"]["clientInfo"]["name"] == "mooring" else 300_000
        result = {"protocolVersion": "2025-11-25", "capabilities": {"experimental": {"x": "x" * size}}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
    async with hosting((sys.executable, "-c", boastful)) as host, McpClient(host.port) as client:
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await client.raw("POST", client.request("initialize", hello))
        error = json.loads(answer.body)["error"]
        assert error["data"]["reason"] == "message_too_long" and "may have 262144" in error["message"]
        assert "mcp-session-id" not in answer.headers


async def test_connections_that_the_kernel_has_no_place_for_come_in_when_it_has() -> None:
    async with serving(echo, limits=Limits(backlog=1)) as served, within():
        clients = [socket.socket() for _ in range(8)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", served.port))
        # The loop has not turned: nobody was accepted so far.
        _, connected, _ = select.select([], clients, [], 0.1)
        assert 1 <= len(connected) < 8
        for client in clients:
            peer = Peer(*await asyncio.open_connection(sock=client))
            assert (await peer.get()).status == 200
            await peer.aclose()
