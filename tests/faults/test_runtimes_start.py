"""Starts that fail, at every step."""

import asyncio
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.errors import MooringError, ServerFailed, Unavailable, UserError
from mooring.runtimes import ProcessRuntime, ProcessSpec, spawning
from tests.faults.runtime_bench import PATIENT, bench, naughty
from tests.support import children, on_both_loops, open_descriptors, until, within


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Exactly so many descriptors can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = open_descriptors()
    free = (number for number in range(soft) if number not in used)
    limit = [next(free) for _ in range(count + 1)][-1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_both_loops
async def test_too_few_descriptors_at_any_step(caplog: pytest.LogCaptureFixture) -> None:
    async with bench(PATIENT) as it, within(60):
        messages, started = set(), 0
        before = children()
        for count in range(20):
            with free_descriptors(count):
                try:
                    instance = await it.runtime.start(naughty("echo"))
                except Unavailable as error:
                    assert error.code == "no_resources"
                    messages.add(error.message)
                else:
                    started += 1
                    await instance.stop()
            assert children() - before <= {it.runtime.guardian_pid}
        assert started
        assert "naughty: opening the pipes failed: Too many open files" in messages
        assert "naughty: starting the process failed: Too many open files" in messages
        assert it.runtime.guardian_pid is not None
    assert caplog.text.count("no guardian") == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EAGAIN])
@pytest.mark.parametrize(
    ("broken", "doing"),
    [
        ("mooring.runtimes.runtime.open_pipe", "opening the pipes"),
        ("subprocess.Popen", "starting the process"),
        ("mooring.runtimes.spawning.start_time", "looking at the process"),
        ("mooring.runtimes.process.ExitWatch", "watching for its exit"),
    ],
)
@on_both_loops
async def test_no_resources_at_a_step(
    broken: str, doing: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    async with bench(PATIENT) as it, within():
        # The first brings the guardian, and what a loop opens once.
        await (await it.start("echo"))[0].stop()
        processes, descriptors = children(), open_descriptors()
        with monkeypatch.context() as patch:
            patch.setattr(broken, fail)
            with pytest.raises(Unavailable) as raised:
                await it.runtime.start(naughty("grandchild:group", "linger"))
        assert raised.value.code == "no_resources"
        assert raised.value.message == f"naughty: {doing} failed: {os.strerror(number)}"
        assert children() == processes
        await until(lambda: open_descriptors() == descriptors)
        assert it.runtime.instances == ()


@on_both_loops
async def test_cancelled_at_any_await() -> None:
    async with bench(PATIENT) as it, within():
        # The first brings the guardian, and what a loop opens once.
        await (await it.start("echo"))[0].stop()
        processes, descriptors = children(), open_descriptors()
        for turns in range(100):
            start = asyncio.ensure_future(it.runtime.start(naughty("echo")))
            for _ in range(turns):
                await asyncio.sleep(0)
            if start.done():
                await (await start).stop()
                break
            start.cancel()
            with pytest.raises(asyncio.CancelledError):
                await start
            assert children() == processes
            await until(lambda: open_descriptors() == descriptors)
        assert 3 < turns < 99


@on_both_loops
async def test_closed_while_starting() -> None:
    async with bench(PATIENT) as it, within():
        start = asyncio.ensure_future(it.runtime.start(naughty("echo")))
        await asyncio.sleep(0)
        await it.runtime.aclose()
        with pytest.raises(Unavailable) as raised:
            await start
        assert raised.value.code == "shutting_down"
        with pytest.raises(Unavailable):
            await it.runtime.start(naughty("echo"))


@on_both_loops
async def test_what_cannot_start_at_all_is_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "script"
    async with bench() as it, within():

        async def failing(**changes: object) -> MooringError:
            spec = ProcessSpec(**{"name": "x", "argv": (str(script),), **changes})  # type: ignore[arg-type]
            with pytest.raises((UserError, ServerFailed)) as raised:
                await it.runtime.start(spec)
            return raised.value

        assert (await failing()).code == "program_not_found"
        script.write_text("no first line")
        assert (await failing()).code == "program_not_executable"
        script.chmod(0o755)
        assert (await failing()).code == "program_not_executable"
        script.write_text("#!/no/such/interpreter\n")
        assert "first line" in (await failing()).hint
        huge = await failing(argv=("/bin/true", "x" * 10_000_000))
        assert isinstance(huge, ServerFailed)
        assert huge.code == "cannot_start"
        assert (await failing(argv=())).code == "empty_command"


@on_both_loops
async def test_changed_between_check_and_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ProcessSpec(name="x", argv=("/bin/true",), cwd=tmp_path / "gone")
    monkeypatch.setattr("mooring.runtimes.runtime.check_program", lambda spec: None)
    async with bench() as it, within():
        with pytest.raises(UserError) as raised:
            await it.runtime.start(gone)
        assert raised.value.code == "cwd_not_found"


async def test_abandoning_what_the_kernel_reaped() -> None:
    from mooring.runtimes.proctable import Session

    pid = os.posix_spawn("/bin/true", ["true"], {}, setsid=True)
    os.waitpid(pid, 0)
    spawning.abandon(Session(pid, "", "", anchored=False))


async def test_defaults() -> None:
    runtime = ProcessRuntime(on_stderr=lambda pid, text: None)
    runtime.check(naughty())
    assert len(runtime.household.owner) == 16
    await runtime.aclose()
