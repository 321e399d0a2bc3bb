"""`mooring stdio` in front of a server that cuts, forgets, refuses and talks nonsense, to the byte."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from mooring.remote.caller import MAX_REFUSAL_BYTES
from mooring.remote.following import NO_SUCH_STREAM
from tests.raw_server import (
    LAST_CHUNK,
    Asked,
    Json,
    RawServer,
    Wire,
    answer,
    chunk,
    event,
    raw_server,
    stream_head,
)
from tests.stdio_client import Inside, modern, speaking
from tests.support import until

Script = Callable[[Asked, Wire], Awaitable[bytes | None]]

CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}


class McpScript:
    """A server of the handshake era; `special` may answer a request in its own way."""

    def __init__(self, special: Script | None = None) -> None:
        self.special = special
        self.sessions = 0
        self.known: set[str] = set()
        self.version = "2025-11-25"
        self.capabilities = CAPABILITIES
        self.stream: Wire | None = None
        """The GET stream that is open."""

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        if asked.method == "POST" and asked.message.get("method") == "initialize":
            return self._open(asked.message["id"])
        if asked.headers.get("mcp-session-id") not in self.known:
            return answer({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "?"}}, "404 No")
        assert asked.headers["mcp-protocol-version"] == "2025-11-25"
        if self.special is not None and (data := await self.special(asked, wire)) != b"":
            return data
        if asked.method == "DELETE":
            return answer(status="204 Gone")
        if asked.method == "GET":
            self.stream = wire
            return stream_head()
        if "id" not in asked.message or "method" not in asked.message:
            return answer(status="202 Accepted")
        return answer(result(asked, {"n": len(asked.body)}))

    def _open(self, id: int | str) -> bytes:
        self.sessions += 1
        session = f"session-{self.sessions}"
        self.known = {session}
        info = {"name": "raw", "version": "1"}
        opened = {"protocolVersion": self.version, "capabilities": self.capabilities, "serverInfo": info}
        return answer({"jsonrpc": "2.0", "id": id, "result": opened}, Mcp_Session_Id=session)


def result(asked: Asked, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": asked.message["id"], "result": value}


def only(method: str, script: Script) -> Script:
    """The script for that method, JSON-RPC's or HTTP's; the usual answers for the others."""

    async def special(asked: Asked, wire: Wire) -> bytes | None:
        if method in (asked.method, asked.message.get("method") if asked.body else None):
            return await script(asked, wire)
        return b""

    return special


def once(script: Script) -> Script:
    done = False

    async def first(asked: Asked, wire: Wire) -> bytes | None:
        nonlocal done
        if done:
            return b""
        done = True
        return await script(asked, wire)

    return first


def always(data: bytes) -> Script:
    async def script(_asked: Asked, _wire: Wire) -> bytes:
        return data

    return script


CALL: Json = {"name": "t", "arguments": {}}

# Cuts -----------------------------------------------------------------------------------------

WHOLE = answer({"jsonrpc": "2.0", "id": 2, "result": {}})


@pytest.mark.parametrize("at", [0, 1, 8, WHOLE.index(b"\r\n\r\n") + 4, len(WHOLE) - 1])
@pytest.mark.parametrize("reset", [False, True])
async def test_a_call_whose_answer_is_cut_is_never_sent_again(at: int, reset: bool) -> None:
    async def cut(_asked: Asked, wire: Wire) -> None:
        wire.send(WHOLE[:at])
        await wire.writer.drain()
        (wire.cut if reset else wire.close)()

    async with raw_server(McpScript(only("tools/call", cut))) as server, speaking(server.url) as client:
        await client.initialize()
        error = await client.error("tools/call", CALL)
        assert error["data"] == {"reason": "connection_lost", "retryable": False}
        assert "may have been executed" in error["message"]
        assert await client.result("tools/list")
        assert len(await server.count(1, "tools/call")) == 1


@pytest.mark.parametrize("at", [0, 1, WHOLE.index(b"\r\n\r\n") + 4, len(WHOLE) - 1])
async def test_a_read_whose_answer_is_cut_is_asked_again(at: int) -> None:
    async def cut(_asked: Asked, wire: Wire) -> None:
        wire.send(WHOLE[:at])
        wire.close()

    async with (
        raw_server(McpScript(only("tools/list", once(cut)))) as server,
        speaking(server.url) as client,
    ):
        await client.initialize()
        assert await client.result("tools/list")
        first, second = await server.count(2, "tools/list")
        assert first.body == second.body


async def test_a_tool_of_the_era_without_handshakes_that_may_be_run_twice() -> None:
    tools = {"tools": [{"name": "t", "inputSchema": {}, "annotations": {"idempotentHint": True}}]}

    async def script(asked: Asked, wire: Wire) -> bytes | None:
        if asked.message["method"] == "tools/list":
            return answer(result(asked, tools))
        if len(server.requests) == 2:
            wire.cut()
            return None
        return answer(result(asked, {"done": True}))

    async with raw_server(script) as server, speaking(server.url, repeats_tools=True) as client:
        await client.result("tools/list", modern())
        assert await client.result("tools/call", modern(**CALL)) == {"done": True}
        assert len(await server.count(2, "tools/call")) == 2


async def test_a_read_that_kills_the_server_each_time_is_given_up() -> None:
    async def cut(_asked: Asked, wire: Wire) -> None:
        wire.cut()

    async with raw_server(McpScript(only("tools/list", cut))) as server, speaking(server.url) as client:
        await client.initialize()
        error = await client.error("tools/list")
        assert error["data"] == {"reason": "connection_lost", "retryable": True}
        assert len(await server.count(3, "tools/list")) == 3


STREAM = [
    stream_head(),
    event(id="s-0", retry=1),
    event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}},
        id="s-1",
    ),
    event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 2}},
        id="s-2",
    ),
    event({"jsonrpc": "2.0", "id": "c", "result": {"done": True}}, id="s-3"),
]


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("rest", [0, 1, 7])
async def test_a_stream_that_is_cut_anywhere_is_resumed_where_it_was(parts: int, rest: int) -> None:
    begin = b"".join(STREAM[:parts]) + STREAM[parts][:rest]

    async def special(asked: Asked, wire: Wire) -> bytes | None:
        last = asked.headers.get("last-event-id")
        if last is not None:
            return b"".join([STREAM[0], *STREAM[int(last.removeprefix("s-")) + 2 :]]) + LAST_CHUNK
        if asked.body and asked.message.get("method") == "tools/call":
            wire.send(begin)
            wire.close()
            return None
        return b""

    async with raw_server(McpScript(special)) as server, speaking(server.url) as client:
        await client.initialize()
        await client.request("tools/call", CALL, id="c")
        assert (await client.answer("c"))["result"] == {"done": True}
        notes = [
            one["params"]["data"] for one in client.messages if one.get("method") == "notifications/message"
        ]
        assert notes == [1, 2]
        assert len(await server.count(1, "tools/call")) == 1


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (answer(status="405 No"), "does not resume"),
        (answer(status="400 No"), "does not resume"),
        (answer(status="500 No"), "does not resume"),
        (answer(status="404 No"), "forgotten"),
    ],
)
async def test_a_stream_that_cannot_be_resumed_is_an_error(refusal: bytes, why: str) -> None:
    async def special(asked: Asked, wire: Wire) -> bytes | None:
        if "last-event-id" in asked.headers:
            return refusal
        if asked.body and asked.message.get("method") == "tools/call":
            return b"".join(STREAM[:2]) + LAST_CHUNK
        return b""

    async with raw_server(McpScript(special)) as server, speaking(server.url) as client:
        await client.initialize()
        error = await client.error("tools/call", CALL)
        assert why in error["message"] and "may have been executed" in error["message"]
        assert len(await server.count(1, "tools/call")) == 1


async def test_garbage_in_the_rest_of_a_stream_is_an_error_although_it_stays_open() -> None:
    async def special(asked: Asked, _wire: Wire) -> bytes:
        if "last-event-id" in asked.headers:
            return stream_head() + chunk(b"data: {garbage\n\n")
        if asked.body and asked.message.get("method") == "tools/call":
            return b"".join(STREAM[:2]) + LAST_CHUNK
        return b""

    async with raw_server(McpScript(special)) as server, speaking(server.url) as client:
        await client.initialize()
        error = await client.error("tools/call", CALL)
        assert error["data"] == {"reason": "bad_answer", "retryable": False}
        assert len(await server.count(1, "tools/call")) == 1


async def test_a_stream_without_ids_that_ends_is_an_error_for_a_call() -> None:
    end = stream_head() + event({"jsonrpc": "2.0", "method": "notifications/x"}) + LAST_CHUNK
    async with (
        raw_server(McpScript(only("tools/call", always(end)))) as server,
        speaking(server.url) as client,
    ):
        await client.initialize()
        error = await client.error("tools/call", CALL)
        assert error["data"]["reason"] == "connection_lost"
        await client.message(lambda one: one.get("method") == "notifications/x")


async def test_the_stream_of_no_call_is_resumed_too() -> None:
    script = McpScript()
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        await server.count(1, "GET")
        await until(lambda: script.stream is not None)
        assert script.stream is not None
        script.stream.send(event({"jsonrpc": "2.0", "method": "notifications/one"}, id="g-7"))
        await client.message(lambda one: one.get("method") == "notifications/one")
        script.stream.cut()
        _, again = await server.count(2, "GET")
        assert again.headers["last-event-id"] == "g-7"


async def test_a_stream_that_cannot_be_resumed_begins_anew() -> None:
    async def special(asked: Asked, _wire: Wire) -> bytes:
        if "last-event-id" in asked.headers:
            return answer(status="400 No")
        if asked.method == "GET" and not script.stream:
            script.stream = _wire
            return stream_head() + event(id="g-1", retry=0) + LAST_CHUNK
        return b""

    script = McpScript(special)
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        _, resumed, anew = await server.count(3, "GET")
        assert resumed.headers["last-event-id"] == "g-1" and "last-event-id" not in anew.headers


@pytest.mark.parametrize(
    "refusal",
    [
        answer(status="401 Who"),
        answer(status="403 No"),
        answer(status="429 Busy"),
        answer(status="429 Busy", Retry_After="0"),
        answer(status="502 Oh"),
        answer(b"<html>", kind="text/html"),
        b"garbage\r\n\r\n",
    ],
)
async def test_the_stream_of_no_call_outlives_whatever_may_pass(refusal: bytes) -> None:
    refusals = 3

    async def special(asked: Asked, wire: Wire) -> bytes | None:
        nonlocal refusals
        if asked.method != "GET" or script.stream is None or not refusals:
            return b""
        refusals -= 1
        wire.send(refusal)
        wire.close()
        return None

    script = McpScript(special)
    async with raw_server(script) as server, speaking(server.url, most_refused_resumes=2) as client:
        await client.initialize()
        await until(lambda: script.stream is not None)
        first = script.stream
        assert first is not None
        first.send(event(id="g-7", retry=0))
        await first.writer.drain()
        first.close()
        await until(lambda: script.stream is not first)
        second = script.stream
        assert second is not None
        second.send(event({"jsonrpc": "2.0", "method": "notifications/one"}))
        await client.message(lambda one: one.get("method") == "notifications/one")
        _, *resumed, anew, last = await server.count(5, "GET")
        assert [asked.headers["last-event-id"] for asked in resumed] == ["g-7", "g-7"]
        assert not {"last-event-id"} & (anew.headers.keys() | last.headers.keys())


@pytest.mark.parametrize("status", sorted(NO_SUCH_STREAM - {404}))
async def test_a_server_without_such_a_stream_is_not_asked_twice(status: int) -> None:
    script = McpScript(only("GET", always(answer(status=f"{status} No"))))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        await server.count(1, "GET")
        assert await client.result("tools/list")
        assert len(await server.count(1, "GET")) == 1


# Sessions -------------------------------------------------------------------------------------


async def opened(client: Inside) -> None:
    await client.initialize()
    await client.result("logging/setLevel", {"level": "debug"})
    await client.result("resources/subscribe", {"uri": "x://y"})


async def test_a_session_that_is_forgotten_is_opened_anew_and_the_call_sent_once_more() -> None:
    script = McpScript()
    async with raw_server(script) as server, speaking(server.url) as client:
        await opened(client)
        first = server.requests[0]
        script.known.clear()
        since, before = len(client.messages), len(server.requests)
        assert await client.result("tools/call", CALL)
        again = [asked for asked in server.requests[before:] if asked.method == "POST"]
        assert [asked.message["method"] for asked in again] == [
            "tools/call",
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe",
            "tools/call",
        ]
        assert again[1].body == first.body and "mcp-session-id" not in again[1].headers
        assert {asked.headers["mcp-session-id"] for asked in again[2:]} == {"session-2"}
        methods = [one.get("method") for one in client.messages[since:]]
        assert methods[:2] == ["notifications/tools/list_changed", "notifications/message"]
        assert await client.result("tools/list")
        assert script.sessions == 2


async def test_many_calls_that_meet_a_forgotten_session_open_one() -> None:
    script = McpScript(only("GET", always(answer(status="405 No"))))
    async with raw_server(script) as server, speaking(server.url) as client:
        await opened(client)
        script.known.clear()
        ids = [await client.request("tools/call", CALL) for _ in range(20)]
        for id in ids:
            assert "result" in await client.answer(id)
        assert script.sessions == 2
        assert await server.count(20, "tools/call")


async def test_a_server_that_forgets_at_once_is_not_asked_for_ever() -> None:
    async def forget(_asked: Asked, _wire: Wire) -> bytes:
        return answer(status="404 No")

    script = McpScript(only("tools/call", forget))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        error = await client.error("tools/call", CALL)
        assert error["data"] == {"reason": "session_lost", "retryable": True}
        assert len(await server.count(2, "tools/call")) == 2


async def test_a_server_that_says_400_for_a_session_it_does_not_know() -> None:
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "No valid session ID"}}
    script = McpScript(only("tools/call", once(always(answer(refusal, "400 Bad Request")))))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        assert await client.result("tools/call", CALL)
        assert script.sessions == 2


async def test_the_silent_stream_tells_of_a_forgotten_session_before_any_call() -> None:
    script = McpScript()
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        await until(lambda: script.stream is not None)
        script.known.clear()
        assert script.stream is not None
        script.stream.cut()
        await client.message(lambda one: one.get("method") == "notifications/tools/list_changed")
        await server.count(3, "GET")
        assert script.sessions == 2


async def test_a_server_that_came_back_as_another_is_told_to_each_call() -> None:
    script = McpScript(only("GET", always(answer(status="405 No"))))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        script.known.clear()
        script.version = "2025-06-18"
        for _ in range(2):
            error = await client.error("tools/call", CALL)
            assert error["data"]["reason"] == "version_changed"
        script.version, script.capabilities = "2025-11-25", {}
        assert await client.result("tools/call", CALL)
        assert client.events("capabilities_changed")
        assert server.url


async def test_answers_to_questions_of_a_forgotten_session_reach_nobody() -> None:
    question = {"jsonrpc": "2.0", "id": 0, "method": "roots/list"}
    script = McpScript()
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        await until(lambda: script.stream is not None)
        old = script.stream
        assert old is not None
        old.send(event(question))
        await client.message(lambda one: one.get("method") == "roots/list")
        script.known.clear()
        await client.result("tools/list")
        withdrawn = await client.message(lambda one: one.get("method") == "notifications/cancelled")
        assert withdrawn["params"]["requestId"] == 0
        await until(lambda: script.stream is not old)
        assert script.stream is not None
        script.stream.send(event(question))
        again = await client.message(lambda one: one.get("method") == "roots/list" and one["id"] != 0)
        await client.respond(0, {"roots": []})
        await client.respond(again["id"], {"roots": [{"uri": "file:///x"}]})
        await until(lambda: [a for a in server.requests if a.body and "result" in a.message])
        [reply] = [asked.message for asked in server.requests if asked.body and "result" in asked.message]
        assert reply == {"jsonrpc": "2.0", "id": 0, "result": {"roots": [{"uri": "file:///x"}]}}
        script.stream.send(event({**question, "id": 5}))
        script.stream.send(
            event({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        )
        third = await client.message(
            lambda one: one.get("method") == "roots/list" and one["id"] not in (0, again["id"])
        )
        await client.message(lambda one: one.get("params", {}).get("requestId") == third["id"])


# Refusals -------------------------------------------------------------------------------------


NOTHING_DONE: Json = {"code": -32603, "message": "not now", "data": {"retryable": True}}


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("tools/list", {}),
        ("tools/call", {"jsonrpc": "2.0", "id": None, "error": NOTHING_DONE}),
        ("tools/call", {"error": {"code": "server_stopped", "message": "x does not run"}}),
    ],
)
async def test_a_server_that_is_busy_is_asked_again_when_it_says(method: str, said: Json) -> None:
    busy = answer(said, status="503 Busy", Retry_After="0")
    script = McpScript(only(method, once(always(busy))))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        assert await client.result(method, CALL)
        assert len(await server.count(2, method)) == 2


@pytest.mark.parametrize("status", ["429 Busy", "503 Busy"])
@pytest.mark.parametrize("said", [b"", b"<html>", b'{"error": {"code": 1.5, "data": 7}}'])
async def test_a_call_is_not_sent_again_to_one_that_does_not_say_that_nothing_was_done(
    status: str, said: bytes
) -> None:
    script = McpScript(only("tools/call", always(answer(said, status, Retry_After="0"))))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        error = await client.error("tools/call", CALL)
        is_refused = status.startswith("429")
        assert error["data"] == {"reason": "server_busy", "retryable": is_refused, "retry_after_s": 0}
        assert len(await server.count(1, "tools/call")) == 1


async def test_a_read_of_one_that_is_busy_for_ever_is_told() -> None:
    busy = answer(status="429 Busy", Retry_After="0")
    script = McpScript(only("tools/list", always(busy)))
    async with raw_server(script) as server, speaking(server.url, most_busy=2) as client:
        await client.initialize()
        error = await client.error("tools/list")
        assert error["data"] == {"reason": "server_busy", "retryable": True, "retry_after_s": 0}
        assert len(await server.count(3, "tools/list")) == 3


async def test_one_that_asks_for_too_much_patience_is_not_waited_for() -> None:
    busy = answer(status="503 Busy", Retry_After="86400")
    async with (
        raw_server(McpScript(only("tools/call", always(busy)))) as server,
        speaking(server.url) as client,
    ):
        await client.initialize()
        error = await client.error("tools/call", CALL)
        assert error["data"] == {"reason": "server_busy", "retryable": False, "retry_after_s": 86400}


async def test_what_a_server_says_that_asks_to_wait_is_passed_on() -> None:
    words = {"error": {"message": "it does not run", "hint": "mooring start it"}}
    busy = answer(words, status="503 Busy", Retry_After="86400")
    async with raw_server(always(busy)) as server, speaking(server.url) as client:
        error = await client.error("tools/call", CALL)
        assert "it does not run; mooring start it" in error["message"]


async def test_words_without_end_of_a_server_that_asks_to_wait() -> None:
    busy = answer({"error": {"message": "x" * MAX_REFUSAL_BYTES}}, status="503 Busy", Retry_After="86400")
    async with raw_server(always(busy)) as server, speaking(server.url) as client:
        error = await client.error("tools/call", CALL)
        assert error["data"]["reason"] == "server_busy" and "xxx" not in error["message"]


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (answer(status="401 Who"), "unauthorized"),
        (answer(status="403 No"), "forbidden"),
        (answer(b"<html>", "404 No", kind="text/html"), "not_mcp"),
        (answer(b"<html>", "200 OK", kind="text/html"), "not_mcp"),
        (answer(status="202 Accepted"), "http_202"),
        (answer(status="307 There", Location="http://other/"), "redirected"),
        (answer(status="500 Oops"), "http_500"),
        (answer(status="503 Busy"), "http_503"),
        (answer(b"not json"), "bad_answer"),
        (answer({"jsonrpc": "2.0", "id": "another", "result": {}}), "bad_answer"),
        (answer({"jsonrpc": "2.0", "method": "notifications/x"}), "bad_answer"),
        (b"SSH-2.0-OpenSSH\r\n", "bad_answer"),
        (stream_head() + chunk(b"data: nonsense\n\n") + LAST_CHUNK, "bad_answer"),
    ],
)
async def test_whatever_comes_the_call_is_answered_once(refusal: bytes, reason: str) -> None:
    async with raw_server(always(refusal)) as server, speaking(server.url) as client:
        id = await client.request("tools/call", CALL)
        assert (await client.answer(id))["error"]["data"]["reason"] == reason
        client.close_stdin()
        assert await client.ended() == 0
        assert len(client.answers(id)) == 1


async def test_a_second_answer_to_one_call_goes_nowhere() -> None:
    async def twice(asked: Asked, wire: Wire) -> bytes:
        if script.stream is not None:
            script.stream.send(event(result(asked, {"by": "the other stream"})))
        return stream_head() + event(result(asked, {})) + event(result(asked, {})) + LAST_CHUNK

    script = McpScript(only("tools/call", twice))
    async with raw_server(script) as server, speaking(server.url) as client:
        await client.initialize()
        await server.count(1, "GET")
        ids = [await client.request("tools/call", CALL) for _ in range(5)]
        for id in ids:
            await client.answer(id)
        client.close_stdin()
        assert await client.ended() == 0
        assert all(len(client.answers(id)) == 1 for id in ids)


@pytest.mark.parametrize("id", ["null", '"c"', "7"])
@pytest.mark.parametrize("status", ["200 OK", "400 Bad", "404 No", "500 Oops"])
async def test_an_error_of_the_server_is_passed_on_under_the_id_of_the_call(id: str, status: str) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"mine","data":[1.0]}}' % id.encode()
    async with raw_server(always(answer(body, status))) as server, speaking(server.url) as client:
        await client.request("x/y", modern(), id="c")
        error = (await client.answer("c"))["error"]
        if id == "7" and status == "200 OK":
            assert error["data"]["reason"] == "bad_answer"
        else:
            assert error == {"code": -32601, "message": "mine", "data": [1.0]}


# The server is not there ------------------------------------------------------------------------


async def test_a_server_that_is_not_there_yet_is_waited_for_and_people_are_told_once() -> None:
    server = RawServer(McpScript())
    await server.open()
    await server.close()
    async with speaking(server.url) as client:
        await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, id="i")
        await client.logged("unreachable")
        await server.open()
        assert "result" in await client.answer("i")
        await client.logged("reachable")
        await client.notify("notifications/initialized")
        await client.result("tools/list")
        await server.close()
        await client.logged("unreachable", 2)
        call = await client.request("tools/call", CALL)
        await server.open()
        assert "result" in await client.answer(call)
        assert len(client.events("unreachable")) == len(client.events("reachable")) == 2
    await server.close()


async def test_a_call_that_waits_for_the_server_can_be_cancelled() -> None:
    server = RawServer(McpScript())
    await server.open()
    await server.close()
    async with speaking(server.url) as client:
        call = await client.request("ping")
        await client.logged("unreachable")
        await client.notify("notifications/cancelled", {"requestId": call})
        assert (await client.answer(call))["error"]["data"] == {"reason": "cancelled", "retryable": True}


# The era without handshakes -----------------------------------------------------------------------


async def test_requests_of_the_new_era_carry_their_headers_and_no_session() -> None:
    schema = {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def script(asked: Asked, _wire: Wire) -> bytes:
        assert "mcp-session-id" not in asked.headers
        assert asked.headers["mcp-protocol-version"] == "2026-07-28"
        assert asked.headers["mcp-method"] == asked.message["method"]
        return answer(
            result(asked, {"resultType": "complete", "tools": [{"name": "ü", "inputSchema": schema}]})
        )

    async with raw_server(script) as server, speaking(server.url) as client:
        await client.result("server/discover", modern())
        await client.result("tools/list", modern())
        await client.result("tools/call", modern(name="ü", arguments={"region": " us"}))
        call = server.requests[-1]
        assert call.headers["mcp-name"] == "=?base64?w7w=?="
        assert call.headers["mcp-param-region"] == "=?base64?IHVz?="
        client.close_stdin()
        assert await client.ended() == 0
        assert {asked.method for asked in server.requests} == {"POST"}


async def test_to_cancel_a_request_of_the_new_era_closes_its_stream() -> None:
    closed = asyncio.Event()

    async def script(_asked: Asked, wire: Wire) -> None:
        wire.send(stream_head() + event({"jsonrpc": "2.0", "method": "notifications/progress"}))
        await wire.closed_by_peer()
        closed.set()

    async with raw_server(script) as server, speaking(server.url) as client:
        call = await client.request("tools/call", modern(name="t"))
        await client.message(lambda one: one.get("method") == "notifications/progress")
        await client.notify("notifications/cancelled", {"requestId": call})
        assert (await client.answer(call))["error"]["data"]["reason"] == "cancelled"
        await asyncio.wait_for(closed.wait(), 20)
        assert len(server.requests) == 1


async def test_a_subscription_is_renewed_when_it_is_cut_and_closed_at_the_end() -> None:
    async def script(_asked: Asked, wire: Wire) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}
        wire.send(stream_head() + event(note))
        if len(server.requests) < 6:  # more often than any other read would be asked again
            wire.cut()
        else:
            await wire.closed_by_peer()

    async with raw_server(script) as server, speaking(server.url) as client:
        id = await client.request("subscriptions/listen", modern(notifications={}))
        await server.count(6)
        client.close_stdin()
        assert await client.ended() == 0
        assert (await client.answer(id))["result"]["resultType"] == "complete"


# The end ------------------------------------------------------------------------------------------


async def test_at_the_end_of_stdin_calls_finish_and_the_session_is_ended() -> None:
    go_on = asyncio.Event()

    async def slowly(asked: Asked, _wire: Wire) -> bytes:
        await go_on.wait()
        return answer(result(asked, {}))

    async with raw_server(McpScript(only("tools/call", slowly))) as server, speaking(server.url) as client:
        await client.initialize()
        call = await client.request("tools/call", CALL)
        await client.notify("notifications/roots/list_changed")
        client.close_stdin()
        await client.logged("draining")
        go_on.set()
        assert await client.ended() == 0
        assert "result" in await client.answer(call)
        await server.count(1, "notifications/roots/list_changed")
        [farewell] = await server.count(1, "DELETE")
        assert farewell.headers["mcp-session-id"] == "session-1"


async def test_at_a_signal_questions_are_still_answered_and_new_calls_refused() -> None:
    asking = asyncio.Event()

    async def ask(asked: Asked, wire: Wire) -> bytes:
        wire.send(stream_head() + event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}))
        await asking.wait()
        return event(result(asked, {"thanks": True})) + LAST_CHUNK

    async def hear(asked: Asked, wire: Wire) -> bytes | None:
        if asked.body and "result" in asked.message:
            asking.set()
        return await only("tools/call", ask)(asked, wire)

    async with raw_server(McpScript(hear)) as server, speaking(server.url) as client:
        await client.initialize()
        call = await client.request("tools/call", CALL)
        await client.message(lambda one: one.get("method") == "roots/list")
        client.stop.request("SIGTERM")
        await client.logged("draining")
        assert (await client.error("tools/list"))["data"] == {"reason": "shutting_down", "retryable": True}
        await client.respond("q", {"roots": []})
        assert (await client.answer(call))["result"] == {"thanks": True}
        assert await client.ended() == 0
        assert server.url


@pytest.mark.parametrize("ending", ["stdin", "SIGTERM"])
async def test_at_the_deadline_every_call_gets_an_error(ending: str) -> None:
    async def never(_asked: Asked, wire: Wire) -> None:
        await wire.closed_by_peer()

    async with (
        raw_server(McpScript(only("tools/call", never))) as server,
        speaking(server.url, drain_timeout_s=0.05) as client,
    ):
        await client.initialize()
        ids = [await client.request("tools/call", CALL) for _ in range(3)]
        await server.count(3, "tools/call")
        if ending == "stdin":
            client.close_stdin()
        else:
            client.stop.request(ending)
        assert await client.ended() == 3
        for id in ids:
            error = (await client.answer(id))["error"]
            assert error["data"] == {"reason": "shutting_down", "retryable": False}
            assert len(client.answers(id)) == 1


async def test_a_second_signal_does_not_wait() -> None:
    async def never(_asked: Asked, wire: Wire) -> None:
        await wire.closed_by_peer()

    async with (
        raw_server(McpScript(only("tools/call", never))) as server,
        speaking(server.url, drain_timeout_s=None) as client,
    ):
        await client.initialize()
        call = await client.request("tools/call", CALL)
        await server.count(1, "tools/call")
        client.stop.request("SIGINT")
        await client.logged("draining")
        while not client.stop.forced:
            client.stop.request("SIGINT")
            await asyncio.sleep(0.05)
        assert await client.ended() == 3
        assert json.dumps(await client.answer(call)).count("SIGINT") == 1
