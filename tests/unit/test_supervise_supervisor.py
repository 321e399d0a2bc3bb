"""The supervisor on a clock that stands still until told otherwise. Nothing sleeps."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.errors import MooringError, ServerFailed, Unavailable
from mooring.supervise import Reason, ReasonCode, RestartPolicy, Snapshot, State, Supervisor


@dataclass(eq=False)
class FakeTimer:
    due: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class FakeTime:
    """A clock and its timers; `timers` are those that will still ring."""

    now: float = 1000.0
    all_timers: list[FakeTimer] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now + delay_s, callback)
        self.all_timers.append(timer)
        return timer

    @property
    def timers(self) -> list[FakeTimer]:
        return [timer for timer in self.all_timers if not timer.cancelled]

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while ringing := sorted((t for t in self.timers if t.due <= end), key=lambda t: t.due):
            timer = ringing[0]
            self.now = max(self.now, timer.due)
            self.all_timers.remove(timer)
            timer.callback()
        self.now = end


class Rig:
    """A supervisor, its time, what it told, and instances that come and go."""

    def __init__(self, policy: RestartPolicy | None = None, dice: float = 0.0) -> None:
        self.time = FakeTime()
        self.told: list[Snapshot] = []
        self.instances = 0
        self.it = Supervisor(
            policy or RestartPolicy(),
            clock=self.time,
            call_later=self.time.call_later,
            random=lambda: dice,
            on_change=self.told.append,
            name="weather",
        )

    def start(self) -> tuple[int, float]:
        self.instances += 1
        self.it.instance_started(self.instances, self.time.now)
        return self.instances, self.time.now

    def spoke(self) -> tuple[int, float]:
        n, at = self.start()
        self.it.instance_spoke(n)
        return n, at

    def exit(self, instance: tuple[int, float], text: str = "exit status 1", *, others: bool = False) -> None:
        self.it.instance_exited(*instance, text, others_working=others)

    def crash(self, times: int = 1, *, after_s: float = 0.0, others: bool = False) -> None:
        for _ in range(times):
            instance = self.start()
            self.time.advance(after_s)
            self.exit(instance, others=others)

    def fail(self) -> None:
        """Crash it until it is given up."""
        while self.it.state is not State.FAILED:
            if self.it.state is State.BACKOFF:
                self.time.advance(60.0)
            self.crash()

    def shows(self, state: State) -> bool:
        """A question rather than a comparison: the type checker takes a property for a constant."""
        return self.it.state is state

    @property
    def states(self) -> list[State]:
        return [snapshot.state for snapshot in self.told]


async def turn() -> None:
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def asking(what: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    task = asyncio.create_task(what)
    await turn()
    return task


async def refused(rig: Rig) -> MooringError:
    with pytest.raises(MooringError) as caught:
        await rig.it.admit()
    return caught.value


# Starting, ready, losing


async def test_it_begins_in_starting_and_admits_at_once() -> None:
    rig = Rig()
    assert rig.shows(State.STARTING)
    assert rig.it.reason == Reason(ReasonCode.FIRST_START)
    await rig.it.admit()
    assert rig.told == []


async def test_started_is_not_ready_but_spoken_is() -> None:
    rig = Rig()
    n, _ = rig.start()
    assert rig.shows(State.STARTING)
    assert not rig.it.snapshot().ready
    rig.it.instance_spoke(n)
    assert rig.shows(State.READY)
    assert rig.it.snapshot().ready
    await rig.it.admit()


def test_every_change_is_told_once_after_it_is_made() -> None:
    rig = Rig()
    rig.spoke()
    rig.spoke()
    assert [(s.state, s.reason.code) for s in rig.told] == [(State.READY, ReasonCode.WORKING)]
    assert rig.told[-1] == rig.it.snapshot()


def test_the_exit_of_the_only_one_leads_back_to_starting() -> None:
    rig = Rig()
    rig.exit(rig.spoke(), "killed by SIGKILL")
    assert rig.shows(State.STARTING)
    assert rig.it.reason == Reason(ReasonCode.RESTARTING, "instance 1: killed by SIGKILL")
    assert rig.it.last_exit == "killed by SIGKILL"
    assert rig.it.restarts == 1
    assert rig.states == [State.READY, State.STARTING]


def test_it_stays_ready_while_others_work() -> None:
    rig = Rig()
    first, _ = rig.spoke(), rig.spoke()
    rig.exit(first, others=True)
    assert rig.states == [State.READY]
    assert (rig.it.restarts, rig.it.last_exit) == (1, "exit status 1")


def test_an_exit_while_starting_renews_the_reason() -> None:
    rig = Rig()
    rig.crash()
    assert rig.shows(State.STARTING)
    assert [s.reason.code for s in rig.told] == [ReasonCode.RESTARTING]
    rig.crash()
    assert [s.reason.text for s in rig.told] == ["instance 1: exit status 1", "instance 2: exit status 1"]


def test_fifty_exits_at_once_are_one_restart_and_the_last_loses_readiness() -> None:
    rig = Rig()
    instances = [rig.spoke() for _ in range(50)]
    rig.time.advance(10)
    for i, instance in enumerate(instances):
        rig.time.advance(0.01)
        rig.exit(instance, others=i < 49)
    assert rig.it.restarts == 1
    assert rig.states == [State.READY, State.STARTING]
    assert rig.time.timers == []


def test_exits_of_one_incident_in_starting_or_backoff_change_nothing() -> None:
    rig = Rig()
    old = [rig.start() for _ in range(3)]
    rig.time.advance(1)
    rig.crash(3)
    rig.exit(old[0])
    assert rig.shows(State.STARTING)
    rig.crash()
    told = len(rig.told)
    rig.exit(old[1])
    assert rig.shows(State.BACKOFF)
    assert len(rig.told) == told


# Back-off


async def test_the_fourth_exit_in_a_minute_backs_off_and_waiters_go_on_when_it_is_over() -> None:
    rig = Rig()
    rig.crash(4)
    assert rig.shows(State.BACKOFF)
    assert rig.it.reason.code is ReasonCode.WAITING_TO_RESTART
    assert rig.it.reason.text == "restart 1 of 10 in 5 s; instance 4: exit status 1"
    assert (rig.it.attempt, rig.it.retry_at, rig.it.restarts) == (1, 1005.0, 3)
    assert rig.it.snapshot().retry_in_s == 5.0
    waiters = [await asking(rig.it.admit()) for _ in range(20)]
    rig.time.advance(4.99)
    await turn()
    assert not any(waiter.done() for waiter in waiters)
    rig.time.advance(0.01)
    await asyncio.gather(*waiters)
    assert rig.shows(State.STARTING)
    assert rig.it.reason == Reason(ReasonCode.RESTARTING, "restart 1 of 10")
    assert (rig.it.retry_at, rig.it.restarts) == (None, 4)


def test_the_ladder_on_the_wall() -> None:
    rig = Rig(RestartPolicy(max_exits=1000), dice=1.0)
    rig.crash(3)
    delays = []
    while True:
        rig.crash()
        if rig.shows(State.FAILED):
            break
        assert rig.it.retry_at is not None
        delays.append(rig.it.retry_at - rig.time.now)
        assert len(rig.time.timers) == 1
        rig.time.advance(100)
    assert delays == [pytest.approx(s * 1.1) for s in (5, 10, 20, 40, 60, 60, 60, 60, 60, 60)]
    assert rig.it.attempt == 10


async def test_a_waiter_may_leave_and_the_others_stay() -> None:
    rig = Rig()
    rig.crash(4)
    leaver, stayer = await asking(rig.it.admit()), await asking(rig.it.admit())
    leaver.cancel()
    await turn()
    assert leaver.cancelled()
    late = await asking(rig.it.admit())
    late.cancel()  # and one that has not run since it was cancelled, when it is woken
    rig.time.advance(5)
    await stayer
    await turn()
    assert late.cancelled()


async def test_who_is_woken_looks_again_before_going_on() -> None:
    rig = Rig()
    rig.crash(4)
    waiter = await asking(rig.it.admit())
    rig.time.advance(5)  # woken, but it has not run
    rig.crash()
    assert rig.shows(State.BACKOFF)
    await turn()
    assert not waiter.done()
    rig.time.advance(5)
    rig.time.advance(5)
    rig.it.stop()  # woken again, and stopped before it ran
    with pytest.raises(Unavailable) as caught:
        await waiter
    assert caught.value.code == "shutting_down"


async def test_backoff_is_for_all_new_instances_while_others_work() -> None:
    rig = Rig()
    rig.spoke()
    rig.time.advance(1)
    rig.crash(4, others=True)
    assert rig.shows(State.BACKOFF)
    assert rig.it.snapshot().working
    assert rig.it.snapshot().ready
    waiter = await asking(rig.it.admit())
    assert not waiter.done()
    rig.time.advance(5)
    assert rig.shows(State.READY)
    await waiter


def test_backoff_with_nobody_working_is_not_ready() -> None:
    rig = Rig()
    rig.crash(4)
    assert not rig.it.snapshot().ready


def test_an_old_instance_that_answers_in_backoff_does_not_shorten_it() -> None:
    rig = Rig()
    n, _ = rig.start()
    rig.time.advance(1)
    rig.crash(4)
    rig.it.instance_spoke(n)
    assert rig.shows(State.BACKOFF)
    rig.time.advance(5)
    assert rig.shows(State.READY)


def test_the_exit_of_an_old_instance_in_backoff_spends_no_attempt_and_moves_no_timer() -> None:
    rig = Rig()
    old = [rig.spoke(), rig.spoke()]
    rig.time.advance(1)
    rig.crash(4, others=True)
    rig.time.advance(2)
    rig.exit(old[0], others=True)
    assert (rig.it.attempt, rig.it.retry_at) == (1, 1006.0)
    rig.time.advance(1.5)
    rig.exit(old[1])
    assert (rig.it.attempt, rig.it.retry_at) == (1, 1006.0)
    assert len(rig.time.timers) == 1
    rig.time.advance(1.5)
    assert rig.shows(State.STARTING)


def test_even_an_exit_after_a_stable_minute_leaves_a_running_delay_alone() -> None:
    rig = Rig(RestartPolicy(delays_s=(100.0,)))
    old = rig.spoke()
    rig.time.advance(1)
    rig.crash(4, others=True)
    rig.time.advance(70)
    rig.exit(old)
    assert (rig.it.state, rig.it.restarts, len(rig.time.timers)) == (State.BACKOFF, 3, 1)


async def test_skip_wait_ends_a_backoff_at_once() -> None:
    rig = Rig()
    rig.crash(4)
    waiter = await asking(rig.it.admit())
    rig.it.skip_wait()
    await waiter
    assert rig.shows(State.STARTING)
    assert rig.time.timers == []
    rig.it.skip_wait()
    assert rig.shows(State.STARTING)
    rig.crash()
    assert rig.it.attempt == 2, "skipping the wait does not forget the count"


async def test_an_exit_that_others_caused_does_not_count_though_that_is_told_late() -> None:
    rig = Rig()
    rig.crash(4)
    waiter = await asking(rig.it.admit())
    rig.it.excuse(3)
    assert rig.shows(State.BACKOFF), "it is not the one that is waited for"
    rig.it.excuse(4)
    await waiter
    assert rig.shows(State.STARTING) and rig.time.timers == []
    assert rig.it.attempt == 0
    for n in range(5, 30):
        rig.crash()
        rig.it.excuse(n)
        rig.it.excuse(n)
        assert rig.shows(State.STARTING)
    rig.crash()
    assert rig.shows(State.BACKOFF), "the three before are not forgotten"


def test_excusing_an_old_instance_leaves_the_delay_that_runs_for_another() -> None:
    rig = Rig()
    old = rig.spoke()
    rig.time.advance(1)
    rig.crash(4, others=True)
    rig.time.advance(2)
    rig.exit(old)
    rig.it.excuse(old[0])
    assert (rig.it.state, rig.it.attempt, rig.it.retry_at) == (State.BACKOFF, 1, 1006.0)


def test_a_stable_minute_resets_what_is_shown_and_what_counts() -> None:
    rig = Rig()
    rig.crash(4)
    rig.time.advance(5)
    instance = rig.spoke()
    rig.time.advance(59.9)
    assert rig.it.attempt == 1
    rig.time.advance(0.1)
    assert rig.it.attempt == 0
    rig.exit(instance)
    assert rig.shows(State.STARTING)
    assert rig.it.restarts == 5


# Failed


async def test_waiters_are_told_when_it_fails() -> None:
    rig = Rig(RestartPolicy(max_exits=4))
    old = rig.spoke()
    rig.time.advance(1)
    rig.crash(4, others=True)
    waiters = [await asking(rig.it.admit()) for _ in range(3)]
    rig.time.advance(2)
    rig.exit(old, "killed by SIGSEGV")
    for waiter in waiters:
        with pytest.raises(Unavailable) as caught:
            await waiter
        assert caught.value.code == "server_failed"
    assert rig.shows(State.FAILED)
    assert rig.time.timers == []


async def test_in_failed_calls_fail_fast_and_say_why_and_when() -> None:
    rig = Rig()
    rig.fail()
    assert rig.it.reason.code is ReasonCode.CRASH_LOOP
    rig.time.advance(20)
    error = await refused(rig)
    assert isinstance(error, Unavailable)
    assert (error.code, error.retry_after_s) == ("server_failed", 40.0)
    assert error.message == ("weather has failed: more than 10 exits in 10 minutes; last exit: exit status 1")
    assert rig.shows(State.FAILED)
    assert not rig.it.ended_for_good


async def test_in_failed_one_attempt_a_minute_passes() -> None:
    rig = Rig()
    rig.fail()
    rig.time.advance(59.9)
    await refused(rig)
    rig.time.advance(0.1)
    restarts = rig.it.restarts
    await rig.it.admit()
    assert rig.shows(State.STARTING)
    assert rig.it.reason.code is ReasonCode.RETRYING
    assert rig.it.restarts == restarts + 1
    rig.time.advance(2)
    error = await refused(rig)
    assert isinstance(error, Unavailable)
    assert (error.code, error.retry_after_s) == ("server_failed", 5.0)
    assert "an attempt to start it again is under way" in error.message
    rig.crash()
    assert rig.shows(State.FAILED)
    assert rig.it.reason.text.startswith("it did not last 60 s when tried again")
    rig.time.advance(59)
    await refused(rig)
    rig.time.advance(1)
    await rig.it.admit()


async def test_an_attempt_that_is_never_heard_of_again_does_not_block_the_next() -> None:
    rig = Rig()
    rig.fail()
    rig.time.advance(60)
    await rig.it.admit()
    told = len(rig.told)
    rig.time.advance(58)
    error = await refused(rig)
    assert isinstance(error, Unavailable)
    assert error.retry_after_s == 2.0
    rig.time.advance(2)
    await rig.it.admit()
    await refused(rig)
    assert rig.shows(State.STARTING)
    assert len(rig.told) == told


async def test_a_failed_server_recovers_by_one_attempt_that_works() -> None:
    rig = Rig()
    rig.fail()
    rig.time.advance(60)
    await rig.it.admit()
    instance = rig.spoke()
    assert (rig.it.state, rig.it.retry_at) == (State.READY, None)
    await rig.it.admit()
    rig.time.advance(60)
    rig.exit(instance)
    assert rig.shows(State.STARTING), "after a stable minute it has its credit back"


def test_a_slow_attempt_that_answers_after_all_makes_it_ready() -> None:
    rig = Rig()
    n, _ = rig.start()
    rig.fail()
    rig.it.instance_spoke(n)
    assert rig.shows(State.READY)


def test_exits_in_failed_are_recorded_and_put_nothing_off() -> None:
    rig = Rig()
    old = rig.start()
    rig.fail()
    told, retry_at = len(rig.told), rig.it.retry_at
    rig.time.advance(30)
    rig.exit(old, "killed by SIGTERM")
    assert (rig.it.state, rig.it.last_exit, rig.it.retry_at) == (State.FAILED, "killed by SIGTERM", retry_at)
    assert len(rig.told) == told


async def test_a_person_who_starts_a_failed_one_starts_afresh() -> None:
    rig = Rig()
    rig.fail()
    rig.it.skip_wait()
    assert rig.shows(State.STARTING)
    await rig.it.admit()
    await rig.it.admit()
    rig.crash(3)
    assert rig.shows(State.STARTING)


# Cannot start


async def test_what_cannot_start_is_told_apart_and_tried_on_demand_only() -> None:
    rig = Rig()
    rig.it.cannot_start(ServerFailed("no program 'npxx'", code="program_missing", hint="install it"))
    assert rig.shows(State.FAILED)
    assert rig.it.reason == Reason(ReasonCode.CANNOT_START, "no program 'npxx'", "install it")
    assert rig.time.timers == []
    error = await refused(rig)
    assert isinstance(error, Unavailable)
    assert (error.code, error.hint, error.retry_after_s) == ("cannot_start", "install it", 60.0)
    assert error.message == "weather has failed: no program 'npxx'"
    rig.time.advance(60)
    await rig.it.admit()
    assert (await refused(rig)).code == "cannot_start", "also while the attempt is under way"
    rig.spoke()
    assert rig.shows(State.READY)


async def test_after_cannot_start_an_exit_has_its_credit() -> None:
    rig = Rig()
    rig.it.cannot_start(ServerFailed("no", code="x"))
    rig.time.advance(60)
    await rig.it.admit()
    rig.crash(others=True)
    assert (rig.it.state, rig.it.retry_at) == (State.STARTING, None)
    await rig.it.admit()


def test_a_second_cannot_start_renews_the_reason_but_puts_nothing_off() -> None:
    rig = Rig()
    rig.it.cannot_start(ServerFailed("first", code="x"))
    rig.time.advance(30)
    rig.it.cannot_start(ServerFailed("second", code="x"), code=ReasonCode.INITIALIZE_FAILED)
    assert rig.it.reason == Reason(ReasonCode.INITIALIZE_FAILED, "second")
    assert rig.it.retry_at == 1060.0
    told = len(rig.told)
    rig.it.cannot_start(ServerFailed("second", code="x"), code=ReasonCode.INITIALIZE_FAILED)
    assert len(rig.told) == told == 2


async def test_cannot_start_ends_a_backoff() -> None:
    rig = Rig()
    rig.crash(4)
    waiter = await asking(rig.it.admit())
    rig.it.cannot_start(ServerFailed("gone", code="x"), code=ReasonCode.INITIALIZE_FAILED)
    with pytest.raises(Unavailable) as caught:
        await waiter
    assert caught.value.code == "initialize_failed"
    assert rig.time.timers == []


@pytest.mark.parametrize("has_worked", [False, True])
async def test_who_finds_out_that_nobody_is_let_in_any_more_has_asked_in_vain(has_worked: bool) -> None:
    rig = Rig()
    if has_worked:
        rig.spoke()
    rig.it.cannot_start(ServerFailed("no token", code="x"), code=ReasonCode.UNAUTHORIZED)
    assert rig.shows(State.FAILED)
    if has_worked:
        assert (await refused(rig)).code == "unauthorized"
        rig.time.advance(60)
    await rig.it.admit()
    assert rig.shows(State.STARTING) and rig.it.restarts == 1


async def test_an_attempt_that_hung_before_it_failed_was_no_stable_minute() -> None:
    rig = Rig()
    rig.fail()
    rig.time.advance(60)
    await rig.it.admit()
    rig.start()
    rig.time.advance(90)
    rig.it.cannot_start(ServerFailed("no answer", code="x"), code=ReasonCode.INITIALIZE_FAILED)
    rig.time.advance(60)
    await rig.it.admit()
    rig.crash()
    assert rig.shows(State.FAILED)


# Restart off


async def test_with_restart_off_an_exit_is_the_end() -> None:
    rig = Rig(RestartPolicy(restart=False))
    instance = rig.spoke()
    assert not any(snapshot.ended_for_good for snapshot in rig.told)
    rig.exit(instance, "exit status 3")
    assert rig.shows(State.FAILED)
    assert rig.it.reason == Reason(ReasonCode.SERVER_EXITED, "it exited, and restart is off")
    assert rig.it.ended_for_good
    assert rig.it.snapshot().ended_for_good
    assert rig.it.retry_at is None
    rig.time.advance(1000)
    error = await refused(rig)
    assert isinstance(error, ServerFailed)
    assert (error.code, "exit status 3" in error.message) == ("server_failed", True)
    rig.it.skip_wait()
    rig.it.instance_spoke(7)
    assert rig.it.ended_for_good


async def test_with_restart_off_a_start_that_cannot_be_is_the_end_too() -> None:
    rig = Rig(RestartPolicy(restart=False))
    rig.it.cannot_start(ServerFailed("no program", code="x"))
    assert rig.it.ended_for_good
    error = await refused(rig)
    assert isinstance(error, ServerFailed)
    assert error.code == "cannot_start"


# Idle


def test_idle_is_a_reason_of_ready_and_ends_with_the_next_instance() -> None:
    rig = Rig()
    rig.it.idle()
    assert rig.told == []
    rig.spoke()
    rig.it.idle()
    rig.it.idle()
    rig.start()
    rig.start()
    assert [s.reason.code for s in rig.told] == [ReasonCode.WORKING, ReasonCode.IDLE, ReasonCode.WORKING]
    assert set(rig.states) == {State.READY}


# Drain, stop


async def test_draining_still_admits_and_restarts_nothing() -> None:
    rig = Rig()
    instance = rig.spoke()
    rig.it.drain("SIGTERM")
    rig.it.drain("SIGINT")
    assert rig.shows(State.DRAINING)
    assert rig.it.reason == Reason(ReasonCode.SIGNAL, "SIGTERM")
    rig.exit(instance)
    await rig.it.admit()
    rig.spoke()
    rig.it.skip_wait()
    assert rig.states == [State.READY, State.DRAINING]
    assert rig.it.restarts == 0
    assert not rig.it.snapshot().ready


async def test_a_crash_loop_in_a_drain_is_cut_short() -> None:
    rig = Rig()
    rig.spoke()
    rig.it.drain("SIGTERM")
    rig.crash(3)
    await rig.it.admit()
    rig.crash()
    error = await refused(rig)
    assert (error.code, error.message) == (
        "shutting_down",
        "weather is draining: no instance is started any more",
    )
    assert rig.time.timers == []
    rig.time.advance(61)
    rig.crash(after_s=100)
    assert (await refused(rig)).code == "shutting_down"


async def test_cannot_start_in_a_drain_refuses_what_follows() -> None:
    rig = Rig()
    rig.spoke()
    rig.it.drain("SIGTERM")
    rig.it.cannot_start(ServerFailed("gone", code="x"))
    assert rig.shows(State.DRAINING)
    assert (await refused(rig)).code == "shutting_down"


async def test_a_drain_wakes_the_waiters_of_a_backoff_with_a_refusal() -> None:
    rig = Rig()
    rig.crash(4)
    waiter = await asking(rig.it.admit())
    rig.it.drain("deploy", code=ReasonCode.ASKED)
    with pytest.raises(Unavailable) as caught:
        await waiter
    assert caught.value.code == "shutting_down"
    assert (rig.time.timers, rig.it.retry_at) == ([], None)
    assert rig.it.reason == Reason(ReasonCode.ASKED, "deploy")


async def test_a_drain_from_failed_or_its_attempt_refuses() -> None:
    for wait_s in (0, 60):
        rig = Rig()
        rig.fail()
        rig.time.advance(wait_s)
        if wait_s:
            await rig.it.admit()
        rig.it.drain("SIGTERM")
        assert (await refused(rig)).code == "shutting_down"


def into_starting(rig: Rig) -> None:
    pass


def into_ready(rig: Rig) -> None:
    rig.spoke()


def into_backoff(rig: Rig) -> None:
    rig.crash(4)


def into_failed(rig: Rig) -> None:
    rig.fail()


def into_draining(rig: Rig) -> None:
    rig.it.drain("SIGTERM")


EVERYWHERE = pytest.mark.parametrize(
    "into", [into_starting, into_ready, into_backoff, into_failed, into_draining]
)


@EVERYWHERE
async def test_stop_wins_and_nothing_comes_back(into: Callable[[Rig], None]) -> None:
    rig = Rig()
    old = rig.start()
    rig.time.advance(1.5)
    into(rig)
    waiter = await asking(rig.it.admit()) if rig.shows(State.BACKOFF) else None
    rig.it.stop("rm")
    rig.it.stop("again")
    told = len(rig.told)
    assert rig.shows(State.STOPPING)
    rig.exit(old)
    rig.crash(20)
    rig.spoke()
    rig.it.skip_wait()
    rig.it.cannot_start(ServerFailed("x", code="x"))
    rig.it.drain("late")
    rig.it.idle()
    rig.time.advance(1000)
    assert rig.shows(State.STOPPING)
    assert (await refused(rig)).code == "shutting_down"
    rig.it.stopped()
    rig.it.stopped()
    rig.crash()
    rig.it.stop()
    assert rig.shows(State.STOPPED)
    assert (await refused(rig)).code == "shutting_down"
    assert rig.time.timers == []
    assert rig.states[told:] == [State.STOPPED]
    if waiter is not None:
        with pytest.raises(Unavailable):
            await waiter


def test_a_stop_keeps_the_cause_of_the_drain_before_it() -> None:
    rig = Rig()
    rig.spoke()
    rig.it.drain("SIGTERM")
    rig.it.stop()
    rig.it.stopped()
    assert [s.reason for s in rig.told[1:]] == [Reason(ReasonCode.SIGNAL, "SIGTERM")] * 3
    assert [s.working for s in rig.told] == [True, True, True, False]
    assert rig.states == [State.READY, State.DRAINING, State.STOPPING, State.STOPPED]


@EVERYWHERE
def test_stopped_without_a_stop_is_stopped(into: Callable[[Rig], None]) -> None:
    rig = Rig()
    into(rig)
    rig.it.stopped()
    assert rig.shows(State.STOPPED)
    assert rig.time.timers == []


def test_whoever_is_told_may_stop_it_from_there() -> None:
    rig = Rig()
    seen: list[State] = []

    def stop_on_backoff(snapshot: Snapshot) -> None:
        seen.append(snapshot.state)
        if snapshot.state is State.BACKOFF:
            it.stop()

    it = Supervisor(
        RestartPolicy(),
        clock=rig.time,
        call_later=rig.time.call_later,
        random=lambda: 0.0,
        on_change=stop_on_backoff,
    )
    for n in range(4):
        it.instance_exited(n, rig.time.now, "exit status 1", others_working=False)
    assert seen[-2:] == [State.BACKOFF, State.STOPPING]
    assert rig.time.timers == []


async def test_the_loop_itself_serves_as_the_source_of_timers() -> None:
    it = Supervisor(
        RestartPolicy(immediate=0, delays_s=(0.01,)),
        clock=time.monotonic,
        call_later=asyncio.get_running_loop().call_later,
        random=lambda: 0.0,
        on_change=lambda snapshot: None,
    )
    it.instance_exited(1, time.monotonic(), "exit status 1", others_working=False)
    assert it.state.value == "backoff"
    await it.admit()
    assert it.state.value == "starting"


def test_it_says_what_it_is() -> None:
    rig = Rig()
    rig.crash()
    assert repr(rig.it) == "<Supervisor weather: starting (restarting), 1 restarts>"


# What the server cannot help


async def test_instances_that_were_taken_count_for_no_restart() -> None:
    rig = Rig()
    for _ in range(50):
        instance, _ = rig.spoke()
        rig.it.instance_taken(
            instance, "engine unreachable", code=ReasonCode.ENGINE_UNREACHABLE, others_working=False
        )
        assert rig.shows(State.STARTING) and rig.it.reason.code is ReasonCode.ENGINE_UNREACHABLE
        await rig.it.admit()
    assert rig.it.restarts == 0 and rig.it.last_exit == "engine unreachable" and not rig.time.timers
    rig.crash()
    assert rig.shows(State.STARTING), "the first exit of its own is answered at once"


async def test_while_others_work_one_that_was_taken_changes_nothing() -> None:
    rig = Rig()
    first, _ = rig.spoke()
    rig.spoke()
    rig.it.instance_taken(first, "restarted", code=ReasonCode.RESTARTING, others_working=True)
    assert rig.shows(State.READY)


@pytest.mark.parametrize("code", [ReasonCode.PULLING, ReasonCode.PULL_FAILED, ReasonCode.ENGINE_UNREACHABLE])
async def test_an_obstacle_is_over_as_soon_as_there_is_an_instance(code: ReasonCode) -> None:
    rig = Rig()
    rig.it.explain(Reason(code, "it takes a while"))
    assert rig.told[-1].reason.text == "it takes a while" and rig.shows(State.STARTING)
    rig.start()
    assert rig.it.reason == Reason(ReasonCode.FIRST_START)


async def test_a_backoff_is_not_cut_short_by_an_engine_that_goes() -> None:
    rig = Rig()
    while not rig.shows(State.BACKOFF):
        rig.crash()
    due = rig.it.retry_at
    rig.it.unusable(Reason(ReasonCode.ENGINE_UNREACHABLE), others_working=False)
    assert rig.shows(State.BACKOFF) and rig.it.retry_at == due and len(rig.time.timers) == 1


async def test_what_nobody_wants_any_more_gets_no_instance_while_it_drains() -> None:
    rig = Rig()
    rig.spoke()
    rig.it.drain("its container was removed", code=ReasonCode.REMOVED_OUTSIDE, is_unwanted=True)
    assert (await refused(rig)).code == "shutting_down"
    rig.it.drain("SIGTERM")
    rig.it.stop("SIGTERM")
    rig.it.stopped()
    assert rig.it.reason.code is ReasonCode.REMOVED_OUTSIDE and rig.shows(State.STOPPED)
