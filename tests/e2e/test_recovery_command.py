"""The daemon is killed; what its successor makes of that. Real processes, as a user has them."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.store.store import Store
from tests.e2e.program import carrying
from tests.e2e.test_daemon_command import Home, home
from tests.faults.runtime_bench import NAUGHTY
from tests.hosting import SCRIPTED
from tests.support import alive, children, suspend, until

STUBBORN = (sys.executable, "-I", "-S", str(NAUGHTY), "ignore-term", "linger")
HASTY = ("--eof-grace", "100ms", "--stop-grace", "200ms")


def servers(place: Home) -> set[int]:
    """Every process that this home's Mooring started as a server, and that runs."""
    return {pid for pid in carrying(place.mark) if b"MOORING_INSTANCE=" in _environment(pid)}


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def guardian_of(daemon: int) -> int:
    [found] = [
        pid for pid in children(daemon) if b"guardian_main.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


async def kill_both(daemon: int) -> None:
    """The daemon and its guardian, so that neither sees the other one's end."""
    both = (guardian_of(daemon), daemon)
    for pid in both:
        await suspend(pid)
    for pid in both:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not any(map(alive, both)))


@contextmanager
def reading(place: Home) -> Iterator[Store]:
    store = Store(place.state, time.time)
    try:
        yield store
    finally:
        store.close()


def history(place: Home, name: str) -> list[str]:
    with reading(place) as store:
        return [event.kind for event in store.events(name)]


def written_sessions(place: Home, name: str = "one") -> list[str]:
    with reading(place) as store:
        return [session.id for session in store.sessions(name)]


async def test_killed_with_its_guardian_the_next_start_ends_what_was_left_and_nobody_elses(
    tmp_path: Path,
) -> None:
    async with home(tmp_path / "a") as ours, home(tmp_path / "b") as others:
        for place in (ours, others):
            await place.done("run", "stub", "--no-wait", *HASTY, "--", *STUBBORN)
            await until(lambda place=place: len(servers(place)) == 1)  # type: ignore[misc]
        [left], [innocent] = servers(ours), servers(others)
        before = await ours.told("status", "stub")
        await kill_both(before["pid"])
        assert alive(left)
        await ours.done("run", "stub", "--no-wait", *HASTY, "--", *STUBBORN)
        assert not alive(left), "before anything of the same name is started"
        await until(lambda: len(servers(ours)) == 1)
        after = await ours.told("status", "stub")
        assert after["generation"] > before["generation"] and after["pid"] != before["pid"]
        assert servers(others) == {innocent}
        words = await ours.done("logs", "stub")
        assert f"ended what a killed Mooring had left: pid {left}" in words
        assert "leftover_ended" in history(ours, "stub")
        assert f"pid {before['pid']}) was killed" in (ours.state / "daemon.log").read_text()


async def test_killed_while_a_server_was_starting(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = tmp_path / "server.sh"
    server.write_text(f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.02; done\nexec {' '.join(SCRIPTED)}\n")
    server.chmod(0o755)
    async with home(tmp_path) as place:
        for name in ("slow", "unwanted"):
            await place.done("run", name, "--no-wait", "--", str(server))
            await until(lambda: servers(place))
        daemon = (await place.told("status", "slow"))["pid"]
        assert {one["state"] for one in await place.told("ls")} == {"starting"}
        os.kill(daemon, signal.SIGKILL)
        gate.touch()
        assert (await place.done("run", "slow", "--", str(server))).startswith("http")
        assert (await place.told("status", "slow"))["state"] == "ready"
        await place.done("stop", "unwanted")
        assert (await place.told("status", "unwanted"))["state"] == "stopped"
        await until(lambda: not servers(place))
