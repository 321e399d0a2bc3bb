"""Requests of revision 2026-07-28: no handshake, no session; each carries all that it needs.

`params._meta` has the envelope (revision, capabilities and name of the client, log level), and over HTTP
the head of the request says again what somebody between may route by. `read_request` is the ladder
of checks, in the order of the reference server, so that a client hears of the same mistake everywhere:

1. the envelope is there (-32602)
2. the head agrees with the body (-32020)
3. the revision is one we speak (-32022)

That the method exists is for the server to say.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mooring.wire.header_values import decode_value
from mooring.wire.http import Head
from mooring.wire.jsonrpc import Envelope, Id, error_response
from mooring.wire.members import read_members, write_members
from mooring.wire.params import STATED_VERSION
from mooring.wire.revisions import MODERN, SERVED
from mooring.wire.surrogates import tolerant

__all__ = [
    "ACKNOWLEDGED",
    "ASKING_CAPABILITIES",
    "ASKS_BY_RESULT",
    "CAPABILITIES_KEY",
    "CLIENT_KEY",
    "DISCOVER",
    "ENVELOPE_KEYS",
    "HEADER_MISMATCH",
    "INTERACTIVE",
    "LEVEL_KEY",
    "LISTEN",
    "LOG",
    "MAX_INTRODUCTION_BYTES",
    "MISSING_CAPABILITY",
    "NAMED_BY",
    "SERVER_KEY",
    "SUBSCRIPTION_KEY",
    "UNSUPPORTED_VERSION",
    "VERSION_KEY",
    "ModernRequest",
    "Rejection",
    "http_status",
    "read_request",
    "unsupported",
]

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

_SPACE = "io.modelcontextprotocol/"
VERSION_KEY = STATED_VERSION
CLIENT_KEY = f"{_SPACE}clientInfo"
CAPABILITIES_KEY = f"{_SPACE}clientCapabilities"
LEVEL_KEY = f"{_SPACE}logLevel"
SERVER_KEY = f"{_SPACE}serverInfo"
SUBSCRIPTION_KEY = f"{_SPACE}subscriptionId"
ENVELOPE_KEYS = (VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY, LEVEL_KEY)

DISCOVER = "server/discover"
LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LOG = "notifications/message"
ASKS_BY_RESULT = "a server of 2026-07-28 asks by a result of the type input_required"
INTERACTIVE = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods during which a server may want something of the client."""
ASKING_CAPABILITIES = frozenset({"elicitation", "sampling", "roots"})
"""What a client declares that can be asked."""
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method → the member that `Mcp-Name` says again."""
MAX_INTRODUCTION_BYTES = 32 * 1024
"""Of what a client says of itself: an instance that was introduced so is kept by these words."""
_BACKSLASH = ord("\\")
_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_STATUS = {-32700: 400, -32600: 400, -32602: 400, HEADER_MISMATCH: 400, -32021: 400, -32022: 400, -32601: 404}


class Rejection(NamedTuple):
    """Why a request is not taken."""

    code: int
    message: str
    data: Mapping[str, object] | None = None

    def response(self, id: Id | None) -> bytes:
        """The answer."""
        return error_response(id, self.code, self.message, self.data)


class _Meta(msgspec.Struct):
    version: str | UnsetType | None = msgspec.field(default=UNSET, name=VERSION_KEY)
    capabilities: Raw = msgspec.field(default=Raw(), name=CAPABILITIES_KEY)
    client: Raw = msgspec.field(default=Raw(), name=CLIENT_KEY)
    level: str | None = msgspec.field(default=None, name=LEVEL_KEY)
    progress_token: int | str | float | None = msgspec.field(default=None, name="progressToken")


class _Client(msgspec.Struct):
    name: str
    version: str


class _Params(msgspec.Struct, rename="camel"):
    meta: _Meta | None = msgspec.field(default=None, name="_meta")
    name: Raw = Raw()
    uri: Raw = Raw()
    request_state: str | None = None
    input_responses: Raw = Raw()


class ModernRequest(msgspec.Struct, eq=False):
    """A request that has passed the ladder."""

    id: Id
    method: str
    params: Raw
    capabilities: bytes
    client: bytes
    log_level: str | None
    progress_token: Id | None
    name: bytes
    """Of the tool, prompt or resource, as JSON; empty if there is none."""
    request_state: str | None
    input_responses: bytes

    def stripped_params(self) -> bytes:
        """The params without what only this revision has: for a server of the handshake era."""
        members = read_members(self.params)
        for name in ("inputResponses", "requestState", "task"):  # (tasks are of another shape there)
            members.pop(name, None)
        meta = read_members(members.pop("_meta"))
        for key in ENVELOPE_KEYS:
            meta.pop(key, None)
        if meta:
            members["_meta"] = write_members(meta)
        return write_members(members)


_read_params = tolerant(msgspec.json.Decoder(_Params).decode)
_read_capabilities = tolerant(msgspec.json.Decoder(dict[str, dict[str, Raw]]).decode)
_read_client = tolerant(msgspec.json.Decoder(_Client).decode)
_read_text = tolerant(msgspec.json.Decoder(str).decode)


def without_level(params: bytes) -> bytes:
    """The params of a request whose client will not hear what is logged for it."""
    members = read_members(params)
    meta = read_members(members.get("_meta", b""))
    meta.pop(LEVEL_KEY, None)
    return write_members({**members, "_meta": write_members(meta)})


def http_status(code: int) -> int:
    """The status of an answer with that error code."""
    return _STATUS.get(code, 200)


def unsupported(requested: str) -> Rejection:
    """A revision that is not spoken here; all that are, are named."""
    data = {"supported": list(SERVED), "requested": requested}
    return Rejection(UNSUPPORTED_VERSION, f"Unsupported protocol version: {requested}", data)


def read_request(message: Envelope, head: Head | None) -> ModernRequest | Rejection:
    """The ladder; `head` is None where there are no headers (a WebSocket, say)."""
    try:
        params = _read_params(message.params) if message.params else _Params()
    except msgspec.DecodeError as error:
        return Rejection(-32602, f"the envelope in params._meta is malformed: {error}")
    meta = params.meta
    if meta is None or meta.version is UNSET or meta.version is None or not meta.capabilities:
        return Rejection(
            -32602, f"params._meta must have the envelope of {MODERN}: {VERSION_KEY} and {CAPABILITIES_KEY}"
        )
    if (wrong := _wrong_introduction(meta)) is not None:
        return Rejection(-32602, wrong)
    method = message.method or ""
    named_by = NAMED_BY.get(method)
    name = b"" if named_by is None else bytes(params.name if named_by == "name" else params.uri)
    version = meta.version
    if head is not None and (mismatch := _mismatch(head, version, method, named_by, name)) is not None:
        return Rejection(HEADER_MISMATCH, mismatch)
    if version != MODERN:
        return unsupported(version)
    return ModernRequest(
        message.request_id,
        method,
        message.params,
        bytes(meta.capabilities),
        bytes(meta.client),
        meta.level,
        meta.progress_token,
        name,
        params.request_state,
        bytes(params.input_responses),
    )


def _wrong_introduction(meta: _Meta) -> str | None:
    """A server may be introduced to its client by these words: they must be what they should be."""
    if len(meta.capabilities) + len(meta.client) > MAX_INTRODUCTION_BYTES:
        return f"client and capabilities may have {MAX_INTRODUCTION_BYTES} bytes together"
    try:
        _read_capabilities(meta.capabilities)
    except msgspec.DecodeError as error:
        return f"{CAPABILITIES_KEY} must be an object of objects: {error}"
    try:
        if meta.client:
            _read_client(meta.client)
    except msgspec.DecodeError as error:
        return f"{CLIENT_KEY} must have a name and a version: {error}"
    return None


def _mismatch(head: Head, version: str, method: str, named_by: str | None, name: bytes) -> str | None:
    """Where head and body disagree; None if they agree."""
    fields = head.fields
    for repeated, _ in head.repeated:
        if repeated in _ROUTING:
            return f"the header {repeated.decode()} comes more than once"
    if fields.get(b"mcp-protocol-version", b"").decode("latin-1") != version:
        return "the header Mcp-Protocol-Version is not the revision in params._meta"
    if fields.get(b"mcp-method", b"").decode("latin-1") != method:
        return "the header Mcp-Method is not the method of the body"
    told = fields.get(b"mcp-name")
    if not name:
        return (
            None if told is None or named_by is None else f"the header Mcp-Name says what no {named_by} does"
        )
    if told is not None and b'"%b"' % told == name and _is_plain(told):
        return None  # nearly always
    said = _text(name)
    if said is None and told is not None:
        return f"the {named_by} in the body is no text"
    if said is not None and (told is None or decode_value(told.decode("latin-1")) != said):
        return f"the header Mcp-Name is not the {named_by} in the body"
    return None


def _is_plain(told: bytes) -> bool:
    """Nothing in it stands for something else, in a header or in JSON."""
    return told.isascii() and told.find(b"=?") < 0 and _BACKSLASH not in told


def _text(value: bytes) -> str | None:
    try:
        return _read_text(value)
    except msgspec.DecodeError:
        return None
