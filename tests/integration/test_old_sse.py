"""Conversations over HTTP+SSE with a server that misbehaves at every point: each request has one answer."""

import asyncio
import json
from collections.abc import Callable

import pytest

from mooring.http.client_errors import NotSent
from mooring.wire.http import Headers
from mooring.wire.lines import LongLine
from tests.old_sse import ACCEPTED, Json, OldServer, Talk, named_event, old_server, talking
from tests.raw_server import LAST_CHUNK, Wire, answer, chunk, stream_head
from tests.support import on_both_loops, until, within

READ, CALL = "tools/list", "tools/call"
LOST = "connection_lost"


def hold(server: OldServer, *methods: str) -> None:
    """These are taken, and not answered."""
    server.on_message = lambda message: b"" if message.get("method") in methods else None


async def heard(server: OldServer, method: str, number: int = 1) -> None:
    def times() -> int:
        return sum(message.get("method") == method for _, message in server.heard)

    await until(lambda: times() >= number)


# As it should be -----------------------------------------------------------------------------


@on_both_loops
async def test_a_conversation() -> None:
    async with old_server() as server, talking(server.url) as talk:
        result = await talk.initialize()
        assert result["serverInfo"]["name"] == "old"
        ids = [talk.request(CALL, {"name": str(n)}) for n in range(50)]
        for id in ids:
            assert (await talk.answer(id))["result"] == {"method": CALL}
        talk.notify("notifications/x")
        await talk.conversation.wait_quiet()
        assert server.methods(1)[:2] == ["initialize", "notifications/initialized"]
        assert "notifications/x" in server.methods(1) and len(server.streams) == 1
        [headers] = [asked.headers for asked in server.raw.requests if asked.method == "GET"]
        assert headers["accept"] == "text/event-stream"
        assert talk.outcomes == [None] * 51


