"""Many servers, as they are wanted: run, stopped, started, replaced, removed, recovered. Real processes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.errors import Unavailable, UserError
from mooring.host.routes import add_routes
from mooring.http.router import Router
from mooring.proxy.proxy import Proxy
from mooring.store.records import Desired
from mooring.store.store import Store
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.states import State as Stage
from mooring.workloads import session_keeper
from mooring.workloads.definition import Borrowed, ServerOptions, dump_options, load_options, same_request
from mooring.workloads.fleet import Conflict, Fleet
from mooring.workloads.state import State
from tests.hosting import ENVIRONMENT, SCRIPTED, SHORT
from tests.http_client import serving
from tests.mcp_client import McpClient, client_of
from tests.support import alive, children, until, within


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "WRITE_S", 0.01)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


class Street:
    """Where the servers of a fleet are reached, in a test."""

    def __init__(self) -> None:
        self.router = Router()
        self.closed: dict[str, str] = {}
        self.port = 0

    def serve(self, name: str, proxy: Proxy) -> None:
        self.closed.pop(name, None)
        add_routes(self.router, proxy, f"/{name}")

    def expect(self, name: str) -> None:
        self.closed[name] = "expected"

    def close(self, name: str, why: str) -> None:
        self.closed[name] = why

    def forget(self, name: str) -> None:
        self.closed.pop(name, None)


@asynccontextmanager
async def fleet_in(directory: Path) -> AsyncIterator[tuple[Fleet, Street]]:
    """One life of Mooring, on a directory that may have seen others."""
    store = Store(directory, time.time)
    store.claim(1, "boot")
    state, street = State(store), Street()
    fleet = Fleet(state, street, clock=time.monotonic, wall=time.time)
    async with serving(street.router) as served:
        street.port = served.port
        await fleet.load()
        await fleet.recover()
        try:
            yield fleet, street
        finally:
            await fleet.aclose("end of test", 0.2)
            await state.aclose()


def described(name: str = "one", *words: str, **options: Any) -> ServerOptions:
    return ServerOptions(name=name, argv=(*SCRIPTED, *words), env=ENVIRONMENT, patience=SHORT, **options)


async def reached(street: Street, name: str = "one") -> int:
    async with client_of(street.port, path=f"/{name}/mcp") as client:
        return await client.pid()


def test_options_are_written_down_and_read_again() -> None:
    options = described("one", "--mute", cwd=Path("/tmp"), spare=3)
    assert load_options(dump_options(options)) == options
    assert dump_options(load_options(dump_options(options))) == dump_options(options)


async def test_run_stop_start_and_remove(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, street):
        assert await fleet.run(described())
        await until(lambda: fleet.seen("one").snapshot().state is Stage.READY)  # type: ignore[union-attr]
        assert await reached(street)
        assert not await fleet.run(described()), "the same once more is nothing"
        with pytest.raises(UserError, match="another definition"):
            await fleet.run(described("one", "--mute"))
        assert await fleet.stop("one", 1.0) == 0
        seen = fleet.seen("one")
        assert (seen.live, seen.wanted.desired, street.closed) == (
            None,
            Desired.STOPPED,
            {"one": "stopped by request"},
        )
        assert await fleet.stop("one", 1.0) == 0, "to stop it again is nothing"
        assert await fleet.run(described()), "to run it is to start it"
        assert await reached(street) and not street.closed
        await fleet.remove("one", 1.0)
        assert fleet.all() == []
        for action in (fleet.start("one"), fleet.stop("one", 1.0), fleet.remove("one", 1.0)):
            with pytest.raises(UserError, match="no server named one"):
                await action


async def test_a_session_survives_a_restart_a_replacement_and_the_next_mooring(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, street):
        await fleet.run(described())
        async with client_of(street.port, path="/one/mcp") as client:
            pids = [await client.pid()]
            await fleet.restart("one", 1.0)
            pids.append(await client.pid())
            await fleet.run(described("one", "--capabilities", '{"tools": {}}'), replace=True)
            pids.append(await client.pid())
            session = client.session
            generations = [fleet.seen("one").wanted.generation]
    async with fleet_in(tmp_path) as (fleet, street), McpClient(street.port, path="/one/mcp") as client:
        client.session = session
        pids.append(await client.pid())
        generations.append(fleet.seen("one").wanted.generation)
        assert len(set(pids)) == 4 and generations[0] < generations[1]


async def test_what_was_stopped_stays_stopped(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, _street):
        await fleet.run(described("one"))
        await fleet.run(described("two"))
        await fleet.stop("one", 1.0)
    async with fleet_in(tmp_path) as (fleet, street):
        assert [seen.live is not None for seen in fleet.all()] == [False, True]
        assert street.closed == {"one": "it was stopped"} and await reached(street, "two")


async def test_a_name_is_free_while_its_last_bearer_still_drains(tmp_path: Path) -> None:
    """The reported case: removed and run again with a stream held open; the new one is not disturbed."""
    async with fleet_in(tmp_path) as (fleet, street):
        await fleet.run(described())
        async with client_of(street.port, path="/one/mcp") as old:
            await old.stream()
            call = await old.send("POST", old.request("x/hold"))
            await until(lambda: fleet.seen("one").live.workload.proxy.calls_in_flight == 1)  # type: ignore[union-attr]
            removing = asyncio.create_task(fleet.remove("one", 1.0))
            await until(lambda: not fleet.all())
            assert await fleet.run(described())
            pid = await reached(street)
            known = fleet.seen("one").wanted
            assert await removing == 1, "the call of the old one was cut at its deadline"
            assert b"shutting_down" in (await call.answer()).body
            assert fleet.seen("one").wanted == known and await reached(street) != pid
    async with fleet_in(tmp_path) as (fleet, _street):
        assert fleet.seen("one").wanted.definition == known.definition


@pytest.mark.parametrize("what", ["starting", "backoff", "failed", "ready"])
async def test_stop_and_remove_win_in_every_state(tmp_path: Path, what: str) -> None:
    words = {
        "starting": ("--mute",),
        "backoff": ("--die-at-initialize",),
        "failed": ("--refuse",),
        "ready": (),
    }
    before = children()
    async with fleet_in(tmp_path) as (fleet, _street):
        for ending in (fleet.stop, fleet.remove):
            await fleet.run(described("one", *words[what]), replace=True)
            await until(lambda: fleet.seen("one").snapshot().state == what)  # type: ignore[union-attr]
            servers = children() - before
            async with within():
                await ending("one", 1.0)
            assert not [pid for pid in servers if alive(pid)]
        assert fleet.all() == []


async def test_two_at_once_of_which_one_wins(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, street):
        await fleet.run(described())
        async with client_of(street.port, path="/one/mcp") as client:
            await client.send("POST", client.request("x/hold"))
            await until(lambda: fleet.seen("one").live.workload.proxy.calls_in_flight == 1)  # type: ignore[union-attr]
            restarting = asyncio.create_task(fleet.restart("one", 0.5))
            await until(lambda: fleet.seen("one").live.is_ending)  # type: ignore[union-attr]
            await until(lambda: fleet.seen("one").snapshot().state is Stage.DRAINING)  # type: ignore[union-attr]
            assert fleet.seen("one").snapshot().reason.code is ReasonCode.ASKED  # type: ignore[union-attr]
            with pytest.raises(Conflict, match=r"^one is ending: restarted by request$"):
                await fleet.start("one")
            stopping = asyncio.create_task(fleet.stop("one", 0.5))
            with pytest.raises(Conflict, match=r"^one was stopped meanwhile$"):
                await restarting
            assert await stopping == 1
        assert fleet.seen("one").live is None
        assert fleet.seen("one").wanted.desired is Desired.STOPPED


async def test_what_an_earlier_mooring_wrote_down_is_the_same_server(tmp_path: Path) -> None:
    """Options have been added since, and have their defaults: to run it again is nothing."""
    written = msgspec.json.decode(dump_options(described()))
    del written["spare"], written["sessions"]
    async with fleet_in(tmp_path) as (fleet, _street):
        await fleet._state.do(lambda store: store.add("one", msgspec.json.encode(written)))
    async with fleet_in(tmp_path) as (fleet, _street):
        assert not await fleet.run(described())


async def test_many_who_run_the_same_get_one(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, street):
        done = await asyncio.gather(*(fleet.run(described()) for _ in range(8)))
        assert sorted(done) == [False] * 7 + [True]
        assert await reached(street)


async def test_one_that_cannot_be_read_or_started_costs_only_itself(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, _street):
        await fleet.run(described("good"))
        await fleet._state.do(lambda store: store.add("odd", b'{"name":7}'))
    async with fleet_in(tmp_path) as (fleet, street):
        assert await reached(street, "good")
        assert "odd" in street.closed
        with pytest.raises(UserError, match="cannot be read"):
            await fleet.start("odd")
        await fleet.remove("odd", 1.0)


async def test_who_is_quicker_than_the_recovery_gets_the_same_server(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, _street):
        await fleet.run(described())
    store = Store(tmp_path, time.time)
    store.claim(2, "boot")
    state = State(store)
    fleet = Fleet(state, Street(), clock=time.monotonic, wall=time.time)
    await fleet.load()
    assert await fleet.run(described()), "whoever waits for it waits for the one that is begun"
    live = fleet.seen("one").live
    await fleet.recover()
    assert live is not None and fleet.seen("one").live is live, "and only once"
    await fleet.aclose("end of test", 0.2)
    await state.aclose()


async def test_what_was_asked_for_is_done_although_nobody_waits(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, _street):
        for name in ("one", "two"):
            await fleet.run(described(name))
        assert await fleet.stop("one", 1.0, wait=False) == 0
        assert fleet.seen("one").wanted.desired is Desired.STOPPED, "it is certain"
        await until(lambda: fleet.seen("one").live is None)
        await fleet.restart("two", 1.0, wait=False)
        await until(lambda: fleet.seen("two").wanted.generation == 3)
        assert await fleet.remove("two", 1.0, wait=False) == 0
        assert [seen.wanted.name for seen in fleet.all()] == ["one"]


async def test_nothing_is_begun_while_all_of_it_ends(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, street):
        await fleet.run(described())
        async with client_of(street.port, path="/one/mcp") as client:
            await client.send("POST", client.request("x/hold"))
            await until(lambda: fleet.seen("one").live.workload.proxy.calls_in_flight == 1)  # type: ignore[union-attr]
            await fleet.restart("one", 0.2, wait=False)
            await fleet.aclose("end of test", 0.2)
        assert fleet.seen("one").live is None and fleet.seen("one").wanted.generation == 1
        for action in (fleet.start("one"), fleet.run(described("two")), fleet.restart("one", 1.0)):
            with pytest.raises(Unavailable, match="Mooring is stopping"):
                await action


async def test_whoever_cannot_wait_for_the_end_need_not(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, street):
        await fleet.run(described())
        async with client_of(street.port, path="/one/mcp") as client:
            await client.send("POST", client.request("x/hold"))
            await until(lambda: fleet.seen("one").live.workload.proxy.calls_in_flight == 1)  # type: ignore[union-attr]
            ending = asyncio.create_task(fleet.aclose("end of test", None))
            await until(lambda: fleet.seen("one").live.is_ending)  # type: ignore[union-attr]
            fleet.hurry()
            async with within():
                await ending


async def test_a_file_touches_what_was_made_from_it_and_nothing_else(tmp_path: Path) -> None:
    async with fleet_in(tmp_path) as (fleet, _street):

        def origin() -> str:
            return fleet.seen("one").wanted.origin

        await fleet.run(described(), origin="/a.toml")
        other = described("one", "--other")
        for refused in (
            fleet.run(other, replace=True, origin="/b.toml"),
            fleet.remove("one", 1.0, origin="/b.toml"),
        ):
            with pytest.raises(UserError, match=r"not made from /b.toml but from /a.toml") as caught:
                await refused
            assert caught.value.code == "not_of_this_file"
        assert not await fleet.run(described(), origin="/b.toml")
        assert origin() == "/a.toml", "the same, asked for by another, changes nothing"
        assert not await fleet.run(described(), origin="/b.toml", adopt=True)
        assert origin() == "/b.toml", "but who adopts it has it"
        assert await fleet.run(other, replace=True, origin="/c.toml", adopt=True)
        assert origin() == "/c.toml"
        await fleet.restart("one", 1.0)
        assert origin() == "/c.toml"
        assert await fleet.run(described(), replace=True), "whoever names no file may do what they like"
        assert origin() == ""
        with pytest.raises(UserError, match=r"was not made from /c.toml$"):
            await fleet.remove("one", 1.0, origin="/c.toml")
        await fleet.run(described(), origin="/d.toml", adopt=True)
    async with fleet_in(tmp_path) as (fleet, _street):
        assert fleet.seen("one").wanted.origin == "/d.toml", "also in its next life"
        await fleet.remove("one", 1.0, origin="/d.toml")
        assert fleet.all() == []


def test_the_same_request_from_another_terminal_is_the_same() -> None:
    def asked(env: dict[str, str], *unnamed: str, all: bool = False, **other: Any) -> ServerOptions:
        borrowed = Borrowed(all=all, unnamed=unnamed)
        return ServerOptions(name="one", argv=("x",), env=env, borrowed=borrowed, **other)

    here = asked({"TERM": "xterm", "A": "1"}, "TERM")
    assert same_request(here, asked({"TERM": "dumb", "A": "1"}, "TERM"))
    assert same_request(here, asked({"A": "1"}))
    assert not same_request(here, asked({"TERM": "xterm", "A": "1"})), "here it was asked for"
    assert not same_request(here, asked({"TERM": "xterm", "A": "2"}, "TERM"))
    assert not same_request(here, asked({"TERM": "xterm", "A": "1"}, "TERM", all=True))
    assert not same_request(here, asked({"TERM": "xterm", "A": "1"}, "TERM", spare=2))


async def test_the_same_from_another_terminal_is_the_same_and_what_is_not_is_named(tmp_path: Path) -> None:
    def from_terminal(kind: str, **more: Any) -> ServerOptions:
        options = described()
        borrowed = Borrowed(unnamed=("TERM",))
        return replace(options, env={**options.env, "TERM": kind}, borrowed=borrowed, **more)

    async with fleet_in(tmp_path) as (fleet, _):
        await fleet.run(from_terminal("xterm"))
        assert not await fleet.run(from_terminal("tmux"))
        assert fleet.seen("one").wanted.generation == 1
        other = from_terminal("tmux", spare=0, cwd=tmp_path)
        with pytest.raises(UserError, match=rf"different: the working directory \(.*{tmp_path}\), spare$"):
            await fleet.run(other)
        secretive = replace(other, env={**other.env, "TOKEN": "canary"})
        with pytest.raises(UserError, match="the variables TOKEN") as refused:
            await fleet.run(secretive)
        assert "canary" not in refused.value.message
        assert await fleet.run(from_terminal("tmux"), replace=True), "whoever insists gets its own TERM"
        assert fleet.seen("one").options == from_terminal("tmux")
