"""The transition table as a page for people: `docs/lifecycle.md` is made from it."""

from collections.abc import Iterable

from mooring.supervise.states import EVENT_MEANING, RENEWED, STATE_MEANING, Event, State, next_state

__all__ = ["lifecycle_markdown"]


def lifecycle_markdown() -> str:
    """Three tables: what the states mean, what the events mean, where each leads from each."""
    states = ((f"`{state}`", STATE_MEANING[state]) for state in State)
    events = ((f"`{event}`", EVENT_MEANING[event]) for event in Event)
    moves = ((f"`{event}`", *(_cell(state, event) for state in State)) for event in Event)
    return "\n".join(
        [
            *_table(("state", "meaning"), states),
            "",
            *_table(("event", "meaning"), events),
            "",
            *_table(("event \\ state", *State), moves),
            "",
            "`·`: ignored. `↻`: the state stays, its reason is renewed.",
            "",
        ]
    )


def _cell(state: State, event: Event) -> str:
    if (state, event) in RENEWED:
        return "↻"
    after = next_state(state, event)
    return "·" if after is state else f"→ {after}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [_row(head), _row(("---",) * len(head)), *map(_row, rows)]


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
