"""What `mooring rm` says of clients whose files the daemon has not put right."""

from pathlib import Path

import pytest

from mooring.cli.clients import after_rm
from mooring.cli.clients.after_rm import Farewell
from mooring.clients.machine import Machine
from mooring.clients.registry import Registry
from tests.client_home import target


def test_entries_that_stay_are_told_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MOORING_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(after_rm, "PATIENCE_S", 0.1)
    (tmp_path / "state").mkdir(mode=0o700)
    registry = Registry(tmp_path / "state" / "clients", Machine.this({"HOME": str(tmp_path)}))
    for client in ("cursor", "zed"):
        registry.add(registry.site(client), [target("notes")])
    farewell = Farewell(["notes", "other"])
    farewell.tell(["notes", "other"])
    assert capsys.readouterr().err == "note: Cursor, Zed: notes is still there: see mooring events\n"
