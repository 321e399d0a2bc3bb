"""deploy/: the image as its Dockerfile makes it, and what compose.yaml makes of it, in a real Docker.

There is no registry here: the images that these files name are made of this machine's programs, and packages
come from a folder. `docker compose` is not needed; its file is read, and what it says is done by hand.
"""

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.engines import RealDocker
from tests.containers.standins import of_programs, of_python, of_uv
from tests.mcp_client import McpClient
from tests.parts import node, require
from tests.support import within

pytestmark = pytest.mark.slow  # a minute

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
IMAGE = "mooring:compose"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NETWORK = "compose"
MOST_MB = 120
"""Beside the image of Python: Mooring with its packages, and uv, which is most of it."""


class Docker(RealDocker):
    """With the command of people."""

    def cli(self, *words: str, bound_s: float = 60) -> str:
        done = subprocess.run(
            ["docker", "-H", f"unix://{self.socket}", *words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "DOCKER_BUILDKIT": "0"},
            capture_output=True,
            text=True,
            check=False,
            timeout=bound_s,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def load(self, packed: bytes) -> None:
        status, said = self.ask("POST", "/images/load", packed, "application/x-tar")
        assert status == 200, said

    def about(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cli("inspect", name))[0]
        return found


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    """An engine that has built the image, without a network."""
    require("image")
    if (lacks := Docker.lacks()) or shutil.which("docker") is None:
        pytest.skip(lacks or "no docker: apt-get install docker-cli")
    docker = Docker(Path(tempfile.mkdtemp(prefix="mooring-image-")))
    try:
        docker.set_up()
        docker.load(of_python(f"python:{PYTHON}-slim"))
        docker.load(of_uv("ghcr.io/astral-sh/uv:0.13"))
        # For the other target, which is made on the way, and not used: npm is not there.
        docker.load(
            of_programs(
                "node:22-slim", {str(node()): "/usr/local/bin/node", "": "/usr/local/lib/node_modules"}
            )
        )
        build = ("build", "--network", "none", "--build-arg", f"PYTHON={PYTHON}")
        docker.cli(*build, "-f", "deploy/Dockerfile", "-t", IMAGE, ".", bound_s=300)
        yield docker
    finally:
        docker.tear_down()


def test_the_image_has_what_it_needs_and_little_more(docker: Docker) -> None:
    strict = ("run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL")
    assert "mooring run" in docker.cli(*strict, IMAGE)
    assert docker.cli(*strict, "--entrypoint", "id", IMAGE).startswith("uid=10001")
    assert docker.cli(*strict, "--entrypoint", "uvx", IMAGE, "--version").startswith("uv")
    size, base = (docker.about(name)["Size"] / 1e6 for name in (IMAGE, f"python:{PYTHON}-slim"))
    print(f"the image has {size:.0f} MB, {size - base:.0f} MB of them its own")
    assert size - base < MOST_MB
    # What was compiled when it was built is not compiled again at each start, which could not keep it.
    compiled = "import mooring.cli.main as m, pathlib; print(pathlib.Path(m.__cached__).exists())"
    assert docker.cli(*strict, "--entrypoint", "/opt/mooring/bin/python", IMAGE, "-c", compiled) == "True\n"


def as_words(name: str, service: dict[str, Any]) -> list[str]:
    """What compose.yaml says of a service, for `docker run`."""
    words = ["--detach", "--name", name, "--hostname", name, "--network", NETWORK]
    words += [f"--env={key}={value}" for key, value in service.get("environment", {}).items()]
    words += [f"--tmpfs={where}" for where in service.get("tmpfs", ())]
    words += [f"--cap-drop={what}" for what in service.get("cap_drop", ())]
    words += [f"--security-opt={what}" for what in service.get("security_opt", ())]
    if service.get("read_only"):
        words.append("--read-only")
    if "restart" in service:
        words.append(f"--restart={service['restart']}")
    if "stop_grace_period" in service:
        words.append(f"--stop-timeout={service['stop_grace_period'].removesuffix('s')}")
    for volume in service.get("volumes", ()):
        words.append(f"--volume={ROOT / 'deploy' / volume if volume.startswith('.') else volume}")
    if "healthcheck" in service:
        kind, *test = service["healthcheck"]["test"]
        assert kind == "CMD"
        words += [f"--health-cmd={' '.join(test)}", f"--health-interval={service['healthcheck']['interval']}"]
    return [*words, service["image"], *service.get("command", ())]


@pytest.fixture
def composed(docker: Docker) -> Iterator[Docker]:
    """All services, each after those that it depends on. Ports are not published: other tests run here."""
    docker.load(
        of_programs(
            SERVICES["redis"]["image"],
            {"redis-server": "/usr/local/bin/redis-server", "redis-cli": "/usr/local/bin/redis-cli"},
        )
    )
    config = "/usr/local/etc/haproxy/haproxy.cfg"
    docker.load(
        of_programs(
            SERVICES["haproxy"]["image"],
            {"haproxy": "/usr/local/sbin/haproxy"},
            ("haproxy", "-W", "-db", "-f", config),
        )
    )
    docker.cli("network", "create", NETWORK)
    try:
        for name, service in SERVICES.items():
            assert all(
                list(SERVICES).index(other) < list(SERVICES).index(name)
                for other in service.get("depends_on", ())
            )
            docker.cli("run", *as_words(name, service))
            if "healthcheck" in service:
                asyncio.run(healthy(docker, name))
        yield docker
    finally:
        for name in SERVICES:
            docker.ask("DELETE", f"/containers/{name}?force=1&v=1")
        docker.ask("DELETE", f"/networks/{NETWORK}")


async def healthy(docker: Docker, name: str) -> None:
    async with within(60):
        while docker.about(name)["State"]["Health"]["Status"] != "healthy":
            await asyncio.sleep(0.2)


class Caller:
    """A client that calls all the time."""

    def __init__(self, client: McpClient) -> None:
        self._client = client
        self.count = 0

    async def call(self) -> None:
        for n in itertools.count():
            answer = await self._client.ask("tools/call", {"name": "echo", "arguments": {"text": f"m{n}"}})
            assert answer["result"]["content"][0]["text"] == f"m{n}", answer
            self.count = n
            await asyncio.sleep(0.02)


async def test_each_replica_of_the_composition_is_restarted_and_clients_keep_their_sessions(
    composed: Docker,
) -> None:
    address = composed.about("haproxy")["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]
    async with McpClient(8080) as client:
        client.host = address
        async with within(60):
            while (await ready(address)) != 200:
                await asyncio.sleep(0.2)
        await client.initialize()
        session = client.session
        caller = Caller(client)
        calling = asyncio.create_task(caller.call())
        try:
            for name in ("mooring-1", "mooring-2", "mooring-3"):
                before = caller.count
                await asyncio.to_thread(composed.cli, "stop", name)
                assert composed.about(name)["State"]["ExitCode"] == 0
                assert not calling.done(), calling.exception()
                assert caller.count > before
                await asyncio.to_thread(composed.cli, "start", name)
                await asyncio.sleep(3)
            assert not calling.done(), calling.exception()
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        assert client.session == session
        print(f"{caller.count} calls")


async def ready(address: str) -> int:
    """As HAProxy passes it on."""
    try:
        async with McpClient(8080, path="/readyz") as client:
            client.host = address
            return (await client.raw("GET")).status
    except OSError:
        return 0
