"""The connection to a container, at one end of a pair of sockets: held back, bounded, ended, passed on."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mooring.runtimes.containers.attachment import HELD_BYTES, HIGH_WATER_BYTES, Attachment
from mooring.runtimes.containers.exchange import Upgraded
from mooring.wire.budget import Budget
from tests.containers.crew import Heard
from tests.support import on_both_loops, until, within

LIMIT = 1_000_000


class End:
    """An attachment, and the engine's end of its connection."""

    def __init__(self) -> None:
        self.ours, self.engine = socket.socketpair()
        self.engine.setblocking(False)
        self.texts: list[str] = []
        self.ends = 0
        self.writable = 0
        self.attachment = Attachment(
            max_line_bytes=LIMIT,
            unfinished=Budget(4 * LIMIT),
            on_text=self.texts.append,
            on_writable=self._on_writable,
            on_end=self._on_end,
        )

    async def connect(self, rest: bytes = b"") -> None:
        loop = asyncio.get_running_loop()
        self.ours.setblocking(False)
        transport, _ = await loop.create_unix_connection(asyncio.Protocol, sock=self.ours)
        transport.pause_reading()
        self.attachment.connect(Upgraded(transport, rest))

    async def says(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.engine, data)

    async def hears(self, number: int) -> bytes:
        found = b""
        while len(found) < number and (
            data := await asyncio.get_running_loop().sock_recv(self.engine, 1 << 20)
        ):
            found += data
        return found

    def _on_writable(self) -> None:
        self.writable += 1

    def _on_end(self) -> None:
        self.ends += 1


@asynccontextmanager
async def end(rest: bytes = b"") -> AsyncIterator[End]:
    there = End()
    async with within():
        await there.connect(rest)
        try:
            yield there
        finally:
            there.attachment.abort()
            await until(lambda: there.ends == 1)
            there.engine.close()


def out(data: bytes) -> bytes:
    return struct.pack(">BxxxL", 1, len(data)) + data


def err(data: bytes) -> bytes:
    return struct.pack(">BxxxL", 2, len(data)) + data


@on_both_loops
async def test_lines_are_whole_however_they_come_and_stderr_is_apart() -> None:
    heard = Heard()
    async with end(out(b"fir")) as there:
        there.attachment.attach(heard)
        await there.says(err(b"warn") + out(b"st\nsecond\r\n\nth") + err(b"ing\n") + out(b"ird"))
        await until(lambda: len(heard.lines) == 2 and there.texts)
        assert heard.lines == [b"first", b"second"] and there.texts == ["warning"]
        there.attachment.finish()
        assert heard.lines[2:] == [b"third"]


@on_both_loops
async def test_stderr_is_read_while_stdout_is_held_back_but_not_for_ever() -> None:
    async with end() as there:
        await there.says(out(b"held\n") + err(b"heard\n"))
        await until(lambda: there.texts == ["heard"])
        flood = out(b"x" * 999 + b"\n") * 20_000
        sending = asyncio.create_task(there.says(flood))
        await asyncio.sleep(0.1)
        assert not sending.done(), "nobody reads it: it must wait"
        passport = there.attachment.heard
        assert passport is not None
        assert HELD_BYTES <= len(passport[1]) < HELD_BYTES + 1_000_000
        heard = Heard()
        there.attachment.attach(heard)
        await sending
        await heard.line(20_000)
        assert heard.lines[0] == b"held" and set(heard.lines[1:]) == {b"x" * 999}


@on_both_loops
async def test_paused_nothing_is_heard_and_nothing_lost() -> None:
    heard = Heard()
    async with end() as there:
        there.attachment.attach(heard)
        await there.says(out(b"one\n"))
        await heard.line(0)
        there.attachment.pause()
        await there.says(out(b"two\nthr") + err(b"heard\n"))
        await until(lambda: there.texts == ["heard"])
        assert heard.lines == [b"one"]
        there.attachment.resume()
        await there.says(out(b"ee\n"))
        await heard.line(2)
        assert heard.lines == [b"one", b"two", b"three"]


async def test_a_line_over_the_limit_fails_alone() -> None:
    heard = Heard()
    async with end() as there:
        there.attachment.attach(heard)
        await there.says(out(b"x" * LIMIT) + out(b"y" * 100 + b"\n") + out(b"next\n"))
        await heard.line(0)
        assert heard.lines == [b"next"] and heard.long[0].length == LIMIT + 100


async def test_what_is_no_frame_ends_the_connection() -> None:
    async with end() as there:
        await there.says(b"no frame at all")
        await until(lambda: there.ends == 1)
        assert there.attachment.closed and not there.attachment.writable


@on_both_loops
async def test_the_end_of_the_input_comes_after_all_that_was_sent() -> None:
    async with end() as there:
        assert [there.attachment.send_line(line) for line in (b"one", b"two")] == [0, 4]
        there.attachment.close_input()
        assert there.attachment.send_line(b"late") == 8
        assert await there.hears(100) == b"one\ntwo\n"
        heard = Heard()
        there.attachment.attach(heard)
        await there.says(out(b"still heard\n"))
        assert await heard.line(0) == b"still heard"


@on_both_loops
async def test_nothing_is_written_while_it_may_not_be() -> None:
    """And what waited for that does not come before the end of the input."""
    async with end() as there:
        is_ours = False
        there.attachment.may_write = lambda: is_ours
        there.attachment.send_line(b"waits")
        await asyncio.sleep(0)
        assert there.attachment.consumed == 0
        is_ours = True
        assert await there.hears(6) == b"waits\n"
        is_ours = False
        there.attachment.send_line(b"goes nowhere")
        there.attachment.close_input()
        assert await there.hears(1) == b""


@on_both_loops
async def test_what_waits_here_was_not_read_and_a_reader_that_is_back_is_told() -> None:
    async with end() as there:
        attachment = there.attachment
        line, number = b"x" * 100_000, 30
        for _ in range(number):
            begins = attachment.send_line(line)
            await asyncio.sleep(0)
        assert not attachment.writable and attachment.consumed <= begins
        assert begins - attachment.consumed > HIGH_WATER_BYTES
        assert attachment.descriptor is None, "something is on its way"
        assert len(await there.hears(number * 100_001)) == number * 100_001
        await until(lambda: attachment.writable)
        assert there.writable == 1 and attachment.consumed == number * 100_001
        attachment.hold()
        assert not attachment.writable
        attachment.send_line(b"held")
        attachment.go_on()
        assert await there.hears(5) == b"held\n"
        assert there.writable == 2


@on_both_loops
async def test_what_one_has_read_another_goes_on_with() -> None:
    heard = Heard()
    async with end() as there:
        first = there.attachment
        first.attach(heard)
        whole = out(b"first\nsec") + err(b"half") + out(b"ond\n") + err(b" a word\n")
        await there.says(whole[:20])
        await heard.line(0)
        first.hold()
        passport = first.heard
        assert passport is not None
        other = End()
        other.attachment.begin_with(*passport)
        ear = Heard()
        await other.connect()
        other.attachment.attach(ear)
        await other.says(whole[20:])
        assert await ear.line(0) == b"second"
        await until(lambda: other.texts == ["half a word"])
        other.attachment.let_go()
        await until(lambda: other.ends == 1)
        other.engine.close()
        first.go_on()


async def test_one_that_was_never_connected_ends_too() -> None:
    there = End()
    there.attachment.send_line(b"nobody")
    there.attachment.abort()
    there.attachment.abort()
    await until(lambda: there.ends)
    assert there.ends == 1 and there.attachment.closed and there.attachment.consumed == 0
    there.ours.close()
    there.engine.close()
