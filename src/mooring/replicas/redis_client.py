"""A client of Redis or Valkey, as an address says: one server, sentinels or a cluster.

Whoever asks is given up on after a bound, and a server that is cut off says nothing at all: so nothing here
may need more than one such bound to find out that another server has taken its place.
"""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis.asyncio.cluster import ClusterNode, ClusterPipeline, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import AuthenticationError, RedisError

from mooring.errors import UserError
from mooring.replicas.address import StoreAddress
from mooring.replicas.store_errors import NO_SENTINEL

__all__ = ["RedisClient", "open_client"]

RedisClient = redis.Redis | RedisCluster

MOST_CONNECTIONS = 32
"""To each server: whoever finds none free waits."""
RETRIES = 2
"""Of one command whose connection broke: each may be said twice."""
PART = 3
"""One node of a cluster may take this part of a wait: then others are asked who has its place."""


def open_client(
    address: StoreAddress, password: str | None, ca_file: Path | None, wait_s: float
) -> RedisClient:
    """No connection is made before the first command. Raises UserError for an unusable CA file."""
    login: dict[str, Any] = {"username": address.user or None, "password": password}
    options: dict[str, Any] = {
        "socket_timeout": wait_s,
        "socket_connect_timeout": wait_s,
        "socket_keepalive": True,
        "retry": Retry(ExponentialBackoff(cap=0.2, base=0.02), RETRIES),
    }
    trust = _trust(ca_file) if address.tls else None
    if address.kind == "cluster":
        return _cluster(address, {**options, **login}, wait_s / PART, trust)
    if address.kind == "sentinel":
        return _watched(address, options, login, wait_s=wait_s, trust=trust)
    host, port = address.hosts[0]
    pool = redis.BlockingConnectionPool(
        max_connections=MOST_CONNECTIONS,
        timeout=wait_s,
        host=host,
        port=port,
        db=address.database,
        **login,
        **options,
        **_connections(trust),
    )
    return redis.Redis.from_pool(pool)


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    """These authorities alone, or those of the machine. One for all connections: they are many, to read."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"the authorities in {ca_file} cannot be used: {error}",
            code="bad_ca_file",
            hint="--sessions-ca names a file of certificates in PEM form",
        ) from None


def _connections(trust: ssl.SSLContext | None) -> dict[str, Any]:
    """Which a pool makes."""
    return {"connection_class": _Plain} if trust is None else {"connection_class": _Secured, "trust": trust}


class _Closable(AbstractConnection):
    """One that was closed says so, and the command is tried again; and closing waits for nobody.

    As it comes, what is written to it may end in an error of Python's own, depending on its version: nobody
    takes that for a lost connection (redis-py 8.1, issue 4287).
    """

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        try:
            await super().send_packed_command(command, check_health)
        except (AttributeError, TypeError) as error:
            await self.disconnect(nowait=True)
            raise redis.ConnectionError("the connection was closed") from error

    async def disconnect(self, *args: Any, **kwargs: Any) -> None:
        # All that was asked is answered by now, or given up. Else a server that says nothing is waited for,
        # to read the rest and to say farewell in TLS, and in the end that is an error.
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(*args, **kwargs)


class _Plain(_Closable, redis.Connection):
    pass


class _Secured(_Closable, redis.SSLConnection):
    def __init__(self, *, trust: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context.context = trust


def _cluster(
    address: StoreAddress, options: dict[str, Any], node_s: float, trust: ssl.SSLContext | None
) -> RedisCluster:
    options |= {"socket_timeout": node_s, "socket_connect_timeout": node_s, "ssl": trust is not None}
    nodes = [ClusterNode(host, port) for host, port in address.hosts]
    return _Cluster(
        trust,
        startup_nodes=nodes,
        max_connections=2 * MOST_CONNECTIONS,  # pipelines, of which there are few, do not wait
        reinitialize_steps=0,  # whoever is sent on would close all connections, in use by others
        **options,
    )


class _Cluster(RedisCluster):
    """Whoever was given up on may have asked a node that is no more: the next one looks who is there."""

    def __init__(self, trust: ssl.SSLContext | None, **options: Any) -> None:
        super().__init__(**options)
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)
        kind = _connections(trust)
        self.connection_kwargs.update(kind)  # of nodes that it finds
        for node in self.startup_nodes:
            node.connection_class = kind["connection_class"]
            if trust is not None:
                node.connection_kwargs["trust"] = trust

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        async with self._room:
            try:
                if self.get_default_node() is None:
                    await self.initialize()  # or it would ask any node, and be sent on
                return await super().execute_command(*args, **kwargs)
            except asyncio.CancelledError:
                self.look_again()
                raise

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        return _ClusterPipeline(self, transaction)  # type: ignore[abstract]  # as redis-py does it, too

    def look_again(self) -> None:
        """Who has which slots, before the next command."""
        self._initialize = True

    async def aclose(self) -> None:
        self._initialize = False  # or it would close nothing
        await super().aclose()


class _ClusterPipeline(ClusterPipeline):
    """The same, of many commands."""

    cluster_client: _Cluster

    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        try:
            return await super().execute(raise_on_error, allow_redirections)
        except asyncio.CancelledError:
            self.cluster_client.look_again()
            raise


def _watched(
    address: StoreAddress,
    options: dict[str, Any],
    login: dict[str, Any],
    *,
    wait_s: float,
    trust: ssl.SSLContext | None,
) -> redis.Redis:
    sentinels = _Sentinels(address.hosts, options | _connections(trust), login)
    pool: Any = _WatchedPool(  # type: ignore[no-untyped-call]
        address.primary,
        sentinels,
        max_connections=MOST_CONNECTIONS,
        timeout=wait_s,
        db=address.database,
        **options,
        **login,
        **(
            {"connection_class": _WatchedPlain}
            if trust is None
            else {"connection_class": _WatchedSecured, "trust": trust}
        ),
    )
    client: redis.Redis = _Watched.from_pool(pool)
    return client


class _Sentinels(Sentinel):
    """All are asked at once, and the first that knows is believed: one may be gone with its machine.

    They have a password of their own, mostly none. Those that want one are given that of Redis.
    """

    def __init__(
        self, hosts: Sequence[tuple[str, int]], options: dict[str, Any], login: dict[str, Any]
    ) -> None:
        super().__init__([])  # type: ignore[no-untyped-call]
        options = {**options, "retry": Retry(NoBackoff(), 0)}  # whoever asks for a primary asks again
        self.sentinels = [_one(host, port, options) for host, port in hosts]
        self._strict = [_one(host, port, options | login) for host, port in hosts]

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        asking = [asyncio.ensure_future(self._ask(n, service_name)) for n in range(len(self.sentinels))]
        try:
            return await self._first(asking, service_name)
        finally:
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _first(self, asking: "Sequence[asyncio.Future[tuple[str, int]]]", name: str) -> tuple[str, int]:
        failed: RedisError | None = None
        for answer in asyncio.as_completed(asking):
            try:
                return await answer
            except RedisError as error:
                # That one is no sentinel is told if nothing better can be: the others may just be late.
                if failed is None or NO_SENTINEL.search(str(failed)):
                    failed = error
        raise failed or MasterNotFoundError(f"there is no sentinel to ask for {name}")

    async def _ask(self, n: int, name: str) -> tuple[str, int]:
        primaries: Any
        try:
            primaries = await self.sentinels[n].sentinel_masters()
        except AuthenticationError:
            self.sentinels[n] = self._strict[n]
            primaries = await self.sentinels[n].sentinel_masters()
        state = primaries.get(name)
        if state is None:
            raise MasterNotFoundError(f"the sentinels know no primary {name}")
        if not self.check_master_state(state, name):
            raise MasterNotFoundError(f"the sentinels know of no primary {name} that lives")
        return state["ip"], state["port"]

    async def aclose(self) -> None:
        for one in (*self.sentinels, *self._strict):
            await one.aclose()


def _one(host: str, port: int, options: dict[str, Any]) -> redis.Redis:
    return redis.Redis.from_pool(redis.ConnectionPool(host=host, port=port, **options))


class _WatchedPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Of the primary, whoever that is; whoever finds no connection free waits."""


class _WatchedPlain(_Closable, SentinelManagedConnection):
    pass


class _WatchedSecured(_Closable, SentinelManagedSSLConnection):
    def __init__(self, *, trust: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.ssl_context.context = trust


class _Watched(redis.Redis):
    """The client of a primary, with those of its sentinels."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        pool: Any = self.connection_pool
        await pool.sentinel_manager.aclose()
