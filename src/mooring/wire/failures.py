"""The errors by which a call is answered in place of a server that is reached over HTTP.

`data.reason` is a stable code; `data.retryable` is true when doing the call again is known to do no
harm: it was never executed, or it only reads.
"""

from typing import Any, NamedTuple

from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id

__all__ = [
    "Failure",
    "already_initialized",
    "cancelled",
    "id_in_use",
    "lost",
    "shutting_down",
    "too_busy",
    "too_many_calls",
]


class Failure(NamedTuple):
    """Why a call gets an error of ours."""

    reason: str
    message: str
    retryable: bool = False
    code: int = INTERNAL_ERROR
    retry_after_s: float | None = None
    """When the server wants to be asked again, if it says so."""

    def response(self, id: Id) -> bytes:
        """The answer."""
        data: dict[str, Any] = {"reason": self.reason, "retryable": self.retryable}
        if self.retry_after_s is not None:
            data["retry_after_s"] = self.retry_after_s
        return jsonrpc.error_response(id, self.code, self.message, data)


def lost(method: str, why: str, *, reads: bool, reason: str = "connection_lost") -> Failure:
    """The call was sent, and no answer came."""
    text = f"{why}; {method} may have been executed"
    return Failure(reason, text, retryable=reads)


def cancelled(*, sent: bool) -> Failure:
    """By the client, which does not wait for the answer any more."""
    return Failure("cancelled", "cancelled" if sent else "cancelled before it was sent", retryable=not sent)


def shutting_down(cause: str, *, taken: bool) -> Failure:
    """`taken`: it was under way, and is cut off; otherwise it came too late."""
    done = "the call was not finished" if taken else "the call was not executed"
    return Failure("shutting_down", f"mooring stdio is ending ({cause}); {done}", retryable=not taken)


def too_many_calls(limit: int) -> Failure:
    """Each takes a connection."""
    text = f"{limit} calls are running; no more are taken"
    return Failure("too_many_calls", text, retryable=True)


def too_busy(limit_bytes: int) -> Failure:
    """Messages under way are held in memory."""
    text = f"the calls that are running hold over {limit_bytes} bytes; this one was not executed"
    return Failure("too_busy", text, retryable=True)


def id_in_use() -> Failure:
    """Two calls with one id could not be told apart."""
    return Failure("id_in_use", "a call with this id is still running", code=INVALID_REQUEST)


def already_initialized() -> Failure:
    """`initialize` comes once."""
    return Failure("already_initialized", "already initialized", code=INVALID_REQUEST)
