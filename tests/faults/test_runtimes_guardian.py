"""Mooring is killed, or its guardian is."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.runtimes import guardian as guardian_module
from mooring.runtimes import guardian_main
from mooring.runtimes.guardian import Guardian
from mooring.runtimes.proctable import Session, start_time
from tests.faults.runtime_bench import NAUGHTY, PATIENT, bench
from tests.support import alive, children, on_both_loops, until, within

HOST = Path(__file__).with_name("runtime_host.py")


def naughty_argv(*words: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(NAUGHTY), *words]


@contextmanager
def hosted(
    *commands: list[str], roll: Path | None = None, between: bool = False
) -> Iterator["subprocess.Popen[str]"]:
    """A process that hosts a runtime with these children; see there."""
    argv = [sys.executable, str(HOST), json.dumps(commands)]
    if roll is not None:
        argv += [str(roll), "between" if between else "later"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as host:
        try:
            yield host
        finally:
            host.kill()


def told(host: "subprocess.Popen[str]", wanted: dict[str, int]) -> dict[str, list[int]]:
    """Read its output until each word was said so often."""
    found: dict[str, list[int]] = {}
    while any(len(found.get(word, [])) < count for word, count in wanted.items()):
        assert host.stdout is not None
        line = host.stdout.readline()
        assert line, "the host has ended"
        word, number = line.split()
        found.setdefault(word, []).append(int(number))
    return found


async def test_killed_with_stubborn_grandchildren() -> None:
    stubborn = naughty_argv(
        "ignore-term",
        "grandchild:stubborn",
        "grandchild:group,stubborn",
        "grandchild:unmarked",
        "grandchild:session,stubborn",
        "linger",
    )
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as bystander:
        with hosted(stubborn, stubborn, naughty_argv("echo")) as host:
            pids = told(host, {"child": 3, "grandchild": 8, "guardian": 1})
            detached = {pid for pid in pids["grandchild"] if os.getsid(pid) == pid}
            ours = set(pids["child"] + pids["grandchild"]) - detached
            assert len(ours) == 9
            host.kill()
            # The guardian holds nothing of its output: it ends with the host, not with the guardian.
            assert host.stdout is not None
            host.stdout.read()
            assert alive(pids["guardian"][0])
            await until(lambda: not any(alive(pid) for pid in ours), guardian_bound())
            await until(lambda: not alive(pids["guardian"][0]))
            assert all(alive(pid) for pid in detached)
            for pid in detached:
                os.kill(pid, signal.SIGKILL)
        assert bystander.poll() is None
        bystander.kill()


def guardian_bound() -> float:
    """What was promised, and some time for a loaded machine."""
    patience = guardian_main.EOF_GRACE_S + guardian_main.TERM_GRACE_S + guardian_main.KILL_PATIENCE_S
    assert patience < 5
    return patience + 5


async def test_killed_after_the_leader_had_left() -> None:
    """The session is still being swept when the host is killed: the guardian finishes the work."""
    with hosted(naughty_argv("grandchild:stubborn", "grandchild:group,stubborn", "exit:0")) as host:
        pids = told(host, {"child": 1, "grandchild": 2, "guardian": 1, "gone": 1})
        host.kill()
        await until(lambda: not any(alive(pid) for pid in pids["grandchild"]), guardian_bound())
        await until(lambda: not alive(pids["guardian"][0]))


async def test_the_guardian_survives_what_is_meant_for_everybody() -> None:
    with hosted(naughty_argv("ignore-term", "say:up 1", "linger")) as host:
        pids = told(host, {"child": 1, "guardian": 1, "up": 1})
        meant_for_all = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
        await until(lambda: all(ignores(pids["guardian"][0], signum) for signum in meant_for_all))
        for signum in meant_for_all:
            os.kill(pids["guardian"][0], signum)
        host.kill()
        await until(lambda: not alive(pids["child"][0]), guardian_bound())


def ignores(pid: int, signum: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(mask, 16) & (1 << (signum - 1)))


@on_both_loops
async def test_a_killed_guardian_is_replaced_and_told_everything() -> None:
    async with bench(PATIENT) as it, within():
        instance, _ = await it.start("ignore-term", "linger")
        first = it.runtime.guardian_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: it.runtime.guardian_pid not in (None, first))
        assert first not in children()
        guardian = it.runtime.household.guardian
        assert set(guardian._sessions) == {instance.pid}
        instance.hurry()
        await instance.stop()
        assert guardian._sessions == {}


@on_both_loops
async def test_a_replaced_guardian_does_its_duty() -> None:
    """Its pipe is closed behind the runtime's back, as our death would."""
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("ignore-term", "grandchild:group,stubborn", "linger")
        await until(listener.grandchildren)
        first = it.runtime.guardian_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: it.runtime.guardian_pid not in (None, first))
        it.runtime.household.guardian._close_pipe()
        await instance.wait()
        await until(lambda: not alive(listener.grandchildren()[0]))


