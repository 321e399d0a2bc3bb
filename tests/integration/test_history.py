"""What happens is written down in order, and whoever waits hears of it. Real SQLite."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.store.store import Store
from mooring.workloads import history as module
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.history import History
from mooring.workloads.state import State
from tests.support import within

READY = Happening(Kind.READY, "it works")


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[State]:
    store = Store(tmp_path, time.time)
    store.claim(1, "boot")
    kept = State(store)
    yield kept
    await kept.aclose()


async def kinds(history: History, name: str = "") -> list[str]:
    return [event.kind for event in await history.read(name, wait_s=0)]


async def test_events_are_about_the_generation_of_their_moment(state: State) -> None:
    history = History(state, lambda: 5.0)
    added = await state.do(lambda store: store.add("one", b"{}"))
    history.tell("one", added.generation, READY)
    history.tell("one", added.generation, Happening(Kind.STOPPED, "restarted"))
    begun = await state.do(lambda store: store.begin("one", after=added.generation))
    history.tell("one", added.generation, Happening(Kind.EXITED, "late: nobody needs to know"))
    history.tell("one", begun.generation, READY)
    history.tell("gone", 1, READY)
    found = await history.read(wait_s=0)
    assert [(event.generation, event.kind) for event in found] == [(1, "ready"), (1, "stopped"), (2, "ready")]
    assert {event.at for event in found} == {5.0}


async def test_whoever_waits_hears_of_it(state: State) -> None:
    history = History(state, time.time)
    await state.do(lambda store: store.add("one", b"{}"))
    reading = asyncio.create_task(history.read("one", wait_s=60))
    other = asyncio.create_task(history.read("other", wait_s=60))
    await history.read("one", wait_s=0.01)
    assert not reading.done()
    history.tell("one", 1, READY)
    async with within():
        [event] = await reading
    reading = asyncio.create_task(history.read("one", after=event.number, wait_s=60))
    await asyncio.sleep(0)
    history.close()
    async with within():
        assert await reading == [] == await other, "at the end nobody is kept"


async def test_one_that_was_killed_is_told_of_by_its_successor(state: State) -> None:
    history = History(state, time.time)
    await history.opened("pid 1, version 1")
    history.tell("", 0, Happening(Kind.DAEMON_ENDED, "SIGTERM"))
    await history.opened("pid 2, version 1")
    await history.opened("pid 3, version 1")
    await history.opened("pid 4, version 1")
    found = await history.read(wait_s=0)
    assert [event.kind for event in found] == [
        "daemon_started",
        "daemon_ended",
        "daemon_started",
        "daemon_recovered",
        "daemon_recovered",
    ]
    assert found[-1].text == "pid 4, version 1; the one before (pid 3, version 1) ended without a word"


async def test_a_disk_that_does_not_keep_up_costs_events_and_nobody_waits(
    state: State, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_UNWRITTEN", 3)
    history = History(state, time.time)
    await state.do(lambda store: store.add("one", b"{}"))
    slow = threading.Event()
    blocked = state.do(lambda store: slow.wait(60))
    for n in range(5):
        history.tell("one", 1, Happening(Kind.EXITED, str(n)))
    slow.set()
    await blocked
    assert [event.text for event in await history.read(wait_s=0)] == ["0", "1", "2"]
    assert "2 events were dropped" in caplog.text
    history.tell("one", 1, READY)
    assert len(await history.read(wait_s=0)) == 4


async def test_what_cannot_be_written_is_told_once(
    state: State, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(state, time.time)
    await state.do(lambda store: store.add("one", b"{}"))
    successor = Store(tmp_path, time.time)
    successor.claim(2, "boot")
    for _ in range(3):
        history.tell("one", 1, READY)
    assert await kinds(history) == []
    assert caplog.text.count("events cannot be written down") == 1
    successor.close()


async def test_whoever_only_waits_reads_nothing(state: State) -> None:
    history = History(state, time.time)
    await state.do(lambda store: store.add("one", b"{}"))
    news = history.news
    history.tell("one", 1, READY)
    async with within():
        await news.wait()
    assert not history.news.is_set(), "the next one is for the next time"
