"""A disk that is full, read-only or damaged: said clearly; servers that run go on running. Real disks."""

import errno
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.test_daemon_command import Home, home
from tests.e2e.test_recovery_command import servers
from tests.hosting import SCRIPTED
from tests.mcp_client import client_of
from tests.support import until

ONE = ("run", "one", "--", *SCRIPTED)
TWO = ("run", "two", "--", *SCRIPTED)
IS_ROOT = os.getuid() == 0
UNSHARE = ("unshare", "--mount") if IS_ROOT else ("unshare", "--mount", "--map-root-user")
ENTER = ("--mount",) if IS_ROOT else ("--mount", "--user", "--preserve-credentials")


class Disk:
    """A small disk of its own, in a mount namespace that ends with the shell that holds it."""

    def __init__(self, shell: "subprocess.Popen[str]", where: Path) -> None:
        self._shell = shell
        self._where = where
        self._seen = Path(f"/proc/{shell.pid}/root{where}")
        """From outside."""
        self._filler = self._seen / "filler"

    def home(self) -> AbstractAsyncContextManager[Home]:
        """A Mooring whose commands see the disk, and have their state there."""
        return home(self._where, prefix=("nsenter", "--target", str(self._shell.pid), *ENTER, "--"))

    def do(self, command: str) -> None:
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{command} && echo done || echo failed\n")
        self._shell.stdin.flush()
        if self._shell.stdout.readline() != "done\n":
            pytest.skip(f"this system does not let us {command.split(maxsplit=1)[0]}")

    def fill(self) -> None:
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT)
        try:
            for size in (65536, 4096, 1):
                with suppress(OSError):
                    while True:
                        os.write(descriptor, b"x" * size)
        finally:
            os.close(descriptor)
        assert os.statvfs(self._seen).f_bavail == 0

    def make_room(self) -> None:
        self._filler.unlink()

    def set_writable(self, writable: bool) -> None:
        self.do(f"mount -o remount,{'rw' if writable else 'ro'} {self._where}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@contextmanager
def small_disk(where: Path) -> Iterator[Disk]:
    where.mkdir()
    with subprocess.Popen(
        [*UNSHARE, "sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as shell:
        made = Disk(shell, where)
        try:
            made.do("true")
            made.do(f"mount -t tmpfs -o size=2m,mode=700 none {where}")
            yield made
        finally:
            shell.kill()


async def works(place: Home, name: str = "one") -> None:
    port = (await place.told("daemon", "status"))["port"]
    async with client_of(port, path=f"/{name}/mcp") as client:
        assert await client.pid() in servers(place)


async def test_a_disk_that_becomes_full(disk: Disk) -> None:
    async with disk.home() as place:
        await place.done(*ONE)
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            pid = await client.pid()
            disk.fill()
            status, _, err = await place.mooring(*TWO)
            assert status == 1 and "the disk is full" in err and "make room" in err
            status, _, err = await place.mooring("stop", "one")
            assert status == 1 and "the disk is full" in err
            assert await client.pid() == pid, "what runs goes on"
            await works(place)
            assert [one["name"] for one in await place.told("ls")] == ["one"]
            disk.make_room()
            await place.done(*TWO)
            await works(place, "two")
            assert await client.pid() == pid
        disk.fill()
        await place.done("daemon", "stop")
        disk.make_room()
        assert (await place.mooring("ls"))[0] == 1, "it could end"
        await place.done(*ONE)
        assert [one["name"] for one in await place.told("ls")] == ["one", "two"]


async def test_a_disk_that_is_full_from_the_beginning(disk: Disk) -> None:
    async with disk.home() as place:
        disk.fill()
        status, _, err = await place.mooring("serve")
        assert status == 1 and "make room" in err
        status, _, err = await place.mooring(*ONE)
        assert status == 1 and "make room" in err
        disk.make_room()
        await place.done(*ONE)
        await works(place)


async def test_a_disk_that_becomes_read_only(disk: Disk) -> None:
    async with disk.home() as place:
        disk.set_writable(False)
        for words in (("serve",), ONE):
            status, _, err = await place.mooring(*words)
            assert status == 1 and "Read-only file system" in err and "MOORING_STATE_DIR" in err
        disk.set_writable(True)
        await place.done(*ONE)


@pytest.mark.parametrize(
    ("path", "is_directory"),
    [("daemon.lock", True), ("token", True), ("state.db", True), ("logs", False), ("instances", False)],
)
async def test_something_else_in_the_place_of_ours(tmp_path: Path, path: str, is_directory: bool) -> None:
    async with home(tmp_path) as place:
        place.state.mkdir(mode=0o700)
        (place.state / path).mkdir() if is_directory else (place.state / path).touch()
        status, _, err = await place.mooring("serve")
        assert status == 1 and str(place.state / path) in err, err
        assert "MOORING_STATE_DIR" in err and "Traceback" not in err


async def test_a_log_of_the_daemon_that_cannot_be_written(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        (place.state / "daemon.log").mkdir(parents=True)
        status, _, err = await place.mooring(*ONE)
        assert status == 1 and os.strerror(errno.EISDIR) in err and "hint:" in err


async def test_a_damaged_state_is_kept_aside_and_told_of(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done(*ONE)
        await place.done("daemon", "stop")
        damaged = b"SQLite format 3\0" + os.urandom(5000)
        (place.state / "state.db").write_bytes(damaged)
        status, _, err = await place.mooring(*TWO)
        assert status == 0
        assert [one["name"] for one in await place.told("ls")] == ["two"]
        [aside] = place.state.glob("state.db.damaged-*")
        assert aside.read_bytes() == damaged
        assert f"warning: the state was damaged: it is kept as {aside}," in err
        said = (place.state / "daemon.log").read_text()
        assert re.search(f"was damaged: it is kept as {aside.name}.*add them again", said)
        await place.done("daemon", "stop")
        assert "damaged" not in (await place.mooring("daemon", "start"))[2], "it is told of once"


async def test_a_state_of_a_newer_mooring_is_refused(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done(*ONE)
        await place.done("daemon", "stop")
        connection = sqlite3.connect(place.state / "state.db")
        [version] = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.close()
        status, _, err = await place.mooring("serve")
        assert status == 2 and "newer Mooring" in err and "upgrade Mooring" in err
        status, _, err = await place.mooring(*ONE)
        assert status == 1 and "newer Mooring" in err and "upgrade Mooring" in err
        assert not list(place.state.glob("*damaged*"))
        await until(lambda: not servers(place))
