"""The life of a container, on real engines: started, spoken to, stopped, and nothing left."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mooring.errors import Unavailable, UserError
from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.containers.spec import Volume
from mooring.runtimes.stopping import StopPatience
from tests.containers.crew import Heard, Told, demo, running, shell, spec
from tests.containers.engines import RealEngine
from tests.containers.images import FOREIGN
from tests.support import on_both_loops, until, within

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
ECHO = "echo ready; exec cat"


@on_both_loops
async def test_the_demo_server_answers_in_a_container_and_ends_with_its_input(
    real_engine: RealEngine,
) -> None:
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(demo())
        heard = Heard()
        instance.attach(heard)
        instance.send(json.dumps(INITIALIZE).encode())
        answer = json.loads(await heard.line(0))
        assert answer["id"] == 1 and answer["result"]["serverInfo"]
        assert instance.pid > 0 and instance.consumed > 0
        outcome = await instance.stop()
        assert outcome.exit == ContainerExit(0) and not outcome.survivors
        assert heard.exit == ContainerExit(0)
        assert instance.reaped and not runtime.instances
        assert instance.id not in real_engine.containers()


async def test_stdout_is_held_back_until_somebody_listens_and_stderr_is_not(real_engine: RealEngine) -> None:
    told = Told()
    async with within(60), running(real_engine, told) as runtime:
        instance = await runtime.start(shell("echo out; echo err >&2; exec cat"))
        await until(lambda: told.stderr == ["err"])
        heard = Heard()
        instance.attach(heard)
        assert await heard.line(0) == b"out"


async def test_an_exit_is_told_with_its_code_after_the_last_words(real_engine: RealEngine) -> None:
    told = Told()
    async with within(60), running(real_engine, told) as runtime:
        instance = await runtime.start(
            shell("read line; echo last; echo words >&2; printf unfinished; exit 7")
        )
        heard = Heard()
        instance.attach(heard)
        instance.send(b"go")
        assert await instance.wait_gone() == ContainerExit(7)
        assert heard.lines == [b"last", b"unfinished"] and heard.exit == ContainerExit(7)
        assert told.stderr == ["words"] and told.gone == [(instance, ContainerExit(7))]
        assert str(heard.exit) == "exit status 7" and heard.exit.ending is Ending.EXITED
        await until(lambda: instance.id not in real_engine.containers())


async def test_one_that_ignores_the_end_of_its_input_gets_sigterm_then_sigkill(
    real_engine: RealEngine,
) -> None:
    stubborn = "trap 'echo term >&2' TERM; echo up >&2; while :; do sleep 0.05; done"
    for script, signs in (
        ("trap 'echo term >&2; exit 3' TERM; echo up >&2; while :; do sleep 0.05; done", 3),
        (stubborn, 137),
    ):
        told = Told()
        patience = StopPatience(eof_grace_s=0.05, stop_grace_s=0.5 if signs == 137 else 20)
        async with within(60), running(real_engine, told, patience=patience) as runtime:
            instance = await runtime.start(shell(script))
            await until(lambda told=told: told.stderr == ["up"])  # type: ignore[misc]
            outcome = await instance.stop()
            assert outcome.exit == ContainerExit(signs), "our own removal is none by others"
            assert told.stderr == ["up", "term"] and not outcome.survivors


async def test_hurried_it_is_ended_at_once(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell("trap '' TERM; while :; do sleep 0.05; done"))
        stopping = instance.begin_stop()
        runtime.hurry()
        outcome = await stopping
        assert outcome.exit in (ContainerExit(137), ContainerExit(None))


async def test_a_paused_one_can_be_stopped(real_engine: RealEngine) -> None:
    told = Told()
    async with (
        within(60),
        running(real_engine, told, patience=StopPatience(eof_grace_s=0, stop_grace_s=20)) as runtime,
    ):
        instance = await runtime.start(shell("trap 'exit 4' TERM; while :; do sleep 0.05; done"))
        real_engine.do("POST", f"/containers/{instance.id}/pause")
        await until(lambda: told.paused == [True])
        assert instance.is_paused
        outcome = await instance.stop()
        assert outcome.exit == ContainerExit(4)


@on_both_loops
async def test_large_messages_pass_both_ways_unchanged_while_the_reader_pauses(
    real_engine: RealEngine,
) -> None:
    async with within(100), running(real_engine) as runtime:
        instance = await runtime.start(shell("exec cat"))
        heard = Heard()
        instance.attach(heard)
        lines = [bytes([65 + n]) * (3_000_000 + n) for n in range(4)]
        instance.pause_reading()
        for line in lines:
            instance.send(line)
        assert not instance.writable
        await asyncio.sleep(0.3)  # so much fits nowhere on the way: it must not be read all the same
        assert not heard.lines
        assert instance.consumed < sum(map(len, lines)) + 4 or not instance.writable
        instance.resume_reading()
        await heard.line(3)
        assert heard.lines == lines
        await until(lambda: instance.writable)
        assert heard.writable == 1


async def test_twenty_at_once_come_and_go(real_engine: RealEngine) -> None:
    async with within(110), running(real_engine) as runtime:
        instances = await asyncio.gather(*(runtime.start(shell(ECHO)) for _ in range(20)))
        heard = [Heard() for _ in instances]
        for instance, ear in zip(instances, heard, strict=True):
            instance.attach(ear)
        for number, instance in enumerate(instances):
            instance.send(str(number).encode())
        for number, ear in enumerate(heard):
            assert await ear.line(1) == str(number).encode()
        assert len({instance.pid for instance in instances}) == 20
        await asyncio.gather(*(instance.stop() for instance in instances))
        assert not runtime.instances


async def test_values_of_variables_arrive_and_stand_in_no_label(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell('echo "$TOKEN $(id -u)"; exec cat', env={"TOKEN": "s3cret"}))
        heard = Heard()
        instance.attach(heard)
        assert await heard.line(0) == b"s3cret 0"
        _, seen = real_engine.ask("GET", f"/containers/{instance.id}/json")
        assert "s3cret" not in json.dumps(seen["Config"]["Labels"]) and "s3cret" not in json.dumps(
            seen["Args"]
        )
        host = seen["HostConfig"]
        assert host["CapDrop"] and "no-new-privileges" in json.dumps(host["SecurityOpt"])
        assert host["RestartPolicy"]["Name"] in ("no", "") and not host["AutoRemove"]
        assert host["Memory"] == 2 * 1024**3 and host["PidsLimit"] == 1024


async def test_read_only_it_can_write_to_tmp_alone(real_engine: RealEngine) -> None:
    script = "echo x >/tmp/x && echo tmp; echo x 2>/dev/null >/etc/x || echo refused; exec cat"
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell(script, read_only=True))
        heard = Heard()
        instance.attach(heard)
        assert [await heard.line(0), await heard.line(1)] == [b"tmp", b"refused"]


async def test_what_cannot_start_says_why_and_leaves_nothing(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        with pytest.raises(UserError) as missing:
            await runtime.start(spec(image="mooring-nowhere:1", pull="never"))
        assert missing.value.code == "image_missing"
        with pytest.raises((Unavailable, UserError)) as unreachable:
            await runtime.start(spec(image="127.0.0.1:1/nothing:1"))
        assert unreachable.value.code == "pull_failed"
        with pytest.raises(UserError) as volume:
            await runtime.start(
                spec().__class__(
                    name="t", image="x", volumes=(spec().volumes[0]._replace(source="/no/such"),)
                )
            )
        assert volume.value.code == "bad_volume"
        assert not runtime.instances


async def test_a_program_that_the_image_does_not_have_is_told(real_engine: RealEngine) -> None:
    """By the engine; or by the init process, on stderr."""
    told = Told()
    async with within(60), running(real_engine, told) as runtime:
        for volumes in ((), (Volume("/usr/share", "/sbin", True),)):
            missing = spec("/no/such/program")
            try:
                instance = await runtime.start(replace(missing, volumes=(*missing.volumes, *volumes)))
            except UserError as refused:
                assert refused.code == "program_not_found" and "/no/such/program" in refused.message
            else:
                exit = await instance.wait_gone()
                assert exit.code in (1, 127) and exit.error is not None
                assert exit.error.code == "program_not_found" and told.stderr[-1] in exit.error.message


async def test_a_program_for_another_architecture_is_told_apart(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        error: UserError | None = None
        try:
            instance = await runtime.start(spec(image=FOREIGN))
        except UserError as refused:
            error = refused
        else:
            error = (await instance.wait_gone()).error
        assert error is not None and error.code == "wrong_architecture"


async def test_a_start_that_is_cancelled_anywhere_leaves_no_container(real_engine: RealEngine) -> None:
    async with within(100), running(real_engine) as runtime:
        await (await runtime.start(shell(ECHO))).stop()
        for steps in range(1, 40, 3):
            starting = asyncio.create_task(runtime.start(shell(ECHO)))
            for _ in range(steps):
                await asyncio.sleep(0.01)
                if starting.done():
                    break
            starting.cancel()
            await asyncio.wait([starting])
            if not starting.cancelled():
                await starting.result().stop()
                break


async def test_a_closed_runtime_starts_nothing(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        await runtime.start(shell(ECHO))
        await runtime.aclose()
        with pytest.raises(Unavailable) as closed:
            await runtime.start(shell(ECHO))
        assert closed.value.code == "shutting_down"


async def test_a_stop_that_is_cut_short_ends_it_all_the_same(real_engine: RealEngine) -> None:
    async with within(60), running(real_engine) as runtime:
        instance = await runtime.start(shell("trap '' TERM; while :; do sleep 0.05; done"))
        stopping = instance.begin_stop()
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        assert (await instance.wait()).ending is Ending.EXITED
        await until(lambda: instance.id not in real_engine.containers())


async def test_without_its_init_process_it_runs_too(real_engine: RealEngine) -> None:
    """Over `/sbin`, where Docker puts it, lies a folder that has none and cannot be written."""
    async with within(60), running(real_engine) as runtime:
        covered = shell(ECHO)
        covered = replace(covered, volumes=(*covered.volumes, Volume("/usr/share", "/sbin", True)))
        instance = await runtime.start(covered)
        heard = Heard()
        instance.attach(heard)
        assert await heard.line(0) == b"ready"


async def test_a_folder_is_shown_as_was_asked_for(real_engine: RealEngine, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("seen")
    script = "cat /in/x; echo; echo y 2>/dev/null >/in/y || echo refused; exec cat"
    async with within(60), running(real_engine) as runtime:
        asked = shell(script)
        for options, said in (("", b"seen"), ("z", b"seen"), ("ro,z", b"refused")):
            folder = Volume.parse(f"{tmp_path}:/in:{options}")
            instance = await runtime.start(replace(asked, volumes=(*asked.volumes, folder)))
            heard = Heard()
            instance.attach(heard)
            instance.send(b"seen")
            assert [await heard.line(0), await heard.line(1)] == [b"seen", said]


async def test_it_has_the_network_that_was_asked_for(real_engine: RealEngine) -> None:
    ours = {path.name for path in Path("/sys/class/net").iterdir()}
    async with within(60), running(real_engine) as runtime:
        asked = shell("echo $(ls /sys/class/net); exec cat")
        for there, seen in ((asked, {"lo"}), (replace(asked, network="host"), ours)):
            instance = await runtime.start(there)
            heard = Heard()
            instance.attach(heard)
            assert set((await heard.line(0)).decode().split()) == seen
