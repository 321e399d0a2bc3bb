"""Every way a server can end, or half end: calls are answered, the session goes on, nothing is left."""

import asyncio
import base64
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from mooring.runtimes.stopping import StopPatience
from tests.faults.test_bridge_input import in_flight
from tests.hosting import SCRIPTED, hosting
from tests.integration.test_sse_transport import HELLO, SseClient
from tests.mcp_client import Json, McpClient, client_of, emission
from tests.support import alive, suspend, until, within

WILD = (
    sys.executable,
    "-c",
    r"""
import json, os, signal, sys, time
def say(**message): os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
def live():
    while True: time.sleep(3600)
def grandchild():
    r, w = os.pipe()
    pid = os.fork()
    if pid:
        os.close(w); os.read(r, 1); os.close(r)
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(w, b"!"); os.close(w)
    live()
for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        say(id=id, result={"protocolVersion": params["protocolVersion"], "pid": os.getpid()})
    elif method == "x/close-stdout":
        os.close(1); live()
    elif method == "x/close-stdin":
        os.close(0); live()
    elif method == "x/half":
        os.write(1, b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":{"te')
        os._exit(9)
    elif method == "x/unended":
        os.write(1, json.dumps({"jsonrpc": "2.0", "id": id, "result": {"whole": True}}).encode())
        os._exit(0)
    elif method == "x/orphan":
        pid = grandchild()
        say(id=id, result={"grandchild": pid})
    elif method == "x/die":
        os._exit(4)
    elif method == "x/hold":
        pass
    elif id is not None and method is not None:
        say(id=id, result={"pid": os.getpid()})
""",
)
QUICK = StopPatience(eof_grace_s=0.1, stop_grace_s=0.3)


@pytest.mark.parametrize("method", ["x/close-stdout", "x/close-stdin"])
async def test_a_server_that_closes_a_pipe_and_lives_is_replaced(method: str) -> None:
    async with hosting(WILD, patience=QUICK) as host, client_of(host.port) as client:
        pid = (await client.result("x/pid"))["pid"]
        error = (await client.ask(method))["error"]
        assert error["data"]["reason"] == "server_exited"
        assert (await client.result("x/pid"))["pid"] != pid
        await until(lambda: not alive(pid))


async def test_a_server_that_dies_in_the_middle_of_a_line() -> None:
    async with hosting(WILD) as host, client_of(host.port) as client:
        error = (await client.ask("x/half"))["error"]
        assert error["data"]["reason"] == "server_exited"
        assert (await client.result("x/pid"))["pid"]


async def test_a_last_line_without_its_end_is_an_answer_all_the_same() -> None:
    async with hosting(WILD) as host, client_of(host.port) as client:
        assert await client.result("x/unended") == {"whole": True}
        assert (await client.result("x/pid"))["pid"]


async def test_a_grandchild_that_keeps_stdout_open_holds_nothing_up() -> None:
    async with hosting(WILD, patience=QUICK) as host, client_of(host.port) as client:
        pid = (await client.result("x/pid"))["pid"]
        grandchild = (await client.result("x/orphan"))["grandchild"]
        held = await client.send("POST", client.request("x/hold", id="h"))
        error = (await client.ask("x/die"))["error"]
        assert error["data"] == {
            "reason": "server_exited",
            "retryable": False,
            "exit": {"code": 4, "signal": None},
        }
        async with within():
            assert json.loads((await held.answer()).body)["error"]["data"]["reason"] == "server_exited"
        assert (await client.result("x/pid"))["pid"] != pid
        await until(lambda: not alive(grandchild))


async def test_a_server_that_dies_before_it_answers_initialize() -> None:
    async with (
        hosting((*SCRIPTED, "--die-at-initialize"), recovery_wait_s=0.3) as host,
        McpClient(host.port) as client,
    ):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        answer = await client.raw("POST", client.request("initialize", params, id="i"))
        error = json.loads(answer.body)["error"]
        assert error["data"]["reason"] in ("server_exited", "server_unavailable"), error
        assert "mcp-session-id" not in answer.headers, "there is no session"
        async with McpClient(host.port, path="/readyz") as probe:
            assert json.loads((await probe.raw("GET")).body)["sessions"] == 0


