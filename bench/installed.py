"""Mooring as its users have it: in an environment of its own, with what it needs and nothing else.

With the extra `redis`, for the rows of replicas; nobody else loads it.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

from bench.programs import FOLDER

__all__ = ["mooring_program", "mooring_python"]

PROJECT = Path(__file__).parents[1]
PLACE = FOLDER / "mooring"
WANTED = f"{PROJECT}[redis]"


def mooring_program() -> str:
    """The command, installed if it is not there yet; its code is that of this folder."""
    return str(_place() / "bin" / "mooring")


def mooring_python() -> str:
    """The interpreter that runs it."""
    return str(_place() / "bin" / "python")


@cache
def _place() -> Path:
    done, needs = PLACE / "installed", PROJECT / "pyproject.toml"
    is_old = not done.exists() or done.stat().st_mtime < needs.stat().st_mtime
    if is_old or done.read_text() != WANTED:
        subprocess.run([sys.executable, "-m", "venv", "--clear", PLACE], check=True)
        pip = [str(PLACE / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--editable", WANTED], check=True)
        done.write_text(WANTED)
    return PLACE
