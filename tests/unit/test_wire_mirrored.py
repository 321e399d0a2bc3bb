"""Which headers a message of the era without handshakes has."""

import json
from typing import Any

import pytest

from mooring.wire import jsonrpc
from mooring.wire.header_values import encode_value
from mooring.wire.http import Head
from mooring.wire.memory import MAX_TOOL_NAME, MAX_TOOLS, MAX_TOOLS_BYTES
from mooring.wire.mirrored import (
    MAX_MARK_DEPTH,
    MAX_MARKS,
    MarkedTools,
    mirrored_headers,
)

VERSION = "2026-07-28"
META = {"_meta": {"io.modelcontextprotocol/protocolVersion": VERSION}}


def message(method: str, params: Any) -> jsonrpc.Envelope:
    return jsonrpc.parse(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())


def listed(*tools: dict[str, Any]) -> bytes:
    return json.dumps({"tools": list(tools)}).encode()


def tool(properties: Any, name: str = "t") -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def marked(mark: Any = "Region", type: Any = "string") -> dict[str, Any]:
    return {"type": type, "x-mcp-header": mark}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "echo", "uri": "no"}, b"echo"),
        ("prompts/get", {"name": "über"}, b"=?base64?w7xiZXI=?="),
        ("resources/read", {"uri": "file:///a b", "name": "no"}, b"file:///a b"),
        ("tools/list", {"name": "no"}, None),
        ("tools/call", {"name": 7}, None),
        ("tools/call", {}, None),
    ],
)
def test_the_name_of_what_is_asked_for(method: str, params: Any, name: bytes | None) -> None:
    headers = dict(mirrored_headers(message(method, {**META, **params}), VERSION, MarkedTools()))
    assert headers[b"Mcp-Protocol-Version"] == VERSION.encode()
    assert headers[b"Mcp-Method"] == method.encode()
    assert headers.get(b"Mcp-Name") == name


