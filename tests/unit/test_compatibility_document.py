"""docs/compatibility.md says what the matrix expects, and its part in the normal suite leaves nothing out."""

from itertools import product

from tests.e2e.matrix.cells import CELLS, COVERING, MODERN, REVISIONS, TRANSPORTS, Cell
from tests.e2e.matrix.table import PAGE, Outcome, everything_expected, page, table


def test_the_page_is_what_is_expected() -> None:
    assert PAGE.read_text() == page(everything_expected()), "python -m tests.e2e.matrix --write"


def test_all_that_exists_is_tried() -> None:
    combinations = {Cell(*combination) for combination in product(REVISIONS, REVISIONS, TRANSPORTS)}
    missing = combinations - set(CELLS)
    assert missing == {Cell(MODERN, server, "sse") for server in REVISIONS}


def test_the_part_in_the_normal_suite_has_every_pair() -> None:
    assert set(COVERING) <= set(CELLS)
    for one, other in (("client", "server"), ("client", "transport"), ("server", "transport")):
        assert {(getattr(cell, one), getattr(cell, other)) for cell in COVERING} == {
            (getattr(cell, one), getattr(cell, other)) for cell in CELLS
        }


def test_a_failure_is_shown_with_its_transport() -> None:
    results = everything_expected()
    results[Cell("2024-11-05", MODERN, "ws")]["cancel"] = Outcome.FAILS
    [row] = [line for line in table(results).splitlines() if "✗" in line]
    assert row.startswith(f"| 2024-11-05 | {MODERN} |") and "✗ ws" in row
