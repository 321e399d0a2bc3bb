"""Changes a file, and dies before the n-th line of the code that does it, for n = 1, 2, …

    python killed_editor.py DIRECTORY SCENARIO

Each time in a copy of DIRECTORY/0 and in a process of its own; DIRECTORY/n is what that one left. Prints the
number of the first that was not killed. In some scenarios a client writes the file just when it is replaced;
when it has had its last word, there is a file `written` beside the folder of the file.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from mooring.clients import backups, disk, exchanging, files, replacing
from mooring.clients.files import Files

MOST = 3000
SUBJECTS = {module.__file__ for module in (backups, disk, exchanging, files, replacing)}


def edit(data: bytes | None) -> bytes:
    return (data or b"") + b"ours "


def write_before(number: int, write: Callable[[], object]) -> None:
    """Before the n-th exchange."""
    exchange, times = exchanging.exchange, 0

    def written_first(path: Path, other: Path) -> None:
        nonlocal times
        times += 1
        if times == number:
            write()
        exchange(path, other)

    exchanging.exchange = written_first


def scenario(name: str, directory: Path) -> Callable[[bytes | None], bytes | None]:
    path = directory / "home" / "mcp.json"

    def by_rename(data: bytes) -> None:
        begun = directory / "begun"
        begun.write_bytes(data)
        begun.replace(path)

    def last_word(write: Callable[[bytes], object] = by_rename) -> None:
        write(b"client's ")
        (directory / "written").touch()

    if name == "rename":
        write_before(1, last_word)
    elif name == "in place":
        write_before(1, lambda: last_word(path.write_bytes))
    elif name == "again":
        # Once before ours comes, and once more before that is put back.
        write_before(1, lambda: by_rename(b"first "))
        write_before(2, last_word)
    elif name == "not replaced":
        replacing._may_replace = lambda path, status: False
    elif name == "no exchange":
        exchanging._function = lambda: None  # type: ignore[assignment]
    return (lambda _: None) if name == "removal" else edit


def die_before_line(number: int) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in SUBJECTS:
            return None
        if event == "line":
            lines += 1
            if lines == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def main() -> None:
    base, name = Path(sys.argv[1]), sys.argv[2]
    os.fsync = lambda fd: None  # kill -9 does not need it, and it takes most of the time
    for number in range(1, MOST):
        copy = base / str(number)
        shutil.copytree(base / "0", copy)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                change = scenario(name, copy)
                ours = Files(copy / "state")
                die_before_line(number)
                ours.change(copy / "home" / "mcp.json", change)
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            print(number if status == 0 else f"failed: {status}")
            return


if __name__ == "__main__":
    main()
