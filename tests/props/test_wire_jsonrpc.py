"""Whatever is sent: it is refused, or read as what it is, and forwarded as one line of the same bytes."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mooring.errors import RemoteProtocolError
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Id
from mooring.wire.lines import HEAD_BYTES, TAIL_BYTES, LongLine
from mooring.wire.surrogates import readable_copy

SPACE = st.text(" \t\r\n", max_size=2)
HEX = st.sampled_from("0123456789abcdefABCDEF")
ESCAPES = (
    st.sampled_from([r"\n", r"\r", r"\"", r"\\", r"\/", r"\t", r"\ud83d\ude00", r"\u000a", r"\u2028"])
    | st.tuples(st.just(r"\u"), HEX, HEX, HEX, HEX).map("".join)
    | st.tuples(st.sampled_from([r"\ud", r"\uD", r"\ue", r"\uE"]), HEX, HEX, HEX).map("".join)
)
CHARS = st.characters(min_codepoint=0x20, exclude_categories=["Cs"], exclude_characters='"\\')
STRINGS = st.lists(CHARS | ESCAPES, max_size=8).map(lambda parts: '"' + "".join(parts) + '"')
NUMBERS = (
    st.integers().map(str)
    | st.integers(-(2**64), 2**64).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.sampled_from(["-0", "1E+5", "1e-7", "0.10", "9007199254740993", "1e999", "9" * 60])
)


def _array(items: list[tuple[str, str, str]]) -> str:
    return "[" + ",".join(f"{a}{value}{b}" for a, value, b in items) + "]"


def _object(items: list[tuple[str, str, str, str]]) -> str:
    return "{" + ",".join(f"{a}{key}{b}:{a}{value}{b}" for a, key, b, value in items) + "}"


VALUES: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(["null", "true", "false", "{}", "[]", "{ \r\n }"]) | NUMBERS | STRINGS,
    lambda inner: (
        st.lists(st.tuples(SPACE, inner, SPACE), max_size=4).map(_array)
        | st.lists(st.tuples(SPACE, STRINGS, SPACE, inner), max_size=4).map(_object)
    ),
    max_leaves=10,
)
"""JSON as text, in every way that it may be written."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IDS: st.SearchStrategy[Id] = (
    st.integers() | st.integers(-(2**70), 2**70) | TEXTS | st.floats(allow_nan=False, allow_infinity=False)
)


def written(value: Id | str) -> str:
    return json.dumps(value)


@st.composite
def messages(draw: st.DrawFn, payload: st.SearchStrategy[str] = VALUES) -> bytes:
    """A legal message, its members in any order and with any white space."""
    members = [('"jsonrpc"', '"2.0"')]
    kind = draw(st.sampled_from(["request", "notification", "result", "error"]))
    if kind != "notification":
        members.append(('"id"', written(draw(IDS))))
    if kind in ("request", "notification"):
        members.append(('"method"', written(draw(TEXTS))))
        if draw(st.booleans()):
            members.append(('"params"', draw(payload)))
    else:
        members.append((f'"{kind}"', draw(payload)))
    if draw(st.booleans()):
        members.append(('"extra"', draw(payload)))
    parts = draw(st.permutations(members))
    space = [draw(SPACE) for _ in range(4)]
    text = f",{space[0]}".join(f"{key}{space[1]}:{space[2]}{value}{space[3]}" for key, value in parts)
    return f"{space[3]}{{{space[0]}{text}}}{space[1]}".encode()


MESSAGES = messages().filter(lambda body: not has_no_free_letter(body))


def has_no_free_letter(body: bytes) -> bool:
    """The one known limit: a lone surrogate together with escapes of five rare ranges."""
    lone = re.search(r"[\ud800-\udfff]", json.dumps(json.loads(body), ensure_ascii=False))
    return lone is not None and readable_copy(body) is None


def loaded(data: bytes) -> Any:
    return json.loads(data)


def payload_of(envelope: jsonrpc.Envelope) -> bytes:
    return bytes(envelope.params) or bytes(envelope.result) or bytes(envelope.error)


