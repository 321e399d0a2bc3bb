"""Every tool, prompt and resource of the demo server, over real pipes."""

import json
import signal
from typing import Any

import pytest

from tests.integration.test_demo_server import Demo, demo, start, stranger

__all__ = ["demo", "start", "stranger"]  # fixtures


def test_the_list_tells_the_truth_about_each_tool(demo: Demo) -> None:
    tools = {tool["name"]: tool for tool in demo.result("tools/list")["tools"]}
    assert set(tools) == {
        *("echo", "add", "sleep", "crash", "noisy", "big", "ask", "sample", "roots"),
        *("counter", "touch", "log", "toggle"),
    }
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools.values())
    repeatable = {
        name
        for name, tool in tools.items()
        if tool["annotations"]["readOnlyHint"] or tool["annotations"]["idempotentHint"]
    }
    assert repeatable == set(tools) - {"counter", "crash", "toggle"}


@pytest.mark.parametrize(
    "text", ["", "hello", 'a"b\\c\n\r\t\0\x7f', "日本語 🛟", "\u2028\u2029", "\ud83d", "'" * 70_000]
)
def test_echo(demo: Demo, text: str) -> None:
    assert demo.text("echo", text=text) == text


@pytest.mark.parametrize(("a", "b", "total"), [(1, 2, "3"), (0.5, 0.25, "0.75"), (2**63, 1, str(2**63 + 1))])
def test_add(demo: Demo, a: float, b: float, total: str) -> None:
    assert demo.text("add", a=a, b=b) == total


@pytest.mark.parametrize("token", ["t", 0, 7])
def test_sleep_reports_progress_to_the_token_of_the_caller(demo: Demo, token: str | int) -> None:
    assert "result" in demo.answer_to(demo.ask_tool("sleep", token=token, seconds=0.03, steps=3))
    assert [message["params"] for message in demo.heard] == [
        {"progressToken": token, "progress": step, "total": 3} for step in (1, 2, 3)
    ]


def test_sleep_without_token_or_steps_is_quiet(demo: Demo) -> None:
    demo.call("sleep", seconds=0.01, steps=3)
    demo.answer_to(demo.ask_tool("sleep", token=1, seconds=0, steps=0))
    assert demo.heard == []


def test_the_faster_call_is_answered_first(demo: Demo) -> None:
    slow = demo.ask_tool("sleep", seconds=0.3)
    medium = demo.ask_tool("sleep", seconds=0.1)
    fast = demo.ask_tool("echo", text="x")
    assert [demo.read()["id"] for _ in range(3)] == [fast, medium, slow]


def test_many_sleep_at_once(demo: Demo) -> None:
    ids = {demo.ask_tool("sleep", seconds=0.2) for _ in range(500)}
    assert {demo.read()["id"] for _ in range(500)} == ids


def test_a_cancelled_call_is_never_answered(demo: Demo) -> None:
    demo.ask_tool_and_cancel("sleep", seconds=0.05, steps=5)
    demo.call("sleep", seconds=0.1)
    assert demo.heard == []


def test_cancelling_what_is_not_there_changes_nothing(demo: Demo) -> None:
    waiting = demo.ask_tool("sleep", seconds=0.05)
    demo.cancel(str(waiting))
    demo.cancel(waiting + 1)
    demo.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}})
    demo.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []})
    assert "result" in demo.answer_to(waiting)
    demo.cancel(waiting)
    assert demo.result("ping") == {}


def test_an_id_in_use_is_refused(demo: Demo) -> None:
    params = {"name": "sleep", "arguments": {"seconds": 0.1}}
    for _ in range(2):
        demo.send({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": params})
    first, second = demo.read(), demo.read()
    assert first["error"]["code"] == -32600
    assert "result" in second


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({}, 1),
        ({"code": 0}, 0),
        ({"code": 42}, 42),
        ({"signal": "SIGKILL"}, -signal.SIGKILL),
        ({"signal": "term"}, -signal.SIGTERM),
        ({"signal": int(signal.SIGSEGV)}, -signal.SIGSEGV),
        ({"code": 3, "after_ms": 50}, 3),
    ],
)
def test_crash(demo: Demo, arguments: dict[str, Any], status: int) -> None:
    before = demo.ask("ping")
    demo.ask_tool("crash", **arguments)
    assert demo.read()["id"] == before
    with pytest.raises(EOFError):
        demo.read_line()
    assert demo.wait() == status


