"""What the tests of `mooring.runtimes` share; holds no tests itself."""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mooring.runtimes import Exit, ProcessInstance, ProcessRuntime, ProcessSpec, StopPatience
from mooring.wire.lines import LongLine
from tests.support import until

NAUGHTY = Path(__file__).with_name("naughty_child.py")
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
# libuv opens one pipe per process with its first loop, for signals, and keeps it: no leak of a test's.
uvloop.new_event_loop().close()

FAST = StopPatience(eof_grace_s=0.05, stop_grace_s=0.1)
PATIENT = StopPatience(eof_grace_s=30, stop_grace_s=30)


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on asyncio's own loop and on uvloop; nothing may be left running on either."""

    @functools.wraps(test)
    def run(*arguments: Any, loop: str, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(_leaving_no_task(test(*arguments, **fixtures)))

    signature = inspect.signature(test)
    parameter = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), parameter])  # type: ignore[attr-defined]
    del run.__wrapped__
    parametrized: Callable[..., None] = pytest.mark.parametrize("loop", LOOPS)(run)
    return parametrized


async def _leaving_no_task(test: Coroutine[Any, Any, None]) -> None:
    await test
    me = asyncio.current_task()
    await until(lambda: not {task for task in asyncio.all_tasks() if task is not me}, 5)


def naughty(*words: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> ProcessSpec:
    return ProcessSpec(
        name="naughty", argv=(sys.executable, "-I", "-S", str(NAUGHTY), *words), env=env or {}, cwd=cwd
    )


class Listener:
    """Hears an instance and remembers."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.long: list[LongLine] = []
        self.writable = 0
        self.gone: list[Exit] = []
        self.after_gone = 0

    def on_line(self, line: bytes) -> None:
        self.after_gone += len(self.gone)
        self.lines.append(line)

    def on_long_line(self, line: LongLine) -> None:
        self.after_gone += len(self.gone)
        self.long.append(line)

    def on_writable(self) -> None:
        self.writable += 1

    def on_gone(self, exit: Exit) -> None:
        self.gone.append(exit)

    async def has(self, line: bytes) -> None:
        await until(lambda: line in self.lines)

    def grandchildren(self) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith(b"grandchild")]


class Bench:
    """A runtime, and what it told."""

    def __init__(self, patience: StopPatience = FAST, **options: Any) -> None:
        self.stderr: list[tuple[int, str]] = []
        self.gone: list[tuple[ProcessInstance, Exit]] = []
        options.setdefault("on_stderr", lambda pid, text: self.stderr.append((pid, text)))
        self.runtime = ProcessRuntime(
            on_gone=lambda instance, exit: self.gone.append((instance, exit)), patience=patience, **options
        )

    async def start(self, *words: str, **options: Any) -> tuple[ProcessInstance, Listener]:
        """A naughty child with somebody who listens."""
        instance = await self.runtime.start(naughty(*words, **options))
        listener = Listener()
        instance.attach(listener)
        return instance, listener

    def texts(self) -> list[str]:
        return [text for _, text in self.stderr]


@asynccontextmanager
async def bench(patience: StopPatience = FAST, **options: Any) -> AsyncIterator[Bench]:
    made = Bench(patience, **options)
    try:
        yield made
    finally:
        made.runtime.hurry()
        await made.runtime.aclose()
        assert made.runtime.instances == ()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
