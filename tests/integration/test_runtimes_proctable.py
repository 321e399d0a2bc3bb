"""Which processes are found, and which are proven ours."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.runtimes import proctable
from mooring.runtimes.proctable import Process, Session, in_sessions, read_process, start_time
from tests.support import alive, until

NAUGHTY = Path(__file__).parent.parent / "faults" / "naughty_child.py"
MARKER = "MOORING_INSTANCE=me:x:1"


@contextmanager
def led(*words: str, marker: str = MARKER) -> Iterator[tuple["subprocess.Popen[bytes]", list[int]]]:
    """A session leader and the grandchildren it told of."""
    name, _, value = marker.partition("=")
    argv = [sys.executable, "-I", "-S", str(NAUGHTY), *words]
    pids: list[int] = []
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, env={name: value}, start_new_session=True)
    assert child.stdout is not None
    try:
        for _ in [word for word in words if word.startswith("grandchild")]:
            pids.append(int(child.stdout.readline().split()[1]))
        yield child, pids
    finally:
        for pid in (*pids, child.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        child.stdout.close()
        child.wait()


def members(session: Session) -> list[Process]:
    return session.members(in_sessions().get(session.leader, []))


def numbers(session: Session) -> set[int]:
    return {process.pid for process in members(session)}


def send(session: Session, signum: signal.Signals) -> None:
    session.signal(signum, members(session))


def test_a_process_is_read() -> None:
    me = read_process(os.getpid())
    assert me is not None
    assert (me.pid, me.parent, me.group, me.running) == (os.getpid(), os.getppid(), os.getpgrp(), True)
    assert me.started == start_time(os.getpid())
    assert os.getpid() in in_sessions()[os.getsid(0)]


def test_nobody_is_read() -> None:
    assert read_process(7_777_777) is None
    assert start_time(7_777_777) == ""


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen(["true"], start_new_session=True)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = read_process(child.pid)
    assert zombie is not None
    assert not zombie.running
    assert members(Session(child.pid, zombie.started, MARKER, anchored=True)) == []
    child.wait()


def test_members_of_a_session() -> None:
    with led("grandchild:", "grandchild:group", "grandchild:session", "grandchild:unmarked", "linger") as (
        child,
        pids,
    ):
        for anchored in (True, False):
            session = Session(child.pid, start_time(child.pid), MARKER, anchored=anchored)
            assert numbers(session) == {child.pid, pids[0], pids[1], pids[3]}


def test_the_number_names_somebody_else() -> None:
    with led("grandchild:", "linger") as (child, _):
        session = Session(child.pid, "1", MARKER, anchored=False)
        assert members(session) == []
        send(session, signal.SIGKILL)
        assert child.poll() is None


async def test_the_leader_is_gone() -> None:
    with led("grandchild:", "grandchild:unmarked", "exit:0") as (child, pids):
        started = start_time(child.pid)
        child.wait()
        # The one without our marker may belong to a later session of that number.
        assert numbers(Session(child.pid, started, MARKER, anchored=False)) == {pids[0]}
        assert numbers(Session(child.pid, started, "MOORING_INSTANCE=you:x:1", anchored=False)) == set()
        send(Session(child.pid, started, MARKER, anchored=False), signal.SIGTERM)
        await until(lambda: not alive(pids[0]))
        assert alive(pids[1])


async def test_who_was_seen_before_is_still_ours() -> None:
    with led("grandchild:unmarked", "linger") as (child, pids):
        session = Session(child.pid, start_time(child.pid), MARKER, anchored=False)
        assert numbers(session) == {child.pid, pids[0]}
        child.kill()
        child.wait()
        assert numbers(session) == {pids[0]}
        send(session, signal.SIGTERM)
        await until(lambda: not alive(pids[0]))


async def test_a_process_is_looked_at_again_before_it_is_signalled() -> None:
    with led("linger") as (child, _):
        session = Session(child.pid, start_time(child.pid), MARKER, anchored=False)
        found = members(session)
        found[0].started = "1"
        session.signal(signal.SIGKILL, found)
        assert child.poll() is None


def test_signalling_nobody() -> None:
    nobody = Process(7_777_777, 1, 7_777_777, "1", True)
    session = Session(7_777_777, "1", MARKER, anchored=True)
    session.signal(signal.SIGTERM, [nobody])
    session.anchored = False
    session.signal(signal.SIGTERM, [nobody])


async def test_without_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    with led("grandchild:group", "linger") as (child, pids):
        monkeypatch.delattr(os, "pidfd_open")
        session = Session(child.pid, start_time(child.pid), MARKER, anchored=True)
        send(session, signal.SIGTERM)
        await until(lambda: not alive(pids[0]))
        assert child.wait() == -signal.SIGTERM


ADOPTING = """
import ctypes, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from types import SimpleNamespace
from mooring.runtimes import lookout
from mooring.runtimes.proctable import Session
lookout.os = SimpleNamespace(getpid=lambda: 1)  # only there: reaping asks who we really are
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
leader = subprocess.Popen(["sh", "-c", "true & exit 0"], start_new_session=True)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
session = Session(leader.pid, "", "", anchored=True)
while not os.path.exists("/proc/self/task/%d/children" % os.getpid()): pass
def mine():
    return {int(pid) for pid in open("/proc/self/task/%d/children" % os.getpid()).read().split()}
while mine() != {leader.pid}:
    lookout.look_now(session)
leader.wait()
print("reaped")
"""


def test_orphans_that_were_handed_to_us_are_reaped() -> None:
    source = Path(proctable.__file__).parents[2]
    argv = [sys.executable, "-c", ADOPTING, str(source)]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr) == ("reaped\n", "")


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without /proc."""
    monkeypatch.setattr(proctable, "_LINUX", False)


@pytest.mark.usefixtures("portable")
def test_ps_tells_the_same() -> None:
    me = read_process(os.getpid())
    assert me is not None
    assert (me.parent, me.group, me.running) == (os.getppid(), os.getpgrp(), True)
    assert " " not in me.started
    assert read_process(7_777_777) is None
    with led("grandchild:", "grandchild:session", "linger") as (child, pids):
        assert set(in_sessions()[child.pid]) == {child.pid, pids[0]}
        assert numbers(Session(child.pid, start_time(child.pid), MARKER, anchored=True)) == {
            child.pid,
            pids[0],
        }
