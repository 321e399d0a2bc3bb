"""JSON-RPC lines: cut as they were written, read as the standard library reads them, forwarded unchanged.

An input is a list of places to cut at, and what a server writes. Its first byte says how many places.
"""

import json
import math
import re
from typing import Any

from mooring.errors import RemoteProtocolError
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope
from mooring.wire.lines import HEAD_BYTES, LineDecoder, LongLine
from mooring.wire.surrogates import readable_copy
from tests.fuzz.pieces import divided

LIMIT = 200
"""So short that an input of a fuzzer's size goes beyond it."""
EVERY_PLACE_BYTES = 80
"""Up to here a message is cut at every place, not only where the input says."""
MOST_DIGITS = 300
"""Where numbers become too long for one reader or the other."""
NEW_IDS = (7, -0.5, 2**70, 'quote " and line\nend', "\U0001f600")


def check(data: bytes) -> None:
    pieces, stream = divided(data)
    decoder = LineDecoder(LIMIT)
    lines: list[bytes | LongLine | None] = [line for piece in pieces for line in decoder.feed(piece)]
    assert [*lines, decoder.close()] == _cut_by_the_book(stream)
    for line in (*lines, stream):
        if isinstance(line, bytes):
            _check_message(line, data[:1] + data[-1:])
        elif line is not None:
            jsonrpc.identify(line)


def _cut_by_the_book(stream: bytes) -> list[bytes | LongLine | None]:
    *ended, last = stream.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in ended]
    kept: list[bytes | LongLine | None] = [
        LongLine.of(line) if len(line) > LIMIT else line for line in lines if line
    ]
    return [*kept, (LongLine.of(last) if len(last) > LIMIT else last) or None]


class Unclear(Exception):
    """JSON on which readers may differ: too deep, numbers too long, a name twice in one object."""


def meaning(data: bytes) -> Any:
    """What the standard library reads; ValueError if it is not JSON."""
    if re.search(rb"[0-9]{%d}" % MOST_DIGITS, data) or re.search(rb"[eE][+-]?[0-9]{3}", data):
        raise Unclear
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_each_once)
    except RecursionError:
        raise Unclear from None


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(members)) < len(members):
        raise Unclear
    return found


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _check_message(data: bytes, places: bytes) -> None:
    try:
        want = meaning(data)
    except Unclear:
        _parsed(data)
        return
    except ValueError:
        assert _parsed(data) is None and _parsed_batch(data) is None, "not JSON, and read nevertheless"
        return
    envelope = _parsed(data)
    if _is_lost(data):
        return
    assert (envelope is not None) == _is_message(want), "judged differently"
    is_batch = isinstance(want, list) and bool(want) and all(map(_is_message, want))
    batch = _parsed_batch(data)
    assert (batch is not None) == is_batch, "a batch is judged differently"
    if batch is not None:
        for (item, raw), one in zip(batch, want, strict=True):
            _check_values(item, raw, one)
    if envelope is not None:
        _check_values(envelope, data, want)
        _check_ends(data, want, places)


def _parsed(data: bytes) -> Envelope | None:
    try:
        return jsonrpc.parse(data)
    except RemoteProtocolError as error:
        assert error.code in ("parse_error", "invalid_request")
        return None


def _parsed_batch(data: bytes) -> list[tuple[Envelope, bytes]] | None:
    try:
        return jsonrpc.parse_batch(data)
    except RemoteProtocolError as error:
        assert error.code in ("parse_error", "invalid_request")
        return None


def _is_lost(data: bytes) -> bool:
    """The one known limit: half a character, together with escapes of five rare ranges."""
    return _has_half(json.loads(data)) and readable_copy(data) is None


def _has_half(value: Any) -> bool:
    return re.search(r"[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)) is not None


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return False
    method, id = value.get("method"), value.get("id")
    if not isinstance(method, str | None) or isinstance(id, (bool, list, dict)) or _has_half([method, id]):
        return False
    if method is None:
        return "id" in value and ("result" in value) != ("error" in value)
    return "id" not in value or id is not None


def _check_values(envelope: Envelope, data: bytes, want: dict[str, Any]) -> None:
    assert envelope.method == want.get("method")
    assert envelope.is_request + envelope.is_notification + envelope.is_response == 1
    if "id" in want:
        assert repr(envelope.id) == repr(want["id"])
    for name in ("params", "result", "error"):
        raw = bytes(getattr(envelope, name))
        assert raw in data, "not the bytes that came"
        assert (bool(raw)) == (name in want)
        assert not raw or repr(json.loads(raw)) == repr(want[name])
    line = jsonrpc.one_line(data)
    assert not set(line) & set(b"\r\n") and repr(json.loads(line)) == repr(want)
    if not envelope.is_notification:
        for new in NEW_IDS:
            _check_new_id(envelope, new, want)


def _check_new_id(envelope: Envelope, new: jsonrpc.Id, want: dict[str, Any]) -> None:
    line = jsonrpc.with_id(envelope, new)
    assert not set(line) & set(b"\r\n")
    members = ("method", "params") if envelope.is_request else ("result", "error")
    expected = {"jsonrpc": "2.0", "id": new} | {name: want[name] for name in members if name in want}
    assert repr(json.loads(line)) == repr(expected)
    assert _is_lost(line) or jsonrpc.parse(line).id == new


def _check_ends(data: bytes, want: dict[str, Any], places: bytes) -> None:
    """Of a message of which only both ends are kept, what is seen is never wrong."""
    names = [name for name, _ in json.loads(data, object_pairs_hook=list)]
    if len(set(names)) < len(names):
        return  # the last one counts, and may be in neither end
    whole = jsonrpc.identify(LongLine.of(data))
    if len(data) <= HEAD_BYTES:
        assert whole[0] == want.get("method")
        assert want.get("id") is None or whole[1] == want["id"]
    for at in range(len(data)) if len(data) <= EVERY_PLACE_BYTES else {*places, len(data) // 2}:
        method, id = jsonrpc.identify(LongLine(data[:at], data[max(at, len(data) - 30) :], len(data)))
        assert method in (None, want.get("method")), f"wrong method, kept {at} bytes"
        assert id is None or repr(id) == repr(want.get("id")), f"wrong id, kept {at} bytes"
        assert not isinstance(id, float) or math.isfinite(id)
