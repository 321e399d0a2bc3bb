"""A session goes on with a new server: it is told what the one before it was told."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest
import redis.asyncio

from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.replicas.fleet import Roaming, running_fleet
from tests.e2e.replicas.test_losing import LEASE
from tests.replicas.stores import Server
from tests.support import within

pytestmark = LINUX_ONLY

SCRIPTED = (sys.executable, "-I", str(Path(__file__).parents[2] / "faults" / "scripted_server.py"))
ABLE = {"resources": {"subscribe": True}, "logging": {}}


async def written(store: Server, session: str, text: str) -> None:
    """Until the record of a session has it: who is killed says nothing more."""
    async with redis.asyncio.Redis(port=store.port) as asking, within():
        while text.encode() not in (await asking.hget(f"mooring:e2e:s:{{{session}}}", "r") or b""):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_log_level_and_subscriptions_reach_the_server_at_the_next_replica(
    number: signal.Signals, store: Server
) -> None:
    command = (*SCRIPTED, "--capabilities", json.dumps(ABLE))
    async with running_fleet(2, store, command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize(capabilities={"roots": {}})
        first = await client.pid()
        await client.result("logging/setLevel", {"level": "debug"})
        await client.result("logging/setLevel", {"level": "warning"})
        for uri in ("file:///a", "file:///b", "file:///c"):
            await client.result("resources/subscribe", {"uri": uri})
        await client.result("resources/unsubscribe", {"uri": "file:///b"})
        client.go_only_to(other)
        await client.result("resources/subscribe", {"uri": "file:///d"})  # by way of the other
        await written(store, client.session, "file:///d")
        if number is signal.SIGKILL:
            owner.exit_status = -number
        owner.signal(number)
        await owner.ended()
        async with within():
            heard = [json.loads(line) for line in await client.heard()]
            assert await client.pid() != first
        told = [(one["method"], one.get("params", {})) for one in heard]
        assert told[0][1]["capabilities"] == {"roots": {}}
        assert [method for method, _ in told[:2]] == ["initialize", "notifications/initialized"]
        assert [params["level"] for method, params in told if method == "logging/setLevel"] == ["warning"]
        subscribed = [params["uri"] for method, params in told if method == "resources/subscribe"]
        assert subscribed == ["file:///a", "file:///c", "file:///d"]
