"""`mooring daemon restart`, as a user has it: real daemons, real clients, nothing lost."""

import asyncio
import json
import os
import random
import shutil
import signal
import venv
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import pytest

import mooring
from tests.e2e.program import carrying
from tests.e2e.test_daemon_command import Home, home
from tests.hosting import SCRIPTED
from tests.http_client import Answer
from tests.ledger import Caller, Ledger
from tests.mcp_client import McpClient, client_of
from tests.support import alive, until, within


async def port_of(place: Home) -> int:
    return int((await place.told("daemon", "status"))["port"])


async def pid_of(place: Home) -> int:
    return int((await place.told("daemon", "status"))["pid"])


async def restart(place: Home) -> tuple[int, int]:
    """The pids of the old and the new daemon; the old one may still finish what it has."""
    old = await pid_of(place)
    assert "was restarted" in await place.done("daemon", "restart")
    new = await pid_of(place)
    assert new != old
    return old, new


def has_ended(pid: int) -> bool:
    return not alive(pid)


async def test_a_session_goes_on_with_the_same_process_and_connection(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *SCRIPTED)
        before = await place.told("daemon", "status")
        async with client_of(before["port"], path="/demo/mcp") as client:
            pid, caller = await client.pid(), await Caller.of(client)
            for _ in range(2):
                caller.send("x/pid")
                assert (await caller.answer())["pid"] == pid
                old, _ = await restart(place)
                caller.send("x/pid")
                assert (await caller.answer())["pid"] == pid
                await until(partial(has_ended, old))
        assert await port_of(place) == before["port"]
        [server] = await place.told("ls")
        assert (server["state"], server["generation"], server["restarts"]) == ("ready", 1, 0)
        assert server["calls_total"] > 4
        told = (await place.done("events", "--json")).splitlines()
        kinds = [json.loads(line)["kind"] for line in told]
        assert kinds.count("daemon_took_over") == 2 and "daemon_ended" not in kinds
        assert "stopped" not in kinds, "nothing has happened to the server"


@pytest.mark.parametrize("restarts", [2, pytest.param(20, marks=pytest.mark.slow)])
async def test_under_load_no_call_fails_and_none_is_executed_twice(tmp_path: Path, restarts: int) -> None:
    """200 calls a second: on connections that are kept and on new ones, some slow, some side by side in one
    session, and sessions that come and go."""
    ledger, over = Ledger(tmp_path / "ledger"), asyncio.Event()
    async with home(tmp_path) as place:
        await place.done("run", "ledger", "--", *ledger.command)
        port = await port_of(place)
        made: list[str] = []

        async def call_all_the_time(n: int, client: McpClient, pids: set[int]) -> None:
            caller = await Caller.of(client)
            for k in count():
                if over.is_set():
                    return
                mark, delay_s = f"{n}-{k}", 0.2 if k % 10 == n % 10 else 0.0
                made.append(mark)
                if k % 5 == 4:
                    answer = await client.result("x/mark", {"mark": mark, "delay_s": delay_s})
                else:
                    answer = await caller.mark(mark, delay_s)
                assert answer["mark"] == mark
                pids.add(answer["pid"])
                await asyncio.sleep(0.05)

        async def keep_a_session(n: int) -> None:
            pids: set[int] = set()
            async with client_of(port, path="/ledger/mcp") as client:
                beside = [call_all_the_time(10 * m + n, client, pids) for m in range(2 if n < 4 else 1)]
                await asyncio.gather(*beside)
            assert len(pids) == 1, "it has had one process all the time"

        async def come_and_go() -> None:
            for k in count():
                if over.is_set():
                    return
                async with client_of(port, path="/ledger/mcp") as client:
                    made.append(f"new-{k}")
                    assert (await client.result("x/mark", {"mark": f"new-{k}"}))["mark"] == f"new-{k}"
                    assert (await client.raw("DELETE")).status == 204

        callers = [asyncio.create_task(work) for work in (come_and_go(), *map(keep_a_session, range(10)))]
        try:
            async with within(60 + 20 * restarts):
                for _ in range(restarts):
                    await restart(place)
                    await asyncio.sleep(0.3)
                    for caller in callers:
                        assert not caller.done(), caller.result()
                over.set()
                await asyncio.gather(*callers)
        finally:
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
        assert len(made) > 100 and ledger.marks() == Counter(made)
        daemon = await pid_of(place)
        await until(lambda: len(daemons(place)) == 1)
        assert daemons(place) == {daemon}


