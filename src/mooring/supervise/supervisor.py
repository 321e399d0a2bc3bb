"""The shell around the table and the policy: it holds the state, one timer and those who wait.

Invariants:

1. There is a timer exactly in `backoff`, and never more than one.
2. Whoever is woken looks at the state again before going on. So nobody passes who was woken
   by the end of a delay and runs only after a stop, or after the next crash.
3. `retry_at` is set exactly in `backoff`, in `failed` (unless ended for good), and in the
   `starting` of the one attempt that `failed` allows; there it holds everybody else off.
4. `on_change` is the last thing a method does: what it calls back finds everything in place.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from mooring.errors import MooringError
from mooring.supervise.reasons import REFUSALS, Reason, ReasonCode
from mooring.supervise.refusals import plan_refusal
from mooring.supervise.restart import (
    GiveUp,
    RestartAfter,
    RestartHistory,
    RestartNow,
    RestartPolicy,
    Verdict,
    decide,
)
from mooring.supervise.snapshot import Snapshot, SupervisedSoFar
from mooring.supervise.states import RENEWED, Event, State, next_state

__all__ = ["Supervisor", "Timer"]

OVER = frozenset({State.STOPPING, State.STOPPED})
OBSTACLES = frozenset(
    {
        ReasonCode.PULLING,
        ReasonCode.PULL_FAILED,
        ReasonCode.ENGINE_UNREACHABLE,
        ReasonCode.UNREACHABLE,
    }
)
"""What keeps an instance from being made: over as soon as there is one."""


class Timer(Protocol):
    """What `call_later` gives back; asyncio's `TimerHandle` is one."""

    def cancel(self) -> None:
        """Do not call any more."""
        ...


