"""The envelope: every kind of message, every kind of refusal, and what is made of them."""

import json
from typing import Any

import pytest

from mooring.errors import (
    ListenFailed,
    LocalProtocolError,
    MooringError,
    ProtocolError,
    RemoteProtocolError,
    ServerFailed,
    Unavailable,
    UserError,
)
from mooring.wire import jsonrpc
from mooring.wire.lines import HEAD_BYTES, LongLine


def message(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0"} | members).encode()


def raw(rest: bytes) -> bytes:
    return b'{"jsonrpc":"2.0",' + rest + b"}"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (message(id=1, method="m"), "request"),
        (message(id=0, method=""), "request"),
        (message(id="", method="m", params={}), "request"),
        (message(id=1, method="m", result={}), "request"),
        (message(method="m"), "notification"),
        (message(method="m", params=[1]), "notification"),
        (message(id=1, result={}), "response"),
        (message(id=1, result=None), "response"),
        (message(id=1, result=0), "response"),
        (message(id=1, error={"code": 1, "message": ""}), "response"),
        (message(id=None, error={"code": 1, "message": ""}), "response"),
        (message(id=1, method=None, result=1), "response"),
    ],
)
def test_every_kind_of_message(body: bytes, kind: str) -> None:
    found = jsonrpc.parse(body)
    kinds = {
        "request": found.is_request,
        "notification": found.is_notification,
        "response": found.is_response,
    }
    assert kinds == {name: name == kind for name in kinds}


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (b"1", 1),
        (b'"1"', "1"),
        (b"1.0", 1.0),
        (b"-7", -7),
        (b"1e2", 100.0),
        (b"9007199254740993", 9007199254740993),
        (b"18446744073709551616", 2**64),
        (b"-123456789012345678901234567890", -123456789012345678901234567890),
        (rb'"\u0061"', "a"),
        (rb'"\ud83d\ude00"', "😀"),
        ('"😀"'.encode(), "😀"),
        (rb'"a\nb"', "a\nb"),
    ],
)
def test_an_id_is_its_value_with_its_type(text: bytes, id: object) -> None:
    found = jsonrpc.parse(raw(b'"id":' + text + b',"method":"m"')).request_id
    assert (found, type(found)) == (id, type(id))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "parse_error"),
        (b"hello", "parse_error"),
        (b"{", "parse_error"),
        (message(id=1, method="m") + b"x", "parse_error"),
        (message(id=1, method="m") + message(id=2, method="m"), "parse_error"),
        (message(id=1, method="m") + b"\n" + message(id=2, method="m"), "parse_error"),
        (b"\xef\xbb\xbf" + message(id=1, method="m"), "parse_error"),
        (raw(b'"method":"m","params":"\n"'), "parse_error"),
        (raw(b'"method":"m","params":"\x00"'), "parse_error"),
        (raw(b'"method":"m","params":"\xff"'), "parse_error"),
        (raw(b'"method":"m","params":"\xed\xa0\x80"'), "parse_error"),
        (raw(b'"method":"\xff"'), "parse_error"),
        (raw(b'"method":"m","params":"\\q"'), "parse_error"),
        (raw(b'"method":"m","params":"\\ud80"'), "parse_error"),
        (raw(b'"method":"m","params":["\\ud800"'), "parse_error"),
        (raw(b'"method":"m","params":01'), "parse_error"),
        (raw(b'"method":"m","params":NaN'), "parse_error"),
        (b"1", "invalid_request"),
        (b'"x"', "invalid_request"),
        (b"null", "invalid_request"),
        (b"[]", "invalid_request"),
        (b"{}", "invalid_request"),
        (b'{"id":1,"method":"m"}', "invalid_request"),
        (b'{"jsonrpc":"1.0","id":1,"method":"m"}', "invalid_request"),
        (b'{"jsonrpc":2.0,"id":1,"method":"m"}', "invalid_request"),
        (b'{"jsonrpc":"2.0"}', "invalid_request"),
        (message(id=1), "invalid_request"),
        (message(result={}), "invalid_request"),
        (message(error={}), "invalid_request"),
        (message(id=1, result={}, error={}), "invalid_request"),
        (message(id=None, method="m"), "invalid_request"),
        (message(id=True, method="m"), "invalid_request"),
        (message(id=[1], method="m"), "invalid_request"),
        (message(id={}, method="m"), "invalid_request"),
        (message(id=1, method=5), "invalid_request"),
        (raw(b'"id":1e400,"method":"m"'), "invalid_request"),
        (raw(b'"params":"\\ud800","method":5'), "invalid_request"),
        (raw(b'"id":"\\ud800","method":"m"'), "invalid_request"),
        (raw(b'"id":1,"method":"\\udfff"'), "invalid_request"),
    ],
)
def test_what_is_no_message_is_the_peers_fault(body: bytes, code: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        jsonrpc.parse(body)
    assert caught.value.code == code
    assert caught.value.message


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b"null",
        b"9223372036854775807",
        b"18446744073709551615",
        b"1e999",
        b"-0.0e-0",
        b"9" * 6000,
        b'{"b":1,"a":2,"b":3}',
        b'{ "a" : [ 1 , 2 ] }',
        rb'"\ud800"',
        rb'"\uDBFF\uDBFF\udc00\uDc00"',
        rb'"\\ud800 \\\ud800 \u00e9 \/"',
        rb'["\ue800\uE8ab","\ud800"]',
        rb'["\ue800\uf800\ua800\ub800","\uD800"]',
        '"\u2028\u0085\ufeff\ufffe\U0010ffff"'.encode(),
        b"[" * 300 + b"]" * 300,
        b'{"a":' * 300 + b"1" + b"}" * 300,
    ],
)
def test_the_payload_is_never_touched(payload: bytes) -> None:
    request = jsonrpc.parse(raw(b'"id":1,"method":"m","params":' + payload))
    result = jsonrpc.parse(raw(b'"id":1,"result":' + payload))
    error = jsonrpc.parse(raw(b'"id":1,"error":' + payload))
    assert [bytes(request.params), bytes(result.result), bytes(error.error)] == [payload] * 3
    assert jsonrpc.with_id(request, 2) == b'{"jsonrpc":"2.0","id":2,"method":"m","params":%s}' % payload
    assert jsonrpc.with_id(result, "2") == b'{"jsonrpc":"2.0","id":"2","result":%s}' % payload
    assert jsonrpc.with_id(error, 2) == b'{"jsonrpc":"2.0","id":2,"error":%s}' % payload


