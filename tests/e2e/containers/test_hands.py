"""What others, or the server itself, do to its containers; what calls, sessions and commands see of it."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.containers.engines import RealEngine
from tests.e2e.containers.dock import HARD, begin_call, dock, error_of, go_on
from tests.support import within


async def test_killed_its_call_is_told_at_once_and_its_session_goes_on(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client, ours.client() as other:
            call = await begin_call(client)
            assert await other.text("echo", text="hi") == "hi"
            killed, untouched = await ours.container_of(client), await ours.container_of(other)
            slow = await begin_call(other)
            await ours.kill(killed)
            error = await error_of(call)
            assert error["data"]["reason"] == "server_exited", error
            assert error["data"]["exit"]["code"] == 137, error
            assert "137" in error["message"]
            assert await client.text("echo", text="again") == "again"
            replaced = await ours.container_of(client)
            assert replaced != killed and await ours.container_of(other) == untouched
            await go_on(other, slow)
            await ours.left(replaced, untouched)
            [exit] = (await ours.seen())["exits"]
            assert (exit["container"], exit["code"]) == (killed, 137)
            assert "exited" in [event["kind"] for event in await ours.events()]


async def test_one_that_exits_on_a_call_has_told_its_status(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            answer = await client.ask("tools/call", {"name": "crash", "arguments": {"code": 7}})
            data = answer["error"]["data"]
            assert (data["reason"], data["exit"]["code"]) == ("server_exited", 7), answer
            assert await client.text("echo", text="again") == "again"
            await ours.left(await ours.container_of(client))


async def test_removed_it_is_not_wanted_any_more_until_it_is_started(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run(spare=1)
        async with ours.client() as client, ours.client() as other:
            call = await begin_call(client)
            params = {
                "name": "sleep",
                "arguments": {"seconds": 2, "steps": 40},
                "_meta": {"progressToken": 1},
            }
            others = await other.stream("POST", other.request("tools/call", params))
            await ours.remove(await ours.container_of(client))
            error = await error_of(call)
            # Podman may tell its exit before it tells that it is being removed: docs/containers.md
            reasons = {"docker": {"server_removed"}, "podman": {"server_removed", "server_exited"}}
            assert error["data"]["reason"] in reasons[real_engine.kind], error
            *_, last = await others.rest()
            assert last["result"]["content"][0]["text"] == "slept 2 s", "what was under way is finished"
            server = await ours.becomes(lambda server: server["state"] == "stopped")
            assert (server["reason"], server["desired"]) == ("removed_outside", "stopped"), server
            await ours.left()
            assert "stopped (removed outside Mooring)" in await ours.place.done("ls")
            assert "removed_outside" in [event["kind"] for event in await ours.events()]
            answer = await client.raw("POST", client.request("tools/call", {"name": "echo"}))
            assert answer.status == 503 and b"removed outside Mooring" in answer.body, answer

            await ours.place.done("daemon", "restart")
            await ours.becomes(lambda server: server["reason"] == "removed_outside")
            await ours.place.done("daemon", "stop")
            await ours.place.done("daemon", "start")
            await ours.becomes(lambda server: server["reason"] == "removed_outside")
            assert "stopped (removed outside Mooring)" in await ours.place.done("ls")
            answer = await client.raw("POST", client.request("tools/call", {"name": "echo"}))
            assert answer.status == 503 and b"removed outside Mooring" in answer.body, answer
            assert not ours.ours()

            await ours.place.done("start", "demo")
            for one in (client, other):
                assert await one.text("echo", text="the same session") == "the same session"


async def test_removed_and_started_at_once_it_runs(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            await ours.remove(await ours.container_of(client))
            await ours.becomes(lambda server: server["state"] == "stopped")
            await ours.place.done("start", "demo")
            assert await client.text("echo", text="the same session") == "the same session"


async def test_one_that_others_stop_and_then_remove_is_removed(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            await ours.do("POST", f"/containers/{container}/stop?t=1")
            await ours.do("DELETE", f"/containers/{container}?v=1")
            server = await ours.becomes(lambda server: server["state"] == "stopped")
            assert server["reason"] == "removed_outside", server
            await ours.left()


async def test_a_spare_that_is_removed_counts_as_much(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run(spare=1)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            server = await ours.becomes(lambda server: "spare" in {one["use"] for one in server["instances"]})
            [spare] = [one["container"] for one in server["instances"] if one["use"] == "spare"]
            await ours.remove(spare)
            server = await ours.becomes(lambda server: server["state"] == "stopped")
            assert server["reason"] == "removed_outside", server
            await ours.left()


@pytest.mark.parametrize("spare", [0, 1])
async def test_restarted_by_others_it_is_attached_to_again_and_serves_the_session(
    tmp_path: Path, real_engine: RealEngine, spare: int
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run(spare=spare)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            await ours.becomes(lambda server: len(server["instances"]) == 1 + spare)
            before = ours.ours()
            for n in range(4):
                await ours.restart(container)
                assert await client.text("echo", text=f"{n}") == f"{n}"
                assert await ours.container_of(client) == container
                assert ours.ours() == before
            server = await ours.seen()
            assert server["state"] == "ready", server
            kinds = [event["kind"] for event in await ours.events()]
            assert not {"failed", "backoff"} & set(kinds), kinds


async def test_restarted_by_others_with_a_call_that_call_is_told(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            call = await begin_call(client)
            container = await ours.container_of(client)
            restarting = asyncio.create_task(ours.restart(container))
            error = await error_of(call)
            assert error["data"]["reason"] in ("server_exited", "server_restarted"), error
            # While it is down, a call waits for it.
            assert await client.text("echo", text="again") == "again"
            await restarting
            assert await ours.container_of(client) == container
            await ours.left(container)


async def test_stopped_by_others_it_is_replaced(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            await ours.do("POST", f"/containers/{container}/stop?t=1")
            assert await client.text("echo", text="again") == "again"
            other = await ours.container_of(client)
            assert other != container
            await ours.left(other)
            assert (await ours.seen())["state"] == "ready"


async def test_paused_it_is_waited_for_and_not_replaced(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run("--ping-interval", "200ms", "--ping-timeout", "200ms")
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            await ours.do("POST", f"/containers/{container}/pause")
            server = await ours.becomes(lambda server: server["reason"] == "paused")
            assert [one["use"] for one in server["instances"]] == ["paused"]
            assert "(paused)" in await ours.place.done("ls")
            await asyncio.sleep(2)  # ten pings, if there were any
            call = asyncio.create_task(client.text("echo", text="patience"))
            await ours.becomes(lambda server: server["calls"] == 1)
            await asyncio.wait([call], timeout=1)
            assert not call.done() and (await ours.seen())["reason"] == "paused"
            await ours.do("POST", f"/containers/{container}/unpause")
            async with within():
                assert await call == "patience"
            assert await ours.container_of(client) == container and ours.ours() == {container}
            server = await ours.becomes(lambda server: server["reason"] != "paused")
            assert server["state"] == "ready" and not server["exits"]


async def test_a_paused_one_can_be_stopped_and_killed(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run()
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            await ours.do("POST", f"/containers/{container}/pause")
            await ours.becomes(lambda server: server["reason"] == "paused")
            await ours.place.done("stop", "demo")
            assert not ours.ours()
            await ours.place.done("start", "demo")
            assert await client.text("echo", text="again") == "again"
            assert (await ours.seen())["reason"] != "paused"


async def test_out_of_memory_is_told_where_the_engine_says_so(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run("--memory", "48MiB", args=HARD)
        async with ours.client() as client:
            assert (await client.result("x/eat", {"bytes": 1 << 20}))["bytes"] == 1 << 20
            answer = await client.ask("x/eat", {"bytes": 300 << 20})
            data = answer["error"]["data"]
            assert (data["reason"], data["exit"]["code"]) == ("server_exited", 137), answer
            if real_engine.kind == "docker":
                assert data["exit"]["out_of_memory"] is True, answer
                assert "out of memory" in answer["error"]["message"]
            assert await client.result("x/anything") == {}
            [exit] = (await ours.seen())["exits"]
            if real_engine.kind == "docker":
                assert "out of memory" in exit["how"]


async def test_one_that_hangs_is_really_replaced(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run("--ping-interval", "200ms", "--ping-timeout", "300ms", args=HARD)
        async with ours.client() as client:
            assert await client.result("x/hang") == {}
            hung = await ours.container_of(client)
            await ours.becomes(lambda server: hung not in {one["container"] for one in server["instances"]})
            assert await client.result("x/anything") == {}
            other = await ours.container_of(client)
            assert other != hung
            await ours.left(other)


async def test_many_sessions_share_one_container_and_go_on_with_the_next(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours, contextlib.AsyncExitStack() as stack:
        await ours.run("--shared")
        clients = [await stack.enter_async_context(ours.client()) for _ in range(3)]
        for client in clients:
            assert await client.text("echo", text="hi") == "hi"
        [container] = ours.ours()
        calls = [await begin_call(client) for client in clients]
        await ours.kill(container)
        for call in calls:
            error = await error_of(call)
            assert (error["data"]["reason"], error["data"]["exit"]["code"]) == ("server_exited", 137), error
        pids = [await client.text("counter") for client in clients]
        assert len(pids) == 3
        server = await ours.becomes(lambda server: len(server["instances"]) == 1)
        [other] = [one["container"] for one in server["instances"]]
        assert other != container
        await ours.left(other)