class Supervisor:
    """One generation of one workload: says whether an instance may be started, and when.

    It begins in `starting`. It starts nothing itself: whoever needs an instance asks `admit`
    first and reports what became of it. `starting` needs somebody who tries, so the owner
    starts an instance on its own account when `on_change` shows `starting` and no session does.

    The back-off is one for the whole workload, and is shown as `backoff` even while other
    instances work: the state says whether a *new* instance may be started, and here it has
    to wait. Those that work go on; `Snapshot.ready` stays true for them, and the end of the
    delay leads back to `ready` instead of `starting`.
    """

    def __init__(
        self,
        policy: RestartPolicy,
        *,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Timer],
        random: Callable[[], float],
        on_change: Callable[[Snapshot], None],
        name: str = "the server",
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._call_later = call_later
        self._random = random
        self._on_change = on_change
        self._name = name
        self._state = next_state(State.STOPPED, Event.START)
        self._reason = Reason(ReasonCode.FIRST_START)
        self._failure = self._reason
        self._history = RestartHistory()
        self._restarts = 0
        self._last_exit = ""
        self._working = False
        self._retry_at: float | None = None
        self._timer: Timer | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._refuses_in_drain = False
        self._blamed: tuple[int, bool] | None = None
        """The instance whose exit counted last, and whether the back-off that runs is for that."""

    def __repr__(self) -> str:
        return f"<Supervisor {self._name}: {self._state} ({self._reason.code}), {self._restarts} restarts>"

    # What is known

    @property
    def state(self) -> State:
        """What the workload is doing."""
        return self._state

    @property
    def reason(self) -> Reason:
        """Why."""
        return self._reason

    @property
    def restarts(self) -> int:
        """How often new instances were let in after an exit or a failure; never reset."""
        return self._restarts

    @property
    def attempt(self) -> int:
        """Delayed restarts so far; 0 again after a stable minute."""
        return 0 if self._history.is_stable(self._policy, self._clock()) else self._history.delayed

    @property
    def retry_at(self) -> float | None:
        """When the next attempt is allowed, if it has to wait."""
        return self._retry_at

    @property
    def last_exit(self) -> str:
        """How the last instance that exited unasked ended."""
        return self._last_exit

    @property
    def ended_for_good(self) -> bool:
        """Failed with restart off: nothing will be tried again in this generation."""
        return self._state is State.FAILED and not self._policy.restart

    def snapshot(self) -> Snapshot:
        """All of it at once."""
        return Snapshot(
            state=self._state,
            reason=self._reason,
            restarts=self._restarts,
            attempt=self.attempt,
            attempts=self._policy.attempts,
            retry_at=self._retry_at,
            retry_in_s=None if self._retry_at is None else max(0.0, self._retry_at - self._clock()),
            last_exit=self._last_exit,
            working=self._working,
            ended_for_good=self.ended_for_good,
        )

    def dump(self) -> SupervisedSoFar:
        """What another Mooring needs to go on as it would here."""
        is_ready = self._state is State.READY or (self._state is State.BACKOFF and self._working)
        is_idle = self._reason.code is ReasonCode.IDLE
        return SupervisedSoFar(is_ready, is_idle, self._restarts, self._last_exit, self._history)

    def go_on(self, so_far: SupervisedSoFar) -> None:
        """Instead of beginning: another Mooring has come so far. Nothing has changed, so nobody is told.

        If it was not ready there, it is tried here, at once and with all that is known of its exits.
        """
        self._restarts, self._last_exit = so_far.restarts, so_far.last_exit
        self._history = so_far.history
        if so_far.is_ready:
            self._state = next_state(self._state, Event.STARTED)
            self._reason = Reason(ReasonCode.IDLE if so_far.is_idle else ReasonCode.WORKING)
            self._working = True

    # Who needs an instance

    async def admit(self) -> None:
        """Return when an instance may be started now. Cancel it freely.

        In `failed` exactly one caller passes in each `failed_retry_s`; that is the attempt. Should its
        outcome never be reported, the next caller after that span passes instead.

        Raises:
            Unavailable: failed, by the reason's own code (`refusals`); or `shutting_down`. At once,
                never after a wait that was not a back-off.
            ServerFailed: failed with restart off.
        """
        while self._state is State.BACKOFF:
            await self._wait_for_change()
        if (refusal := self.refusal()) is not None:
            raise refusal
        if self._retry_at is not None:
            self._retry()

    def refusal(self) -> MooringError | None:
        """What `admit` would raise now, if it would."""
        if self._state is State.BACKOFF or not self._is_held():
            return None
        return plan_refusal(self._name, self.snapshot(), self._failure)

    def _is_held(self) -> bool:
        if self._state in OVER or self._refuses_in_drain or self.ended_for_good:
            return True
        return self._retry_at is not None and self._clock() < self._retry_at

    def _retry(self) -> None:
        self._restarts += 1
        next_retry_at = self._clock() + self._policy.failed_retry_s
        self._retry_at = next_retry_at  # also where the state stays: the last attempt told nothing
        self._move(
            Event.RETRY_DUE, Reason(ReasonCode.RETRYING, "asked for again after it failed"), next_retry_at
        )

    async def _wait_for_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    # What became of instances

    def instance_started(self, n: int, at: float) -> None:
        """Instance `n` exists since `at`; started is not ready."""
        self._history = self._history.started(at)
        if self._reason.code is ReasonCode.IDLE:
            self.explain(Reason(ReasonCode.WORKING))
        elif self._state is State.STARTING and self._reason.code in OBSTACLES:
            self.explain(Reason(ReasonCode.RESTARTING if self._restarts else ReasonCode.FIRST_START))

    def instance_spoke(self, n: int) -> None:
        """Instance `n` has answered: the server works.

        During a back-off this does not shorten the delay, which is for instances to come.
        """
        if self._state in OVER or self.ended_for_good:
            return
        self._working = True
        self._move(Event.STARTED, Reason(ReasonCode.WORKING))

    def instance_exited(self, n: int, started_at: float, exit_text: str, *, others_working: bool) -> None:
        """Instance `n` ended and nobody had asked it to."""
        if self._state in OVER:
            return
        now = self._clock()
        counts = not self._history.is_same_incident(self._policy, now, started_at)
        self._history = self._history.exited(self._policy, now, started_at)
        self._last_exit = exit_text
        self._working = others_working
        told = f"instance {n}: {exit_text}"
        if self._state is State.FAILED:
            return
        if not counts:
            # Decided with the first exit of the incident, which others may have outlived for a moment.
            if self._state is State.READY and not others_working:
                self._move(Event.INSTANCE_LOST, Reason(ReasonCode.RESTARTING, told))
            return
        verdict = decide(self._history, now, policy=self._policy, random=self._random)
        if self._state is State.DRAINING:
            self._refuses_in_drain = self._refuses_in_drain or not isinstance(verdict, RestartNow)
            return
        was_waiting = self._state is State.BACKOFF
        is_waiting = not was_waiting and isinstance(verdict, RestartAfter)
        self._blamed = (n, is_waiting) if not isinstance(verdict, GiveUp) else None
        self._apply(verdict, now, told)

    def excuse(self, n: int) -> None:
        """That instance `n` has exited was the doing of others, as is known only now: it does not count."""
        if self._blamed is None or self._blamed[0] != n:
            return
        is_waiting = self._blamed[1] and self._state is State.BACKOFF
        self._blamed = None
        self._history = self._history.excused(is_waiting=is_waiting)
        if is_waiting:
            self._end_delay()

    def instance_taken(self, n: int, text: str, *, code: ReasonCode, others_working: bool) -> None:
        """Instance `n` is lost, through no fault of the server: that counts for no restart."""
        self._last_exit = text
        self.unusable(Reason(code, f"instance {n}: {text}"), others_working=others_working)

    def unusable(self, reason: Reason, *, others_working: bool) -> None:
        """What the server needs is gone: unless others still work, it has to show again that it does."""
        self._working = others_working
        if not others_working:
            self._move(Event.INSTANCE_LOST, reason)

    def _apply(self, verdict: Verdict, now: float, told: str) -> None:
        match verdict:
            case GiveUp(code, why):
                self._history = self._history.given_up()
                self._fail(Event.GAVE_UP, Reason(code, why), now)
            case _ if self._state is State.BACKOFF:
                pass  # the delay that runs is for the next instance, and none was made since
            case RestartAfter(delay_s, attempt, of):
                self._history = self._history.waited()
                text = f"restart {attempt} of {of} in {delay_s:.0f} s; {told}"
                self._move(Event.RESTART_DELAYED, Reason(ReasonCode.WAITING_TO_RESTART, text), now + delay_s)
            case RestartNow():
                self._restarts += 1
                if self._state is State.STARTING or not self._working:
                    self._move(Event.INSTANCE_LOST, Reason(ReasonCode.RESTARTING, told))

    def cannot_start(self, error: MooringError, *, code: ReasonCode = ReasonCode.CANNOT_START) -> None:
        """An instance could not be made, or (`INITIALIZE_FAILED`) not be used, for a reason that stays.

        Trying again by itself would not help, so only a demand does, now and then.
        """
        self._history = self._history.never_worked()
        if self._state is State.DRAINING:
            self._refuses_in_drain = True
        self._fail(Event.CANNOT_START, Reason(code, error.message, error.hint), self._clock())

    def _fail(self, event: Event, reason: Reason, now: float) -> None:
        # A failure on top of a failure does not put the next attempt off.
        retry_at = self._retry_at if self._state is State.FAILED else now + self._policy.failed_retry_s
        if reason.code in REFUSALS and self._state is not State.READY:
            # Whoever has put it right may ask at once; only those who asked in vain are held off. (So has
            # whoever found that of one that was ready.)
            retry_at = now if self._retry_at is None else self._retry_at
        self._failure = reason
        self._move(event, reason, retry_at if self._policy.restart else None)

    def idle(self) -> None:
        """It works, and nobody needs an instance now. That calls fail is not over with the last session."""
        if self._state is State.READY and self._reason.code is not ReasonCode.CALLS_FAIL:
            self.explain(Reason(ReasonCode.IDLE))

    # What was asked for

    def skip_wait(self) -> None:
        """Someone wants it now: end a back-off. In `failed`, forget what led there and start afresh."""
        if self._state is State.BACKOFF:
            self._end_delay()
        elif self._state is State.FAILED and not self.ended_for_good:
            self._history = RestartHistory()
            self._restarts += 1
            self._move(Event.RETRY_DUE, Reason(ReasonCode.RETRYING, "started by request"))

    def _end_delay(self) -> None:
        self._restarts += 1
        if self._working:
            self._move(Event.RESUMED, Reason(ReasonCode.WORKING))
        else:
            text = f"restart {self._history.delayed} of {self._policy.attempts}"
            self._move(Event.RETRY_DUE, Reason(ReasonCode.RESTARTING, text))

    def drain(self, cause: str, *, code: ReasonCode = ReasonCode.SIGNAL, is_unwanted: bool = False) -> None:
        """Shutdown begins: nothing is restarted any more.

        Sessions that still finish their calls may have an instance, so `admit` lets them pass,
        unless the server was not to be had before the drain or exits too often during it; or (`is_unwanted`)
        unless somebody has just taken an instance away, and would not want another in its place.
        """
        if next_state(self._state, Event.DRAIN) is not self._state:
            is_held = self._retry_at is not None or self._state is State.FAILED
            self._refuses_in_drain = is_unwanted or is_held
        self._move(Event.DRAIN, Reason(code, cause))

    def stop(self, cause: str = "", *, code: ReasonCode = ReasonCode.ASKED) -> None:
        """Wins in every state. After a drain, that one's reason stays."""
        reason = self._reason if self._state is State.DRAINING else Reason(code, cause)
        self._move(Event.STOP, reason)

    def stopped(self) -> None:
        """The last instance is gone."""
        reason = self._reason if self._state in (State.DRAINING, State.STOPPING) else Reason(ReasonCode.ASKED)
        self._working = False
        self._move(Event.STOPPED, reason)

    # How it changes

    def _move(self, event: Event, reason: Reason, retry_at: float | None = None) -> None:
        after = next_state(self._state, event)
        if after is self._state and (after, event) not in RENEWED:
            return
        changed = after is not self._state or reason != self._reason
        self._state, self._reason, self._retry_at = after, reason, retry_at
        self._set_timer()
        self._wake()
        if changed:
            self._on_change(self.snapshot())

    def explain(self, reason: Reason) -> None:
        """The state is the same, and there is something to say of why."""
        if reason != self._reason:
            self._reason = reason
            self._on_change(self.snapshot())

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._state is State.BACKOFF and self._retry_at is not None:
            self._timer = self._call_later(self._retry_at - self._clock(), self._end_delay)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
