"""Programs of the system that do not answer: `systemctl`, say. Real ones, that sleep."""

import os
from pathlib import Path

import pytest

from mooring.cli.doctor import checks_of_machine
from mooring.cli.service import managers as service_managers
from mooring.cli.service.managers import Systemd
from mooring.errors import Unavailable


@pytest.fixture(autouse=True)
def _sleepy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_a_manager_that_hangs_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(service_managers, "PATIENCE_S", 0.1)
    with pytest.raises(Unavailable, match="systemctl does not answer"):
        Systemd({"XDG_CONFIG_HOME": str(tmp_path)}).enable()


def test_a_desktop_whose_path_nobody_tells_has_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_of_machine, "PATIENCE_S", 0.1)
    [finding] = checks_of_machine.check_desktop_path({"PATH": os.environ["PATH"]})
    assert finding.level == "ok" or checks_of_machine.USUAL_PATH in finding.text
