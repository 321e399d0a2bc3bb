"""Any client revision at any server revision on any transport: what exists on both sides works."""

import pytest

from tests.e2e.matrix.cells import CELLS, COVERING, Cell
from tests.e2e.matrix.running import try_cell
from tests.e2e.matrix.table import Results, expected

A_PART = [pytest.param(cell, id=str(cell)) for cell in COVERING]
ALL = [pytest.param(cell, id=f"all-{cell}", marks=pytest.mark.slow) for cell in CELLS]


@pytest.mark.parametrize("cell", A_PART + ALL)
async def test_what_both_have_works(cell: Cell, results: Results) -> None:
    results[cell], failures = await try_cell(cell)
    if failures:
        raise ExceptionGroup(str(cell), failures)
    assert results[cell] == expected(cell)
