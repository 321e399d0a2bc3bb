"""When may an instance be started after one has exited? Pure: no clock, no timers, no dice.

Rules, in the order in which `decide` asks them:

1. Restart is off: give up.
2. Once given up, every further exit gives up again, until a stable minute.
3. More than 10 exits in 10 minutes are a crash loop: give up.
4. Up to three exits a minute: restart at once. This credit does not come back while delayed
   restarts go on, or the 40 s and 60 s delays would outlive the window and restart the ladder.
5. Ten delayed restarts did not help: give up.
6. Restart after 5, 10, 20, 40, then always 60 s. Jitter only adds, 0–10 %.

What counts as an exit is said by `RestartHistory`: exits from one cause count once, and a
stable minute makes all that went before forgotten.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from mooring.supervise.reasons import ReasonCode

__all__ = ["GiveUp", "RestartAfter", "RestartHistory", "RestartNow", "RestartPolicy", "Verdict", "decide"]


class RestartPolicy(Struct, frozen=True):
    """The numbers of the rules above."""

    restart: bool = True
    immediate: int = 3
    immediate_window_s: float = 60.0
    delays_s: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0, 60.0)
    jitter: float = 0.1
    attempts: int = 10
    max_exits: int = 10
    max_exits_window_s: float = 600.0
    stable_s: float = 60.0
    incident_s: float = 1.0
    """An OOM kill or `pkill` takes every session's instance at once: one incident, not fifty."""
    failed_retry_s: float = 60.0
    """In `failed`: the least time between two attempts, each of which needs a demand."""


class RestartHistory(Struct, frozen=True):
    """What the policy has to remember of one workload; never more than its limits need."""

    exits: tuple[float, ...] = ()
    """Moments of the latest incidents, oldest first."""
    delayed: int = 0
    gave_up: bool = False
    last_exit: float | None = None
    """Of any instance, whether it counted or not."""
    first_start: float | None = None
    """The first since `last_exit`: a workload that new sessions keep starting can be stable too."""

    def started(self, at: float) -> "RestartHistory":
        """An instance was started."""
        return self if self.first_start is not None else replace(self, first_start=at)

    def never_worked(self) -> "RestartHistory":
        """What was started could not be used: its time is not stability."""
        return replace(self, first_start=None)

    def waited(self) -> "RestartHistory":
        """A delayed restart was decided."""
        return replace(self, delayed=self.delayed + 1)

    def given_up(self) -> "RestartHistory":
        """No restart was allowed."""
        return replace(self, gave_up=True)

    def is_same_incident(self, policy: RestartPolicy, at: float, started_at: float) -> bool:
        """Does an exit share its cause with the last one that counted?

        Only if the instance ran already when that one exited: a replacement that dies
        within the second is a failure of its own.
        """
        return bool(self.exits) and started_at < self.exits[-1] and at - self.exits[-1] <= policy.incident_s

    def is_stable(self, policy: RestartPolicy, at: float, started_at: float | None = None) -> bool:
        """Has something run for a stable minute without an exit?

        `started_at` is the start of an instance known to have run until `at`.
        """
        starts = [start for start in (self.first_start, started_at) if start is not None]
        if not starts:
            return False
        since = min(starts) if self.last_exit is None else max(min(starts), self.last_exit)
        return at - since >= policy.stable_s

    def exited(self, policy: RestartPolicy, at: float, started_at: float) -> "RestartHistory":
        """An instance exited unasked."""
        if self.is_same_incident(policy, at, started_at):
            return replace(self, last_exit=at, first_start=None)
        before = RestartHistory() if self.is_stable(policy, at, started_at) else self
        limit = max(policy.max_exits, policy.immediate) + 1
        return replace(before, exits=(*before.exits, at)[-limit:], last_exit=at, first_start=None)

    def excused(self, *, is_waiting: bool) -> "RestartHistory":
        """The last incident was none. `is_waiting`: a delayed restart was decided for it."""
        return replace(self, exits=self.exits[:-1], delayed=self.delayed - is_waiting)

    def exits_within(self, window_s: float, now: float) -> int:
        """Incidents in the last `window_s` seconds, as far as they are remembered."""
        return sum(now - at < window_s for at in self.exits)


class RestartNow(Struct, frozen=True):
    """An instance may be started at once."""


class RestartAfter(Struct, frozen=True):
    """An instance may be started in `delay_s`; this is delayed restart `attempt` of `of`."""

    delay_s: float
    attempt: int
    of: int


class GiveUp(Struct, frozen=True):
    """No restart."""

    reason: ReasonCode
    text: str


Verdict = RestartNow | RestartAfter | GiveUp


def decide(
    history: RestartHistory, now: float, *, policy: RestartPolicy, random: Callable[[], float]
) -> Verdict:
    """What follows from the last exit in `history`, which happened `now`. `random` gives 0 ≤ x < 1."""
    if not policy.restart:  # 1
        return GiveUp(ReasonCode.SERVER_EXITED, "it exited, and restart is off")
    if history.gave_up:  # 2
        return GiveUp(ReasonCode.CRASH_LOOP, f"it did not last {policy.stable_s:g} s when tried again")
    if history.exits_within(policy.max_exits_window_s, now) > policy.max_exits:  # 3
        text = f"more than {policy.max_exits} exits in {policy.max_exits_window_s / 60:g} minutes"
        return GiveUp(ReasonCode.CRASH_LOOP, text)
    if history.delayed == 0 and history.exits_within(policy.immediate_window_s, now) <= policy.immediate:  # 4
        return RestartNow()
    if history.delayed >= policy.attempts:  # 5
        return GiveUp(ReasonCode.CRASH_LOOP, f"{history.delayed} delayed restarts did not help")
    delay_s = policy.delays_s[min(history.delayed, len(policy.delays_s) - 1)]  # 6
    return RestartAfter(delay_s * (1 + policy.jitter * random()), history.delayed + 1, policy.attempts)
