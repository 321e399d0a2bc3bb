"""A plan as people read it: like a difference, a sign before each server. Pure."""

from collections import Counter

from mooring.cli.files.difference import Action, Plan, Step
from mooring.cli.terminal.words import DIM, GREEN, RED, YELLOW, painted, printable

__all__ = ["pictured", "summary"]

SIGNS = {
    Action.ADD: ("+", GREEN),
    Action.START: ("+", GREEN),
    Action.CHANGE: ("~", YELLOW),
    Action.ADOPT: ("~", YELLOW),
    Action.REMOVE: ("-", RED),
    Action.KEEP: ("=", DIM),
}
WORDS = {
    Action.ADD: "to add",
    Action.START: "to start",
    Action.CHANGE: "to change",
    Action.ADOPT: "to adopt",
    Action.REMOVE: "to remove",
    Action.KEEP: "the same",
}
SAYING = {
    Action.START: "the same, but it does not run",
    Action.REMOVE: "is stopped and forgotten",
    Action.KEEP: "the same",
}
"""Of a step that has no changes to show."""
CUT = "…"


def summary(plan: Plan) -> str:
    """How many of each."""
    counts = Counter(step.action for step in plan.steps if step.trouble is None)
    parts = [f"{counts[action]} {words}" for action, words in WORDS.items() if counts[action]]
    if troubled := len(plan.steps) - counts.total():
        parts.append(f"{troubled} that cannot be started")
    return ", ".join(parts) or "nothing to do"


def pictured(plan: Plan, *, width: int | None, colours: bool) -> list[str]:
    """A line for each server, and more where more is to be said; no wider than the terminal."""
    longest = max((len(step.name) for step in plan.steps), default=0)
    return [line for step in plan.steps for line in _step_lines(step, longest, width, colours)]


def _step_lines(step: Step, longest: int, width: int | None, colours: bool) -> list[str]:
    sign, colour = SIGNS[step.action]
    if step.trouble is not None:
        sign, colour = "!", RED
    told = _told(step)
    heads = [f"{sign} {step.name:{longest}}", *([" " * (longest + 2)] * (len(told) - 1))]
    lines = [f"{head}  {printable(text)}".rstrip() for head, text in zip(heads, told, strict=True)]
    return [painted(_fitting(line, width), colour if colours else "") for line in lines]


def _told(step: Step) -> list[str]:
    if step.trouble is not None:
        return ["cannot be started", *step.changes]  # why, is told as an error, with what to do
    if not step.is_ours:
        return ["the same, but not made from this file: left alone"]
    return list(step.changes) or [SAYING.get(step.action, "")]


def _fitting(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else line[: width - 1] + CUT
