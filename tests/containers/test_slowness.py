"""Engines that are slow, or accept and do not answer: nothing waits for ever, nothing is left to nobody."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from mooring.errors import Unavailable
from mooring.runtimes.containers import engine as engines
from mooring.runtimes.containers import instance as instances
from mooring.runtimes.containers import remains
from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.stopping import StopPatience
from tests.containers.crew import Heard, Told, running, shell
from tests.containers.engines import RealEngine
from tests.containers.relay import Before, Relay, as_it_is, silence
from tests.containers.scripted import answer
from tests.support import until, within

ECHO = "echo ready; exec cat"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
HASTY = StopPatience(eof_grace_s=0.05, stop_grace_s=0.05)
IN_PROGRESS = answer(b'{"message": "removal of container x is already in progress"}', 409)


def only(*parts: str, do: Before) -> Before:
    """Of requests whose first line has all that in it; others are passed on."""

    async def before(line: str) -> bytes | None:
        return await do(line) if all(part in line for part in parts) else None

    return before


async def still_going(engine: RealEngine, id: str) -> bytes:
    """What the engine says of a container, as if it were still at removing it."""
    _, seen = await asyncio.to_thread(engine.ask, "GET", f"/containers/{id}/json")
    status = "removing" if engine.kind == "docker" else "exited"
    seen["State"] |= {"Running": False, "Status": status, "ExitCode": 137, "Pid": 0}
    return answer(json.dumps(seen).encode())


# Removals by others that take longer than anybody waits


@pytest.mark.parametrize("says", [None, IN_PROGRESS], ids=["gone", "going"])
async def test_a_removal_by_others_that_takes_long_is_told_all_the_same(
    real_engine: RealEngine, tmp_path: Path, says: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "ENDING_S", 0.2)
    monkeypatch.setattr(remains, "HOLD_S", 0.2)
    told = Told()
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        seen = await still_going(real_engine, instance.id)

        async def slowly(line: str) -> bytes | None:
            return says if line.startswith("DELETE") else seen

        await until(lambda: not relay.requests("/json"))  # how it began is known
        relay.before = only(f"/containers/{instance.id}", do=slowly)
        real_engine.do("DELETE", f"/containers/{instance.id}?force=1&v=1")
        assert await instance.wait_gone() == ContainerExit(137), "that it is being removed cannot be seen"
        await until(lambda: told.removed == [instance.id])
        assert told.order[-1] == "removed"


@pytest.mark.parametrize("by", ["DELETE", "POST"], ids=["removed", "killed"])
async def test_what_may_be_a_removal_is_waited_for_and_what_others_killed_is_not(
    real_engine: RealEngine, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "DOUBT_S", 30.0)
    monkeypatch.setattr(instances, "LEAVING_S", 30.0)
    path, ending = {"DELETE": ("?force=1&v=1", Ending.REMOVED), "POST": ("/kill", Ending.EXITED)}[by]
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        answers = [await still_going(real_engine, instance.id)]

        async def first(line: str) -> bytes | None:
            return answers.pop() if answers else None

        await until(lambda: not relay.requests("/json"))
        relay.before = only(f"/containers/{instance.id}/json", do=first)
        await asyncio.to_thread(real_engine.do, by, f"/containers/{instance.id}{path}")
        async with asyncio.timeout(instances.DOUBT_S / 2):
            assert (await instance.wait_gone()).ending is ending
        assert not answers


async def test_what_is_missing_after_an_attempt_of_our_own_is_no_removal_by_others(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    """The engine has removed it for us, and could not tell us so."""
    told = Told()
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:

        async def lose_the_answer(line: str) -> bytes:
            relay.before = as_it_is
            await asyncio.to_thread(real_engine.do, "DELETE", f"/containers/{instance.id}?force=1&v=1")
            return b""

        instance = await runtime.start(shell("read line; exit 3"))
        instance.attach(Heard())
        relay.before = only("DELETE", do=lose_the_answer)
        instance.send(b"go")
        assert await instance.wait_gone() == ContainerExit(3)
        await until(lambda: sum(line.startswith("DELETE") for line in relay.asked) == 2)
        await until(lambda: not runtime._remains)
        assert not told.removed


# Engines that accept and do not answer


async def test_an_exit_that_is_known_is_told_though_the_engine_does_not_answer_any_more(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    """Docker tells it by an event; of Podman one answer is enough, as no other comes to contradict it."""
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        answers = [await still_going(real_engine, instance.id)] if real_engine.kind == "podman" else []

        async def less_and_less(line: str) -> bytes | None:
            return answers.pop() if answers else await silence(line)

        await until(lambda: not relay.requests("/json"))
        relay.before = only(f"/containers/{instance.id}/json", do=less_and_less)
        os.kill(instance.pid, signal.SIGKILL)
        async with asyncio.timeout(engines.LOOK_S / 2):
            assert await instance.wait_gone() == ContainerExit(137)
        assert not answers
        relay.before = as_it_is
        relay.cut("/json")


async def test_a_stop_that_is_hurried_does_not_wait_for_an_engine_that_does_not_answer(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    async with (
        within(90),
        Relay(tmp_path, real_engine.socket) as relay,
        running(relay.path, patience=HASTY) as runtime,
    ):
        instance = await runtime.start(shell(STUBBORN))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        relay.before = silence
        stopping = instance.begin_stop()
        await until(lambda: relay.requests("/kill"))
        async with within():  # less than the engine is given otherwise
            runtime.hurry()
            outcome = await stopping
        assert outcome.survivors == (instance.pid,) and outcome.exit is not None
        assert real_engine.state(instance.id)["Running"]
        relay.before = as_it_is
        relay.cut("/containers/")
        await until(lambda: instance.id not in real_engine.containers())


@pytest.mark.parametrize("is_hurried", [True, False], ids=["hurried", "patient"])
async def test_one_that_comes_while_the_engine_says_nothing_can_be_stopped_and_is_removed_later(
    real_engine: RealEngine, tmp_path: Path, is_hurried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_hurried:
        monkeypatch.setattr(instances, "ARRIVAL_S", 0.1)
    speaks = asyncio.Event()

    async def late(line: str) -> None:
        await speaks.wait()

    async with (
        within(90),
        Relay(tmp_path, real_engine.socket) as relay,
        running(real_engine) as old,
        running(relay.path, owner=old.harbour.owner, patience=HASTY) as new,
    ):
        instance = await old.start(shell(STUBBORN))
        passed = instance.describe()
        assert passed is not None
        relay.before = only("/containers/json", do=late)
        adopted = new.adopt(shell(STUBBORN), passed._replace(descriptors=(os.dup(passed.descriptors[0]),)))
        old.part_with(instance)
        await until(lambda: relay.requests("/containers/json"))
        async with within():
            stopping = adopted.begin_stop()
            if is_hurried:
                new.hurry()
            outcome = await stopping
        assert outcome.survivors and adopted.reaped
        speaks.set()
        await until(lambda: instance.id not in real_engine.containers())


async def test_one_that_comes_while_the_engine_is_gone_is_removed_when_it_is_back(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    async with (
        within(90),
        Relay(tmp_path, real_engine.socket) as relay,
        running(real_engine) as old,
        running(relay.path, owner=old.harbour.owner) as new,
    ):
        instance = await old.start(shell(STUBBORN))
        passed = instance.describe()
        assert passed is not None
        relay.is_closed = True
        adopted = new.adopt(shell(STUBBORN), passed._replace(descriptors=(os.dup(passed.descriptors[0]),)))
        old.part_with(instance)
        assert (await adopted.wait_gone()).ending is Ending.ENGINE_GONE
        assert real_engine.state(instance.id)["Running"] and not new.harbour._common.adopted
        relay.is_closed = False
        await until(lambda: instance.id not in real_engine.containers())
        await until(lambda: new.harbour._paying is None)


# Containers that are made late


@pytest.mark.parametrize("closes", [False, True], ids=["open", "closed"])
async def test_a_container_that_appears_after_its_making_was_given_up_is_removed(
    real_engine: RealEngine, tmp_path: Path, closes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remains, "CLOSING_S", 0.2)

    def looks() -> int:
        return sum(line.startswith("DELETE") for line in relay.asked)

    async with within(90), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        relay.late = "/containers/create"
        with pytest.raises(Unavailable) as given_up:
            await runtime.start(shell(ECHO))
        assert given_up.value.code == "engine_unreachable"
        if closes:
            await runtime.aclose()
        before = looks()
        await until(lambda: looks() > before + 1)
        relay.released.set()
        await until(lambda: relay.late_answers)
        assert b" 201 " in relay.late_answers[0].partition(b"\r\n")[0]
        life = f"dev.mooring.life={runtime.harbour.owner.life}"
        await until(lambda: not real_engine.containers(life))


@pytest.mark.parametrize("when", ["/attach", "/start", "/json"])
async def test_one_that_is_pruned_before_it_is_started_is_made_again(
    real_engine: RealEngine, tmp_path: Path, when: str
) -> None:
    told = Told()
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:

        async def prune(line: str) -> None:
            relay.before = as_it_is
            id = line.split("/")[3]
            await asyncio.to_thread(real_engine.do, "DELETE", f"/containers/{id}?force=1&v=1")
            await asyncio.sleep(2 * instances.BUSY_S)  # its end is told before the engine answers

        await runtime.harbour.engine()
        relay.before = only("/containers/", when, do=prune)
        with pytest.raises(Unavailable) as pruned:
            await runtime.start(shell(ECHO))
        assert pruned.value.retry_after_s and "removed its container" in pruned.value.message
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        assert await heard.line(0) == b"ready" and not told.removed


async def test_what_is_only_nice_to_know_of_an_image_fails_no_start(
    real_engine: RealEngine, tmp_path: Path
) -> None:
    async def refuse(line: str) -> bytes:
        return answer(b'{"message": "layer store is busy"}', 500)

    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path) as runtime:
        relay.before = only("/images/", do=refuse)
        instance = await runtime.start(shell(ECHO))
        heard = Heard()
        instance.attach(heard)
        assert await heard.line(0) == b"ready"
        assert any("/images/" in line for line in relay.asked)


# Words that come before it is known who says them


@pytest.mark.parametrize("script", ["echo why >&2; exec cat", "echo why >&2; exit 3"], ids=["stays", "ends"])
async def test_the_first_words_are_those_of_the_one_that_said_them(
    real_engine: RealEngine, tmp_path: Path, script: str
) -> None:
    told = Told()
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:

        async def when_it_has_spoken(line: str) -> None:
            await until(lambda: b"why\n" in relay.heard)
            if "exit" in script:
                id = line.split("/")[3]
                await until(lambda: real_engine.state(id)["Status"] == "exited")

        await runtime.harbour.engine()
        relay.before = only("/containers/", "/json", do=when_it_has_spoken)
        instance = await runtime.start(shell(script))
        await until(lambda: told.stderr == ["why"])
        assert instance.pid and told.speakers == [instance.pid]


async def test_so_many_first_words_are_kept_and_no_more(
    real_engine: RealEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MOST_EARLY_LINES", 10)
    told = Told()
    async with within(60), Relay(tmp_path, real_engine.socket) as relay, running(relay.path, told) as runtime:

        async def when_they_are_told(line: str) -> None:
            await until(lambda: len(told.stderr) == 25)

        await runtime.harbour.engine()
        relay.before = only("/containers/", "/json", do=when_they_are_told)
        instance = await runtime.start(shell("seq 25 >&2; exec cat"))
        assert told.stderr == [str(number) for number in range(1, 26)]
        assert set(told.speakers) == {instance.pid}


# Signals by others


async def test_a_signal_that_asks_for_no_end_delays_nothing(real_engine: RealEngine) -> None:
    if real_engine.kind != "docker":
        pytest.skip("Podman does not tell which signal it was")
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell("trap 'echo hup' HUP; echo ready; while :; do sleep 0.05; done"))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        real_engine.do("POST", f"/containers/{instance.id}/kill?signal=SIGHUP")
        assert await heard.line(1) == b"hup"
        real_engine.do("POST", f"/containers/{instance.id}/kill?signal=SIGKILL")
        assert await instance.wait_gone() == ContainerExit(137)
        assert not instance.was_meddled_with and not runtime.may_return


@pytest.mark.parametrize("seconds", [instances.MEDDLED_S, 0.0])
async def test_an_end_long_after_somebody_asked_for_one_is_a_crash(
    real_engine: RealEngine, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MEDDLED_S", seconds)
    # (Podman tells of the signal a quarter of a second late.)
    script = "trap 'sleep 1; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell(script))
        heard = Heard()
        instance.attach(heard)
        await heard.line(0)
        real_engine.do("POST", f"/containers/{instance.id}/kill?signal=SIGTERM")
        assert await instance.wait_gone() == ContainerExit(3)
        assert instance.was_meddled_with is (seconds > 0) and runtime.may_return is (seconds > 0)