def daemons(place: Home) -> set[int]:
    found = set()
    for pid in carrying(place.mark):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"serve" in command:
            found.add(pid)
    return found


async def test_the_old_one_killed_while_it_still_has_a_call(tmp_path: Path) -> None:
    """What it still had comes back as after a kill; what had moved does not notice."""
    ledger = Ledger(tmp_path / "ledger")
    async with home(tmp_path) as place:
        await place.done("run", "ledger", "--", *ledger.command)
        port = await port_of(place)
        async with client_of(port, path="/ledger/mcp") as busy, client_of(port, path="/ledger/mcp") as other:
            slow, quick = await Caller.of(busy), await Caller.of(other)
            pids = [(await caller.mark(f"first-{n}"))["pid"] for n, caller in enumerate((slow, quick))]
            slow.send("x/mark", mark="slow", delay_s=60.0)
            await until(lambda: ledger.marks()["slow"])
            old, new = await restart(place)
            held = asyncio.create_task(busy.raw("POST", busy.request("x/mark", {"mark": "held"})))
            await asyncio.sleep(0.2)
            os.kill(old, signal.SIGKILL)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await slow.answer()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await held
            assert (await busy.result("x/mark", {"mark": "again"}))["pid"] not in (pids[0], None)
            assert (await quick.mark("quick"))["pid"] == pids[1]
            await until(lambda: not alive(pids[0]))
            assert await pid_of(place) == new
            assert ledger.marks()["held"] == 0 and ledger.marks()["slow"] == 1
            await restart(place)
            assert (await quick.mark("quicker"))["pid"] == pids[1]


@pytest.mark.slow
async def test_both_killed_leave_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with home(tmp_path) as place:
        await place.done("run", "ledger", "--", *ledger.command)
        port = await port_of(place)
        place.environment["MOORING_PORT"] = str(port)
        async with client_of(port, path="/ledger/mcp") as busy, client_of(port, path="/ledger/mcp") as other:
            pid = (await other.result("x/mark", {"mark": "first"}))["pid"]
            slow = await Caller.of(busy)
            slow.send("x/mark", mark="slow", delay_s=60.0)
            await until(lambda: ledger.marks()["slow"])
            old, new = await restart(place)
            for daemon in (new, old):
                os.kill(daemon, signal.SIGKILL)
            await until(lambda: not carrying(place.mark) and not alive(pid))
            await place.done("start", "--all")
            assert (await other.result("x/mark", {"mark": "second"}))["pid"] != pid, "the session is there"


@pytest.mark.slow
async def test_the_new_one_killed_right_after(tmp_path: Path) -> None:
    """The old one does not go on as a second daemon: it finishes its call, and ends."""
    ledger = Ledger(tmp_path / "ledger")
    async with home(tmp_path) as place:
        await place.done("run", "ledger", "--", *ledger.command)
        async with client_of(await port_of(place), path="/ledger/mcp") as client:
            slow = await Caller.of(client)
            slow.send("x/mark", mark="slow", delay_s=2.5)
            await until(lambda: ledger.marks()["slow"])
            old, new = await restart(place)
            os.kill(new, signal.SIGKILL)
            assert (await slow.answer())["mark"] == "slow"
            await until(lambda: not carrying(place.mark) and not alive(old))


BROKEN = "import sys\nif '--take-over' in sys.orig_argv:\n    sys.modules['msgspec'] = None\n"


async def test_a_new_one_that_cannot_start_changes_nothing(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "one", "--", *SCRIPTED)
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "sitecustomize.py").write_text(BROKEN)
        old = await pid_of(place)
        async with client_of(await port_of(place), path="/one/mcp") as client:
            pid = await client.pid()
            place.environment["PYTHONPATH"] = str(tmp_path / "broken")
            status, out, err = await place.mooring("daemon", "restart")
            assert status == 1 and not out
            assert "not restarted" in err and f"pid {old}" in err and "msgspec" in err
            del place.environment["PYTHONPATH"]
            assert await client.pid() == pid and await pid_of(place) == old
            await restart(place)
            assert await client.pid() == pid


