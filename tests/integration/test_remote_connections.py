"""Connections of calls that are answered by a stream: kept where it ends, closed where it does not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mooring.http.client import Client
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import parse_url
from mooring.remote import caller
from mooring.remote.conversation import Conversation
from mooring.remote.endpoint import Endpoint
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from tests.faults.test_stdio_server import result
from tests.old_sse import NoCredentials, Talk
from tests.raw_server import LAST_CHUNK, Asked, Wire, event, raw_server, stream_head
from tests.stdio_client import modern
from tests.support import within


@asynccontextmanager
async def talking(url: str) -> AsyncIterator[Talk]:
    """Over one connection at a time."""
    talk, policy = Talk(), RemotePolicy()
    origin, target = parse_url(url)
    talk.client = Client(origin, ClientLimits(max_connections=1))
    reach = Reach(talk.client, url, policy)
    endpoint = Endpoint(talk.client, target, NoCredentials(), policy)
    talk.conversation = Conversation(endpoint, reach, talk, policy)
    try:
        yield talk
    finally:
        async with within():
            await talk.conversation.aclose()
            await reach.aclose()
            await talk.client.aclose()


async def test_an_end_behind_the_answer_gives_the_connection_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "LINGER_S", 60.0)
    is_answered = asyncio.Event()

    async def script(asked: Asked, wire: Wire) -> bytes:
        wire.send(stream_head() + event(result(asked, {})))
        await is_answered.wait()
        is_answered.clear()
        return LAST_CHUNK

    async with raw_server(script) as server, talking(server.url) as talk, within():
        for _ in range(5):
            assert await talk.result("tools/call", modern(name="x")) == {}
            is_answered.set()
        assert server.connections == 1


async def never(wire: Wire) -> None:
    pass


async def for_ever(wire: Wire) -> None:
    while not wire.writer.transport.is_closing():
        wire.send(event({"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "x" * 1000}}))
        await wire.writer.drain()


@pytest.mark.parametrize(("goes_on", "linger_s"), [(never, 0.01), (for_ever, 60.0)])
async def test_one_that_does_not_end_is_closed(
    goes_on: Callable[[Wire], Awaitable[None]], linger_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "LINGER_S", linger_s)

    async def script(asked: Asked, wire: Wire) -> None:
        wire.send(stream_head() + event(result(asked, {})))
        try:
            await goes_on(wire)
        except OSError:
            return
        await wire.closed_by_peer()

    async with raw_server(script) as server, talking(server.url) as talk, within():
        for _ in range(2):
            assert await talk.result("tools/call", modern(name="x")) == {}
        assert server.connections == 2
