"""What tests share: one bounded wait, and a look at what a test left behind."""

import asyncio
import functools
import inspect
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
# libuv opens one pipe per process with its first loop, for signals, and keeps it: no leak of a test's.
uvloop.new_event_loop().close()

PATIENCE_S = 20.0
"""One generous bound for everything that must happen; never a measure of speed."""
START_S = 90.0
"""For a program of others that writes to a disk which is busy for others still before it answers."""


@asynccontextmanager
async def within(seconds: float = PATIENCE_S) -> AsyncIterator[None]:
    """Everything in the block happens within one generous bound, or the test fails."""
    async with asyncio.timeout(seconds):
        yield


async def until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Let the loop turn until `condition()` holds; for facts of the operating system that send no event."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def children(pid: int | None = None) -> set[int]:
    """Pids of the direct children of a process, zombies included."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid or os.getpid()}/task").iterdir():
        try:
            found.update(int(word) for word in (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def free_port() -> int:
    """A port to come back to after a restart."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def open_descriptors(pid: int | str = "self") -> dict[int, str]:
    """Descriptor → what it is, of a process."""
    found: dict[int, str] = {}
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - the listing itself is a descriptor
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
        except FileNotFoundError:
            continue
    return found


def alive(pid: int) -> bool:
    """Does the process run? A zombie does not, once its other threads have ended too: one of them may
    still read from a pipe after the first has become a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X") or threads > 1


async def suspend(pid: int) -> None:
    """SIGSTOP, and wait until it does stop: on a busy machine it may go on reading for a moment."""
    os.kill(pid, signal.SIGSTOP)
    stat = Path(f"/proc/{pid}/stat")
    await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")


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
