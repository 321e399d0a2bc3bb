"""Requests of our own to an instance: every wait ends."""

import asyncio

import pytest

from mooring.errors import ServerFailed
from mooring.proxy.own_requests import OwnRequests
from mooring.wire import jsonrpc
from tests.support import within


class Channel:
    """Remembers what it was sent."""

    pid = 1
    writable = True
    consumed = 0
    is_paused = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def attach(self, receiver: object) -> None:
        raise AssertionError

    def send(self, line: bytes) -> int:
        self.lines.append(line)
        return 0

    def pause_reading(self) -> None:
        raise AssertionError

    resume_reading = pause_reading


async def test_an_answer_finds_its_question() -> None:
    requests, channel = OwnRequests(), Channel()
    asking = asyncio.create_task(requests.ask(channel, b"question", "q"))
    await asyncio.sleep(0)
    assert channel.lines == [b"question"]
    assert not requests.resolve(jsonrpc.parse(jsonrpc.result_response("other", {})))
    assert requests.resolve(jsonrpc.parse(jsonrpc.result_response("q", {})))
    async with within():
        assert (await asking).request_id == "q"
    assert not requests.resolve(jsonrpc.parse(jsonrpc.result_response("q", {}))), "nobody asks any more"


async def test_a_loss_ends_the_wait_and_whatever_is_asked_after_it() -> None:
    requests, channel = OwnRequests(), Channel()
    asking = asyncio.create_task(requests.ask(channel, b"first", 1))
    await asyncio.sleep(0)
    requests.lose("it ended")
    with pytest.raises(ServerFailed, match="it ended"):
        await asking
    async with within():
        with pytest.raises(ServerFailed, match="it ended"):
            await requests.ask(channel, b"second", 2)
    assert channel.lines == [b"first"]
