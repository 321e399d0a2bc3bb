"""The recorded run as pages: `docs/performance.md` with its picture, and what `docs/scaling.md` makes of it.

    python -m bench.document        # again from the recorded full run, after a reason was added, say
    write(results)                  # what `python -m bench --record` does after a full run

The pages are written by people but for the part between two marks, which is made here.
"""

import itertools
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from bench import claims, plot
from bench.figures import figure, times
from bench.machine import sentence
from bench.ratios import advantage
from bench.results import MOORING, TARGETS, Results, Row, recorded
from bench.simulation import page as simulation_page
from bench.simulation.costs import MissingRows, costs_of
from bench.simulation.findings import SEED, explore, sizes_of
from bench.simulation.fleet import Fleet

__all__ = [
    "BEGIN",
    "END",
    "PAGE",
    "PICTURE",
    "SCALING",
    "render",
    "render_scaling",
    "replace_generated",
    "write",
]

_DOCS = Path(__file__).parent.parent / "docs"
PAGE = _DOCS / "performance.md"
PICTURE = _DOCS / "performance.svg"
SCALING = _DOCS / "scaling.md"

BEGIN = "<!-- made by `python -m bench.document` from here: changes are overwritten -->"
END = "<!-- made by `python -m bench.document` up to here -->"


def write(run: Results) -> None:
    """Put the run into the pages, and draw its picture."""
    PAGE.write_text(replace_generated(PAGE.read_text(), render(run)))
    PICTURE.write_text(plot.draw(run))
    SCALING.write_text(replace_generated(SCALING.read_text(), render_scaling(run)))


def replace_generated(page: str, generated: str) -> str:
    """The page with another part between the marks; ValueError where the marks are not there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks its marks: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{generated}{END}{after}"


def render(run: Results) -> str:
    """The generated part, as Markdown."""
    parts = (_surroundings(run), _promises(run), _comparison(run), _alone(run), _notes(run))
    return "\n".join(line for part in parts for line in [*part, ""])


def render_scaling(run: Results) -> str:
    """How far replicas go with what the run measured, as Markdown."""
    try:
        costs = costs_of(run)
    except MissingRows:
        return "Not measured yet: the recorded run has no replicas.\n\n"
    fleet = Fleet()
    found = explore(fleet, sizes_of(fleet), costs, SEED)
    measured = f"With the costs of {run.date[:10]}, commit `{run.commit}`, {sentence(run.machine)}:"
    return f"{measured}\n\n{simulation_page.render(found)}\n"


def _surroundings(run: Results) -> Iterator[str]:
    yield f"{run.date[:10]}, commit `{run.commit}`. Machine: {sentence(run.machine)}."
    versions = [f"{name} {run.machine[name]}" for name in TARGETS if name in run.machine]
    yield f"Versions: {', '.join(versions)}."
    yield ""
    yield f"![Mooring beside other bridges]({PICTURE.name})"


def _promises(run: Results) -> Iterator[str]:
    yield "### What is promised"
    yield ""
    yield "| promise | measured | bound | |"
    yield "|---|--:|--:|---|"
    for claim in claims.judge(run):
        outcome = "kept"
        if claim.verdict != "kept":
            outcome = f"**{claim.verdict}**: {claim.reason or 'no reason stated yet'}"
        yield f"| {claim.text} | {claim.measured} | {claim.bound} | {outcome} |"


def _comparison(run: Results) -> Iterator[str]:
    yield "### Beside others"
    yield ""
    yield "In brackets: how many times as good Mooring is."
    yield ""
    yield f"| | unit | {' | '.join(run.targets)} |"
    yield f"|---|---|{'--:|' * len(run.targets)}"
    for row in filter(_has_others, run.rows):
        yield f"| {row.title} | {row.unit} | {' | '.join(_cell(row, target) for target in run.targets)} |"


def _alone(run: Results) -> Iterator[str]:
    yield "### Mooring alone"
    yield ""
    yield "| | unit | mooring |"
    yield "|---|---|--:|"
    for row in itertools.filterfalse(_has_others, run.rows):
        yield f"| {row.title} | {row.unit} | {_cell(row, MOORING)} |"


def _has_others(row: Row) -> bool:
    return any(value is not None for target, value in row.values.items() if target != MOORING)


def _cell(row: Row, target: str) -> str:
    value = figure(row.values.get(target), row.unit)
    if target == MOORING:
        return f"**{value}**"
    ratio = times(advantage(row, target))
    return f"{value} ({ratio})" if ratio else value


def _notes(run: Results) -> Iterator[str]:
    if any(row.notes for row in run.rows):
        yield "### Notes"
        yield ""
    for row in run.rows:
        for target, note in row.notes.items():
            yield f"- {row.title}, {target}: {escape(note, quote=False)}"


def main() -> None:
    """Write the pages again from the recorded full run."""
    run = recorded("full")
    if run is None:
        sys.exit("No full run is recorded yet: run `python -m bench --record` first.")
    write(run)


if __name__ == "__main__":
    main()
