"""A client that comes with a session of which nobody knows: an event, seldom, but in the end always."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mooring.proxy import lost_sessions
from mooring.proxy.lost_sessions import LostSessions
from tests.integration.test_daemon import living
from tests.mcp_client import McpClient, client_of
from tests.support import until


class Noted:
    """What was told, on a clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[float] = []
        self.lost = LostSessions(lambda: self.now)
        self.lost.on_lost = lambda: self.told.append(self.now)


async def test_the_first_is_told_at_once_and_the_last_of_a_burst_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_sessions, "EVERY_S", 0.05)
    noted = Noted()
    noted.lost.note()
    assert noted.told == [0.0]
    noted.now = 0.01
    for _ in range(100):
        noted.lost.note()
    assert noted.told == [0.0], "not more than one in that time"
    await until(lambda: len(noted.told) == 2)
    noted.now = 1.0
    noted.lost.note()
    assert noted.told == [0.0, 0.01, 1.0]


async def test_nobody_is_told_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_sessions, "EVERY_S", 0.01)
    noted = Noted()
    noted.lost.note()
    noted.lost.note()
    noted.lost.close()
    await asyncio.sleep(0.05)
    assert noted.told == [0.0]


async def post(client: McpClient) -> int:
    return (await client.raw("POST", client.request("x/pid"))).status


async def get(client: McpClient) -> int:
    return (await client.raw("GET")).status


async def message(client: McpClient) -> int:
    client.path = "/one/messages?session_id=nobody"
    return (await client.raw("POST", client.request("ping"))).status


@pytest.mark.parametrize("come", [post, get, message])
async def test_a_session_that_is_not_known_is_an_event_of_its_server(
    tmp_path: Path, come: Callable[[McpClient], Awaitable[int]]
) -> None:
    async with living(tmp_path) as life:
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            assert await client.pid()
            assert (await client.raw("DELETE")).status == 204
            assert (await client.raw("DELETE")).status == 404
            before = await life.ask("GET", "/events?name=one")
            assert "session_lost" not in [event["kind"] for event in before], (
                "whoever ends one misses nothing"
            )
            for _ in range(3):
                assert await come(client) == 404
            [event] = await life.ask("GET", f"/events?name=one&wait_s=20&after={before[-1]['number']}")
            assert (event["kind"], event["generation"]) == ("session_lost", 1)
