"""A well-behaved child: said, heard, ended."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from mooring.runtimes import Exit, ProcessSpec, StopOutcome, StopPatience
from mooring.wire.lines import LongLine
from tests.faults.runtime_bench import PATIENT, Listener, bench, naughty
from tests.support import alive, children, on_both_loops, open_descriptors, until, within


@on_both_loops
async def test_what_is_said_is_heard() -> None:
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("echo")
        instance.send(b"one")
        instance.send(b"two")
        await until(lambda: listener.lines == [b"one", b"two"])
        assert instance.writable
        assert instance.exit is None
        outcome = await instance.stop()
        assert outcome == StopOutcome(Exit(0, None), ())
        assert listener.gone == [Exit(0, None)]
        assert it.gone == [(instance, Exit(0, None))]
        assert not alive(instance.pid)


@on_both_loops
async def test_it_leads_its_own_session_and_carries_the_marker() -> None:
    async with bench(owner="0123", clock=lambda: 42.0) as it, within():
        instance, listener = await it.start(
            "env:MOORING_INSTANCE", "env:ONE", "env:HOME", "echo", env={"ONE": "1"}
        )
        await listener.has(b"(unset)")
        assert listener.lines == [b"0123:naughty:1", b"1", b"(unset)"]
        assert os.getsid(instance.pid) == instance.pid
        assert (instance.n, instance.started_at) == (1, 42.0)
        assert [each.n for each in it.runtime.instances] == [1]
        second, _ = await it.start("echo")
        assert second.n == 2
        assert [each.n for each in it.runtime.instances] == [1, 2]
        assert "running" in repr(second)


@on_both_loops
async def test_no_descriptor_of_ours_reaches_it() -> None:
    async with bench() as it, within():
        listener = Listener()
        code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], flush=True)"
        spec = ProcessSpec(name="x", argv=(sys.executable, "-I", "-S", "-c", code))
        instance = await it.runtime.start(spec)
        instance.attach(listener)
        await instance.wait_gone()
        assert listener.lines == [b"[0, 1, 2]"]


@on_both_loops
async def test_its_working_directory(tmp_path: Path) -> None:
    async with bench() as it, within():
        instance, listener = await it.start("cwd", cwd=tmp_path)
        await instance.wait_gone()
        assert listener.lines == [str(tmp_path.resolve()).encode()]


@on_both_loops
async def test_output_is_left_unread_until_somebody_listens() -> None:
    async with bench(PATIENT) as it, within():
        instance = await it.runtime.start(naughty("endless:1", "say:", "echo"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert instance.stdout.pipe.closed is False
        listener = Listener()
        instance.attach(listener)
        await until(lambda: listener.lines)
        assert len(listener.lines[0]) == 1_000_000


@on_both_loops
async def test_reading_can_be_paused() -> None:
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("echo")
        instance.pause_reading()
        instance.send(b"one")
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert listener.lines == []
        instance.resume_reading()
        await listener.has(b"one")


@on_both_loops
async def test_last_words_are_heard_although_reading_is_paused() -> None:
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("read-line", "say:last", "exit:0")
        instance.pause_reading()
        instance.send(b"go")
        await instance.wait_gone()
        assert listener.lines == [b"last"]
        assert listener.gone == [Exit(0, None)]
        assert listener.after_gone == 0


@on_both_loops
async def test_a_new_receiver_takes_over() -> None:
    async with bench(PATIENT) as it, within():
        instance, first = await it.start("echo")
        second = Listener()
        instance.attach(second)
        instance.send(b"one")
        await second.has(b"one")
        await instance.stop()
        assert first.lines == [] == first.gone
        assert second.gone == [Exit(0, None)]


@on_both_loops
async def test_back_pressure_on_stdin_and_a_large_line(tmp_path: Path) -> None:
    async with bench(PATIENT) as it, within():
        gate = tmp_path / "gate"
        instance, listener = await it.start(f"wait:{gate}", "count")
        line = b"x" * (64 * 1024 * 1024)
        instance.send(line)
        instance.send(b"small")
        assert (instance.writable, listener.writable) == (False, 0)
        gate.touch()
        await until(lambda: listener.writable)
        assert instance.writable
        assert (await instance.stop()).exit == Exit(0, None)
        assert listener.lines == [str(len(line) + 1 + len(b"small\n")).encode()]


@on_both_loops
async def test_sending_to_the_dead_does_nothing() -> None:
    async with bench() as it, within():
        instance, _ = await it.start("exit:3")
        assert await instance.wait_gone() == Exit(3, None)
        for _ in range(20):
            instance.send(b"hello?")
        assert not instance.writable


@on_both_loops
async def test_exit_is_told_to_any_number_of_waiters() -> None:
    async with bench(PATIENT) as it, within():
        instance, _ = await it.start("read-line", "exit:3")
        waiters = [asyncio.ensure_future(instance.wait()) for _ in range(3)]
        gone = asyncio.ensure_future(instance.wait_gone())
        await asyncio.sleep(0)
        waiters[0].cancel()
        gone.cancel()
        instance.send(b"go")
        assert await asyncio.gather(*waiters[1:]) == [Exit(3, None)] * 2
        assert await instance.wait() == Exit(3, None) == instance.exit
        assert await instance.wait_gone() == Exit(3, None)
        assert "exit status 3" in repr(instance)


@on_both_loops
async def test_a_signal_is_told_from_a_status() -> None:
    async with bench() as it, within():
        instance, _ = await it.start("die:SIGABRT")
        assert await instance.wait() == Exit(None, signal.SIGABRT)


def test_exits_read_well() -> None:
    assert str(Exit(3, None)) == "exit status 3"
    assert str(Exit(None, 9)) == "signal 9 (SIGKILL)"
    assert str(Exit(None, 250)) == "signal 250 (SIG250)"
    assert str(Exit(None, None)) == "exit status unknown"


@on_both_loops
async def test_attaching_to_the_dead() -> None:
    async with bench() as it, within():
        instance = await it.runtime.start(naughty("say:unheard", "exit:0"))
        await instance.wait_gone()
        assert [exit for _, exit in it.gone] == [Exit(0, None)]
        listener = Listener()
        instance.attach(listener)
        assert listener.gone == []
        await until(lambda: listener.gone == [Exit(0, None)])


@on_both_loops
async def test_receivers_that_raise_harm_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Listener):
        def on_line(self, line: bytes) -> None:
            super().on_line(line)
            raise RuntimeError("on_line")

        def on_long_line(self, line: LongLine) -> None:
            super().on_long_line(line)
            raise RuntimeError("on_long_line")

        def on_gone(self, exit: Exit) -> None:
            super().on_gone(exit)
            raise RuntimeError("on_gone")

    def broken_stderr(pid: int, text: str) -> None:
        texts.append(text)
        raise RuntimeError("on_stderr")

    texts: list[str] = []
    async with bench(on_stderr=broken_stderr, max_line_bytes=1000) as it, within():
        instance = await it.runtime.start(
            naughty("say:one", "err:a", "long-line:1", "say:two", "err:b", "exit:0")
        )
        broken = Broken()
        instance.attach(broken)
        await instance.wait_gone()
        await until(lambda: len(texts) == 2)
        assert broken.lines == [b"one", b"two"]
        assert [line.length for line in broken.long] == [1_000_000]
        assert broken.gone == [Exit(0, None)]
    assert "a listener failed" in caplog.text


@on_both_loops
async def test_stderr_comes_line_by_line() -> None:
    async with bench(PATIENT) as it, within():
        instance, _ = await it.start("err:one", "err:", "err: two\r", "err-part:last", "exit:0")
        await instance.stop()
        assert it.stderr == [(instance.pid, text) for text in ("one", "", " two\r", "last")]


@on_both_loops
async def test_without_pidfd_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    async with bench() as it, within():
        instance, listener = await it.start("grandchild:group", "read-line", "exit:4")
        await until(listener.grandchildren)
        instance.send(b"go")
        assert await instance.wait() == Exit(4, None)
        await until(lambda: not alive(listener.grandchildren()[0]))
        second, _ = await it.start("linger")
        assert (await second.stop()).exit == Exit(None, signal.SIGTERM)


@on_both_loops
async def test_a_kernel_that_refuses_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise PermissionError(1, "not here")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    async with bench() as it, within():
        instance, listener = await it.start("grandchild:group", "echo")
        await until(listener.grandchildren)
        assert (await instance.stop()).exit == Exit(0, None)
        assert not alive(listener.grandchildren()[0])


@on_both_loops
async def test_reaped_by_somebody_else() -> None:
    async with bench() as it, within():
        instance, _ = await it.start("read-line", "exit:3")
        instance.send(b"go")
        await asyncio.sleep(0)  # lines go out at the end of the loop's turn
        os.waitpid(instance.pid, 0)
        assert await instance.wait() == Exit(None, None)
        assert (await instance.stop()).exit == Exit(None, None)


@on_both_loops
async def test_a_platform_that_cannot_peek(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.runtimes.exits.CAN_PEEK", False)
    monkeypatch.setattr("mooring.runtimes.process.CAN_PEEK", False)
    async with bench() as it, within():
        instance, listener = await it.start("grandchild:stubborn", "read-line", "exit:3")
        await until(listener.grandchildren)
        instance.send(b"go")
        assert await instance.wait() == Exit(3, None)
        await until(lambda: not alive(listener.grandchildren()[0]))


async def _cycles(times: int) -> None:
    async with bench(StopPatience(10, 10)) as it, within(3000):
        await (await it.start("echo"))[0].stop()
        processes, descriptors = children(), open_descriptors()
        for _ in range(times):
            instance, listener = await it.start("echo")
            instance.send(b"x")
            await listener.has(b"x")
            assert (await instance.stop()).exit == Exit(0, None)
        await until(lambda: children() == processes)
        await until(lambda: len(open_descriptors()) == len(descriptors))
        assert it.runtime._instances == set()


@on_both_loops
async def test_50_starts_and_stops_leave_nothing() -> None:
    await _cycles(50)


@pytest.mark.slow
@on_both_loops
async def test_1000_starts_and_stops_leave_nothing() -> None:
    await _cycles(1000)
