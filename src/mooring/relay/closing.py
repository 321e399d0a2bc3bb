"""The codes with which a link is closed (docs/relay-protocol.md)."""

__all__ = [
    "BAD_TOKEN",
    "CODES",
    "FAILED",
    "GOING_AWAY",
    "MALFORMED",
    "NAME_HELD",
    "NORMAL",
    "NOT_ALLOWED",
    "NO_SUCH_SERVER",
    "PROTOCOL_ERROR",
    "RESTARTING",
    "TOO_LARGE",
    "TOO_MANY",
    "sayable",
]

NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
TOO_LARGE = 1009
FAILED = 1011
RESTARTING = 1012
BAD_TOKEN = 4401
NOT_ALLOWED = 4403
NO_SUCH_SERVER = 4404
NAME_HELD = 4409
TOO_MANY = 4429

TOO_SLOW = 1008
"""Of a message that did not become whole."""

MALFORMED = frozenset({PROTOCOL_ERROR, 1003, 1007, TOO_LARGE})
"""Whoever is closed with one of these has broken the rules: what it said before is not to be relied on."""

CODES = MALFORMED | {
    NORMAL,
    GOING_AWAY,
    TOO_SLOW,
    FAILED,
    RESTARTING,
    BAD_TOKEN,
    NOT_ALLOWED,
    NO_SUCH_SERVER,
    NAME_HELD,
    TOO_MANY,
}
"""All that this end says."""

_SAYABLE = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})


def sayable(code: int, otherwise: int = FAILED) -> int:
    """The same code, if one may say it (RFC 6455 §7.4): some only tell what became of a connection."""
    return code if code in _SAYABLE else otherwise
