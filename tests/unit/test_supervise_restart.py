"""Every rule and number of the restart policy, on made-up moments."""

from collections.abc import Callable

import pytest

from mooring.supervise.reasons import ReasonCode
from mooring.supervise.restart import (
    GiveUp,
    RestartAfter,
    RestartHistory,
    RestartNow,
    RestartPolicy,
    Verdict,
    decide,
)

POLICY = RestartPolicy()


def no_jitter() -> float:
    return 0.0


class Story:
    """A server that exits again and again, and what the policy says each time."""

    def __init__(self, policy: RestartPolicy = POLICY, random: Callable[[], float] = no_jitter) -> None:
        self.policy = policy
        self.random = random
        self.history = RestartHistory()
        self.now = 0.0

    def crash(self, after_s: float) -> Verdict:
        """Start an instance now; it exits `after_s` later."""
        started_at = self.now
        self.history = self.history.started(started_at)
        self.now += after_s
        self.history = self.history.exited(self.policy, self.now, started_at)
        verdict = decide(self.history, self.now, policy=self.policy, random=self.random)
        match verdict:
            case RestartAfter(delay_s):
                self.history = self.history.waited()
                self.now += delay_s
            case GiveUp():
                self.history = self.history.given_up()
            case RestartNow():
                pass
        return verdict

    def delays(self, after_s: float) -> list[float]:
        """Crash until it gives up; the delays on the way."""
        found: list[float] = []
        while not isinstance(verdict := self.crash(after_s), GiveUp):
            if isinstance(verdict, RestartAfter):
                found.append(verdict.delay_s)
        self.gave_up = verdict
        return found


def test_the_numbers_of_the_design() -> None:
    assert (
        RestartPolicy(
            restart=True,
            immediate=3,
            immediate_window_s=60,
            delays_s=(5, 10, 20, 40, 60),
            jitter=0.1,
            attempts=10,
            max_exits=10,
            max_exits_window_s=600,
            stable_s=60,
            incident_s=1,
            failed_retry_s=60,
        )
        == RestartPolicy()
    )


def test_three_restarts_a_minute_are_immediate_and_the_fourth_waits() -> None:
    story = Story()
    assert [story.crash(2.0) for _ in range(4)] == [
        RestartNow(),
        RestartNow(),
        RestartNow(),
        RestartAfter(5.0, 1, 10),
    ]


def test_three_a_minute_for_ever_are_immediate_up_to_the_crash_loop() -> None:
    story = Story()
    assert [story.crash(25.0) for _ in range(10)] == [RestartNow()] * 10
    assert isinstance(story.crash(25.0), GiveUp)


def test_an_exit_exactly_a_minute_ago_is_out_of_the_window() -> None:
    history = RestartHistory(exits=(0.0, 20.0, 40.0, 60.0), last_exit=60.0)
    assert decide(history, 60.0, policy=POLICY, random=no_jitter) == RestartNow()
    history = RestartHistory(exits=(0.1, 20.0, 40.0, 60.0), last_exit=60.0)
    assert decide(history, 60.0, policy=POLICY, random=no_jitter) == RestartAfter(5.0, 1, 10)


def test_the_ladder_does_not_begin_again_when_its_delays_outlast_the_window() -> None:
    story = Story(RestartPolicy(max_exits=1000))
    assert story.delays(1.0) == [5, 10, 20, 40, 60, 60, 60, 60, 60, 60]


def test_ten_delayed_attempts_then_give_up() -> None:
    story = Story()
    for _ in range(4):
        story.crash(2.0)
    # It lives 50 s each time, so that there are never more than ten exits in ten minutes.
    attempts = [1]
    while isinstance(verdict := story.crash(50.0), RestartAfter):
        assert verdict.of == 10
        attempts.append(verdict.attempt)
    assert attempts == list(range(1, 11))
    assert verdict == GiveUp(ReasonCode.CRASH_LOOP, "10 delayed restarts did not help")


def test_more_than_ten_exits_in_ten_minutes_give_up_before_the_attempts_are_spent() -> None:
    story = Story()
    assert story.delays(0.01) == [5, 10, 20, 40, 60, 60, 60]
    assert story.gave_up == GiveUp(ReasonCode.CRASH_LOOP, "more than 10 exits in 10 minutes")


def test_an_exit_ten_minutes_ago_is_out_of_the_window() -> None:
    exits = (0.0, *(float(n) for n in range(591, 600)), 600.0)
    assert len(exits) == 11
    verdict = decide(RestartHistory(exits, last_exit=600.0), 600.0, policy=POLICY, random=no_jitter)
    assert verdict == RestartAfter(5.0, 1, 10)
    exits = (0.1, *exits[1:])
    verdict = decide(RestartHistory(exits, last_exit=600.0), 600.0, policy=POLICY, random=no_jitter)
    assert isinstance(verdict, GiveUp)


