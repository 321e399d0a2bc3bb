"""A successor that is lost at any step before it has taken over: the daemon goes on as if nothing were."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.servers import replacing
from mooring.errors import MooringError, Unavailable, UserError
from mooring.host import daemon, handing_over, handover_words, taking_over
from mooring.host.daemon import DaemonOptions
from mooring.host.handover_words import HandoverFailed, NotNow, Ready, SessionGoes, Word, write_word
from mooring.host.places import Places
from mooring.host.stop import Stop
from mooring.host.taking_over import Inheritance, Predecessor, meeting
from mooring.http.listener import Listener
from mooring.store.store import Store
from mooring.wire.http import Exchange, Response
from mooring.workloads import session_keeper
from tests.integration.test_daemon import Life, living
from tests.mcp_client import McpClient, client_of
from tests.support import until, within


@pytest.fixture(autouse=True)
def _sessions_are_written_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "WRITE_S", 0.01)


class Served:
    """A daemon, one server, one client with a connection that it keeps."""

    def __init__(self, life: Life, client: McpClient, pid: int) -> None:
        self.life, self.client, self.pid = life, client, pid
        self.peer: Any = None

    async def is_as_ever(self) -> None:
        """The same session, process and connection; new sessions, changes of servers, and the API too."""
        await until(lambda: "handing over" not in {task.get_name() for task in asyncio.all_tasks()})
        async with within():
            self.peer.send(self.client.head("POST", self.client.request("x/pid")))
            assert str(self.pid).encode() in (await self.peer.answer()).body
            assert await self.client.pid() == self.pid
            async with client_of(self.client.port, path="/one/mcp") as other:
                assert await other.pid() != self.pid
            assert (await self.life.ask("GET", "/daemon"))["pid"] == os.getpid()
            await self.life.run("two")
            assert (await self.life.ask("DELETE", "/servers/two"))["changed"]
        assert not self.life.stop.requested


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with living(tmp_path) as life:
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            made = Served(life, client, await client.pid())
            made.peer = await client.peer()
            yield made


def closed(inheritance: Inheritance) -> None:
    """As the end of a process closes them."""
    with inheritance.held():
        os.close(inheritance.lock)


async def word_of(predecessor: Predecessor) -> Word | None:
    came = await predecessor.receive()
    return came[0] if came is not None else None


async def test_one_that_is_lost_before_it_is_ready(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        async with meeting(here.life.places) as predecessor:
            assert predecessor.pid == os.getpid()
        await here.is_as_ever()


async def test_one_that_is_lost_in_the_middle_of_the_offer(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        async with meeting(here.life.places) as predecessor:
            predecessor._say(Ready(handover_words.VERSION, "test"))
            came = await predecessor.receive()
            assert came is not None
            for number in came[1]:
                os.close(number)
        await here.is_as_ever()


async def test_one_that_is_lost_after_the_offer_and_before_it_takes(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        for _ in range(2):
            async with meeting(here.life.places) as predecessor:
                inheritance = await predecessor.inherit()
                words = [came.word for came in inheritance.arrivals]
                assert here.client.session in {w.session.id for w in words if isinstance(w, SessionGoes)}
                # Whatever comes now waits, and nobody is refused.
                here.peer.send(here.client.head("POST", here.client.request("x/pid")))
                late = asyncio.create_task(here.client.pid())
                await asyncio.sleep(0.1)
                assert not late.done()
                closed(inheritance)
            assert str(here.pid).encode() in (await here.peer.answer()).body
            assert await late == here.pid
            await here.is_as_ever()


async def test_one_that_claimed_the_state_and_was_lost_then(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        async with meeting(here.life.places) as predecessor:
            inheritance = await predecessor.inherit()
            store = Store(here.life.places.state, time.time)
            store.claim(1, "boot")
            store.close()
            closed(inheritance)
        await here.is_as_ever()


HANGING = """
import asyncio, sys
from pathlib import Path
from mooring.host.places import Places
from mooring.host.taking_over import meeting

async def hang():
    async with meeting(Places(Path(sys.argv[1]), 0)) as predecessor:
        await predecessor.inherit()
        print("offered", flush=True)
        await asyncio.sleep(3600)

