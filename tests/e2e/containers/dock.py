"""A user's Mooring whose servers are in containers of a real engine, and what others can do to those."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.api.client import ApiClient
from mooring.errors import MooringError
from mooring.host.harbouring import known_owner
from mooring.host.places import Places
from tests.containers.engines import RealEngine
from tests.containers.images import NAME, host_volumes, python
from tests.e2e.test_daemon_command import Home, home
from tests.mcp_client import McpClient, Stream, client_of
from tests.support import until, within

__all__ = [
    "DEMO",
    "HARD",
    "HASTY",
    "SERVER",
    "STUBBORN",
    "Dock",
    "begin_call",
    "dock",
    "error_of",
    "go_on",
    "image_options",
]

Json = dict[str, Any]

SERVER = str(Path(__file__).with_name("server.py"))
DEMO = python("-m", "mooring.demo")
HARD = python("-I", "-S", SERVER)
STUBBORN = (*HARD, "--stubborn")
HASTY = ("--eof-grace", "1s", "--stop-grace", "500ms")
SLOW = "slow"
WAIT_S = 30.0
"""For whatever has to become true; never a measure of speed."""


def image_options(engine: RealEngine | Path, image: str = NAME) -> list[str]:
    """For `mooring run`."""
    socket = engine.socket if isinstance(engine, RealEngine) else engine
    options = ["--image", image, "--engine", f"unix://{socket}", "--network", "none"]
    for volume in host_volumes():
        options += ["--volume", f"{volume.source}:{volume.target}:ro"]
    return options


class Dock:
    """A home, and the engine that its containers are in."""

    def __init__(self, place: Home, engine: RealEngine) -> None:
        self.place = place
        self.engine = engine
        self.port = 0
        self._api = ApiClient(Places(place.state, 0).socket)

    async def run(
        self,
        *options: str,
        name: str = "demo",
        args: tuple[str, ...] = DEMO,
        socket: Path | None = None,
        spare: int = 0,
    ) -> str:
        """A server in containers, ready; returns its URL. `socket`: where to reach the engine instead."""
        words = ["run", name, *image_options(socket or self.engine), "--spare", str(spare), *HASTY, *options]
        url = (await self.place.done(*words, "--", *args)).strip()
        self.port = (await self.place.told("daemon", "status"))["port"]
        self.place.environment["MOORING_PORT"] = str(self.port)
        return url

    def client(self, name: str = "demo") -> contextlib.AbstractAsyncContextManager[McpClient]:
        """One with a session of its own."""
        return client_of(self.port, path=f"/{name}/mcp")

    async def daemon(self) -> int:
        """Its pid."""
        return int((await self.place.told("daemon", "status"))["pid"])

    # What Mooring says

    async def seen(self, name: str = "demo") -> Json:
        """The server, as `mooring status --json` has it."""
        found: Json = await asyncio.to_thread(self._api.ask, "GET", f"/servers/{name}")
        return found

    async def becomes(self, what: Callable[[Json], object], name: str = "demo") -> Json:
        """The server, once that is true of it."""
        found: Json = {}
        try:
            async with within(WAIT_S):
                while True:
                    with contextlib.suppress(MooringError):
                        found = await self.seen(name)
                        if what(found):
                            return found
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"it did not come to that: {json.dumps(found)}") from None

    async def events(self, name: str = "demo") -> list[Json]:
        """All that happened to it."""
        told = await self.place.done("events", name, "--json")
        return [json.loads(line) for line in told.splitlines()]

    async def logged(self, text: str, name: str = "demo") -> None:
        """Wait until that stands in its log."""
        async with within(WAIT_S):
            while text not in await self.place.done("logs", name):
                await asyncio.sleep(0.02)

    async def container_of(self, client: McpClient, name: str = "demo") -> str:
        """The container that serves its session."""

        def serving(server: Json) -> list[str]:
            return [
                one["container"]
                for one in server["instances"]
                if one["session"] and client.session.startswith(one["session"])
            ]

        [container] = serving(await self.becomes(lambda server: len(serving(server)) == 1, name))
        assert container in self.ours()
        return str(container)

    # What is in the engine

    @property
    def owner(self) -> str:
        """Whose the containers of this Mooring are; empty if it has had none."""
        return known_owner(Places(self.place.state, 0))

    def ours(self) -> set[str]:
        """Ids of all our containers, whatever their state."""
        return set(self.engine.containers(f"dev.mooring.owner={self.owner}")) if self.owner else set()

    async def left(self, *containers: str) -> None:
        """Wait until those are all of ours that there are."""
        try:
            await until(lambda: self.ours() == set(containers), WAIT_S)
        except TimeoutError:
            raise AssertionError(f"{self.ours()}, not {set(containers)}") from None

    # What others do

    async def do(self, method: str, path: str) -> None:
        """Somebody else has the engine do that."""
        await asyncio.to_thread(self.engine.do, method, path)

    async def kill(self, container: str) -> None:
        await self.do("POST", f"/containers/{container}/kill")

    async def remove(self, container: str) -> None:
        """`docker rm -f`."""
        await self.do("DELETE", f"/containers/{container}?force=1&v=1")

    async def restart(self, container: str) -> None:
        await self.do("POST", f"/containers/{container}/restart?t=1")


def _networks(engine: RealEngine) -> set[str]:
    status, said = engine.ask("GET", "/networks")
    assert status == 200, said
    return {network["Name"] for network in said}


@asynccontextmanager
async def dock(tmp_path: Path, engine: RealEngine, *, prefix: tuple[str, ...] = ()) -> AsyncIterator[Dock]:
    """At the end, Mooring stops; and then nothing of it is in the engine. `prefix`: see `home`."""
    before = _networks(engine)
    harbour: Dock | None = None
    try:
        async with home(tmp_path, prefix=prefix) as place:
            harbour = Dock(place, engine)
            yield harbour
            await asyncio.wait_for(place.mooring("daemon", "stop"), WAIT_S)
        left = harbour.ours()
        assert not left, [engine.ask("GET", f"/containers/{container}/json") for container in left]
        assert _networks(engine) == before
        assert engine.containers() or not engine.volumes(), "volumes left behind"
    finally:
        # Only after a failure is there anything left to end; and then it must not disturb the next test.
        if not engine.pid:
            await asyncio.to_thread(engine.start)
        for container in harbour.ours() if harbour is not None else ():
            engine.ask("DELETE", f"/containers/{container}?force=1&v=1")


async def begin_call(client: McpClient) -> Stream:
    """A call that takes a minute, and of which the server has told that it is at it."""
    params = {
        "name": "sleep",
        "arguments": {"seconds": 60, "steps": 1200},
        "_meta": {"progressToken": "under way"},
    }
    stream = await client.stream("POST", client.request("tools/call", params, id=SLOW))
    assert (await stream.message())["method"] == "notifications/progress"
    return stream


async def go_on(client: McpClient, stream: Stream) -> None:
    """The call of `begin_call` is still at it; and nobody waits for it any more."""
    assert (await stream.message())["method"] == "notifications/progress"
    await client.notify("notifications/cancelled", {"requestId": SLOW})
    stream.reset()


async def error_of(stream: Stream) -> Json:
    """What a call is told that has failed."""
    *_, last = await stream.rest()
    error: Json = last["error"]
    return error
