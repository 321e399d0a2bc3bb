"""After every test: no child, no task, no descriptor left behind."""

import asyncio
import gc
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.support import children, open_descriptors

LINUX = sys.platform == "linux"


def pytest_configure() -> None:
    """A shell that runs us in the background has us ignore Ctrl-C, and with us all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: looking through it before each test took most of the time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with containers first: side by side, they are what is waited for at the end."""
    items.sort(key=lambda item: _engine(item.nodeid) is None)


class SideBySide(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """With `-n`: a file stays in one process, and so do all tests of one container engine."""

    def _split_scope(self, nodeid: str) -> str:
        return _engine(nodeid) or nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SideBySide:
    return SideBySide(config, log)


def _engine(nodeid: str) -> str | None:
    found = re.search(r"\[(docker|podman)\b", nodeid)
    return found and found[1]


def _leaks(children_before: set[int], descriptors_before: dict[int, str]) -> str:
    new_children = children() - children_before
    now = open_descriptors()
    new_descriptors = {fd: what for fd, what in now.items() if descriptors_before.get(fd) != what}
    # The interpreter opens these by itself, when it likes.
    new_descriptors = {
        fd: what for fd, what in new_descriptors.items() if not what.startswith(("/dev/urandom", "/proc/"))
    }
    if new_children or new_descriptors:
        return f"children {sorted(new_children)}, descriptors {new_descriptors}"
    return ""


@pytest.fixture(autouse=True)
def no_process_or_descriptor_left(request: pytest.FixtureRequest) -> Iterator[None]:
    if not LINUX:
        yield
        return
    gc.collect()
    children_before, descriptors_before = children(), open_descriptors()
    yield
    deadline = time.monotonic() + 5
    while (left := _leaks(children_before, descriptors_before)) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert not left, f"left behind: {left}"


@pytest.fixture(autouse=True)
async def no_task_left() -> AsyncIterator[None]:
    yield
    me = asyncio.current_task()
    for _ in range(200):
        left = {task for task in asyncio.all_tasks() if task is not me and not task.done()}
        if not left:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"tasks left behind: {left}")
