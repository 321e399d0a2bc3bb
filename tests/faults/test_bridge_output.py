"""What a server writes to its stdout, however wrong, harms nobody but the call it was meant for."""

import json
import re
import sys

import pytest

from mooring.proxy.noise import LINES_PER_S
from tests.hosting import SCRIPTED, Host, hosting
from tests.http_client import Peer
from tests.mcp_client import Json, McpClient, client_of, emission
from tests.support import until, within

BIG = (
    sys.executable,
    "-c",
    r"""
import json, sys
out = sys.stdout.buffer
out.write(b"Big server 1.0, ready on stdio\n\n")  # a banner, before anybody asked
out.flush()
for line in sys.stdin.buffer:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {}}
        out.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
    elif message.get("method") == "x/big":
        size, id = message["params"]["size"], json.dumps(message["id"]).encode()
        out.write(b"DEBUG: about to answer\n[1, 2\n")
        unit = b'0123456789\xc3\xa9\\n{}[]",'.replace(b'"', b"'")
        data = (unit * (size // len(unit) + 1))[:size - size % len(unit)]
        out.write(b'{"id":' + id + b',"result":{"data":"' + data + b'"},"jsonrpc":"2.0"}\r\nnoise behind\n')
    out.flush()
""",
)
UNIT = b"0123456789\xc3\xa9\\n{}[]',"


def big_answer(id: str, size: int) -> bytes:
    data = (UNIT * (size // len(UNIT) + 1))[: size - size % len(UNIT)]
    return b'{"id":"' + id.encode() + b'","result":{"data":"' + data + b'"},"jsonrpc":"2.0"}'


async def metric(host: Host, name: str) -> float:
    async with McpClient(host.port, path="/metrics") as probe:
        page = (await probe.raw("GET")).body.decode()
    found = re.search(rf"^mooring_{name}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE)
    assert found, page
    return float(found[1])


async def hold(client: McpClient, id: str | int = "held") -> Peer:
    """A call that the server has and does not answer."""
    peer = await client.send("POST", client.request("x/hold", id=id))
    async with within():
        while client.request("x/hold", id=id) not in await client.heard():
            pass
    return peer


async def outcome(peer: Peer) -> Json:
    """The answer to one POST, as JSON."""
    async with within():
        answer = await peer.answer()
    assert answer.status == 200 and answer.headers["content-type"] == "application/json", answer
    return json.loads(answer.body)  # type: ignore[no-any-return]


async def release(client: McpClient, peer: Peer, id: str | int = "held") -> None:
    """The held call still works: it is answered, by the server."""
    await client.emit({"jsonrpc": "2.0", "id": id, "result": {"alive": True}})
    assert (await outcome(peer))["result"] == {"alive": True}


async def test_junk_is_skipped_logged_and_counted() -> None:
    junk = [b"Starting up...", b"{", b'{"level":"info"}', b"\xff\xfe\x00", b"42", b"null", b'"text"', b"[]"]
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        held = await hold(client)
        assert (await client.emit(*junk))["result"] == {"emitted": len(junk)}
        assert len(host.events("junk_on_stdout")) == len(junk)
        record = host.events("junk_on_stdout")[0]
        assert "Starting up..." in record.getMessage() and record.pid == await client.pid()  # type: ignore[attr-defined]
        assert await metric(host, "junk_lines_total") == len(junk)
        await release(client, held)


async def test_blank_lines_are_nothing_at_all() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        assert (await client.emit(b"", b"\r", b""))["result"] == {"emitted": 3}
        assert not host.events("junk_on_stdout")


@pytest.mark.parametrize("size", [1024, 65_536, 65_537, 1 << 20, 20 << 20, (64 << 20) - 4096])
async def test_results_of_any_size_are_identical_to_the_byte_amid_noise(size: int) -> None:
    async with hosting(BIG) as host, client_of(host.port) as client:
        for id in ("one", "two"):
            async with within(60):
                answer = await client.raw("POST", client.request("x/big", {"size": size}, id=id))
            assert answer.headers["content-type"] == "application/json"
            assert answer.body == big_answer(id, size)  # the CR belonged to the line end
        assert await metric(host, "junk_lines_total") == 1 + 2 * 3


LIMIT = 100_000
BLURT = (
    sys.executable,
    "-c",
    # Writes params.line with "@" made long, then (if asked) answers. Remembers what it was told.
    rf"""
import json, sys
heard = []
def say(message): sys.stdout.write(json.dumps(message) + "\n")
for line in sys.stdin:
    message = json.loads(line)
    heard.append(message)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {{}}
    if method == "initialize":
        say({{"jsonrpc": "2.0", "id": id, "result": {{"protocolVersion": params["protocolVersion"]}}}})
    elif method == "x/blurt":
        sys.stdout.write(params["line"].replace("@", "x" * {LIMIT}) + "\n")
        if params.get("answer"):
            say({{"jsonrpc": "2.0", "id": id, "result": {{"heard": heard}}}})
    elif method == "x/heard":
        say({{"jsonrpc": "2.0", "id": id, "result": {{"heard": heard}}}})
    elif method is not None and id is not None and method != "x/hold":
        say({{"jsonrpc": "2.0", "id": id, "result": {{}}}})
    sys.stdout.flush()
""",
)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"jsonrpc":"2.0","id":"big","result":{"pad":"@"}}', id="id at the head"),
        pytest.param('{"result":{"pad":"@"},"jsonrpc":"2.0","id":"big"}', id="id at the tail"),
        pytest.param('{"error":{"message":"@"},"id":"big","jsonrpc":"2.0"}', id="an error, at the tail"),
    ],
)
async def test_a_line_over_the_limit_fails_its_own_call_only(line: str) -> None:
    async with hosting(BLURT, max_message_bytes=LIMIT) as host, client_of(host.port) as client:
        held = await client.send("POST", client.request("x/hold", id="held"))
        body = client.request("x/blurt", {"line": line}, id="big")
        error = json.loads((await client.raw("POST", body)).body)["error"]
        assert (error["code"], error["data"]["reason"]) == (-32603, "message_too_long")
        assert str(len(line) - 1 + LIMIT) in error["message"] and "--max-message-bytes" in error["message"]
        assert error["data"]["retryable"] is False
        await host.logged("message_too_long")
        assert await metric(host, "calls_failed_total") == 1
        small = '{"jsonrpc":"2.0","id":"held","result":{"alive":true}}'
        await client.ask("x/blurt", {"line": small, "answer": True})
        assert (await outcome(held))["result"] == {"alive": True}


