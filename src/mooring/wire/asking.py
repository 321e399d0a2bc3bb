"""What a server may ask of a client, and what the client must have declared for that."""

import msgspec
from msgspec import Raw

from mooring.wire.members import Members, read_members

__all__ = ["Required", "has_declared", "required_for"]

Required = dict[str, dict[str, dict[str, object]]]
"""Capabilities, as a client declares them."""
PAGES: Required = {"elicitation": {"url": {}}}
"""To be sent to a web page."""
_NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def required_for(method: str, params: bytes | Raw = b"") -> Required:
    """What such a request needs; nothing if it is of no kind that is known."""
    name = _NEEDS.get(method)
    if name is None:
        return {}
    return PAGES if name == "elicitation" and _is_page(params) else {name: {}}


def has_declared(declared: Members, required: Required) -> bool:
    """Has a client declared all that? An `elicitation` without kinds is one of forms."""
    return all(
        name in declared and (not kinds or kinds.keys() <= _kinds(declared[name]))
        for name, kinds in required.items()
    )


def _kinds(capability: bytes) -> set[str]:
    try:
        return set(read_members(capability))
    except msgspec.DecodeError:
        return set()


def _is_page(params: bytes | Raw) -> bool:
    try:
        return read_members(params).get("mode") == b'"url"'
    except msgspec.DecodeError:
        return False
