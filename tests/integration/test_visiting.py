"""A visit to a server: what it asks, how it ends, and that its bounds hold."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.errors import MooringError, Unavailable
from mooring.host import visiting
from mooring.host.stop import SECOND_AFTER_S, Stop
from mooring.host.visiting import VisitOptions
from mooring.remote import visitor as visitors
from mooring.remote.visitor import Refused, Visitor
from tests.faults.test_stdio_server import CALL, McpScript, Script, always, only, result
from tests.hosting import hosting
from tests.raw_server import Asked, Json, RawServer, Wire, answer, event, raw_server, stream_head
from tests.support import on_both_loops, within

Errand = Callable[[Visitor], Awaitable[int]]


class Company:
    """Hears everything, and answers what a test says."""

    def __init__(self, **answers: Callable[[Json], Awaitable[Json]]) -> None:
        self.notes: list[Json] = []
        self.logs: list[Json] = []
        self._answers = answers
        self.progressed = self.notes.append
        self.logged = self.logs.append

    def answers(self, method: str) -> Callable[[Json], Awaitable[Json]] | None:
        return self._answers.get(method.partition("/")[0])


async def visit(
    url: str, errand: Errand, company: Company | None = None, stop: Stop | None = None, **options: Any
) -> int:
    async with within():
        return await visiting.run(
            VisitOptions(url=url, **options), company or Company(), errand, stop or Stop(time.monotonic)
        )


def said(server: RawServer) -> list[str]:
    """What reached the server, without the stream that nobody asked for."""
    asked = [one for one in server.requests if one.method != "GET"]
    return [one.message.get("method", "answer") if one.body else one.method for one in asked]


async def never(_asked: Asked, wire: Wire) -> None:
    await wire.closed_by_peer()


def calling(timeout_s: float | None = None) -> Errand:
    async def errand(visitor: Visitor) -> int:
        await visitor.ask("tools/call", CALL, timeout_s=timeout_s)
        return 0

    return errand


@on_both_loops
async def test_a_visit() -> None:
    company = Company()

    async def errand(visitor: Visitor) -> int:
        assert visitor.offers("tools") and not visitor.offers("tasks")
        tools, whole = await visitor.list_all("tools/list", "tools", timeout_s=10)
        assert whole and "echo" in {tool["name"] for tool in tools}
        params = {"name": "sleep", "arguments": {"seconds": 0.01, "steps": 2}}
        answer = await visitor.ask("tools/call", params)
        assert answer["content"][0]["text"] == "slept 0.01 s"
        await visitor.ask("tools/call", {"name": "log", "arguments": {}})
        with pytest.raises(Refused) as caught:
            await visitor.ask("tools/call", {"name": "nothing"})
        assert caught.value.number == -32602
        return 7

    async with hosting() as host:
        assert await visit(host.url, errand, company) == 7
        await host.logged("session_closed")
    assert [note["progress"] for note in company.notes] == [1, 2]
    assert [note["data"] for note in company.logs] == ["hello from the log"]


async def test_a_signal_cancels_the_call_and_ends_the_session() -> None:
    stop = Stop(time.monotonic)

    async def hold(_asked: Asked, wire: Wire) -> None:
        stop.request("SIGINT")
        await wire.closed_by_peer()

    async with raw_server(McpScript(only("tools/call", hold))) as server:
        assert await visit(server.url, calling(), stop=stop) == 130
        assert said(server)[-3:] == ["tools/call", "notifications/cancelled", "DELETE"]
        call, cancelled = (
            next(one.message for one in server.requests if one.body and one.message.get("method") == method)
            for method in ("tools/call", "notifications/cancelled")
        )
        assert cancelled["params"] == {"requestId": call["id"], "reason": "interrupted"}


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server() -> None:
    async with raw_server(McpScript(only("tools/call", never))) as server:
        with pytest.raises(Unavailable, match=r"within 0\.2 s; it was cancelled"):
            await visit(server.url, calling(0.2))
        assert said(server)[-2:] == ["notifications/cancelled", "DELETE"]


async def test_a_server_that_opens_no_session_is_not_waited_for() -> None:
    async with raw_server(never) as server:
        with pytest.raises(Unavailable, match="no answer to initialize"):
            await visit(server.url, calling(), open_timeout_s=0.2)
        assert said(server) == ["initialize"], "which nobody may cancel"


async def test_a_server_that_has_no_time_now_is_not_waited_for_and_says_why() -> None:
    async def busy(_asked: Asked, wire: Wire) -> None:
        body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"restarted in 60 s: boom"}}'
        head = b"HTTP/1.1 503 Busy\r\nretry-after: 60\r\ncontent-type: application/json\r\n"
        wire.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    async with raw_server(busy) as server:
        with pytest.raises(MooringError, match="restarted in 60 s: boom"):
            await visit(server.url, calling())
        assert said(server) == ["initialize"]


MUTE = (sys.executable, "-c", "import sys; sys.stdin.read()")


async def test_a_visit_that_ends_before_its_session_is_open_leaves_none() -> None:
    async with hosting(MUTE, spare=0) as host:
        with pytest.raises(Unavailable, match="no answer to initialize"):
            await visit(host.url, calling(), open_timeout_s=0.5)
        ended = await host.logged("session_closed")
        assert "left before it was open" in ended.getMessage()


async def test_a_session_that_has_a_name_and_is_not_open_yet_is_ended_by_it() -> None:
    async def begin(asked: Asked, wire: Wire) -> bytes | None:
        if asked.method == "DELETE":
            return answer(status="204 Gone")
        wire.send(stream_head(Mcp_Session_Id="early"))
        await wire.closed_by_peer()
        return None

    async with raw_server(begin) as server:
        with pytest.raises(Unavailable, match="no answer to initialize"):
            await visit(server.url, calling(), open_timeout_s=0.5)
        assert said(server) == ["initialize", "DELETE"]
        assert server.requests[-1].headers["mcp-session-id"] == "early"


async def test_a_server_that_does_not_hear_of_the_cancellation_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visiting, "CANCEL_S", 0.2)

    async def deaf(asked: Asked, wire: Wire) -> bytes | None:
        method = asked.message.get("method") if asked.body else asked.method
        if method not in ("tools/call", "notifications/cancelled"):
            return b""
        await wire.closed_by_peer()
        return None

    async with raw_server(McpScript(deaf)) as server:
        with pytest.raises(Unavailable):
            await visit(server.url, calling(0.2))
        assert said(server)[-1] == "DELETE"


async def test_a_second_signal_waits_for_nothing() -> None:
    now = 0.0
    stop = Stop(lambda: now)

    async def hold(asked: Asked, wire: Wire) -> bytes | None:
        nonlocal now
        method = asked.message.get("method") if asked.body else asked.method
        if method not in ("DELETE", "tools/call"):
            return b""
        stop.request("SIGTERM")
        now += SECOND_AFTER_S
        await wire.closed_by_peer()
        return None

    async with raw_server(McpScript(hold)) as server:
        assert await visit(server.url, calling(), stop=stop) == 143


async def test_nobody_there() -> None:
    with pytest.raises(Unavailable, match="connection refused"):
        await visit("http://127.0.0.1:1/mcp", calling())
    with pytest.raises(MooringError, match="is not spoken here"):
        await visit("ftp://127.0.0.1/mcp", calling())


async def test_a_token_that_others_can_read_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    # Nobody has that name, so nothing is sent to anybody.
    with pytest.raises(Unavailable, match="cannot reach"):
        await visit("http://nobody.invalid/mcp", calling(), headers=[(b"X-Key", b"secret")])
    assert "sent to nobody.invalid without encryption" in caplog.text and "secret" not in caplog.text


async def test_what_is_no_mcp_server_is_told_so() -> None:
    async with raw_server(always(answer(b"<html>", kind="text/html"))) as server:
        with pytest.raises(Refused, match="not an MCP server"):
            await visit(server.url, calling())


# The era without handshakes


class ModernScript:
    """A server of 2026-07-28 alone, over HTTP; `asks` so often before it answers a call."""

    def __init__(self, asks: int = 0) -> None:
        self.asks = asks
        self.calls: list[Json] = []

    async def __call__(self, asked: Asked, _wire: Wire) -> bytes:
        message = asked.message
        method, params = message["method"], message["params"]
        if method == "initialize":
            error = {"code": -32022, "message": "only 2026-07-28", "data": {"supported": ["2026-07-28"]}}
            return answer({"jsonrpc": "2.0", "id": message["id"], "error": error}, "400 Bad")
        assert asked.headers["mcp-protocol-version"] == "2026-07-28" and asked.headers["mcp-method"] == method
        assert params["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "mooring"
        if method == "server/discover":
            return answer(result(asked, {"resultType": "complete", "capabilities": {"tools": {}}}))
        self.calls.append(params)
        if len(self.calls) > self.asks:
            return answer(result(asked, {"resultType": "complete", "content": []}))
        wanted = {"who": {"method": "elicitation/create", "params": {"message": "who?"}}}
        more = {
            "resultType": "input_required",
            "inputRequests": wanted,
            "requestState": f"s{len(self.calls)}",
        }
        return answer(result(asked, more))


async def test_a_server_without_handshakes() -> None:
    async def accept(params: Json) -> Json:
        return {"action": "accept", "content": params}

    async def errand(visitor: Visitor) -> int:
        assert visitor.offers("tools")
        await visitor.hear_logs("info", timeout_s=10)
        assert await visitor.ask("tools/call", CALL) == {"resultType": "complete", "content": []}
        return 0

    script = ModernScript(asks=2)
    async with raw_server(script) as server:
        assert await visit(server.url, errand, Company(elicitation=accept)) == 0
        assert said(server) == ["initialize", "server/discover", *["tools/call"] * 3], "there is no session"
    first, _, last = script.calls
    assert first["_meta"]["io.modelcontextprotocol/logLevel"] == "info"
    assert last["requestState"] == "s2" and "inputResponses" not in first
    assert last["inputResponses"] == {"who": {"action": "accept", "content": {"message": "who?"}}}


async def test_a_server_that_asks_for_ever_is_given_up() -> None:
    async def accept(_params: Json) -> Json:
        return {"action": "accept"}

    script = ModernScript(asks=1000)
    async with raw_server(script) as server:
        with pytest.raises(Refused, match="asked 10 times for more"):
            await visit(server.url, calling(), Company(elicitation=accept))
        with pytest.raises(Refused, match="which was not declared"):
            await visit(server.url, calling())
    assert len(script.calls) == visitors.MOST_ROUNDS + 2


async def test_of_a_server_that_refuses_both_eras_the_first_refusal_is_told() -> None:
    async def refuse(asked: Asked, _wire: Wire) -> bytes:
        error = {"code": -32603, "message": f"no {asked.message['method']}"}
        return answer({"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    async with raw_server(refuse) as server:
        with pytest.raises(Refused, match="no initialize"):
            await visit(server.url, calling())
    async with raw_server(always(answer(status="401 No"))) as server:
        with pytest.raises(Refused, match="wants to know who asks"):
            await visit(server.url, calling())
        assert said(server) == ["initialize"]


# Lists


def pages(next_cursor: Callable[[int], str | None], padding: str = "") -> Script:
    number = 0

    async def page(asked: Asked, _wire: Wire) -> bytes:
        nonlocal number
        number += 1
        following = {"nextCursor": cursor} if (cursor := next_cursor(number)) is not None else {}
        return answer(result(asked, {"tools": [{"name": str(number), "x": padding}, 5], **following}))

    return only("tools/list", page)


async def listed(script: Script) -> tuple[int, bool]:
    found: list[tuple[list[Json], bool]] = []

    async def errand(visitor: Visitor) -> int:
        found.append(await visitor.list_all("tools/list", "tools", timeout_s=10))
        return 0

    async with raw_server(McpScript(script)) as server:
        await visit(server.url, errand)
    [(items, whole)] = found
    return len(items), whole


async def test_all_pages_are_read() -> None:
    assert await listed(pages(lambda n: str(n) if n < 5 else None)) == (5, True)


async def test_a_list_without_end_is_read_to_its_bound() -> None:
    assert await listed(pages(str)) == (visitors.MOST_PAGES, False)
    assert await listed(pages(lambda _n: "same")) == (2, False)


async def test_pages_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "MAX_LIST_BYTES", 2500)
    assert await listed(pages(str, padding="x" * 1000)) == (3, False)


# Questions of the server


class Asking:
    """While a tool is called, asks something on its stream; answers the call when it was answered."""

    def __init__(self, *questions: Json) -> None:
        self.questions = questions
        self.heard: list[Json] = []
        self.stream: Wire | None = None
        self.call: Json = {}

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        message = asked.message if asked.body else {}
        if message.get("method") == "tools/call":
            self.stream, self.call = wire, message
            return stream_head() + b"".join(map(event, self.questions))
        if "method" in message or not message:
            return b""
        self.heard.append(message)
        if len(self.heard) == sum("id" in question for question in self.questions):
            self.finish()
        return b""

    def finish(self) -> None:
        assert self.stream is not None
        self.stream.send(event({"jsonrpc": "2.0", "id": self.call["id"], "result": {}}))


def question(id: str, method: str) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {}}


async def test_questions_are_answered_or_refused_in_words() -> None:
    async def accept(_params: Json) -> Json:
        return {"action": "accept"}

    asking = Asking(*(question(id, id) for id in ("elicitation/create", "sampling/createMessage", "ping")))
    async with raw_server(McpScript(asking)) as server:
        assert await visit(server.url, calling(), Company(elicitation=accept)) == 0
    heard = {one["id"]: one for one in asking.heard}
    assert heard["elicitation/create"]["result"] == {"action": "accept"}
    assert heard["sampling/createMessage"]["error"]["code"] == -32601
    assert heard["ping"]["result"] == {}


async def test_while_the_user_is_asked_no_time_runs() -> None:
    async def think(_params: Json) -> Json:
        await asyncio.sleep(2.5)
        return {"action": "accept"}

    asking = Asking(question("q", "elicitation/create"))
    async with raw_server(McpScript(asking)) as server:
        assert await visit(server.url, calling(2.0), Company(elicitation=think)) == 0


async def test_a_question_that_is_withdrawn_is_not_answered() -> None:
    asking = Asking(question("q", "elicitation/create"))
    withdrawn: list[bool] = []

    async def wait(_params: Json) -> Json:
        assert asking.stream is not None
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}}
        asking.stream.send(event(note))
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.append(True)
            asking.finish()
        return {}

    async with raw_server(McpScript(asking)) as server:
        assert await visit(server.url, calling(), Company(elicitation=wait)) == 0
    assert withdrawn and not asking.heard
