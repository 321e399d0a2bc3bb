"""README: its commands are run and print what it says; those that need the internet are parsed.

What is indented there is a command, a line of output (a URL), or JSON.
"""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from mooring.cli.main import cli
from mooring.runtimes.environment import DEFAULT_NAMES
from tests.e2e.command_line import parse_run
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.program import ROOT, carrying
from tests.support import until

README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"^ {4}(\S.*)$", README, re.MULTILINE)
OUTPUT = [line for line in EXAMPLES if line.startswith("http://")]
SNIPPETS = [line for line in EXAMPLES if line.startswith("{")]
COMMANDS = [line for line in EXAMPLES if line not in OUTPUT + SNIPPETS]
INTERNET = re.compile(r"pip install|-- (uvx|npx) |--from (uvx|npx):|--image |--url https:")
NEED_INTERNET = [line for line in COMMANDS if INTERNET.search(line)]
PREPARATIONS = [line for line in COMMANDS if line.startswith("export ")]
RUNS = [line for line in COMMANDS if line.startswith("mooring run ")]
TELLING_CLIENTS = [line for line in COMMANDS if line.startswith("mooring client ")]


def in_place_of_the_installed(home: Path) -> dict[str, str]:
    """An environment in which `~/.mooring`, where README installs to, is the one that is tested."""
    (home / ".mooring").symlink_to(sys.prefix)
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": os.environ.get("LANG", "C.UTF-8")}


def test_every_example_is_of_a_kind_that_is_tested_here() -> None:
    runnable = [line for line in RUNS if line not in NEED_INTERNET]
    makes = [line for line in COMMANDS if line.startswith("make ")]
    assert sorted(COMMANDS) == sorted(NEED_INTERNET + PREPARATIONS + runnable + TELLING_CLIENTS + makes)
    assert len(runnable) == len(PREPARATIONS) == len(TELLING_CLIENTS) == len(SNIPPETS) == 1
    assert len(NEED_INTERNET) == 5 and len(OUTPUT) == 1


@LINUX_ONLY
async def test_the_first_example_prints_what_readme_says(tmp_path: Path) -> None:
    (run,) = (line for line in RUNS if line not in NEED_INTERNET)
    token = f"MOORING_README={uuid.uuid4().hex}"
    name, _, value = token.partition("=")
    # Any port but README's own, which somebody may be using; and its own state, to be ended with it.
    run = run.replace(" -- ", f" --env {token} -- ")
    script = [*PREPARATIONS, run, *TELLING_CLIENTS, "mooring daemon stop"]
    (tmp_path / ".cursor").mkdir()
    ours = {"MOORING_STATE_DIR": str(tmp_path / "state"), "MOORING_PORT": "0", name: value}
    environment = {**in_place_of_the_installed(tmp_path), **ours}
    done = await asyncio.to_thread(
        subprocess.run,
        ["sh", "-e", "-c", "\n".join(script)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    url = done.stdout.splitlines()[0]
    assert [re.sub(r":\d+/", ":4670/", url)] == OUTPUT
    told = json.loads((tmp_path / ".cursor" / "mcp.json").read_text())
    assert told == {"mcpServers": {"demo": {"url": url}}}
    await until(lambda: not carrying(token))


@pytest.mark.parametrize("command", RUNS)
def test_commands_are_understood(command: str) -> None:
    words = shlex.split(command)
    context = parse_run(words)
    assert context.obj == tuple(words[words.index("--") + 1 :] if "--" in words else ())
    assert not context.params["foreground"]


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
    assert json.loads(SNIPPETS[0])["mcpServers"]["demo"] == {"type": "http", "url": OUTPUT[0]}


def test_options_and_variables_are_as_readme_says() -> None:
    named = (cli.commands[command] for command in ("run", "start"))
    known = {name for command in named for parameter in command.params for name in parameter.opts} | {
        "--help"
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README)) <= known
    assert f"`{' '.join(DEFAULT_NAMES)}`" in README


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target.partition("#")[0]).exists(), target
