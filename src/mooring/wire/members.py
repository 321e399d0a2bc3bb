"""The members of a JSON object, each as the bytes it came in.

To add, change or take away one member of `params` or of a result without touching the others: what is
not read is not re-encoded, so 64-bit integers, odd Unicode and future fields survive.
"""

import msgspec
from msgspec import Raw

from mooring.wire.surrogates import MALFORMED, readable_copy

__all__ = ["Members", "has_escapes", "read_members", "with_member_in_front", "with_meta", "write_members"]

Members = dict[str, bytes]
"""Name → value, as JSON; of a name that comes twice the last one counts, as nearly everywhere."""

_BACKSLASH = ord("\\")

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode


def read_members(data: bytes | Raw) -> Members:
    """Take an object apart; nothing at all counts as an empty one. Raises msgspec.DecodeError."""
    if not data:
        return {}
    try:
        return {name: bytes(value) for name, value in _decode(data).items()}
    except msgspec.ValidationError:
        raise
    except MALFORMED as error:
        copy = readable_copy(bytes(data))
        if copy is None:
            raise msgspec.DecodeError(str(error)) from None
    try:
        return {name: copy.restore(bytes(value)) for name, value in _decode(copy.data).items()}
    except MALFORMED as error:
        raise msgspec.DecodeError(str(error)) from None


def has_escapes(data: bytes) -> bool:
    """May a name in it be written with other letters than it reads? Then only taking it apart tells."""
    return _BACKSLASH in data and data.find(b"\\u") >= 0


def write_members(members: Members) -> bytes:
    """The object again."""
    return b"{%b}" % b",".join([b"%b:%b" % (_encode(name), value) for name, value in members.items()])


def with_member_in_front(data: bytes, member: bytes) -> bytes:
    """The object with one more member, `"name":value`, which it must not have; it is not taken apart."""
    rest = data[1:].lstrip()
    return b"{%b%b%b" % (member, b"" if rest[:1] == b"}" else b",", rest)


def with_meta(data: bytes | Raw, key: str, value: bytes) -> bytes:
    """The object with one more member in its `_meta`. Raises msgspec.DecodeError."""
    members = read_members(data)
    meta = read_members(members.get("_meta", b""))
    meta[key] = value
    members["_meta"] = write_members(meta)
    return write_members(members)