asyncio.run(hang())
"""


async def test_one_that_says_nothing_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing_over, "TAKEN_S", 0.5)
    async with served(tmp_path) as here:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HANGING, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        async with within():
            out, _ = await process.communicate()
        assert out == b"offered\n" and process.returncode == -9
        await here.is_as_ever()


async def test_one_that_is_never_ready_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "READY_S", 0.1)
    async with served(tmp_path) as here, meeting(here.life.places) as predecessor:
        assert isinstance(await word_of(predecessor), NotNow)
        await here.is_as_ever()


async def test_a_server_that_is_being_changed_is_waited_for_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "SETTLE_S", 0.2)
    async with served(tmp_path) as here:
        peer = await here.client.send("POST", here.client.request("x/hold"))
        restarting = asyncio.create_task(here.life.ask("POST", "/servers/one/restart"))
        await asyncio.sleep(0.1)
        async with meeting(here.life.places) as predecessor:
            with pytest.raises(HandoverFailed, match="being started, stopped or changed"):
                await predecessor.inherit()
        await peer.aclose()
        await restarting


async def test_only_one_at_a_time_and_in_a_version_that_both_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as here:
        async with meeting(here.life.places):
            with pytest.raises(MooringError, match="already"):
                async with meeting(here.life.places):
                    raise AssertionError("unreachable")
        await here.is_as_ever()
        async with meeting(here.life.places) as predecessor:
            predecessor._say(Ready(99, "9.9"))
            assert isinstance(await word_of(predecessor), NotNow)
        await here.is_as_ever()
        monkeypatch.setattr(handing_over, "VERSION", 99)
        with pytest.raises(HandoverFailed, match="another way"):
            async with meeting(here.life.places):
                raise AssertionError("unreachable")
        await here.is_as_ever()


async def test_nonsense_is_no_word(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        async with meeting(here.life.places) as predecessor:
            predecessor._post.send(b"nonsense")
            assert isinstance(await word_of(predecessor), NotNow)
            assert await word_of(predecessor) is None
        await here.is_as_ever()
        async with meeting(here.life.places) as predecessor:
            inheritance = await predecessor.inherit()
            predecessor._post.send(write_word(Ready(1, "")))
            await until(lambda: predecessor._post.is_over)
            closed(inheritance)
        await here.is_as_ever()


async def test_refusals_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as here:
        monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))
        with pytest.raises(MooringError, match="systemd") as refusal:
            async with meeting(here.life.places):
                raise AssertionError("unreachable")
        assert "systemctl" in refusal.value.hint
        monkeypatch.delenv("SYSTEMD_EXEC_PID")
        with monkeypatch.context() as patch:
            patch.setattr("mooring.host.successors.sys.platform", "darwin")
            with pytest.raises(MooringError, match="pidfd") as refusal:
                async with meeting(here.life.places):
                    raise AssertionError("unreachable")
        assert "mooring daemon stop" in refusal.value.hint
        with pytest.raises(MooringError, match="nobody waits"):
            await here.life.ask("POST", "/daemon/handover")
        await here.is_as_ever()


async def test_without_a_daemon_there_is_nothing_to_take_over(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        places = here.life.places
    with pytest.raises(HandoverFailed, match="no daemon"):
        async with meeting(places):
            raise AssertionError("unreachable")
    assert not places.handover.exists()


async def test_an_old_one_that_does_not_call_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def promise(exchange: Exchange) -> None:
        exchange.respond(Response(200, b'{"changed":true}'))

    monkeypatch.setattr(taking_over, "CALL_S", 0.1)
    places = Places(tmp_path, 0)
    listener = Listener(promise)
    await listener.listen_unix(places.socket)
    try:
        with pytest.raises(HandoverFailed, match="does not"):
            async with meeting(places):
                raise AssertionError("unreachable")
    finally:
        await listener.aclose()


async def test_a_daemon_of_an_older_version_says_what_to_do(tmp_path: Path) -> None:
    def unknown(exchange: Exchange) -> None:
        exchange.respond(Response(404, b'{"error":{"code":"not_found","message":"nothing here","hint":""}}'))

    places = Places(tmp_path, 0)
    listener = Listener(unknown)
    await listener.listen_unix(places.socket)
    try:
        with pytest.raises(HandoverFailed, match="cannot hand over") as refusal:
            async with meeting(places):
                raise AssertionError("unreachable")
        assert "mooring daemon stop" in refusal.value.hint
    finally:
        await listener.aclose()


async def test_an_offer_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_over, "OFFER_S", 0.1)
    async with served(tmp_path) as here:
        peer = await here.client.send("POST", here.client.request("x/hold"))
        restarting = asyncio.create_task(here.life.ask("POST", "/servers/one/restart"))
        await asyncio.sleep(0.1)
        async with meeting(here.life.places) as predecessor:
            with pytest.raises(HandoverFailed, match="in time"):
                await predecessor.inherit()
        await peer.aclose()
        await restarting


async def test_one_that_is_told_to_end_while_it_waits_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        peer = await here.client.send("POST", here.client.request("x/hold"))
        restarting = asyncio.create_task(here.life.ask("POST", "/servers/one/restart"))
        await asyncio.sleep(0.1)
        stop = Stop(time.monotonic)
        options = DaemonOptions(places=here.life.places, take_over=True)
        successor = asyncio.create_task(daemon.run(options, stop))
        await asyncio.sleep(0.2)
        assert not successor.done(), "it waits until nothing is being changed"
        stop.request("SIGTERM")
        async with within():
            assert await successor == 0
        await until(lambda: "handing over" not in {task.get_name() for task in asyncio.all_tasks()})
        await peer.aclose()
        await restarting


async def test_one_that_cannot_read_the_state_leaves_it_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        with sqlite3.connect(here.life.places.state / "state.db") as state:
            [version] = state.execute("PRAGMA user_version").fetchone()
            state.execute("PRAGMA user_version = 999")
        state.close()
        with pytest.raises(UserError, match="newer"):
            await daemon.run(DaemonOptions(places=here.life.places, take_over=True), Stop(time.monotonic))
        with sqlite3.connect(here.life.places.state / "state.db") as state:
            state.execute(f"PRAGMA user_version = {version}")
        state.close()
        await here.is_as_ever()


async def test_the_command_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping = subprocess.Popen(["sleep", "3600"])
    monkeypatch.setattr(replacing, "TAKE_OVER_S", 0.1)
    monkeypatch.setattr(replacing, "launch", lambda *words: (sleeping, 0))
    async with served(tmp_path) as here:
        monkeypatch.setenv("MOORING_STATE_DIR", str(tmp_path))
        with pytest.raises(Unavailable, match="does not answer"):
            await asyncio.to_thread(replacing.restart_daemon)
        assert sleeping.wait(10) == -15
        await here.is_as_ever()
