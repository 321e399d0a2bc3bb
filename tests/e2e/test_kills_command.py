"""The daemon is killed at any moment, again and again, while commands and calls go on."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mooring.host.ownership import holder
from tests.e2e.test_daemon_command import Home, home
from tests.e2e.test_recovery_command import guardian_of, servers, written_sessions
from tests.hosting import SCRIPTED
from tests.mcp_client import McpClient, client_of
from tests.support import alive, until, within

NAMES = ("a", "b", "c")
STEADY = ("run", "steady", "--", *SCRIPTED)
"""Never touched by a command: its client must not notice more than a pause."""
AFTER = {"run": "running", "start": "running", "restart": "running", "stop": "stopped", "rm": "gone"}
LATEST_S = 1.2
"""After the commands have begun; the slowest of them is about done by then."""


class Story:
    """What was asked for, and what must be true of it."""

    def __init__(self, place: Home, seed: int) -> None:
        self.place = place
        self.chance = random.Random(seed)
        self.known = dict.fromkeys(NAMES, "gone")
        self.allowed: dict[str, set[str]] = {}
        self.generations: dict[int, str] = {}
        self.told: list[str] = []

    async def round(self) -> None:
        """Commands, a kill in the middle of them, and a successor; then look."""
        commands = [asyncio.ensure_future(self._do(name)) for name in NAMES]
        await asyncio.sleep(self.chance.uniform(0, LATEST_S))
        self._kill()
        await asyncio.gather(*commands)
        await self.place.done(*STEADY)
        await self._look()

    async def _do(self, name: str) -> None:
        word, before = self.chance.choice(tuple(AFTER)), self.known[name]
        await asyncio.sleep(self.chance.uniform(0, 0.5))
        more = ("--no-wait", "--", *SCRIPTED) if word == "run" else ()
        status, _, err = await self.place.mooring(word, name, *more)
        after = AFTER[word] if before != "gone" or word == "run" else "gone"
        self.allowed[name] = {after} if status == 0 else {before, after}
        self.told.append(f"{word} {name}: {status} {err.strip()}")

    def _kill(self) -> None:
        daemon = self._daemon()
        victims = [daemon]
        with suppress(ValueError, OSError):
            victims += [guardian_of(daemon)] if self.chance.random() < 0.4 else []
        self.told.append(f"kill {victims}")
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _daemon(self) -> int:
        pid = holder(self.place.state / "daemon.lock")["pid"]
        assert isinstance(pid, int)
        return pid

    async def _look(self) -> None:
        found = await self._settled()
        for name in NAMES:
            desired = found[name]["desired"] if name in found else "gone"
            assert desired in self.allowed[name], (name, desired, self.allowed, self.told)
            self.known[name] = desired
        for server in found.values():
            # One that was seen before is this server's; a new one is newer than all that were seen.
            owner = self.generations.get(server["generation"], server["name"])
            assert owner == server["name"], (server, self.told)
        newest = max(self.generations, default=0)
        fresh = {server["generation"]: name for name, server in found.items()}
        assert all(number > newest for number in fresh.keys() - self.generations.keys()), self.told
        self.generations |= fresh

    async def _settled(self) -> dict[str, Any]:
        """All servers, once each is as it is wanted, and no process is there that nobody knows of."""
        async with within(60):
            while True:
                found = {server["name"]: server for server in await self.place.told("ls")}
                states = {(one["desired"], one["state"]) for one in found.values()}
                known = {one["pid"] for server in found.values() for one in server["instances"]}
                if states <= {("running", "ready"), ("stopped", "stopped")} and servers(self.place) <= known:
                    return found
                await asyncio.sleep(0.1)


async def calls(client: McpClient, story: Story) -> None:
    """One call after the other; the daemon may be away, the session may not."""
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            answer = await client.raw("POST", client.request("x/any"))
            assert answer.status in (200, 503), (answer, story.told)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("rounds", "seed"), [(3, 5), pytest.param(30, 2026, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
async def test_whenever_it_is_killed_what_was_wanted_ends_up_true(
    tmp_path: Path, rounds: int, seed: int
) -> None:
    async with home(tmp_path) as place:
        await place.done(*STEADY)
        about = await place.told("daemon", "status")
        place.environment["MOORING_PORT"] = str(about["port"])
        story = Story(place, seed)
        async with client_of(about["port"], path="/steady/mcp") as client:
            await until(lambda: client.session in written_sessions(place, "steady"))
            calling = asyncio.ensure_future(calls(client, story))
            for _ in range(rounds):
                await story.round()
                assert not calling.done(), calling.exception()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            assert await client.pid() in servers(place), "the same session, another process"
        await place.done("daemon", "stop")
        await until(lambda: not servers(place) and not alive(story._daemon()))
