"""What is told, and remembered, of a server's life."""

import pytest

from mooring.runtimes.exits import Exit
from mooring.supervise.reasons import Reason, ReasonCode
from mooring.supervise.snapshot import Snapshot
from mooring.supervise.states import State
from mooring.workloads.happenings import Happening, Kind, exit_happening, state_happening
from mooring.workloads.recollection import MAX_WORD_CHARACTERS, MOST_EXITS, MOST_WORDS, Ended, Recollection


def seen(state: State, reason: Reason | None = None, *, restarts: int = 0) -> Snapshot:
    return Snapshot(
        state=state,
        reason=reason or Reason(ReasonCode.WORKING),
        restarts=restarts,
        attempt=3,
        attempts=10,
        retry_at=1.0,
        retry_in_s=12.3,
        last_exit="exit status 1",
        working=False,
        ended_for_good=False,
    )


@pytest.mark.parametrize(
    ("snapshot", "before", "told"),
    [
        (seen(State.READY), State.STARTING, Happening(Kind.READY, "it works")),
        (seen(State.READY, restarts=2), State.BACKOFF, Happening(Kind.READY, "it works again")),
        (seen(State.READY), State.READY, None),
        (
            seen(State.BACKOFF),
            State.STARTING,
            Happening(Kind.BACKOFF, "restarting in 12 s, attempt 3 of 10"),
        ),
        (
            seen(State.FAILED, Reason(ReasonCode.CANNOT_START, "no such program", "install it")),
            State.STARTING,
            Happening(Kind.FAILED, "no such program (install it)"),
        ),
        (
            seen(State.FAILED, Reason(ReasonCode.CRASH_LOOP, "too many")),
            State.READY,
            Happening(Kind.FAILED, "too many"),
        ),
        # The end is told by whoever asked for it, with its cause; a new start with the exit.
        (seen(State.STOPPED), State.STOPPING, None),
        (seen(State.STARTING), State.READY, None),
        (seen(State.DRAINING), State.READY, None),
    ],
)
def test_changes_of_state(snapshot: Snapshot, before: State, told: Happening | None) -> None:
    assert state_happening(snapshot, before) == told


def test_exits() -> None:
    assert exit_happening("pid 7", Exit(3, None), 0.25) == (Kind.EXITED, "pid 7: exit status 3, after 0.2 s")
    assert exit_happening("pid 7", Exit(None, 9), 61.0).text == "pid 7: signal 9 (SIGKILL), after 61.0 s"


def test_what_is_remembered_is_bounded() -> None:
    memory = Recollection()
    for n in range(MOST_WORDS + 5):
        memory.heard(1, f"{n} " + "x" * 2 * MAX_WORD_CHARACTERS)
    for n in range(MOST_EXITS + 5):
        memory.exits.append(Ended(float(n), n, Exit(1, None), 0.1))
    assert [one.pid for one in memory.exits] == list(range(5, MOST_EXITS + 5))
    words = memory.last_words()
    assert len(words) == MOST_WORDS and words[0].startswith("5 ") and words[0].endswith("x…")
    assert {len(word) for word in words} == {MAX_WORD_CHARACTERS + 1}


def test_the_last_words_are_of_the_one_who_ended_last() -> None:
    memory = Recollection()
    assert memory.last_words() == []
    for pid in (1, 2, 3):
        memory.heard(pid, f"said by {pid}")
    assert memory.last_words() == ["said by 1", "said by 2", "said by 3"]
    memory.exits.append(Ended(0.0, 2, Exit(1, None), 0.1))
    assert memory.last_words() == ["said by 2"]
    memory.exits.append(Ended(0.0, 9, Exit(1, None), 0.1))
    assert memory.last_words() == ["said by 1", "said by 2", "said by 3"], "it said nothing itself"