@given(MESSAGES)
def test_every_legal_message_is_read_as_what_it_is(body: bytes) -> None:
    want = loaded(body)
    envelope = jsonrpc.parse(body)
    assert envelope.method == want.get("method")
    assert envelope.is_request == ("method" in want and "id" in want)
    assert envelope.is_notification == ("method" in want and "id" not in want)
    assert envelope.is_response == ("method" not in want)
    if "id" in want:
        assert envelope.request_id == want["id"]
        assert type(envelope.request_id) is type(want["id"])


@given(VALUES, st.sampled_from(["params", "result", "error"]), SPACE)
def test_the_payload_is_the_same_bytes(text: str, member: str, space: str) -> None:
    method = '"method":"m",' if member == "params" else ""
    body = f'{{"jsonrpc":"2.0","id":1,{method}"{member}":{space}{text}{space}}}'.encode()
    assume(not has_no_free_letter(body))
    assert bytes(getattr(jsonrpc.parse(body), member)) == text.encode()


@given(MESSAGES)
def test_one_line_is_one_line_of_the_same_meaning_and_length(body: bytes) -> None:
    line = jsonrpc.one_line(body)
    assert b"\n" not in line
    assert b"\r" not in line
    assert repr(loaded(line)) == repr(loaded(body))
    assert [a for a, b in zip(body, line, strict=True) if a != b] == [c for c in body if c in b"\r\n"]


@given(MESSAGES, IDS)
def test_another_id_leaves_the_rest_as_it_was_on_one_line(body: bytes, new: Id) -> None:
    envelope = jsonrpc.parse(body)
    assume(not envelope.is_notification)
    line = jsonrpc.with_id(envelope, new)
    assert b"\n" not in line
    assert b"\r" not in line
    want = loaded(body) | {"id": new}
    want.pop("extra", None)
    assert repr(sorted(loaded(line).items())) == repr(sorted(want.items()))
    assert jsonrpc.one_line(payload_of(envelope)) in line
    again = jsonrpc.parse(line)
    assert payload_of(again) == jsonrpc.one_line(payload_of(envelope))


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b'{"jsonrpc":"2.0","method":"\xff"}')
@example(b'{"jsonrpc":"2.0","method":"x","params":"\xed\xa0\x80"}')
@example(b'{"jsonrpc":"2.0","method":"x","params":"\n"}')
@example(b'{"jsonrpc":"2.0","method":"x","params":[01]}')
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for read in (jsonrpc.parse, jsonrpc.parse_batch):
        try:
            read(data)
        except RemoteProtocolError as error:
            assert error.code in ("parse_error", "invalid_request")
        else:
            json.loads(data)


@given(MESSAGES, st.data())
def test_a_damaged_message_is_refused_or_still_json_on_one_line(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body)))
    cut = data.draw(st.integers(0, 3))
    damaged = body[:at] + data.draw(st.binary(max_size=3) | st.sampled_from([b"\n", b'"', b"\\", b"}\n{"]))
    damaged += body[at + cut :]
    try:
        envelope = jsonrpc.parse(damaged)
    except RemoteProtocolError:
        return
    line = jsonrpc.one_line(damaged)
    assert not set(line) & set(b"\r\n")
    assert repr(loaded(line)) == repr(loaded(damaged))
    assert envelope.is_request + envelope.is_notification + envelope.is_response == 1


@given(IDS | st.none())
@example(10**4299)
@example(-0.0)
@example(1e22)
def test_any_id_comes_back_from_its_json(id: Id | None) -> None:
    text = jsonrpc.encode_id(id)
    assert loaded(text) == id
    assert type(loaded(text)) is type(id)
    assert not set(text) & set(b"\r\n")


@pytest.mark.parametrize("digits", [1, 19, 20, 309, 310, 4300, 4301, 100_000])
def test_an_id_that_is_accepted_can_be_said_again(digits: int) -> None:
    id = b"7" * digits
    body = b'{"jsonrpc":"2.0","id":%s,"method":"x"}' % id
    try:
        envelope = jsonrpc.parse(body)
    except RemoteProtocolError as error:
        assert digits > 309
        assert error.code == "invalid_request"
    else:
        assert jsonrpc.encode_id(envelope.request_id) == id


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, max_size=3)


