"""See the package's own words."""

import argparse
import asyncio
import sys
import traceback

import tests.e2e.matrix
from tests.e2e.matrix.cells import CELLS
from tests.e2e.matrix.running import try_cell
from tests.e2e.matrix.table import PAGE, Results, page, table


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.matrix",
        description=tests.e2e.matrix.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="make docs/compatibility.md of it")
    options = parser.parse_args()
    results, failures = asyncio.run(_try_all())
    print(table(results))
    if options.write:
        PAGE.write_text(page(results))
    return 1 if failures else 0


async def _try_all() -> tuple[Results, list[Exception]]:
    results: Results = {}
    all_failures: list[Exception] = []
    for cell in CELLS:
        results[cell], failures = await try_cell(cell)
        all_failures += failures
        for failure in failures:
            traceback.print_exception(failure)
        print(f"{len(results)}/{len(CELLS)} {cell}", file=sys.stderr)
    return results, all_failures


if __name__ == "__main__":
    sys.exit(main())
