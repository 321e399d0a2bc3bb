"""What becomes of a call whose instance has died: it is sent again, or its client is told.

Not one byte of it read: not executed, so it goes to the next instance. Else only if it may be
repeated and the operator allowed that, and once.
"""

from mooring.proxy.call_errors import Failure
from mooring.proxy.calls import Call
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import ExitLike
from mooring.wire.memory import Memory

__all__ = ["lost", "may_send_again"]


def may_send_again(call: Call, consumed: int, policy: SessionPolicy, memory: Memory) -> bool:
    """Was not one byte of it read; or may it be repeated, and has not been?

    Not one byte: a server may act on a message as soon as its last brace is there.
    """
    if call.method == "initialize":
        # Once, for a spare that died as it was taken; of a server that cannot start we tell at once.
        again, call.retried = call.position >= consumed and not call.retried, True
        return again
    if call.position >= consumed:
        return True
    if not policy.retry or call.retried:
        return False
    call.retried = memory.may_repeat(call.method, call.params)
    return call.retried


def lost(call: Call, exit: ExitLike, memory: Memory) -> Failure:
    """The error of a call that was with the instance."""
    if call.cancelled_at is not None:
        return Failure("cancelled", f"cancelled; the server ended ({exit}) meanwhile")
    retryable = memory.may_repeat(call.method, call.params)
    text = f"the server ended ({exit}) while it was handling {call.method}; it may have been executed"
    return Failure(exit.reason, text, retryable=retryable, exit=exit)
