"""Mooring is killed; its guardian ends and removes the containers that it had, on real engines.

`python -m tests.containers.test_guardian SOCKET KEPT NAME…` is that Mooring: it registers all containers,
KEPT among them, forgets that one, holds the input of the others, and stays.
"""

import asyncio
import json
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.runtimes.guardian import Guardian
from tests.containers.engines import RealEngine
from tests.containers.images import NAME, host_volumes
from tests.support import PATIENCE_S, alive, children, until, within

TRAP = "trap 'echo SIGTERM >/told/$0; exit 0' TERM; "
HEEDS_INPUT = TRAP + "echo up >/told/$0; cat; echo end of input >/told/$0"
HEEDS_SIGTERM = TRAP + "echo up >/told/$0; while :; do sleep 0.05; done"
HEEDS_NOTHING = "trap '' TERM; echo up >/told/$0; while :; do sleep 0.05; done"
# So that its connection ends with the process, and with that the input of the container.
ATTACH = "POST /containers/{}/attach?stream=1&stdin=1 HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n"
UPGRADE = "Connection: Upgrade\r\nUpgrade: tcp"


class Made:
    """A container, made and started by another tool than ours; what it tells of itself is in a folder."""

    def __init__(self, engine: RealEngine, folder: Path, script: str, *, is_started: bool = True) -> None:
        self.name = f"mooring-tool-{secrets.token_hex(6)}"
        self._engine, self._told = engine, folder / self.name
        self._told.touch()
        about = {
            "Image": NAME,
            "Cmd": ["/bin/sh", "-c", script, self.name],
            "OpenStdin": True,
            "StdinOnce": True,
            "HostConfig": {
                "Binds": [*map(str, host_volumes()), f"{folder}:/told"],
                "NetworkMode": "none",
                "Init": True,
            },
        }
        path = f"/containers/create?name={self.name}"
        status, said = engine.ask("POST", path, json.dumps(about).encode())
        assert status == 201, said
        self.id = said["Id"]
        if is_started:
            self.do("start")

    @property
    def told(self) -> str:
        return self._told.read_text().strip()

    @property
    def is_there(self) -> bool:
        return self.id in self._engine.containers()

    def do(self, verb: str) -> None:
        self._engine.do("POST", f"/containers/{self.name}/{verb}")

    def remove(self) -> None:
        """That it is gone is fine."""
        self._engine.ask("DELETE", f"/containers/{self.name}?force=1&v=1")


@asynccontextmanager
async def mooring(engine: RealEngine, kept: str, *names: str) -> AsyncIterator[None]:
    """At the end of the block it is killed, and its guardian waited for."""
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.containers.test_guardian", str(engine.socket), kept, *names),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert host.stdout is not None
        guardian = int(await host.stdout.readline())
        yield
    finally:
        host.kill()
        await host.communicate()
    await until(lambda: not alive(guardian))


async def test_what_a_killed_mooring_had_is_ended_and_removed(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    async with within(PATIENCE_S * 3):
        polite, obedient, paused, kept = (
            Made(real_engine, tmp_path, script)
            for script in (HEEDS_INPUT, HEEDS_SIGTERM, HEEDS_SIGTERM, HEEDS_NOTHING)
        )
        stubborn, stubborn_and_paused = (Made(real_engine, tmp_path, HEEDS_NOTHING) for _ in range(2))
        exited = Made(real_engine, tmp_path, "echo up >/told/$0")
        unstarted = Made(real_engine, tmp_path, HEEDS_NOTHING, is_started=False)
        running = [polite, obedient, paused, kept, stubborn, stubborn_and_paused, exited]
        await until(lambda: all(one.told == "up" for one in running))
        await until(lambda: real_engine.state(exited.name)["Status"] == "exited")
        for one in (paused, stubborn_and_paused):
            one.do("pause")
        ours = [*running, unstarted]
        try:
            async with mooring(real_engine, kept.name, *(one.name for one in ours)):
                assert polite.told == "up"
            await until(lambda: [one for one in ours if one.is_there] == [kept])
            assert real_engine.state(kept.name)["Running"] and kept.told == "up"
            assert (polite.told, obedient.told, paused.told) == ("end of input", "SIGTERM", "SIGTERM")
            assert stubborn.told == stubborn_and_paused.told == "up"
        finally:
            for one in ours:
                one.remove()


async def test_let_go_while_containers_are_left_it_ends_them_and_leaves(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    """Their engine did not answer Mooring in time, which could wait no longer."""
    async with within(PATIENCE_S * 3):
        stubborn = Made(real_engine, tmp_path, HEEDS_NOTHING)
        try:
            await until(lambda: stubborn.told == "up")
            guardian = Guardian(time.monotonic)
            guardian.ensure()
            guardian.register_container(stubborn.name, str(real_engine.socket))
            pid = guardian.pid
            await guardian.aclose()
            assert pid in children(), "it takes longer than it is waited for"
            await until(lambda: not stubborn.is_there)
            await until(lambda: guardian.pid is None)
            assert pid not in children()
        finally:
            stubborn.remove()


# The Mooring that is killed


def hold_input(where: str, name: str) -> None:
    """Until this process ends. Whatever the engine says to that: some are paused, or do not run."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(where)
    connection.sendall(ATTACH.format(name, UPGRADE).encode())
    assert connection.recv(4096)
    connection.detach()


async def main(where: str, kept: str, *names: str) -> None:
    guardian = Guardian(time.monotonic)
    guardian.ensure()
    for name in names:
        guardian.register_container(name, where)
    guardian.forget_container(kept)
    for name in names:
        if name != kept:
            hold_input(where, name)
    print(guardian.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
