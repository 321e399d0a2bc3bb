"""Without `--sessions` nothing of Redis is there: its client may be broken, or missing."""

import json
from pathlib import Path

import pytest

from tests.e2e.mooring import LINUX_ONLY, running_mooring
from tests.e2e.replicas.fleet import Roaming, port_of
from tests.e2e.replicas.test_redis_trouble import told_at_start
from tests.ledger import Ledger

pytestmark = LINUX_ONLY

BROKEN = """\
from pathlib import Path
Path(__file__).with_name("was-imported").touch()
raise ModuleNotFoundError(name="redis")
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """There when somebody has asked for the client of Redis, which cannot be had."""
    package = tmp_path / "path" / "redis"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    return package / "was-imported"


async def test_a_server_alone_does_not_import_it(imported: Path, ledger: Ledger) -> None:
    async with running_mooring(server=ledger.command) as mooring, Roaming([port_of(mooring)]) as client:
        await client.initialize()
        assert (await client.mark("m"))["result"]["mark"] == "m"
        assert (await mooring.get("/readyz"))[0] == 200
        assert "replicas" not in json.dumps(await mooring.get("/readyz"))
    assert not imported.exists()


async def test_one_of_several_says_what_is_missing(imported: Path) -> None:
    status, said = await told_at_start("--sessions", "redis://127.0.0.1:1/0")
    assert (status, said["code"]) == (2, "redis_missing")
    assert imported.exists()
