"""What is said in one era, for ears of the other. Pure; members that it does not know pass untouched.

The handshake era (up to 2025-11-25) tells capabilities once, in `initialize`; revision 2026-07-28 tells
them with every request, and has no requests of the server: what it wants of the client it asks for by
a result of the type `input_required`.
"""

import msgspec
from msgspec import Raw

from mooring.wire.jsonrpc import INTERNAL_ERROR, Id, encode_id, note_line
from mooring.wire.members import (
    Members,
    has_escapes,
    read_members,
    with_member_in_front,
    with_meta,
    write_members,
)
from mooring.wire.modern import (
    ASKING_CAPABILITIES,
    CAPABILITIES_KEY,
    CLIENT_KEY,
    ENVELOPE_KEYS,
    LEVEL_KEY,
    MISSING_CAPABILITY,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)
from mooring.wire.revisions import MODERN, SERVED

__all__ = [
    "CACHEABLE",
    "REMOVED",
    "Preface",
    "can_be_asked",
    "complete_result",
    "discovery",
    "elicitations_of",
    "for_handshake_error",
    "for_modern_error",
    "handshake_result",
    "input_required",
    "needs_pages",
    "reduced_result",
    "served_here",
    "under_subscription",
    "with_subscription",
]

NOT_FOUND_HANDSHAKE = -32002
NEEDS_URL_HANDSHAKE = -32042
INVALID_PARAMS = -32602
_MODERN_CODES = {NOT_FOUND_HANDSHAKE: INVALID_PARAMS, NEEDS_URL_HANDSHAKE: INTERNAL_ERROR}
"""Codes that 2026-07-28 does not have → what it says instead."""

CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Whose results say how long they may be kept."""
REMOVED = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""Methods of the handshake era that 2026-07-28 does not have."""
_NEVER_CACHED: Members = {"ttlMs": b"0", "cacheScope": b'"private"'}
_NEW_MEMBERS = ("resultType", "ttlMs", "cacheScope")
_COMPLETE = b'"complete"'
_TYPE_FIRST, _TYPE_LAST = b'{"resultType":"complete",', b',"resultType":"complete"}'

_encode = msgspec.json.encode


class _Error(msgspec.Struct):
    code: int = INTERNAL_ERROR
    message: str = ""
    data: Raw = Raw()


# Results of handshake servers, for clients of 2026-07-28


def complete_result(result: bytes | Raw, method: str, server: bytes) -> bytes:
    """A whole result; `server` is the serverInfo, as JSON, or nothing."""
    data = bytes(result)
    added = b'"resultType":"complete"'
    if method in CACHEABLE:
        added += b',"ttlMs":0,"cacheScope":"private"'
    if server:
        added += b',"_meta":{"%b":%b}' % (SERVER_KEY.encode(), server)
    is_free = data.find(b'"_meta"') < 0 and data.find(b'"resultType"') < 0 and data.find(b'"ttlMs"') < 0
    if data[:1] == b"{" and is_free:
        # Nearly always: nothing in it can be in the way, so nothing need be taken apart.
        return with_member_in_front(data, added)
    members = read_members(data)
    members["resultType"] = b'"complete"'
    if method in CACHEABLE:
        members = {**_NEVER_CACHED, **members}
    if server:
        meta = read_members(members.get("_meta", b""))
        members["_meta"] = write_members({SERVER_KEY: server, **meta})
    return write_members(members)


def discovery(initialize_result: bytes) -> tuple[bytes, bytes]:
    """(DiscoverResult, serverInfo) made from what a handshake server said to `initialize`."""
    members = read_members(initialize_result)
    server = members.get("serverInfo", b"")
    capabilities = read_members(members.get("capabilities", b""))
    capabilities.pop("tasks", None)  # of another shape there, and an extension
    result: Members = {
        "resultType": b'"complete"',
        "supportedVersions": _encode(SERVED),
        "capabilities": write_members(capabilities),
        **_NEVER_CACHED,
    }
    if "instructions" in members:
        result["instructions"] = members["instructions"]
    if server:
        result["_meta"] = write_members({SERVER_KEY: server})
    return write_members(result), server


def for_modern_error(error: bytes | Raw) -> tuple[int, bytes]:
    """(code, error object) for a client of 2026-07-28."""
    read = _read_error(error)
    code = _MODERN_CODES.get(read.code, read.code)
    if code == read.code:
        return code, bytes(error)
    return code, write_members({**read_members(error), "code": b"%d" % code})


def needs_pages(error: bytes | Raw) -> bool:
    """Is it the error of 2025-11-25 that wants the client to visit pages first?"""
    return _read_error(error).code == NEEDS_URL_HANDSHAKE


def elicitations_of(error: bytes | Raw) -> dict[str, bytes] | None:
    """Of -32042 (2025-11-25): the URLs to be visited, as requests by key; None if it is another error."""
    read = _read_error(error)
    if read.code != NEEDS_URL_HANDSHAKE or not read.data:
        return None
    try:
        wanted = msgspec.json.decode(read_members(read.data).get("elicitations", b"[]"), type=list[Raw])
        requests: dict[str, bytes] = {}
        for n, params in enumerate(wanted):
            members = read_members(params)
            members.pop("elicitationId", None)
            requests[f"url-{n}"] = b'{"method":"elicitation/create","params":%b}' % write_members(members)
    except msgspec.DecodeError:
        return None
    return requests or None


