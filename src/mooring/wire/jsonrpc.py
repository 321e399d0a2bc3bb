"""The JSON-RPC envelope: what a message is and whom it concerns, and nothing of what it says.

- `parse` reads the envelope and checks that the whole message is well-formed JSON in UTF-8;
  `params`, `result` and `error` stay bytes (`msgspec.Raw`). Messages are forwarded as the
  bytes that arrived, so 64-bit integers, key order and odd Unicode survive.
- `one_line` makes a parsed message fit for a line-framed pipe: in well-formed JSON a line
  break can only be white space, so nothing a client sends can become a second line.
- Ids are compared as values: `1` and `"1"` are two ids; `"a"` and `"\\u0061"` are one, and so are
  `1` and `1.0`, which JSON does not tell apart.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mooring.errors import MooringError, RemoteProtocolError, ServerFailed, Unavailable, UserError
from mooring.wire.lines import LongLine
from mooring.wire.surrogates import MALFORMED, readable_copy

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MAX_BATCH_BYTES",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "Envelope",
    "Id",
    "encode_id",
    "error_code",
    "error_code_of",
    "error_line",
    "error_response",
    "identify",
    "is_cut",
    "note_line",
    "notification",
    "one_line",
    "parse",
    "parse_batch",
    "parse_refusal",
    "request",
    "result_line",
    "result_response",
    "with_id",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_BATCH_BYTES = 4 * 1024 * 1024
"""For those who call `parse_batch`: it makes objects of a hundred bytes from items of two."""

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


def parse(data: bytes) -> Envelope:
    """The envelope of one message. Raises RemoteProtocolError (`parse_error`, `invalid_request`)."""
    try:
        envelope = _decode(data)
    except MALFORMED as error:
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


def parse_refusal(data: bytes) -> Envelope | None:
    """The error in the body of an HTTP error, if it is one; there it often comes without an id."""
    try:
        envelope = parse(data)
    except RemoteProtocolError:
        try:
            envelope = _decode(data)
        except MALFORMED:
            return None
        if envelope.jsonrpc != "2.0" or envelope.id is not UNSET or envelope.result:
            return None
        envelope.id = None
    return envelope if envelope.error and envelope.method is None else None


def _parse_again(data: bytes, error: Exception) -> Envelope:
    if isinstance(error, msgspec.ValidationError):
        raise _invalid(f"not a JSON-RPC message: {error}") from None
    copy = readable_copy(data)
    if copy is None:
        raise RemoteProtocolError(f"not JSON: {error}", code="parse_error") from None
    try:
        envelope = _decode(copy.data)
    except msgspec.ValidationError as second:
        raise _invalid(f"not a JSON-RPC message: {second}") from None
    except MALFORMED as second:
        raise RemoteProtocolError(f"not JSON: {second}", code="parse_error") from None
    # An id that cannot be said again cannot be answered.
    if any(isinstance(text, str) and copy.stands_in(text) for text in (envelope.id, envelope.method)):
        raise _invalid("an id or a method must be Unicode text, without lone surrogates")
    envelope.params = Raw(copy.restore(bytes(envelope.params)))
    envelope.result = Raw(copy.restore(bytes(envelope.result)))
    envelope.error = Raw(copy.restore(bytes(envelope.error)))
    return envelope


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
        items = [bytes(item) for item in _decode_items(data)]
    except MALFORMED as error:
        items = _items_again(data, error)
    if not items:
        raise _invalid("an empty batch")
    return [(parse(item), item) for item in items]


def _items_again(data: bytes, error: Exception) -> list[bytes]:
    copy = readable_copy(data)
    try:
        if copy is not None:
            return [copy.restore(bytes(item)) for item in _decode_items(copy.data)]
    except MALFORMED as second:
        error = second
    raise RemoteProtocolError(f"not a batch: {error}", code="parse_error") from None


_SPACES = bytes.maketrans(b"\r\n", b"  ")
# As numbers: `in` looks for one ten times as fast as for bytes, with which it fails inside at first.
_LF, _CR = b"\n\r"


def is_cut(line: bytes) -> bool:
    """Is it the beginning of a message, of which the rest never came?"""
    if not line.lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(line, type=Raw)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    return False


def one_line(data: bytes) -> bytes:
    """A message that `parse` has accepted, without line breaks."""
    if _LF in data or _CR in data:
        return data.translate(_SPACES)
    return data


def encode_id(value: Id | None) -> bytes:
    """An id as JSON."""
    if type(value) is int:
        return b"%d" % value  # of any size, where msgspec stops at 64 bits
    return _encode(value)


def with_id(envelope: Envelope, new: Id) -> bytes:
    """The same request or response under another id, as one line; its payload otherwise untouched."""
    if envelope.method is not None:
        return request(new, envelope.method, envelope.params)
    if envelope.error:
        return error_line(new, envelope.error)
    return result_line(new, envelope.result)


def request(id: Id, method: str, params: bytes | Raw = b"") -> bytes:
    """A request of our own, as one line; `params` is JSON."""
    if not params:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (encode_id(id), _encode(method))
    if type(id) is int:
        line = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}'
        return line % (id, _encode(method), one_line(bytes(params)))
    line = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}'
    return line % (_encode(id), _encode(method), one_line(bytes(params)))


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """A notification of our own."""
    tail = b',"params":' + _encode(params) + b"}" if params else b"}"
    return b"".join((b'{"jsonrpc":"2.0","method":', _encode(method), tail))


def note_line(method: str | None, params: bytes | Raw) -> bytes:
    """A notification whose params are JSON, as one line."""
    tail = one_line(bytes(params)) or b"{}"
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), tail)


def result_line(id: Id, result: bytes | Raw) -> bytes:
    """An answer whose result is JSON, as one line."""
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, one_line(bytes(result)))
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), one_line(bytes(result)))


def error_line(id: Id, error: bytes | Raw) -> bytes:
    """An answer whose error object is JSON, as one line."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode_id(id), one_line(bytes(error)))


