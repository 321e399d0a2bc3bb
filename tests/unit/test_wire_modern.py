"""The ladder of checks of a request of 2026-07-28, rung by rung."""

import json
from typing import Any

import pytest

from mooring.wire import jsonrpc
from mooring.wire.http import Head
from mooring.wire.modern import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LEVEL_KEY,
    MAX_INTRODUCTION_BYTES,
    VERSION_KEY,
    ModernRequest,
    Rejection,
    http_status,
    read_request,
)

META = {
    VERSION_KEY: "2026-07-28",
    CAPABILITIES_KEY: {"sampling": {}},
    CLIENT_KEY: {"name": "c", "version": "1"},
}
HEADERS = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}


def read(
    params: dict[str, Any] | None, headers: dict[str, str] | None = HEADERS, method: str = "tools/call"
) -> ModernRequest | Rejection:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
    if params is not None:
        body["params"] = params
    head = None
    if headers is not None:
        fields = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        head = Head("POST", "/mcp", headers=fields)
    return read_request(jsonrpc.parse(json.dumps(body).encode()), head)


def accepted(*arguments: Any, **options: Any) -> ModernRequest:
    request = read(*arguments, **options)
    assert isinstance(request, ModernRequest), request
    return request


def refused(*arguments: Any, **options: Any) -> Rejection:
    request = read(*arguments, **options)
    assert isinstance(request, Rejection)
    return request


def test_a_request_that_says_all() -> None:
    meta = {**META, LEVEL_KEY: "debug", "progressToken": "t", "vendor": 1}
    request = accepted({"name": "echo", "arguments": {"a": 1}, "_meta": meta})
    assert (request.method, request.id, request.log_level, request.progress_token) == (
        "tools/call",
        1,
        "debug",
        "t",
    )
    assert json.loads(request.capabilities) == {"sampling": {}}
    assert json.loads(request.stripped_params()) == {
        "name": "echo",
        "arguments": {"a": 1},
        "_meta": {"progressToken": "t", "vendor": 1},
    }


def test_answers_and_state_are_read_and_stripped() -> None:
    params = {"name": "echo", "requestState": "s", "inputResponses": {"a": {}}, "_meta": META}
    request = accepted(params)
    assert (request.request_state, request.input_responses) == ("s", b'{"a": {}}')
    assert json.loads(request.stripped_params()) == {"name": "echo"}


@pytest.mark.parametrize(
    "meta", [None, {}, {VERSION_KEY: "2026-07-28"}, {CAPABILITIES_KEY: {}}, {**META, VERSION_KEY: None}]
)
def test_an_envelope_that_is_not_there(meta: dict[str, Any] | None) -> None:
    assert refused({"name": "echo"} if meta is None else {"name": "echo", "_meta": meta}).code == -32602
    assert refused(None).code == -32602


@pytest.mark.parametrize(
    "changed",
    [
        {"mcp-protocol-version": "2025-11-25"},
        {"mcp-method": "tools/list"},
        {"mcp-method": ""},
        {"mcp-name": "other"},
        {"mcp-name": "=?base64?b3RoZXI=?="},
        {"mcp-name": "=?base64?!?="},
    ],
)
def test_a_head_that_disagrees(changed: dict[str, str]) -> None:
    assert refused({"name": "echo", "_meta": META}, {**HEADERS, **changed}).code == -32020


def test_a_head_that_lacks_what_the_body_says() -> None:
    for name in HEADERS:
        headers = {key: value for key, value in HEADERS.items() if key != name}
        assert refused({"name": "echo", "_meta": META}, headers).code == -32020


def test_a_routing_header_twice() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    fields = [(b"mcp-protocol-version", b"2026-07-28"), (b"mcp-method", b"tools/list")]
    head = Head("POST", "/mcp", headers=[*fields, (b"mcp-method", b"tools/list")])
    rejection = read_request(jsonrpc.parse(json.dumps(body).encode()), head)
    assert (
        isinstance(rejection, Rejection)
        and rejection.code == -32020
        and "more than once" in rejection.message
    )


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("echo", "echo"),
        ("é", "=?base64?w6k=?="),
        ("=?x", "=?x"),
        ('a"b', 'a"b'),
        ("a\\u0041", "a\\u0041"),
        ("a\\", "a\\"),
    ],
)
def test_names_are_compared_as_texts(name: str, header: str) -> None:
    accepted({"name": name, "_meta": META}, {**HEADERS, "mcp-name": header})
    assert refused({"name": name + "x", "_meta": META}, {**HEADERS, "mcp-name": header}).code == -32020


def test_an_escape_in_the_body_is_not_taken_literally() -> None:
    """The bytes of header and body agree, what they say does not."""
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\\u0041","_meta":%b}}'
    message = jsonrpc.parse(raw % json.dumps(META).encode())
    fields = [(name.encode(), value.encode()) for name, value in {**HEADERS, "mcp-name": "a\\u0041"}.items()]
    rejection = read_request(message, Head("POST", "/mcp", headers=fields))
    assert isinstance(rejection, Rejection) and rejection.code == -32020


def test_what_is_not_ascii_is_not_taken_for_its_bytes() -> None:
    """A header is read as Latin-1, by us and by whoever routes by it: these bytes say two letters there."""
    raw = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","_meta":%s}}'
    message = jsonrpc.parse((raw % json.dumps(META)).encode())
    fields = [(name.encode(), value.encode()) for name, value in {**HEADERS, "mcp-name": "é"}.items()]
    rejection = read_request(message, Head("POST", "/mcp", headers=fields))
    assert isinstance(rejection, Rejection) and rejection.code == -32020


@pytest.mark.parametrize(
    "changed",
    [
        {CAPABILITIES_KEY: 5},
        {CAPABILITIES_KEY: []},
        {CAPABILITIES_KEY: {"roots": 5}},
        {CAPABILITIES_KEY: {"x": {"y": "z" * MAX_INTRODUCTION_BYTES}}},
        {CLIENT_KEY: 5},
        {CLIENT_KEY: {"name": "c"}},
        {CLIENT_KEY: {"name": 1, "version": "1"}},
    ],
)
def test_an_introduction_that_is_none_is_refused(changed: dict[str, Any]) -> None:
    """A server would be introduced by these words, and might refuse them."""
    assert refused({"name": "echo", "_meta": {**META, **changed}}).code == -32602


def test_a_name_in_the_head_that_is_not_in_the_body() -> None:
    assert refused({"_meta": META}).code == -32020
    assert refused({"name": 5, "_meta": META}).code == -32020


def test_a_revision_that_is_not_spoken_names_those_that_are() -> None:
    meta = {**META, VERSION_KEY: "2027-01-01"}
    rejection = refused({"name": "echo", "_meta": meta}, {**HEADERS, "mcp-protocol-version": "2027-01-01"})
    assert rejection.code == -32022
    assert rejection.data is not None and rejection.data["requested"] == "2027-01-01"
    assert "2026-07-28" in rejection.data["supported"] and "2025-11-25" in rejection.data["supported"]  # type: ignore[operator]


def test_without_a_head_the_body_is_enough() -> None:
    accepted({"name": "echo", "_meta": META}, None)


def test_the_status_of_an_error() -> None:
    assert [http_status(code) for code in (-32700, -32602, -32020, -32021, -32022, -32601, -32603, 0)] == [
        400, 400, 400, 400, 400, 404, 200, 200,
    ]  # fmt: skip
