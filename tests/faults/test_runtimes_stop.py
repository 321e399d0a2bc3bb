"""Ending children that do not want to end, and whatever they started."""

import asyncio
import os
import signal

import pytest

from mooring.runtimes import Exit, StopOutcome, StopPatience, stopping
from tests.faults.runtime_bench import FAST, PATIENT, bench, naughty
from tests.support import alive, children, on_both_loops, until, within

KILLED = Exit(None, signal.SIGKILL)
TERMED = Exit(None, signal.SIGTERM)


@on_both_loops
async def test_eof_is_enough_for_most() -> None:
    async with bench(PATIENT) as it, within():
        instance, _ = await it.start("echo")
        assert await instance.stop() == StopOutcome(Exit(0, None), ())


@on_both_loops
async def test_deaf_to_eof() -> None:
    async with bench(StopPatience(0, 30)) as it, within():
        instance, listener = await it.start("say:up", "linger")
        await listener.has(b"up")
        assert await instance.stop() == StopOutcome(TERMED, ())


@on_both_loops
async def test_deaf_to_eof_and_sigterm() -> None:
    async with bench(FAST) as it, within():
        instance, listener = await it.start("ignore-term", "say:up", "linger")
        await listener.has(b"up")
        assert await instance.stop() == StopOutcome(KILLED, ())
        assert listener.gone == [KILLED]


@on_both_loops
async def test_suspended() -> None:
    async with bench(StopPatience(0, 30)) as it, within():
        instance, listener = await it.start("say:up", "suspend", "linger")
        await listener.has(b"up")
        assert await instance.stop() == StopOutcome(TERMED, ())


@pytest.mark.parametrize("kind", ["", "stubborn", "group", "group,stubborn", "stubborn,holding", "unmarked"])
@on_both_loops
async def test_grandchildren_are_ended_with_it(kind: str) -> None:
    async with bench(FAST) as it, within():
        instance, listener = await it.start(
            "ignore-term", f"grandchild:{kind}", f"grandchild:{kind}", "linger"
        )
        await until(lambda: len(listener.grandchildren()) == 2)
        assert (await instance.stop()) == StopOutcome(KILLED, ())
        assert not any(alive(pid) for pid in listener.grandchildren())


@pytest.mark.parametrize("kind", ["", "stubborn", "group", "group,stubborn", "stubborn,holding"])
@on_both_loops
async def test_what_an_unasked_exit_leaves_behind_is_swept(kind: str) -> None:
    async with bench(FAST) as it, within():
        instance, listener = await it.start(f"grandchild:{kind}", "exit:3")
        assert await instance.wait_gone() == Exit(3, None)
        await until(lambda: instance.reaped)
        assert not any(alive(pid) for pid in listener.grandchildren())
        assert instance.pid not in children()
        assert await instance.stop() == StopOutcome(Exit(3, None), ())


@on_both_loops
async def test_what_detached_itself_is_left_alone() -> None:
    async with bench(FAST) as it, within():
        instance, listener = await it.start("grandchild:session,stubborn,holding", "say:last", "exit:0")
        # It holds stdout and stderr open; that does not hold us up.
        assert await instance.wait_gone() == Exit(0, None)
        assert listener.lines[-1] == b"last"
        assert listener.gone == [Exit(0, None)]
        await instance.stop()
        detached = listener.grandchildren()[0]
        assert alive(detached)
        await it.runtime.aclose()
        assert alive(detached)
        os.kill(detached, signal.SIGKILL)


@on_both_loops
async def test_stops_share_one_stop() -> None:
    async with bench(FAST) as it, within():
        instance, listener = await it.start("ignore-term", "say:up", "linger")
        await listener.has(b"up")
        outcomes = await asyncio.gather(*(instance.stop() for _ in range(5)))
        assert set(outcomes) == {StopOutcome(KILLED, ())}
        assert await instance.stop() == outcomes[0]
        assert listener.gone == [KILLED]


@on_both_loops
async def test_stopping_the_dead() -> None:
    async with bench(PATIENT) as it, within():
        instance, _ = await it.start("exit:7")
        await instance.wait_gone()
        assert await instance.stop() == StopOutcome(Exit(7, None), ())


@on_both_loops
async def test_stopping_one_that_nobody_listens_to() -> None:
    async with bench(PATIENT) as it, within():
        instance = await it.runtime.start(naughty("say:unheard", "echo"))
        assert await instance.stop() == StopOutcome(Exit(0, None), ())
        assert it.gone == [(instance, Exit(0, None))]


@on_both_loops
async def test_hurry_skips_all_patience() -> None:
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("ignore-term", "grandchild:group,stubborn", "linger")
        await until(listener.grandchildren)
        stop = instance.begin_stop()
        await asyncio.sleep(0)
        instance.hurry()
        instance.hurry()
        assert await stop == StopOutcome(KILLED, ())


@on_both_loops
async def test_hurry_after_sigterm() -> None:
    async with bench(StopPatience(0, 30)) as it, within():
        instance, listener = await it.start("grandchild:stubborn", "linger")
        await until(listener.grandchildren)
        stop = instance.begin_stop()
        assert await instance.wait() == TERMED
        it.runtime.hurry()
        assert await stop == StopOutcome(TERMED, ())
        assert not alive(listener.grandchildren()[0])


