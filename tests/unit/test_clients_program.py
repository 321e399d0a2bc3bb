"""The command by which a client starts `mooring`: absolute, and of the Mooring that wrote it."""

import sys
from pathlib import Path

import pytest

from mooring.clients.program import own_command


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python with no `mooring` beside it, started as a module."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "mooring/__main__.py")])
    return tmp_path


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_the_one_beside_this_python_is_first(bare: Path) -> None:
    beside = program(bare / "bin/mooring")
    program(bare / "other/mooring")
    assert own_command({"PATH": str(bare / "other")}) == (str(beside),)


def test_a_link_keeps_its_name(bare: Path) -> None:
    program(bare / "versions/1/mooring")
    link = bare / "bin/mooring"
    link.parent.mkdir()
    link.symlink_to(bare / "versions/1/mooring")
    assert own_command({}) == (str(link),)


def test_the_program_that_was_started_is_next(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "here/mooring")
    monkeypatch.chdir(bare)
    monkeypatch.setattr(sys, "argv", ["here/mooring", "client", "add"])
    assert own_command({}) == (str(bare / "here/mooring"),)


def test_then_the_one_that_is_found_by_its_name(bare: Path) -> None:
    found = program(bare / "other/mooring")
    program(bare / "first/mooring", mode=0o644)
    assert own_command({"PATH": f"{bare / 'first'}:{bare / 'other'}"}) == (str(found),)


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}, {"PATH": "/nowhere"}])
def test_without_any_file_the_module_is_run(bare: Path, environment: dict[str, str]) -> None:
    assert own_command(environment) == (str(bare / "bin/python"), "-m", "mooring")


def test_a_program_of_another_name_is_not_taken_for_ours(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program(bare / "bin/pytest")
    monkeypatch.setattr(sys, "argv", [str(other)])
    assert own_command({}) == (str(bare / "bin/python"), "-m", "mooring")
