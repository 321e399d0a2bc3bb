"""What tests share: one bounded wait, and a look at what a test left behind."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

PATIENCE_S = 20.0
"""One generous bound for everything that must happen; never a measure of speed."""


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


def open_descriptors() -> dict[int, str]:
    """Descriptor → what it is, of this process."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the listing itself is a descriptor
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except FileNotFoundError:
            continue
    return found


def alive(pid: int) -> bool:
    """Does the process run? A zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
