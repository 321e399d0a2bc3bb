"""`mooring doctor` in front of set-ups that were broken on purpose: each is named, with its remedy."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mooring
from tests.e2e.program import carrying
from tests.e2e.terminal import on_terminal
from tests.e2e.test_commands_document import names
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.e2e.test_disk_trouble import small_disk
from tests.faults.runtime_bench import NAUGHTY
from tests.hosting import DEMO
from tests.support import alive, until

Found = dict[str, list[dict[str, Any]]]


async def examined(place: Home) -> Found:
    """What it finds, by check; and that its exit status says whether something is broken."""
    status, out, err = await place.mooring("doctor", "--json")
    assert not err
    found: Found = {}
    for finding in json.loads(out):
        assert set(finding) == names("`mooring doctor --json`")
        assert finding["level"] == "ok" or finding["remedy"], finding
        found.setdefault(finding["check"], []).append(finding)
    problems = [one for each in found.values() for one in each if one["level"] == "problem"]
    assert status == bool(problems)
    assert set(found) <= names("`mooring doctor --json`", "check")
    return found


def only(found: Found, check: str, level: str = "problem") -> str:
    """The one thing that is wrong: its text and remedy."""
    problems = {name for name, each in found.items() if any(one["level"] == "problem" for one in each)}
    assert problems == ({check} if level == "problem" else set()), found
    [one] = [one for one in found[check] if one["level"] == level]
    return f"{one['text']} → {one['remedy']}"


async def test_nothing_is_broken(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        found = await examined(place)
        assert only(found, "daemon", "note").startswith("it does not run → mooring daemon start")
        await place.done("run", "demo", "--", *DEMO)
        found = await examined(place)
        pid = (await place.told("daemon", "status"))["pid"]
        assert found["daemon"][0]["text"] == f"it runs as pid {pid}, version {mooring.__version__}"
        assert found["servers"][0]["text"] == "1 known, none in trouble"


async def test_others_can_read_it(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.state.mkdir(mode=0o700)
        (place.state / "token").touch(0o644)
        told = only(await examined(place), "files")
        assert str(place.state / "token") in told and f"chmod -R go= {place.state}" in told
        assert told.startswith("others can read")
        place.state.chmod(0o777)
        assert only(await examined(place), "files").startswith("others can change")


async def test_a_state_directory_that_cannot_be_one(tmp_path: Path) -> None:
    place = Home(tmp_path / "state")
    place.state.touch(0o600)
    told = only(await examined(place), "files")
    assert "is no directory → move it away" in told and "chmod" not in told
    place.environment["MOORING_STATE_DIR"] = "/proc/nope"
    [one] = (await examined(place))["files"]
    assert "cannot be made: /proc takes no directory" in one["text"] and one["level"] == "problem"


async def test_secrets_that_are_damaged_or_were_put_aside(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.state.mkdir(mode=0o700)
        secrets = place.state / "secrets.json"
        secrets.touch(0o600)
        secrets.write_text("{")
        assert "is damaged → put back a good copy" in only(await examined(place), "secrets")
        secrets.rename(place.state / "secrets.json.damaged-20260101T000000Z")
        assert "were put aside" in only(await examined(place), "secrets", "note")


async def test_a_disk_that_is_full_or_read_only(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        async with disk.home() as place:
            await place.done("run", "demo", "--", *DEMO)
            await place.done("daemon", "stop")
            disk.fill()
            told = only(await examined(place), "disk")
            assert told.startswith("0 MB are free") and "make room" in told
            disk.make_room()
            disk.set_writable(False)
            [one] = (await examined(place))["files"]
            assert "cannot be written" in one["text"] and "MOORING_STATE_DIR" in one["remedy"]
            disk.set_writable(True)


async def test_a_state_that_is_damaged_newer_or_was_put_aside(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.state.mkdir(mode=0o700)
        database = place.state / "state.db"
        database.touch(0o600)
        database.write_bytes(b"no database at all" * 100)
        assert "is damaged" in only(await examined(place), "state")
        database.unlink()
        with sqlite3.connect(database) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
        database.chmod(0o600)
        assert "newer Mooring" in only(await examined(place), "state")
        database.rename(place.state / "state.db.damaged-20260101T000000Z")
        assert "put aside" in only(await examined(place), "state", "note")


async def test_a_daemon_that_does_not_answer(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        pid = (await place.told("daemon", "status"))["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            assert f"kill -CONT {pid}" in only(await examined(place), "daemon")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await examined(place))["daemon"][0]["level"] == "ok"


async def test_a_daemon_of_another_version(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(mooring.__file__).parent, other / "mooring")
    file = other / "mooring" / "__init__.py"
    file.write_text(re.sub(r'__version__ = ".*"', '__version__ = "99.0"', file.read_text()))
    async with home(tmp_path) as place:
        environment = {**place.environment, "PYTHONPATH": str(other)}
        serve = [sys.executable, "-m", "mooring", "serve"]
        with subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL) as daemon:
            await until((place.state / "daemon.sock").exists)
            told = only(await examined(place), "daemon")
            assert "version 99.0" in told and "mooring daemon restart" in told
            daemon.terminate()


async def test_a_port_that_is_taken_or_not_the_one_that_was_meant(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            place.environment["MOORING_PORT"] = str(port)
            told = only(await examined(place), "port")
            assert f"pid {os.getpid()}" in told and "MOORING_PORT=" in told
            _, _, err = await place.mooring("daemon", "start")
            assert told.partition(" → ")[2] in err, "the same advice"
        place.environment["MOORING_PORT"] = "0"
        await place.done("run", "demo", "--", *DEMO)
        place.environment["MOORING_PORT"] = str(port)
        assert f"MOORING_PORT says {port}" in only(await examined(place), "port", "note")
        place.environment["MOORING_PORT"] = "abc"
        found = await examined(place)
        place.environment["MOORING_PORT"] = "0"
        assert "is no port" in only(found, "port") and found["daemon"][0]["level"] == "ok"


async def test_servers_in_trouble(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.mooring("run", "quits", "--", "false")
        told = only(await examined(place), "servers")
        assert told.startswith(("quits is backoff: restarting in", "quits is failed: it crashes"))
        assert "mooring logs quits" in told


async def test_entries_in_clients_files_that_are_not_as_they_should_be(tmp_path: Path) -> None:
    cursor, claude = tmp_path / ".cursor" / "mcp.json", tmp_path / ".claude.json"
    cursor.parent.mkdir()
    async with home(tmp_path) as place:
        place.environment["HOME"] = str(tmp_path)
        await place.done("run", "demo", "--client", "cursor,claude-code", "--", *DEMO)
        [fine] = (await examined(place))["clients"]
        assert fine["level"] == "ok" and "2 files" in fine["text"]
        whole = cursor.read_text()
        cursor.write_text('{"mcpServers": {}}')
        assert "mooring client sync" in only(await examined(place), "clients")
        cursor.write_text("{")
        assert "~/.cursor/mcp.json cannot be read: line 1" in only(await examined(place), "clients")
        cursor.write_text(whole)
        claude.write_text(claude.read_text().replace("/demo/mcp", "/demo/sse"))
        assert "client add claude-code --server demo --force" in only(
            await examined(place), "clients", "note"
        )


async def test_processes_that_a_killed_daemon_has_left(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        stubborn = [sys.executable, "-I", "-S", str(NAUGHTY), "ignore-term", "linger"]
        await place.done("run", "stubborn", "--no-wait", "--", *stubborn)
        daemon = (await place.told("daemon", "status"))["pid"]
        await until(lambda: len(list((place.state / "instances").iterdir())) == 1)
        [server] = [pid for pid in carrying(place.mark) if "naughty" in command_of(pid)]
        [guardian] = [pid for pid in children_of(daemon) if "guardian_main" in command_of(pid)]
        os.kill(guardian, signal.SIGSTOP)
        os.kill(daemon, signal.SIGKILL)
        os.kill(guardian, signal.SIGKILL)
        await until(lambda: not alive(daemon))
        told = only(await examined(place), "leftovers")
        assert f"pid {server}" in told and "mooring daemon start" in told
        await place.mooring("start", "--all", "--no-wait")
        await until(lambda: not alive(server))


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        await place.done("daemon", "stop")
        tomorrow = time.time() + 86400
        os.utime(place.state / "state.db", (tomorrow, tomorrow))
        assert "timedatectl" in only(await examined(place), "clock")


async def test_programs_and_the_path_of_a_desktop(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        mine = tmp_path / "my programs"
        mine.mkdir()
        for name in ("mooring", "uvx"):
            (mine / name).symlink_to(MOORING)
        place.environment["PATH"] = str(mine)
        found = await examined(place)
        assert {one["text"] for one in found["programs"]} == {
            "npx is not on your PATH",
            "node is not on your PATH",
        }
        told = only(found, "desktop", "note")
        assert "do not find mooring, uvx" in told and str(mine / "mooring") in told
        assert "is not of this installation" in only(found, "command", "note")


async def test_few_descriptors(tmp_path: Path) -> None:
    place = Home(tmp_path / "state", ("prlimit", "--nofile=512:512"))
    assert "ulimit -Hn" in only(await examined(place), "limits", "note")


@pytest.mark.parametrize("columns", [80, 60])
async def test_it_fits_a_terminal(tmp_path: Path, columns: int) -> None:
    place = Home(tmp_path / "state")
    status, seen = on_terminal(place.environment, "doctor", columns=columns)
    assert status == 0
    lines = re.sub(r"\x1b\[\d*m", "", seen).splitlines()
    long_words = [line for line in lines if len(line) > columns and " " in line[25:].strip()]
    assert not long_words and lines[-1] == "no problems found"
    assert "\x1b[33mnote" in seen