async def test_questions_of_the_server_are_answered_and_what_it_says_by_itself_is_heard() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        server.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        server.say({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
        question = await talk.message(lambda one: one.get("method") == "roots/list")
        talk.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        await until(lambda: (1, {"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}) in server.heard)
        assert talk.messages[-2]["method"] == "notifications/tools/list_changed"


async def test_other_events_and_a_second_address_are_not_heard() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        for data in (named_event("ping", "x"), named_event("endpoint", "/other"), chunk(b": hello\n\n")):
            server.streams[0].send(data)
        assert await talk.result(READ) == {"method": READ}


async def test_an_answer_that_comes_before_the_message_is_taken() -> None:
    """Some servers answer a POST when they have dealt with it."""
    let_go = asyncio.Event()

    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()

        async def on_post(message: Json, _wire: Wire) -> bytes | None:
            if message.get("method") != CALL:
                return None
            server.say({"jsonrpc": "2.0", "id": message["id"], "result": {}})
            await let_go.wait()
            return ACCEPTED

        server.on_post = on_post
        assert await talk.result(CALL) == {}
        assert talk.conversation.calls_in_flight == 0
        let_go.set()
        assert await talk.result(READ) == {"method": READ}


async def test_a_message_that_is_never_taken_holds_up_no_other() -> None:
    async with old_server() as server, talking(server.url, note_timeout_s=0.1) as talk:
        await talk.initialize()

        async def on_post(message: Json, _wire: Wire) -> bytes | None:
            if message.get("method") == CALL:
                server.say({"jsonrpc": "2.0", "id": message["id"], "result": {}})
                await asyncio.Event().wait()
            return None

        server.on_post = on_post
        assert await talk.result(CALL) == {}
        assert await talk.result(READ) == {"method": READ}


async def test_a_client_that_does_not_read_holds_the_server_back() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        talk.may_write.clear()
        id = talk.request(READ)
        await until(lambda: talk.waiting == 1)
        assert not talk.answers(id)
        talk.may_write.set()
        await talk.answer(id)


async def test_cancelled_calls() -> None:
    async with old_server() as server, talking(server.url, cancel_wait_s=0.05) as talk:
        await talk.initialize()
        hold(server, CALL)
        id = talk.request(CALL)
        await heard(server, CALL)
        talk.notify("notifications/cancelled", {"requestId": id})
        assert (await talk.answer(id))["error"]["data"]["reason"] == "cancelled"
        await heard(server, "notifications/cancelled")


async def test_what_is_wrong_already_here() -> None:
    async with old_server() as server, talking(server.url, max_calls=2, max_message_bytes=1000) as talk:
        await talk.initialize()
        hold(server, CALL)
        first, second = talk.request(CALL), talk.request(CALL)
        assert await talk.reason(CALL) == ("too_many_calls", True)
        talk.send({"jsonrpc": "2.0", "id": first, "method": READ})
        talk.conversation.take(b"nonsense")
        long = LongLine(b'{"jsonrpc":"2.0","id":"long","method":"x"', b"}", 2000)
        talk.conversation.take(long)
        talk.send([{"jsonrpc": "2.0", "id": "b", "method": "ping"}])
        await until(lambda: len(talk.messages) == 6)
        reasons = [one["error"].get("data", {}).get("reason") for one in talk.messages[2:]]
        assert reasons == ["id_in_use", None, "message_too_long", None]
        talk.conversation.refuse_new("test")
        assert await talk.reason(READ) == ("shutting_down", True)
        talk.messages = [one for one in talk.messages if one.get("id") != first]
        assert talk.conversation.cut("test") == 2
        for id in (first, second):
            assert (await talk.answer(id))["error"]["data"]["reason"] == "shutting_down"


async def test_a_message_of_the_era_without_sessions_is_the_servers_to_refuse() -> None:
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    async with old_server() as server, talking(server.url) as talk:
        assert await talk.result("server/discover", meta) == {"method": "server/discover"}


# The stream cannot be opened -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (answer(status="404 Not Found"), "not_mcp"),
        (answer(status="405 Not Allowed"), "not_mcp"),
        (answer(status="401 Unauthorized"), "unauthorized"),
        (answer(status="403 Forbidden"), "forbidden"),
        (answer(status="500 Oh"), "http_500"),
        (answer(status="502 Oh"), "http_502"),
        (answer(status="302 Found", Location="http://example.com/"), "redirected"),
        (answer(b"{}"), "not_mcp"),
        (answer(status="503 Later", Retry_After="100000"), "http_503"),
        (b"garbage\r\n\r\n", LOST),
        (stream_head() + LAST_CHUNK, LOST),
        (stream_head() + b"garbage", "bad_answer"),
        (stream_head() + chunk(b"data: " + b"x" * 5000), "message_too_long"),
        (stream_head() + named_event("endpoint", "http://example.com/messages"), "foreign_endpoint"),
        (stream_head() + named_event("endpoint", "https://127.0.0.1/messages"), "foreign_endpoint"),
        (stream_head() + named_event("endpoint", "//evil/messages"), "foreign_endpoint"),
        (stream_head() + named_event("endpoint", "/a b"), "foreign_endpoint"),
        (stream_head() + named_event("message", "{}"), "not_mcp"),
        (stream_head(), "not_mcp"),
    ],
)
async def test_no_stream(data: bytes, reason: str) -> None:
    async with (
        old_server() as server,
        talking(server.url, max_message_bytes=4000, note_timeout_s=0.2) as talk,
    ):

        async def on_get(_number: int, _wire: Wire) -> bytes:
            return data

        server.on_get = on_get
        for method in ("initialize", CALL):
            assert await talk.reason(method) == (reason, True)
        error = talk.messages[-1]["error"]["message"]
        assert "not executed" in error
        assert not server.heard
        # Everything is as it should be from now on.
        server.on_get = None
        await talk.initialize()
        assert await talk.result(CALL) == {"method": CALL}


async def test_an_address_that_is_not_its_own_is_shown_in_part() -> None:
    async with old_server() as server, talking(server.url) as talk:
        server.mailbox = "http://example.com/" + "x" * 5000
        error = (await talk.answer(talk.request("initialize")))["error"]
        assert "http://example.com/xxx" in error["message"] and len(error["message"]) < 400


@pytest.mark.parametrize("at", range(0, len(stream_head() + named_event("endpoint", "/m")), 7))
async def test_a_stream_that_is_cut_before_it_is_one(at: int) -> None:
    whole = stream_head() + named_event("endpoint", "/m")

    async with old_server() as server, talking(server.url) as talk:

        async def on_get(number: int, wire: Wire) -> bytes | None:
            if number > 1:
                return None
            wire.send(whole[:at])
            wire.close()
            return b""

        server.on_get = on_get
        await talk.initialize()
        assert len(server.streams) == 2


async def test_a_server_that_cannot_be_reached_is_waited_for_as_long_as_one_may() -> None:
    async with old_server() as server:
        await server.raw.close()
        async with talking(server.url, patience_s=0.05) as talk:
            assert await talk.reason("initialize") == ("unreachable", True)
        async with talking(server.url) as talk:
            id = talk.request("initialize")
            await until(lambda: "reach" in [task.get_name() for task in asyncio.all_tasks()])
            await server.raw.open()
            assert "result" in await talk.answer(id)


async def test_a_server_that_is_busy_is_asked_again() -> None:
    async with old_server() as server, talking(server.url) as talk:

        async def on_get(number: int, _wire: Wire) -> bytes | None:
            return answer(status="503 Later", Retry_After="0") if number == 1 else None

        server.on_get = on_get
        await talk.initialize()
        assert len(server.streams) == 2


class Renewing:
    """Credentials that change once."""

    def __init__(self) -> None:
        self.headers: Headers = [(b"Authorization", b"old")]
        self.asked: list[tuple[int, bytes | None]] = []

    async def ready(self) -> None:
        pass

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        self.asked.append((status, challenge))
        self.headers = [(b"Authorization", b"new")]
        return len(self.asked) == 1


async def test_credentials_are_renewed_for_the_stream() -> None:
    credentials = Renewing()
    async with old_server() as server, talking(server.url, credentials) as talk:

        async def on_get(number: int, _wire: Wire) -> bytes | None:
            return answer(status="401 Who", WWW_Authenticate="Bearer x") if number == 1 else None

        server.on_get = on_get
        await talk.initialize()
        assert credentials.asked == [(401, b"Bearer x")]
        assert server.raw.requests[-1].headers["authorization"] == "new"


class NeverRight(Renewing):
    async def ready(self) -> None:
        pass

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        await super().renew(status, challenge)
        return True


async def test_credentials_that_are_never_right_are_renewed_once_for_an_attempt() -> None:
    credentials = NeverRight()
    async with old_server() as server, talking(server.url, credentials) as talk:

        async def on_get(_number: int, _wire: Wire) -> bytes:
            return answer(status="401 Who")

        server.on_get = on_get
        assert await talk.reason("initialize") == ("unauthorized", True)
        assert len(credentials.asked) == 1


# A message is not taken ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "of_call", "of_read"),
    [
        (answer(status="400 Bad"), ("http_400", True), ("http_400", True)),
        (answer(status="413 Large"), ("http_413", True), ("http_413", True)),
        (answer(status="500 Oh"), ("http_500", False), ("http_500", True)),
        (answer(status="403 No"), ("forbidden", True), ("forbidden", True)),
        (b"garbage\r\n\r\n", ("bad_answer", False), ("bad_answer", True)),
        (b"", (LOST, False), (LOST, True)),
        (b"HTTP/1.1 202", (LOST, False), (LOST, True)),
    ],
)
async def test_a_message_that_is_refused(
    data: bytes, of_call: tuple[str, bool], of_read: tuple[str, bool]
) -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()

        async def on_post(message: Json, wire: Wire) -> bytes | None:
            if message.get("method") not in (CALL, READ):
                return None
            wire.send(data)
            wire.close()
            return b""

        server.on_post = on_post
        assert await talk.reason(CALL) == of_call
        assert server.methods(1).count(CALL) == 1
        assert await talk.reason(READ) == of_read
        # The stream is as good as before.
        assert await talk.result("ping") == {"method": "ping"}
        assert len(server.streams) == 1


async def test_an_error_in_the_servers_own_words() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}

        async def on_post(message: Json, _wire: Wire) -> bytes | None:
            return answer(error, "400 Bad") if message.get("method") == CALL else None

        server.on_post = on_post
        reply = await talk.answer(talk.request(CALL))
        assert reply["error"] == {"code": -32600, "message": "no"}


async def test_a_session_that_the_server_has_forgotten_is_opened_anew_and_the_call_sent_once_more() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        await talk.conversation.wait_told()
        hold(server, "x/hold")
        other = talk.request("x/hold")
        await heard(server, "x/hold")

        async def on_post(message: Json, _wire: Wire) -> bytes | None:
            forgotten = message.get("method") == CALL and len(server.streams) == 1
            return answer(status="404 Not Found") if forgotten else None

        server.on_post = on_post
        assert await talk.result(CALL) == {"method": CALL}
        assert server.methods(2) == ["initialize", "notifications/initialized", CALL]
        assert (await talk.answer(other))["error"]["data"] == {"reason": LOST, "retryable": False}


async def test_one_that_forgets_every_session_is_not_asked_for_ever() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()

        async def on_post(message: Json, _wire: Wire) -> bytes | None:
            return answer(status="404 Not Found") if message.get("method") == CALL else None

        server.on_post = on_post
        assert await talk.reason(CALL) == ("session_lost", True)


# The stream is cut ---------------------------------------------------------------------------


def end(wire: Wire) -> None:
    wire.send(LAST_CHUNK)
    wire.close()


def too_long(wire: Wire) -> None:
    wire.send(chunk(b"data: " + b"x" * 5000))


def no_http(wire: Wire) -> None:
    wire.send(b"garbage")


def no_message(wire: Wire) -> None:
    wire.send(named_event("message", "hello"))


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (Wire.cut, LOST),
        (Wire.close, LOST),
        (end, LOST),
        (no_http, "bad_answer"),
        (too_long, "message_too_long"),
        (no_message, "bad_answer"),
    ],
)
@on_both_loops
async def test_calls_in_flight_are_told_at_once_and_the_conversation_goes_on(
    cut: Callable[[Wire], None], reason: str
) -> None:
    async with old_server() as server, talking(server.url, max_message_bytes=4000) as talk:
        await talk.initialize({"roots": {}})
        await talk.result("logging/setLevel", {"level": "info"})
        await talk.result("resources/subscribe", {"uri": "a:b"})
        server.say({"jsonrpc": "2.0", "id": 0, "method": "roots/list"})
        await talk.message(lambda one: one.get("method") == "roots/list")
        hold(server, CALL)
        calls = [talk.request(CALL) for _ in range(3)]
        await heard(server, CALL, 3)
        cut(server.streams[0])
        for id in calls:
            error = (await talk.answer(id))["error"]
            assert error["data"] == {"reason": reason, "retryable": False}
            assert "may have been executed" in error["message"]
        # Opened anew without being asked to, and told everything again.
        await until(lambda: len(server.methods(2)) == 4)
        again = ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"]
        assert server.methods(2) == again
        [first] = [message for number, message in server.heard if (number, message.get("id")) == (2, 1)]
        assert first["params"]["capabilities"] == {"roots": {}}
        await talk.message(lambda one: one.get("method") == "notifications/cancelled")
        await talk.message(lambda one: one.get("method") == "notifications/tools/list_changed")
        assert await talk.result(READ) == {"method": READ}
        # A late answer to the old question reaches nobody; the same id means the new one.
        talk.send({"jsonrpc": "2.0", "id": 0, "result": {"late": 1}})
        server.say({"jsonrpc": "2.0", "id": 0, "method": "roots/list"})
        question = await talk.message(lambda one: str(one.get("id")).startswith("mooring-stdio"))
        talk.send({"jsonrpc": "2.0", "id": question["id"], "result": {"new": 1}})
        await until(lambda: server.heard[-1] == (2, {"jsonrpc": "2.0", "id": 0, "result": {"new": 1}}))
        assert not any("late" in message.get("result", {}) for _, message in server.heard)