def result_response(id: Id, result: Mapping[str, Any]) -> bytes:
    """A successful answer of our own."""
    return b"".join((b'{"jsonrpc":"2.0","id":', encode_id(id), b',"result":', _encode(result), b"}"))


def error_response(id: Id | None, code: int, message: str, data: Mapping[str, Any] | None = None) -> bytes:
    """An error answer of our own."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b"".join((b'{"jsonrpc":"2.0","id":', encode_id(id), b',"error":', _encode(error), b"}"))


class _ErrorObject(msgspec.Struct):
    code: int = INTERNAL_ERROR


class _ErrorWords(msgspec.Struct):
    message: str = ""


_decode_error = msgspec.json.Decoder(_ErrorObject).decode
_decode_words = msgspec.json.Decoder(_ErrorWords).decode


def error_code_of(response: Envelope) -> int:
    """The code of a response that is an error; 0 of a result."""
    if not response.error:
        return 0
    try:
        return _decode_error(response.error).code
    except MALFORMED:
        return INTERNAL_ERROR


_ERROR_CODES: dict[type[MooringError], int] = {
    UserError: INVALID_PARAMS,
    Unavailable: INTERNAL_ERROR,
    ServerFailed: INTERNAL_ERROR,
    RemoteProtocolError: INVALID_REQUEST,
}


def error_message_of(response: Envelope) -> str:
    """What its error says, if it is a text."""
    try:
        return _decode_words(response.error).message
    except MALFORMED:
        return ""


def error_code(error: MooringError) -> int:
    """What a client is told: the JSON-RPC code of one of our errors."""
    if error.code == "parse_error":
        return PARSE_ERROR
    return next((_ERROR_CODES[cls] for cls in type(error).__mro__ if cls in _ERROR_CODES), INTERNAL_ERROR)


# A string that is cut is one token too: what it holds is no structure.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
# Members with simple values, up to the brace that ends the message: they are at its top.
_LAST_MEMBERS = re.compile(
    rb',((?:\s*"[^"\\]*+"\s*:\s*(?:"(?:[^"\\]|\\.)*+"|[^\s{}\[\]:,"]++)\s*,)*+'
    rb'\s*"[^"\\]*+"\s*:\s*(?:"(?:[^"\\]|\\.)*+"|[^\s{}\[\]:,"]++)\s*}\s*)\Z',
    re.DOTALL,
)


def identify(line: LongLine) -> tuple[str | None, Id | None]:
    """(method, id) of a message of which only both ends are left; None for what cannot be seen."""
    method, id = _members_at_top(line.head)
    if (method is None or id is None) and (match := _LAST_MEMBERS.search(line.tail)):
        last_method, last_id = _members_at_top(b"{" + match[1])
        method = last_method if method is None else method
        id = last_id if id is None else id
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
