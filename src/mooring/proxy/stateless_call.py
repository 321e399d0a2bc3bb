"""One request of revision 2026-07-28, and where its answer goes."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Raw, Struct

from mooring.proxy.call_errors import Failure
from mooring.wire.jsonrpc import (
    INTERNAL_ERROR,
    Envelope,
    error_code_of,
    error_line,
    error_response,
    result_line,
    with_id,
)
from mooring.wire.modern import ModernRequest

__all__ = ["StatelessCall", "StatelessReply"]


class StatelessReply(Protocol):
    """Where the answer to a request goes, and what comes before it."""

    @property
    def is_over(self) -> bool:
        """It was answered, or its client has gone."""
        ...

    def on_gone(self, gone: Callable[[], None]) -> None:
        """What to do when the client goes, or wants no answer any more."""
        ...

    def begin_stream(self, now: float) -> None:
        """News will come, before an answer that may be long in coming."""
        ...

    def note(self, line: bytes, now: float) -> None:
        """Something that comes before the answer."""
        ...

    def answer(self, line: bytes, code: int, now: float) -> None:
        """The answer; `code` is that of its error, 0 if it is a result."""
        ...

    def tick(self, now: float) -> None:
        """Show that somebody is there."""
        ...


class StatelessCall(Struct, eq=False):
    """Whoever serves it answers once."""

    request: ModernRequest
    reply: StatelessReply
    principal: str

    def answer(self, response: Envelope, now: float) -> None:
        """The server's own answer, under the client's id."""
        self.reply.answer(with_id(response, self.request.id), error_code_of(response), now)

    def answer_result(self, result: bytes, now: float) -> None:
        """A result."""
        self.reply.answer(result_line(self.request.id, result), 0, now)

    def answer_error(self, error: bytes | Raw, code: int, now: float) -> None:
        """An error object."""
        self.reply.answer(error_line(self.request.id, error), code, now)

    def fail(self, failure: Failure, now: float) -> None:
        """An error of ours: the server could not answer."""
        self.reply.answer(failure.response(self.request.id), INTERNAL_ERROR, now)

    def refuse(self, code: int, message: str, now: float, data: dict[str, object] | None = None) -> None:
        """An error of ours, with a code of the protocol."""
        self.reply.answer(error_response(self.request.id, code, message, data), code, now)
