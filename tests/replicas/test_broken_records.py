"""What is in Redis may be anything: written by another Mooring, or by somebody else's program."""

import asyncio
from typing import Any, cast

from mooring.replicas.records import Keys, SessionRecord, write_record
from mooring.replicas.redis_client import RedisClient
from mooring.wire.memory import Memory
from tests.hosting import Host
from tests.http_client import Answer
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import RECORD, opened, replica, server

__all__ = ["server"]

KEYS = Keys("mooring", "test")
GOOD = write_record(SessionRecord("local", "streamable-http", "test 1", Memory().dump(), 1.0))
BROKEN: dict[str, dict[str, bytes] | bytes] = {
    "no hash": b"x",
    "nothing that is known": {"y": b"1"},
    "no fence": {"o": b"", "r": GOOD},
    "a fence that is no number": {"o": b"", "f": b"abc", "r": GOOD},
    "a fence that is no number, of somebody": {"o": b"x", "f": b"abc", "r": GOOD},
    "a fence of no size": {"o": b"", "f": b"9" * 40, "r": GOOD},
    "an owner that is no text": {"o": b"\xff\xfe", "f": b"1", "r": GOOD},
    "no record": {"o": b"", "f": b"1"},
    "a record that is none": {"o": b"", "f": b"1", "r": b"\x99"},
    "a record of another shape": {"o": b"", "f": b"1", "r": write_record(["local", 1, 2])},
    "a memory that is none": {"o": b"", "f": b"1", "r": write_record(RECORD)},
    "a use that is no time": {"o": b"", "f": b"1", "r": GOOD, "u": b"yesterday"},
    "a release that is no number": {"o": b"", "f": b"1", "r": GOOD, "g": b"\xff"},
}


async def put(redis: RedisClient, id: str, what: dict[str, bytes] | bytes) -> None:
    if isinstance(what, bytes):
        await redis.set(KEYS.session(id), what)
    else:
        await redis.hset(KEYS.session(id), mapping=cast("dict[Any, Any]", what))


async def answer_to(client: McpClient, method: str) -> Answer | None:
    """None: the connection was closed instead."""
    try:
        return await client.raw(method, client.request("ping") if method == "POST" else b"")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def forgive_closed(host: Host) -> None:
    """That connections were closed over what could not be read is in the log; nothing else is wrong."""
    faults = [record for record in host.records if record.exc_info]
    assert {record.getMessage() for record in faults} <= {"a request could not be passed on"}
    for record in faults:
        host.records.remove(record)


async def test_no_record_ends_a_replica(server: Server) -> None:
    """Each request is answered, or its connection closed; and whoever comes next is served."""
    async with replica(server, route_s=0.3, look_again_s=0.1) as host, opened(server.port) as store:
        async with McpClient(host.port) as good, McpClient(host.port) as client:
            await good.initialize()
            pid = await good.pid()
            for n, (what, broken) in enumerate(BROKEN.items()):
                client.session = f"session-that-is-broken-{n}"
                await put(store._client, client.session, broken)
                for method in ("POST", "GET", "DELETE"):
                    answer = await answer_to(client, method)
                    assert answer is None or answer.status in (404, 503), (what, answer)
                    assert await good.pid() == pid, what
            async with McpClient(host.port) as newcomer:
                await newcomer.initialize()
        forgive_closed(host)
