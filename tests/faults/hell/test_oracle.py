"""The oracle sees what it is there to see."""

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.wire.sse import Event
from tests.faults.hell.facts import Call, Facts, Json, Ledger
from tests.faults.hell.hearing import Hearing, Reading
from tests.faults.hell.oracle import judge

SAID = {"token": "t", "value": "v1"}


def answer(result: Json) -> dict[str, Json]:
    return {"#0": {"jsonrpc": "2.0", "id": 1, "result": result}}


def failure(reason: str, retryable: bool) -> dict[str, Json]:
    data = {"reason": reason, "retryable": retryable}
    return {"#0": {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "", "data": data}}}


def refusal(code: int) -> dict[str, Json]:
    data: Json = {"requiredCapabilities": {"roots": {}}}
    return {"#0": {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "", "data": data}}}


COMPLETE, ASKED = {"resultType": "complete"}, {"resultType": "input_required"}
MODERN: Json = {"capabilities": {}}


def verdict(tmp_path: Path, *executed: str, retries: bool = False, **members: Any) -> list[str]:
    """What is wrong with a call of which this is known, and which was executed with these values."""
    path = tmp_path / "ledger"
    path.write_text("".join(f"1.0 1 77 executed t {value}\n" for value in executed))
    facts = Facts(0)
    facts.closed["deleted1"] = "the client ended it"
    facts.calls.append(Call(**{"token": "t", "id": 1, "method": "tools/call", "whole": True, **members}))
    judge(facts, Ledger(path), retries=retries)
    return facts.problems


@pytest.mark.parametrize(
    "known",
    [
        {"executed": ["v1"], "answers": answer(SAID)},
        {"executed": ["v1", "v2"], "answers": answer(SAID), "repeatable": True, "retries": True},
        {"executed": ["v1"], "answers": failure("server_exited", False)},
        {"executed": ["v1"], "answers": failure("server_exited", True), "repeatable": True},
        {"executed": [], "answers": failure("server_unavailable", True)},
        {"executed": ["v1"], "left": True},
        {"executed": [], "whole": False},
        {"executed": [], "status": 404, "session_id": "deleted1xyz"},
        {"executed": ["v1"], "answers": answer({**SAID, "token": "t"}), "twin": None},
        {"executed": ["v1"], "answers": answer({**SAID, **COMPLETE}), **MODERN},
        {"executed": ["v1"], "answers": answer(ASKED), **MODERN},
        {"executed": ["v1"], "answers": refusal(-32602), "state_is": "used", **MODERN},
        {"executed": ["v1"], "answers": refusal(-32021), **MODERN},
        {"executed": [], "answers": answer(COMPLETE), "method": "server/discover", **MODERN},
    ],
)
def test_what_may_be(tmp_path: Path, known: Json) -> None:
    executed = known.pop("executed")
    assert verdict(tmp_path, *executed, **known) == []


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        ({"executed": ["v1", "v2"], "answers": answer(SAID)}, "executed 2 times"),
        ({"executed": ["v1", "v2"], "answers": answer(SAID), "repeatable": True}, "executed 2 times"),
        ({"executed": ["v1"], "answers": answer({**SAID, "token": "u"})}, "got the answer to u"),
        ({"executed": ["v1"], "answers": answer({**SAID, "value": "v9"})}, "which no server said"),
        ({"executed": ["v1"], "answers": failure("server_busy", True)}, "told to be retryable"),
        ({"executed": [], "answers": failure("who_knows", False)}, "a strange answer"),
        ({"executed": ["v1"], "answers": answer(SAID) | {"e-2": {"id": 1}}}, "answered 2 times"),
        ({"executed": [], "cut": True}, "ended without an answer"),
        ({"executed": []}, "never answered"),
        ({"executed": ["v1"], "whole": False, "left": True}, "never sent whole"),
        ({"executed": ["v1"], "forbidden": True}, "not for its client"),
        ({"executed": ["v1"], "status": 404, "session_id": "deleted1"}, "refused with 404"),
        ({"executed": [], "status": 404, "session_id": "another1"}, "was not found"),
        ({"executed": [], "status": 500}, "refused with 500"),
        ({"executed": [], "status": 503}, "refused with 503"),
        ({"executed": ["v1"], "answers": answer(SAID), **MODERN}, "a result of no type"),
        ({"executed": ["v1"], "answers": refusal(-32602), "state_is": "good", **MODERN}, "a strange answer"),
        ({"executed": ["v1"], "answers": answer(ASKED), "state_is": "bad", **MODERN}, "a bad state"),
        ({"executed": ["v1"], "answers": refusal(-32021), "capabilities": {"roots": {}}}, "can be asked"),
    ],
)
def test_what_must_not_be(tmp_path: Path, known: Json, seen: str) -> None:
    executed = known.pop("executed")
    assert any(seen in problem for problem in verdict(tmp_path, *executed, **known))


def heard(*events: tuple[str, str], calls: tuple[Call, ...] = (), shared: bool = False) -> list[str]:
    """What is wrong when a client hears these (id, data) on one stream."""
    facts = Facts(0, shared=shared)
    hearing, reading = Hearing(facts, "me", lambda id, question, reading: None), Reading(calls)
    for call in calls:
        hearing.expect(call)
    for id, data in events:
        hearing.event(Event("message", data, id, None), reading)
    return facts.problems


