"""A client of Redis or Valkey, as an address says: one server, sentinels or a cluster."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis.asyncio as redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff

from mooring.errors import UserError
from mooring.replicas.address import StoreAddress

__all__ = ["RedisClient", "open_client"]

RedisClient = redis.Redis | RedisCluster

MOST_CONNECTIONS = 32
"""To each server: whoever finds none free waits."""
RETRIES = 2
"""Of one command whose connection broke: each may be said twice."""


def open_client(
    address: StoreAddress, password: str | None, ca_file: Path | None, wait_s: float
) -> RedisClient:
    """No connection is made before the first command. Raises UserError for an unusable CA file."""
    options: dict[str, Any] = {
        "username": address.user or None,
        "password": password,
        "socket_timeout": wait_s,
        "socket_connect_timeout": wait_s,
        "socket_keepalive": True,
        "retry": Retry(ExponentialBackoff(cap=0.2, base=0.02), RETRIES),
        **_tls(address, ca_file),
    }
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        return RedisCluster(startup_nodes=nodes, max_connections=MOST_CONNECTIONS, **options)
    if address.kind == "sentinel":
        # Sentinels have passwords of their own, mostly none.
        quietly = {name: value for name, value in options.items() if name not in ("username", "password")}
        sentinel: Any = Sentinel(list(address.hosts), sentinel_kwargs=quietly, **options)  # type: ignore[no-untyped-call]
        primary: redis.Redis = sentinel.master_for(address.primary, db=address.database)
        return primary
    host, port = address.hosts[0]
    tls = options.pop("ssl", False)
    kind = redis.SSLConnection if tls else redis.Connection
    pool = redis.BlockingConnectionPool(
        max_connections=MOST_CONNECTIONS,
        timeout=wait_s,
        connection_class=kind,
        host=host,
        port=port,
        db=address.database,
        **options,
    )
    return redis.Redis.from_pool(pool)


def _tls(address: StoreAddress, ca_file: Path | None) -> Mapping[str, Any]:
    if not address.tls:
        return {}
    if ca_file is not None:
        try:
            ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"the authorities in {ca_file} cannot be used: {error}",
                code="bad_ca_file",
                hint="--sessions-ca names a file of certificates in PEM form",
            ) from None
    return {"ssl": True, "ssl_cert_reqs": "required", "ssl_ca_certs": str(ca_file) if ca_file else None}
