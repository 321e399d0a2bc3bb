from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ledger import Ledger
from tests.replicas.stores import Server, running_server


@pytest.fixture(params=["redis", pytest.param("valkey", marks=pytest.mark.slow)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """Whatever holds with the one holds with the other."""
    async with running_server(request.param, tmp_path / "store") as server:
        yield server


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "ledger").touch()
    return Ledger(tmp_path / "ledger")
