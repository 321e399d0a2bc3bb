"""Which header fields go on to the other side, and which are between two neighbours only. Pure."""

import re

from mooring.relay.words import Opening
from mooring.wire.http import HOP_BY_HOP, Headers

__all__ = ["PATHS", "answer_fields", "is_one_request", "request_fields"]

PATHS = frozenset({"mcp", "sse", "messages", "ws"})
"""What a server has; see the URL map of the architecture."""

# The relay has judged these; the workstation's own server is asked by the agent, as whom the relay says.
_JUDGED = frozenset(
    {
        b"accept-encoding",
        b"authorization",
        b"cookie",
        b"expect",
        b"forwarded",
        b"host",
        b"origin",
        b"referer",
        b"x-real-ip",
    }
)
_OURS = (b"mooring-", b"sec-", b"x-forwarded-")
_RESPONSE_ONLY = frozenset({b"date", b"server", b"set-cookie", b"strict-transport-security"})

_METHOD = re.compile("[A-Z]+")
_VISIBLE = re.compile("[!-~]*")
_FIELD_NAME = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile("[\t -~\x80-\xff]*")


def is_one_request(opening: Opening) -> bool:
    """Can it be asked in the words of HTTP? A line end somewhere in it would make two requests of one."""
    return (
        _METHOD.fullmatch(opening.method) is not None
        and _VISIBLE.fullmatch(opening.query) is not None
        and _VISIBLE.fullmatch(opening.caller) is not None
        and all(
            _FIELD_NAME.fullmatch(name) and _FIELD_VALUE.fullmatch(text) for name, text in opening.headers
        )
    )


def request_fields(headers: Headers) -> Headers:
    """Of a caller's request: what its server may see."""
    return [
        (name, value)
        for name, value in headers
        if name not in HOP_BY_HOP and name not in _JUDGED and not name.startswith(_OURS)
    ]


def answer_fields(headers: Headers) -> Headers:
    """Of a server's answer: what its caller may see."""
    return [
        (name, value)
        for name, value in headers
        if name not in HOP_BY_HOP
        and name not in _RESPONSE_ONLY
        and not name.startswith((b"mooring-", b"sec-"))
    ]
