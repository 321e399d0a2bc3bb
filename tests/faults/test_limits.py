"""Bounds that have no other place: each is hit once, and something can still be done afterwards."""

import json
import os
import signal
import sys

import pytest

from mooring.runtimes.stopping import StopPatience
from tests.hosting import hosting
from tests.mcp_client import McpClient, client_of
from tests.support import within

STUBBORN = (
    sys.executable,
    "-c",
    r"""
import json, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        version = message.get("params", {}).get("protocolVersion")
        result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
while True:
    signal.pause()
""",
)
"""Does not end when its input does, nor when it is asked to."""


async def test_sessions_that_come_and_go_faster_than_their_processes_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.workloads.definition.LEAST_LEAVING", 3)
    patience = StopPatience(eof_grace_s=60, stop_grace_s=60)
    async with hosting(STUBBORN, max_sessions=1, spare=0, patience=patience, drain_timeout_s=0.2) as host:
        for _ in range(4):  # with the probe's: two in use, and three that leave
            async with client_of(host.port) as client:
                await client.raw("DELETE")
        async with McpClient(host.port) as late:
            body = late.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
            answer = await late.raw("POST", body)
            assert answer.status == 503 and answer.headers["retry-after"] == "1"
            error = json.loads(answer.body)["error"]
            assert error["data"] == {"reason": "too_many_processes", "retryable": True}
            assert "5 processes" in error["message"]
        async with McpClient(host.port, path="/readyz") as probe:
            leaving = json.loads((await probe.raw("GET")).body)["instances"]
        assert [each["use"] for each in leaving] == ["stopping"] * 5
        os.kill(leaving[0]["pid"], signal.SIGKILL)
        async with McpClient(host.port) as late, within():
            while (await late.raw("POST", body)).status == 503:
                pass
