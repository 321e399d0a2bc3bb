"""`mooring uninstall` leaves no trace, and touches nothing that is not Mooring's."""

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.program import ROOT, carrying
from tests.e2e.terminal import on_terminal
from tests.e2e.test_daemon_command import Home, home
from tests.e2e.test_secrets_command import keep
from tests.e2e.test_service_command import UNIT, with_systemd
from tests.hosting import DEMO
from tests.keyring_in_file import NAME as KEYRING_BACKEND
from tests.support import until


def answered(place: Home, answer: bytes) -> tuple[int, str]:
    """`mooring uninstall` on a terminal, where somebody answers."""
    return on_terminal(place.environment, "uninstall", answer=answer)


async def test_no_trace_is_left(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        with_systemd(place, tmp_path)
        await place.done("service", "install")
        await place.done("run", "demo", "--", *DEMO)
        status, _, err = await place.mooring("uninstall")
        assert status == 2 and "--yes" in err, "nobody to ask"
        plan = await place.done("uninstall", "--dry-run")
        assert "1 server" in plan and str(tmp_path / UNIT) in plan and str(place.state) in plan
        status, seen = answered(place, b"n\n")
        assert status == 0 and "Done" not in seen
        assert (await place.told("status", "demo"))["state"] == "ready", "it was only asked"

        status, seen = answered(place, b"y\n")
        assert status == 0 and "To remove the program itself" in seen
        assert not place.state.exists() and not (tmp_path / UNIT).exists()
        await until(lambda: not carrying(place.mark))
        assert (await place.done("uninstall")).startswith("There is nothing to remove")


async def test_what_cannot_be_done_does_not_keep_the_rest(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        runtime = with_systemd(place, tmp_path)
        await place.done("service", "install")
        (runtime / "broken").touch()
        status, out, err = await place.mooring("uninstall", "--yes")
        assert status == 1 and "The rest is done" in out
        assert err.count("error:") == 1 and "systemd could not be told" in err
        assert not place.state.exists() and not (tmp_path / UNIT).exists()


async def test_secrets_go_too_those_of_the_keyring_included(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment |= {
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": KEYRING_BACKEND,
            "MOORING_TEST_KEYRING": str(tmp_path / "keyring.json"),
        }
        await keep(place, "one", "in-the-file")
        await keep(place, "two", "in-the-keyring", "--keyring")
        assert json.loads((tmp_path / "keyring.json").read_text())
        plan = await place.done("uninstall", "--dry-run")
        assert "1 secret in the system's keyring: two" in plan
        await place.done("uninstall", "--yes")
        assert json.loads((tmp_path / "keyring.json").read_text()) == {}
        assert not place.state.exists()


async def test_what_is_not_moorings_stays(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        mine = place.state / "thesis.tex"
        mine.write_text("years of work")
        told = await place.done("uninstall", "--yes")
        assert "thesis.tex" in told and mine.read_text() == "years of work"
        assert [path.name for path in place.state.iterdir()] == ["thesis.tex"]


async def test_what_lies_among_its_files_or_behind_a_link_stays(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "old.log").write_text("years of work")
    async with home(tmp_path) as place:
        place.state.mkdir(mode=0o700)
        (place.state / "logs").symlink_to(precious)
        await place.done("run", "demo", "--", *DEMO)
        mine = [place.state / "secrets.json.mine", place.state / "instances" / "mine"]
        for path in mine:
            path.parent.mkdir(exist_ok=True)
            path.write_text("mine")
        await place.done("uninstall", "--yes")
        assert (precious / "old.log").read_text() == "years of work"
        assert [path.read_text() for path in mine] == ["mine", "mine"]


async def test_clients_files_are_as_they_were_before(tmp_path: Path) -> None:
    user = tmp_path / "user"
    cursor, other = user / ".cursor/mcp.json", user / "project/.cursor/mcp.json"
    cursor.parent.mkdir(parents=True)
    other.parent.parent.mkdir()
    before = b'{"mcpServers": {"mine": {"url": "http://elsewhere", "n": 1.0}},\r\n\t"x": [ ]}'
    cursor.write_bytes(before)
    async with home(tmp_path) as place:
        place.environment["HOME"] = str(user)
        place.mark = f"HOME={user}"
        for name in ("one", "two"):
            await place.done("run", name, "--", *DEMO)
            await place.done("client", "add", "cursor", "--server", name)
        await place.done("client", "add", "cursor", "--server", "one", "--project", str(other.parents[1]))
        await place.done("rm", "two")  # by the daemon
        await until(lambda: b"/two/" not in cursor.read_bytes())
        assert b"/one/mcp" in cursor.read_bytes() and b"/one/mcp" in other.read_bytes()
        plan = await place.done("uninstall", "--dry-run")
        assert "restore the files of AI clients: ~/.cursor/mcp.json, ~/project/.cursor/mcp.json" in plan
        await place.done("uninstall", "--yes")
        assert cursor.read_bytes() == before and not other.exists(), "which was not there before"
        assert not place.state.exists()


async def test_an_entry_that_the_user_changed_is_left_and_named(tmp_path: Path) -> None:
    user = tmp_path / "user"
    cursor = user / ".cursor/mcp.json"
    cursor.parent.mkdir(parents=True)
    async with home(tmp_path) as place:
        place.environment["HOME"] = str(user)
        place.mark = f"HOME={user}"
        await place.done("run", "one", "--client", "cursor", "--", *DEMO)
        cursor.write_bytes(cursor.read_bytes().replace(b"/one/mcp", b"/one/sse"))
        clients = place.state / "clients"
        names = ("notes.txt", "ledger.ods", "locks/poetry.lock", "backups/my-own/20240131")
        mine = [clients / name for name in names]
        for path in mine:
            path.parent.mkdir(exist_ok=True)
            path.write_text("years of work")
        status, out, err = await place.mooring("uninstall", "--yes")
        assert status == 1 and "The rest is done" in out
        assert 'left in ~/.cursor/mcp.json (the entry "one" was changed by somebody: left there)' in err
        assert b"/one/sse" in cursor.read_bytes()
        await place.done("client", "rm", "cursor", "--server", "one", "--force")
        await place.done("uninstall", "--yes")
        assert {path for path in place.state.rglob("*") if path.is_file()} == set(mine)


def kept(place: Home) -> dict[str, bytes]:
    """What is known of clients' files, by path."""
    folder = place.state / "clients"
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@asynccontextmanager
async def imported(tmp_path: Path) -> AsyncIterator[tuple[Home, Path, bytes]]:
    """A home where an entry of Cursor's was imported; its file, and what that was before."""
    user = tmp_path / "user"
    cursor = user / ".cursor/mcp.json"
    cursor.parent.mkdir(parents=True)
    entry = {"command": DEMO[0], "args": list(DEMO[1:]), "env": {"API_TOKEN": "hush"}}
    before = json.dumps({"mcpServers": {"My Demo": entry}}, indent=3).encode()
    cursor.write_bytes(before)
    async with home(tmp_path) as place:
        place.environment["HOME"] = str(user)
        place.mark = f"HOME={user}"
        await place.done("client", "import", "cursor", "--yes")
        assert b"My Demo" not in cursor.read_bytes()
        yield place, cursor, before


async def test_what_a_file_was_is_kept_until_it_is_restored(tmp_path: Path) -> None:
    async with imported(tmp_path) as (place, cursor, before):
        ours, known = cursor.read_bytes(), kept(place)
        assert before in known.values()
        cursor.write_bytes(ours + b"}")
        status, out, err = await place.mooring("uninstall", "--yes")
        assert status == 1 and "The rest is done" in out and "~/.cursor/mcp.json (" in err
        assert f"kept in {place.state}/clients" in err and "run mooring uninstall again" in err
        assert kept(place).keys() == known.keys() and before in kept(place).values()
        assert [path.name for path in place.state.iterdir() if path.is_file()] == [], "the rest is done"

        cursor.write_bytes(b"\n" + ours)
        await place.done("uninstall", "--yes")
        assert json.loads(cursor.read_bytes()) == json.loads(before)
        assert not place.state.exists()


@pytest.mark.parametrize("ledger", ['{"version": 99}', '{"version": 1, "fil'])
async def test_what_cannot_be_read_of_clients_files_is_kept(tmp_path: Path, ledger: str) -> None:
    async with imported(tmp_path) as (place, cursor, before):
        await place.done("daemon", "stop")
        (place.state / "clients" / "ledger.json").write_text(ledger)
        ours = cursor.read_bytes()
        for _ in range(2):
            status, _, err = await place.mooring("uninstall", "--yes")
            assert status == 1 and str(place.state / "clients") in err
            assert {before, ledger.encode()} <= set(kept(place).values())
            assert cursor.read_bytes() == ours
        assert [path.name for path in place.state.iterdir()] == ["clients"], "the rest is done"
        shutil.rmtree(place.state / "clients")
        assert "There is nothing to remove" in await place.done("uninstall")


async def test_a_daemon_that_hangs_is_told_of(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        pid = (await place.told("daemon", "status"))["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            status, _, err = await place.mooring("uninstall", "--yes")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert status == 1 and "mooring doctor" in err
        assert (await place.told("status", "demo"))["state"] == "ready", "nothing was removed"