async def test_a_session_whose_client_is_refused_never_was() -> None:
    picky = (
        sys.executable,
        "-c",
        # Takes Mooring's own greeting, and nobody else's.
        r"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        ours = message["params"]["clientInfo"]["name"] == "mooring"
        answer = {"result": {"protocolVersion": "2025-11-25"}} if ours else {"result": "strange"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
""",
    )
    async with hosting(picky) as host, McpClient(host.port) as client:
        info = {"name": "other", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        answer = await client.raw("POST", client.request("initialize", params))
        assert (answer.status, json.loads(answer.body)["result"]) == (200, "strange"), "told as it was said"
        assert "mcp-session-id" not in answer.headers
        await host.logged("session_closed")


async def test_an_instance_that_refuses_to_take_over_is_replaced(tmp_path: Path) -> None:
    state = tmp_path / "starts"
    moody = (
        sys.executable,
        "-c",
        # Its third start refuses the handshake; all others work.
        rf"""
import json, os, sys
starts = int(open({str(state)!r}).read() or 0) + 1 if os.path.exists({str(state)!r}) else 1
open({str(state)!r}, "w").write(str(starts))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    if message.get("method") == "initialize" and starts == 3:
        answer = {{"error": {{"code": -1, "message": "not today"}}}}
    elif message.get("method") == "initialize" and starts == 4:
        answer = {{"result": 5}}
    else:
        answer = {{"result": {{"protocolVersion": "2025-11-25", "pid": os.getpid(), "starts": starts}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **answer}}), flush=True)
""",
    )
    async with hosting(moody, spare=0) as host:
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))
        async with client_of(host.port) as client:
            os.kill((await client.result("x/pid"))["pid"], signal.SIGKILL)
            await host.logged("server_exited")
            assert (await client.result("x/pid"))["starts"] == 5
            refusals = [r.getMessage() for r in host.records if "cannot take over" in r.getMessage()]
            assert refusals and "not today" in refusals[0]


async def test_what_was_asked_before_a_death_is_withdrawn_and_never_shown() -> None:
    question: Json = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    done: Json = {"jsonrpc": "2.0", "id": "e", "result": {}}
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        body = client.request("x/emit", emission(done, question, exit=1), id="e")
        assert (await client.raw("POST", body)).status == 200
        await host.logged("session_recovered")
        stream = await client.stream()
        methods = [(await stream.message())["method"] for _ in range(2)]
        assert methods == ["notifications/tools/list_changed", "notifications/message"]
        answer = await client.raw("POST", client.request("x/any"))
        assert answer.headers["content-type"] == "application/json", "no question is left for it"


def asking_and_refusing(state: Path, start: int) -> tuple[str, ...]:
    """A server whose start of that number asks something, and refuses the handshake; the others tell
    what they heard."""
    return (
        sys.executable,
        "-c",
        rf"""
import json, os, sys
starts = int(open({str(state)!r}).read() or 0) + 1 if os.path.exists({str(state)!r}) else 1
open({str(state)!r}, "w").write(str(starts))
heard = []
def say(**message): print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    heard.append(message)
    if "id" not in message or "method" not in message: continue
    if message["method"] == "initialize" and starts == {start}:
        say(id="q", method="roots/list")
        say(id=message["id"], error={{"code": -1, "message": "not today"}})
    else:
        say(id=message["id"], result={{"protocolVersion": "2025-11-25", "pid": os.getpid(), "heard": heard}})
""",
    )


async def test_an_answer_does_not_reach_the_successor_of_an_instance_that_refused(tmp_path: Path) -> None:
    """It asked while it was told what its predecessor knew, and was then of no use."""
    async with hosting(asking_and_refusing(tmp_path / "starts", 3), spare=0) as host:
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))
        async with client_of(host.port) as client:
            stream = await client.stream()
            os.kill((await client.result("x/pid"))["pid"], signal.SIGKILL)
            question = await stream.message()
            assert question["method"] == "roots/list"
            withdrawal = await stream.message()
            assert withdrawal["method"] == "notifications/cancelled"
            assert withdrawal["params"]["requestId"] == question["id"]
            await client.respond(question["id"], {"roots": []})
            heard = (await client.result("x/heard"))["heard"]
            assert not [message for message in heard if "result" in message]


async def test_an_answer_does_not_reach_the_successor_of_one_that_refused_its_client(tmp_path: Path) -> None:
    """On the old transport a client may try again, on the stream where it was asked."""
    async with hosting(asking_and_refusing(tmp_path / "starts", 2), spare=0) as host:
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))
        async with SseClient(host.port) as client:
            client.path = "/sse"
            client.events = await client.stream()
            first = await client.events.event()
            assert first is not None
            client.path = first.data
            assert "error" in await client.said("initialize", HELLO)
            assert "result" in await client.said("initialize", HELLO, id=2)
            await client.respond("q", {"roots": []})
            heard = (await client.said("x/heard", id=3))["result"]["heard"]
            assert not [message for message in heard if "result" in message]


async def test_a_call_behind_a_handshake_that_failed_is_answered_and_never_sent_again(tmp_path: Path) -> None:
    """On the old transport the session goes on: its next instances must not be taken for the first."""
    ledger = tmp_path / "ledger"
    picky = (
        sys.executable,
        "-c",
        # Start 2 reads a call behind `initialize` and refuses; start 3 dies of `initialize`; others work.
        rf"""
import json, os, sys
book = open({str(ledger)!r}, "a+")
book.seek(0)
starts = book.read().count("start") + 1
def note(word): print(word, file=book, flush=True)
note("start")
def say(**message): print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message: continue
    note(message["method"])
    if starts == 2:
        note(json.loads(sys.stdin.readline())["method"])
        say(id=message["id"], error={{"code": -1, "message": "not today"}})
    elif starts == 3:
        os._exit(3)
    else:
        say(id=message["id"], result={{"protocolVersion": "2024-11-05"}})
""",
    )
    async with hosting(picky, spare=0) as host:
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))
        async with SseClient(host.port) as client:
            client.path = "/sse"
            client.events = await client.stream()
            first = await client.events.event()
            assert first is not None
            client.path = first.data
            for body in (client.request("initialize", HELLO, id=1), client.request("x/once", id="once")):
                assert (await client.raw("POST", body)).status == 202
            answers = {
                answer["id"]: answer["error"] for answer in [await client.events.message() for _ in "12"]
            }
            assert answers[1]["message"] == "not today"
            assert answers["once"]["data"] == {"reason": "initialize_failed", "retryable": False}
            assert "error" in await client.said("initialize", HELLO, id=2)
            assert "result" in await client.said("initialize", HELLO, id=3)
            assert "result" in await client.said("x/then", id=4)
    done = ledger.read_text().split("start\n")[1:]
    assert [part.split() for part in done[1:]] == [
        ["initialize", "x/once"],
        ["initialize"],
        ["initialize", "x/then"],
    ]


async def test_an_answer_does_not_reach_the_successor_of_an_instance_that_was_idle() -> None:
    """It did not read the answer, so that this waited; then it was let go, and another one came."""
    question: Json = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    note = json.dumps({"jsonrpc": "2.0", "method": "x/note", "params": {"pad": "x" * 900_000}}).encode()
    async with (
        hosting(SCRIPTED, idle_timeout_s=0.3, recovery_wait_s=60) as host,
        client_of(host.port) as client,
    ):
        first = (await client.result("x/pid"))["pid"]
        await client.ask("x/emit", emission(question))
        await client.ask("x/stall")
        assert (await client.raw("POST", note)).status == 202
        answer = await client.send("POST", b'{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}')
        async with within():
            assert (await answer.answer()).status == 202, "nobody waits for it any more"
        assert (await client.result("x/pid"))["pid"] != first
        heard = [base64.b64decode(line) for line in (await client.result("x/heard"))["lines"]]
        assert not [line for line in heard if b'"roots"' in line]


async def test_a_server_that_withdraws_its_question_is_passed_on() -> None:
    question: Json = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    withdrawal: Json = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "q"},
    }
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        stream = await client.stream("POST", client.request("x/emit", emission(question, withdrawal)))
        assert (await stream.rest())[:2] == [question, withdrawal]
        await client.respond("q", {"roots": []})  # too late: nobody waits
        assert not any(b"roots" in line for line in await client.heard())


async def test_a_child_killed_while_it_is_told_what_its_predecessor_knew(tmp_path: Path) -> None:
    """The death of an instance during the handshake is one more exit; calls wait for the next."""
    state = tmp_path / "starts"
    dying = (
        sys.executable,
        "-c",
        rf"""
import json, os, sys
starts = int(open({str(state)!r}).read() or 0) + 1 if os.path.exists({str(state)!r}) else 1
open({str(state)!r}, "w").write(str(starts))
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize" and starts == 3: os._exit(3)
    if "id" in message:
        result = {{"protocolVersion": "2025-11-25", "starts": starts, "pid": os.getpid()}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
""",
    )
    async with hosting(dying, spare=0) as host:
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))
        async with client_of(host.port) as client:
            pid = (await client.result("x/any"))["pid"]
            await suspend(pid)
            calls = [asyncio.create_task(client.ask("x/any")) for _ in range(5)]
            await in_flight(host, 5)
            os.kill(pid, signal.SIGKILL)
            answers = await asyncio.gather(*calls)
            assert {a["result"]["starts"] for a in answers if "result" in a} == {4}
            assert len(host.events("server_exited")) == 2
