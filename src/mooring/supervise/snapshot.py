"""What is known of a workload at one moment, for `/readyz`, `ls` and logs."""

from msgspec import Struct

from mooring.supervise.reasons import Reason
from mooring.supervise.restart import RestartHistory
from mooring.supervise.states import State

__all__ = ["Snapshot", "SupervisedSoFar"]


class Snapshot(Struct, frozen=True):
    """Moments are on the supervisor's clock; `retry_in_s` is for everybody else."""

    state: State
    reason: Reason
    restarts: int
    """How often new instances were let in after an exit or a failure; never reset."""
    attempt: int
    """Delayed restarts so far, of `attempts`; 0 again after a stable minute."""
    attempts: int
    retry_at: float | None
    """When the next attempt is allowed: the end of a delay, or of the minute in `failed`."""
    retry_in_s: float | None
    last_exit: str
    working: bool
    """An instance has answered since the last exit that left none working."""
    ended_for_good: bool
    """Failed with restart off: nothing will be tried again in this generation."""

    @property
    def ready(self) -> bool:
        """Is it worth sending requests here?

        Yes in a back-off that other instances outlived: their sessions are served, and a
        balancer that looked away would cut them because of one that crashes.
        """
        return self.state is State.READY or (self.state is State.BACKOFF and self.working)


class SupervisedSoFar(Struct, frozen=True):
    """What goes to another Mooring that supervises the same generation from now on."""

    is_ready: bool
    is_idle: bool
    restarts: int
    last_exit: str
    history: RestartHistory
    """Moments are by the system's monotonic clock, which all processes share."""
