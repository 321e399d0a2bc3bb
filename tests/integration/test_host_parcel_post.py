"""Descriptors and bytes between two ends of a real socket."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.host.parcel_post import MOST_WAITING, ParcelPost
from mooring.host.parcels import MOST_DESCRIPTORS
from tests.support import on_both_loops, open_descriptors, within


@pytest.fixture(autouse=True)
def _no_descriptor_left() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@asynccontextmanager
async def two_ends() -> AsyncIterator[tuple[ParcelPost, ParcelPost]]:
    ends = [ParcelPost(sock) for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)]
    try:
        async with within():
            yield ends[0], ends[1]
    finally:
        for end in ends:
            end.close()
            end.close()


@on_both_loops
async def test_a_descriptor_is_another_ones_afterwards() -> None:
    async with two_ends() as (one, other):
        read_end, write_end = os.pipe()
        one.send(b"a pipe", (read_end,))
        os.close(read_end)  # the post has its own
        os.write(write_end, b"through")
        os.close(write_end)
        parcel = await other.receive()
        assert parcel is not None and parcel.data == b"a pipe"
        [number] = parcel.descriptors
        assert not os.get_inheritable(number)
        assert os.read(number, 100) == b"through"
        os.close(number)


@on_both_loops
async def test_parcels_keep_their_order_and_their_descriptors() -> None:
    async with two_ends() as (one, other):
        pipes = [os.pipe() for _ in range(20)]

        async def send_all() -> None:
            for n in range(2 * MOST_WAITING):
                own = pipes[n % 20] if n % 3 else ()
                one.send(b"%d " % n + bytes(n * 97 % 50_000), tuple(own))
            await one.wait_sent()

        sending = asyncio.create_task(send_all())
        for n in range(2 * MOST_WAITING):
            parcel = await other.receive()
            assert parcel is not None
            assert parcel.data.startswith(b"%d " % n) and len(parcel.data) >= n * 97 % 50_000
            inodes = [os.fstat(number).st_ino for number in parcel.descriptors]
            assert inodes == ([os.fstat(number).st_ino for number in pipes[n % 20]] if n % 3 else [])
            for number in parcel.descriptors:
                os.close(number)
        await sending
        for number in (number for pipe in pipes for number in pipe):
            os.close(number)


@on_both_loops
async def test_both_ways_at_once_and_as_many_descriptors_as_there_may_be() -> None:
    async with two_ends() as (one, other):
        with Path(os.devnull).open() as file:
            one.send(b"x" * 1_000_000, (file.fileno(),) * MOST_DESCRIPTORS)
            other.send(b"y" * 1_000_000)
            there, here = await other.receive(), await one.receive()
        assert there is not None and here is not None
        assert (len(there.descriptors), len(here.data)) == (MOST_DESCRIPTORS, 1_000_000)
        for number in there.descriptors:
            os.close(number)


@on_both_loops
async def test_what_was_sent_before_the_end_still_comes() -> None:
    async with two_ends() as (one, other):
        one.send(b"last words")
        await one.wait_sent()
        one.close()
        assert await other.receive() == (b"last words", ())
        assert await other.receive() is None and other.is_over
        other.send(b"to nobody")  # goes nowhere
        await other.wait_sent()


@on_both_loops
async def test_what_nobody_received_is_closed_with_the_post() -> None:
    async with two_ends() as (one, other):
        with Path(os.devnull).open() as file:
            for _ in range(3 * MOST_WAITING):
                one.send(b"z" * 2000, (file.fileno(),))
        parcel = await other.receive()  # the rest is closed by the end of the block
        assert parcel is not None
        os.close(parcel.descriptors[0])
