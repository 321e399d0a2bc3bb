"""Scripted clients that watch their files, with a server in containers: connected, removed, added again.

As Cursor, VS Code, Zed and Cline do, all at once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.containers.engines import RealEngine
from tests.e2e.containers.dock import DEMO, WAIT_S, Dock, dock, image_options
from tests.e2e.test_client_refresh import User
from tests.e2e.test_recovery_command import written_sessions
from tests.e2e.watching_client import HABITS, watching
from tests.support import until

WORKING = [1] * len(HABITS)


class Audience(User):
    """A user whose server `demo` is in containers."""

    def __init__(self, ours: Dock, folder: Path) -> None:
        super().__init__(ours.place, folder)
        self.dock = ours

    async def containers(self) -> list[str]:
        """Of each client, in order."""
        sessions = [client.session for client in self.clients]
        assert all(sessions)
        seen = await self.dock.becomes(
            lambda server: sum(one["session"] is not None for one in server["instances"]) == len(sessions)
        )
        found = {one["session"]: one["container"] for one in seen["instances"] if one["session"]}
        return [next(found[short] for short in found if id.startswith(short)) for id in sessions]

    async def are_without_the_tool(self) -> None:
        """All of them, and their files are as they were before they knew of it."""
        await until(lambda: not any(client.has_tool for client in self.clients), WAIT_S)
        assert [await client.ask() for client in self.clients] == ["no tool"] * len(HABITS)
        assert {client.id: client.path.read_text() for client in self.clients} == {
            id: habits.before for id, habits in HABITS.items()
        }


@asynccontextmanager
async def audience(tmp_path: Path, engine: RealEngine) -> AsyncIterator[Audience]:
    """All of them work, each with a container of its own."""
    folder = tmp_path / "user"
    folder.mkdir()
    async with dock(tmp_path, engine) as ours:
        me = Audience(ours, folder)
        await me.run(*image_options(engine), "--spare", "0", "--eof-grace", "1s", command=DEMO)
        ours.port = me.port
        async with watching(*me.clients):
            await me.all_work()
            assert [client.connected for client in me.clients] == WORKING
            yield me


async def test_kills_and_restarts_by_others_touch_no_file(tmp_path: Path, real_engine: RealEngine) -> None:
    async with audience(tmp_path, real_engine) as me:
        before = me.files()
        for container in await me.containers():
            await me.dock.kill(container)
        await me.all_work()
        containers = await me.containers()
        await asyncio.gather(*map(me.dock.restart, containers))
        await me.all_work()
        if real_engine.kind == "docker":  # Podman does not tell in time that four are being restarted
            assert await me.containers() == containers
        await asyncio.sleep(3)  # a look at the files, and more
        assert me.files() == before
        assert [client.connected for client in me.clients] == WORKING


async def test_removed_outside_it_is_no_tool_until_it_is_started(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with audience(tmp_path, real_engine) as me:
        before = {client.id: client.path.read_bytes() for client in me.clients}
        await me.dock.remove((await me.containers())[0])
        await me.dock.becomes(lambda server: server["state"] == "stopped")
        await me.are_without_the_tool()
        await me.place.done("start", "demo")
        await me.all_work()
        assert {client.id: client.path.read_bytes() for client in me.clients} == before
        assert [client.connected for client in me.clients] == [2] * len(HABITS)
        # And gone for good.
        await me.place.done("rm", "demo")
        await me.are_without_the_tool()
        assert not me.dock.ours()


async def test_removed_outside_while_the_daemon_restarts_it_is_no_tool(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with audience(tmp_path, real_engine) as me:
        await me.dock.remove((await me.containers())[0])
        await me.dock.becomes(lambda server: server["desired"] == "stopped")
        await me.kill_daemon()
        await me.place.done("daemon", "start")
        await me.dock.becomes(lambda server: server["reason"] == "removed_outside")
        await me.are_without_the_tool()
        await me.place.done("start", "demo")
        await me.all_work()


async def test_an_engine_that_was_gone_for_a_while_touches_no_file(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with audience(tmp_path, real_engine) as me:
        before = me.files()
        await asyncio.to_thread(real_engine.stop)
        try:
            await me.dock.becomes(lambda server: server["reason"] == "engine_unreachable")
        finally:
            await asyncio.to_thread(real_engine.start)
        await me.all_work()
        await asyncio.sleep(3)  # a look at the files, and more
        assert me.files() == before
        assert [client.connected for client in me.clients] == WORKING


async def test_daemons_that_are_restarted_or_killed_touch_no_file(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with audience(tmp_path, real_engine) as me:
        before, containers = me.files(), await me.containers()
        await me.place.done("daemon", "restart")
        await me.all_work()
        assert await me.containers() == containers
        sessions = {client.session for client in me.clients}
        await until(lambda: sessions <= set(written_sessions(me.place, "demo")), WAIT_S)
        await me.kill_daemon()
        await me.place.done("daemon", "start")
        await me.all_work()
        await asyncio.sleep(3)  # a look at the files, and more
        assert me.files() == before
        assert [client.connected for client in me.clients] == WORKING


async def test_paused_it_is_waited_for(tmp_path: Path, real_engine: RealEngine) -> None:
    async with audience(tmp_path, real_engine) as me:
        before, containers = me.files(), await me.containers()
        for container in containers:
            await me.dock.do("POST", f"/containers/{container}/pause")
        await me.dock.becomes(lambda server: server["reason"] == "paused")
        asking = [asyncio.create_task(client.ask()) for client in me.clients]
        await me.dock.becomes(lambda server: server["calls"] == len(HABITS))
        for container in containers:
            await me.dock.do("POST", f"/containers/{container}/unpause")
        assert await asyncio.gather(*asking) == ["works"] * len(HABITS)
        await asyncio.sleep(3)  # a look at the files, and more
        assert me.files() == before and await me.containers() == containers


async def test_sessions_that_were_lost_are_found_anew(tmp_path: Path, real_engine: RealEngine) -> None:
    async with audience(tmp_path, real_engine) as me:
        before = {client.id: client.path.read_bytes() for client in me.clients}
        await me.lose_sessions()
        assert [await client.ask() for client in me.clients] == ["broken"] * len(HABITS)
        await me.all_work()
        assert {client.id: client.path.read_bytes() for client in me.clients} == before
        assert [client.connected for client in me.clients] == [2] * len(HABITS)
