"""Descriptors: as many as the system allows for us, as many as we were given for our children."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mooring.host.capacity import few_descriptors
from mooring.runtimes.descriptors import DESCRIPTORS
from mooring.runtimes.process import DESCRIPTORS_EACH
from tests.e2e.mooring import LINUX_ONLY, running_mooring
from tests.faults.runtime_bench import FAST, PATIENT, bench
from tests.hosting import SCRIPTED, hosting
from tests.support import on_both_loops, open_descriptors, until, within

GIVEN = 200


@contextmanager
def given(soft: int) -> Iterator[int]:
    """As if we had been started with that soft limit; gives the hard one."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def open_many(number: int) -> ExitStack:
    """So many descriptors, closed at the end of the block."""
    stack = ExitStack()
    for _ in range(number):
        stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    return stack


@on_both_loops
async def test_a_child_gets_the_limit_that_we_were_given_however_many_we_have_open() -> None:
    with given(GIVEN) as hard, DESCRIPTORS.raised():
        assert DESCRIPTORS.soft == hard > 2 * GIVEN
        async with bench(PATIENT) as it, within():
            for more in (0, 2 * GIVEN):
                with open_many(more):
                    instance, listener = await it.start("limit", "echo")
                    await listener.has(b"%d" % GIVEN)
                    assert DESCRIPTORS.soft == hard, "only the child's"
                await instance.stop()


def test_afterwards_everything_is_as_it_was() -> None:
    before = open_descriptors()
    with given(GIVEN):
        with DESCRIPTORS.raised():
            pass
        assert DESCRIPTORS.soft == GIVEN
    assert open_descriptors() == before


@pytest.mark.parametrize(("most", "granted"), [(400, 400), (GIVEN, GIVEN)])
def test_a_system_that_promises_more_than_it_grants(
    most: int, granted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS says `unlimited` and refuses it. Where nothing more is granted, we go on with what we have."""
    set_limit = resource.setrlimit

    def grant(kind: int, limits: tuple[int, int]) -> None:
        if limits[0] > most:
            raise ValueError("current limit exceeds maximum limit")
        set_limit(kind, limits)

    with given(GIVEN), monkeypatch.context() as patch:
        patch.setattr(resource, "setrlimit", grant)
        patch.setattr("mooring.runtimes.descriptors.MACOS_MOST", 400)
        before = open_descriptors()
        with DESCRIPTORS.raised():
            assert DESCRIPTORS.soft == granted
            with DESCRIPTORS.as_given():
                assert DESCRIPTORS.soft == GIVEN
        assert open_descriptors() == before


@on_both_loops
async def test_an_instance_takes_as_many_descriptors_as_we_reckon_with() -> None:
    async with bench(PATIENT) as it, within():
        await (await it.start("echo"))[0].stop()  # the first brings the guardian, and what a loop opens once
        before = len(open_descriptors())
        instances = [(await it.start("echo"))[0] for _ in range(5)]
        assert len(open_descriptors()) == before + 5 * DESCRIPTORS_EACH
        for instance in instances:
            await instance.stop()


def test_too_few_descriptors_for_the_sessions_asked_for_are_told_with_the_remedy() -> None:
    assert few_descriptors(20_000, 1000, 1) is None
    assert few_descriptors(6068, 1000, 1) is None
    warning = few_descriptors(1024, 1000, 1)
    assert warning is not None
    assert "1024 open files are enough for 159 sessions, not for 1000 (--max-sessions)" in warning
    assert "ulimit -n 6068" in warning


async def test_the_warning_comes_at_the_start() -> None:
    async with hosting(SCRIPTED, max_sessions=10_000_000) as host:
        assert "--max-sessions" in (await host.logged("few_descriptors")).getMessage()
    async with hosting(SCRIPTED, max_sessions=10) as host:
        await host.logged("state")
        assert not host.events("few_descriptors")


@LINUX_ONLY
async def test_the_command_raises_its_own_limit_only() -> None:
    server = ["sh", "-c", 'ulimit -n >&2; exec "$@"', "sh", *SCRIPTED]
    with given(GIVEN) as hard:
        async with running_mooring(server=server) as mooring:
            assert (await mooring.logged("server_stderr"))["message"] == str(GIVEN)
            limits = Path(f"/proc/{mooring.pid}/limits").read_text().splitlines()
            [files] = [line.split() for line in limits if line.startswith("Max open files")]
            assert int(files[3]) == hard


@on_both_loops
async def test_what_servers_left_behind_holds_a_bounded_number_of_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each leaves a process of its own session, detached on purpose, that keeps its pipes open."""
    monkeypatch.setattr("mooring.runtimes.runtime.MOST_LEFTOVERS", 2)
    async with bench(FAST) as it, within(60):
        left = [await it.start("grandchild:session,holding", "err:last words", "exit:0") for _ in range(4)]
        try:
            await until(lambda: all(instance.is_leftover for instance, _ in left))
            before = len(open_descriptors())
            instance, _ = await it.start("echo")
            await until(lambda: len(open_descriptors()) == before - 2 * 2 + DESCRIPTORS_EACH)
            await instance.stop()
            assert it.texts() == ["last words"] * 4
        finally:
            for _, listener in left:
                for pid in listener.grandchildren():
                    os.kill(pid, signal.SIGKILL)