@on_both_loops
async def test_it_holds_nothing_of_ours() -> None:
    async with bench(PATIENT) as it, within():
        await it.start("echo")
        pid = it.runtime.guardian_pid
        assert pid is not None
        process = Path(f"/proc/{pid}")
        # Then it is past its imports. (What a shell has begun in the background ignores SIGQUIT always.)
        await until(lambda: ignores(pid, signal.SIGTERM))
        held = {entry.name: str(entry.readlink()) for entry in (process / "fd").iterdir()}
        assert held.pop("0").startswith("pipe:")
        assert held == {"1": "/dev/null", "2": "/dev/null"}
        assert str((process / "cwd").readlink()) == "/"
        assert os.getsid(pid) == pid
        assert b"HOME" not in (process / "environ").read_bytes()


@on_both_loops
async def test_one_that_cannot_be_started_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    guardian = Guardian(time.monotonic, command=["/no/such/python"])
    guardian.ensure()
    guardian.ensure()
    assert guardian.pid is None
    assert caplog.text.count("no guardian") == 1
    session = Session(1, "x", "M=1", anchored=False)
    guardian.register(session)
    guardian.forget(1)
    guardian.forget(1)
    await guardian.aclose()
    await guardian.aclose()
    guardian.ensure()


@on_both_loops
async def test_one_that_cannot_be_watched(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(guardian_module, "ExitWatch", fail)
    guardian = Guardian(time.monotonic)
    guardian.ensure()
    assert guardian.pid is None
    assert "Too many open files" in caplog.text


@on_both_loops
async def test_one_that_ends_at_once_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    guardian = Guardian(time.monotonic, command=["/bin/true"])
    guardian.ensure()
    guardian.register(Session(os.getpid(), "x", "M=1", anchored=False))
    async with within():
        await until(lambda: "no guardian" in caplog.text)
        guardian.ensure()
        assert guardian.pid is None
        await guardian.aclose()


@on_both_loops
async def test_one_that_does_not_read_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_module, "MAX_UNREAD_BYTES", 1000)
    monkeypatch.setattr(guardian_module, "CLOSE_PATIENCE_S", 0.05)
    guardian = Guardian(time.monotonic, command=["sleep", "1000"])
    guardian.ensure()
    first = guardian.pid
    async with within():
        for n in range(1_000_000):
            guardian.register(Session(7_000_000, "x" * 1000, f"M={n}", anchored=False))
            await asyncio.sleep(0)
            if guardian.pid != first:
                break
        await guardian.aclose()
        assert guardian.pid is None


@on_both_loops
async def test_a_slow_reader_gets_everything() -> None:
    """More than the pipe holds, before the guardian has even begun to read."""
    async with within():
        guardian = Guardian(time.monotonic)
        guardian.ensure()
        for n in range(1, 2001):
            guardian.register(Session(7_000_000 + n, "x" * 50, "M=1", anchored=False))
        for n in range(1, 2001):
            guardian.forget(7_000_000 + n)
        await until(lambda: not guardian._unwritten)
        await guardian.aclose()


def noting(path: Path) -> Guardian:
    """One whose guardian only writes down what it is told, each anew."""
    return Guardian(time.monotonic, command=["tee", str(path)])


def noted(path: Path) -> list[str]:
    return path.read_text(errors="surrogateescape").splitlines() if path.exists() else []


@on_both_loops
async def test_it_is_told_of_containers_as_of_children(tmp_path: Path) -> None:
    guardian = noting(tmp_path / "told")
    guardian.ensure()
    guardian.register_container("mooring-a-1", "/run/a socket \udcff.sock")
    guardian.register(Session(7_000_000, "8", "M=1", anchored=False))
    guardian.register_container("mooring-b-2", "[::1]:2375")
    guardian.forget_container("mooring-a-1")
    guardian.forget_container("mooring-a-1")
    guardian.forget_container("7000000")
    assert [session.leader for session in guardian.sessions] == [7_000_000]
    async with within():
        await until(lambda: len(noted(tmp_path / "told")) == 4)
        assert noted(tmp_path / "told") == [
            "+@mooring-a-1 /run/a socket \udcff.sock",
            "+7000000 8 M=1",
            "+@mooring-b-2 [::1]:2375",
            "-@mooring-a-1",
        ]
        await guardian.aclose()


@on_both_loops
async def test_what_cannot_be_told_is_not_registered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    guardian = noting(tmp_path / "told")
    guardian.ensure()
    guardian.register_container("mooring-a-1", "/run/a\n+@mooring-b-2 /run/b")
    guardian.register_container("mooring-a 1", "/run/a")
    assert caplog.text.count("the guardian cannot be told of the container 'mooring-a") == 2
    guardian.forget_container("mooring-a-1")
    guardian.register_container("mooring-c-3", "/run/c")
    async with within():
        await until(lambda: noted(tmp_path / "told"))
        assert noted(tmp_path / "told") == ["+@mooring-c-3 /run/c"]
        await guardian.aclose()


