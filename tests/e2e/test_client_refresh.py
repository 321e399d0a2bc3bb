"""Clients that watch their file end connected after each refresh, and without the tool after a removal.

The real command line and daemon, real files; clients that watch them as Cursor, VS Code, Zed and Cline do.
"""

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.api.client import ApiClient
from mooring.clients.machine import Machine, Platform
from mooring.clients.registry import Registry
from mooring.host.places import Places
from mooring.store.database import FILE_NAME
from tests.e2e.test_daemon_command import Home, home
from tests.e2e.watching_client import HABITS, WatchingClient, watching
from tests.hosting import DEMO
from tests.mcp_client import McpClient, client_of
from tests.support import until, within


class User:
    """Whose clients know the server `demo`."""

    def __init__(self, place: Home, folder: Path) -> None:
        self.place = place
        self.home = folder
        self.clients: list[WatchingClient] = []
        self.port = 0
        place.environment["HOME"] = str(folder)
        place.mark = f"HOME={folder}"

    def path(self, client: str) -> Path:
        machine = Machine(Platform.LINUX, self.home, {"HOME": str(self.home)})
        return Registry(self.place.state / "clients", machine).site(client).path

    async def run(self, *options: str, command: tuple[str, ...] = DEMO) -> None:
        """The server, and all clients told of it."""
        for id in HABITS:
            path = self.path(id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(HABITS[id].before)
            self.clients.append(WatchingClient(id, path, "demo"))
        await self.place.done("run", "demo", *options, "--", *command)
        self.port = (await self.place.told("daemon", "status"))["port"]
        self.place.environment["MOORING_PORT"] = str(self.port)
        await self.place.done("client", "add", *HABITS, "--server", "demo")

    async def all_work(self) -> None:
        for client in self.clients:
            await client.works()

    async def lose_sessions(self) -> None:
        """Somebody else ends them."""
        for client in self.clients:
            async with McpClient(self.port, path="/demo/mcp") as other:
                other.session = client.session
                assert (await other.raw("DELETE")).status == 204

    def entries(self) -> dict[str, int]:
        """How often the server stands in each file."""
        return {client.id: client.path.read_text().count("/demo/mcp") for client in self.clients}

    def files(self) -> dict[str, tuple[bytes, int, int]]:
        """All that can be told of the files from outside."""
        seen = {client.id: client.path.stat() for client in self.clients}
        return {
            client.id: (client.path.read_bytes(), seen[client.id].st_mtime_ns, seen[client.id].st_ino)
            for client in self.clients
        }

    async def daemon(self) -> int:
        return int((await self.place.told("daemon", "status"))["pid"])

    async def kill_daemon(self) -> None:
        os.kill(await self.daemon(), signal.SIGKILL)

    async def kill_server(self) -> None:
        [server] = await self.place.told("ls")
        for instance in server["instances"]:
            os.kill(instance["pid"], signal.SIGKILL)

    async def events(self) -> list[Any]:
        return [json.loads(line) for line in (await self.place.done("events", "--json")).splitlines()]


@asynccontextmanager
async def user(tmp_path: Path) -> AsyncIterator[User]:
    folder = tmp_path / "user"
    folder.mkdir()
    async with home(tmp_path) as place:
        yield User(place, folder)


async def test_a_daemon_that_no_client_knows_loads_nothing_for_them(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.place.done("run", "demo", "--", *DEMO)
        loaded = Path(f"/proc/{await me.daemon()}/maps")
        await asyncio.sleep(3)  # a look at the files, and more
        assert "yaml" not in loaded.read_text()
        await me.run()
        await until(lambda: "yaml" in loaded.read_text())


async def test_clients_whose_sessions_were_lost_end_connected(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run("--max-sessions", str(len(HABITS)), "--idle-timeout", "200ms")
        async with watching(*me.clients):
            await me.all_work()
            assert [client.connected for client in me.clients] == [1] * len(HABITS)
            await until(lambda: all(client.session for client in me.clients))
            async with within(60):  # until all of them sleep, so that they can give way
                while (await me.place.told("ls"))[0]["instances"]:
                    await asyncio.sleep(0.05)
            others = []
            for _ in HABITS:
                async with client_of(me.port, path="/demo/mcp") as other:
                    others.append(other.session)
            for session in others:
                async with McpClient(me.port, path="/demo/mcp") as other:
                    other.session = session
                    await other.raw("DELETE")
            assert [await client.ask() for client in me.clients] == ["broken"] * len(HABITS)
            await me.all_work()
            assert [client.vanished for client in me.clients] == [1] * len(HABITS)
            assert set(me.entries().values()) == {1}
        kinds = [event["kind"] for event in await me.events()]
        assert kinds.count("session_lost") == 1 and kinds.count("clients") == 2


async def test_restarts_that_sessions_survive_touch_no_file(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        async with watching(*me.clients):
            await me.all_work()
            before = me.files()
            await me.place.done("restart", "demo")
            await me.all_work()
            await me.kill_server()
            await me.all_work()
            await me.place.done("daemon", "restart")
            await me.all_work()
            await asyncio.sleep(1.5)  # what sessions need is written within a second
            await me.kill_daemon()
            await me.place.done("start", "--all")
            await me.all_work()
            await asyncio.sleep(3)  # a look at the files, and more
            assert me.files() == before
            assert [client.connected for client in me.clients] == [1] * len(HABITS)


async def test_what_has_failed_is_no_tool_until_it_is_started(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m mooring.demo\n")
    program.chmod(0o700)
    async with user(tmp_path) as me:
        await me.run(command=(str(program),))
        async with watching(*me.clients):
            await me.all_work()
            program.rename(tmp_path / "elsewhere")
            await me.kill_server()
            async with within(60):
                while any(client.has_tool for client in me.clients):
                    [await client.ask() for client in me.clients]
                    await asyncio.sleep(0.1)
            told = await me.place.done("client", "ls")
            assert "failed" in told
            (tmp_path / "elsewhere").rename(program)
            await me.place.done("start", "demo")
            await me.all_work()
            assert set(me.entries().values()) == {1}


async def test_what_is_removed_is_no_tool_any_more(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        async with watching(*me.clients):
            await me.all_work()
            await me.place.done("rm", "demo")
            await until(lambda: not any(client.has_tool for client in me.clients), 60)
            assert {client.id: client.path.read_text() for client in me.clients} == {
                id: habits.before for id, habits in HABITS.items()
            }
            async with within():
                while "was removed" not in await me.place.done("events"):
                    await asyncio.sleep(0.1)
            assert not list(me.place.state.glob("logs/demo*")), "its log is gone, and stays so"
            await me.place.done("run", "demo", "--client", "none", "--", *DEMO)
            await asyncio.sleep(3)
            assert [await client.ask() for client in me.clients] == ["no tool"] * len(HABITS)


async def test_what_is_run_again_at_once_stays(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        before = me.files()
        await asyncio.to_thread(remove_and_run, me.place)
        await asyncio.sleep(3)
        after = me.files()
        assert {id: seen[0] for id, seen in after.items()} == {id: seen[0] for id, seen in before.items()}


def remove_and_run(place: Home) -> None:
    """One request right after the other: nobody could look in between."""
    api = ApiClient(Places(place.state, 0).socket)
    [definition] = api.ask("GET", "/definitions")
    api.ask("DELETE", "/servers/demo?wait=false")
    api.ask("PUT", "/servers/demo", {"options": definition["options"], "replace": False})


async def test_always_is_on_every_exit_and_never_is_not(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run("--client-refresh", "always")
        async with watching(*me.clients):
            await me.all_work()
            await me.kill_server()
            await until(lambda: all(client.vanished for client in me.clients), 60)
            await me.all_work()
            assert set(me.entries().values()) == {1}
            await me.place.done("run", "demo", "--replace", "--client-refresh", "never", "--", *DEMO)
            await me.all_work()
            before = me.files()
            await me.kill_server()
            await me.all_work()
            await me.lose_sessions()
            assert [await client.ask() for client in me.clients] == ["broken"] * len(HABITS)
            await asyncio.sleep(3)
            assert me.files() == before


@pytest.mark.parametrize("when", ["told", "out", "between", "back"])
async def test_a_daemon_killed_in_a_refresh_is_made_up_for(tmp_path: Path, when: str) -> None:
    moments: dict[str, Callable[[User], bool]] = {
        "told": lambda me: True,
        "out": lambda me: 0 in me.entries().values(),
        "between": lambda me: not any(me.entries().values()),
        "back": lambda me: not any(me.entries().values()),
    }
    async with user(tmp_path) as me:
        await me.run()
        async with watching(*me.clients):
            await me.all_work()
            await asyncio.sleep(1.5)  # what sessions need is written within a second
            pid = await me.daemon()
            await me.lose_sessions()
            [await client.ask() for client in me.clients]
            await until(lambda: moments[when](me), 60)
            if when == "back":
                await until(lambda: any(me.entries().values()), 60)
            os.kill(pid, signal.SIGKILL)
            await me.place.done("start", "--all")
            await me.all_work()
            assert set(me.entries().values()) == {1}
            assert not list(me.home.rglob(".mooring-*"))


async def test_a_daemon_that_takes_over_in_a_refresh_finishes_it(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        async with watching(*me.clients):
            await me.all_work()
            await me.lose_sessions()
            [await client.ask() for client in me.clients]
            await until(lambda: not any(me.entries().values()), 60)
            await me.place.done("daemon", "restart")
            await me.all_work()
            assert set(me.entries().values()) == {1}


async def test_a_lost_state_is_no_tool_until_the_server_is_run_again(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        async with watching(*me.clients):
            await me.all_work()
            await me.place.done("daemon", "stop")
            for path in me.place.state.glob(f"{FILE_NAME}*"):
                path.unlink()
            await me.place.done("daemon", "start")
            await until(lambda: not any(client.has_tool for client in me.clients), 60)
            await me.place.done("run", "demo", "--client", "none", "--", *DEMO)
            await me.all_work()
            assert set(me.entries().values()) == {1}


async def test_another_port_is_told_to_all(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        async with watching(*me.clients):
            await me.all_work()
            await me.place.done("daemon", "stop")
            assert [await client.ask() for client in me.clients] == ["unreachable"] * len(HABITS)
            me.place.environment["MOORING_PORT"] = "0"
            await me.place.done("start", "--all")
            assert (await me.place.told("daemon", "status"))["port"] != me.port
            await me.all_work()


async def test_a_file_in_trouble_holds_up_nothing(tmp_path: Path) -> None:
    async with user(tmp_path) as me:
        await me.run()
        cursor, *others = me.clients
        async with watching(*me.clients):
            await me.all_work()
            spoilt = cursor.path.read_text() + "}"
            cursor.path.write_text(spoilt)
            others[0].path.chmod(stat.S_IRUSR)
            await me.kill_server()
            await me.all_work()
            await me.place.done("restart", "demo")
            await me.all_work()
            await me.lose_sessions()
            for client in me.clients:
                await client.ask()
            await others[1].works()
            await others[2].works()
            assert cursor.path.read_text() == spoilt
            troubles = [event["text"] for event in await me.events() if event["kind"] == "clients"]
            assert any(text.startswith("cursor: ") for text in troubles)
            others[0].path.chmod(stat.S_IRUSR | stat.S_IWUSR)
            cursor.path.write_text(spoilt[:-1])
            await me.all_work()
            assert set(me.entries().values()) == {1}
