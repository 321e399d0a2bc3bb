"""Mooring is killed together with its guardian; the next one ends what was left, and nobody else."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from mooring.runtimes import guardian_main, leftovers
from mooring.runtimes.leftovers import Leftover, end_leftovers
from mooring.runtimes.proctable import start_time
from mooring.runtimes.roll import Roll, boot_id
from tests.faults.test_runtimes_guardian import end_with, hosted, naughty_argv, spawn, told
from tests.support import alive, until

# Whoever carries it is ended, on the whole machine: nobody else who runs these tests may have the same one.
MARKER = f"MOORING_INSTANCE={os.getpid():x}:x:1"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_main, "EOF_GRACE_S", 0.1)
    monkeypatch.setattr(guardian_main, "TERM_GRACE_S", 0.2)


@pytest.fixture
def roll(tmp_path: Path) -> Roll:
    return Roll(tmp_path, boot_id())


async def test_killed_together_with_its_guardian(tmp_path: Path, roll: Roll) -> None:
    stubborn = naughty_argv(
        "ignore-term", "grandchild:stubborn", "grandchild:unmarked", "grandchild:session", "linger"
    )
    others = spawn("linger", marker=MARKER)
    with hosted(stubborn, stubborn, naughty_argv("echo"), roll=tmp_path) as host:
        pids = told(host, {"child": 3, "grandchild": 6, "guardian": 1})
        assert len(roll.entries()) == 3
        os.kill(pids["guardian"][0], signal.SIGSTOP)  # so that neither sees the other one's end
        host.kill()
        os.kill(pids["guardian"][0], signal.SIGKILL)
        host.wait()
        await until(lambda: not alive(pids["child"][2]))
        detached = {pid for pid in pids["grandchild"] if os.getsid(pid) == pid}
        ours = set(pids["child"][:2] + pids["grandchild"]) - detached
        assert len(ours) == 6 and all(map(alive, ours))
        ended = end_leftovers(roll)
        assert [left.name for left in ended] == ["x", "x"]
        assert {pid for left in ended for pid in left.pids} == ours
        assert not any(left.survivors for left in ended)
        assert not any(map(alive, ours)) and all(map(alive, detached))
        assert roll.entries() == [] == end_leftovers(roll)
        for pid in detached:
            os.kill(pid, signal.SIGKILL)
    assert others.poll() is None
    others.kill()
    end_with(others)


async def test_killed_between_the_start_of_a_child_and_its_registration(tmp_path: Path, roll: Roll) -> None:
    with hosted(naughty_argv("ignore-term", "linger"), roll=tmp_path, between=True) as host:
        [pid] = told(host, {"child": 1})["child"]
        host.wait()
        [entry] = roll.entries()
        assert entry.pid is None and alive(pid)
        # As soon as it is the program that was to be started it carries the marker.
        await until(lambda: entry.marker.encode() in Path(f"/proc/{pid}/environ").read_bytes())
        assert [left.pids for left in end_leftovers(roll)] == [(pid,)]
        assert not alive(pid) and roll.entries() == []


def test_who_never_came_is_not_looked_for_again(roll: Roll) -> None:
    roll.expect(MARKER)
    assert end_leftovers(roll) == [] == roll.entries()


def enter(directory: Path, child: "subprocess.Popen[bytes]", *, boot: str = "", started: str = "") -> None:
    text = f"{boot or boot_id()}\n{child.pid} {started or start_time(child.pid)}\n"
    (directory / MARKER.partition("=")[2]).write_text(text)


@pytest.mark.parametrize("wrong", [{"boot": "another"}, {"started": "12345"}], ids=["boot", "pid"])
def test_a_number_that_is_somebody_elses_by_now(tmp_path: Path, roll: Roll, wrong: dict[str, str]) -> None:
    child = spawn("linger", marker=MARKER)
    enter(tmp_path, child, **wrong)
    assert end_leftovers(roll) == [] == roll.entries()
    assert child.poll() is None
    child.kill()
    end_with(child)


async def test_without_its_leader_only_who_carries_the_marker_is_ours(tmp_path: Path, roll: Roll) -> None:
    child = spawn("grandchild:", "grandchild:unmarked", "exit:0", marker=MARKER)
    enter(tmp_path, child)
    assert child.stdout is not None
    marked, unmarked = (int(child.stdout.readline().split()[1]) for _ in range(2))
    end_with(child)
    assert end_leftovers(roll) == [Leftover("x", (marked,), ())]
    await until(lambda: not alive(marked))  # on a busy machine it dies for a moment
    assert alive(unmarked)
    os.kill(unmarked, signal.SIGKILL)


def test_who_cannot_be_ended_stays_on_the_roll(
    tmp_path: Path, roll: Roll, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = spawn("linger", marker=MARKER)
    enter(tmp_path, child)
    # Only a process that hangs in the kernel outlives SIGKILL, and none can be made to.
    monkeypatch.setattr(leftovers, "end_sessions", lambda sessions: None)
    assert end_leftovers(roll) == [Leftover("x", (child.pid,), (child.pid,))]
    assert len(roll.entries()) == 1
    child.kill()
    end_with(child)
