"""Whoever writes secrets and dies between any two steps leaves all of a write or nothing."""

import subprocess
import sys
from pathlib import Path

from mooring.secrets.vault import Vault

WRITER = Path(__file__).parent / "vault_writer.py"
STATES: list[dict[str, str | None]] = [
    {"early": "value of early"},
    {"early": "value of early", "late": "value of late"},
    {"early": "changed", "late": "value of late"},
    {"early": "changed"},
]


def values(kept: Vault) -> dict[str, str | None]:
    return {name: kept.look_up(name) for name in kept.all()}


def test_a_death_between_any_two_steps(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    Vault(tmp_path / "0" / "secrets.json").put("early", "value of early")
    done = subprocess.run(
        [sys.executable, WRITER, tmp_path], capture_output=True, text=True, timeout=100, check=True
    )
    last = int(done.stdout)
    assert last > 50
    seen = []
    leftovers = 0
    for number in range(1, last + 1):
        kept = Vault(tmp_path / str(number) / "secrets.json")
        seen.append(STATES.index(values(kept)))
        leftovers += len(list(kept.path.parent.glob("*.new")))
        kept.put("next", "works")
        assert values(kept) == {**STATES[seen[-1]], "next": "works"}
        assert {path.name for path in kept.path.parent.iterdir()} == {"secrets.json", "secrets.lock"}
    assert seen == sorted(seen) and set(seen) == {0, 1, 2, 3}, "death came between all of them"
    assert leftovers, "and in the middle of a write"
