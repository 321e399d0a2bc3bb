"""What a Mooring finds in an engine when it comes there, and what it leaves when it goes."""

import json
from pathlib import Path
from secrets import token_hex

import pytest

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.containers.labels import Owned, Owner, labels_of
from mooring.runtimes.containers.leftovers import ContainerLeftover
from mooring.runtimes.containers.lives import this_process
from mooring.runtimes.containers.logbook import Logbook
from tests.containers.crew import Heard, running, shell
from tests.containers.engines import RealEngine
from tests.containers.relay import Relay
from tests.support import until, within

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"


def made(engine: RealEngine, owner: Owner, *, running: bool) -> str:
    """A container with the labels of that Mooring, as one that was killed would leave it."""
    body = {
        "Image": "mooring-test:1",
        "Cmd": ["/bin/sh", "-c", STUBBORN],
        "Labels": labels_of(Owned(owner, "tool", 3)),
        "HostConfig": {"NetworkMode": "none", "Binds": ["/usr:/usr:ro"]},
    }
    status, said = engine.ask("POST", "/containers/create", json.dumps(body).encode())
    assert status == 201, said
    if running:
        engine.do("POST", f"/containers/{said['Id']}/start")
    return str(said["Id"])


def harbours(
    owner: Owner,
    told: list[ContainerLeftover],
    logbook: Logbook | None = None,
    *,
    is_alone: bool = False,
    may_sweep: bool = True,
) -> Harbours:
    return Harbours(
        owner,
        {},
        Path("/nowhere"),
        logbook=logbook,
        is_alone=is_alone,
        may_sweep=may_sweep,
        on_leftover=told.append,
    )


async def test_what_is_left_of_an_earlier_life_is_gone_before_anything_is_made(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    me, other = token_hex(8), token_hex(8)
    before = Owner(me, "before", "1 2 boot ns")
    running_one, created = made(real_engine, before, running=True), made(real_engine, before, running=False)
    foreign = made(real_engine, Owner(other, "x"), running=True)
    handed, ours = made(real_engine, before, running=True), made(real_engine, Owner(me, "now"), running=True)
    told: list[ContainerLeftover] = []
    logbook = Logbook(tmp_path / "engines")
    every = harbours(Owner(me, "now", this_process()), told, logbook, is_alone=True, may_sweep=False)
    harbour = every.get(str(real_engine.socket))
    try:
        async with within(60):
            harbour.adopt(handed)
            await harbour.engine()
            assert running_one in real_engine.containers(), "another may still be about to hand it over"
            every.may_sweep = True
            found, silent = await every.find_left()
            assert {left.id for left in found} == {running_one, created} and not silent
            await every.sweep_all()
        assert {left.id for left in told} == {running_one, created} and every.logbook is not None
        assert every.logbook.knows(str(real_engine.socket))
        there = real_engine.containers()
        assert not {running_one, created} & set(there) and {foreign, handed, ours} <= set(there)
        assert {left.name for left in told} == {"tool"} and all(left.is_removed for left in told)
    finally:
        await every.aclose()
        for container in (foreign, handed, ours):
            real_engine.do("DELETE", f"/containers/{container}?force=1&v=1")


async def test_without_a_state_of_its_own_only_what_belongs_to_a_dead_process_is_left(
    real_engine: RealEngine,
) -> None:
    me = token_hex(8)
    pid, started, boot, namespace = this_process().split()
    alive = made(real_engine, Owner(me, "another", this_process()), running=True)
    dead = made(real_engine, Owner(me, "killed", f"{pid} {started}0 {boot} {namespace}"), running=True)
    told: list[ContainerLeftover] = []
    every = harbours(Owner(me, "now", this_process()), told)
    try:
        async with within(60):
            await every.get(str(real_engine.socket)).engine()
        assert [left.id for left in told] == [dead] and alive in real_engine.containers()
    finally:
        await every.aclose()
        real_engine.do("DELETE", f"/containers/{alive}?force=1&v=1")


async def test_what_could_not_be_removed_because_the_engine_was_gone_is_when_it_is_back(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    async with within(100), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        instance = await runtime.start(shell(STUBBORN))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        harbour = runtime.harbour
        relay.is_closed = True
        relay.cut("")
        await runtime.aclose()
        assert instance.id in real_engine.containers()
        relay.is_closed = False
        await until(lambda: instance.id not in real_engine.containers())
        await until(lambda: harbour._paying is None)


async def test_an_engine_that_was_there_before_is_gone_and_not_missing(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    logbook, nowhere = Logbook(tmp_path / "engines"), str(tmp_path / "relay.sock")

    async def met(book: Logbook | None) -> MooringError:
        every = harbours(Owner("me", "now"), [], book)
        with pytest.raises(MooringError) as refused:
            await every.get(nowhere).engine()
        await every.aclose()
        return refused.value

    async with within(60):
        assert isinstance(await met(None), UserError) and (await met(logbook)).code == "no_engine"
        async with Relay(tmp_path, real_engine.socket):
            every = harbours(Owner(token_hex(8), "now"), [], logbook)
            await every.get(nowhere).engine()
            await every.aclose()
        (tmp_path / "relay.sock").unlink(missing_ok=True)
        gone = await met(logbook)
    assert isinstance(gone, Unavailable) and gone.code == "engine_unreachable" and gone.hint
