"""stdin and stdout as lines: back-pressure, ends, and what they may be."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from mooring.host.standard_streams import MAX_UNREAD_BYTES, LineInput, LineOutput
from mooring.wire.lines import LongLine
from tests.support import on_both_loops, until, within

Ends = tuple[int, int]


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Theirs and ours."""
    if request.param == "pipe":
        ours, theirs = os.pipe()
        yield theirs, ours
        os.close(theirs)
        os.close(ours)
    else:
        left, right = socket.socketpair()
        with left, right:
            yield left.fileno(), right.fileno()


@on_both_loops
async def test_whoever_does_not_read_is_felt_by_those_who_write(ends: Ends) -> None:
    theirs, ours = ends
    pressure: list[bool] = []
    output = LineOutput(theirs, lambda: None)
    output.on_pressure = pressure.append
    sent = 0
    while not pressure:
        output.write(b"x" * 99_999)
        sent += 100_000
        await asyncio.sleep(0)
    assert pressure == [True] and sent > MAX_UNREAD_BYTES
    waiting = asyncio.ensure_future(_in_turn(output))
    await asyncio.sleep(0)
    assert not waiting.done()
    received = 0
    os.set_blocking(ours, False)

    def read() -> bool:
        nonlocal received
        with suppress(BlockingIOError):
            received += len(os.read(ours, 1 << 20))
        return received == sent

    await until(read)
    async with within():
        await waiting
        await output.wait_empty()
    assert pressure == [True, False]
    output.close()
    assert os.get_blocking(theirs)


async def _in_turn(output: LineOutput) -> None:
    async with output.turn():
        pass


@on_both_loops
async def test_nobody_reads_any_more() -> None:
    ours, theirs = os.pipe()
    lost = asyncio.Event()
    output = LineOutput(theirs, lost.set)
    os.close(ours)
    async with within():
        await lost.wait()
        output.write(b"nobody hears")
        await output.wait_empty()
    output.close()
    os.close(theirs)


@on_both_loops
async def test_what_the_client_writes_into_our_stdout_does_not_matter() -> None:
    left, right = socket.socketpair()
    output = LineOutput(left.fileno(), lambda: None)
    right.send(b"what?")
    await asyncio.sleep(0.01)
    output.write(b"line")
    async with within():
        await output.wait_empty()
    assert right.recv(100) == b"line\n"
    output.close()
    left.close()
    right.close()


@on_both_loops
async def test_input_is_read_only_while_it_is_wanted_and_to_its_end() -> None:
    theirs, ours = os.pipe()
    lines: list[bytes | LongLine] = []
    ended = asyncio.Event()
    source = LineInput(theirs, 10, lines.append, ended.set)
    os.write(ours, b"one\n\ntwo\r\n")
    await asyncio.sleep(0.01)
    assert lines == []
    source.resume()
    await until(lambda: lines == [b"one", b"two"])
    source.pause()
    os.write(ours, b"01234567890\nlast")
    os.close(ours)
    await asyncio.sleep(0.01)
    assert len(lines) == 2
    source.resume()
    async with within():
        await ended.wait()
    assert lines[2:] == [LongLine(b"01234567890", b"01234567890", 11), b"last"]
    source.close()
    os.close(theirs)
