"""Very many agents at one relay: all come back after its restart, each to its own name."""

import asyncio
import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.relay_peer.running import agent, helper
from mooring.cli.control_sockets import ask_socket
from mooring.relay.state_folder import make_state, tokens_path
from mooring.relay.token_file import TokenFile
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.relay.place import Command
from tests.http_client import Peer
from tests.support import free_port

pytestmark = LINUX_ONLY

HERD = 5_000
WITHIN_S = 300.0
"""For all of them to be there; how fast it is, `make bench` says."""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


async def agents_at(port: int) -> int:
    """How many the relay has; -1: it is not there."""
    try:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    except OSError:
        return -1
    try:
        answer = await peer.get("/healthz")
        return int(json.loads(answer.body)["agents"])
    except (OSError, EOFError):
        return -1
    finally:
        await peer.aclose()


@pytest.mark.slow
@pytest.mark.timeout(3 * WITHIN_S)
@pytest.mark.usefixtures("many_descriptors")
async def test_five_thousand_agents_come_back_after_a_restart(tmp_path: Path) -> None:
    state, port = tmp_path / "relay", free_port()
    make_state(state)
    wanted = [agent(f"agent-{number}") for number in range(HERD)]
    tokens = [created.text for created in TokenFile(tokens_path(state)).create(*wanted)]
    where = ("--state", str(state), "--insecure-listen", f"127.0.0.1:{port}")
    relay = Command("relay", *where, "--upgrades-per-second", "10000", environment=dict(os.environ))
    async with asyncio.timeout(2 * WITHIN_S), relay:
        await relay.logged("listening")
        with helper("crowd", "herd", str(port)) as crowd:
            crowd.tell(" ".join(tokens))
            await asyncio.to_thread(crowd.hear)
            assert await agents_at(port) == HERD
            await asyncio.to_thread(ask_socket, state / "relay.sock", "POST", "/restart")
            while await agents_at(port) == HERD:  # it has not gone yet
                await asyncio.sleep(0.05)
            while (there := await agents_at(port)) < HERD:
                await asyncio.sleep(0.05)
            assert there == HERD
        while (
            await agents_at(port) > 0
        ):  # they went without a word: each name is kept for its grace, then free
            await asyncio.sleep(0.2)
        assert relay.process.returncode is None
        assert await relay.end() == 0
