"""Changes a file, and dies after the n-th step, for n = 0, 1, 2, …

    python killed_editor.py DIRECTORY SCENARIO [twice]

A step is whatever makes a difference on the disk: a first run finds out before which lines of the code there
has been one, and each of the others is killed before one of these, but for the last, which is not killed.
Each has a process of its own and a copy of DIRECTORY/0, which is DIRECTORY/n. Prints how many there are. With
`twice`, whoever comes after each of them is killed after each step of its recovery too.

In some scenarios a client writes the file just when it is replaced; when it has had its last word, there is a
file `written` beside the folder of the file.
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

NEVER = 0
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


def on_disk(directory: Path) -> list[object]:
    found: list[object] = []
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        found += [path, status.st_ino, status.st_mode, status.st_nlink, path.is_file() and path.read_bytes()]
    return found


def before_each_line(act: Callable[[int], object]) -> None:
    lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in SUBJECTS:
            return None
        if event == "line":
            lines += 1
            act(lines)
        return trace

    sys.settrace(trace)


def run(act: Callable[[], object], before_line: Callable[[int], object]) -> int:
    """In a process of its own; returns its status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            before_each_line(before_line)
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def die_before(last: int) -> Callable[[int], None]:
    def die(line: int) -> None:
        if line == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def steps(directory: Path, act: Callable[[], object]) -> list[int]:
    """The first line at which the disk is as it is then, for each state in which it is."""
    found = directory.with_name("lines")
    found.write_text("")
    last: list[object] = []

    def look(line: int) -> None:
        nonlocal last
        now = on_disk(directory)
        if now != last:
            last = now
            with found.open("a") as file:
                print(line, file=file)

    if run(act, look) != 0:
        sys.exit("failed")
    return [int(line) for line in found.read_text().split()]


class Runs:
    """Each in a new copy."""

    def __init__(self, base: Path, name: str) -> None:
        self._base, self._name = base, name
        self.number = 0

    def copy(self, name: str) -> Path:
        directory = self._base / name
        shutil.copytree(self._base / "0", directory)
        return directory

    def change(self, directory: Path) -> Callable[[], object]:
        def act() -> None:
            edit = scenario(self._name, directory)
            Files(directory / "state").change(directory / "home" / "mcp.json", edit)

        return act

    @staticmethod
    def recover(directory: Path) -> Callable[[], object]:
        return lambda: Files(directory / "state").recover()

    def die(self, line: int) -> Path:
        """Before that line, in a new copy."""
        self.number += 1
        directory = self.copy(str(self.number))
        if run(self.change(directory), die_before(line)) != (0 if line == NEVER else signal.SIGKILL):
            sys.exit("failed")
        return directory

    def die_twice(self, line: int) -> None:
        directory = self.copy(f"first-{line}")
        if run(self.change(directory), die_before(line)) != signal.SIGKILL:
            sys.exit("failed")
        for second in steps(directory, self.recover(directory)):
            again = self.die(line)
            if run(self.recover(again), die_before(second)) != signal.SIGKILL:
                sys.exit("failed")


def main() -> None:
    os.fsync = lambda fd: None  # kill -9 does not need it, and it takes most of the time
    runs = Runs(Path(sys.argv[1]), sys.argv[2])
    first = runs.copy("first")
    for line in steps(first, runs.change(first)):
        if "twice" in sys.argv:
            runs.die_twice(line)
        else:
            runs.die(line)
    runs.die(NEVER)
    print(runs.number)


if __name__ == "__main__":
    main()
