"""A run on the terminal: the table with ratios, the promises, what changed since the last run.

    print_table(results, sys.stdout)
    print_claims(claims.judge(results), sys.stdout)
    print_changes(compare.compare(old, new), compare.other_machine(old, new), sys.stdout)

Colours only where somebody looks: not into a pipe or a file, not with NO_COLOR set.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from bench.claims import Claim
from bench.compare import Change, worse
from bench.figures import figure, times, with_unit
from bench.ratios import advantage
from bench.results import MOORING, Results

__all__ = ["print_changes", "print_claims", "print_table"]

_PLAIN, _BOLD, _DIM, _RED, _GREEN, _YELLOW = "", "1", "2", "31", "32", "33"
_MARKS = {"kept": ("✓", _GREEN), "fell short": ("✗", _RED), "not measured": ("?", _YELLOW)}


class _Line(NamedTuple):
    title: str
    cells: list[str]
    style: str


class _Paper:
    """Where the report is written: escape sequences on a terminal, the bare text elsewhere."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._coloured = file.isatty() and not os.environ.get("NO_COLOR")

    def write(self, text: str = "") -> None:
        print(text.rstrip(), file=self._file)

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._coloured and style and text.strip() else text


def print_table(results: Results, file: TextIO) -> None:
    """Each row's figures, and beneath them how many times as good Mooring is; then the notes."""
    paper = _Paper(file)
    lines = list(_lines(results))
    title_width = max(len(line.title) for line in lines)
    widths = [max(map(len, column)) + 2 for column in zip(*(line.cells for line in lines), strict=True)]
    for line in lines:
        cells = [
            paper.styled(cell.rjust(width), line.style or (_BOLD if target == MOORING else _PLAIN))
            for cell, width, target in zip(line.cells, widths, results.targets, strict=True)
        ]
        paper.write(paper.styled(line.title.ljust(title_width), line.style) + "".join(cells))
    paper.write()
    paper.write(paper.styled("n×: Mooring is n times as good there", _DIM))
    for row in results.rows:
        for target, note in row.notes.items():
            paper.write(paper.styled(f"{target}, {row.title}: {note}", _DIM))


def _lines(results: Results) -> Iterator[_Line]:
    # pypi-mcp-proxy takes two lines, so that seven targets fit on a terminal.
    heads = [target.rpartition("-mcp-")[0] for target in results.targets]
    yield _Line("", heads, _BOLD)
    names = [target.removeprefix(f"{head}-") for target, head in zip(results.targets, heads, strict=True)]
    yield _Line("", names, _BOLD)
    for row in results.rows:
        values = [figure(row.values.get(target), row.unit) for target in results.targets]
        yield _Line(f"{row.title}, {row.unit}", values, _PLAIN)
        ratios = ["" if target == MOORING else times(advantage(row, target)) for target in results.targets]
        if any(ratios):
            yield _Line("", ratios, _DIM)


def print_claims(claims: list[Claim], file: TextIO) -> None:
    """A line per promise: kept or not, what was measured, the bound; and beneath, the reason if not."""
    paper = _Paper(file)
    width = max(len(claim.text) for claim in claims)
    for claim in claims:
        mark, style = _MARKS[claim.verdict]
        paper.write(f"{paper.styled(mark, style)} {claim.text:<{width}}  {claim.measured:>10}  {claim.bound}")
        if claim.verdict != "kept":
            paper.write(paper.styled(f"  {claim.verdict}: {claim.reason or 'no reason stated yet'}", style))


def print_changes(changes: list[Change], surroundings: list[str], file: TextIO) -> None:
    """What got slower since the recorded run, what faster; a word of caution where the machine differs."""
    paper = _Paper(file)
    if surroundings:
        paper.write(
            paper.styled(f"Not the machine of the recorded run ({'; '.join(surroundings)}):", _YELLOW)
        )
        paper.write(paper.styled("read times and rates with care.", _YELLOW))
    bad = worse(changes)
    good = [change for change in changes if change.verdict == "better"]
    for change in bad:
        paper.write(paper.styled(_sentence(change), _RED))
    for change in good:
        paper.write(paper.styled(_sentence(change), _GREEN))
    same = sum(change.verdict == "tie" for change in changes)
    paper.write(
        f"Since the recorded run: {len(bad)} worse, {len(good)} better, {same} the same within noise."
    )


def _sentence(change: Change) -> str:
    row = change.row
    if change.verdict == "gone":
        return f"not measured any more: {row.title}"
    then, now = figure(change.old, row.unit), with_unit(figure(change.new, row.unit), row.unit)
    text = f"{change.verdict}: {row.title}, {then} → {now}"
    if change.factor is not None:
        text += f" ({change.factor - 1:+.0%})"
    if change.witness is not None:
        text += f"; the minimal bridge {change.witness - 1:+.0%}"
    return text