@pytest.mark.parametrize(("dice", "delay_s"), [(0.0, 5.0), (0.5, 5.25), (1.0, 5.5)])
def test_jitter_only_adds_up_to_a_tenth(dice: float, delay_s: float) -> None:
    story = Story(random=lambda: dice)
    for _ in range(3):
        story.crash(1.0)
    verdict = story.crash(1.0)
    assert isinstance(verdict, RestartAfter)
    assert verdict.delay_s == pytest.approx(delay_s)


def test_restart_off_gives_up_at_the_first_exit() -> None:
    assert Story(RestartPolicy(restart=False)).crash(1000.0) == GiveUp(
        ReasonCode.SERVER_EXITED, "it exited, and restart is off"
    )


def test_a_stable_minute_makes_everything_forgotten() -> None:
    story = Story()
    for _ in range(6):
        story.crash(1.0)
    assert story.history.delayed == 3
    assert story.crash(60.0) == RestartNow()
    assert story.history.delayed == 0
    assert len(story.history.exits) == 1


def test_just_under_a_stable_minute_forgets_nothing() -> None:
    story = Story()
    for _ in range(4):
        story.crash(1.0)
    assert story.crash(59.9) == RestartAfter(10.0, 2, 10)


def test_a_minute_of_waiting_is_not_a_stable_minute() -> None:
    story = Story()
    for _ in range(4):
        story.crash(1.0)
    story.now += 3600
    assert isinstance(story.crash(1.0), RestartAfter)
    assert not RestartHistory(last_exit=0.0).is_stable(POLICY, 3600.0)


def test_constant_new_starts_do_not_put_stability_off() -> None:
    history = RestartHistory(exits=(0.0,), delayed=4, last_exit=0.0)
    for at in range(1, 70, 10):
        history = history.started(float(at))
    assert not history.is_stable(POLICY, 60.9)
    assert history.is_stable(POLICY, 61.0)
    after = history.exited(POLICY, 65.0, started_at=61.0)
    assert (after.delayed, after.exits) == (0, (65.0,))


def test_an_old_instance_that_outlived_the_last_exit_is_stability_from_then_on() -> None:
    history = RestartHistory(exits=(100.0,), delayed=2, last_exit=100.0)
    assert history.exited(POLICY, 159.0, started_at=0.0).delayed == 2
    assert history.exited(POLICY, 160.0, started_at=0.0).delayed == 0


def test_a_start_that_could_not_be_used_is_not_stability() -> None:
    history = RestartHistory(last_exit=0.0).started(1.0)
    assert history.is_stable(POLICY, 100.0)
    assert not history.never_worked().is_stable(POLICY, 100.0)


def test_once_given_up_it_stays_so_until_a_stable_minute() -> None:
    story = Story()
    story.delays(0.01)
    story.now += 3600
    assert story.crash(5.0) == GiveUp(ReasonCode.CRASH_LOOP, "it did not last 60 s when tried again")
    assert story.crash(60.0) == RestartNow()


def test_fifty_exits_from_one_cause_are_one_incident() -> None:
    history = RestartHistory()
    for n in range(50):
        history = history.exited(POLICY, 100.0 + n * 0.02, started_at=float(n))
    assert history.exits == (100.0,)
    assert history.last_exit == pytest.approx(100.98)


def test_one_second_later_is_the_same_incident_and_more_is_another() -> None:
    history = RestartHistory().exited(POLICY, 100.0, started_at=0.0)
    assert history.is_same_incident(POLICY, 101.0, started_at=0.0)
    assert not history.is_same_incident(POLICY, 101.01, started_at=0.0)


def test_a_replacement_that_dies_within_the_second_counts() -> None:
    history = RestartHistory().exited(POLICY, 100.0, started_at=0.0)
    assert not history.is_same_incident(POLICY, 100.1, started_at=100.0)
    assert history.exited(POLICY, 100.1, started_at=100.0).exits == (100.0, 100.1)


def test_the_first_exit_of_all_counts() -> None:
    assert not RestartHistory().is_same_incident(POLICY, 0.0, started_at=0.0)


def test_memory_is_bounded() -> None:
    history = RestartHistory()
    for n in range(1000):
        history = history.exited(POLICY, n * 2.0, started_at=n * 2.0 - 1.0)
    assert len(history.exits) == 11
