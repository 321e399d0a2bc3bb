"""The restart policy, as clients see it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from mooring.supervise.restart import RestartPolicy
from tests.hosting import SCRIPTED, Host, hosting
from tests.mcp_client import Json, McpClient, client_of
from tests.support import within

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}}


async def kill(host: Host, pid: int) -> None:
    number = len(host.events("server_exited")) + 1
    os.kill(pid, signal.SIGKILL)
    await host.logged("server_exited", number)


async def readyz(host: Host) -> tuple[int, Json]:
    async with McpClient(host.port, path="/readyz") as probe:
        answer = await probe.raw("GET")
        return answer.status, json.loads(answer.body)


async def in_state(host: Host, state: str) -> Json:
    async with within():
        while (seen := await readyz(host))[1]["state"] != state:
            pass
    return seen[1]


@asynccontextmanager
async def settled(argv: Sequence[str] = SCRIPTED, **options: Any) -> AsyncIterator[Host]:
    """A host whose own first instance has spoken and is gone: what follows is the sessions' doing alone."""
    async with hosting(argv, spare=0, **options) as host:
        async with within():
            while (seen := (await readyz(host))[1])["state"] != "ready" or seen["instances"]:
                pass
        yield host


async def test_in_a_back_off_calls_wait_and_then_are_told() -> None:
    policy = RestartPolicy(immediate=0, delays_s=(300.0,))
    async with (
        settled(restarts=policy, recovery_wait_s=0.3) as host,
        client_of(host.port) as client,
    ):
        await kill(host, await client.pid())
        status, seen = await readyz(host)
        assert (status, seen["state"], seen["reason"]) == (503, "backoff", "waiting_to_restart")
        assert 0 < seen["retry_in_s"] <= 330 and "SIGKILL" in seen["last_exit"]
        for answer in await asyncio.gather(*[client.ask("x/any") for _ in range(5)]):
            assert answer["error"]["data"] == {"reason": "server_unavailable", "retryable": True}
        # A new session would wait in vain: it is told when to come back, and leaves nothing behind.
        async with McpClient(host.port) as late:
            refused = json.loads((await late.raw("POST", late.request("initialize", HELLO))).body)
            assert refused["error"]["data"]["reason"] == "waiting_to_restart"
        assert (await readyz(host))[1]["sessions"] == 1


async def test_a_call_that_waits_is_served_when_the_back_off_ends_in_time() -> None:
    policy = RestartPolicy(immediate=0, delays_s=(0.3,))
    async with settled(restarts=policy) as host, client_of(host.port) as client:
        pid = await client.pid()
        await kill(host, pid)
        assert (await readyz(host))[1]["state"] == "backoff"
        assert await client.pid() != pid
        assert (await readyz(host))[1]["restarts"] == 1


async def test_a_back_off_does_not_disturb_sessions_that_work() -> None:
    policy = RestartPolicy(immediate=0, delays_s=(300.0,))
    async with (
        settled(restarts=policy, recovery_wait_s=0.3) as host,
        client_of(host.port) as crashing,
        client_of(host.port) as working,
    ):
        await kill(host, await crashing.pid())
        assert (await crashing.ask("x/any"))["error"]["data"]["reason"] == "server_unavailable"
        assert await working.pid()
        status, seen = await readyz(host)
        assert (status, seen["state"]) == (200, "backoff"), "worth sending requests to, for those that work"


async def test_in_failed_calls_fail_fast_with_the_reason() -> None:
    policy = RestartPolicy(immediate=0, attempts=0)
    async with (
        settled(restarts=policy, recovery_wait_s=600.0) as host,
        client_of(host.port) as client,
        client_of(host.port) as other,
    ):
        await kill(host, await client.pid())
        seen = await in_state(host, "failed")
        assert seen["reason"] == "crash_loop" and 0 < seen["retry_in_s"] <= 60
        answer = await client.ask("x/any")
        assert answer["error"]["data"] == {"reason": "server_failed", "retryable": True}, answer
        assert "test" in answer["error"]["message"]
        refused = await client.raw("POST", client.request("initialize", HELLO), Mcp_Session_Id="")
        assert refused.status == 503 and 1 <= int(refused.headers["retry-after"]) <= 60
        assert json.loads(refused.body)["error"]["data"]["reason"] == "server_failed"
        assert await other.pid(), "whoever has a server that works keeps it"
        async with McpClient(host.port, path="/sse") as sse:
            assert (await sse.raw("GET")).status == 503


