"""Sessions in Redis by the ten thousands, written as replicas write them; and sessions that change hands."""

import asyncio
import secrets
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from bench import processes
from bench.client import Client, Connection
from bench.fleet import Fleet, Store, fleet
from bench.generator import generator
from bench.installed import mooring_program
from bench.measuring import Unable
from bench.targets import environment
from mooring.replicas.address import parse_store_address
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Keys, SessionRecord
from mooring.replicas.redis_client import open_client
from mooring.replicas.shared_store import SharedStore

__all__ = ["MANY", "Many", "TakenOver", "many_sessions", "took_over"]

MANY = 50_000
SERVER = "bench"
PREFIX = "mooring"
OWNER = "bench-0123456789abcdef"
TTL_S = 7 * 86_400.0
AT_ONCE = 32
PING_S = 0.0005
"""Between two signs of life of a client that wants nothing."""
SLOW_US = 20
"""Slower commands are written down by Redis."""
LISTING_S = 120.0
TAKEN = 500
"""Sessions that change hands."""

CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {
        "roots": {"listChanged": True},
        "sampling": {"context": {}, "tools": {}},
        "elicitation": {"form": {}, "url": {}},
    },
    "clientInfo": {
        "name": "some-editor",
        "title": "Some Editor for Developers",
        "version": "1.105.0-insider",
        "websiteUrl": "https://editor.example.com",
    },
}
"""As much as clients say of themselves."""


class Many(NamedTuple):
    """What so many sessions take."""

    memory_bytes: int
    bytes_each: float
    write_us: float
    """CPU of Redis for one that is written down."""
    find_us: float
    """The same for one that is looked for."""
    listing_s: float
    longest_pause_s: float
    """Of another client of Redis, during the listing."""
    slowest_command_s: float
    slowest_command: str


class TakenOver(NamedTuple):
    """What one costs that another replica had."""

    cpu_us: float
    redis_us: float
    commands: float


def many_sessions(count: int) -> Many:
    """As many as that, beside those of a replica, and a look at them all."""
    with fleet(1) as found:
        record = asyncio.run(_record_of(found))
        before, burnt_s = found.store.memory_bytes(), found.store.cpu_s()
        ids = asyncio.run(_written(found.store, record, count))
        write_s = found.store.cpu_s() - burnt_s
        after, burnt_s = found.store.memory_bytes(), found.store.cpu_s()
        asyncio.run(_found(found.store, ids))
        find_s = found.store.cpu_s() - burnt_s
        with _slow_commands(found.store) as slow, _pinging(found.store.port) as longest_s:
            listing_s = _listed(found.store, count)
        slowest = max(slow)
    each = 1e6 / count
    return Many(
        memory_bytes=after,
        bytes_each=(after - before) / count,
        write_us=write_s * each,
        find_us=find_s * each,
        listing_s=listing_s,
        longest_pause_s=max(longest_s),
        slowest_command_s=slowest.took_s,
        slowest_command=slowest.name,
    )


@asynccontextmanager
async def _shared(store: Store) -> AsyncIterator[SharedStore]:
    """As replicas have it."""
    wait_s = ReplicaPolicy().store_s
    client = open_client(parse_store_address(store.url), None, None, wait_s)
    shared = SharedStore(client, Keys(PREFIX, SERVER), wait_s)
    try:
        yield shared
    finally:
        await shared.aclose()


async def _record_of(fleet: Fleet) -> SessionRecord:
    """What a replica has written of a session whose client has done what clients do."""
    client = Client(fleet.replicas[0].port)
    client.introduce(CLIENT)
    with Connection(fleet.replicas[0].port) as connection:
        connection.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, client.session)
        connection.result(1)
    async with _shared(fleet.store) as shared:
        place = await shared.find(client.session or "")
    if place is None:
        raise Unable("the session is not in Redis")
    return place.record


async def _written(store: Store, record: SessionRecord, count: int) -> list[str]:
    ids = [secrets.token_urlsafe(24) for _ in range(count)]
    async with _shared(store) as shared:
        await _each(ids, lambda id: shared.open(id, OWNER, record, time.time(), TTL_S))
    return ids


async def _found(store: Store, ids: list[str]) -> None:
    async with _shared(store) as shared:
        await _each(ids, shared.find)


async def _each(ids: list[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Some at a time, each in a round trip of its own."""
    left = iter(ids)

    async def one_after_another() -> None:
        for id in left:
            await work(id)

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))


def _listed(store: Store, count: int) -> float:
    """How long `mooring sessions ls` takes for all of them."""
    argv = [mooring_program(), "sessions", "ls", "--json", "--sessions", store.url]
    with tempfile.TemporaryFile() as output:
        begun = time.monotonic()
        subprocess.run(argv, stdout=output, env=environment(), check=True, timeout=LISTING_S)
        took_s = time.monotonic() - begun
        output.seek(0)
        told = sum(1 for _ in output)
    if told < count:
        raise Unable(f"{told} of {count} sessions are listed")
    return took_s


class Slow(NamedTuple):
    """A command that took long."""

    took_s: float
    name: str


@contextmanager
def _slow_commands(store: Store) -> Iterator[list[Slow]]:
    """All that were slow; at the end."""
    store.client.config_set("slowlog-log-slower-than", SLOW_US)
    store.client.config_set("slowlog-max-len", MANY)
    store.client.slowlog_reset()
    slow = [Slow(SLOW_US / 1e6, "none")]
    yield slow
    for one in store.client.slowlog_get(MANY):
        slow.append(Slow(one["duration"] / 1e6, one["command"].split()[0].decode()))


@contextmanager
def _pinging(port: int) -> Iterator[list[float]]:
    """How long each PING of another client takes, in seconds."""
    took: list[float] = []
    is_over = threading.Event()

    def ping() -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(LISTING_S)
            while not is_over.is_set():
                begun = time.perf_counter()
                connection.sendall(b"PING\r\n")
                connection.recv(64)
                took.append(time.perf_counter() - begun)
                time.sleep(PING_S)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield took
    finally:
        is_over.set()
        thread.join()


def took_over() -> TakenOver:
    """One replica is ended; the other gets a call for each of its sessions."""
    with fleet(2) as found:
        options = ("-c", "8", "-s", str(TAKEN), "-n", str(TAKEN))
        with generator(found.elsewhere, *options) as load:
            load()
            processes.end(found.replicas[0].process)
            before, burnt_s = found.store.said(), found.store.cpu_s()
            called = load()
            redis_s, after = found.store.cpu_s() - burnt_s, found.store.said()
    each = 1e6 / TAKEN
    commands = (after.commands - before.commands) / TAKEN
    return TakenOver(called.proxy_cpu_s * each, redis_s * each, commands)
