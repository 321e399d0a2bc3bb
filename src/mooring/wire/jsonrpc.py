"""The JSON-RPC envelope: what a message is and whom it concerns, and nothing of what it says.

- `parse` reads the envelope and checks that the whole message is well-formed JSON in UTF-8;
  `params`, `result` and `error` stay bytes (`msgspec.Raw`). Messages are forwarded as the
  bytes that arrived, so 64-bit integers, key order and odd Unicode survive.
- `one_line` makes a parsed message fit for a line-framed pipe: in well-formed JSON a line
  break can only be white space, so nothing a client sends can become a second line.
- Ids are compared as values with their type: `1` and `"1"` are two ids, `"a"` and `"\\u0061"`
  are one.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mooring.errors import MooringError, RemoteProtocolError, ServerFailed, Unavailable, UserError
from mooring.wire.lines import LongLine

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "UNSUPPORTED_VERSION",
    "Envelope",
    "Id",
    "encode_id",
    "error_code",
    "error_response",
    "identify",
    "notification",
    "one_line",
    "parse",
    "parse_batch",
    "request",
    "result_response",
    "with_id",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

Id = int | str | float


class Envelope(msgspec.Struct, gc=False):
    """The outside of one message. Exactly one of the three `is_…` holds after `parse`."""

    jsonrpc: str = ""
    id: int | str | float | UnsetType | None = UNSET
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()

    @property
    def request_id(self) -> Id:
        """The id of what `is_request`, or of a response to one."""
        return self.id  # type: ignore[return-value]  # checked by `parse`

    @property
    def is_request(self) -> bool:
        """Wants an answer."""
        return self.method is not None and self.id is not UNSET

    @property
    def is_notification(self) -> bool:
        """Wants none."""
        return self.method is not None and self.id is UNSET

    @property
    def is_response(self) -> bool:
        """Is one."""
        return self.method is None


_decode = msgspec.json.Decoder(Envelope).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.encode

# A lone surrogate, written as an escape, is legal JSON that msgspec refuses. Such a message is read
# from a copy of equal length in which the escape is harmless; the original is what is forwarded.
_SURROGATE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def parse(data: bytes) -> Envelope:
    """The envelope of one message. Raises RemoteProtocolError (`parse_error`, `invalid_request`)."""
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        envelope = _parse_again(data, error)
    if not data.isascii():
        _check_utf8(data)
    if envelope.jsonrpc != "2.0":
        raise _invalid('not JSON-RPC: "jsonrpc" is not "2.0"')
    if envelope.method is None:
        if envelope.id is UNSET or bool(envelope.result) == bool(envelope.error):
            raise _invalid("neither a request, a notification nor a response")
    elif envelope.id is None:
        raise _invalid("the id of a request must be a string or a number")
    return envelope


def _parse_again(data: bytes, error: Exception) -> Envelope:
    if isinstance(error, msgspec.ValidationError):
        raise _invalid(f"not a JSON-RPC message: {error}") from None
    harmless = _SURROGATE.sub(rb"\1\\u0041", data)
    try:
        return _decode(harmless)
    except msgspec.ValidationError as second:
        raise _invalid(f"not a JSON-RPC message: {second}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RemoteProtocolError(f"not JSON: {error}", code="parse_error") from None


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(
            f"not UTF-8: {error.reason} at byte {error.start}", code="parse_error"
        ) from None


def _invalid(message: str) -> RemoteProtocolError:
    return RemoteProtocolError(message, code="invalid_request")


def parse_batch(data: bytes) -> list[tuple[Envelope, bytes]]:
    """The messages of a batch, each with its own bytes."""
    try:
        items = _decode_items(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"not a batch: {error}", code="parse_error") from None
    if not items:
        raise _invalid("an empty batch")
    return [(parse(item), item) for item in map(bytes, items)]


_SPACES = bytes.maketrans(b"\r\n", b"  ")


def one_line(data: bytes) -> bytes:
    """A message that `parse` has accepted, without line breaks."""
    if b"\n" in data or b"\r" in data:
        return data.translate(_SPACES)
    return data


def encode_id(value: Id | None) -> bytes:
    """An id as JSON."""
    if type(value) is int:
        return b"%d" % value  # of any size, where msgspec stops at 64 bits
    return _encode(value)


def with_id(envelope: Envelope, new: Id) -> bytes:
    """The same request or response under another id; its payload untouched."""
    head = b'{"jsonrpc":"2.0","id":' + encode_id(new)
    if envelope.method is not None:
        params = b',"params":' + bytes(envelope.params) if envelope.params else b""
        return b"".join((head, b',"method":', _encode(envelope.method), params, b"}"))
    if envelope.error:
        return b"".join((head, b',"error":', bytes(envelope.error), b"}"))
    return b"".join((head, b',"result":', bytes(envelope.result), b"}"))


def request(id: Id, method: str, params: bytes | Raw = b"") -> bytes:
    """A request of our own; `params` is JSON."""
    tail = b',"params":' + bytes(params) + b"}" if params else b"}"
    return b"".join((b'{"jsonrpc":"2.0","id":', encode_id(id), b',"method":', _encode(method), tail))


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """A notification of our own."""
    tail = b',"params":' + _encode(params) + b"}" if params else b"}"
    return b"".join((b'{"jsonrpc":"2.0","method":', _encode(method), tail))


def result_response(id: Id, result: Mapping[str, Any]) -> bytes:
    """A successful answer of our own."""
    return b"".join((b'{"jsonrpc":"2.0","id":', encode_id(id), b',"result":', _encode(result), b"}"))


def error_response(id: Id | None, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """An error answer of our own."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b"".join((b'{"jsonrpc":"2.0","id":', encode_id(id), b',"error":', _encode(error), b"}"))


_ERROR_CODES: dict[type[MooringError], int] = {
    UserError: INVALID_PARAMS,
    Unavailable: INTERNAL_ERROR,
    ServerFailed: INTERNAL_ERROR,
    RemoteProtocolError: INVALID_REQUEST,
}


def error_code(error: MooringError) -> int:
    """What a client is told: the JSON-RPC code of one of our errors."""
    if error.code == "parse_error":
        return PARSE_ERROR
    return next((_ERROR_CODES[cls] for cls in type(error).__mro__ if cls in _ERROR_CODES), INTERNAL_ERROR)


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_LAST_ID = re.compile(rb',\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*}\s*$')


def identify(line: LongLine) -> tuple[str | None, Id | None]:
    """(method, id) of a message of which only both ends are left; None for what cannot be seen."""
    method, id = _members_at_top(line.head)
    if id is None and (match := _LAST_ID.search(line.tail)):
        id = _scalar(match[1])
    return method, id


def _members_at_top(head: bytes) -> tuple[str | None, Id | None]:
    method: str | None = None
    id: Id | None = None
    depth = 0
    key: Any = None
    at_key = False
    for match in _TOKEN.finditer(head):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
            at_key = depth == 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif depth != 1:
            continue
        elif token == b",":
            at_key = True
        elif token == b":":
            at_key = False
        elif at_key:
            key = _scalar(token)
        elif key == "id":
            # The last token may be cut where the kept part ends; a number would not show it.
            id = _scalar(token) if match.end() < len(head) else None
        elif key == "method" and isinstance(value := _scalar(token), str):
            method = value
    return method, id


def _scalar(token: bytes) -> Any:
    try:
        value = msgspec.json.decode(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, (int, str, float)) and not isinstance(value, bool) else None