@given(IDS, TEXTS, VALUES, OBJECTS, st.integers(-(2**31), 2**31))
def test_what_we_say_ourselves_is_well_formed_and_one_line(
    id: Id, text: str, params: str, values: dict[str, Any], code: int
) -> None:
    head: dict[str, Any] = {"jsonrpc": "2.0"}
    error = {"code": code, "message": text}
    said: list[tuple[bytes, dict[str, Any]]] = [
        (
            jsonrpc.request(id, text, params.encode()),
            head | {"id": id, "method": text, "params": json.loads(params)},
        ),
        (jsonrpc.request(id, text), head | {"id": id, "method": text}),
        (jsonrpc.notification(text), head | {"method": text}),
        (
            jsonrpc.notification(text, values),
            head | ({"method": text, "params": values} if values else {"method": text}),
        ),
        (jsonrpc.result_response(id, values), head | {"id": id, "result": values}),
        (jsonrpc.error_response(id, code, text), head | {"id": id, "error": error}),
        (jsonrpc.error_response(None, code, text), head | {"id": None, "error": error}),
        (
            jsonrpc.error_response(id, code, text, values),
            head | {"id": id, "error": error | {"data": values}},
        ),
    ]
    for line, want in said:
        assert repr(loaded(line)) == repr(want)
        assert not set(line) & set(b"\r\n")
        if not has_no_free_letter(line):
            jsonrpc.parse(line)


@given(st.lists(MESSAGES, min_size=1, max_size=4), SPACE)
def test_a_batch_is_its_messages_each_with_its_own_bytes(bodies: list[bytes], space: str) -> None:
    batch = b"[" + f"{space},".encode().join(bodies) + b"]"
    assume(not has_no_free_letter(batch))
    found = jsonrpc.parse_batch(batch)
    assert [item for _, item in found] == [body.strip(b" \t\r\n") for body in bodies]
    assert [envelope.method for envelope, _ in found] == [loaded(body).get("method") for body in bodies]


@st.composite
def long_answers(draw: st.DrawFn) -> tuple[Id, bytes]:
    """A well-formed response over every bound, its id first or last, decoys inside."""
    id = draw(st.integers(-(10**20), 10**20) | TEXTS)
    decoy = f'{{"id": 666, "method": "decoy", "x": {draw(VALUES)}}}'
    quoted = json.dumps('","id":666,"method":"decoy"}' * 3)
    filler = json.dumps("x" * draw(st.integers(HEAD_BYTES, HEAD_BYTES + TAIL_BYTES)))
    inside = draw(st.permutations([decoy, quoted, filler, f"[{decoy}]", f'{{"{"k" * 5}":{decoy}}}']))
    result = f'"result":[{",".join(inside)}]' if draw(st.booleans()) else f'"result":{filler}'
    head = f'"id":{draw(SPACE)}{json.dumps(id)}'
    members = draw(
        st.sampled_from(
            [
                ['"jsonrpc":"2.0"', head, result],
                [head, '"jsonrpc":"2.0"', result],
                [head, result, '"jsonrpc":"2.0"'],
                ['"jsonrpc":"2.0"', result, head],
                [result, '"jsonrpc":"2.0"', head],
                [result, head, '"jsonrpc":"2.0"'],
            ]
        )
    )
    return id, ("{" + f"{draw(SPACE)},{draw(SPACE)}".join(members) + draw(SPACE) + "}").encode()


@given(long_answers())
def test_the_id_of_a_long_answer_is_found_at_either_end_and_a_nested_one_never(
    answer: tuple[Id, bytes],
) -> None:
    id, line = answer
    assert jsonrpc.identify(LongLine.of(line)) == (None, id)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_two_ends_can_be_looked_at(head: bytes, tail: bytes) -> None:
    method, id = jsonrpc.identify(LongLine(head, tail, 10_000))
    assert method is None or isinstance(method, str)
    assert id is None or (isinstance(id, (int, str, float)) and not isinstance(id, bool))


@given(MESSAGES)
def test_identify_agrees_with_parse_on_a_whole_message(body: bytes) -> None:
    envelope = jsonrpc.parse(body)
    assume(len(body) <= HEAD_BYTES)
    method, id = jsonrpc.identify(LongLine.of(body))
    assert method == envelope.method
    if envelope.is_notification:
        assert id is None
    elif not isinstance(envelope.id, float) or math.isfinite(envelope.id):
        assert id == envelope.request_id
