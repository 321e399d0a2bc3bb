"""A child goes from one runtime to another, and notices nothing."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.runtimes import ProcessInstance
from mooring.runtimes.household import Household
from mooring.runtimes.passing import PassedProcess
from mooring.runtimes.roll import Roll
from tests.faults.runtime_bench import PATIENT, Bench, Listener, naughty
from tests.support import alive, children, on_both_loops, open_descriptors, until, within


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    processes, descriptors = children(), open_descriptors()
    yield
    assert children() <= processes
    assert open_descriptors() == descriptors


@asynccontextmanager
async def two_runtimes(old: Bench, new: Bench) -> AsyncIterator[None]:
    try:
        async with within():
            yield
    finally:
        await new.runtime.aclose()
        await old.runtime.aclose()


def copied(instance: ProcessInstance) -> PassedProcess:
    """As it comes out at the other end of a socket."""
    passed = instance.describe()
    assert passed is not None
    return PassedProcess(passed.about, tuple(map(os.dup, passed.descriptors)))


def pass_on(instance: ProcessInstance, old: Bench, new: Bench) -> tuple[ProcessInstance, Listener]:
    instance.hold()
    passed = copied(instance)
    old.runtime.part_with(instance)
    heir, listener = new.runtime.adopt(naughty(), passed), Listener()
    heir.attach(listener)
    return heir, listener


@on_both_loops
async def test_lines_go_on_where_they_were(tmp_path: Path) -> None:
    old, new = Bench(), Bench()
    async with two_runtimes(old, new):
        go = tmp_path / "go"
        words = ("say:one", "say-part:tw", "err-part:a", f"wait:{go}", "say:o", "err:b", "echo")
        instance, before = await old.start(*words)
        await before.has(b"one")
        await until(lambda: instance.stdout.unfinished and instance.stderr.unfinished)
        heir, after = pass_on(instance, old, new)
        assert heir.pid == instance.pid and heir.started_at == instance.started_at
        go.touch()
        heir.send(b"three")
        await after.has(b"three")
        assert (before.lines, after.lines) == ([b"one"], [b"two", b"three"])
        await until(lambda: new.stderr)
        assert (old.stderr, new.stderr) == ([], [(heir.pid, "ab")])
        assert old.runtime.instances == () and new.runtime.instances == (heir,)
        outcome = await heir.stop()
        assert not outcome.survivors and not alive(heir.pid)
        assert before.gone == [] and len(after.gone) == 1 and old.gone == []


@on_both_loops
async def test_what_it_says_while_nobody_has_it_is_heard(tmp_path: Path) -> None:
    old, new = Bench(), Bench()
    async with two_runtimes(old, new):
        instance, before = await old.start("say:ready", "echo")
        await before.has(b"ready")
        instance.hold()
        passed = copied(instance)
        for n in range(100):
            instance.send(b"%d" % n)
        await until(lambda: instance.stdin.descriptor is not None)
        os.kill(instance.pid, signal.SIGKILL)  # after it has read some of that, or none
        old.runtime.part_with(instance)
        heir, after = new.runtime.adopt(naughty(), passed), Listener()
        heir.attach(after)
        await heir.wait_gone()
        assert before.lines == [b"ready"]
        assert after.lines == [b"%d" % n for n in range(len(after.lines))]
        assert after.after_gone == 0 and [instance for instance, _ in new.gone] == [heir]
        await until(lambda: heir.reaped)


@on_both_loops
async def test_held_and_let_go_again_nothing_is_lost(tmp_path: Path) -> None:
    old, new = Bench(), Bench()
    async with two_runtimes(old, new):
        instance, listener = await old.start("say:ready", "say-part:x", "echo")
        await listener.has(b"ready")
        instance.hold()
        for number in copied(instance).descriptors:
            os.close(number)
        instance.send(b"y")
        instance.go_on()
        await listener.has(b"xy")


@on_both_loops
async def test_the_new_one_ends_all_of_it_and_the_old_one_nothing(tmp_path: Path) -> None:
    old, new = Bench(PATIENT), Bench()
    async with two_runtimes(old, new):
        instance, before = await old.start("ignore-term", "grandchild:group,stubborn", "say:ready", "linger")
        await before.has(b"ready")
        [grandchild] = before.grandchildren()
        heir, _ = pass_on(instance, old, new)
        await old.runtime.aclose()
        assert alive(heir.pid) and alive(grandchild)
        await new.runtime.aclose()
        assert not alive(heir.pid) and not alive(grandchild)


@on_both_loops
async def test_roll_and_guardians_know_who_has_it(tmp_path: Path) -> None:
    households = [Household(lambda: 0.0, roll=Roll(tmp_path, "boot")) for _ in range(2)]
    old, new = (Bench(household=household) for household in households)
    async with two_runtimes(old, new):
        instance, before = await old.start("say:ready", "echo")
        await before.has(b"ready")
        heir, _ = pass_on(instance, old, new)
        assert households[0].guardian._sessions == {}
        assert list(households[1].guardian._sessions) == [heir.pid]
        [entry] = Roll(tmp_path, "boot").entries()
        assert entry.pid == heir.pid
        await heir.stop()
        assert Roll(tmp_path, "boot").entries() == [] and households[1].guardian._sessions == {}
    for household in households:
        await household.aclose()


@on_both_loops
async def test_one_that_is_ending_or_busy_is_not_passed(tmp_path: Path) -> None:
    old, new = Bench(), Bench()
    async with two_runtimes(old, new):
        deaf, listener = await old.start("say:ready", f"wait:{tmp_path / 'never'}")
        await listener.has(b"ready")
        assert deaf.describe() is not None
        deaf.send(b"x" * 1_000_000)
        assert deaf.describe() is None, "not all of it is in the pipe"
        ending, _ = await old.start("linger")
        ending.begin_stop()
        assert ending.describe() is None
        ended, _ = await old.start("exit:0")
        await ended.wait_gone()
        assert ended.describe() is None