def test_an_id_of_whole_characters_survives_half_a_character_elsewhere() -> None:
    found = jsonrpc.parse(raw(rb'"id":"\ud83d\ude00","method":"\u0061","params":"\ud83d"'))
    assert (found.id, found.method, bytes(found.params)) == ("😀", "a", rb'"\ud83d"')


def test_nesting_without_end_is_refused_and_not_a_crash() -> None:
    for deep in (b"[" * 200_000, b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000):
        for body in (raw(b'"method":"m","params":' + deep), raw(rb'"x":"\ud800","params":' + deep), deep):
            with pytest.raises(RemoteProtocolError):
                jsonrpc.parse(body)
            with pytest.raises(RemoteProtocolError):
                jsonrpc.parse_batch(b"[" + body + b"]")


def test_without_params_there_are_none_under_another_id_either() -> None:
    assert jsonrpc.with_id(jsonrpc.parse(message(id=1, method="m")), 2) == raw(b'"id":2,"method":"m"')


# Smuggling ----------------------------------------------------------------------------------

INNER = message(id=99, method="tools/call", params={"name": "danger"})


def test_white_space_in_a_payload_cannot_become_a_line_of_its_own() -> None:
    payload = b'{"a":\n' + INNER + b"\r\n}"
    request = jsonrpc.parse(raw(b'"id":1,"method":"m","params":' + payload))
    result = jsonrpc.parse(raw(b'"id":1,"result":' + payload))
    error = jsonrpc.parse(raw(b'"id":1,"error":' + payload))
    lines = [
        jsonrpc.one_line(b'\n{"jsonrpc":"2.0",\r"id":1,"result":' + payload + b"}\n"),
        jsonrpc.with_id(request, 2),
        jsonrpc.with_id(result, 2),
        jsonrpc.with_id(error, 2),
        jsonrpc.request(2, "m", payload),
        jsonrpc.request(2, "m", request.params),
    ]
    for line in lines:
        assert b"\n" not in line
        assert b"\r" not in line
        assert INNER in line
        json.loads(line)