def test_crash_after_the_answer(demo: Demo) -> None:
    assert demo.text("crash", code=9, answer=True, after_ms=50)
    assert demo.result("ping") == {}
    assert demo.wait() == 9


def test_a_crash_can_be_cancelled(demo: Demo) -> None:
    demo.ask_tool_and_cancel("crash", after_ms=100)
    assert demo.text("sleep", seconds=0.2)


def test_noisy(demo: Demo) -> None:
    id = demo.ask_tool("noisy", lines=3, stream="both")
    assert [demo.read_line() for _ in range(3)] == [b"this line is not JSON-RPC: %d" % n for n in (1, 2, 3)]
    assert demo.read()["id"] == id
    assert demo.text("noisy", lines=1, stream="stderr")
    id = demo.ask_tool("noisy", lines=1, stream="stdout")
    assert demo.read_line().startswith(b"this line")
    assert demo.read()["id"] == id
    _, _, err = demo.end_stdin()
    assert err.splitlines() == [b"this line is only noise: %d" % n for n in (1, 2, 3, 1)]


@pytest.mark.parametrize("size", [0, 1, 100_000, 3 << 20])
def test_big(demo: Demo, size: int) -> None:
    assert len(demo.text("big", bytes=size)) == size


def _answer(demo: Demo, method: str, answer: dict[str, Any]) -> dict[str, Any]:
    asked = demo.read()
    assert asked["method"] == method
    demo.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
    params: dict[str, Any] = asked["params"]
    return params


def test_ask(stranger: Demo) -> None:
    stranger.initialize(elicitation={})
    id = stranger.ask_tool("ask", message="Your name?")
    params = _answer(
        stranger, "elicitation/create", {"result": {"action": "accept", "content": {"answer": "Ada"}}}
    )
    assert params["message"] == "Your name?"
    assert params["requestedSchema"]["required"] == ["answer"]
    result = stranger.answer_to(id)["result"]
    assert result["structuredContent"] == {"action": "accept", "content": {"answer": "Ada"}}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_two_ask_at_once_and_each_gets_its_own_answer(stranger: Demo) -> None:
    stranger.initialize(elicitation={"form": {}})
    calls = [stranger.ask_tool("ask", message=text) for text in ("a", "b")]
    asked = [stranger.read() for _ in calls]
    for question in reversed(asked):
        echo = {"action": "accept", "content": {"answer": question["params"]["message"]}}
        stranger.send({"jsonrpc": "2.0", "id": question["id"], "result": echo})
    answers = {answer["id"]: answer["result"] for answer in (stranger.read(), stranger.read())}
    assert [answers[id]["structuredContent"]["content"]["answer"] for id in calls] == ["a", "b"]


def test_sample(stranger: Demo) -> None:
    stranger.initialize(sampling={})
    id = stranger.ask_tool("sample", prompt="Hi")
    reply = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}
    params = _answer(stranger, "sampling/createMessage", {"result": reply})
    assert params["messages"][0]["content"]["text"] == "Hi"
    assert stranger.answer_to(id)["result"]["structuredContent"] == reply


def test_roots(stranger: Demo) -> None:
    stranger.initialize(roots={"listChanged": True})
    id = stranger.ask_tool("roots")
    roots = {"roots": [{"uri": "file:///home", "name": "home"}]}
    _answer(stranger, "roots/list", {"result": roots})
    assert stranger.answer_to(id)["result"]["structuredContent"] == roots


def test_an_error_of_the_client_is_the_result_of_the_tool(stranger: Demo) -> None:
    stranger.initialize(sampling={})
    id = stranger.ask_tool("sample")
    _answer(stranger, "sampling/createMessage", {"error": {"code": -1, "message": "no"}})
    result = stranger.answer_to(id)["result"]
    assert result["isError"]
    assert "error -1: no" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("tool", "word"), [("ask", "elicitation"), ("sample", "sampling"), ("roots", "roots")]
)
def test_a_client_without_the_capability_is_told(demo: Demo, tool: str, word: str) -> None:
    result = demo.call(tool)
    assert result["isError"]
    assert f"no {word} capability" in result["content"][0]["text"]


