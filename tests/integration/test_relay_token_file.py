"""Whoever writes tokens and dies between any two steps leaves all of a write or nothing."""

import subprocess
import sys
from pathlib import Path

from mooring.relay.token_file import TokenFile, Wanted

# Writes tokens, and dies before the n-th line of the file's code, for n = 1, 2, …: each time in a copy of the
# first folder and in a process of its own. Prints the number of the first that was not killed.
WRITER = """
import os, shutil, signal, sys
from pathlib import Path
from mooring.relay import token_file
from mooring.secrets import whole_files

def write(folder):
    kept = token_file.TokenFile(folder / "tokens.json")
    kept.create(token_file.Wanted(name="late", calls=("*",)))
    kept.revoke("early")

def die_before_line(number):
    lines = 0
    def trace(frame, event, _argument):
        nonlocal lines
        if frame.f_code.co_filename not in (token_file.__file__, whole_files.__file__):
            return None
        if event == "line":
            lines += 1
            if lines == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)

base = Path(sys.argv[1])
for number in range(1, 1000):
    shutil.copytree(base / "0", base / str(number))
    pid = os.fork()
    if pid == 0:
        die_before_line(number)
        write(base / str(number))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        print(number if status == 0 else f"failed: {status}")
        break
"""
STATES = [["early"], ["early", "late"], ["late"]]


def names(kept: TokenFile) -> list[str]:
    return [record.name for record in kept.all()]


def test_a_death_between_any_two_steps(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    TokenFile(tmp_path / "0" / "tokens.json").create(Wanted(name="early", servers=("time",)))
    done = subprocess.run(
        [sys.executable, "-c", WRITER, tmp_path], capture_output=True, text=True, timeout=100, check=True
    )
    last = int(done.stdout)
    assert last > 50
    seen = []
    leftovers = 0
    for number in range(1, last + 1):
        kept = TokenFile(tmp_path / str(number) / "tokens.json")
        seen.append(STATES.index(names(kept)))
        leftovers += len(list(kept.path.parent.glob("*.new")))
        kept.create(Wanted(name="next", calls=("*",)))
        assert names(kept) == sorted([*STATES[seen[-1]], "next"])
        assert {path.name for path in kept.path.parent.iterdir()} == {"tokens.json", "tokens.lock"}
    assert seen == sorted(seen) and set(seen) == {0, 1, 2}, "death came between all of them"
    assert leftovers, "and in the middle of a write"
