"""What is missing is named itself: `mooring` on the package index is somebody else's project."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from mooring.errors import EXTRAS, UserError, how_to_install
from mooring.replicas.redis_needed import redis_needed

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"mooring\[|\binstall\s+(?:--?\S+\s+)*['\"]?mooring\b(?! run)")


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {name: [what] for name, what in EXTRAS.items()} == project["optional-dependencies"]


def test_the_command_is_for_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/home/a b/python")
    words = shlex.split(how_to_install("redis"))
    assert words == ["/home/a b/python", "-m", "pip", "install", EXTRAS["redis"]]


def test_a_missing_client_for_redis_is_named() -> None:
    with pytest.raises(UserError) as missing, redis_needed():
        raise ModuleNotFoundError(name="redis.asyncio")
    assert missing.value.code == "redis_missing"
    assert how_to_install("redis") in missing.value.hint


def test_nobody_is_told_to_install_a_stranger() -> None:
    places = [*ROOT.glob("src/mooring/**/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*")]
    places += [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    found = [
        f"{path}: {line}" for path in places for line in path.read_text().splitlines() if OURS.search(line)
    ]
    assert not found
