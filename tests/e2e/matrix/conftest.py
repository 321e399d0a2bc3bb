"""At the end of a run, the table of all cells that were tried."""

from collections.abc import Iterator

import pytest

from tests.e2e.matrix.table import Results, table

RESULTS = pytest.StashKey[Results]()


@pytest.fixture
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """Where a test puts what it has seen."""
    yield request.config.stash.setdefault(RESULTS, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    results = config.stash.get(RESULTS, {})
    if results:
        terminalreporter.section("compatibility")
        terminalreporter.write(table(results))