def test_elicitation_by_url_only_is_not_enough_to_ask(stranger: Demo) -> None:
    stranger.initialize(elicitation={"url": {}})
    assert stranger.call("ask")["isError"]


def test_cancelling_a_call_cancels_what_it_asked(stranger: Demo) -> None:
    stranger.initialize(elicitation={})
    call = stranger.ask_tool("ask")
    asked = stranger.read()
    stranger.cancel(call)
    told = stranger.read()
    assert (told["method"], told["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
    stranger.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}})
    assert stranger.result("ping") == {}
    assert stranger.heard == []


def test_counter_and_its_resource(demo: Demo) -> None:
    for count in (1, 2):
        state = demo.call("counter")["structuredContent"]
        assert state == {"count": count, "pid": demo.process.pid}
    contents = demo.result("resources/read", {"uri": "demo://counter"})["contents"]
    assert contents == [{"uri": "demo://counter", "mimeType": "text/plain", "text": "2"}]
    demo.result("resources/subscribe", {"uri": "demo://counter"})
    demo.call("counter")
    assert [message["params"] for message in demo.heard] == [{"uri": "demo://counter"}]


def test_touch_tells_subscribers_only(demo: Demo) -> None:
    demo.text("touch", text="one")
    assert demo.heard == []
    demo.result("resources/subscribe", {"uri": "demo://note"})
    demo.text("touch", text="two")
    assert [message["method"] for message in demo.heard] == ["notifications/resources/updated"]
    demo.result("resources/unsubscribe", {"uri": "demo://note"})
    demo.text("touch", text="three")
    assert len(demo.heard) == 1
    assert demo.result("resources/read", {"uri": "demo://note"})["contents"][0]["text"] == "three"


def test_resources_and_templates(demo: Demo) -> None:
    for resource in demo.result("resources/list")["resources"]:
        assert demo.result("resources/read", {"uri": resource["uri"]})["contents"][0]["text"]
    (template,) = demo.result("resources/templates/list")["resourceTemplates"]
    uri = template["uriTemplate"].replace("{text}", "a%20b")
    assert demo.result("resources/read", {"uri": uri})["contents"][0]["text"] == "a b"


def test_prompt_and_its_completion(demo: Demo) -> None:
    (prompt,) = demo.result("prompts/list")["prompts"]
    arguments = {"name": "Ada", "tone": "nautical"}
    got = demo.result("prompts/get", {"name": prompt["name"], "arguments": arguments})
    assert got["messages"][0]["content"]["text"] == "Write a nautical greeting for Ada."
    reference = {"type": "ref/prompt", "name": "greet"}
    for name, values in (("tone", ["formal", "friendly"]), ("name", [])):
        argument = {"name": name, "value": "f"}
        completion = demo.result("completion/complete", {"ref": reference, "argument": argument})[
            "completion"
        ]
        assert completion["values"] == values


def test_the_log_level_is_honoured(demo: Demo) -> None:
    assert demo.text("log", level="debug").startswith("not sent")
    assert demo.text("log", message="hi") == "sent"
    assert [message["params"] for message in demo.heard] == [
        {"level": "info", "logger": "demo", "data": "hi"}
    ]
    demo.result("logging/setLevel", {"level": "error"})
    assert demo.text("log", level="warning").startswith("not sent")
    assert demo.text("log", level="emergency") == "sent"
    demo.result("logging/setLevel", {"level": "debug"})
    assert demo.text("log", level="debug") == "sent"
    assert len(demo.heard) == 3


def test_toggle(demo: Demo) -> None:
    for there in (True, False):
        demo.text("toggle")
        names = {tool["name"] for tool in demo.result("tools/list")["tools"]}
        assert ("extra" in names) is there
        if there:
            assert demo.text("extra") == "only sometimes here"
    assert [message["method"] for message in demo.heard] == ["notifications/tools/list_changed"] * 2