def note(name: str, session: str = "me", method: str = "notifications/message", **params: Any) -> str:
    return json.dumps(
        {"jsonrpc": "2.0", "method": method, "params": {"hell": session, "note": name, **params}}
    )


def test_what_may_be_heard() -> None:
    call = Call(token="t", id=1, method="tools/call", progress="p")
    progress = note("n.1.2", method="notifications/progress", progressToken="p")
    assert heard(("p-0", ""), ("p-1", note("n.1.1")), ("p-2", progress), ("p-2", ""), calls=(call,)) == []


@pytest.mark.parametrize(
    ("events", "seen"),
    [
        ([("g-1", note("n.1.1", session="you"))], "what was said to you"),
        ([("g-1", note("n.1.1")), ("g-2", note("n.1.1"))], "came twice"),
        ([("", note("n.1.1")), ("", note("n.1.1"))], "came twice"),
        ([("g-1", note("n.1.2")), ("g-2", note("n.1.1"))], "came after number 2"),
        ([("g-2", note("n.1.1")), ("g-1", note("n.1.2"))], "came after g-2"),
        ([("g-1", note("n.1.1")), ("g-1", note("n.1.2"))], "the event g-1 is"),
        ([("g-1", '{"jsonrpc":"2.0","id":1,"result":{}}')], "where it does not belong"),
        ([("g-1", '{"jsonrpc":"2.0","method":"ping","id":1}')], "nobody can have said"),
        ([("g-1", note("n.1.1", method="notifications/progress", progressToken="q"))], "progress of 'q'"),
    ],
)
def test_what_must_not_be_heard(events: list[tuple[str, str]], seen: str) -> None:
    assert any(seen in problem for problem in heard(*events))


def test_progress_of_another_call_must_not_be_heard() -> None:
    call = Call(token="t", id=1, method="tools/call", progress="p")
    others = note("n.1.1", method="notifications/progress", progressToken="p", of="u")
    assert any("progress of 'p', of u" in problem for problem in heard(("p-1", others), calls=(call,)))


LISTENER = Call(token="t", id=1, method="resources/subscribe", level="info", uri="hell://x")


@pytest.mark.parametrize(
    "said",
    [
        note("n.1.1", level="error"),
        note("n.1.1", session="", method="notifications/resources/updated", uri="hell://x"),
        note("n.1.1", session="", method="notifications/tools/list_changed"),
    ],
)
def test_what_may_be_heard_of_a_shared_server(said: str) -> None:
    assert heard(("g-1", said), calls=(LISTENER,), shared=True) == []


@pytest.mark.parametrize(
    "said",
    [
        note("n.1.1", level="debug"),
        note("n.1.1", session="you", level="error"),
        note("n.1.1", session="", method="notifications/resources/updated", uri="hell://y"),
        note("n.1.1", method="notifications/cancelled", requestId=1),
        json.dumps({**json.loads(note("ask.1.1", method="ping")), "id": 7}),
    ],
)
def test_what_must_not_be_heard_of_a_shared_server(said: str) -> None:
    assert heard(("g-1", said), calls=(LISTENER,), shared=True) != []


def heard_without_session(call: Call, *said: str) -> list[str]:
    facts = Facts(0)
    hearing = Hearing(facts, "me", lambda id, question, reading: None)
    hearing.is_stateless = True
    reading = Reading([call])
    for data in said:
        hearing.event(Event("message", data, "", None), reading)
    return facts.problems


def news(method: str, id: int = 1, **params: Any) -> str:
    meta = {"io.modelcontextprotocol/subscriptionId": id}
    return note("n.1.1", session="", method=f"notifications/{method}", _meta=meta, **params)


FIRST = news("subscriptions/acknowledged")
TOOLS = "tools/list_changed"
WANTED = {"toolsListChanged": True, "resourceSubscriptions": ["hell://x"]}


def listening() -> Call:
    return Call(token="t", id=1, method="subscriptions/listen", wanted=WANTED, capabilities={})


def test_what_may_be_heard_without_a_session() -> None:
    call = Call(token="t", id=1, method="tools/call", progress="p", level="info", capabilities={})
    progress = note("n.1.2", method="notifications/progress", progressToken="p", of="t")
    assert heard_without_session(call, note("n.1.1", level="info"), progress) == []
    assert heard_without_session(listening(), FIRST.replace("n.1.1", "n.1.0"), news(TOOLS)) == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call(token="t", id=1, method="tools/call"), [note("n.1.1", level="info")]),
        (Call(token="t", id=1, method="tools/call"), [note("n.1.1", method=f"notifications/{TOOLS}")]),
        (listening(), [news(TOOLS)]),
        (listening(), [FIRST, FIRST.replace("n.1.1", "n.1.2")]),
        (listening(), [FIRST, news("prompts/list_changed").replace("n.1.1", "n.1.2")]),
        (listening(), [FIRST, news("resources/updated", uri="hell://y").replace("n.1.1", "n.1.2")]),
        (listening(), [FIRST, news(TOOLS, id=2).replace("n.1.1", "n.1.2")]),
    ],
)
def test_what_must_not_be_heard_without_a_session(call: Call, said: list[str]) -> None:
    assert heard_without_session(call, *said) != []
