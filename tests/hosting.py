"""A foreground host inside the test's own loop: the real thing but for the process around it."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mooring.host import foreground
from mooring.host.options import ForegroundOptions, ListenOptions, ReplicaOptions, ServerOptions
from mooring.host.stop import Stop
from mooring.proxy.policy import SessionPolicy
from mooring.remote.options import RemoteOptions, ServedOptions
from mooring.runtimes.containers.spec import ContainerOptions
from mooring.runtimes.stopping import StopPatience
from mooring.supervise.restart import RestartPolicy
from tests.support import until, within

DEMO = (sys.executable, "-m", "mooring.demo")
SCRIPTED = (sys.executable, str(Path(__file__).parent / "faults" / "scripted_server.py"))
SHORT = StopPatience(eof_grace_s=1.0, stop_grace_s=1.0)
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Host:
    """What a test can do with a running host."""

    def __init__(self, stop: Stop, records: list[logging.LogRecord]) -> None:
        self.stop = stop
        self.records = records
        self.url = ""
        self.task: asyncio.Task[int] | None = None

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def events(self, name: str) -> list[logging.LogRecord]:
        return [record for record in self.records if getattr(record, "event", "") == name]

    async def logged(self, name: str, number: int = 1) -> logging.LogRecord:
        """The number-th record of that event; waits for it."""
        await until(lambda: len(self.events(name)) >= number)
        return self.events(name)[number - 1]

    async def end(self, cause: str = "SIGTERM") -> int:
        """Ask it to end, and wait for its exit status."""
        self.stop.request(cause)
        assert self.task is not None
        async with within(60):
            return await self.task


@asynccontextmanager
async def hosting(
    argv: Sequence[str] = DEMO,
    *,
    listen: dict[str, Any] | None = None,
    drain_delay_s: float = 0.0,
    drain_timeout_s: float | None = 25.0,
    spare: int = 1,
    restarts: RestartPolicy | None = None,
    patience: StopPatience = SHORT,
    remote: RemoteOptions | None = None,
    served: ServedOptions | None = None,
    container: ContainerOptions | None = None,
    secrets: Path | None = None,
    replicas: ReplicaOptions | None = None,
    **sessions: Any,
) -> AsyncIterator[Host]:
    """A host that listens; ended at the end of the block, at the latest.

    `remote`: of one elsewhere. `served`: of one that is spoken to over HTTP. `container`: what it runs in.
    `replicas`: one of several.
    """
    options = ForegroundOptions(
        server=ServerOptions(
            name="test",
            argv=tuple(argv) if remote is None else (),
            env=ENVIRONMENT if remote is None else {},
            container=container,
            remote=remote,
            served=served,
            spare=spare if remote is None and served is None else 0,
            sessions=SessionPolicy(**sessions),
            restarts=restarts or RestartPolicy(),
            patience=patience,
        ),
        secrets=secrets,
        replicas=replicas,
        listen=ListenOptions(**{"port": 0, **(listen or {})}),
        drain_delay_s=drain_delay_s,
        drain_timeout_s=drain_timeout_s,
    )
    handler = _Records()
    logger = logging.getLogger("mooring")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    host = Host(Stop(time.monotonic), handler.records)
    try:
        host.task = asyncio.create_task(foreground.run(options, host.stop))
        await until(lambda: host.events("listening") or host.task is None or host.task.done())
        if host.events("listening"):
            host.url = host.events("listening")[0].url  # type: ignore[attr-defined]
        yield host
    finally:
        host.stop.request("end of test")
        if host.task is not None:
            async with within(60):
                await asyncio.wait([host.task])
        logger.removeHandler(handler)
        logger.setLevel(level)
    if host.task is not None and not host.task.cancelled():
        error = host.task.exception()
        if error is not None:
            raise error
    crashes = [record for record in handler.records if record.exc_info]
    assert not crashes, [record.getMessage() for record in crashes]
