"""A runtime for tests, on a real engine, with everything that it tells written down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from mooring.runtimes.containers.exits import ContainerExit
from mooring.runtimes.containers.harbour import Harbour
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.pulling import Progress
from mooring.runtimes.containers.runtime import ContainerRuntime
from mooring.runtimes.containers.spec import ContainerSpec
from mooring.runtimes.stopping import StopPatience
from mooring.wire.lines import LongLine
from tests.containers.engines import RealEngine
from tests.containers.images import NAME, host_volumes, python
from tests.support import PATIENCE_S

PATIENT = StopPatience(eof_grace_s=PATIENCE_S, stop_grace_s=PATIENCE_S)
"""Nothing is forced: what ends, ends by itself."""


class Heard:
    """A receiver that keeps all."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.long: list[LongLine] = []
        self.writable = 0
        self.exit: Any = None
        self._news = asyncio.Event()

    def on_line(self, line: bytes) -> None:
        self.lines.append(line)
        self._news.set()

    def on_long_line(self, line: LongLine) -> None:
        self.long.append(line)
        self._news.set()

    def on_writable(self) -> None:
        self.writable += 1
        self._news.set()

    def on_gone(self, exit: Any) -> None:
        assert self.exit is None, "told twice"
        self.exit = exit
        self._news.set()

    async def line(self, number: int) -> bytes:
        """That line, once it has come."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.lines) <= number:
                self._news.clear()
                await self._news.wait()
        return self.lines[number]


class Told:
    """What a runtime tells of its containers, in order."""

    def __init__(self) -> None:
        self.stderr: list[str] = []
        self.speakers: list[int] = []
        """Who said each line of it, by pid."""
        self.gone: list[tuple[ContainerInstance, ContainerExit]] = []
        self.removed: list[str] = []
        self.paused: list[bool] = []
        self.progress: list[Progress] = []
        self.order: list[str] = []

    def on_stderr(self, pid: int, text: str) -> None:
        self.stderr.append(text)
        self.speakers.append(pid)

    def on_gone(self, instance: ContainerInstance, exit: ContainerExit) -> None:
        self.gone.append((instance, exit))
        self.order.append(f"gone: {exit}")

    def on_removed(self, container: str) -> None:
        self.removed.append(container)
        self.order.append("removed")


def harbours(owner: Owner | None = None) -> Harbours:
    return Harbours(owner or Owner(token_hex(8), token_hex(8)), {}, Path("/nowhere"))


def harbour(engine: RealEngine | Path, owner: Owner | None = None) -> Harbour:
    where = engine.socket if isinstance(engine, RealEngine) else engine
    return harbours(owner).get(str(where))


@asynccontextmanager
async def running(
    engine: RealEngine | Path,
    told: Told | None = None,
    *,
    patience: StopPatience | None = None,
    owner: Owner | None = None,
) -> AsyncIterator[ContainerRuntime]:
    """A runtime; at the end of the block nothing of it may be left in the engine."""
    told = told or Told()
    home = harbour(engine, owner)
    runtime = ContainerRuntime(
        harbour=home,
        on_stderr=told.on_stderr,
        on_gone=told.on_gone,
        on_removed=told.on_removed,
        on_paused=lambda instance, paused: told.paused.append(paused),
        on_progress=told.progress.append,
        patience=patience or PATIENT,
    )
    try:
        yield runtime
    finally:
        await runtime.aclose()
        await home.aclose()
    if isinstance(engine, RealEngine) and engine.pid:
        left = engine.containers(f"dev.mooring.life={home.owner.life}")
        assert not left, (
            f"containers left behind: {[engine.ask('GET', f'/containers/{id}/json') for id in left]}"
        )
        if not engine.containers():
            assert not engine.volumes(), "volumes left behind"


def shell(script: str, **more: Any) -> ContainerSpec:
    """A container that runs a script."""
    return spec("/bin/sh", "-c", script, **more)


def spec(*args: str, **more: Any) -> ContainerSpec:
    return ContainerSpec(
        name=more.pop("name", "tool"),
        image=more.pop("image", NAME),
        args=args,
        volumes=host_volumes(),
        network="none",
        **more,
    )


def demo(**more: Any) -> ContainerSpec:
    """Our demo server in a container."""
    return spec(*python("-m", "mooring.demo"), **more)
