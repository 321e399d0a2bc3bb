"""The C programs of the benchmark, built into `.bench/`: `python -m bench.programs` prints where they are."""

import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

__all__ = ["FOLDER", "SOURCES", "build", "log_of"]

SOURCES = Path(__file__).parent / "native"
FOLDER = Path(__file__).parents[1] / ".bench"


def build(name: str, *, folder: Path = FOLDER) -> Path:
    """The program of `native/NAME.c`, compiled if its sources are newer."""
    program = folder / name
    sources = [SOURCES / f"{name}.c", *SOURCES.glob("*.h")]
    if program.exists() and program.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return program
    folder.mkdir(exist_ok=True)
    argv = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(sources[0])]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError("no C compiler (Debian: apt-get install gcc libc6-dev)") from None
    if done.returncode:
        raise RuntimeError(f"{name}.c does not compile:\n{done.stderr}")
    return program


def log_of(name: str) -> BinaryIO:
    """Where a program that is measured may write, begun anew."""
    folder = FOLDER / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / f"{name}.log").open("wb")


if __name__ == "__main__":
    for source in sorted(SOURCES.glob("*.c")):
        sys.stdout.write(f"{build(source.stem)}\n")
