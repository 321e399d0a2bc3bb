"""Nothing is left: not of stubborn process trees (pain 1), nor of sessions that nobody ends (pain 13)."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from mooring.runtimes.stopping import StopPatience
from tests.e2e.program import carrying
from tests.hosting import SCRIPTED, Host, hosting
from tests.integration.test_sse_transport import SseClient
from tests.mcp_client import Json, McpClient
from tests.support import children, open_descriptors, until, within

QUICK = StopPatience(eof_grace_s=0.1, stop_grace_s=0.1)


async def readyz(host: Host) -> Json:
    async with McpClient(host.port, path="/readyz") as probe:
        return json.loads((await probe.raw("GET")).body)  # type: ignore[no-any-return]


@pytest.mark.parametrize("number", [10, pytest.param(200, marks=pytest.mark.slow)])
async def test_stubborn_trees_are_gone_however_their_session_ended(tmp_path: Path, number: int) -> None:
    """Deaf to the end of their input and to SIGTERM, each with a grandchild that is as deaf."""
    token = f"MOORING_TREE={tmp_path.name}-{os.getpid()}-{number}"
    family = tmp_path / "family.sh"
    family.write_text(
        f"#!/bin/sh\ntrap '' TERM HUP INT\nexport {token}\n(trap '' TERM HUP INT; exec sleep 600) &\n"
        f"{' '.join(SCRIPTED)}\nexec sleep 600\n"
    )
    family.chmod(0o755)
    async with hosting((str(family),), patience=QUICK, spare=1) as host:
        posting = [McpClient(host.port) for _ in range(number // 2)]
        streaming = [SseClient(host.port) for _ in range(number - number // 2)]
        async with within(60):
            for client in posting:
                await client.initialize()
            for client in streaming:
                await client.connect()
        assert len(carrying(token)) >= 2 * number, "a server and a sleeper each"
        for client in posting:
            assert (await client.raw("DELETE")).status == 204
        for client in streaming:
            client.events.reset()
        await until(lambda: not carrying(token), 60)
        await until(lambda: len(host.events("session_closed")) == number)
        async with within():
            while (seen := await readyz(host))["instances"]:
                pass
        assert (seen["sessions"], seen["state"]) == (0, "ready")
        for client in (*posting, *streaming):
            await client.__aexit__()


async def test_abandoned_sessions_cost_a_bounded_number_of_everything(tmp_path: Path) -> None:
    """Clients that initialize and are never seen again."""
    bound = 50
    async with hosting(SCRIPTED, idle_timeout_s=0.05, max_sessions=bound, spare=0) as host:
        await until(lambda: any(getattr(r, "state", "") == "ready" for r in host.events("state")))
        async with within():
            while (await readyz(host))["instances"]:
                pass
        descriptors, processes = len(open_descriptors()), len(children())
        opened = 0

        async def abandon() -> None:
            nonlocal opened
            async with within(90):
                while opened < 300:
                    opened += 1
                    async with McpClient(host.port) as client:
                        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
                        while (await client.raw("POST", client.request("initialize", params))).status == 503:
                            await asyncio.sleep(0.02)  # as Retry-After asks, only sooner
                    assert len(children()) <= processes + 2 * bound + 2

        await asyncio.gather(*[abandon() for _ in range(8)])
        assert (await readyz(host))["sessions"] <= bound
        async with within(60):
            while (await readyz(host))["instances"]:
                pass
        await until(lambda: len(children()) <= processes)
        await until(lambda: len(open_descriptors()) <= descriptors + 2)
        opened_events = len(host.events("session_opened"))
        assert opened_events >= 300 and opened_events - len(host.events("session_closed")) <= bound
