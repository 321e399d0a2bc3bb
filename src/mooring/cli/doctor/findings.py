"""What `mooring doctor` finds: a line for each thing it looked at, and what to do where that is not well."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from textwrap import wrap
from typing import NamedTuple

from mooring.cli.terminal.words import RED, YELLOW, painted, printable
from mooring.errors import MooringError

__all__ = ["Finding", "Level", "collect", "lines"]


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Nothing is broken; some will want to know it."""
    PROBLEM = "problem"


COLOURS = {Level.PROBLEM: RED, Level.NOTE: YELLOW}
MARGIN = 20
NARROWEST = 40


class Finding(NamedTuple):
    """One of them. `check` is an interface: see docs/commands.md."""

    check: str
    level: Level
    text: str
    remedy: str = ""


Check = Callable[[], Iterable[Finding]]


def collect(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """All that they find. One that fails is a finding itself: the others still look."""
    for name, check in checks:
        try:
            yield from list(check())
        except MooringError as error:
            yield Finding(name, Level.PROBLEM, error.message, error.hint)
        except OSError as error:
            yield Finding(name, Level.PROBLEM, f"this could not be looked at: {error}")


def lines(finding: Finding, *, width: int, colour: bool) -> Iterator[str]:
    """As people read it: the remedy below, everything within the width."""
    room = max(width - MARGIN, NARROWEST)
    text = wrap(printable(finding.text), room, break_long_words=False, break_on_hyphens=False)
    level = painted(f"{finding.level:7}", COLOURS.get(finding.level, "") if colour else "")
    yield f"{level}  {finding.check:9}  {text[0]}"
    yield from (f"{'':{MARGIN}}{line}" for line in text[1:])
    if finding.remedy:
        remedy = wrap(printable(finding.remedy), room - 2, break_long_words=False, break_on_hyphens=False)
        yield f"{'':{MARGIN}}→ {remedy[0]}"
        yield from (f"{'':{MARGIN}}  {line}" for line in remedy[1:])
