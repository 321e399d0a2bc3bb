"""`make demo`: the tour runs through, and says so honestly when it does not."""

import re
import subprocess
import sys

import pytest

from mooring.demo import tour

PATIENCE_S = 90.0


def test_the_tour() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mooring.demo.tour"],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "echo 'Ahoy!' → 'Ahoy!'" in done.stdout
    answered = re.findall(r"counter → (\d+), answered by process (\d+)", done.stdout)
    assert [count for count, _ in answered] == ["1", "2", "3", "1"]
    pids = [pid for _, pid in answered]
    assert len(set(pids[:3])) == 1
    assert pids[3] != pids[0]
    assert "Exit status 0; processes left: none" in done.stdout
    assert "http://127.0.0.1:4670/mcp" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_tour_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(tour.Mooring):
        def __init__(self, _command: list[str]) -> None:
            code = "import sys; print('{}\\n[]\\nerror: the port is taken', file=sys.stderr)"
            super().__init__([sys.executable, "-c", code])

    monkeypatch.setattr(tour, "Mooring", Broken)
    assert tour.main() == 1
    said = capsys.readouterr().out
    assert "Mooring ended before it reported 'listening'" in said
    assert "   error: the port is taken" in said
    assert "Try it yourself" not in said
