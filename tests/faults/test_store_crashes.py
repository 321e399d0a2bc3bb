"""A writer that dies between any two statements, or sleeps while another takes over."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mooring.store.records import Session
from mooring.store.store import Store

WRITER = Path(__file__).parent / "store_writer.py"
KINDS = 9
EARLY = Session("early", "old", "local", "streamable-http", "", b"{}", 1.0, time.time())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = Store(tmp_path, time.time)
    store.claim(os.getpid(), "boot")
    added = store.add("old", b"early")
    store.keep_sessions("old", added.generation, [EARLY], [])
    store.close()
    return tmp_path


def writer(directory: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(directory), *words], stdout=subprocess.PIPE, text=True
    )


def states(directory: Path) -> tuple[object, ...]:
    """Everything that a reader sees, but for times."""
    store = Store(directory, time.time)
    try:
        found = [(one.name, one.definition, one.desired) for one in store.workloads()]
        return (found, [one.id for one in store.sessions("old")], len(store.events()))
    finally:
        store.close()


def test_a_death_between_any_two_statements_leaves_all_of_a_write_or_nothing(directory: Path) -> None:
    # What a reader may see: the state before the first write, and after each of them.
    allowed = [
        ([("old", b"early", "running")], ["early"], 0),
        ([("another", b"{}", "running"), ("old", b"early", "running")], ["early"], 0),
        ([("another", b"{}", "running"), ("old", b"early", "running")], ["early"], 1),
        ([("another", b"{}", "running"), ("old", b"early", "running")], ["early"], 2),
        ([("another", b"{}", "running"), ("old", b"early", "running")], ["late"], 2),
        ([("another", b"{}", "running"), ("old", b"early", "stopped")], ["late"], 2),
        ([("another", b"{}", "running"), ("old", b"late", "running")], ["late"], 2),
        ([("another", b"{}", "running")], [], 2),
    ]
    assert states(directory) == allowed[0]
    seen = set()
    for number in range(1, 200):
        copy = directory / f"copy-{number}"
        copy.mkdir()
        (copy / "state.db").write_bytes((directory / "state.db").read_bytes())
        process = writer(copy, "kill", str(number))
        output, _ = process.communicate(timeout=60)
        found = states(copy)
        assert found in allowed, (number, found)
        seen.add(allowed.index(found))
        if process.returncode == 0:
            assert "statements" in output
            break
        assert process.returncode == -signal.SIGKILL
    else:
        raise AssertionError("the writer has more statements than anybody would think")
    assert seen == set(range(len(allowed))), "death came between all of them"


@pytest.mark.parametrize("number", range(1, KINDS + 1))
def test_one_who_slept_while_another_took_over_changes_nothing(directory: Path, number: int) -> None:
    process = writer(directory, "freeze", str(number))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        successor = Store(directory, time.time)
        successor.claim(os.getpid(), "boot")
        before = successor.workload("old")
        if before is not None:  # the sleeper may have removed it before
            successor.remove("old", before.generation)
        fresh = successor.add("old", b"fresh")
        known = successor.workloads(), successor.sessions("old"), successor.events()
        os.kill(process.pid, signal.SIGCONT)
        output = process.stdout.read()
        told = output.split("\n")[number - 1 : KINDS]
        assert set(told) == {"fenced"}, output
        assert (successor.workloads(), successor.sessions("old"), successor.events()) == known
        assert successor.workload("old") == fresh
        successor.close()
    finally:
        process.kill()
        process.communicate()
