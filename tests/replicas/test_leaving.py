"""A replica that ends tells Redis what is left to tell; if that says nothing, it ends all the same."""

import os
import signal

import pytest

from tests.hosting import Host
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import replica, server
from tests.support import suspend, until

__all__ = ["server"]

LONG_S = 600.0


def hurried(host: Host) -> bool:
    """Told to end, and told again: calls are not waited for either."""
    host.stop.request("SIGTERM")
    return host.stop.forced


async def test_redis_is_not_waited_for_at_the_end(server: Server) -> None:
    """However long it may take at other times."""
    async with replica(server, store_s=LONG_S, lease_s=LONG_S) as host, McpClient(host.port) as client:
        await client.initialize()
        await suspend(server.pid)
        try:
            await client.result("logging/setLevel", {"level": "debug"})  # which is to be written down
            await until(lambda: hurried(host))
            assert await host.end() == 0
        finally:
            os.kill(server.pid, signal.SIGCONT)


async def test_that_others_learn_late_is_told(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with replica(server) as host:
        await server.kill()
        await until(lambda: hurried(host))
        assert await host.end() == 0
    assert "learn late that this replica is gone: Redis cannot be reached: connection refused" in caplog.text
