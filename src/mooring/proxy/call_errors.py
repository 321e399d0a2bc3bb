"""The errors by which we answer a call ourselves, and when time alone is the reason.

`data.reason` is a stable code; `data.retryable` is true when doing the call again is known to do
no harm: it was never executed, or may be executed twice.
"""

from typing import NamedTuple

from mooring.proxy.calls import Call
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import ExitLike
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id

__all__ = [
    "Failure",
    "id_in_use",
    "out_of_order",
    "overdue",
    "session_ended",
    "too_busy",
    "too_many_calls",
    "why_dropped",
]


class Failure(NamedTuple):
    """Why a call that was taken cannot be answered by the server."""

    reason: str
    message: str
    retryable: bool = False
    exit: ExitLike | None = None

    def response(self, id: Id) -> bytes:
        """The answer."""
        data: dict[str, object] = {"reason": self.reason, "retryable": self.retryable}
        if self.exit is not None:
            data["exit"] = _exit_data(self.exit)
        return jsonrpc.error_response(id, INTERNAL_ERROR, self.message, data)


def _exit_data(exit: ExitLike) -> dict[str, object]:
    data: dict[str, object] = {"code": exit.code, "signal": exit.signal}
    return data | {"out_of_memory": True} if exit.out_of_memory else data


def overdue(call: Call, now: float, policy: SessionPolicy, *, served: bool) -> Failure | None:
    """Has a call waited too long? `served`: messages flow between the session and its instance."""
    if call.deadline is not None and now >= call.deadline:
        return Failure("timeout", f"no answer within {policy.call_timeout_s:g} s (--call-timeout)")
    if call.cancelled_at is not None and now - call.cancelled_at >= policy.cancel_wait_s:
        return Failure("cancelled", "cancelled")
    if call.method == "initialize" and now - call.since >= policy.handshake_timeout_s:
        text = f"the server did not answer initialize within {policy.handshake_timeout_s:g} s"
        return Failure("initialize_timeout", text, retryable=True)
    if not call.sent and not served and now - call.waiting_since >= policy.recovery_wait_s:
        done = "it may have been executed" if call.retried else "the call was not executed"
        text = f"the server is being restarted and was not ready in time; {done}"
        return Failure("server_unavailable", text, retryable=True)
    idle_s = policy.idle_timeout_s
    if idle_s is not None and not call.reply.heard and now - call.touched >= idle_s:
        return Failure("abandoned", "nobody waited for the answer any more")
    return None


def why_dropped(size_bytes: int, policy: SessionPolicy) -> tuple[str, str]:
    """(reason, words) for a message of a server that could not be kept whole."""
    text, limit = f"a message of {size_bytes} bytes", policy.max_message_bytes
    if size_bytes > limit:
        return "message_too_long", f"{text} is over the limit of {limit} (--max-message-bytes)"
    return "too_busy", f"{text} found no room beside those of other sessions"


def session_ended(id: Id) -> bytes:
    """The session is over."""
    return Failure("session_ended", "the session has ended").response(id)


def too_many_calls(id: Id, limit: int) -> bytes:
    """One session may not take all."""
    text = f"{limit} calls are running on this session; no more are taken"
    return Failure("too_many_calls", text, retryable=True).response(id)


def too_busy(id: Id) -> bytes:
    """All sessions together have as much under way as there is room for, and this one more than its share."""
    text = "the calls of all sessions together are too large; this one was not executed"
    return Failure("too_busy", text, retryable=True).response(id)


def id_in_use(id: Id) -> bytes:
    """Two calls with one id could not be told apart."""
    return jsonrpc.error_response(id, INVALID_REQUEST, "a call with this id is still running")


def out_of_order(id: Id, *, begun: bool) -> bytes:
    """`initialize` comes first, and once."""
    text = "already initialized" if begun else "send initialize first"
    return jsonrpc.error_response(id, INVALID_REQUEST, text)
