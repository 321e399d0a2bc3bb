"""A server that listens in a container, on the network of this machine: engines of tests have no other."""

import asyncio
import os
import signal
from pathlib import Path

from tests.containers.engines import RealEngine
from tests.containers.images import python
from tests.e2e.containers.dock import WAIT_S, Dock, dock, image_options
from tests.faults.test_served_server import about, error_of, hung
from tests.mcp_client import McpClient
from tests.support import children, free_port, within

SERVER = str(Path(__file__).parents[2] / "served_server.py")


async def run(ours: Dock, *options: str) -> None:
    port = str(free_port())
    await ours.run(
        *("--network", "host", "--transport", "http", "--container-port", port, *options),
        args=python("-I", "-S", SERVER, "--port", port),
    )


async def program(ours: Dock) -> str:
    """The one container that there is."""
    seen = await ours.becomes(lambda server: [one for one in server["instances"] if one["use"] == "program"])
    [container] = [one["container"] for one in seen["instances"] if one["use"] == "program"]
    assert ours.ours() == {container}
    return str(container)


async def goes_on(client: McpClient) -> None:
    """A call that meets the end of the container is told so, and may be made again."""
    async with within(WAIT_S):
        while "result" not in (answer := await client.ask("tools/call", {"name": "echo", "arguments": {}})):
            assert answer["error"]["data"]["reason"] != "internal", answer
            await asyncio.sleep(0.05)


async def test_one_container_serves_all_and_its_end_is_that_of_their_calls(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await run(ours, "--env", "COLOUR=red")
        async with ours.client() as client, ours.client() as other:
            assert (await about(client, "COLOUR"))["value"] == "red"
            assert (await about(other))["sessions"] >= 2
            first = await program(ours)
            assert await ours.container_of(client) == await ours.container_of(other) == first
            await ours.logged("about to listen on")
            calls = [await hung(client), await hung(other)]
            await ours.kill(first)
            for call in calls:
                error = await error_of(call)
                assert error["data"]["reason"] == "server_exited", error
                assert error["data"]["exit"]["code"] == 137, error
            await goes_on(client)
            await goes_on(other)
            assert await program(ours) != first
            [exit] = (await ours.seen())["exits"]
            assert (exit["container"], exit["code"]) == (first, 137)
            assert await ours.place.done("stop", "demo") == "demo has stopped\n"
            assert not ours.ours()


async def test_others_may_restart_it_pause_it_and_remove_it(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await run(ours)
        async with ours.client() as client:
            await about(client)
            container = await program(ours)
            await ours.restart(container)
            await goes_on(client)
            assert await program(ours) == container, "what others have restarted is gone on with"
            await ours.do("POST", f"/containers/{container}/pause")
            await ours.becomes(lambda server: server["reason"] == "paused")
            await ours.do("POST", f"/containers/{container}/unpause")
            await ours.becomes(lambda server: server["reason"] == "working")
            await goes_on(client)
            await ours.remove(container)
            await ours.becomes(lambda server: server["reason"] == "removed_outside")
            await ours.left()


async def test_one_that_hangs_is_replaced_once_its_port_is_free(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await run(ours, "--ping-interval", "500ms", "--ping-timeout", "500ms")
        async with ours.client() as client:
            await about(client)
            first = await program(ours)
            init = real_engine.state(first)["Pid"]
            for pid in (init, *children(init)):
                os.kill(pid, signal.SIGSTOP)
            await ours.becomes(lambda server: any(one["how"] == "given up" for one in server["exits"]))
            await goes_on(client)
            assert await program(ours) != first


async def test_a_port_is_published_where_there_is_a_network_and_else_that_is_told(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    """The Docker of the tests has no bridge."""
    async with dock(tmp_path, real_engine) as ours:
        options = ("--network", "bridge", "--transport", "http", "--container-port", "8080")
        args = python("-I", "-S", SERVER, "--host", "0.0.0.0", "--port", "8080", "--late", "0.5")
        if real_engine.kind == "docker":
            words = ["run", "demo", *image_options(real_engine), *options, "--", *args]
            status, _, err = await ours.place.mooring(*words)
            assert status == 1 and "has not published port 8080" in err, err
            return
        await ours.run(*options, args=args)
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            await ours.kill(await program(ours))
            await goes_on(client)
