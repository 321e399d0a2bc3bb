"""Looks at the processes: shared, never stale, and never all that the loop does."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mooring.runtimes import Exit, proctable
from mooring.runtimes.lookout import Lookout
from mooring.runtimes.proctable import Session
from tests.faults.runtime_bench import PATIENT, bench
from tests.support import on_both_loops, within

MARKER = "MOORING_INSTANCE=me:x:1"


@contextmanager
def sleeping(number: int) -> Iterator[list[Session]]:
    """Sessions, each with one process that just stays."""
    children = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(number)]
    try:
        yield [Session(child.pid, "", MARKER, anchored=True) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the process table was looked at."""
    moments: list[float] = []
    really = proctable.in_sessions

    def counted() -> dict[int, list[int]]:
        moments.append(time.monotonic())
        return really()

    monkeypatch.setattr(proctable, "in_sessions", counted)
    return moments


@on_both_loops
async def test_who_asks_at_the_same_time_shares_a_look(looks: list[float]) -> None:
    lookout = Lookout()
    with sleeping(20) as sessions:
        async with within():
            found = await asyncio.gather(*map(lookout.members, sessions))
        assert [[process.pid for process in members] for members in found] == [
            [session.leader] for session in sessions
        ]
    assert len(looks) == 1


@on_both_loops
async def test_nobody_is_shown_what_was_seen_before_they_asked(looks: list[float]) -> None:
    lookout = Lookout()
    with sleeping(1) as [session]:
        async with within():
            assert await lookout.members(session)
            os.kill(session.leader, signal.SIGKILL)
            os.waitid(os.P_PID, session.leader, os.WEXITED | os.WNOWAIT)
            assert await lookout.members(session) == []
    assert len(looks) == 2


@on_both_loops
async def test_looks_leave_the_loop_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    def slow() -> dict[int, list[int]]:
        happened.append("look")
        time.sleep(0.02)
        return {}

    monkeypatch.setattr(proctable, "in_sessions", slow)
    lookout, session = Lookout(), Session(7_777_777, "", MARKER, anchored=True)
    async with within():
        await lookout.members(session)
        asyncio.get_running_loop().call_later(0.1, happened.append, "something else")
        await asyncio.gather(lookout.members(session), lookout.members(session))
    assert happened == ["look", "something else", "look"]


@on_both_loops
async def test_who_is_cancelled_does_not_disturb_the_others() -> None:
    lookout = Lookout()
    with sleeping(2) as [one, other]:
        async with within():
            first, second = (asyncio.ensure_future(lookout.members(session)) for session in (one, other))
            await asyncio.sleep(0)
            first.cancel()
            assert [process.pid for process in await second] == [other.leader]
            assert first.cancelled()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), ValueError("a bug")])
@on_both_loops
async def test_a_look_that_fails_is_told_to_all(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind() -> dict[int, list[int]]:
        raise error

    monkeypatch.setattr(proctable, "in_sessions", blind)
    lookout, session = Lookout(), Session(7_777_777, "", MARKER, anchored=True)
    async with within():
        asked = asyncio.gather(*(lookout.members(session) for _ in range(3)), return_exceptions=True)
        assert await asked == [error] * 3


@on_both_loops
async def test_children_that_die_together_are_reaped_after_one_look(looks: list[float]) -> None:
    async with bench(PATIENT) as it, within():
        instances = [(await it.start("say:up", "echo")) for _ in range(10)]
        for _, listener in instances:
            await listener.has(b"up")
        for instance, _ in instances:
            os.kill(instance.pid, signal.SIGKILL)
        for instance, _ in instances:  # before the loop can see the first of them
            os.waitid(os.P_PID, instance.pid, os.WEXITED | os.WNOWAIT)
        for instance, _ in instances:
            assert (await instance.stop()).exit == Exit(None, signal.SIGKILL)
            assert instance.reaped
    assert len(looks) <= 2, "the loop may have been told of them in two turns"
