"""A client that comes with a session of which nobody knows: an event, but a rare one."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from mooring.proxy.lost_sessions import EVERY_S, SELDOM_S, LostSessions
from tests.integration.test_daemon import living
from tests.mcp_client import McpClient, client_of


def test_it_is_told_at_once_and_then_seldom() -> None:
    now, told = [100.0], []
    lost = LostSessions(lambda: now[0])
    lost.on_lost = lambda: told.append(now[0])
    for moment in (
        100.0,
        100.1,
        100.0 + EVERY_S - 0.1,
        100.0 + EVERY_S,
        101.0 + EVERY_S,
        100.0 + 3 * EVERY_S,
    ):
        now[0] = moment
        lost.note()
    assert told == [100.0, 100.0 + EVERY_S, 100.0 + 3 * EVERY_S]


def test_one_who_does_not_stop_is_told_more_and_more_seldom_and_the_next_at_once() -> None:
    now, told = [0.0], []
    lost = LostSessions(lambda: now[0])
    lost.on_lost = lambda: told.append(now[0])
    for moment in range(1000):
        now[0] = float(moment)
        lost.note()
    assert [later - earlier for earlier, later in pairwise(told)][-1] == SELDOM_S
    now[0] += 3 * SELDOM_S
    lost.note()
    now[0] += EVERY_S
    lost.note()
    assert told[-2:] == [now[0] - EVERY_S, now[0]]


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
