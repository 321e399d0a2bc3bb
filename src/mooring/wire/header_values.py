"""Values of `Mcp-Name` and `Mcp-Param-*`: what of a body is said again in its request's head (2026-07-28).

A value that a header field cannot carry as it is (empty, not printable ASCII, white space at its ends, or
one that looks encoded) is sent as `=?base64?…?=`. Only the canonical encoding counts: two encodings of
one value would let two readers of a request disagree.
"""

import base64
import re

__all__ = ["decode_value", "encode_value"]

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def encode_value(value: str) -> bytes:
    """A text as the value of a header: as it is, or in base64 if it would not come through like that."""
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value.encode("ascii")
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


def decode_value(value: str) -> str | None:
    """What a header field says; None if it is malformed, and so equal to nothing."""
    if not value.isascii():
        return None
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        decoded = base64.b64decode(match[1], validate=True)
        text = decoded.decode()
    except ValueError:
        return None
    return text if base64.b64encode(decoded).decode() == match[1] else None
