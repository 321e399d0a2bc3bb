"""A daemon that sleeps while another takes over, and wakes: what it was about to write changes nothing."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mooring.host.ownership import holder
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.e2e.test_recovery_command import HASTY, STUBBORN, kill_both, servers, written_sessions
from tests.hosting import SCRIPTED
from tests.mcp_client import McpClient, client_of
from tests.support import until, within

FROZEN = Path(__file__).parents[1] / "faults" / "frozen_daemon.py"
ONE = ("run", "one", "--", *SCRIPTED)


class Late(NamedTuple):
    """One write of a daemon, and what makes it come."""

    write: str
    cause: Callable[[Home, McpClient], Awaitable[Any]]
    is_slow: bool = True


async def _end(place: Home, _client: McpClient) -> None:
    await place.mooring("daemon", "stop")


async def _open_session(_place: Home, client: McpClient) -> None:
    async with client_of(client.port, path=client.path):
        pass


LATE = (
    Late("add", lambda place, _: place.mooring("run", "other", "--no-wait", "--", *SCRIPTED)),
    Late("begin", lambda place, _: place.mooring("restart", "one")),
    Late("want", lambda place, _: place.mooring("stop", "one"), is_slow=False),
    Late("remove", lambda place, _: place.mooring("rm", "one")),
    Late("keep_sessions", _open_session, is_slow=False),
    Late("keep_sessions", lambda _, client: client.raw("DELETE")),
    Late("release", _end),
)


@asynccontextmanager
async def serving(place: Home, *command: str) -> AsyncIterator[Process]:
    """A daemon in the foreground; gone at the end, whatever state it is in."""
    process = await asyncio.create_subprocess_exec(
        *command, env=place.environment, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        await process.communicate()


async def answers(place: Home, pid: int) -> None:
    """Wait until that daemon is the one whom commands reach; it has the socket before it says so."""
    await until(lambda: holder(place.state / "daemon.lock").get("pid") == pid, 60)
    assert (await place.told("daemon", "status"))["pid"] == pid


async def stopped(pid: int) -> None:
    stat = Path(f"/proc/{pid}/stat")
    await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")


@pytest.mark.parametrize(
    "late",
    [pytest.param(late, marks=pytest.mark.slow) if late.is_slow else late for late in LATE],
    ids=[f"{late.write}-{n}" for n, late in enumerate(LATE)],
)
async def test_one_who_slept_while_another_took_over_changes_nothing(tmp_path: Path, late: Late) -> None:
    asleep = tmp_path / "freeze"
    async with home(tmp_path) as place:
        place.state.mkdir(mode=0o700)
        async with serving(place, sys.executable, str(FROZEN), late.write, str(asleep)) as old:
            await answers(place, old.pid)
            await place.done(*ONE)
            port = (await place.told("daemon", "status"))["port"]
            async with client_of(port, path="/one/mcp") as client:
                known = client.session
                await until(lambda: known in written_sessions(place))
                asleep.touch()
                causing = asyncio.ensure_future(late.cause(place, client))
                await stopped(old.pid)
                await take_over(place, old, known)
            await asyncio.gather(causing, return_exceptions=True)


async def take_over(place: Home, old: Process, known: str) -> None:
    """While `old` sleeps; then wake it, and see that the new one is what it was."""
    status, _, err = await place.mooring("serve")
    assert status == 1 and str(old.pid) in err, "it holds the lock, asleep or not"
    # The lock is the system's and goes with its process. Only somebody who deletes it can end it before.
    (place.state / "daemon.lock").unlink()
    async with serving(place, MOORING, "serve") as new:
        await answers(place, new.pid)
        port = (await place.told("daemon", "status"))["port"]
        async with McpClient(port, path="/one/mcp") as client:
            client.session = known
            async with within():
                while (await client.raw("POST", client.request("x/any"))).status != 200:
                    await asyncio.sleep(0.05)
        await place.done("rm", "one")
        await place.done(*ONE)
        before = await place.told("status", "one")
        old.send_signal(signal.SIGCONT)
        async with within(60):
            await old.communicate()
        assert old.returncode in (0, 3), "it has seen that it is no longer the owner, and ended"
        after = await place.told("status", "one")
        same = ("name", "state", "generation", "pid", "started_at", "url", "restarts")
        assert [after[key] for key in same] == [before[key] for key in same]
        assert [one["name"] for one in await place.told("ls")] == ["one"]
        async with client_of(port, path="/one/mcp") as client:
            assert await client.pid() in servers(place)
        await place.done("daemon", "stop")
        async with within(60):
            assert await new.wait() == 0


@pytest.mark.slow
async def test_one_who_slept_before_it_told_what_it_found(tmp_path: Path) -> None:
    asleep = tmp_path / "freeze"
    async with home(tmp_path) as place:
        await place.done("run", "one", "--no-wait", *HASTY, "--", *STUBBORN)
        await until(lambda: servers(place))
        await kill_both((await place.told("daemon", "status"))["pid"])
        asleep.touch()
        async with serving(place, sys.executable, str(FROZEN), "tell", str(asleep)) as old:
            await stopped(old.pid)
            (place.state / "daemon.lock").unlink()
            async with serving(place, MOORING, "serve") as new:
                await answers(place, new.pid)
                before = await place.told("status", "one")
                old.send_signal(signal.SIGCONT)
                async with within(60):
                    await old.communicate()
                assert old.returncode == 0
                assert (await place.told("status", "one"))["generation"] == before["generation"]
                await place.done("daemon", "stop")
                async with within(60):
                    assert await new.wait() == 0


@pytest.mark.slow
async def test_removed_and_run_again_with_a_stream_held_open(tmp_path: Path) -> None:
    """The reported case, step by step: 35 s later the status is still the new one's."""
    async with home(tmp_path) as place:
        await place.done(*ONE)
        old = await place.told("status", "one")
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            await client.stream()
            held = await client.send("POST", client.request("x/hold"))
            async with within():
                while not (await place.told("status", "one"))["calls"]:
                    await asyncio.sleep(0.05)
            removing = asyncio.ensure_future(place.done("rm", "one"))
            async with within():
                while await place.told("ls"):
                    await asyncio.sleep(0.05)
            assert not removing.done(), "the old one still drains"
            await place.done(*ONE)
            new = await place.told("status", "one")
            assert new["generation"] > old["generation"]
            async with client_of(port, path="/one/mcp") as another:
                pid = await another.pid()
                await asyncio.sleep(35)
                assert removing.done() and b"shutting_down" in (await held.answer()).body
                now = await place.told("status", "one")
                same = ("state", "generation", "pid", "started_at", "restarts", "url")
                assert [now[key] for key in same] == [new[key] for key in same]
                assert await another.pid() == pid and pid in [one["pid"] for one in now["instances"]]
            assert "one is removed" in await removing