async def test_a_daemon_that_does_not_run_is_started(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        assert "did not run" in await place.done("daemon", "restart")
        assert await pid_of(place)


def installed(directory: Path, version: str) -> Path:
    """A second installation, of another version, in a venv of its own; returns its `python`."""
    venv.create(directory, with_pip=False, symlinks=True)
    [packages] = directory.glob("lib/python*/site-packages")
    source = Path(mooring.__file__).parent
    shutil.copytree(source, packages / "mooring", ignore=shutil.ignore_patterns("__pycache__"))
    about = packages / "mooring" / "__init__.py"
    about.write_text(about.read_text().replace(mooring.__version__, version))
    # What it needs beside itself is had from here.
    (packages / "others.pth").write_text(str(Path(msgspec.__file__).parents[1]) + "\n")
    return directory / "bin" / "python"


async def test_after_an_upgrade_the_other_version_takes_over(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "one", "--", *SCRIPTED)
        python = installed(tmp_path / "other", "99.0.0")
        async with client_of(await port_of(place), path="/one/mcp") as client:
            pid = await client.pid()
            process = await asyncio.create_subprocess_exec(
                python,
                "-m",
                "mooring",
                "daemon",
                "restart",
                env=place.environment,
                stdout=asyncio.subprocess.PIPE,
            )
            async with within(60):
                out, _ = await process.communicate()
            assert process.returncode == 0 and b"version 99.0.0" in out
            assert (await place.told("daemon", "status"))["version"] == "99.0.0"
            assert await client.pid() == pid
            await restart(place)
            assert (await place.told("daemon", "status"))["version"] == mooring.__version__
            assert await client.pid() == pid


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["old", "new"])
async def test_either_one_killed_at_any_moment(tmp_path: Path, victim: str) -> None:
    """There is a daemon afterwards, or the next command brings one; the session is there, nothing is left."""
    ledger, dice = Ledger(tmp_path / "ledger"), random.Random(victim)
    async with home(tmp_path) as place:
        await place.done("run", "ledger", "--", *ledger.command)
        port = await port_of(place)
        place.environment["MOORING_PORT"] = str(port)
        async with client_of(port, path="/ledger/mcp") as client:
            await client.result("x/mark", {"mark": "first"})
            await asyncio.sleep(1.5)  # what a session needs is written within a second
            for n in range(20):
                before = daemons(place)
                slow = await client.send(
                    "POST", client.request("x/mark", {"mark": f"slow-{n}", "delay_s": 0.5})
                )
                restarting = asyncio.create_task(place.mooring("daemon", "restart"))
                if victim == "new":
                    await until(partial(other_than, place, before))
                await asyncio.sleep(dice.random() * 2.0)
                targets = before if victim == "old" else daemons(place) - before
                for pid in targets:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await restarting
                await slow.aclose()
                await place.done("start", "--all")
                async with within():
                    while (await answer_of(client, f"mark-{n}")).status != 200:
                        await asyncio.sleep(0.1)
                await until(lambda: len(daemons(place)) == 1)
                [server] = await place.told("ls")
                assert server["sessions"] == 1, n
                # One daemon, one guardian, one server and at most its spare: whatever else was, has ended.
                await until(lambda: len(carrying(place.mark)) <= 4)
            assert max(ledger.marks().values()) == 1


def other_than(place: Home, before: set[int]) -> bool:
    return bool(daemons(place) - before)


async def answer_of(client: McpClient, mark: str) -> Answer:
    """Of a call that is sent once; a connection that ends with its daemon is no answer."""
    try:
        return await client.raw("POST", client.request("x/mark", {"mark": f"{mark}-{next(MARKS)}"}))
    except (OSError, asyncio.IncompleteReadError):
        return Answer(0, {}, b"")


MARKS = count()
