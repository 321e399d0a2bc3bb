"""How a request of ours can fail, by the one question that matters: may it have been executed?

Unavailable
└── NotSent          not one byte of the request went out: it can be sent again
    ├── NoPlace      we have none to send it from, which says nothing about the server
    └── NotTrusted   we and the server do not trust each other; trying again does not help
RemoteProtocolError
└── AnswerLost       the request went out; what became of it is not known
    ├── NoAnswer     the connection ended, or time ran out, before the head of an answer
    ├── AnswerCut    the answer broke off
    └── BadAnswer    what came back is not HTTP as we know it
"""

from mooring.errors import RemoteProtocolError, Unavailable

__all__ = ["AnswerCut", "AnswerLost", "BadAnswer", "NoAnswer", "NoPlace", "NotSent", "NotTrusted"]


class NotSent(Unavailable):
    """Nothing was sent."""

    def __init__(self, message: str, *, code: str = "not_reachable", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)


class NoPlace(NotSent):
    """It is we who have no connection left for it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, code="too_busy", hint=hint)


class NotTrusted(NotSent):
    """The TLS handshake failed: nothing was sent, and nothing will be."""

    def __init__(self, message: str, *, code: str = "not_trusted", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)


class AnswerLost(RemoteProtocolError):
    """The request was sent, at least in part; it may have been executed."""

    is_clean = False
    """The server has closed the connection in order: whatever it had said would have come before that."""

    def __init__(self, message: str, *, code: str = "answer_lost", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)


class NoAnswer(AnswerLost):
    """No head of an answer came."""


class AnswerCut(AnswerLost):
    """A head came, but not the whole body."""


class BadAnswer(AnswerLost):
    """Not HTTP/1.1, or in a form that nobody asked for."""