def test_a_method_that_looks_like_the_end_of_a_line_stays_a_method() -> None:
    method = 'x"}\n{"jsonrpc":"2.0","id":9,"method":"y'
    body = message(id=1, method=method)
    found = jsonrpc.parse(body)
    assert found.method == method
    assert jsonrpc.one_line(body) == body
    for line in (
        jsonrpc.with_id(found, "new\r\n"),
        jsonrpc.request("new\r\n", method),
        jsonrpc.notification(method),
    ):
        assert b"\n" not in line
        assert b"\r" not in line
        assert json.loads(line)["method"] == method


def test_a_message_of_one_line_is_not_copied() -> None:
    body = message(id=1, method="m")
    assert jsonrpc.one_line(body) is body


# Batches ------------------------------------------------------------------------------------


def test_a_batch_gives_each_message_with_its_own_bytes() -> None:
    half = raw(rb'"method":"n","params":"\ud800"')
    found = jsonrpc.parse_batch(b" [ " + message(id=1, method="m") + b"\n,\r" + half + b"]\n")
    assert [(envelope.method, item) for envelope, item in found] == [
        ("m", message(id=1, method="m")),
        ("n", half),
    ]
    assert bytes(found[1][0].params) == rb'"\ud800"'


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[]", "invalid_request"),
        (b"[1]", "invalid_request"),
        (b"[[]]", "invalid_request"),
        (b'[{"jsonrpc":"2.0"}]', "invalid_request"),
        (b"[", "parse_error"),
        (b'["\\ud800"', "parse_error"),
        (b"", "parse_error"),
        (b'{"jsonrpc":"2.0","method":"m"}', "parse_error"),
        (b'[{"jsonrpc":"2.0","method":"m","params":"\xff"}]', "parse_error"),
    ],
)
def test_what_is_no_batch_is_the_peers_fault(body: bytes, code: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        jsonrpc.parse_batch(body)
    assert caught.value.code == code


# Our own messages ---------------------------------------------------------------------------


def test_what_we_say_ourselves() -> None:
    assert jsonrpc.request(1, "m") == raw(b'"id":1,"method":"m"')
    assert jsonrpc.request("a", "m", b'{"x":1}') == raw(b'"id":"a","method":"m","params":{"x":1}')
    assert jsonrpc.notification("m") == raw(b'"method":"m"')
    assert jsonrpc.notification("m", {"x": 1}) == raw(b'"method":"m","params":{"x":1}')
    assert jsonrpc.result_response(1, {}) == raw(b'"id":1,"result":{}')
    assert jsonrpc.error_response(None, -1, "no") == raw(b'"id":null,"error":{"code":-1,"message":"no"}')
    assert jsonrpc.error_response(1.5, -1, "no", {"a": 1}) == raw(
        b'"id":1.5,"error":{"code":-1,"message":"no","data":{"a":1}}'
    )


@pytest.mark.parametrize(
    ("id", "text"),
    [
        (1, b"1"),
        ("1", b'"1"'),
        (1.0, b"1.0"),
        (10**40, b"1" + b"0" * 40),
        (None, b"null"),
        ('"\n', rb'"\"\n"'),
    ],
)
def test_an_id_as_json(id: Any, text: bytes) -> None:
    assert jsonrpc.encode_id(id) == text


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RemoteProtocolError("x", code="parse_error"), -32700),
        (RemoteProtocolError("x", code="invalid_request"), -32600),
        (UserError("x", code="x"), -32602),
        (Unavailable("x", code="x"), -32603),
        (ServerFailed("x", code="x"), -32603),
        (LocalProtocolError("x", code="x"), -32603),
        (ProtocolError("x", code="x"), -32603),
        (ListenFailed("x", code="x"), -32603),
        (MooringError("x", code="x"), -32603),
    ],
)
def test_the_json_rpc_code_of_every_error(error: MooringError, code: int) -> None:
    assert jsonrpc.error_code(error) == code


