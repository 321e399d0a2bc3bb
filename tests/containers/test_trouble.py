"""What others do to our containers, and what becomes of an engine: told apart, on real engines."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from mooring.errors import Unavailable
from mooring.runtimes.containers.endpoints import Endpoint
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.containers.labels import Owned, Owner
from mooring.runtimes.containers.leftovers import end_container_leftovers, find_container_leftovers
from mooring.runtimes.containers.lives import may_live
from mooring.runtimes.stopping import StopPatience
from tests.containers.crew import Heard, Told, running, shell
from tests.containers.engines import RealEngine
from tests.containers.relay import Relay
from tests.support import PATIENCE_S, until, within

ECHO = "echo ready; exec cat"
EVEN_IF_ALL = StopPatience(eof_grace_s=0.5, stop_grace_s=0.5)


async def test_killed_by_others_it_has_exited_and_another_is_made(real_engine: RealEngine) -> None:
    told = Told()
    async with within(60), running(real_engine, told) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        real_engine.do("POST", f"/containers/{instance.id}/kill?signal=KILL")
        exit = await instance.wait_gone()
        assert (
            exit == ContainerExit(137)
            and heard.exit is exit
            and str(exit) == "exit status 137, as by SIGKILL"
        )
        other = await runtime.start(shell(ECHO))
        assert other.id != instance.id and other.n > instance.n
        await until(lambda: instance.id not in real_engine.containers())
        assert not told.removed


async def test_killed_on_the_host_it_has_exited(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell(ECHO))
        instance.attach(Heard())
        os.kill(instance.pid, signal.SIGKILL)
        assert (await instance.wait_gone()).code == 137


async def test_removed_by_others_is_told_as_that_and_nothing_else_is(real_engine: RealEngine) -> None:
    told = Told()
    async with within(60), running(real_engine, told) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        real_engine.do("DELETE", f"/containers/{instance.id}?force=1&v=1")
        exit = await instance.wait_gone()
        # Podman may tell its exit before it tells that it is being removed.
        assert exit.ending is Ending.REMOVED or (real_engine.kind == "podman" and exit == ContainerExit(137))
        await until(lambda: told.removed == [instance.id])
        assert heard.exit is exit and not runtime.instances


async def test_stopped_by_others_it_is_no_removal_whatever_time_passes(real_engine: RealEngine) -> None:
    told = Told()
    async with within(60), running(real_engine, told) as runtime:
        instance = await runtime.start(shell("trap 'exit 0' TERM; while :; do sleep 0.05; done"))
        instance.attach(Heard())
        real_engine.do("POST", f"/containers/{instance.id}/stop?t=5")
        assert (await instance.wait_gone()).ending is Ending.EXITED
        assert await runtime.regain(shell(ECHO)) is None, "it does not come back"
        other = await runtime.start(shell(ECHO))
        assert other.id != instance.id and not told.removed


async def test_restarted_by_others_it_is_attached_to_again_and_not_replaced(real_engine: RealEngine) -> None:
    told = Told()
    async with within(90), running(real_engine, told) as runtime:
        script = "trap 'exit 0' TERM; echo ready; while read line; do echo $line; done & wait; cat"
        for script in (ECHO, "trap 'exit 0' TERM; echo ready; while :; do read line && echo $line; done"):
            instance = await runtime.start(shell(script))
            heard = Heard()
            instance.attach(heard)
            await heard.line(0)
            restarting = asyncio.create_task(
                asyncio.to_thread(real_engine.do, "POST", f"/containers/{instance.id}/restart?t=1")
            )
            exit = await instance.wait_gone()
            assert exit.ending in (Ending.EXITED, Ending.RESTARTED)
            again = await runtime.regain(shell(script))
            await restarting
            assert again is not None and not runtime.may_return
            assert again.id == instance.id and again.life != instance.life and again.n > instance.n
            assert real_engine.containers() == [instance.id]
            heard = Heard()
            again.attach(heard)
            again.send(b"hello")
            await until(lambda heard=heard: b"hello" in heard.lines)  # type: ignore[misc]
            assert not told.removed
            again.hurry()
            await again.stop()


async def test_a_restart_in_a_gap_of_the_events_is_seen_by_its_start(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    async with within(90), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        relay.is_closed = True
        relay.cut("/events")
        real_engine.do("POST", f"/containers/{instance.id}/restart?t=0")
        # Whatever is asked while the engine does not answer tells nothing of the container.
        relay.is_closed = False
        exit = await instance.wait_gone()
        assert exit.ending in (Ending.RESTARTED, Ending.ENGINE_GONE)
        again = await runtime.regain(shell(ECHO))
        assert exit.ending is not Ending.RESTARTED or (again is not None and again.id == instance.id)


async def test_a_cut_of_the_events_costs_nothing(real_engine: RealEngine, tmp_path: Path) -> None:
    told = Told()
    async with within(90), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        watch = runtime.harbour.watch
        assert watch is not None and watch.streams == 1
        relay.cut("/events")
        await until(lambda: watch.streams == 2 and watch.is_open)
        instance.send(b"still there")
        assert await heard.line(1) == b"still there"
        # What happened while nobody listened is seen all the same.
        relay.is_closed = True
        relay.cut("/events")
        await until(lambda: not watch.is_open)
        real_engine.do("POST", f"/containers/{instance.id}/pause")
        relay.is_closed = False
        await until(lambda: instance.is_paused)
        real_engine.do("POST", f"/containers/{instance.id}/unpause")
        await until(lambda: told.paused == [True, False])
        assert not told.gone


async def test_cut_off_from_its_container_it_is_replaced(real_engine: RealEngine, tmp_path: Path) -> None:
    async with within(90), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        instance = await runtime.start(shell("echo ready; while :; do sleep 0.05; done"))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        relay.cut("/attach")
        exit = await instance.wait_gone()
        assert exit.ending is Ending.CUT_OFF and heard.exit is exit
        other = await runtime.start(shell(ECHO))
        assert other.id != instance.id
        await until(lambda: instance.id not in real_engine.containers())


async def test_an_engine_that_does_not_answer_is_no_removal(real_engine: RealEngine, tmp_path: Path) -> None:
    told = Told()
    async with within(90), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        relay.is_closed = True
        relay.cut("")
        exit = await instance.wait_gone()
        assert exit.ending is Ending.ENGINE_GONE and str(exit) == "engine unreachable"
        with pytest.raises(Unavailable) as gone:
            await runtime.start(shell(ECHO))
        assert gone.value.code == "engine_unreachable"
        relay.is_closed = False
        watch = runtime.harbour.watch
        assert watch is not None
        await until(lambda: watch.is_open)
        assert await runtime.regain(shell(ECHO)) is None, "it does not come back"
        other = await runtime.start(shell(ECHO))
        assert other.id != instance.id and not told.removed
        await until(lambda: instance.id not in real_engine.containers())


async def test_a_stop_that_the_engine_does_not_answer_is_made_up_for_when_it_is_back(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    told = Told()
    async with within(90), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:
        instance = await runtime.start(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"))
        instance.hurry()
        relay.is_closed = True
        outcome = await instance.stop()
        assert outcome.survivors == (instance.pid,) and outcome.exit is not None
        assert instance.reaped and real_engine.state(instance.id)["Running"]
        relay.is_closed = False
        await until(lambda: instance.id not in real_engine.containers())
        assert not told.removed


async def test_a_runtime_whose_end_is_cut_short_ends_its_containers_all_the_same(
    real_engine: RealEngine,
) -> None:
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell("trap '' TERM; while :; do sleep 0.05; done"))
        waiting = asyncio.create_task(runtime.aclose())
        await asyncio.sleep(0)
        [closing] = [task for task in asyncio.all_tasks() if task.get_name() == "close the container runtime"]
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: instance.id not in real_engine.containers())
        instance.hurry()
        await instance.stop()
        runtime._closing = None


async def test_one_that_comes_while_the_engine_does_not_answer_is_lost_and_not_hung_on(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    told = Told()
    async with within(60), running(real_engine) as old, running(tmp_path / "nothing.sock", told) as new:
        instance = await old.start(shell(ECHO))
        passed = instance.describe()
        assert passed is not None
        adopted = new.adopt(shell(ECHO), passed._replace(descriptors=(os.dup(passed.descriptors[0]),)))
        heard = Heard()
        adopted.attach(heard)
        assert (await adopted.wait_gone()).ending is Ending.ENGINE_GONE and heard.exit is not None


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
async def test_an_engine_that_is_stopped_and_started_gets_its_containers_back(
    real_engine: RealEngine, signum: int
) -> None:
    told = Told()
    async with within(110), running(real_engine, told) as runtime:
        instances = [await runtime.start(shell(ECHO)) for _ in range(3)]
        heard = [Heard() for _ in instances]
        for instance, ear in zip(instances, heard, strict=True):
            instance.attach(ear)
            await ear.line(0)
        await asyncio.to_thread(real_engine.stop, signum)
        try:
            exits = [await instance.wait_gone() for instance in instances]
            assert {exit.ending for exit in exits} <= {Ending.ENGINE_GONE, Ending.EXITED}
            assert not told.removed
            with pytest.raises(Unavailable) as gone:
                await runtime.start(shell(ECHO))
            assert gone.value.code == "engine_unreachable"
        finally:
            await asyncio.to_thread(real_engine.start)
        watch = runtime.harbour.watch
        assert watch is not None
        await until(lambda: watch.is_open)
        others = [await runtime.start(shell(ECHO)) for _ in instances]
        for other in others:
            ear = Heard()
            other.attach(ear)
            other.send(b"again")
            assert await ear.line(1) == b"again"
        # Of what ran before, nothing is left: neither a container nor a process.
        there = {other.id for other in others}
        await until(lambda: set(real_engine.containers()) == there)
        assert not told.removed


async def test_out_of_memory_is_told_apart_where_the_engine_does(real_engine: RealEngine) -> None:
    hungry = "read line; exec perl -e '$x = \"a\" x (200 << 20); sleep 1'"
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell(hungry, memory_bytes=32 << 20))
        instance.attach(Heard())
        instance.send(b"go")
        exit = await instance.wait_gone()
        assert exit.code == 137
        if real_engine.kind == "docker":
            assert exit.out_of_memory and str(exit) == "exit status 137, out of memory"


async def test_two_moorings_on_one_engine_leave_each_other_alone(real_engine: RealEngine) -> None:
    one, other = Owner("one", "one-1"), Owner("other", "other-1")
    async with (
        within(60),
        running(real_engine, owner=one) as ours,
        running(real_engine, owner=other) as theirs,
    ):
        our_instance, their_instance = await ours.start(shell(ECHO)), await theirs.start(shell(ECHO))
        _, foreign = real_engine.ask(
            "POST",
            "/containers/create",
            b'{"Image": "mooring-test:1", "Labels": {"dev.mooring.owner": "one"}}',
        )
        try:
            engine = await ours.harbour.engine()
            ended = await end_container_leftovers(
                engine, "one", lambda id, owned, state: owned.owner.life == "one-1"
            )
            assert not ended
            ended = await end_container_leftovers(
                engine, "one", lambda id, owned, state: owned.owner.life == "one-2"
            )
            assert [(left.id, left.is_removed) for left in ended] == [(our_instance.id, True)]
            assert their_instance.id in real_engine.containers()
            assert foreign["Id"] in real_engine.containers(), "a label alone is no proof"
            assert (await our_instance.wait()).ending in (Ending.REMOVED, Ending.EXITED)
            ear = Heard()
            their_instance.attach(ear)
            their_instance.send(b"alive")
            assert await ear.line(1) == b"alive"
        finally:
            real_engine.do("DELETE", f"/containers/{foreign['Id']}?force=1&v=1")


def _may_live(id: str, owned: Owned, state: str) -> bool:
    return may_live(owned.owner.process, is_running=state == "running")


async def test_what_a_killed_mooring_left_is_ended_by_the_next(real_engine: RealEngine) -> None:
    where = str(real_engine.socket)
    async with within(90):
        host = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.containers.host",
            where,
            "me",
            "life-1",
            stdout=asyncio.subprocess.PIPE,
        )
        assert host.stdout is not None
        polite, stubborn = [(await host.stdout.readline()).decode().strip() for _ in range(2)]
        engine = await Engine.meet(Endpoint(where, "test"))
        found = await find_container_leftovers(engine, "me", _may_live)
        assert not found, "it lives"
        host.kill()
        await host.communicate()
        # What heeds the end of its input is gone by itself.
        await until(lambda: real_engine.state(polite)["Status"] == "exited")
        assert real_engine.state(stubborn)["Running"]
        real_engine.do("POST", f"/containers/{stubborn}/pause")
        ended = await end_container_leftovers(engine, "me", _may_live)
        assert {left.id for left in ended if left.is_removed} == {polite, stubborn}
        assert {(left.name, left.owned.owner.life) for left in ended} == {("tool", "life-1")}
        assert not real_engine.containers("dev.mooring.owner=me")


async def test_one_that_is_passed_on_goes_on_with_another_runtime(real_engine: RealEngine) -> None:
    script = 'printf "ready\\nhalf"; read line; echo " a line $line"; exec cat'
    async with within(90), running(real_engine) as old, running(real_engine, owner=old.harbour.owner) as new:
        instance = await old.start(shell(script))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        await until(lambda: (told := instance.describe()) is not None and told.about.stdout == b"half")
        instance.hold()
        passed = instance.describe()
        assert passed is not None
        passed = passed._replace(descriptors=(os.dup(passed.descriptors[0]),))
        adopted = new.adopt(shell(script), passed)
        old.part_with(instance)
        assert not old.instances and heard.exit is None
        ear = Heard()
        adopted.attach(ear)
        adopted.send(b"more")
        assert await ear.line(0) == b"half a line more"
        adopted.send(b"again")
        assert await ear.line(1) == b"again"
        assert (adopted.id, adopted.pid, adopted.life) == (instance.id, instance.pid, instance.life)
        outcome = await adopted.stop()
        assert outcome.exit == ContainerExit(0)


async def test_one_that_is_stopped_as_it_comes_is_ended(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as old, running(real_engine, owner=old.harbour.owner) as new:
        instance = await old.start(shell(ECHO))
        passed = instance.describe()
        assert passed is not None
        adopted = new.adopt(shell(ECHO), passed._replace(descriptors=(os.dup(passed.descriptors[0]),)))
        old.part_with(instance)
        outcome = await adopted.stop()
        assert outcome.exit == ContainerExit(0) and not outcome.survivors
        assert instance.id not in real_engine.containers()


async def test_one_that_was_passed_on_is_nobodys_concern_here_whatever_becomes_of_it(
    real_engine: RealEngine,
) -> None:
    told = Told()
    async with within(60), running(real_engine, Told()), running(real_engine, told) as old:
        instance = await old.start(shell(ECHO))
        instance.look()
        await asyncio.sleep(0)  # it is being looked at as it goes
        old.part_with(instance)
        await until(lambda: real_engine.state(instance.id)["Status"] == "exited")
        await old.aclose()
        assert not told.order and instance.exit is None
        real_engine.do("DELETE", f"/containers/{instance.id}?v=1")


async def test_a_message_under_way_keeps_it_from_being_passed_on(real_engine: RealEngine) -> None:
    async with within(PATIENCE_S * 3), running(real_engine, patience=EVEN_IF_ALL) as runtime:
        instance = await runtime.start(shell("echo ready; sleep 1000"))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        assert instance.describe() is not None
        for _ in range(8):
            instance.send(b"x" * 1_000_000)
        await asyncio.sleep(0.2)
        assert instance.describe() is None and not instance.writable
        instance.begin_stop()
        assert instance.describe() is None