async def test_failed_is_tried_again_when_asked_and_recovers_without_a_human(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    server = tmp_path / "server.sh"
    server.write_text(f"#!/bin/sh\n[ -e {broken} ] && exit 3\nexec {' '.join(SCRIPTED)}\n")
    server.chmod(0o755)
    policy = RestartPolicy(immediate=0, attempts=0, failed_retry_s=0.3)
    async with settled((str(server),), restarts=policy) as host, client_of(host.port) as client:
        broken.touch()
        await kill(host, await client.pid())
        await in_state(host, "failed")
        # Nobody asks: nothing is tried, although the time has come.
        async with within():
            while (await readyz(host))[1]["retry_in_s"]:
                pass
        assert (await readyz(host))[1]["state"] == "failed"
        assert len(host.events("server_exited")) == 1
        # Many ask, all the time: one attempt for each span.
        async with within():
            while len(host.events("server_exited")) < 4:
                answers = await asyncio.gather(*[client.ask("x/any") for _ in range(5)])
                assert all("error" in answer for answer in answers)
        attempts = [r.created for r in host.events("state") if getattr(r, "reason", "") == "retrying"]
        assert all(after - before > 0.29 for before, after in pairwise(attempts)), attempts
        broken.unlink()
        async with within():
            while "error" in await client.ask("x/any"):
                pass
        assert (await in_state(host, "ready"))["restarts"] >= 4
        assert (await client.ask("x/pid"))["result"]


async def test_many_sessions_killed_at_once_are_one_incident() -> None:
    policy = RestartPolicy(immediate=1, delays_s=(300.0,), incident_s=60.0)
    async with settled(restarts=policy) as host:
        clients = [McpClient(host.port) for _ in range(12)]
        for client in clients:
            await client.initialize()
        pids = [await client.pid() for client in clients]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await host.logged("server_exited", 12)
        now = await asyncio.gather(*[client.pid() for client in clients])
        assert not set(now) & set(pids)
        assert (await readyz(host))[1]["state"] == "ready"
        for client in clients:
            await client.__aexit__()


async def test_a_program_that_vanishes_is_told_apart_from_one_that_crashes(tmp_path: Path) -> None:
    server = tmp_path / "server.sh"
    server.write_text(f"#!/bin/sh\nexec {' '.join(SCRIPTED)}\n")
    server.chmod(0o755)
    async with settled((str(server),)) as host, client_of(host.port) as client:
        pid = await client.pid()
        server.unlink()
        await kill(host, pid)
        seen = await in_state(host, "failed")
        assert seen["reason"] == "cannot_start" and str(server) in seen["cause"]
        answer = await client.ask("x/any")
        assert answer["error"]["data"]["reason"] == "cannot_start", answer
        assert str(server) in answer["error"]["message"]


async def test_a_program_that_the_system_refuses_is_failed_and_not_starting_for_ever() -> None:
    async with hosting((*SCRIPTED, "--state", "x" * 3_000_000)) as host:
        seen = await in_state(host, "failed")
        assert seen["reason"] == "cannot_start" and "starting the process" in seen["cause"]


async def test_a_probe_that_is_answered_with_nonsense_is_a_failure_in_words() -> None:
    strange = (
        sys.executable,
        "-c",
        "import sys\nfor line in sys.stdin:\n"
        ' print(\'hello\'); print(\'{"jsonrpc":"2.0","id":"mooring-probe","result":7}\', flush=True)',
    )
    async with hosting(strange) as host:
        seen = await in_state(host, "failed")
        assert seen["reason"] == "initialize_failed" and "InitializeResult" in seen["cause"]
