"""One cell, tried: a host, a server behind it, a client in front."""

import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import era_server
from tests.e2e.matrix.cells import MODERN, Cell
from tests.e2e.matrix.checks import FEATURES, Trial
from tests.e2e.matrix.clients import HandshakeClient, ModernClient
from tests.e2e.matrix.table import Outcome, Outcomes
from tests.e2e.matrix.wires import wire_of
from tests.hosting import Host, hosting


async def try_cell(cell: Cell) -> tuple[Outcomes, list[Exception]]:
    """How each feature fared, and why those that failed did."""
    outcomes: Outcomes = {feature.name: Outcome.ABSENT for feature in FEATURES}
    failures: list[Exception] = []
    left = deque(feature for feature in FEATURES if feature.exists(cell))
    with TemporaryDirectory() as folder:
        server = (sys.executable, era_server.__file__, cell.server, "--record", folder)
        async with hosting(server, drain_timeout_s=1.0) as host:
            while left:  # what comes after a failure has a client of its own
                async with _begun(cell, host, Path(folder)) as trial:
                    while left:
                        feature = left.popleft()
                        try:
                            await feature.check(trial)
                        except Exception as error:
                            error.add_note(f"{feature.name}: {cell}")
                            failures.append(error)
                            outcomes[feature.name] = Outcome.FAILS
                            break
                        outcomes[feature.name] = Outcome.WORKS
    return outcomes, failures


@asynccontextmanager
async def _begun(cell: Cell, host: Host, record: Path) -> AsyncIterator[Trial]:
    async with wire_of(cell, host) as wire:
        client = (ModernClient if cell.client == MODERN else HandshakeClient)(wire, cell.client)
        yield Trial(cell, client, await client.begin(), record)
