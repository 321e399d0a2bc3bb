"""Whoever wants a session while Redis is in trouble waits for it, for as long as for any answer of Redis."""

import asyncio
import json
import os
import signal
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.replicas.newcomers import Newcomers
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.shared_store import SharedStore, Title
from mooring.replicas.store_errors import StoreUnavailable
from tests.http_client import Answer
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.support import suspend, within

__all__ = ["server"]

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


async def hello(client: McpClient) -> Answer:
    async with within():
        return await client.raw("POST", client.request("initialize", HELLO))


async def one_waits(port: int) -> None:
    async with McpClient(port) as onlooker, within():
        onlooker.path = "/metrics"
        while (
            b'mooring_requests_under_way_elsewhere{server="test"} 1\n' not in (await onlooker.raw("GET")).body
        ):
            await asyncio.sleep(0.02)


async def test_it_is_opened_when_redis_answers_again(server: Server) -> None:
    async with replica(server, store_s=20.0) as host, McpClient(host.port) as client:
        await suspend(server.pid)
        try:
            await host.logged("sessions_unreachable")
            opening = asyncio.create_task(hello(client))
            await one_waits(host.port)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert (await opening).status == 200


async def test_it_is_refused_when_redis_does_not(server: Server) -> None:
    async with replica(server, store_s=0.5) as host, McpClient(host.port) as client:
        await suspend(server.pid)
        try:
            await host.logged("sessions_unreachable")
            answer = await hello(client)
        finally:
            os.kill(server.pid, signal.SIGCONT)
    assert (answer.status, "retry-after" in answer.headers) == (503, True)
    assert json.loads(answer.body)["error"]["data"]["reason"] == "sessions_unreachable"


async def test_it_is_opened_although_redis_is_too_slow_for_leases(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(self: SharedStore, incarnation: str, lease_s: float) -> bool:
        raise StoreUnavailable("no answer in time")

    async with replica(server, lease_s=1.0) as host, McpClient(host.port) as client:
        monkeypatch.setattr(SharedStore, "renew", late)
        await host.logged("sessions_unreachable")
        answer = await hello(client)
        assert answer.status == 200
        client.session = answer.headers["mcp-session-id"]
        await client.pid()


async def test_whoever_is_refused_leaves_no_session_in_redis(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis did as it was told, and was too late to say so."""
    opened_ids: list[str] = []
    begin = SharedStore.open

    async def late(store: SharedStore, id: str, *args: Any) -> Title:
        await begin(store, id, *args)
        opened_ids.append(id)
        raise StoreUnavailable("no answer in time")

    async with opened(server.port) as store, replica(server) as host, McpClient(host.port) as client:
        monkeypatch.setattr(SharedStore, "open", late)
        assert (await hello(client)).status == 503
        [id] = opened_ids
        async with within():
            while await store.find(id) is not None:
                await asyncio.sleep(0.02)


async def test_redis_is_asked_once_for_all_who_wait() -> None:
    asked = 0

    async def probe() -> None:
        nonlocal asked
        asked += 1
        await came.wait()

    came = asyncio.Event()
    membership = SimpleNamespace(trouble=StoreUnavailable("no answer"), hurry=lambda: None)
    newcomers = Newcomers(
        cast(Any, SimpleNamespace(probe=probe)), cast(Any, membership), ReplicaPolicy(), time.monotonic
    )
    crowd = [asyncio.create_task(newcomers.trouble()) for _ in range(100)]
    while not asked:
        await asyncio.sleep(0)
    came.set()
    async with within():
        assert set(await asyncio.gather(*crowd)) == {None}
    assert asked == 1
