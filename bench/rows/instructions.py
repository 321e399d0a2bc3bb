"""Instructions per call, counted by callgrind: a figure that a busy machine does not move.

One call at a time, through the whole program as users run it. It starts uninstrumented, which is faster;
counting begins when the session is open and everything has been called before.
"""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.client import first_answer
from bench.generator import generator
from bench.measuring import Figures, Unable
from bench.results import MINIMAL, MOORING
from bench.rows.fresh import from_scratch
from bench.targets import native_child, spawned

__all__ = ["GROUPS"]

CALLS = 500
START_S = 60.0
"""A program starts some twenty times slower there."""


def _instructions(target: str) -> Figures:
    if shutil.which("valgrind") is None:
        raise Unable("no valgrind (Debian: apt-get install valgrind)")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        # A fixed seed: else the layout of every dict differs from run to run.
        wrapper = ["env", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", "--instr-atstart=no"]
        wrapper += ["--fair-sched=yes", f"--callgrind-out-file={out}"]
        with spawned(target, native_child(), wrapper) as running:
            first_answer(running.port, START_S).leave()
            with generator(running, "-n", str(CALLS)) as load:
                _control(running.process.pid, "--instr=on")
                load()
                _control(running.process.pid, "--zero")
                load()
                _control(running.process.pid, "--dump")
        return Figures({"instructions": _total(out.with_name("out.1")) / CALLS})


def _control(pid: int, command: str) -> None:
    subprocess.run(["callgrind_control", command, str(pid)], capture_output=True, check=True, timeout=60)


def _total(dump: Path) -> int:
    for line in dump.read_text().splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise Unable("callgrind wrote no total")


GROUPS = (
    from_scratch(("instructions",), _instructions, windows=1, quick_windows=1, targets=(MOORING, MINIMAL)),
)