async def test_a_read_is_asked_again_after_a_cut_and_given_up_if_it_is_what_cuts() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        hold(server, READ)
        id = talk.request(READ)
        await heard(server, READ)
        server.on_message = None
        server.streams[0].cut()
        assert (await talk.answer(id))["result"] == {"method": READ}

        async def on_post(message: Json, _wire: Wire) -> bytes | None:
            if message.get("method") == READ:
                server.streams[-1].cut()
            return None

        server.on_post = on_post
        assert await talk.reason(READ) == (LOST, True)
        assert sum(message.get("method") == READ for _, message in server.heard) == 2 + 3


async def test_a_handshake_that_is_cut_is_repeated() -> None:
    async with old_server() as server, talking(server.url) as talk:

        async def on_post(_message: Json, _wire: Wire) -> bytes | None:
            if len(server.streams) == 1:
                server.streams[0].cut()
            return None

        server.on_post = on_post
        await talk.initialize()
        assert len(server.streams) == 2


STEPS = ("initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["stream cut", "post cut", "refused", "mute"])
async def test_whatever_happens_while_everything_is_told_again(step: str, how: str) -> None:
    # Only of a mute server it takes time to see that it does not answer.
    patience_s = 0.3 if how == "mute" else 1000
    async with old_server() as server, talking(server.url, handshake_timeout_s=patience_s) as talk:
        await talk.initialize()
        await talk.result("logging/setLevel", {"level": "info"})
        await talk.result("resources/subscribe", {"uri": "a:b"})
        await talk.conversation.wait_told()

        async def on_post(message: Json, wire: Wire) -> bytes | None:
            if len(server.streams) != 2 or message.get("method") != step:
                return None
            if how == "stream cut":
                server.streams[1].cut()
            elif how == "post cut":
                wire.cut()
                return b""
            elif how == "refused":
                return answer(status="500 Oh")
            else:
                server.on_message = lambda _message: b"" if len(server.streams) == 2 else None
            return None

        server.on_post = on_post
        server.streams[0].cut()
        await until(lambda: len(server.streams) >= 2)
        answers = [await talk.answer(talk.request(CALL, {"name": "x"})) for _ in range(2)]
        # What waited for an attempt that failed was told so; what came later is answered.
        for reply in answers[:-1]:
            assert "result" in reply or reply["error"]["data"]["retryable"]
        assert "result" in answers[-1] or how == "refused"
        await until(lambda: server.methods(len(server.streams))[:4] == list(STEPS))
        assert await talk.result(CALL) == {"method": CALL}


async def test_a_server_that_speaks_another_revision_after_a_cut_is_not_gone_on_with() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        server.version = "2025-03-26"
        server.streams[0].cut()
        await until(lambda: len(server.streams) >= 2)
        assert await talk.reason(CALL) == ("version_changed", True)


async def test_a_server_that_refuses_streams_from_now_on_is_asked_so_often_and_then_when_somebody_calls() -> (
    None
):
    async with old_server() as server, talking(server.url, most_refused_resumes=4) as talk:
        await talk.initialize()
        await talk.conversation.wait_told()

        async def on_get(_number: int, _wire: Wire) -> bytes:
            return answer(status="500 Oh")

        server.on_get = on_get
        server.streams[0].cut()
        await until(lambda: len(server.streams) == 1 + 4)
        await until(lambda: "open stream" not in [task.get_name() for task in asyncio.all_tasks()])
        assert len(server.streams) == 1 + 4
        assert await talk.reason(CALL) == ("http_500", True)
        server.on_get = None
        assert await talk.result(CALL) == {"method": CALL}


async def test_an_error_that_names_no_call_is_about_the_only_one_or_perhaps_about_any() -> None:
    nameless = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}}
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        hold(server, CALL)
        id = talk.request(CALL)
        await heard(server, CALL)
        server.say(nameless)
        assert (await talk.answer(id))["error"]["message"] == "what?"
        ids = [talk.request(CALL) for _ in range(2)]
        await heard(server, CALL, 3)
        server.say(nameless)
        for id in ids:
            assert (await talk.answer(id))["error"]["data"]["reason"] == "bad_answer"
        server.say(nameless)
        assert await talk.result(READ) == {"method": READ}


