"""What is expected of every cell, and the page that says so."""

from enum import StrEnum
from itertools import product
from pathlib import Path

from tests.e2e.matrix.cells import CELLS, REVISIONS, TRANSPORTS, Cell
from tests.e2e.matrix.checks import FEATURES, Feature

PAGE = Path(__file__).parents[3] / "docs/compatibility.md"
HEADING = """\
# Compatibility

Which client works with which server through Mooring, and how. This page is made by
`python -m tests.e2e.matrix --write`, which tries it all; `tests/e2e/matrix` has how.

A client or server *of a revision* speaks that one and the older ones of its era, as programs do, and nothing
newer: of two handshake revisions the older is spoken. (If a server speaks none that the client knows, it
says so in its answer to `initialize`, which Mooring passes on.) 2026-07-28 stands alone: it is translated, in
both directions.

The transports are those of the client; the server is a process on a pipe.

| | where | clients |
|---|---|---|
| http | `/mcp` | all. Streamable HTTP came with 2025-03-26; an older client that uses it is served too |
| sse | `/sse`, `/messages` | with a handshake: 2026-07-28 has no session, and this transport is one |
| ws | `/ws` | all ([MCP over WebSocket](websocket.md)) |
| stdio | `mooring stdio URL` | all ([mooring stdio](stdio.md)) |

"""
LEGEND = """
✓ works on all of these transports; – one of the two revisions does not have it; ✗ fails, on the transports
named.

"""


class Outcome(StrEnum):
    """Of a feature in a cell."""

    WORKS = "✓"
    ABSENT = "–"
    FAILS = "✗"


Outcomes = dict[str, Outcome]
"""By the name of the feature."""
Results = dict[Cell, Outcomes]


def expected(cell: Cell) -> Outcomes:
    """What exists on both sides works."""
    return {feature.name: Outcome.WORKS if feature.exists(cell) else Outcome.ABSENT for feature in FEATURES}


def everything_expected() -> Results:
    return {cell: expected(cell) for cell in CELLS}


def page(results: Results) -> str:
    """docs/compatibility.md."""
    about = "".join(f"- **{feature.name}**: {feature.about}\n" for feature in FEATURES)
    return HEADING + table(results) + LEGEND + about


def table(results: Results) -> str:
    """A row for each client and server; transports that were not tried are not named."""
    names = [feature.name for feature in FEATURES]
    rows = [["client", "server", "transports", *names], ["---"] * (len(names) + 3)]
    for client, server in product(REVISIONS, REVISIONS):
        tried = {
            transport: results[cell]
            for transport in TRANSPORTS
            if (cell := Cell(client, server, transport)) in results
        }
        if tried:
            rows.append([client, server, " ".join(tried), *(_mark(tried, feature) for feature in FEATURES)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _mark(tried: dict[str, Outcomes], feature: Feature) -> str:
    outcomes = {outcomes[feature.name] for outcomes in tried.values()}
    if Outcome.FAILS not in outcomes:
        [outcome] = outcomes
        return outcome
    return " ".join(
        [
            Outcome.FAILS,
            *(name for name, outcomes in tried.items() if outcomes[feature.name] is Outcome.FAILS),
        ]
    )
