"""The daemon and its commands, as a user has them: real processes, their own state directory."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.program import carrying
from tests.hosting import DEMO
from tests.mcp_client import McpClient, client_of
from tests.support import alive, until, within

MOORING = str(Path(sys.executable).with_name("mooring"))


class Home:
    """Where one user's Mooring lives."""

    def __init__(self, state: Path, prefix: tuple[str, ...] = ()) -> None:
        self.state = state
        self._prefix = prefix
        self.mark = f"HOME={state}"
        """Of every process: servers have it from the command that ran them."""
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(state),
            "MOORING_STATE_DIR": str(state),
            "MOORING_PORT": "0",
        }

    async def mooring(self, *words: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._prefix,
            MOORING,
            *words,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with within(60):
            out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def done(self, *words: str) -> str:
        status, out, err = await self.mooring(*words)
        assert status == 0, (words, out, err)
        return out

    async def told(self, *words: str) -> Any:
        return json.loads(await self.done(*words, "--json"))


@asynccontextmanager
async def home(tmp_path: Path, *, prefix: tuple[str, ...] = ()) -> AsyncIterator[Home]:
    """`prefix`: the command that runs all others, such as one that enters a namespace."""
    place = Home(tmp_path / "state", prefix)
    try:
        yield place
    finally:
        await place.mooring("daemon", "stop")
        try:
            await until(lambda: not carrying(place.mark), 60)
        finally:
            # Only after a failure is there anything left to end; and then it must not disturb the next test.
            for pid in carrying(place.mark):
                os.kill(pid, signal.SIGKILL)


async def test_a_server_is_named_once_and_is_there(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        status, _, err = await place.mooring("ls")
        assert status == 1 and "does not run" in err
        url = (await place.done("run", "demo", "--", *DEMO)).strip()
        port = (await place.told("daemon", "status"))["port"]
        assert url == f"http://127.0.0.1:{port}/demo/mcp"
        assert await place.done("run", "demo", "--", *DEMO) == url + "\n", "once more is nothing"
        status, _, err = await place.mooring("run", "demo", "--", "true")
        assert status == 2 and "--replace" in err
        [server] = await place.told("ls")
        assert {"name", "state", "reason", "generation", "pid", "instances"} <= server.keys()
        assert (server["name"], server["state"]) == ("demo", "ready")
        assert "demo" in await place.done("ls") and url in await place.done("status", "demo")
        async with client_of(port, path="/demo/mcp") as client:
            assert await client.text("echo", text="hi") == "hi"
            await place.done("restart", "demo")
            assert await client.text("echo", text="again") == "again"
        told = await place.done("logs", "demo")
        marks = (
            "demo started: for the first time",
            "demo is ready",
            "demo stopped: restarted",
            "demo started:",
        )
        places = [told.index(mark) for mark in marks[:3]]
        assert places == sorted(places) and told.count(marks[3]) == 2
        assert await place.done("stop", "demo") == "demo has stopped\n"
        assert (await place.told("status", "demo"))["state"] == "stopped"
        assert await place.done("start", "demo") == "demo is started\n"
        await place.done("daemon", "stop")
        assert await place.done("start", "--all") == "demo is started\n", "and with it Mooring"
        assert await place.done("rm", "demo") == "demo is removed\n"
        assert await place.told("ls") == []


async def test_a_killed_daemon_leaves_nothing_and_its_successor_goes_on(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        about = await place.told("daemon", "status")
        place.environment["MOORING_PORT"] = str(about["port"])
        async with client_of(about["port"], path="/demo/mcp") as client:
            assert await client.text("echo", text="hi") == "hi"
            session = client.session
            await asyncio.sleep(1.5)  # what a session needs is written within a second
            [server] = await place.told("ls")
            servers = [instance["pid"] for instance in server["instances"]]
        os.kill(about["pid"], signal.SIGKILL)
        await until(lambda: not any(map(alive, servers)), 30)
        await place.done("run", "demo", "--", *DEMO)
        assert (await place.told("daemon", "status"))["pid"] != about["pid"]
        async with McpClient(about["port"], path="/demo/mcp") as client:
            client.session = session
            assert await client.text("echo", text="still here") == "still here"


async def test_many_who_start_it_at_once_get_one(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        runs = [place.done("run", f"demo-{n}", "--no-wait", "--", *DEMO) for n in range(4)]
        await asyncio.gather(*runs)
        assert len(await place.told("ls")) == 4
        assert len({server["pid"] for server in await place.told("ls")}) == 1


async def test_a_server_that_cannot_work_is_told_of(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        status, _, err = await place.mooring("run", "bad", "--", "/nowhere/program")
        assert status in (1, 2) and "bad" in err
        status, _, err = await place.mooring("run", "quits", "--", "false")
        assert status == 1 and "quits" in err and "mooring status quits" in err


async def test_the_daemon_alone_brings_back_what_should_run_and_nothing_else(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        for name in ("one", "two"):
            await place.done("run", name, "--", *DEMO)
        await place.done("stop", "two")
        assert await place.done("restart", "--all") == "one was restarted\n"
        await place.done("daemon", "stop")
        first = await place.told("daemon", "start")
        assert (await place.told("daemon", "start"))["pid"] == first["pid"], "once more is nothing"
        desired = {server["name"]: server["desired"] for server in await place.told("ls")}
        assert desired == {"one": "running", "two": "stopped"}


async def test_the_last_lines_of_a_log(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        every = (await place.done("logs", "demo")).splitlines()
        assert len(every) > 1
        assert (await place.done("logs", "-n", "1", "demo")).splitlines() == every[-1:]
        assert await place.done("logs", "-n", "0", "demo") == ""
        assert (await place.done("logs", "--tail", "1000", "demo")).splitlines() == every


async def test_a_misspelled_name_is_guessed(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        status, _, err = await place.mooring("status", "deno")
        assert status == 2 and "did you mean demo?" in err