@pytest.mark.parametrize(
    ("value", "encoded"),
    [  # the examples of the specification, and edges
        ("us-west1", b"us-west1"),
        ("Hello, 世界", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", b"=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", b"=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?", b"=?base64?"),
        ("a\tb", b"a\tb"),
        ("", b"=?base64??="),
        ("\x7f", b"=?base64?fw==?="),
    ],
)
def test_values(value: str, encoded: bytes) -> None:
    assert encode_value(value) == encoded


def test_marked_arguments_become_headers() -> None:
    tools = MarkedTools()
    inner = {"type": "object", "properties": {"deep": marked("Deep", "integer")}}
    schema = {
        "region": marked(),
        "flag": marked("Flag", "boolean"),
        "inner": inner,
        "plain": {"type": "string"},
    }
    assert tools.learn(listed(tool(schema), tool({"x": {"type": "string"}}, "other"))) == []

    def headers(arguments: Any, name: str = "t") -> dict[bytes, bytes]:
        call = message("tools/call", {**META, "name": name, "arguments": arguments})
        return dict(mirrored_headers(call, VERSION, tools)[3:])

    assert headers({"region": "us", "flag": True, "inner": {"deep": 42}, "plain": "p"}) == {
        b"Mcp-Param-Region": b"us",
        b"Mcp-Param-Flag": b"true",
        b"Mcp-Param-Deep": b"42",
    }
    assert headers({"region": None, "flag": False, "inner": 7}) == {b"Mcp-Param-Flag": b"false"}
    assert headers({"inner": {"deep": -7.0}}) == {b"Mcp-Param-Deep": b"-7"}
    assert headers({"inner": {"deep": 2**53}}) == headers({"region": ["x"]}) == headers(None) == {}
    assert headers(7) == headers({"region": "us"}, "other") == headers({"region": "us"}, "unknown") == {}
    tools.learn(listed(tool({"region": {"type": "string"}})))
    assert headers({"region": "us"}) == {}


@pytest.mark.parametrize(
    ("header", "argument", "agrees"),
    [
        (b"us", "us", True),
        (b"=?base64?w7xiZXI=?=", "über", True),
        (b"=?base64?w7xiZXI?=", "über", False),  # not as it is canonically written
        (b"eu", "us", False),
        (None, "us", False),
        (b"us", None, False),
        (None, None, True),
        (b"us", ["us"], False),
        (b"42", 42, True),
        (b"42.0", 42, True),
        (b"42", 42.0, True),
        (b"43", 42, False),
        (b"0x2a", 42, False),
        (b"4" * 400, 42, False),
        (b"nan", 42, False),
        (b"true", True, True),
        (b"1", True, False),
        (b"True", True, False),
    ],
)
def test_headers_are_compared_with_the_arguments(header: bytes | None, argument: Any, agrees: bool) -> None:
    tools = MarkedTools()
    tools.learn(listed(tool({"a": {"type": "object", "properties": {"b": marked()}}})))
    call = message("tools/call", {"name": "t", "arguments": {"a": {"b": argument}}})
    fields = [(b"mcp-param-other", b"is not ours")]
    fields += [(b"mcp-param-region", header)] if header else []
    mismatch = tools.mismatch(call.params, Head(headers=fields))
    assert mismatch == (None if agrees else "the header Mcp-Param-Region is not the argument a.b")


def test_a_header_that_comes_twice_agrees_with_nothing() -> None:
    tools = MarkedTools()
    tools.learn(listed(tool({"a": marked()})))
    call = message("tools/call", {"name": "t", "arguments": {"a": "us"}})
    twice = Head(headers=[(b"mcp-param-region", b"us")] * 2)
    assert "more than once" in (tools.mismatch(call.params, twice) or "")


def test_of_unknown_tools_and_calls_without_arguments_nothing_is_said() -> None:
    tools, head = MarkedTools(), Head()
    assert tools.mismatch(b'{"name":"t"}', head) is None
    tools.learn(listed(tool({"a": marked()})))
    for params in (b"{}", b'{"name":"u"}', b'{"name":"u","uri":7,"arguments":7}', b'{"name":"t"}'):
        assert tools.mismatch(params, head) is None


@pytest.mark.parametrize(
    "params",
    [b"[]", b'{"name":7}', b'{"name":"t","arguments":7}', b'{"name":"t","arguments":{"b":1e999}}'],
)
def test_params_that_cannot_be_read_agree_with_no_headers(params: bytes) -> None:
    tools = MarkedTools()
    tools.learn(listed(tool({"a": marked()})))
    assert "cannot be compared" in (tools.mismatch(params, Head()) or "")


@pytest.mark.parametrize(
    "properties",
    [
        {"a": marked("")},
        {"a": marked("two words")},
        {"a": marked("x\r\ny")},
        {"a": marked(7)},
        {"a": marked("A", "number")},
        {"a": marked("A", "object")},
        {"a": marked("A", ["string", "null"])},
        {"a": marked("A"), "b": marked("a")},
        {f"a{n}": marked(f"A{n}") for n in range(MAX_MARKS + 1)},
    ],
)
def test_marks_that_break_the_rules_are_told_and_not_used(properties: Any) -> None:
    tools = MarkedTools()
    [fault] = tools.learn(listed(tool(properties), tool({"a": marked("Good")}, "good")))
    assert "'t'" in fault
    assert tools.headers("t", b'{"arguments":{"a":"x"}}') == []
    assert tools.headers("good", b'{"arguments":{"a":"x"}}') == [(b"Mcp-Param-Good", b"x")]


def test_what_is_no_list_teaches_nothing_and_what_is_too_deep_is_not_looked_at() -> None:
    tools = MarkedTools()
    assert tools.learn(b'{"tools":"x-mcp-header"}') == tools.learn(b"x-mcp-header") == []
    deep: Any = {"leaf": marked()}
    for _ in range(MAX_MARK_DEPTH):
        deep = {"o": {"type": "object", "properties": deep}}
    assert tools.learn(listed(tool(deep))) == []
    assert tools.headers("t", b'{"arguments":{"o":{}}}') == []


def test_the_number_of_marked_tools_and_what_is_read_of_them_is_bounded() -> None:
    tools = MarkedTools()
    tools.learn(listed(*(tool({"a": marked()}, f"t{n}") for n in range(MAX_TOOLS + 1))))
    arguments = b'{"arguments":{"a":"x"}}'
    assert tools.headers("t0", arguments) == []
    assert tools.headers(f"t{MAX_TOOLS}", arguments)
    tools.learn(listed(tool({"a": marked()}, "n" * (MAX_TOOL_NAME + 1))))
    assert tools.headers("n" * (MAX_TOOL_NAME + 1), arguments) == []
    tools.learn(listed(tool({"a": marked()}, "late")) + b" " * MAX_TOOLS_BYTES)
    assert tools.headers("late", arguments) == []
    assert tools.headers(f"t{MAX_TOOLS}", b'{"arguments":7}') == []