# What is left of a message over the limit ------------------------------------------------------

BIG = json.dumps({"text": 'x"},"id":666,"method":"decoy"' * 1000, "id": 666, "method": "decoy"}).encode()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (raw(b'"id":7,"result":' + BIG), (None, 7)),
        (raw(b'"result":' + BIG + b',"id":7'), (None, 7)),
        (raw(b'"result":' + BIG + b' , "id" : "a\\"b" '), (None, 'a"b')),
        (b'{"result":' + BIG + b',"id":7,"jsonrpc":"2.0"}\r', (None, 7)),
        (b'{"result":' + BIG + b',"id":-1.5,"jsonrpc":"2.0"}', (None, -1.5)),
        (raw(b'"id":7,"method":"m","params":' + BIG), ("m", 7)),
        (raw(b'"method":"m","params":' + BIG + b',"id":7'), ("m", 7)),
        (raw(b'"id":7,"params":' + BIG + b',"method":"m"'), ("m", 7)),
        (raw(b'"params":' + BIG + b',"method":"m","id":7'), ("m", 7)),
        (raw(b'"method":"m","params":' + BIG), ("m", None)),
        (raw(b'"result":' + BIG), (None, None)),
        (raw(b'"result":[' + BIG + b"]"), (None, None)),
        (raw(b'"result":{"x":' + BIG + b',"id":7}'), (None, None)),
        (raw(b'"result":' + BIG + b',"x":{"a":1,"id":7}'), (None, None)),
        (raw(b'"result":' + BIG + b',"id":null'), (None, None)),
        (raw(b'"result":' + BIG + b',"id":true'), (None, None)),
        (raw(b'"result":' + BIG + b',"id":[7]'), (None, None)),
        (raw(b'"id":{"id":6},"result":' + BIG), (None, None)),
        (raw(b'"id":[6],"method":["decoy"],"result":' + BIG), (None, None)),
        (raw(rb'"\u0069d":7,"result":' + BIG), (None, 7)),
        (b"[" + raw(b'"id":7,"result":' + BIG) + b"]", (None, None)),
        (b'["id",7,"method","m",' + BIG + b"]", (None, None)),
        (b"x" * 10_000, (None, None)),
    ],
)
def test_the_ends_of_a_long_line_show_whom_it_concerns(line: bytes, found: tuple[str | None, object]) -> None:
    assert len(line) > HEAD_BYTES
    assert jsonrpc.identify(LongLine.of(line)) == found


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b'{"id":12', (None, None)),
        (b'{"id":12 ', (None, 12)),
        (b'{"id":12,', (None, 12)),
        (b'{"id":"12 34, 56', (None, None)),
        (b'{"id":"12\\', (None, None)),
        (b'{"id":1,"method":"m', (None, 1)),
        (b'{"id":1,"method":"m"', ("m", 1)),
        (b'{"x":"}, 1 }{ : , id : 5 ', (None, None)),
        (b'{"x":{"y":"}},', (None, None)),
        (b'{"id', (None, None)),
        (b"", (None, None)),
    ],
)
def test_what_is_cut_is_not_guessed(head: bytes, found: tuple[str | None, object]) -> None:
    assert jsonrpc.identify(LongLine(head, b'x","id":1}, "z', 10_000)) == found


@pytest.mark.parametrize(
    "whole", [b'{"jsonrpc":"2.0","id":1,"result":{"a":["\xc3\xa9"]}}', b'[{"id":1}]', b" {}"]
)
def test_a_message_that_was_cut_is_known_as_such(whole: bytes) -> None:
    begun = len(whole) - len(whole.lstrip()) + 1
    assert all(jsonrpc.is_cut(whole[:end]) for end in range(begun, len(whole)))
    assert not jsonrpc.is_cut(whole)


@pytest.mark.parametrize("line", [b"", b"Listening on stdio", b"{oops", b'{"a":1} and more', b"3", b'"half'])
def test_what_is_no_message_is_not_one_that_was_cut(line: bytes) -> None:
    assert not jsonrpc.is_cut(line)
