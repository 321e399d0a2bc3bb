"""`make demo`: the tour runs through, what it proposes works, and it is honest when it fails."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import uuid

import pytest

from mooring.demo import tour
from tests.e2e.command_line import parse_run
from tests.e2e.mooring import DEMO, LINUX_ONLY, running_mooring
from tests.e2e.program import ROOT, carrying
from tests.support import until

PATIENCE_S = 90.0
TOUR = [sys.executable, "-m", "mooring.demo.tour"]


def take_the_tour(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MOORING_PORT"} | variables
    return subprocess.run(
        TOUR, capture_output=True, check=False, text=True, timeout=PATIENCE_S, cwd=ROOT, env=environment
    )


def test_the_tour() -> None:
    done = take_the_tour()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "echo 'Ahoy!' → 'Ahoy!'" in done.stdout
    answered = re.findall(r"counter → (\d+), answered by process (\d+)", done.stdout)
    assert [count for count, _ in answered] == ["1", "2", "3", "1"]
    pids = [pid for _, pid in answered]
    assert len(set(pids[:3])) == 1
    assert pids[3] != pids[0]
    assert "Exit status 0; processes left: none" in done.stdout
    assert "http://127.0.0.1:4670/demo/mcp" in done.stdout
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 78] == []


def test_it_proposes_the_port_that_is_set() -> None:
    told = take_the_tour(MOORING_PORT="4999").stdout
    assert told.count("http://127.0.0.1:4999/") == 3 and "4670" not in told


@pytest.fixture(scope="module")
def proposals() -> list[str]:
    """The blocks under "Try it yourself" that can be copied."""
    text = take_the_tour().stdout.partition("Try it yourself\n")[2]
    blocks = re.findall(r"(?:^ {5}.*\n)+", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


def test_its_commands_and_its_snippet_can_be_used(proposals: list[str]) -> None:
    *commands, snippet = proposals[:4]
    for command in commands:
        words = subprocess.run(
            ["sh", "-c", f'show() {{ printf "%s\\0" "$@"; }}; show {command}'],
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split("\0")[:-1]
        assert (ROOT / words[0]).name == "mooring"
        context = parse_run(words)
        assert context.obj[0] in ("uvx", "npx") or (ROOT / context.obj[0]).exists()
    server = json.loads(snippet)["mcpServers"]["demo"]
    assert server == {"type": "http", "url": "http://127.0.0.1:4670/demo/mcp"}


@LINUX_ONLY
@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_its_lines_for_curl_work(proposals: list[str], shell: str) -> None:
    program = shutil.which(shell)
    if program is None or shutil.which("curl") is None:
        pytest.skip(f"{shell} or curl is not installed")
    opening, call, *_ = proposals[4:]
    pid = 'PID=$(printf %s "$FIRST" | grep -o \'"pid":[0-9]*\' | head -n 1 | tr -dc 0-9)'
    # A process that has been killed may still be given what it waits to read: it is to be gone first.
    kill = f"{pid}\nkill -9 $PID\nwhile kill -0 $PID 2>/dev/null; do sleep 0.01; done"
    script = f"{opening}\n{call}\nFIRST=$({call})\n{kill}\n{call}"
    async with running_mooring(server=DEMO) as mooring:
        script = script.replace("http://127.0.0.1:4670/demo", mooring.base)
        done = await asyncio.to_thread(
            subprocess.run, [program, "-c", script], capture_output=True, check=False, text=True, timeout=30
        )
    lines = [line for line in done.stdout.splitlines() if line]
    assert done.stderr == ""
    session, first, second = lines
    assert session.lower().startswith("mcp-session-id: ")
    counts = [json.loads(line)["result"]["structuredContent"] for line in (first, second)]
    assert [state["count"] for state in counts] == [1, 1] and counts[0]["pid"] != counts[1]["pid"]


@LINUX_ONLY
async def test_a_reader_that_has_seen_enough() -> None:
    token = f"MOORING_TOUR={uuid.uuid4().hex}"
    name, _, value = token.partition("=")

    def read_two_lines() -> tuple[list[bytes], bytes, int]:
        process = subprocess.Popen(
            TOUR,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, name: value},
        )
        assert process.stdout and process.stderr
        with process.stderr as errors:
            with process.stdout as lines:
                seen = [lines.readline(), lines.readline()]
            return seen, errors.read(), process.wait(PATIENCE_S)

    seen, errors, status = await asyncio.to_thread(read_two_lines)
    assert seen[0].startswith(b"Mooring runs")
    assert (errors, status) == (b"", 0)
    await until(lambda: not carrying(token))


def test_a_tour_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(tour.Mooring):
        def __init__(self, _command: list[str]) -> None:
            code = "import sys; print('{}\\n[]\\nerror: the port is taken', file=sys.stderr)"
            super().__init__([sys.executable, "-c", code])

    monkeypatch.setattr(tour, "Mooring", Broken)
    assert tour.main() == 1
    said = capsys.readouterr().out
    assert "Mooring ended before it reported 'listening'" in said
    assert "   error: the port is taken" in said
    assert "Try it yourself" not in said