@on_both_loops
async def test_a_new_guardian_is_told_of_containers_even_if_there_are_no_children(tmp_path: Path) -> None:
    guardian = noting(tmp_path / "told")
    guardian.ensure()
    first = guardian.pid
    assert first is not None
    for n in range(3):
        guardian.register_container(f"mooring-x-{n}", "/run/x")
    guardian.forget_container("mooring-x-1")
    async with within():
        await until(lambda: len(noted(tmp_path / "told")) == 4)
        os.kill(first, signal.SIGKILL)
        await until(lambda: guardian.pid not in (None, first))
        await until(lambda: len(noted(tmp_path / "told")) == 2)
        assert noted(tmp_path / "told") == ["+@mooring-x-0 /run/x", "+@mooring-x-2 /run/x"]
        for n in (0, 2):
            guardian.forget_container(f"mooring-x-{n}")
        os.kill(guardian.pid or 0, signal.SIGKILL)
        await until(lambda: guardian.pid is None)
        await guardian.aclose()


# The guardian's program, run here


def spawn(*words: str, marker: str = "M=1") -> "subprocess.Popen[bytes]":
    name, _, value = marker.partition("=")
    return subprocess.Popen(
        naughty_argv(*words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={name: value},
        start_new_session=True,
    )


def end_with(child: "subprocess.Popen[bytes]") -> int:
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        pipe.close()
    return child.wait()


async def guard(text: str) -> None:
    """What the guardian does after reading this and the end of its input."""
    read_end, write_end = os.pipe()
    os.write(write_end, text.encode())
    os.close(write_end)
    try:
        await asyncio.to_thread(guardian_main.end_all, guardian_main.read_registrations(read_end))
    finally:
        os.close(read_end)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_main, "EOF_GRACE_S", 0.02)
    monkeypatch.setattr(guardian_main, "TERM_GRACE_S", 0.05)
    monkeypatch.setattr(guardian_main, "LOOK_S", 0.005)


@pytest.mark.usefixtures("hasty")
async def test_registered_and_not_forgotten() -> None:
    deaf, stubborn, forgotten = spawn("linger"), spawn("ignore-term", "say:up", "linger"), spawn("linger")
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    lines = [f"+{child.pid} {start_time(child.pid)} M=1\n" for child in (deaf, stubborn, forgotten)]
    await guard("".join(lines) + f"-{forgotten.pid}\n-12345678\n")
    assert end_with(deaf) == -signal.SIGTERM
    assert end_with(stubborn) == -signal.SIGKILL
    assert forgotten.poll() is None
    forgotten.kill()
    end_with(forgotten)


def test_children_and_containers_are_told_apart() -> None:
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, b"+@a /a b\xff.sock\n+7 8 M=1\n+@b [::1]:2\n+@c /c\n-@c\n-c\n-@7\n")
        os.close(write_end)
        registered = guardian_main.read_registrations(read_end)
    finally:
        os.close(read_end)
    assert [(one.leader, one.started, one.marker) for one in guardian_main.sessions_in(registered)] == [
        (7, "8", "M=1")
    ]
    assert guardian_main.containers_in(registered) == {"a": "/a b\udcff.sock", "b": "[::1]:2"}


def test_what_is_for_containers_is_not_there_while_it_waits() -> None:
    script = "import sys; sys.path.append(sys.argv[1]); import guardian_main; print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", script, str(Path(guardian_main.__file__).parent)]
    loaded = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert "guardian_main" in loaded
    assert not {"guardian_containers", "threading", "socket", "http", "typing"} & set(loaded)


@pytest.mark.usefixtures("hasty")
async def test_children_are_ended_even_if_the_end_of_containers_cannot_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(guardian_main, "_begin_to_end", fail)
    child = spawn("linger")
    with pytest.raises(RuntimeError):
        await guard(f"+@a /a\n+{child.pid} {start_time(child.pid)} M=1\n")
    assert end_with(child) == -signal.SIGTERM


@pytest.mark.usefixtures("hasty")
async def test_nobody_is_registered() -> None:
    await guard("")


@pytest.mark.usefixtures("hasty")
async def test_a_number_that_was_given_to_somebody_else() -> None:
    child = spawn("linger")
    await guard(f"+{child.pid} 12345 M=1\n")
    assert child.poll() is None
    child.kill()
    end_with(child)


def test_registrations_are_understood_wherever_a_read_ends() -> None:
    pids = range(1000, 1400)
    text = "".join(f"+{pid} 7 MOORING_INSTANCE=me:x:{pid}\n" for pid in pids)
    text += "".join(f"-{pid}\n" for pid in pids if pid % 4)
    assert len(text) > 3 * guardian_main.READ_BYTES
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, text.encode())
        os.close(write_end)
        sessions = guardian_main.sessions_in(guardian_main.read_registrations(read_end))
    finally:
        os.close(read_end)
    assert [(one.leader, one.started, one.marker) for one in sessions] == [
        (pid, "7", f"MOORING_INSTANCE=me:x:{pid}") for pid in pids if not pid % 4
    ]
