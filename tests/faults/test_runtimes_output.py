"""Children that say too much, too little, or stop in the middle."""

import os

from mooring.runtimes import Exit
from tests.faults.runtime_bench import PATIENT, bench, resident_bytes
from tests.support import on_both_loops, until, within

MIB = 1024 * 1024


@on_both_loops
async def test_dies_in_the_middle_of_a_line() -> None:
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("say:whole", "say-part:half", "die:SIGKILL")
        assert await instance.wait_gone() == Exit(None, 9)
        assert listener.lines == [b"whole", b"half"]
        assert listener.gone == [Exit(None, 9)]
        assert listener.after_gone == 0


@on_both_loops
async def test_a_grandchild_on_the_pipe_does_not_hide_the_last_words() -> None:
    async with bench() as it, within():
        instance, listener = await it.start("grandchild:session,holding", "say-part:half", "exit:0")
        assert await instance.wait_gone() == Exit(0, None)
        assert listener.lines[-1] == b"half"
        os.kill(listener.grandchildren()[0], 9)


@on_both_loops
async def test_prints_a_banner_and_exits_at_once() -> None:
    async with bench(PATIENT) as it, within():
        instance, listener = await it.start("say:Welcome!", "exit:0")
        assert await instance.wait_gone() == Exit(0, None)
        assert listener.lines == [b"Welcome!"]


@on_both_loops
async def test_100_mb_of_stderr_in_flat_memory() -> None:
    lines, longest, most = 0, 0, 0

    def count(pid: int, text: str) -> None:
        nonlocal lines, longest, most
        lines += 1
        longest = max(longest, len(text))
        if lines % 10_000 == 0:
            most = max(most, resident_bytes())

    async with bench(PATIENT, on_stderr=count) as it, within(60):
        before = resident_bytes()
        instance, listener = await it.start("flood-stderr:100", "say:done", "echo")
        await until(lambda: listener.lines == [b"done"], 60)
        await instance.stop()
        assert (lines, longest) == (1_000_000, 99)
        assert most - before < 32 * MIB


@on_both_loops
async def test_80_mb_without_a_line_end() -> None:
    async with bench(PATIENT, max_line_bytes=MIB) as it, within(60):
        before = resident_bytes()
        instance, listener = await it.start("long-line:80", "say:next", "endless:2", "exit:0")
        await instance.wait_gone()
        assert [line.length for line in listener.long] == [80_000_000, 2_000_000]
        assert listener.lines == [b"next"]
        assert resident_bytes() - before < 32 * MIB


@on_both_loops
async def test_a_64_mb_line_within_the_limit() -> None:
    async with bench(PATIENT) as it, within(60):
        instance, listener = await it.start("long-line:64", "exit:0")
        await instance.wait_gone()
        assert [len(line) for line in listener.lines] == [64_000_000]


@on_both_loops
async def test_an_endless_line_on_stderr_is_cut() -> None:
    async with bench(PATIENT) as it, within():
        instance, _ = await it.start("err-part:" + "e" * 100_000, "err:", "err:next", "exit:0")
        await instance.stop()
        assert it.texts() == ["e" * 65536 + "… [34464 more bytes]", "next"]