async def test_a_long_line_without_an_id_fails_the_only_call() -> None:
    async with hosting(BLURT, max_message_bytes=LIMIT) as host, client_of(host.port) as client:
        answer = await client.ask("x/blurt", {"line": '{"jsonrpc":"2.0","result":{"pad":"@"}}'})
        assert answer["error"]["data"]["reason"] == "message_too_long"
        assert (await client.ask("x/any"))["result"] == {}


async def test_a_long_line_without_an_id_fails_nobody_when_it_could_be_anyones() -> None:
    async with (
        hosting(BLURT, max_message_bytes=LIMIT, drain_timeout_s=0.2) as host,
        client_of(host.port) as client,
    ):
        held = await client.send("POST", client.request("x/hold", id="held"))
        answer = await client.ask("x/blurt", {"line": '{"result":"@"}', "answer": True})
        assert "result" in answer
        await host.logged("message_too_long")
        assert await metric(host, "calls_in_flight") == 1
        await held.aclose()


async def test_a_long_notification_is_dropped_and_a_long_request_is_refused() -> None:
    note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"@"}}'
    question = '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"data":"@"}}'
    async with hosting(BLURT, max_message_bytes=LIMIT) as host, client_of(host.port) as client:
        for line in (note, question):
            answer = await client.raw("POST", client.request("x/blurt", {"line": line, "answer": True}))
            assert answer.headers["content-type"] == "application/json", "nothing else was sent to the client"
        heard = (await client.result("x/heard"))["heard"]
        [refusal] = [message for message in heard if message.get("id") == "q"]
        assert refusal["error"]["code"] == -32603 and "--max-message-bytes" in refusal["error"]["message"]
        assert len(host.events("message_too_long")) == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b'{"jsonrpc":"2.0","id":"bad","result":{"text":"\xff"}}', id="not UTF-8"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":"bad","result":{"text":"\xed\xa0\x80"}}', id="a coded surrogate"
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":"bad","result":{]}', id="not JSON"),
        pytest.param(b'{"jsonrpc":"2.0","id":"bad"}', id="neither result nor error"),
        pytest.param(b'{"jsonrpc":"2.0","id":"bad","result":1,"error":{}}', id="both"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":"bad","result":' + b"[" * 3000 + b"]" * 3000 + b"}", id="too deep"
        ),
    ],
)
async def test_an_answer_that_cannot_be_read_is_a_typed_error_for_its_call(answer: bytes) -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        held, bad = await hold(client), await hold(client, "bad")
        await client.emit(answer)
        error = (await outcome(bad))["error"]
        assert (error["code"], error["data"]["reason"]) == (-32603, "bad_answer")
        assert not error["data"]["retryable"], "it was executed"
        await release(client, held)


