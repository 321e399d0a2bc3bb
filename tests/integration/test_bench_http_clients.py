"""The comparison of HTTP clients: its worker measures, its server cuts where it should; its table."""

import asyncio
import json
import sys
from pathlib import Path

from bench.http_clients.__main__ import ROWS, WORKER, table
from tests.support import within


async def test_the_worker_measures_and_sees_every_reset(tmp_path: Path) -> None:
    ca_file = str(tmp_path / "ca.pem")
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.http_clients.server", ca_file, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        async with within(60):
            ports = (await server.stdout.readline()).decode()
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, str(WORKER), "mooring", ports, ca_file), stdout=asyncio.subprocess.PIPE
            )
            said, _ = await worker.communicate()
    finally:
        server.kill()
        await server.wait()
    found = json.loads(said)
    assert all(found[row.id] > 0 for row in ROWS if row.id != "memory")
    assert list(found["resets"].values()) == [
        "NoAnswer, sent 1×",
        "AnswerCut, sent 1×",
        "AnswerCut, sent 1×",
        "NoAnswer, sent 1×",
        "NoAnswer, sent 1×",
    ]


def test_the_best_of_all_rounds_counts() -> None:
    def found(number: float) -> dict[str, object]:
        return {**{row.id: number for row in ROWS}, "resets": {"here": "told"}}

    lines = table({"a": [found(1000), found(2000)], "b": [found(5)]}).splitlines()
    assert lines[0] == "| | a | b |"
    assert lines[2] == "| plain, 32 at once, calls/s | 2,000 | 5 |"
    assert lines[6] == "| a lone call, plain, p50, µs | 1,000 | 5 |"
    assert lines[-1] == "| a reset here | told | told |"
