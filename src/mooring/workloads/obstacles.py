"""What keeps a workload from having instances, or those from answering, through no fault of the server.

The system has nothing left to start one with; its container engine does not answer; its image is still being
pulled, or cannot be just now; somebody has paused a container; the server is elsewhere, and cannot be
reached, or does not answer as it should. None of it counts as a failure: it is said in the reason of the
workload's state, and where nothing tells when it is over, we look again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.errors import MooringError, Unavailable
from mooring.supervise.reasons import Reason, ReasonCode
from mooring.supervise.states import State
from mooring.supervise.supervisor import Supervisor
from mooring.wire.failures import Failure
from mooring.workloads.makers import Instance

if TYPE_CHECKING:
    from mooring.runtimes.containers.pulling import Progress

__all__ = ["LOOK_AGAIN_S", "Obstacles"]

log = logging.getLogger("mooring.workload")

LOOK_AGAIN_S = 1.0
"""After an instance could not be made, while nobody else tries."""
TROUBLE_S = 1.0
"""So long nobody else is let run into the trouble that a server elsewhere was just in."""
TROUBLE_AGAIN_S, LONGEST_TROUBLE_S = 5.0, 60.0
"""Before we look again by ourselves, more and more seldom; a call does it sooner."""
PROGRESS_S = 0.1
"""Between two reports of a pull."""
MB = 1_000_000
REASONS = {
    "engine_unreachable": ReasonCode.ENGINE_UNREACHABLE,
    "pull_failed": ReasonCode.PULL_FAILED,
    "unreachable": ReasonCode.UNREACHABLE,
}


class Obstacles:
    """Of one workload. `try_again`: somebody should see whether an instance can be made now."""

    def __init__(self, name: str, supervisor: Supervisor, try_again: Callable[[], None]) -> None:
        self._name = name
        self._supervisor = supervisor
        self._try_again = try_again
        self._look_again: asyncio.TimerHandle | None = None
        self._told = ""
        self._paused: set[Instance] = set()
        self._trouble: Unavailable | None = None
        self._trouble_until = 0.0
        self._troubles = 0
        """In a row."""
        self._failing = ""
        """Why calls fail, as the log has it."""
        self._progress_at = 0.0
        self._layers_done = -1

    def close(self) -> None:
        """Nothing is tried any more."""
        if self._look_again is not None:
            self._look_again.cancel()

    # Instances that cannot be made

    def met(self, error: Unavailable) -> None:
        """One could not be made, for now: look again, as nothing may tell when that is over."""
        if error.code == "shutting_down":
            return
        if self._look_again is None:
            wait_s = error.retry_after_s or LOOK_AGAIN_S
            self._look_again = asyncio.get_running_loop().call_later(wait_s, self._look)
        self._explain(error)

    def in_trouble(self, failure: Failure) -> None:
        """An instance could be had, but what answered in place of the server was this."""
        error = Unavailable(f"{self._name}: {failure.message}", code=failure.reason)
        loop = asyncio.get_running_loop()
        self._trouble, self._trouble_until = error, loop.time() + TROUBLE_S
        self._troubles += 1
        if self._look_again is None:
            wait_s = min(TROUBLE_AGAIN_S * 2 ** min(self._troubles - 1, 10), LONGEST_TROUBLE_S)
            self._look_again = loop.call_later(wait_s, self._look)
        self._explain(error, ReasonCode.UNREACHABLE)

    @property
    def trouble(self) -> Unavailable | None:
        """What another attempt would meet, as one did a moment ago."""
        is_fresh = asyncio.get_running_loop().time() < self._trouble_until
        return self._trouble if is_fresh else None

    @property
    def is_waiting(self) -> bool:
        """It is known when somebody looks again."""
        return self._look_again is not None

    def none(self) -> None:
        """One works."""
        self._told, self._troubles, self._trouble = "", 0, None

    def on_engine(self, trouble: MooringError | None, *, others_working: bool) -> None:
        """What instances run in does not answer any more, or (None) answers again."""
        if trouble is None:
            self._look()
        elif self._supervisor.state is State.READY:
            code = REASONS.get(trouble.code, ReasonCode.ENGINE_UNREACHABLE)
            reason = Reason(code, trouble.message, trouble.hint)
            self._supervisor.unusable(reason, others_working=others_working)
        else:
            self._explain(trouble)

    def on_progress(self, progress: "Progress") -> None:
        """An image is being pulled."""
        now = asyncio.get_running_loop().time()
        is_done = progress.layers_done == progress.layers
        if self._supervisor.state is State.STARTING and (is_done or now - self._progress_at >= PROGRESS_S):
            self._progress_at = now
            self._supervisor.explain(Reason(ReasonCode.PULLING, pull_in_words(progress)))
        if progress.layers_done != self._layers_done:
            self._layers_done = progress.layers_done
            about = {"event": "pulling", "server": self._name}
            log.info("%s: %s", self._name, pull_in_words(progress), extra=about)

    def _explain(self, error: MooringError, code: ReasonCode | None = None) -> None:
        """In the log once, until an instance works."""
        if error.message != self._told:
            self._told = error.message
            hint = f" ({error.hint})" if error.hint else ""
            log.warning("%s%s", error.message, hint, extra={"event": error.code, "server": self._name})
        code = code or REASONS.get(error.code)
        if self._supervisor.state is State.STARTING and code is not None:
            self._supervisor.explain(Reason(code, error.message, error.hint))

    def _look(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None
        self._trouble = None
        self._try_again()

    # Servers elsewhere that do not answer as they should

    def on_trouble(self, failure: Failure | None) -> None:
        """A call was answered by us, for this reason; or (None) by the server."""
        if self._supervisor.state is not State.READY:
            return
        known, about = self._supervisor.reason, {"event": "calls_fail", "server": self._name}
        if failure is not None:
            if known.code is not ReasonCode.CALLS_FAIL or failure.reason != self._failing:
                self._failing = failure.reason
                log.warning("%s: calls fail: %s", self._name, failure.message, extra=about)
            self._supervisor.explain(Reason(ReasonCode.CALLS_FAIL, failure.message))
        elif known.code is ReasonCode.CALLS_FAIL:
            log.info("%s: calls are answered again", self._name, extra={**about, "event": "calls_answered"})
            self._supervisor.explain(Reason(ReasonCode.WORKING))
            self._tell_paused()

    # Instances that do not answer because somebody wants it so

    def on_paused(self, instance: Instance, paused: bool) -> None:
        """Somebody has paused it, or lets it go on."""
        (self._paused.add if paused else self._paused.discard)(instance)
        self._tell_paused()

    def on_gone(self, instance: Instance) -> None:
        """It is no more."""
        if instance in self._paused:
            self._paused.remove(instance)
            self._tell_paused()

    def _tell_paused(self) -> None:
        if self._supervisor.state is not State.READY:
            return
        if self._paused:
            which = ", ".join(sorted(instance.title for instance in self._paused))
            text = f"{which}: paused by somebody, calls wait"
            hint = f"unpause it where it was paused, or: mooring restart {self._name}"
            self._supervisor.explain(Reason(ReasonCode.PAUSED, text, hint))
        elif self._supervisor.reason.code is ReasonCode.PAUSED:
            self._supervisor.explain(Reason(ReasonCode.WORKING))


def pull_in_words(progress: "Progress") -> str:
    """How far it is, for people."""
    text = f"pulling {progress.image}"
    if progress.layers:
        text += f": {progress.layers_done} of {progress.layers} layers"
    if progress.bytes_total:
        text += f", {progress.bytes / MB:.0f} of {progress.bytes_total / MB:.0f} MB"
    return text
