"""Values of `Mcp-Name` and `Mcp-Param-*`: what of a body is said again in its request's head (2026-07-28).

A value that a header field cannot carry as it is (not printable ASCII, white space at its ends, or one
that looks encoded) is sent as `=?base64?…?=`. Only the canonical encoding counts: two encodings of one
value would let two readers of a request disagree.
"""

import base64
import re

__all__ = ["decode_value", "encode_value"]

_ENCODED = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_PLAIN = re.compile(r"[\x20-\x7e]*")


def encode_value(value: str) -> str:
    """As a header field carries it. Raises UnicodeEncodeError for half a character, which has no bytes."""
    if _PLAIN.fullmatch(value) and value == value.strip(" ") and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decode_value(value: str) -> str | None:
    """What a header field says; None if it is malformed, and so equal to nothing."""
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        decoded = base64.b64decode(match[1], validate=True)
        text = decoded.decode()
    except ValueError:
        return None
    return text if base64.b64encode(decoded).decode() == match[1] else None
