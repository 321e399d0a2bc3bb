"""A tour through the commands on a terminal of 80 columns, word by word as `golden/tour.txt` has it.

`python -m tests.e2e.test_golden_tour --write` makes that file anew. What differs from run to run (pids, ages,
ports, memory, paths) is shown as a word in angle brackets; nothing else is.
"""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from tests.e2e.program import ROOT
from tests.e2e.terminal import on_terminal
from tests.e2e.test_daemon_command import Home, home

GOLDEN = Path(__file__).with_name("golden") / "tour.txt"
FILE = f"""\
[servers.demo]
command = ["{sys.executable}", "-m", "mooring.demo"]

[servers.other]
command = ["{sys.executable}", "-m", "mooring.demo"]
shared = true
"""
UNTOLD = ("up", "--adopt", "--json")
"""What is done, and not compared: it has much that differs."""
STEPS = (
    ("ls",),
    ("run", "demo", "--", sys.executable, "-m", "mooring.demo"),
    ("ls",),
    ("status", "demo"),
    ("tools", "demo", "add"),
    ("call", "demo", "add", "a=1", "b=2"),
    ("call", "demo", "add", "a=one"),
    ("stop", "demo"),
    ("status", "demo"),
    ("up", "--dry-run"),
    ("start", "demo"),
    UNTOLD,
    ("up",),
    ("ls",),
    ("run", "broken", "--", "false"),
    ("down",),
    ("rm", "--all"),
    ("daemon", "stop"),
)
VARIABLE = (
    (r"\x1b\[[0-9;]*[A-Za-z]", ""),
    (r"\r", ""),
    (re.escape(sys.executable), "<python>"),
    (r"pid \d+", "pid <pid>"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<moment>"),
    (r"\b\d+[smhd] ago", "<age> ago"),
    (r"for \d+[smhd]\b", "for <age>"),
    (r"after \d+\.\d s", "after <time>"),
    (r"restarting in \d s", "restarting in <time>"),
    (r"[\d,]+ MB\b", "<size>"),
    (r" {2}\d+s +(?=\d)", "  <age>   "),
    (r"version \d+\.\d+\.\d+", "version <version>"),
)


async def shown(place: Home, folder: Path, *words: str) -> str:
    """What a person sees who types that."""
    environment = {**place.environment, "NO_COLOR": "1"}
    status, seen = await asyncio.to_thread(on_terminal, environment, *words, folder=folder)
    # Lines that were replaced on the screen were seen, too; only what stayed is compared.
    text = re.sub(r"[^\n]*\r\x1b\[2K", "", seen)
    ending = f"\n(exit status {status})" if status else ""
    return f"{text.rstrip()}{ending}"


async def taken(folder: Path) -> str:
    """The whole tour."""
    (folder / "mooring.toml").write_text(FILE)
    pages = []
    async with home(folder) as place:
        for words in STEPS:
            text = await shown(place, folder, *words)
            if words != UNTOLD:
                pages.append(f"$ mooring {' '.join(words)}\n{text}\n")
    tour = "\n".join(pages).replace(str(folder), "<folder>")
    for pattern, word in VARIABLE:
        tour = re.sub(pattern, word, tour)
    return tour


async def test_the_tour_is_as_it_was(tmp_path: Path) -> None:
    assert await taken(tmp_path) == GOLDEN.read_text(), "python -m tests.e2e.test_golden_tour --write"


def test_it_fits() -> None:
    lines = GOLDEN.read_text().splitlines()
    # A hint is broken between its parts only, whatever their length, so that a command in it can be copied.
    breakable = [line for line in lines if " " in line.removeprefix("hint: ").strip()]
    assert [line for line in breakable if len(line) > 80 and not line.startswith("$ ")] == []


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "--write"
    with tempfile.TemporaryDirectory() as made:
        GOLDEN.write_text(asyncio.run(taken(Path(made))))
    print(f"{GOLDEN.relative_to(ROOT)} is written")
