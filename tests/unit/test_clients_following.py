"""What is to be done with entries, given what happened and what is so."""

from typing import Any

import pytest

from mooring.clients.following import (
    EXITED,
    GIVEN_UP,
    LOST,
    WHY_EXITED,
    WHY_FAILED,
    WHY_GONE,
    WHY_LOST,
    WHY_UNKNOWN,
    Back,
    Forget,
    News,
    Out,
    Outside,
    Renew,
    ServerNow,
    Step,
    decide,
)
from mooring.workloads.happenings import Kind

READY = ServerNow(3, "ready")
FAILED = ServerNow(3, "failed", "more than 10 exits")
SOME_OUT = Outside(False)
ALL_OUT = Outside(True)


def of_one(
    now: ServerNow | None,
    *news: tuple[str, int],
    out: Outside | None = None,
    was_removed: bool | None = None,
) -> list[Step]:
    """Steps for the server `time`, after events of these kinds and generations."""
    events = [News(number, "time", generation, kind) for number, (kind, generation) in enumerate(news, 1)]
    servers = {} if now is None else {"time": now}
    outside = {} if out is None else {"time": out}
    return decide(["time"], events, servers, outside, {} if was_removed is None else {"time": was_removed})


def test_the_words_are_those_of_the_journal() -> None:
    assert (LOST, EXITED, GIVEN_UP) == (Kind.SESSION_LOST, Kind.EXITED, Kind.GIVEN_UP)


@pytest.mark.parametrize("state", ["ready", "stopped", "other"])
@pytest.mark.parametrize("refresh", ["auto", "never"])
def test_exits_that_sessions_survive_touch_nothing(state: Any, refresh: Any) -> None:
    now = ServerNow(3, state, refresh=refresh)
    steps = of_one(now, (EXITED, 3), ("backoff", 3), ("ready", 3), ("stopped", 2), ("started", 3))
    assert not [step for step in steps if not isinstance(step, Renew)]


def test_what_was_removed_outside_is_out_everywhere_until_it_runs_again() -> None:
    gone = ServerNow(3, "gone")
    assert of_one(gone) == [Out("time", WHY_GONE)] and of_one(gone, out=SOME_OUT) == [Out("time", WHY_GONE)]
    assert of_one(gone, (LOST, 3), out=ALL_OUT) == []
    assert Back("time") in of_one(READY, out=ALL_OUT) and of_one(None, was_removed=True) == [Forget("time")]
    assert not of_one(gone._replace(refresh="never")), "whoever wants no refresh keeps the entry"


def test_a_lost_session_takes_it_out_of_clients_that_notice() -> None:
    lost = Out("time", WHY_LOST, is_everywhere=False, number=2)
    assert lost in of_one(READY, ("ready", 3), (LOST, 3), (LOST, 3))
    assert of_one(ServerNow(3, "other"), ("ready", 3), (LOST, 3)) == [lost]
    assert lost in of_one(READY, ("ready", 2), (LOST, 2)), "the client is stuck, whatever has begun since"


def test_always_means_every_exit_of_this_generation() -> None:
    always = READY._replace(refresh="always")
    assert Out("time", WHY_EXITED, number=1) in of_one(always, (EXITED, 3), (LOST, 3))
    assert of_one(always._replace(state="other"), (EXITED, 3)) == [Out("time", WHY_EXITED, number=1)]
    assert Out("time", WHY_EXITED, number=1) in of_one(always, (GIVEN_UP, 3)), "it hung"
    assert of_one(always, (EXITED, 2)) == [Renew("time")], "of the one before: its replacement is not touched"


def test_failed_is_out_of_all_files_until_it_works() -> None:
    out = Out("time", f"{WHY_FAILED}: more than 10 exits")
    assert of_one(FAILED) == [out]
    assert of_one(FAILED, (LOST, 3), out=SOME_OUT) == [out]
    assert of_one(FAILED, out=ALL_OUT) == []
    assert of_one(ServerNow(3, "other"), out=ALL_OUT) == []
    assert of_one(READY, out=ALL_OUT) == [Back("time"), Renew("time")]


def test_what_was_stopped_is_in() -> None:
    assert of_one(ServerNow(3, "stopped"), out=SOME_OUT) == [Back("time"), Renew("time")]


def test_never_takes_nothing_out_and_leaves_nothing_out() -> None:
    for state in ("ready", "failed", "other", "stopped"):
        never = ServerNow(3, state, refresh="never")
        assert of_one(never, (LOST, 3), (EXITED, 3)) == []
        assert of_one(never, (LOST, 3), out=SOME_OUT) == [Back("time")]


def test_what_is_gone_is_forgotten_but_not_its_replacement() -> None:
    assert of_one(None, ("removed", 3), was_removed=True) == [Forget("time")]
    assert of_one(None, out=ALL_OUT, was_removed=True) == [Forget("time")]
    assert of_one(None, out=ALL_OUT) == of_one(None) == [], "until that is known"
    assert of_one(ServerNow(4, "other"), ("removed", 3)) == []
    assert of_one(ServerNow(4, "ready"), ("removed", 3)) == [Renew("time")]


def test_what_nobody_removed_is_out_until_it_is_run_again() -> None:
    [out] = of_one(None, was_removed=False)
    assert isinstance(out, Out) and out.why.startswith(WHY_UNKNOWN) and "mooring run time" in out.why
    lost = Outside(True)
    assert of_one(None, out=lost, was_removed=False) == []
    assert of_one(None, out=lost._replace(is_whole=False), was_removed=False) == [out], (
        "a file was in trouble"
    )
    assert of_one(READY, out=lost) == [Back("time"), Renew("time")]


def test_each_server_is_on_its_own() -> None:
    news = [News(7, "one", 1, LOST), News(8, "three", 1, LOST), News(9, "unheard-of", 1, LOST)]
    servers = {"one": ServerNow(1, "other"), "two": ServerNow(2, "other"), "three": ServerNow(1, "failed")}
    steps = decide(["one", "two", "three"], news, servers, {}, {})
    assert steps == [Out("one", WHY_LOST, is_everywhere=False, number=7), Out("three", WHY_FAILED)]
