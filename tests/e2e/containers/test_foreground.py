"""`mooring run --foreground --image …`: without a daemon, and nothing is kept."""

import json
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.containers.engines import RealEngine
from tests.containers.relay import Relay
from tests.e2e.containers.dock import DEMO, HASTY, STUBBORN, WAIT_S, begin_call, error_of, image_options
from tests.e2e.program import Program, carrying, kill
from tests.e2e.test_daemon_command import MOORING
from tests.mcp_client import client_of
from tests.support import children, until, within


class Foreground:
    """One that runs."""

    def __init__(self, program: Program, engine: RealEngine, name: str, token: str) -> None:
        self.program = program
        self.engine = engine
        self.name = name
        self.token = token
        self.port = 0

    @property
    def pid(self) -> int:
        return self.program.process.pid

    def containers(self) -> list[str]:
        return self.engine.containers(f"dev.mooring.workload={self.name}")

    async def container(self) -> str:
        """The only one, once that of the first look has ended."""
        await until(lambda: len(self.containers()) == 1, WAIT_S)
        [container] = self.containers()
        return container


@asynccontextmanager
async def foreground(
    engine: RealEngine, *options: str, args: tuple[str, ...] = DEMO, socket: Path | None = None
) -> AsyncIterator[Foreground]:
    """It must have ended by itself by the end of the block; and then nothing is left of it.

    `socket`: where it reaches the engine instead.
    """
    name, token = f"fore-{uuid.uuid4().hex[:8]}", f"MOORING_E2E={uuid.uuid4().hex}"
    key, _, value = token.partition("=")
    argv = [MOORING, "run", "--foreground", name, "--port", "0", "--log-format", "json", "--spare", "0"]
    argv += [*image_options(socket or engine), *HASTY, *options, "--", *args]
    program = Program(argv, listen_to="stderr", environment={**os.environ, key: value})
    one = Foreground(program, engine, name, token)
    try:
        async with program:
            async with within(60):
                url = (await program.message(lambda line: line.get("event") == "listening"))["url"]
            one.port = urlsplit(url).port or 0
            yield one
            await program.ended()
        await until(lambda: not carrying(token), WAIT_S)
        assert not one.containers(), "containers are left"
    finally:
        # Only after a failure is there anything left to end; and then it must not disturb the next test.
        for pid in carrying(token):
            os.kill(pid, signal.SIGKILL)
        for container in one.containers():
            engine.ask("DELETE", f"/containers/{container}?force=1&v=1")


async def test_it_serves_until_it_is_told_to_stop(real_engine: RealEngine) -> None:
    async with foreground(real_engine) as ours:
        async with client_of(ours.port) as client:
            call = await begin_call(client)
            container = await ours.container()
            real_engine.do("POST", f"/containers/{container}/kill")
            error = await error_of(call)
            assert (error["data"]["reason"], error["data"]["exit"]["code"]) == ("server_exited", 137), error
            assert await client.text("echo", text="again") == "again"
            await until(lambda: container not in ours.containers(), WAIT_S)
        os.kill(ours.pid, signal.SIGTERM)
        assert await ours.program.ended() == 0, ours.program.told()
        assert not ours.containers()


async def test_its_container_removed_it_drains_and_exits_0(real_engine: RealEngine) -> None:
    async with foreground(real_engine) as ours, AsyncExitStack() as stack:
        async with client_of(ours.port) as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container()
            other = await stack.enter_async_context(client_of(ours.port))
            params = {
                "name": "sleep",
                "arguments": {"seconds": 2, "steps": 40},
                "_meta": {"progressToken": 1},
            }
            call = await other.stream("POST", other.request("tools/call", params))
            real_engine.do("DELETE", f"/containers/{container}?force=1&v=1")
            *_, last = await call.rest()
            assert last["result"]["content"][0]["text"] == "slept 2 s", "what was under way is finished"
            assert await ours.program.ended() == 0, ours.program.told()
            assert "removed outside Mooring" in ours.program.told()
        assert not ours.containers()


async def test_its_call_is_told_of_the_removal(real_engine: RealEngine) -> None:
    async with foreground(real_engine) as ours, client_of(ours.port) as client:
        call = await begin_call(client)
        container = await ours.container()
        real_engine.do("DELETE", f"/containers/{container}?force=1&v=1")
        error = await error_of(call)
        # Podman may tell its exit before it tells that it is being removed: docs/containers.md
        reasons = {"docker": {"server_removed"}, "podman": {"server_removed", "server_exited"}}
        assert error["data"]["reason"] in reasons[real_engine.kind], error
        assert await ours.program.ended() == 0, ours.program.told()


@pytest.mark.parametrize("args", [DEMO, STUBBORN])
async def test_killed_it_leaves_no_container(real_engine: RealEngine, args: tuple[str, ...]) -> None:
    async with foreground(real_engine, args=args) as ours, client_of(ours.port):
        await ours.container()
        kill(ours.pid)
        await ours.program.process.wait()
        await until(lambda: not ours.containers(), WAIT_S)


async def test_killed_with_its_guardian_the_next_one_ends_what_was_left(real_engine: RealEngine) -> None:
    async with foreground(real_engine) as bystander, client_of(bystander.port) as other:
        assert await other.text("echo", text="hi") == "hi"
        async with foreground(real_engine, args=STUBBORN) as ours:
            async with client_of(ours.port):
                left = await ours.container()
                for pid in (*children(ours.pid), ours.pid):
                    os.kill(pid, signal.SIGSTOP)
                for pid in (*children(ours.pid), ours.pid):
                    kill(pid)
                await ours.program.process.wait()
                assert ours.containers() == [left]
            async with foreground(real_engine) as following:
                await until(lambda: not ours.containers(), WAIT_S)
                os.kill(following.pid, signal.SIGTERM)
        assert len(bystander.containers()) == 1, "it lives, and has the same owner"
        assert await other.text("echo", text="still here") == "still here"
        os.kill(bystander.pid, signal.SIGTERM)


async def test_its_engine_gone_and_back_it_goes_on(tmp_path: Path, real_engine: RealEngine) -> None:
    async with (
        Relay(tmp_path, real_engine.socket) as relay,
        foreground(real_engine, socket=relay.path) as ours,
    ):
        async with client_of(ours.port) as client:
            assert await client.text("echo", text="hi") == "hi"
            relay.is_closed = True
            relay.cut("")
            await until(lambda: "engine_unreachable" in json.dumps(ours.program.messages))
            relay.is_closed = False
            assert await client.text("echo", text="the same session") == "the same session"
        os.kill(ours.pid, signal.SIGTERM)
        assert await ours.program.ended() == 0, ours.program.told()
