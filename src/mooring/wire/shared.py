"""What is said to one server by many clients, made harmless. Pure; members it does not know pass untouched.

The server knows one client, ourselves. What would reach from one client to another through it is taken
out: the token of progress (the trunk gives its own), and tasks, which every client of the server could
read and cancel.
"""

import msgspec
from msgspec import Raw

from mooring.wire.jsonrpc import Id
from mooring.wire.members import Members, has_escapes, read_members, write_members
from mooring.wire.params import progress_of_call
from mooring.wire.revisions import HANDSHAKE_REVISIONS

__all__ = [
    "covers",
    "initialize_result",
    "is_as_grave",
    "is_level",
    "level_of",
    "most_verbose",
    "shared_params",
]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The most verbose first."""
_RANK = {level: n for n, level in enumerate(LEVELS)}


def shared_params(params: bytes | Raw) -> tuple[bytes, Id | None]:
    """The params of a call, as the server may have them; and the client's token, which it may not.

    Raises msgspec.DecodeError if they are no object.
    """
    data = bytes(params)
    if data.find(b'"progressToken"') < 0 and data.find(b'"task"') < 0 and not has_escapes(data):
        return data, None
    members = read_members(data)
    members.pop("task", None)
    if "_meta" in members and members["_meta"] != b"null":
        meta = read_members(members["_meta"])
        meta.pop("progressToken", None)
        members["_meta"] = write_members(meta)
    return write_members(members) if data else data, progress_of_call(data)


def initialize_result(said: bytes, requested: str) -> bytes:
    """What the server has said once, for a client that asks for a revision.

    An older one than the server's is granted: what is new since is in members that it passes over.
    """
    members = read_members(said)
    spoken = msgspec.json.decode(members.get("protocolVersion", b'""'), type=str)
    if requested in HANDSHAKE_REVISIONS and requested <= spoken:
        members["protocolVersion"] = msgspec.json.encode(requested)
    capabilities: Members = read_members(members.get("capabilities", b""))
    capabilities.pop("tasks", None)
    members["capabilities"] = write_members(capabilities)
    return write_members(members)


def level_of(params: bytes | Raw) -> str | None:
    """The level that `logging/setLevel` or a log message names; None if it is none of the protocol."""
    try:
        level = msgspec.json.decode(read_members(params).get("level", b"null"))
    except msgspec.DecodeError:
        return None
    return level if isinstance(level, str) and level in _RANK else None


def is_level(text: str) -> bool:
    """Is it one of the protocol?"""
    return text in _RANK


def is_as_grave(level: str | None, least: str) -> bool:
    """Does somebody who wants `least` and graver hear of this? Of an unknown level yes."""
    return level is None or _RANK[level] >= _RANK[least]


def most_verbose(levels: list[str]) -> str | None:
    """The level at which everybody gets what they asked for; None if nobody asked."""
    return min(levels, key=_RANK.__getitem__, default=None)


def covers(subscribed: str, updated: str) -> bool:
    """Is it that resource, or one inside it?"""
    if not updated.startswith(subscribed):
        return False
    return len(updated) == len(subscribed) or subscribed.endswith("/") or updated[len(subscribed)] in "/?#"
