"""Events are stored before they are sent: what is not in Redis yet has reached nobody."""

import asyncio
from typing import Any

import pytest

from mooring.proxy.policy import SessionPolicy
from mooring.proxy.streams import EventStream, Streams
from mooring.replicas.shared_store import SharedStore
from mooring.wire.budget import Budget
from tests.e2e.replicas.test_resuming import numbered
from tests.mcp_client import McpClient, emission
from tests.replicas.stores import Server
from tests.replicas.test_bounds import replica, server
from tests.support import until, within
from tests.unit.test_proxy_parts import FakeExchange, events

__all__ = ["server"]


class Vault:
    """It is told of events, and says that it has them when a test wants it to."""

    def __init__(self) -> None:
        self.has: list[tuple[int, bytes]] = []

    def begin(self, stream: EventStream) -> None:
        pass

    def put(self, stream: EventStream, n: int, data: bytes) -> None:
        self.has.append((n, data))

    def finish(self, stream: EventStream) -> None:
        pass

    def forget(self, stream: EventStream) -> None:
        pass


def a_stream() -> tuple[Streams, EventStream, Vault]:
    vault = Vault()
    streams = Streams(SessionPolicy(), Budget(10**9, 1), lambda: None, lambda stream: None, vault)
    return streams, streams.open(standalone=True), vault


def attached(stream: EventStream, after: int = 0) -> FakeExchange:
    exchange = FakeExchange()
    stream.attach(exchange, headers=[], after=after, now=0.0)
    return exchange


def test_nothing_is_written_before_the_vault_has_it() -> None:
    streams, stream, vault = a_stream()
    exchange = attached(stream)
    for data in (b"one", b"two"):
        streams.deliver(stream, data, 0.0)
    assert vault.has == [(1, b"one"), (2, b"two")]
    assert events(exchange) == []
    stream.on_stored(1)
    assert events(exchange) == ["one"]
    exchange.turn(False)
    exchange.turn(True)  # there is room for more, but nothing that may be sent
    assert events(exchange) == ["one"]
    stream.on_stored(2)
    assert events(exchange) == ["one", "two"]


def test_whoever_comes_back_gets_no_more_than_the_vault_has() -> None:
    streams, stream, _ = a_stream()
    for data in (b"one", b"two"):
        streams.deliver(stream, data, 0.0)
    stream.on_stored(1)
    exchange = attached(stream)
    assert events(exchange) == ["one"]
    stream.on_stored(2)
    assert events(exchange) == ["one", "two"]


class HeldStore:
    """Redis takes events when a test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.takes = asyncio.Event()
        append = SharedStore.append

        async def append_when_allowed(store: SharedStore, *args: Any) -> None:
            self.asked += 1
            await self.takes.wait()
            await append(store, *args)

        monkeypatch.setattr(SharedStore, "append", append_when_allowed)


async def test_a_client_hears_nothing_that_redis_has_not_acknowledged(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(server, event_s=60.0) as host, McpClient(host.port) as client:
        await client.initialize()
        stream = await client.stream()
        held = HeldStore(monkeypatch)
        hearing = asyncio.create_task(stream.message())
        # It cannot take a stream: what the server says goes to the one that listens, before the answer.
        body = client.request("x/emit", emission(*numbered([7])))
        answer = await client.raw("POST", body, Accept="application/json")
        assert answer.status == 200
        await until(lambda: held.asked)
        await client.pid()
        assert not hearing.done()
        held.takes.set()
        async with within():
            assert (await hearing)["params"]["data"] == 7
        stream.reset()
