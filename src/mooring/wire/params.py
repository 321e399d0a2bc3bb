"""The few members of `params` that a bridge routes by."""

import msgspec
from msgspec import Raw

from mooring.wire.jsonrpc import Id
from mooring.wire.members import has_escapes, read_members, write_members
from mooring.wire.revisions import HANDSHAKE_REVISIONS
from mooring.wire.surrogates import tolerant

__all__ = [
    "STATED_VERSION",
    "cancelled_id",
    "client_name",
    "modern_version",
    "progress_of_call",
    "progress_of_note",
    "subscription_of_note",
    "unambiguous",
]

STATED_VERSION = "io.modelcontextprotocol/protocolVersion"
_READ_HERE = (b'"_meta"', b'"name"', b'"uri"', b'"progressToken"', b"/logLevel")
"""What we look at in the params of a call that is passed on as it is."""
_VERSION = b"protocolVersion"


class _Meta(msgspec.Struct, rename="camel"):
    progress_token: Id | None = None


class _Stated(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name=STATED_VERSION)


class _Statement(msgspec.Struct):
    meta: _Stated | None = msgspec.field(default=None, name="_meta")


class _Call(msgspec.Struct):
    meta: _Meta | None = msgspec.field(default=None, name="_meta")


class _Subscription(msgspec.Struct):
    subscription: Id | None = msgspec.field(default=None, name="io.modelcontextprotocol/subscriptionId")


class _Subscribed(msgspec.Struct):
    meta: _Subscription | None = msgspec.field(default=None, name="_meta")


class _Note(msgspec.Struct, rename="camel"):
    progress_token: Id | None = None
    request_id: Id | None = None


class _Client(msgspec.Struct):
    name: str = ""
    version: str = ""


class _Initialize(msgspec.Struct, rename="camel"):
    client_info: _Client = msgspec.field(default_factory=_Client)


_read_call = tolerant(msgspec.json.Decoder(_Call).decode)
_read_statement = tolerant(msgspec.json.Decoder(_Statement).decode)
_read_note = tolerant(msgspec.json.Decoder(_Note).decode)
_read_subscribed = tolerant(msgspec.json.Decoder(_Subscribed).decode)
_read_initialize = tolerant(msgspec.json.Decoder(_Initialize).decode)


def progress_of_call(params: bytes | Raw) -> Id | None:
    """The token under which a call wants to hear of its progress."""
    try:
        meta = _read_call(params).meta
    except msgspec.DecodeError:
        return None
    return meta.progress_token if meta is not None else None


def unambiguous(params: bytes) -> bytes:
    """The params of a call, so that nobody can read them otherwise than we did.

    Of two members with one name we take the last. A server may take the first, and with it another tool, or
    a token or a log level that we never saw. Raises msgspec.DecodeError if `_meta` is no object.
    """
    if not has_escapes(params) and all(params.count(name) <= 1 for name in _READ_HERE):
        return params
    members = read_members(params)
    if "_meta" in members:
        members["_meta"] = write_members(read_members(members["_meta"]))
    return write_members(members)


def modern_version(params: bytes | Raw) -> str | None:
    """The revision without handshakes that a message states by itself; None if it is of the other era."""
    data = bytes(params)
    # Most messages need not be read: the slash in the name may be escaped, the rest of it hardly ever.
    if data.find(_VERSION) < 0 and not has_escapes(data):
        return None
    try:
        meta = _read_statement(data).meta
    except msgspec.DecodeError:
        return None
    version = meta.version if meta is not None else None
    return None if version in HANDSHAKE_REVISIONS else version


def progress_of_note(params: bytes | Raw) -> Id | None:
    """The token of a progress notification."""
    try:
        return _read_note(params).progress_token
    except msgspec.DecodeError:
        return None


def cancelled_id(params: bytes | Raw) -> Id | None:
    """The request that a cancellation is about."""
    try:
        return _read_note(params).request_id
    except msgspec.DecodeError:
        return None


def client_name(params: bytes | Raw) -> str:
    """Name and version of the client, as it introduced itself; control characters removed."""
    try:
        client = _read_initialize(params).client_info
    except msgspec.DecodeError:
        return ""
    return "".join(c for c in f"{client.name} {client.version}".strip() if c.isprintable())[:80]


def subscription_of_note(params: bytes | Raw) -> Id | None:
    """The subscription (2026-07-28) to which a notification belongs."""
    try:
        meta = _read_subscribed(params).meta
    except msgspec.DecodeError:
        return None
    return meta.subscription if meta is not None else None
