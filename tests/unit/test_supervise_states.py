import itertools

import pytest

from mooring.supervise import lifecycle_markdown
from mooring.supervise.states import (
    EVENT_MEANING,
    RENEWED,
    STATE_MEANING,
    TRANSITIONS,
    Event,
    State,
    next_state,
)

ENDING = {State.STOPPING, State.STOPPED}


def test_the_words_are_those_of_the_design() -> None:
    assert [*State] == ["starting", "ready", "draining", "backoff", "failed", "stopping", "stopped"]


def test_every_event_has_an_answer_in_every_state() -> None:
    assert set(TRANSITIONS) == set(itertools.product(State, Event))


@pytest.mark.parametrize("state", State)
def test_stop_wins_in_every_state(state: State) -> None:
    assert next_state(state, Event.STOP) in ENDING


@pytest.mark.parametrize("state", sorted(ENDING))
def test_nothing_but_a_start_leaves_the_end(state: State) -> None:
    for event in set(Event) - {Event.START}:
        assert next_state(state, event) in ENDING
    assert next_state(State.STOPPED, Event.START) is State.STARTING
    assert next_state(State.STOPPING, Event.START) is State.STOPPING


def test_a_drain_only_leads_on_to_the_end() -> None:
    for event in Event:
        assert next_state(State.DRAINING, event) in ENDING | {State.DRAINING}


@pytest.mark.parametrize(
    ("state", "event", "after"),
    [
        (State.STARTING, Event.STARTED, State.READY),
        (State.READY, Event.INSTANCE_LOST, State.STARTING),
        (State.READY, Event.RESTART_DELAYED, State.BACKOFF),
        (State.STARTING, Event.RESTART_DELAYED, State.BACKOFF),
        (State.BACKOFF, Event.RETRY_DUE, State.STARTING),
        (State.BACKOFF, Event.RESUMED, State.READY),
        (State.BACKOFF, Event.STARTED, State.BACKOFF),
        (State.BACKOFF, Event.GAVE_UP, State.FAILED),
        (State.FAILED, Event.RETRY_DUE, State.STARTING),
        (State.FAILED, Event.STARTED, State.READY),
        (State.STARTING, Event.CANNOT_START, State.FAILED),
        (State.FAILED, Event.DRAIN, State.DRAINING),
        (State.STOPPING, Event.STOPPED, State.STOPPED),
    ],
)
def test_transitions(state: State, event: Event, after: State) -> None:
    assert next_state(state, event) is after


def test_a_renewed_reason_keeps_its_state() -> None:
    for state, event in RENEWED:
        assert next_state(state, event) is state


def test_every_state_can_be_reached_from_a_start() -> None:
    reached = {State.STARTING}
    while more := {next_state(state, event) for state in reached for event in Event} - reached:
        reached |= more
    assert reached == set(State)


def test_the_page_shows_every_word_and_every_transition() -> None:
    page = lifecycle_markdown()
    for meaning in (*STATE_MEANING.values(), *EVENT_MEANING.values()):
        assert meaning in page
    rows = {
        line.split("|")[1].strip(): line for line in page.splitlines() if line.count("|") == len(State) + 2
    }
    assert [*rows] == ["event \\ state", "---", *(f"`{event}`" for event in Event)]
    assert rows["event \\ state"] == (
        "| event \\ state | starting | ready | draining | backoff | failed | stopping | stopped |"
    )
    assert rows["`stop`"] == (
        "| `stop` | → stopping | → stopping | → stopping | → stopping | → stopping | · | · |"
    )
    assert rows["`instance_lost`"] == "| `instance_lost` | ↻ | → starting | · | · | · | · | · |"
    assert page.endswith("renewed.\n")


def test_the_words_have_all_their_meanings() -> None:
    assert set(STATE_MEANING) == set(State)
    assert set(EVENT_MEANING) == set(Event)
