"""One instance is spoken to at start; a spare exists only while the workload is in use."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from mooring.supervise.restart import RestartPolicy
from mooring.workloads.workload import MOST_SPARES_LOST
from tests.hosting import SCRIPTED, Host, hosting
from tests.mcp_client import Json, McpClient, client_of
from tests.support import alive, within


async def seen(host: Host, condition: Callable[[Json], object] = lambda page: True) -> Json:
    """`/readyz`, once it says what is wanted."""
    async with McpClient(host.port, path="/readyz") as probe, within():
        while not condition(page := json.loads((await probe.raw("GET")).body)):
            pass
    return page  # type: ignore[no-any-return]


def pids(page: Json, use: str) -> list[int]:
    return [one["pid"] for one in page["instances"] if one["use"] == use]


async def spare_of(host: Host) -> int:
    page = await seen(host, lambda page: pids(page, "spare"))
    [pid] = pids(page, "spare")
    return pid


async def lose_spare(host: Host) -> None:
    spare = await spare_of(host)
    os.kill(spare, signal.SIGKILL)
    await seen(host, lambda page: spare not in pids(page, "spare"))


def starts(path: Path) -> int:
    return len(path.read_bytes()) if path.exists() else 0


async def test_at_start_one_instance_is_spoken_to_and_let_go(tmp_path: Path) -> None:
    state = tmp_path / "starts"
    async with hosting((*SCRIPTED, "--state", str(state))) as host:
        page = await seen(host, lambda page: page["state"] == "ready" and not page["instances"])
        assert page["reason"] == "idle" and page["sessions"] == 0
        assert starts(state) == 1


async def test_it_is_ready_only_when_an_instance_has_answered(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = tmp_path / "server.sh"
    server.write_text(f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.02; done\nexec {' '.join(SCRIPTED)}\n")
    server.chmod(0o755)
    async with hosting((str(server),)) as host:
        page = await seen(host, lambda page: page["instances"])
        assert (page["state"], page["reason"]) == ("starting", "first_start")
        async with McpClient(host.port, path="/readyz") as probe:
            assert (await probe.raw("GET")).status == 503
            probe.path = "/livez"
            assert (await probe.raw("GET")).status == 200
        gate.touch()
        assert (await seen(host, lambda page: page["state"] == "ready"))["reason"] in ("working", "idle")


async def test_a_new_session_takes_the_spare_and_leaves_a_new_one() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as first:
        spare = await spare_of(host)
        assert spare != await first.pid()
        async with client_of(host.port) as second:
            assert await second.pid() == spare
            assert await spare_of(host) != spare
            page = await seen(host)
            assert set(pids(page, "serving")) == {await first.pid(), spare}


async def test_a_session_that_lost_its_server_takes_the_spare() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        spare = await spare_of(host)
        os.kill(await client.pid(), signal.SIGKILL)
        await host.logged("server_exited")
        assert await client.pid() == spare


async def test_the_spare_goes_with_the_last_session() -> None:
    async with hosting(SCRIPTED) as host:
        async with client_of(host.port) as first, client_of(host.port) as second:
            spare = await spare_of(host)
            await first.raw("DELETE")
            assert alive(await spare_of(host))
            await second.raw("DELETE")
        await seen(host, lambda page: not page["instances"])
        assert not alive(spare)


async def test_the_spare_goes_with_a_session_that_had_no_server() -> None:
    """The server has failed, so nobody else will look after what was kept for the session."""
    never_again = RestartPolicy(immediate=0, attempts=0)
    async with hosting(SCRIPTED, idle_timeout_s=None, restarts=never_again) as host:
        async with client_of(host.port) as client:
            await spare_of(host)
            # (The one that Mooring itself spoke to would show that the server works after all.)
            await seen(host, lambda page: len(page["instances"]) == 2)
            os.kill(await client.pid(), signal.SIGKILL)
            await seen(host, lambda page: page["state"] == "failed")
            await client.raw("DELETE")
        await seen(host, lambda page: not page["instances"])


async def test_the_spare_goes_when_the_last_session_falls_asleep() -> None:
    async with hosting(SCRIPTED, idle_timeout_s=0.3) as host, client_of(host.port):
        page = await seen(host, lambda page: page["state"] == "ready" and not page["instances"])
        assert page["sessions"] == 1


async def test_without_spares_there_is_never_one(tmp_path: Path) -> None:
    state = tmp_path / "starts"
    async with hosting((*SCRIPTED, "--state", str(state)), spare=0) as host:
        await seen(host, lambda page: page["state"] == "ready")
        async with client_of(host.port) as first, client_of(host.port) as second:
            assert await first.pid() != await second.pid()
            assert not pids(await seen(host), "spare")
        assert starts(state) == 3
        uses = {one["use"] for one in (await seen(host))["instances"]}
        assert "spare" not in uses


async def test_a_spare_that_dies_is_not_replaced_in_a_loop(tmp_path: Path) -> None:
    state = tmp_path / "starts"
    async with hosting((*SCRIPTED, "--state", str(state))) as host, client_of(host.port) as client:
        # Only then is our own first instance gone, which would bring a spare too.
        await seen(host, lambda page: sorted(one["use"] for one in page["instances"]) == ["serving", "spare"])
        os.kill(await spare_of(host), signal.SIGKILL)
        await seen(host, lambda page: not pids(page, "spare"))
        for _ in range(20):
            assert await client.pid(), "the session is not disturbed"
        assert not pids(await seen(host), "spare")
        async with client_of(host.port) as second:  # use brings one again
            assert await second.pid()
            assert await spare_of(host)
        assert (await seen(host))["state"] == "ready"


async def test_spares_that_are_of_use_are_made_for_ever() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port):
        for _ in range(MOST_SPARES_LOST + 1):  # over a long life so many accidents happen
            await lose_spare(host)
            async with client_of(host.port):  # brings a spare
                spare = await spare_of(host)
                async with client_of(host.port) as taker:
                    assert await taker.pid() == spare
                    assert await spare_of(host) != spare
