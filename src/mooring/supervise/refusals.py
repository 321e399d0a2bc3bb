"""What someone who needs an instance is told when there is none to be had."""

from mooring.errors import MooringError, ServerFailed, Unavailable
from mooring.supervise.reasons import REFUSALS, Reason, ReasonCode
from mooring.supervise.snapshot import Snapshot
from mooring.supervise.states import State

__all__ = ["plan_refusal"]

CODES: dict[ReasonCode, str] = {
    ReasonCode.CANNOT_START: "cannot_start",
    ReasonCode.INITIALIZE_FAILED: "initialize_failed",
}
"""Told apart from a server that ran and crashed: here the configuration is to be looked at."""

REFUSAL_OUTCOME_S = 1.0
"""Of one elsewhere that is asked again: it need not start."""
OUTCOME_S = 5.0
"""While an attempt is under way, its outcome is worth asking for well before the minute is over."""


def plan_refusal(name: str, seen: Snapshot, failure: Reason) -> MooringError:
    """The error for a workload that `seen` shows as failed, in its one attempt, or on its way out.

    `failure` says why it failed; during the attempt `seen` has a reason of its own.
    """
    if seen.state in (State.DRAINING, State.STOPPING, State.STOPPED):
        return Unavailable(f"{name} is {seen.state}: no instance is started any more", code="shutting_down")
    if failure.code in REFUSALS:
        return _plan_of_refused(name, seen, failure)
    message = f"{name} has failed: {failure.text}"
    if failure.code not in CODES:
        message += f"; last exit: {seen.last_exit}"
    code = CODES.get(failure.code, "server_failed")
    if seen.ended_for_good:
        return ServerFailed(message, code=code, hint=failure.hint)
    retry_after_s = seen.retry_in_s
    if seen.state is State.STARTING and retry_after_s is not None:
        message += "; an attempt to start it again is under way"
        retry_after_s = min(retry_after_s, OUTCOME_S)
    return Unavailable(message, code=code, hint=failure.hint, retry_after_s=retry_after_s)


def _plan_of_refused(name: str, seen: Snapshot, failure: Reason) -> MooringError:
    """Nothing there asks anybody to wait: only while another attempt is under way is that worth it."""
    message, code = f"{name}: {failure.text}", str(failure.code)
    if seen.ended_for_good:
        return ServerFailed(message, code=code, hint=failure.hint)
    after_s = REFUSAL_OUTCOME_S if seen.state is State.STARTING else None
    return Unavailable(message, code=code, hint=failure.hint, retry_after_s=after_s)
