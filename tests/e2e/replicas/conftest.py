from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ledger import Ledger
from tests.replicas.stores import Server, running_server


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Server]:
    async with running_server("redis", tmp_path / "store") as server:
        yield server


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "ledger").touch()
    return Ledger(tmp_path / "ledger")
