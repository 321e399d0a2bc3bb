"""Writes secrets, and dies before the n-th line of the vault's code, for n = 1, 2, …

    python vault_writer.py DIRECTORY

Each time in a copy of DIRECTORY/0 and in a process of its own; DIRECTORY/n is what that one left. Prints the
number of the first that was not killed.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from mooring.secrets import vault, whole_files
from mooring.secrets.vault import Vault

MOST = 1000


def write(directory: Path) -> None:
    kept = Vault(directory / "secrets.json")
    kept.put("late", "value of late")
    kept.put("early", "changed")
    kept.remove("late")


def die_before_line(number: int) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in (vault.__file__, whole_files.__file__):
            return None
        if event == "line":
            lines += 1
            if lines == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def main() -> None:
    base = Path(sys.argv[1])
    for number in range(1, MOST):
        copy = base / str(number)
        shutil.copytree(base / "0", copy)
        pid = os.fork()
        if pid == 0:
            die_before_line(number)
            write(copy)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            print(number if status == 0 else f"failed: {status}")
            return


if __name__ == "__main__":
    main()
