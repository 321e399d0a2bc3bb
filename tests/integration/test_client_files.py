"""The files of AI clients and the daemon around them: nobody waits for them, no two daemons write them."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.clients.entries import Target
from mooring.clients.keeper import Keeper, Told
from mooring.clients.machine import Machine, Platform
from mooring.clients.registry import Registry
from mooring.errors import MooringError
from mooring.host import client_files
from mooring.workloads import session_keeper
from tests.hosting import SCRIPTED
from tests.integration.test_daemon import living
from tests.integration.test_handover import daemons, has_ended
from tests.mcp_client import client_of
from tests.support import until, within


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "WRITE_S", 0.01)
    monkeypatch.setattr(client_files, "LOOK_S", 0.02)


def register(tmp_path: Path, url: str = "http://127.0.0.1:1/one/mcp") -> Path:
    """A file of Cursor that knows the server `one`; returns its path."""
    registry = Registry(tmp_path / "clients", Machine(Platform.LINUX, tmp_path / "user", {}))
    site = registry.site("cursor")
    [outcome] = registry.add(site, [Target("one", url, ("mooring", "stdio", "one"))])
    assert outcome.change == "added"
    return site.path


class Turns:
    """Of all keepers; unless `let_on` is set they are held up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[Keeper] = []
        self.ended: list[Keeper] = []
        self.stuck = 0
        self.let_on = threading.Event()
        self.let_on.set()
        real: Callable[..., list[Told]] = Keeper.turn

        def turn(keeper: Keeper, *words: Any) -> list[Told]:
            self.begun.append(keeper)
            try:
                self.stuck += not self.let_on.is_set()
                assert self.let_on.wait(60)
                return real(keeper, *words)
            finally:
                self.ended.append(keeper)

        monkeypatch.setattr(Keeper, "turn", turn)


async def test_an_address_that_has_changed_is_told_when_the_server_works(tmp_path: Path) -> None:
    path = register(tmp_path)
    async with living(tmp_path) as life:
        url = (await life.run("one"))["server"]["url"]
        await until(lambda: url in path.read_text())
        events = await life.ask("GET", "/events?name=one&wait_s=20")
        while "clients" not in [event["kind"] for event in events]:
            events = await life.ask("GET", f"/events?name=one&wait_s=20&after={events[-1]['number']}")
        assert [event["text"] for event in events if event["kind"] == "clients"] == [
            "its address has changed: renewed in cursor"
        ]


async def test_a_turn_that_hangs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_files, "PAUSE_S", 0.05)
    turns = Turns(monkeypatch)
    turns.let_on.clear()
    register(tmp_path)
    async with living(tmp_path) as life:
        await until(lambda: turns.begun)
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            pid = await client.pid()
            await life.ask("POST", "/servers/one/restart")
            assert await client.pid() != pid
        assert len(turns.begun) == 1 and not turns.ended, "one at a time"
        assert await life.end() == 0, "nor does the end wait for it"
    turns.let_on.set()
    await until(lambda: turns.ended)


async def test_the_last_turn_of_a_daemon_has_ended_before_another_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(monkeypatch)
    register(tmp_path)
    async with daemons(tmp_path) as here:
        await here.run("one", SCRIPTED)
        await until(lambda: turns.ended)
        turns.let_on.clear()
        await until(lambda: turns.stuck)
        restarting = asyncio.create_task(here.restart())
        await asyncio.sleep(0.3)
        assert not restarting.done(), "it waits for the turn"
        turns.let_on.set()
        async with within():
            old = await restarting
        await until(lambda: len(set(turns.begun)) == 2)
        await until(lambda: has_ended(old))
        first, second = dict.fromkeys(turns.begun)
        assert turns.begun == sorted(turns.begun, key=lambda keeper: keeper is second)
        assert turns.ended.index(second) >= turns.begun.count(first)


async def test_a_daemon_whose_turn_does_not_end_does_not_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_files, "PAUSE_S", 0.05)
    turns = Turns(monkeypatch)
    register(tmp_path)
    async with daemons(tmp_path) as here:
        await here.run("one", SCRIPTED)
        await until(lambda: turns.ended)
        turns.let_on.clear()
        await until(lambda: turns.stuck)
        restarting = asyncio.create_task(here.restart())
        async with within():
            with pytest.raises((MooringError, AssertionError)):
                await restarting
        assert "a file of an AI client is being changed" in caplog.text
        turns.let_on.set()
        number = len(turns.ended)
        await until(lambda: len(turns.ended) > number + 1)
        assert len(set(turns.begun)) == 1, "it goes on here"


async def test_a_bug_is_told_once_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns: list[int] = []

    def turn(*words: object) -> list[Told]:
        turns.append(1)
        raise RuntimeError("a bug")

    monkeypatch.setattr(Keeper, "turn", turn)
    register(tmp_path)
    with caplog.at_level(logging.WARNING, "mooring.host"):
        async with living(tmp_path):
            await until(lambda: len(turns) > 5)
    assert caplog.text.count("cannot be kept true") == 1


async def test_a_ledger_that_goes_away_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    register(tmp_path)
    async with living(tmp_path):
        await until(lambda: len(turns.ended) > 1)
        (tmp_path / "clients" / "ledger.json").unlink()
        await asyncio.sleep(0.1)
        number = len(turns.begun)
        await asyncio.sleep(0.1)
        assert len(turns.begun) == number
        register(tmp_path, "http://127.0.0.1:2/one/mcp")
        await until(lambda: len(set(turns.begun)) == 2)
