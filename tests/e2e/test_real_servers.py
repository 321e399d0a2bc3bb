"""Servers that people really run, behind Mooring: a call that means something, a kill, and the next call."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import parts
from tests.e2e.client import Client, connected
from tests.e2e.mooring import LINUX_ONLY, Mooring, running_mooring
from tests.support import until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Case:
    """One server: how it is started in a folder, and what is asked of it before and after it was killed."""

    needs: tuple[str, ...]
    command: Callable[[Path], list[str | Path]]
    tools: frozenset[str]
    before: Callable[[Path], tuple[str, dict[str, Any], str]]
    """Tool, arguments, and a text that is in its answer."""
    after: Callable[[Path], tuple[str, dict[str, Any], str]]
    environment: Callable[[Path], dict[str, str]] = field(default=lambda _: {})
    prepare: Callable[[Path], None] = field(default=lambda _: None)


def _repository(folder: Path) -> None:
    identity = ["-c", "user.name=Mate", "-c", "user.email=mate@example.com", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], [*identity, "commit", "--quiet", "--allow-empty", "-m", "cast off"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)


NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SHIP = {"name": "ship", "entityType": "vessel", "observations": ["floats"]}
CASES = {
    "server-everything": Case(
        needs=("npm", "node"),
        command=lambda _: [*parts.npm_command("mcp-server-everything"), "stdio"],
        tools=frozenset({"echo", "get-sum"}),
        before=lambda _: ("get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5"),
        after=lambda _: ("echo", {"message": "ahoy"}, "ahoy"),
    ),
    "server-filesystem": Case(
        needs=("npm", "node"),
        command=lambda folder: [*parts.npm_command("mcp-server-filesystem"), folder],
        tools=frozenset({"read_text_file", "write_file"}),
        before=lambda folder: ("write_file", {"path": f"{folder}/log", "content": "ahoy"}, "Successfully"),
        after=lambda folder: ("read_text_file", {"path": f"{folder}/log"}, "ahoy"),
    ),
    "server-memory": Case(
        needs=("npm", "node"),
        command=lambda _: [*parts.npm_command("mcp-server-memory")],
        tools=frozenset({"create_entities", "read_graph"}),
        before=lambda _: ("create_entities", {"entities": [SHIP]}, "floats"),
        after=lambda _: ("read_graph", {}, "floats"),
        environment=lambda folder: {"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"},
    ),
    "mcp-server-time": Case(
        needs=("servers",),
        command=lambda _: [parts.script_of("servers", "mcp-server-time"), "--local-timezone", "UTC"],
        tools=frozenset({"convert_time", "get_current_time"}),
        before=lambda _: ("convert_time", NOON, "T21:00:00+09:00"),
        after=lambda _: ("get_current_time", {"timezone": "UTC"}, "+00:00"),
    ),
    "mcp-server-git": Case(
        needs=("servers",),
        command=lambda folder: [parts.script_of("servers", "mcp-server-git"), "--repository", folder],
        tools=frozenset({"git_log", "git_status"}),
        before=lambda folder: ("git_log", {"repo_path": str(folder)}, "cast off"),
        after=lambda folder: ("git_status", {"repo_path": str(folder)}, "branch"),
        prepare=_repository,
    ),
}


def running(mooring: Mooring, program: str | Path) -> set[int]:
    """Mooring's children that run that program."""
    found: set[int] = set()
    for pid in mooring.servers():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(program).encode() in words:
            found.add(pid)
    return found


async def check(client: Client, step: tuple[str, dict[str, Any], str]) -> None:
    tool, arguments, expected = step
    result = await client.call(tool, **arguments)
    assert not result.get("isError"), result
    assert expected in result["content"][0]["text"]


@pytest.mark.parametrize("name", CASES)
async def test_a_real_server_survives_being_killed(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    parts.require(*case.needs, "sdk-2")
    case.prepare(tmp_path)
    command = case.command(tmp_path)
    options = [
        word for key, value in case.environment(tmp_path).items() for word in ("--env", f"{key}={value}")
    ]
    async with (
        # Without a spare, the only process is the one of our session.
        running_mooring("--spare", "0", *options, server=command, name=name) as mooring,
        connected("python-2", mooring.url) as (client, connection),
    ):
        assert connection["version"] == "2025-11-25"
        assert case.tools <= set(await client.do("list_tools"))
        await check(client, case.before(tmp_path))

        # A node program's command line begins with node, a Python script's with its interpreter.
        program = command[1] if "npm" in case.needs else command[0]
        async with within():
            # The instance that Mooring spoke to at its start may still be on its way out.
            await until(lambda: len(running(mooring, program)) == 1)
        (pid,) = running(mooring, program)
        await mooring.kill(pid)
        await check(client, case.after(tmp_path))
        assert pid not in running(mooring, program)

    if name == "server-memory":
        assert '"name":"ship"' in (tmp_path / "memory.jsonl").read_text()
