"""What became of clients' files: for people, file by file; for programs, as JSON."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import NamedTuple

import click

from mooring.cli.files.secret_looks import masked
from mooring.cli.servers.telling import Json
from mooring.cli.terminal.words import DIM, GREEN, RED, colourful, painted, printable, tell
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.table import load_table

__all__ = [
    "Doing",
    "client_name",
    "echo_wrapped",
    "finish",
    "outcome_json",
    "show_outcomes",
    "shown_difference",
    "shown_path",
    "told_change",
]

DONE = {
    Change.ADDED: ("is added", "are added"),
    Change.UPDATED: ("is brought up to date", "are brought up to date"),
    Change.REMOVED: ("is taken out", "are taken out"),
    Change.RESTORED: ("is as it was before", "are as they were before"),
    Change.UNCHANGED: ("is there already", "are there already"),
}
WOULD = {
    **DONE,
    Change.ADDED: ("would be added",) * 2,
    Change.UPDATED: ("would be brought up to date",) * 2,
    Change.REMOVED: ("would be taken out",) * 2,
}
"""In words, of one server and of several."""
NOT_THERE = ("is not there", "are not there")
"""Of what was to be taken out, and is unchanged."""


class Doing(NamedTuple):
    """What was being done, as far as words depend on it."""

    dry_run: bool = False
    is_removal: bool = False
    differences: bool = True


DOING = Doing()
COLOURS = {"+": GREEN, "-": RED}
INDENT = "  "


def client_name(id: str) -> str:
    """As its makers call it."""
    client = load_table().get(id)
    return id if client is None else client.name


def shown_path(path: Path | str) -> str:
    """As people write it: `~` for the home directory; safe for a terminal."""
    text, home = str(path), str(Path.home())
    return printable(f"~{text.removeprefix(home)}" if text.startswith(f"{home}/") else text)


def echo_wrapped(text: str, indent: str = "") -> None:
    """On lines that fit a terminal, the second and later ones a bit further in."""
    for line in wrapped(printable(text), indent):
        click.echo(line)


def wrapped(text: str, indent: str = "") -> list[str]:
    """The same as lines; one line where nobody looks."""
    if not sys.stdout.isatty():
        return [indent + text]
    width = get_terminal_size().columns
    further = indent + INDENT
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def told_change(outcomes: Sequence[Outcome], doing: Doing = DOING) -> str:
    """In words; all of them are of the same kind."""
    one, many = (WOULD if doing.dry_run else DONE)[outcomes[0].change]
    if doing.is_removal and outcomes[0].change is Change.UNCHANGED:
        one, many = NOT_THERE
    return f"{', '.join(outcome.server for outcome in outcomes)} {one if len(outcomes) == 1 else many}"


def finish(outcomes: Sequence[Outcome], doing: Doing = DOING, *, as_json: bool, nothing: str) -> int:
    """Show all of it, and return the exit status. `nothing`: what is said if there is nothing to show."""
    if as_json:
        click.echo(json.dumps([outcome_json(one) for one in outcomes], indent=2))
    elif not outcomes:
        click.echo(nothing)
    else:
        show_outcomes(outcomes, doing)
    return 1 if any(one.change is Change.REFUSED for one in outcomes) else 0


def outcome_json(outcome: Outcome) -> Json:
    """For programs."""
    error = None
    if outcome.change is Change.REFUSED:
        error = {"code": outcome.code, "message": outcome.error, "hint": outcome.hint}
    return {
        "client": outcome.client,
        "path": str(outcome.path),
        "project": None if outcome.project is None else str(outcome.project),
        "server": outcome.server,
        "change": str(outcome.change),
        "difference": shown_difference(outcome.difference),
        "next": outcome.next,
        "note": "" if error else outcome.hint,
        "snippet": outcome.snippet,
        "error": error,
    }


def show_outcomes(outcomes: Iterable[Outcome], doing: Doing = DOING) -> None:
    """A paragraph for each file; what went wrong there is told on stderr, after it."""
    begun = False
    for (id, path), group in groupby(outcomes, key=lambda one: (one.client, one.path)):
        of_file = list(group)
        if _is_as_before(of_file):
            echo_wrapped(f"{client_name(id)}: {told_change(of_file, doing)}")
            continue
        if begun:
            click.echo()
        begun = True
        echo_wrapped(f"{client_name(id)}: {shown_path(path)}")
        _show_file(of_file, doing)


def _is_as_before(outcomes: Sequence[Outcome]) -> bool:
    """Was nothing done with the file, because nothing was to be done?"""
    changes = {one.change for one in outcomes}
    return len(changes) == 1 and (
        changes == {Change.UNCHANGED}
        or (changes == {Change.RESTORED} and not any(one.difference for one in outcomes))
    )


def _show_file(outcomes: list[Outcome], doing: Doing) -> None:
    for one in outcomes if doing.differences else ():
        _show_difference(shown_difference(one.difference))
    for change, group in groupby(outcomes, key=lambda one: one.change):
        if change is Change.REFUSED:
            for refusal in group:
                _tell_refusal(refusal)
        else:
            echo_wrapped(told_change(list(group), doing), INDENT)
    done = [one for one in outcomes if one.change is not Change.REFUSED]
    for text in dict.fromkeys(one.hint for one in done if one.hint):
        echo_wrapped(text, INDENT)
    for text in dict.fromkeys(one.next for one in done if one.next):
        echo_wrapped(f"→ {text}", INDENT)


def shown_difference(difference: str) -> str:
    """Without neighbours that only got or lost a comma, and without what looks like a secret."""
    lines = difference.splitlines()
    bare = {sign: {line[1:].rstrip(",") for line in lines if line[:1] == sign} for sign in "+-"}
    same = bare["+"] & bare["-"]
    return "\n".join(line[:1] + masked(line[1:]) for line in lines if line[1:].rstrip(",") not in same)


def _show_difference(difference: str) -> None:
    colours = colourful(sys.stdout, os.environ)
    for line in difference.splitlines():
        colour = COLOURS.get(line[:1], DIM) if colours else ""
        click.echo(painted(f"{INDENT}{printable(line)}", colour))


def _tell_refusal(outcome: Outcome) -> None:
    sys.stdout.flush()  # what was said of that file comes first, wherever both go
    about = f"{outcome.client}: {outcome.server}" if outcome.server else outcome.client
    tell("error", f"{about}: {outcome.error}")
    if outcome.hint:
        tell("hint", outcome.hint)
    if outcome.snippet:
        click.echo(f"To paste into {shown_path(outcome.path)}:", err=True)
        for line in outcome.snippet.splitlines():
            click.echo(f"{INDENT}{printable(line)}", err=True)