@on_both_loops
async def test_a_child_that_never_reads_can_be_closed() -> None:
    async with bench(FAST) as it, within():
        instance, listener = await it.start("ignore-term", "say:up", "linger")
        await listener.has(b"up")
        instance.send(b"x" * 4_000_000)
        assert not instance.writable
        assert await instance.stop() == StopOutcome(KILLED, ())
        assert instance.stdin.closed


@on_both_loops
async def test_a_cancelled_caller_does_not_cut_a_stop_short() -> None:
    async with bench(StopPatience(0.2, 30)) as it, within():
        instance, listener = await it.start("say:up", "linger")
        await listener.has(b"up")
        caller = asyncio.ensure_future(instance.stop())
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert instance.exit is None
        assert await instance.wait() == TERMED
        assert await instance.stop() == StopOutcome(TERMED, ())


@on_both_loops
async def test_a_stop_that_is_cancelled_at_any_step_kills_and_reaps() -> None:
    async with bench(StopPatience(0.01, 0.02)) as it, within(60):
        for turns in [*range(12), 20, 40, 80]:
            instance, listener = await it.start("ignore-term", "grandchild:group,stubborn", "linger")
            await until(listener.grandchildren)
            stop = instance.begin_stop()
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            stop.cancel()
            await asyncio.wait((stop,))
            await asyncio.sleep(0)  # the instance's own callback ran before ours
            assert instance.reaped
            assert instance.exit == KILLED
            assert not alive(instance.pid)
            assert not alive(listener.grandchildren()[0])
            assert await instance.stop() == StopOutcome(KILLED, ())
            assert listener.gone == [KILLED]


@on_both_loops
async def test_a_stop_that_fails_kills_and_reaps(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("mooring.runtimes.process.end_session", fail)
    async with bench(FAST) as it, within():
        instance, listener = await it.start("say:up", "linger")
        await listener.has(b"up")
        with pytest.raises(RuntimeError, match="a bug"):
            await instance.stop()
        assert instance.exit == KILLED
    assert "stopping" in caplog.text


@on_both_loops
async def test_survivors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "KILL_PATIENCE_S", 0.05)
    async with bench(StopPatience(0, 0.02)) as it, within():
        instance, listener = await it.start("say:up", "linger")
        await listener.has(b"up")
        with monkeypatch.context() as deaf:
            deaf.setattr(os, "killpg", lambda group, signum: None)
            assert await instance.stop() == StopOutcome(None, (instance.pid,))
        # Should it end after all, it is reaped all the same.
        os.kill(instance.pid, signal.SIGKILL)
        assert await instance.wait() == KILLED
        await until(lambda: instance.reaped)


@on_both_loops
async def test_a_stop_without_a_look_at_the_processes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def blind() -> dict[int, list[int]]:
        raise OSError(24, "Too many open files")

    async with bench(FAST) as it, within():
        instance, listener = await it.start("grandchild:", "linger")
        await until(listener.grandchildren)
        monkeypatch.setattr("mooring.runtimes.proctable.in_sessions", blind)
        assert (await instance.stop()).exit == TERMED
        await until(lambda: not alive(listener.grandchildren()[0]))
    assert "cannot see what is left" in caplog.text


@on_both_loops
async def test_a_stop_without_a_look_ends_also_one_that_ignores_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def blind() -> dict[int, list[int]]:
        raise OSError(24, "Too many open files")

    async with bench(FAST) as it, within():
        instance, listener = await it.start("ignore-term", "say:up", "linger")
        await listener.has(b"up")  # from here on it ignores it
        monkeypatch.setattr("mooring.runtimes.proctable.in_sessions", blind)
        assert (await instance.stop()).exit == KILLED
        assert not alive(instance.pid)


@on_both_loops
async def test_closing_ends_everything_once() -> None:
    async with bench(FAST) as it, within():
        instances = [(await it.start("ignore-term", "grandchild:stubborn", "linger"))[0] for _ in range(3)]
        guardian = it.runtime.guardian_pid
        assert guardian is not None
        caller = asyncio.ensure_future(it.runtime.aclose())
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(it.runtime.aclose(), it.runtime.aclose())
        assert all(instance.reaped for instance in instances)
        assert it.runtime.instances == ()
        assert it.runtime.guardian_pid is None
        assert guardian not in children()


@on_both_loops
async def test_a_loop_that_ends_under_a_stop_leaves_nothing() -> None:
    it = bench(PATIENT)
    made = await it.__aenter__()
    instance, listener = await made.start("ignore-term", "say:up", "linger")
    await listener.has(b"up")
    instance.begin_stop()
    closing = asyncio.ensure_future(made.runtime.aclose())
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait((closing,))
    await until(lambda: instance.reaped and made.runtime.guardian_pid is None)
    assert instance.exit == KILLED


@on_both_loops
async def test_closed_stdout_and_lives() -> None:
    async with bench(StopPatience(0, 0.05)) as it, within():
        instance, listener = await it.start("say:last", "ignore-term", "close-stdout", "linger")
        assert await instance.wait_gone() == KILLED
        assert listener.lines == [b"last"]


@on_both_loops
async def test_closed_stdin_and_lives() -> None:
    async with bench(StopPatience(0, 0.05)) as it, within():
        instance, _ = await it.start("close-stdin", "linger")
        assert await instance.wait_gone() == TERMED