def input_required(requests: dict[str, bytes], state: str, server: bytes) -> bytes:
    """The result that asks the client; each request is `{"method":…,"params":…}`."""
    members: Members = {
        "resultType": b'"input_required"',
        "inputRequests": write_members(requests),
        "requestState": _encode(state),
    }
    if server:
        members["_meta"] = write_members({SERVER_KEY: server})
    return write_members(members)


def with_subscription(method: str, params: bytes | Raw, subscription: Id) -> bytes:
    """A notification on a `subscriptions/listen` stream."""
    return note_line(method, under_subscription(params, subscription))


def under_subscription(params: bytes | Raw, subscription: Id) -> bytes:
    """Params, or a result, under the id of the request that listens."""
    return with_meta(params, SUBSCRIPTION_KEY, encode_id(subscription))


def served_here(discovered: bytes | Raw) -> bytes:
    """A DiscoverResult of the server, with the revisions that clients may speak here."""
    members = read_members(discovered)
    members["supportedVersions"] = _encode(SERVED)
    return write_members(members)


# Requests of handshake clients, for servers of 2026-07-28


def handshake_result(discovered: bytes, version: str) -> bytes:
    """An InitializeResult made from what a server of 2026-07-28 says of itself."""
    members = read_members(discovered)
    meta = read_members(members.get("_meta", b""))
    capabilities = read_members(members.get("capabilities", b""))
    capabilities.pop("extensions", None)
    result: Members = {
        "protocolVersion": _encode(version),
        "capabilities": write_members(capabilities),
        "serverInfo": meta.get(SERVER_KEY, b'{"name":"unknown","version":"0"}'),
    }
    if "instructions" in members:
        result["instructions"] = members["instructions"]
    return write_members(result)


class Preface:
    """What such a server wants to know of a client, with every request."""

    def __init__(self, capabilities: bytes = b"{}", client: bytes = b"", level: str | None = None) -> None:
        self._meta: Members = {VERSION_KEY: _encode(MODERN), CAPABILITIES_KEY: capabilities}
        if client:
            self._meta[CLIENT_KEY] = client
        if level is not None:
            self._meta[LEVEL_KEY] = _encode(level)
        self._front = b'{"_meta":%b,' % write_members(self._meta)

    def in_front_of(self, params: bytes) -> bytes | None:
        """The params of a request, with all that; None if there may be a `_meta` in them already."""
        if params.startswith(b'{"') and params.find(b'"_meta"') < 0 and not has_escapes(params):
            return self._front + params[1:]
        return None

    def within(self, params: bytes) -> bytes:
        """The same, whatever they have. Raises msgspec.DecodeError."""
        members = read_members(params)
        meta = read_members(members.get("_meta", b""))
        for key in ENVELOPE_KEYS:
            meta.pop(key, None)
        members["_meta"] = write_members({**meta, **self._meta})
        return write_members(members)


def reduced_result(result: bytes | Raw, method: str) -> bytes | None:
    """A complete result without what a handshake client does not know or would refuse; None if it is none."""
    data = bytes(result)
    if method not in CACHEABLE and data.startswith(_TYPE_FIRST) and not _has_more(data):
        return b"{" + data[len(_TYPE_FIRST) :]
    if method not in CACHEABLE and data.endswith(_TYPE_LAST) and not _has_more(data):
        return data[: -len(_TYPE_LAST)] + b"}"
    members = read_members(data)
    if members.get("resultType", _COMPLETE) != _COMPLETE:
        return None
    for name in _NEW_MEMBERS:
        members.pop(name, None)
    if "_meta" in members:
        meta = read_members(members["_meta"])
        meta.pop(SERVER_KEY, None)
        if meta:
            members["_meta"] = write_members(meta)
        else:
            del members["_meta"]
    if method == "tools/call" and members.get("structuredContent", b"{")[:1] != b"{":
        # Any JSON there; before, an object only. The text says the same.
        del members["structuredContent"]
    if method == "tools/list" and "tools" in members:
        members["tools"] = _reduced_tools(members["tools"])
    return write_members(members)


def _has_more(data: bytes) -> bool:
    """Has a result anything of this revision besides its type?

    Names written with escapes are not seen, and passed over as those that the client does not know.
    """
    return data.find(b'"_meta"') >= 0 or data.find(b'"structuredContent"') >= 0


def _reduced_tools(tools: bytes) -> bytes:
    if b'"outputSchema"' not in tools:
        return tools
    reduced = []
    for tool in msgspec.json.decode(tools, type=list[Raw]):
        members = read_members(tool)
        if "outputSchema" in members and not _is_object_schema(members["outputSchema"]):
            del members["outputSchema"]
        reduced.append(write_members(members))
    return b"[" + b",".join(reduced) + b"]"


def _is_object_schema(schema: bytes) -> bool:
    try:
        return read_members(schema).get("type") == b'"object"'
    except msgspec.DecodeError:
        return False


def for_handshake_error(error: bytes | Raw, method: str) -> bytes:
    """An error object for a handshake client."""
    read = _read_error(error)
    if read.code == INVALID_PARAMS and method == "resources/read":
        code = NOT_FOUND_HANDSHAKE
    elif read.code == MISSING_CAPABILITY:
        code = INTERNAL_ERROR
    else:
        return bytes(error)
    members = read_members(error)
    members["code"] = b"%d" % code
    return write_members(members)


def _read_error(error: bytes | Raw) -> _Error:
    try:
        return msgspec.json.decode(error, type=_Error)
    except msgspec.DecodeError:
        return _Error()


def can_be_asked(capabilities: Members) -> bool:
    """Has the client declared anything that a server could want of it?"""
    return not ASKING_CAPABILITIES.isdisjoint(capabilities)
