"""The command by which another program can start `mooring`: by an absolute path, whatever its PATH is."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["own_command"]

_NAME = "mooring"


def own_command(environment: Mapping[str, str]) -> tuple[str, ...]:
    """How `mooring` is started: the one that runs now, if there is a file of it, else the module.

    Links are not followed: tools that install programs renew a link and keep its name.
    """
    beside = Path(sys.executable).with_name(_NAME)
    for candidate in (beside, Path(sys.argv[0])):
        if candidate.name == _NAME and _can_be_run(candidate):
            return (str(candidate.absolute()),)
    found = shutil.which(_NAME, path=environment["PATH"]) if environment.get("PATH") else None
    return (str(Path(found).absolute()),) if found else (sys.executable, "-m", _NAME)


def _can_be_run(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
