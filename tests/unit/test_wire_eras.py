"""What one era says, for ears of the other."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mooring.wire.eras import (
    Preface,
    complete_result,
    discovery,
    elicitations_of,
    for_handshake_error,
    for_modern_error,
    handshake_result,
    input_required,
    reduced_result,
    with_subscription,
)
from mooring.wire.modern import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LEVEL_KEY,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)

SERVER = b'{"name":"s","version":"1"}'
NAMED = {SERVER_KEY: {"name": "s", "version": "1"}}


def reduced(result: dict[str, Any], method: str, spacing: tuple[str, str] | None = None) -> Any:
    data = reduced_result(json.dumps(result, separators=spacing).encode(), method)
    assert data is not None
    return json.loads(data)


@pytest.mark.parametrize(
    ("result", "method", "wanted"),
    [
        ({"content": []}, "tools/call", {"content": [], "resultType": "complete", "_meta": NAMED}),
        ({}, "completion/complete", {"resultType": "complete", "_meta": NAMED}),
        (
            {"tools": []},
            "tools/list",
            {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": NAMED},
        ),
        ({"_meta": {"a": 1}}, "tools/call", {"resultType": "complete", "_meta": {**NAMED, "a": 1}}),
        ({"resultType": "odd", "x": 1}, "tools/call", {"resultType": "complete", "x": 1, "_meta": NAMED}),
        (
            {"tools": [], "ttlMs": 5},
            "tools/list",
            {"tools": [], "resultType": "complete", "ttlMs": 5, "cacheScope": "private", "_meta": NAMED},
        ),
        ({"text": '"_meta"'}, "tools/call", {"text": '"_meta"', "resultType": "complete", "_meta": NAMED}),
    ],
)
def test_a_result_is_made_whole(result: dict[str, Any], method: str, wanted: dict[str, Any]) -> None:
    assert json.loads(complete_result(json.dumps(result).encode(), method, SERVER)) == wanted


def test_a_result_that_is_no_object_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        complete_result(b"[1]", "tools/call", SERVER)


def test_the_rest_of_a_result_keeps_its_bytes() -> None:
    whole = complete_result(b'{ "n": 12345678901234567890.10, "t":"\\ud83d"}', "tools/call", b"")
    assert whole == b'{"resultType":"complete","n": 12345678901234567890.10, "t":"\\ud83d"}'


def test_discovery_from_an_initialize_result() -> None:
    said = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}, "tasks": {}},
        "serverInfo": {"name": "s", "version": "1"},
        "instructions": "hm",
    }
    result, server = discovery(json.dumps(said).encode())
    found = json.loads(result)
    assert found["supportedVersions"][0] == "2026-07-28"
    assert found["capabilities"] == {"tools": {"listChanged": True}}
    assert (found["instructions"], found["resultType"], found["_meta"]) == ("hm", "complete", NAMED)
    assert json.loads(server) == {"name": "s", "version": "1"}


def test_an_initialize_result_from_discovery() -> None:
    said = {"capabilities": {"tools": {}, "extensions": {"x": {}}}, "instructions": "hm", "_meta": NAMED}
    assert json.loads(handshake_result(json.dumps(said).encode(), "2025-06-18")) == {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
        "instructions": "hm",
    }


def test_errors_for_either_era() -> None:
    not_found = Raw(b'{"code":-32002,"message":"no","data":{"uri":"x"}}')
    code, error = for_modern_error(not_found)
    assert code == -32602 and json.loads(error) == {"code": -32602, "message": "no", "data": {"uri": "x"}}
    other = Raw(b'{"code":-32603,"message":"no"}')
    assert for_modern_error(other) == (-32603, bytes(other))
    assert json.loads(for_handshake_error(error, "resources/read"))["code"] == -32002
    assert for_handshake_error(error, "tools/call") == error
    missing = Raw(b'{"code":-32021,"message":"no","data":{"requiredCapabilities":{"roots":{}}}}')
    assert json.loads(for_handshake_error(missing, "tools/call"))["code"] == -32603


def test_pages_to_be_visited_become_questions() -> None:
    page = {"mode": "url", "url": "http://x", "message": "go", "elicitationId": "e1"}
    error = {"code": -32042, "message": "visit", "data": {"elicitations": [page]}}
    found = elicitations_of(json.dumps(error).encode())
    assert found is not None
    assert json.loads(found["url-0"]) == {
        "method": "elicitation/create",
        "params": {"mode": "url", "url": "http://x", "message": "go"},
    }
    others: list[dict[str, Any]] = [{}, {"elicitations": []}, {"elicitations": 5}]
    for data in others:
        assert elicitations_of(json.dumps({"code": -32042, "message": "", "data": data}).encode()) is None
    assert elicitations_of(b'{"code":-32603,"message":""}') is None


def test_a_result_that_asks() -> None:
    asked = json.loads(input_required({"k": b'{"method":"roots/list"}'}, 'st"ate', SERVER))
    assert asked == {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "roots/list"}},
        "requestState": 'st"ate',
        "_meta": NAMED,
    }


def test_the_envelope_is_added_and_what_was_there_stays() -> None:
    params = b'{"name":"x","_meta":{"progressToken":1,"%b":"old"}}' % VERSION_KEY.encode()
    told = json.loads(Preface(b'{"roots":{}}', b'{"name":"c"}', "info").within(params))
    assert told["name"] == "x"
    assert told["_meta"] == {
        "progressToken": 1,
        VERSION_KEY: "2026-07-28",
        CAPABILITIES_KEY: {"roots": {}},
        CLIENT_KEY: {"name": "c"},
        LEVEL_KEY: "info",
    }
    assert LEVEL_KEY not in json.loads(Preface().within(b""))["_meta"]


def test_a_result_is_reduced_for_a_handshake_client() -> None:
    result = {"resultType": "complete", "ttlMs": 1, "cacheScope": "public", "x": 1, "_meta": NAMED}
    assert reduced(result, "tools/list") == {"x": 1}
    call = {"content": [1], "structuredContent": [1, 2], "_meta": {"a": 1, **NAMED}}
    assert reduced(call, "tools/call") == {
        "content": [1],
        "_meta": {"a": 1},
    }
    kept = {"content": [], "structuredContent": {"a": 1}}
    assert reduced(kept, "tools/call") == kept
    tools = {
        "tools": [
            {"name": "a", "outputSchema": {"type": "object"}},
            {"name": "b", "outputSchema": {"type": "array"}},
            {"name": "c"},
        ]
    }
    left = reduced(tools, "tools/list")["tools"]
    assert left == [{"name": "a", "outputSchema": {"type": "object"}}, {"name": "b"}, {"name": "c"}]


def test_news_under_the_id_of_who_listens() -> None:
    line = json.loads(with_subscription("notifications/x", b'{"a":1,"_meta":{"b":2}}', "id"))
    assert line["params"] == {"a": 1, "_meta": {"b": 2, SUBSCRIPTION_KEY: "id"}}
    assert json.loads(with_subscription("notifications/x", b"", 5))["params"] == {
        "_meta": {SUBSCRIPTION_KEY: 5}
    }


@pytest.mark.parametrize("spacing", [(",", ":"), (", ", ": ")], ids=["dense", "spaced"])
@pytest.mark.parametrize(
    "result",
    [
        {"resultType": "complete", "content": []},
        {"content": [{"text": 'a "quoted" \\ \n'}], "resultType": "complete"},
        {"content": [], "resultType": "complete", "isError": False},
        {"resultType": "complete"},
        {"resultType": "complete", "content": [{"resultType": "complete"}]},
        {"resultType": "complete", "content": [], "_meta": NAMED},
        {"resultType": "complete", "structuredContent": [1], "content": []},
    ],
)
def test_wherever_its_type_stands_a_result_is_reduced(
    result: dict[str, Any], spacing: tuple[str, str]
) -> None:
    wanted = {name: value for name, value in result.items() if name in ("content", "isError")}
    assert reduced(result, "tools/call", spacing) == wanted


def test_only_a_complete_result_is_reduced() -> None:
    assert reduced_result(b'{"resultType":"input_required","inputRequests":{}}', "tools/call") is None
    assert reduced_result(b'{"resultType":5}', "tools/call") is None
    assert reduced_result(b"{}", "tools/call") == b"{}"


@pytest.mark.parametrize(
    "params", [b"", b"{}", b"{ }", b'{"name":"x"}', b' {"name":"x"}', b'{"n":"\\u005fmeta"}']
)
def test_the_envelope_is_added_to_any_params(params: bytes) -> None:
    for written in (Preface().in_front_of(params), Preface().within(params)):
        if written is not None:
            told = json.loads(written)
            assert told.pop("_meta") == {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
            assert told == json.loads(params or b"{}")


@pytest.mark.parametrize(
    ("params", "can"),
    [
        (b'{"name":"x"}', True),
        (b'{"name":"\\n"}', True),
        (b'{"_meta":{}}', False),
        (b'{"\\u005fmeta":{}}', False),
        (b"{}", False),
        (b"[1]", False),
        (b"", False),
    ],
)
def test_the_envelope_is_put_in_front_only_where_there_can_be_no_other(params: bytes, can: bool) -> None:
    assert (Preface().in_front_of(params) is not None) is can


def test_a_meta_that_is_written_with_escapes_is_one() -> None:
    told = Preface().within(b'{"\\u005fmeta":{"x":1}}')
    assert told.count(b"meta") == 1 and json.loads(told)["_meta"]["x"] == 1
