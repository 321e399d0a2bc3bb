"""The engine goes and comes back, or cannot be heard for a while: nothing is lost, nothing is made up."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.containers.engines import RealEngine
from tests.containers.relay import Relay, as_it_is
from tests.e2e.containers.dock import STUBBORN, begin_call, dock, error_of, go_on
from tests.support import until


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
async def test_an_engine_that_is_back_serves_the_sessions_of_before(
    tmp_path: Path, real_engine: RealEngine, signum: int
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run(spare=1)
        async with ours.client() as client, ours.client() as other:
            assert await other.text("echo", text="hi") == "hi"
            call = await begin_call(client)
            await asyncio.to_thread(real_engine.stop, signum)
            try:
                error = await error_of(call)
                assert error["data"]["reason"] in ("engine_gone", "server_exited"), error
                server = await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
                assert (server["desired"], server["sessions"]) == ("running", 2), server
                assert "(engine unreachable)" in await ours.place.done("ls")
            finally:
                await asyncio.to_thread(real_engine.start)
            for one in (client, other):
                assert await one.text("echo", text="the same session") == "the same session"
            server = await ours.becomes(lambda server: server["state"] == "ready")
            assert server["reason"] != "engine_unreachable"
            # Of what ran before, nothing is left; and nothing is there that nobody knows of.
            server = await ours.becomes(lambda server: len(server["instances"]) == 3)
            await ours.left(*(one["container"] for one in server["instances"]))
            kinds = {event["kind"] for event in await ours.events()}
            assert not kinds & {"removed_outside", "failed", "session_lost"}, kinds
            await ours.place.done("rm", "demo")
            assert not ours.ours()


async def test_a_call_that_comes_while_the_engine_is_gone_waits_for_it(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            before = await ours.container_of(client)
            relay.is_closed = True
            relay.cut("")
            await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
            call = asyncio.create_task(client.text("echo", text="patience"))
            await ours.becomes(lambda server: server["calls"] == 1)
            relay.is_closed = False
            assert await call == "patience"
            after = await ours.container_of(client)
            assert after != before, "what it was connected by is gone"
            await ours.left(after)


async def test_stopped_while_its_engine_is_gone_it_leaves_nothing_when_that_is_back(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            relay.is_closed = True
            relay.cut("")
            await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
            await ours.place.done("stop", "demo")
            relay.is_closed = False
            await ours.place.done("start", "demo")
            assert await client.text("echo", text="again") == "again"
            await ours.left(await ours.container_of(client))


async def test_a_daemon_that_is_started_while_the_engine_is_gone_waits_for_it(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            await ours.place.done("daemon", "stop")
            relay.is_closed = True
            await ours.place.done("daemon", "start")
            await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
            relay.is_closed = False
            await ours.becomes(lambda server: server["state"] == "ready")
            assert await client.text("echo", text="again") == "again"


async def test_a_cut_of_the_events_costs_nothing(tmp_path: Path, real_engine: RealEngine) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            call = await begin_call(client)
            container = await ours.container_of(client)
            relay.cut("/events")
            await until(lambda: relay.requests("/events") == 1)
            # What happens while nobody hears it is seen afterwards.
            relay.refused = "/events"
            relay.cut("/events")
            await ours.do("POST", f"/containers/{container}/pause")
            relay.refused = ""
            await ours.becomes(lambda server: server["reason"] == "paused")
            await ours.do("POST", f"/containers/{container}/unpause")
            await ours.becomes(lambda server: server["reason"] != "paused")
            await go_on(client, call)
            assert await client.text("echo", text="hi") == "hi"
            assert await ours.container_of(client) == container and ours.ours() == {container}


async def test_a_removal_while_no_events_are_heard_is_one(tmp_path: Path, real_engine: RealEngine) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            relay.refused = "/events"
            relay.cut("/events")
            await ours.remove(await ours.container_of(client))
            server = await ours.becomes(lambda server: server["state"] == "stopped")
            assert server["reason"] == "removed_outside", server
            relay.refused = ""
            await ours.place.done("start", "demo")
            assert await client.text("echo", text="again") == "again"


async def test_a_removal_while_the_engine_cannot_be_reached_is_one_when_it_can_be(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            relay.is_closed = True
            relay.cut("")
            await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
            await ours.remove(container)
            relay.is_closed = False
            server = await ours.becomes(lambda server: server["state"] == "stopped")
            assert server["reason"] == "removed_outside", server
            assert not ours.ours()


async def test_a_restart_while_no_events_are_heard_is_no_removal_and_leaves_one_container(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            relay.refused = "/events"
            relay.cut("/events")
            await ours.restart(await ours.container_of(client))
            relay.refused = ""
            assert await client.text("echo", text="the same session") == "the same session"
            # The same, or another: unheard, a restart that takes long looks like an end by others' hands.
            await ours.left(await ours.container_of(client))
            assert (await ours.seen())["state"] == "ready"


async def test_a_daemon_that_takes_over_while_the_engine_is_gone_waits_for_it(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            relay.is_closed = True  # what is open stays so
            await ours.place.done("daemon", "restart")
            relay.is_closed = False
            assert await client.text("echo", text="the same session") == "the same session"
            await ours.left(await ours.container_of(client))


async def test_a_daemon_stopped_while_the_engine_is_gone_leaves_nothing_to_the_next(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        await ours.run(socket=relay.path, args=STUBBORN)
        async with ours.client() as client:
            assert await client.result("x/anything") == {}
            container = await ours.container_of(client)
            await ours.left(container)
            relay.is_closed = True
            await ours.place.done("daemon", "stop")
            assert ours.ours() == {container}
            relay.is_closed = False
            await ours.place.done("daemon", "start")
            assert await client.result("x/anything") == {}
            await ours.left(await ours.container_of(client))


async def test_our_own_removal_whose_answer_is_lost_is_none_by_others(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with Relay(tmp_path, real_engine.socket) as relay, dock(tmp_path, real_engine) as ours:
        removed: list[str] = []

        async def remove_and_break(line: str) -> bytes | None:
            if not line.startswith("DELETE"):
                return None
            path = line.split()[1]
            await ours.do("DELETE", path[path.index("/containers/") :])
            removed.append(path)
            relay.is_closed = True
            relay.cut("")
            return b""

        await ours.run(socket=relay.path)
        async with ours.client() as client, ours.client() as other:
            for one in (client, other):
                assert await one.text("echo", text="hi") == "hi"
            await ours.left(await ours.container_of(client), await ours.container_of(other))
            relay.before = remove_and_break
            assert (await other.raw("DELETE")).status == 204
            await until(lambda: removed)
            await ours.becomes(lambda server: server["reason"] == "engine_unreachable")
            relay.before, relay.is_closed = as_it_is, False
            assert await client.text("echo", text="the same session") == "the same session"
            await ours.left(await ours.container_of(client))
            assert (await ours.seen())["state"] == "ready"
            assert "removed_outside" not in {event["kind"] for event in await ours.events()}
