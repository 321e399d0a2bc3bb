"""README: its commands are run and print what it says; those that need the internet are parsed.

What is indented there is a command, a line of output (it begins with a time), or JSON.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from mooring.cli.main import cli
from mooring.runtimes.environment import DEFAULT_NAMES
from tests.e2e.command_line import parse_run
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.program import ROOT, Program, carrying
from tests.support import until, within

README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"^ {4}(\S.*)$", README, re.MULTILINE)
OUTPUT = [line for line in EXAMPLES if re.match(r"\d\d:\d\d:\d\d ", line)]
SNIPPETS = [line for line in EXAMPLES if line.startswith("{")]
COMMANDS = [line for line in EXAMPLES if line not in OUTPUT + SNIPPETS]
NEED_INTERNET = [line for line in COMMANDS if re.search(r"pip install|-- (uvx|npx) ", line)]
PREPARATIONS = [line for line in COMMANDS if line.startswith("export ")]
RUNS = [line for line in COMMANDS if line.startswith("mooring run ")]
SERVED = "http://127.0.0.1:4670"


def in_place_of_the_installed(home: Path) -> dict[str, str]:
    """An environment in which `~/.mooring`, where README installs to, is the one that is tested."""
    (home / ".mooring").symlink_to(sys.prefix)
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": os.environ.get("LANG", "C.UTF-8")}


def without_time(line: str) -> str:
    return re.sub(r"^\d\d:\d\d:\d\d ", "", line)


def test_every_example_is_of_a_kind_that_is_tested_here() -> None:
    runnable = [line for line in RUNS if line not in NEED_INTERNET]
    makes = [line for line in COMMANDS if line.startswith("make ")]
    assert sorted(COMMANDS) == sorted(NEED_INTERNET + PREPARATIONS + runnable + makes)
    assert len(runnable) == len(PREPARATIONS) == len(SNIPPETS) == 1
    assert len(NEED_INTERNET) == 3 and len(OUTPUT) == 2


@LINUX_ONLY
async def test_the_first_example_prints_what_readme_says(tmp_path: Path) -> None:
    (run,) = (line for line in RUNS if line not in NEED_INTERNET)
    token = f"MOORING_README={uuid.uuid4().hex}"
    name, _, value = token.partition("=")
    # Any port but README's own, which somebody may be using.
    script = [*PREPARATIONS, f"exec {run.replace(' -- ', f' --port 0 --env {token} -- ')}"]
    environment = {**in_place_of_the_installed(tmp_path), name: value}
    async with Program(["sh", "-c", "\n".join(script)], environment=environment) as program, within(60):
        await program.word(lambda line: without_time(line) == without_time(OUTPUT[-1]))
        program.process.send_signal(signal.SIGTERM)
        assert await program.ended() == 0
    port = re.search(r"http://127\.0\.0\.1:(\d+)/", program.words[0])
    assert port
    printed = [without_time(line).replace(f":{port[1]}/", ":4670/") for line in program.words]
    assert printed[: len(OUTPUT)] == [without_time(line) for line in OUTPUT]
    await until(lambda: not carrying(token))


@pytest.mark.parametrize("command", RUNS)
def test_commands_are_understood(command: str) -> None:
    words = shlex.split(command)
    context = parse_run(words)
    assert context.obj == tuple(words[words.index("--") + 1 :])
    assert context.params["foreground"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_good_shell(command: str) -> None:
    subprocess.run(["sh", "-n", "-c", command], check=True)


def test_make_demo_is_the_tour() -> None:
    """Which has a test of its own: `test_demo_tour.py`."""
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", "demo"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.rstrip().endswith("-m mooring.demo.tour")


def test_the_snippet_for_clients_has_the_url_that_is_served() -> None:
    assert json.loads(SNIPPETS[0])["mcpServers"]["demo"] == {"type": "http", "url": f"{SERVED}/mcp"}
    assert OUTPUT[0].endswith(f" {SERVED}/mcp")


def test_options_and_variables_are_as_readme_says() -> None:
    known = {name for parameter in cli.commands["run"].params for name in parameter.opts} | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README)) <= known
    assert f"`{' '.join(DEFAULT_NAMES)}`" in README


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
