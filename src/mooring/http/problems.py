"""Answers this package gives by itself, in one shape: `{"error": {"code": …, "message": …}}`."""

import msgspec

from mooring.wire.http import Headers, Response

__all__ = ["Refusal", "problem", "too_busy"]


class Refusal(Exception):
    """The peer asked for something it does not get: becomes an answer, then a close."""

    def __init__(self, status: int, code: str, message: str, *, answer: Response | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self._answer = answer

    def response(self) -> Response:
        """What the peer is told."""
        return self._answer or problem(self.status, self.code, self.message)


def too_busy() -> Refusal:
    """All connections together have sent more than there is room for."""
    return Refusal(503, "too_busy", "too much is being sent here at the same time; try again")


def problem(
    status: int, code: str, message: str, *, hint: str = "", headers: Headers | None = None
) -> Response:
    """A short JSON answer that names what is wrong and, with `hint`, what to do about it."""
    error = {"code": code, "message": message}
    if hint:
        error["hint"] = hint
    body = msgspec.json.encode({"error": error})
    return Response(status, body, [(b"content-type", b"application/json"), *(headers or ())])
