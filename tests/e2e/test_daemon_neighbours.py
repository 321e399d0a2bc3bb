"""Servers that are slow, broken or loud cost only themselves: their neighbours and the commands go on."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.e2e.test_daemon_command import Home, home
from tests.hosting import DEMO
from tests.mcp_client import client_of
from tests.support import alive, until, within

SLEEPY = (sys.executable, "-c", "import time; time.sleep(600)")
LOUD = ("sh", "-c", "while :; do echo the sky is falling >&2; done")
SLOW = [f"slow-{n}" for n in range(10)]
BROKEN = [f"broken-{n}" for n in range(3)]


async def seen(place: Home) -> dict[str, Any]:
    return {server["name"]: server for server in await place.told("ls")}


async def check_neighbours(place: Home, port: int) -> None:
    """The good one serves while none of the others has got anywhere."""
    async with client_of(port, path="/good/mcp") as client:
        for n in range(20):
            assert await client.text("echo", text=f"{n}") == f"{n}"
        servers = await seen(place)
        assert servers["good"]["state"] == "ready" and servers["good"]["sessions"] >= 1
        assert {servers[name]["state"] for name in (*SLOW, "loud")} == {"starting"}
        async with within():
            while not all(servers[name]["restarts"] for name in BROKEN):
                servers = await seen(place)
        # Whatever the others did meanwhile: nobody's call was held up by it.
        assert await client.text("echo", text="still here") == "still here"


async def test_one_bad_server_does_not_delay_the_others(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        for name in SLOW:
            await place.done("run", name, "--no-wait", "--eof-grace", "0", "--", *SLEEPY)
        for name in BROKEN:
            await place.done("run", name, "--no-wait", "--", "false")
        await place.done("run", "loud", "--no-wait", "--eof-grace", "0", "--", *LOUD)
        await place.done("run", "good", "--", *DEMO)
        about = await place.told("daemon", "status")
        place.environment["MOORING_PORT"] = str(about["port"])
        await check_neighbours(place, about["port"])
        assert "the sky is falling" in await place.done("logs", "loud")

        os.kill(about["pid"], signal.SIGKILL)
        await until(lambda: not alive(about["pid"]))
        await asyncio.gather(*(place.done("run", "good", "--", *DEMO) for _ in range(2)))
        await check_neighbours(place, about["port"])