async def test_answers_to_nothing_and_second_answers_are_ignored() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        held = await hold(client)
        other = await hold(client, "other")
        answer: Json = {"jsonrpc": "2.0", "id": "other", "result": {"n": 1}}
        strange: list[Json] = [
            {"jsonrpc": "2.0", "id": "nobody", "result": {}},
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}},
            {"jsonrpc": "2.0", "id": 1.5, "result": {}},
            answer,
            {**answer, "result": {"n": 2}},
            {"jsonrpc": "2.0", "id": "other", "error": {"code": 1, "message": "late"}},
        ]
        stream = await client.stream()
        primed = await stream.event()
        assert primed is not None and not primed.data
        assert (await client.emit(*strange))["result"] == {"emitted": len(strange)}
        assert (await outcome(other))["result"] == {"n": 1}
        await release(client, held)
        await client.raw("DELETE")
        assert await stream.rest() == [], "none of it went to a stream"


async def test_a_carriage_return_inside_a_line_never_breaks_an_event() -> None:
    note = (
        b'{"jsonrpc":"2.0",\r"method":"notifications/message",\r\r"params":{"level":"info","data":"a\\rb"}}'
    )
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        peer = await client.send("POST", client.request("x/emit", emission(note)))
        async with within():
            answer = await peer.answer()
        data = [line for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
        assert data[0] == b"data: " + note.replace(b"\r", b" ")
        assert b"\r" not in answer.body
        assert json.loads(data[1].removeprefix(b"data: "))["result"] == {"emitted": 1}


EARLY = (
    sys.executable,
    "-c",
    r"""
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
say(method="notifications/message", params={"level": "info", "data": "before anything"})
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        say(method="notifications/message", params={"level": "info", "data": "before the answer"})
        say(id=1, method="ping")
        say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"]})
    elif "method" in message and "id" in message:
        say(id=message["id"], result={})
""",
)


async def test_what_a_server_says_before_it_is_initialized_comes_first_on_the_answers_stream() -> None:
    async with hosting(EARLY) as host, McpClient(host.port) as client:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        stream = await client.stream("POST", client.request("initialize", params, id="i"))
        assert stream.status == 200
        client.session = stream.headers["mcp-session-id"]
        messages = await stream.rest()
        notes = [m["params"]["data"] for m in messages if m.get("method") == "notifications/message"]
        assert notes == ["before anything", "before the answer"]
        assert messages[-1]["id"] == "i" and "result" in messages[-1]
        assert [m["method"] for m in messages if "method" in m][-1] == "ping"
        await client.notify("notifications/initialized")
        assert (await client.ask("x/any"))["result"] == {}


async def test_a_server_that_asks_without_end_is_bounded_and_told() -> None:
    questions: list[Json] = [{"jsonrpc": "2.0", "id": n, "method": "roots/list"} for n in range(2000)]
    async with (
        hosting(SCRIPTED, backlog_messages=100, max_asked=100) as host,
        client_of(host.port) as client,
    ):
        # Asked while nothing is in flight and no stream is open.
        done: Json = {"jsonrpc": "2.0", "id": "e", "result": {}}
        await client.raw("POST", client.request("x/emit", emission(done, *questions, answer=False), id="e"))

        async def refused() -> set[int]:
            heard = [json.loads(line) for line in await client.heard()]
            return {message["id"] for message in heard if "error" in message}

        async with within():
            while len(await refused()) < 1900:
                pass
        assert len(await refused()) == 1900, "those that wait, or were shown, are not refused"
        assert (await client.ask("x/any"))["result"]


async def test_notifications_that_nobody_hears_are_bounded_and_the_newest_are_kept() -> None:
    notes: list[Json] = [
        {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": f"n:{n}"}}
        for n in range(1000)
    ]
    async with hosting(SCRIPTED, backlog_messages=100) as host, client_of(host.port) as client:
        await client.emit(*notes)
        stream = await client.stream()
        seen = [(await stream.message())["params"]["uri"] for _ in range(100)]
        assert seen == [f"n:{n}" for n in range(900, 1000)]


async def test_a_server_that_answers_after_the_cancellation_is_heard_once() -> None:
    async with hosting(SCRIPTED, cancel_wait_s=0.1) as host, client_of(host.port) as client:
        held = await hold(client)
        await client.notify("notifications/cancelled", {"requestId": "held"})
        assert (await outcome(held))["error"]["data"]["reason"] == "cancelled"
        await client.emit({"jsonrpc": "2.0", "id": "held", "result": {"late": True}})
        again = await hold(client)  # the id is free again, and its answer is its own
        await client.emit({"jsonrpc": "2.0", "id": "held", "result": {"late": False}})
        assert (await outcome(again))["result"] == {"late": False}


async def test_an_answer_inside_the_grace_of_a_cancellation_is_delivered() -> None:
    async with hosting(SCRIPTED, cancel_wait_s=60.0) as host, client_of(host.port) as client:
        held = await hold(client)
        await client.notify("notifications/cancelled", {"requestId": "held"})
        await release(client, held)


async def test_a_hundred_megabytes_of_stderr_while_calls_work() -> None:
    flooding = (
        sys.executable,
        "-c",
        # Calls are answered by one thread while another floods.
        r"""
import json, os, sys, threading
def flood():
    block = (b"e" * 999 + b"\n") * 1000
    for _ in range(100):
        sys.stderr.buffer.write(block)
    sys.stderr.buffer.flush()
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "x/flood":
        threading.Thread(target=flood).start()
    if "id" in message:
        result = {"protocolVersion": "2025-11-25"} if method == "initialize" else {}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
""",
    )
    async with hosting(flooding) as host, client_of(host.port) as client:
        await client.ask("x/flood")
        calls = 0
        async with within(60):
            while len(host.events("server_stderr")) + left_out(host) < 100_000:
                assert (await client.ask("x/any"))["result"] == {}
                calls += 1
        assert calls > 3, "calls were answered meanwhile"
        lines = host.events("server_stderr")
        assert LINES_PER_S <= len(lines) < 50_000 and lines[0].getMessage() == "e" * 999


def left_out(host: Host) -> int:
    """Lines of the server that were not logged, for there were too many; so far as that was told."""
    return sum(record.lines for record in host.events("lines_left_out"))  # type: ignore[attr-defined]


async def test_junk_without_end_fills_no_log_and_is_counted() -> None:
    junk = [b"chatter"] * 10 * LINES_PER_S
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        await client.emit(*junk)
        assert await metric(host, "junk_lines_total") == len(junk)
        assert re.fullmatch(
            "… [0-9,]+ more lines were left out", (await host.logged("lines_left_out")).getMessage()
        )
        await until(lambda: len(host.events("junk_on_stdout")) + left_out(host) == len(junk))
        shown = len(host.events("junk_on_stdout"))
        assert shown >= LINES_PER_S
        await client.emit(b"in the next second there is room again")
        assert len(host.events("junk_on_stdout")) == shown + 1