async def test_junk_that_nobody_waits_for_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        await talk.conversation.wait_quiet()
        no_message(server.streams[0])
        await until(lambda: [record for record in caplog.records if "no message" in record.getMessage()])
        assert await talk.result(READ) == {"method": READ}
        assert len(server.streams) == 1


async def test_a_question_that_comes_while_everything_is_told_again_is_answered() -> None:
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        await talk.conversation.wait_told()
        note = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}

        def on_message(message: Json) -> bytes | None:
            second = len(server.streams) == 2 and message.get("method") == "notifications/initialized"
            return named_event("message", json.dumps(note)) if second else None

        server.on_message = on_message
        server.streams[0].cut()
        question = await talk.message(lambda one: one.get("method") == "roots/list")
        talk.send({"jsonrpc": "2.0", "id": question["id"], "result": {}})
        await until(lambda: (2, {"jsonrpc": "2.0", "id": "q", "result": {}}) in server.heard)


async def test_the_end_while_everything_is_under_way() -> None:
    async with old_server() as server:
        async with talking(server.url) as talk:
            talk.request("initialize")
        async with talking(server.url) as talk:
            await talk.initialize()
            hold(server, CALL)
            talk.request(CALL)
            await heard(server, CALL)
        await until(
            lambda: all(wire.reader.at_eof() or wire.reader.exception() for wire in server.streams[1:])
        )


async def test_a_conversation_that_is_over_opens_nothing() -> None:
    async with old_server() as server:
        async with talking(server.url) as talk:
            await talk.initialize()
        streams = len(server.streams)
        assert streams == 1
        with pytest.raises(NotSent):
            await talk.client.connect()


async def test_the_server_is_replaced_under_load() -> None:
    """Cut again and again while calls are made: one answer each, and reads always succeed in the end."""
    async with old_server() as server, talking(server.url) as talk:
        await talk.initialize()
        stop = asyncio.Event()

        async def cutting() -> None:
            while not stop.is_set():
                server.streams[-1].cut()
                await asyncio.sleep(0.02)

        cutter = asyncio.create_task(cutting())
        replies = await _many(talk, 200)
        stop.set()
        await cutter
        reasons = {reply["error"]["data"]["reason"] for reply in replies if "error" in reply}
        assert reasons <= {LOST}
        assert await talk.result(READ) == {"method": READ}


async def _many(talk: Talk, number: int) -> list[Json]:
    async with within(60):
        replies = []
        for start in range(0, number, 10):
            ids = [talk.request(CALL if n % 2 else READ) for n in range(start, start + 10)]
            replies += [await talk.answer(id) for id in ids]
        return replies
