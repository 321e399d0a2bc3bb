"""Where servers are reached that come and go: who asks too early waits, within bounds."""

import asyncio

import pytest

from mooring.host import street as street_module
from mooring.host.street import Street
from mooring.http.router import Router
from mooring.wire.http import Exchange, Response
from tests.http_client import Answer, serving
from tests.mcp_client import McpClient
from tests.support import within


def nothing(name: str) -> None:
    pass


async def asked(client: McpClient, body: bytes = b"{}") -> "asyncio.Task[Answer]":
    """A request that has arrived, and its answer when there is one."""
    peer = await client.send("POST", body)
    return asyncio.create_task(peer.answer())


async def test_of_too_many_who_wait_the_last_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(street_module, "MOST_WAITING", 3)
    monkeypatch.setattr(street_module, "MAX_WAITING_BYTES", 100)
    router = Router()
    street = Street(router, nothing)
    async with serving(router) as served, McpClient(served.port, path="/one/mcp") as client, within():
        street.expect("one")
        first = await asked(client, b"x" * 150)
        refused = await (await asked(client))
        assert refused.status == 503 and "retry-after" in refused.headers, "the first holds too much"
        street.expect("one")
        street.forget("one")
        assert (await first).status == 404

        street.expect("one")
        waiting = [await asked(client) for _ in range(4)]
        _, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert len(pending) == 3

        def answer(exchange: Exchange) -> None:
            exchange.respond(Response(200, b"here"))

        monkeypatch.setattr(
            street_module, "add_routes", lambda router, proxy, base: router.add("POST", f"{base}/mcp", answer)
        )
        street.serve("one", None)  # type: ignore[arg-type]
        assert sorted([(await answer).status for answer in waiting]) == [200, 200, 200, 503]


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(street_module, "QUEUE_S", 0.05)
    router = Router()
    street = Street(router, nothing)
    async with serving(router) as served, McpClient(served.port, path="/one/mcp") as client, within():
        street.expect("one")
        answer = await (await asked(client))
        assert answer.status == 503 and b"it is starting" in answer.body


async def test_who_has_gone_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(street_module, "MOST_WAITING", 1)
    router = Router()
    street = Street(router, nothing)
    async with serving(router) as served, McpClient(served.port, path="/one/mcp") as client, within():
        street.expect("one")
        gone = await client.send("POST", b"{}")
        assert (await (await asked(client))).status == 503, "there is one place"
        gone.reset()
        while (late := await asked(client)) and (await asyncio.wait([late], timeout=0.05))[0]:
            assert (await late).status == 503, "until its place is free"
        street.close("one", "no reason")
        assert b"no reason" in (await late).body
