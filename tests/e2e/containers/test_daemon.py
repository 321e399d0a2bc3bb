"""The daemon is restarted, or killed, or not alone on its engine."""

import asyncio
import json
import os
import signal
from pathlib import Path

from tests.containers.engines import RealEngine
from tests.containers.images import NAME
from tests.containers.relay import Relay
from tests.e2e.containers.dock import HARD, STUBBORN, WAIT_S, begin_call, dock, go_on
from tests.e2e.test_recovery_command import kill_both, written_sessions
from tests.support import alive, until, within


async def test_a_killed_daemon_leaves_no_container_and_the_next_goes_on(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run(spare=1)
        await ours.run(name="stubborn", args=STUBBORN)
        async with ours.client() as client, ours.client("stubborn") as other:
            assert await client.text("echo", text="hi") == "hi"
            assert await other.result("x/anything") == {}
            await ours.becomes(lambda server: len(server["instances"]) == 2)
            await until(lambda: len(ours.ours()) == 3)
            for name, session in (("demo", client.session), ("stubborn", other.session)):
                await until(lambda name=name, session=session: session in written_sessions(ours.place, name))  # type: ignore[misc]
            os.kill(await ours.daemon(), signal.SIGKILL)
            await ours.left()
            await ours.place.done("daemon", "start")
            assert await client.text("echo", text="the same session") == "the same session"
            assert await other.result("x/anything") == {}


async def test_killed_with_its_guardian_the_next_removes_what_was_left(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path / "a", real_engine) as ours, dock(tmp_path / "b", real_engine) as others:
        for mooring in (ours, others):
            await mooring.run(args=STUBBORN)
        async with ours.client() as client, others.client() as other:
            for one in (client, other):
                assert await one.result("x/anything") == {}
            left, innocent = await ours.container_of(client), await others.container_of(other)
            await until(lambda: client.session in written_sessions(ours.place, "demo"))
            await kill_both(await ours.daemon())
            assert ours.ours() == {left}
            await ours.place.done("daemon", "start")
            assert await client.result("x/anything") == {}
            now = await ours.container_of(client)
            assert now != left
            await ours.left(now)
            assert "leftover_ended" in [event["kind"] for event in await ours.events()]
            assert await other.result("x/anything") == {}
            assert await others.container_of(other) == innocent


async def test_a_daemon_that_takes_over_has_the_containers_too(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run(spare=1)
        async with ours.client() as client, ours.client() as busy:
            assert await client.text("echo", text="hi") == "hi"
            assert await busy.text("echo", text="hi") == "hi"
            containers = [await ours.container_of(one) for one in (client, busy)]
            await ours.becomes(lambda server: len(server["instances"]) == 3)
            before, is_over, calls = ours.ours(), False, 0

            async def call_all_the_time() -> None:
                nonlocal calls
                while not is_over:
                    assert await busy.text("echo", text=f"{calls}") == f"{calls}"
                    calls += 1

            calling = asyncio.create_task(call_all_the_time())
            try:
                for _ in range(2):
                    daemon, so_far = await ours.daemon(), calls
                    await ours.place.done("daemon", "restart")
                    assert await ours.daemon() != daemon
                    await until(lambda daemon=daemon: not alive(daemon))  # type: ignore[misc]
                    await until(lambda so_far=so_far: calls > so_far + 10 or calling.done())  # type: ignore[misc]
                    assert not calling.done(), calling.result()
                is_over = True
                async with within():
                    await calling
            finally:
                calling.cancel()
                await asyncio.wait([calling])
            assert await client.text("echo", text="the same session") == "the same session"
            assert [await ours.container_of(one) for one in (client, busy)] == containers
            assert ours.ours() == before
            # It hears of them, and ends them, as the one before did.
            await ours.kill(containers[0])
            assert await client.text("echo", text="again") == "again"
            assert await ours.container_of(client) != containers[0]
            os.kill(await ours.daemon(), signal.SIGKILL)
            await ours.left()


async def test_a_call_goes_on_while_another_daemon_takes_over(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            params = {
                "name": "sleep",
                "arguments": {"seconds": 3, "steps": 30},
                "_meta": {"progressToken": 1},
            }
            call = await client.stream("POST", client.request("tools/call", params))
            container = await ours.container_of(client)
            await ours.place.done("daemon", "restart")
            *_, last = await call.rest()
            assert last["result"]["content"][0]["text"] == "slept 3 s"
            assert await client.text("echo", text="again") == "again"
            assert await ours.container_of(client) == container
            await ours.left(container)


async def test_one_that_is_paused_stays_so_while_another_daemon_takes_over(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run("--ping-interval", "200ms", "--ping-timeout", "200ms")
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            await ours.do("POST", f"/containers/{container}/pause")
            await ours.becomes(lambda server: server["reason"] == "paused")
            await ours.place.done("daemon", "restart")
            await ours.becomes(lambda server: [one["use"] for one in server["instances"]] == ["paused"])
            await ours.becomes(lambda server: server["reason"] == "paused")
            await ours.do("POST", f"/containers/{container}/unpause")
            assert await client.text("echo", text="again") == "again"
            assert await ours.container_of(client) == container and ours.ours() == {container}


async def test_two_moorings_and_others_on_one_engine_leave_each_other_alone(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path / "a", real_engine) as ours, dock(tmp_path / "b", real_engine) as theirs:
        for one in (ours, theirs):
            await one.run()
        labels = {"dev.mooring.owner": ours.owner, "com.example.tool": "other"}
        body = {"Image": NAME, "Cmd": ["/bin/cat"], "OpenStdin": True, "Labels": labels}
        status, foreign = real_engine.ask("POST", "/containers/create", json.dumps(body).encode())
        assert status == 201, foreign
        try:
            async with ours.client() as client, theirs.client() as other:
                call = await begin_call(other)
                container = await theirs.container_of(other)
                assert await client.text("echo", text="hi") == "hi"
                await ours.kill(await ours.container_of(client))
                # (A call that comes before that is known may have been executed by the one that is killed.)
                await ours.becomes(lambda server: server["exits"])
                assert await client.text("echo", text="again") == "again"
                await ours.place.done("restart", "demo")
                await until(lambda: client.session in written_sessions(ours.place, "demo"))
                os.kill(await ours.daemon(), signal.SIGKILL)
                await until(lambda: len(ours.ours()) == 1, WAIT_S)
                await ours.place.done("daemon", "start")
                assert await client.text("echo", text="and again") == "and again"
                await ours.remove(await ours.container_of(client))
                await ours.becomes(lambda server: server["state"] == "stopped")
                await ours.place.done("rm", "demo")
                await ours.place.done("daemon", "stop")
                await go_on(other, call)
                assert await theirs.container_of(other) == container
                assert not (await theirs.seen())["exits"]
                assert ours.ours() == {foreign["Id"]}, "whose owner's name alone proves nothing"
        finally:
            real_engine.do("DELETE", f"/containers/{foreign['Id']}?force=1&v=1")


async def test_a_server_in_containers_and_one_that_is_a_command_do_not_disturb_each_other(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.place.done("run", "plain", "--", *HARD)
        await ours.run(socket=relay.path)
        async with ours.client() as client, ours.client("plain") as plain:
            assert await client.text("echo", text="hi") == "hi"
            assert await plain.result("x/anything") == {}
            [instance] = [one for one in (await ours.seen("plain"))["instances"] if one["use"] == "serving"]
            assert not instance["container"]
            relay.is_closed = True
            relay.cut("")
            await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
            assert await plain.result("x/anything") == {}
            relay.is_closed = False
            assert await client.text("echo", text="again") == "again"
