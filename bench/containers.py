"""A server in containers: on an engine of the benchmark's own, by Mooring and by hand.

The engine is that of the tests: a real one, in a folder of its own, as root. No engine that the machine may
have is touched. The image is empty; the server is the same program as everywhere, out of a mounted folder.
"""

import http.client
import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

from bench.client import first_answer
from bench.measuring import Unable
from bench.results import MOORING
from bench.targets import Argv, Endpoint, Running, endpoint, free_port, mooring_command, started
from mooring.runtimes.containers.spec import ContainerOptions
from tests.containers.engines import ENGINES, RealEngine
from tests.containers.images import NAME, host_volumes

__all__ = [
    "DOCKER",
    "PODMAN",
    "before_command",
    "by_hand",
    "died_ns",
    "engine",
    "in_container",
    "moored",
    "options",
    "wait_for_containers",
]

DOCKER, PODMAN = "docker", "podman"
PATIENCE_S = 30.0

# What Mooring asks of an engine unless told otherwise: by hand the same container is made.
SAME = (
    *("--init", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "1024"),
    *("--memory", "2g", "--memory-swap", "2g", "--log-driver", "none", "--network", "none"),
)

_engines: dict[str, RealEngine] = {}
_users: dict[str, int] = {}


@contextmanager
def engine(kind: str = DOCKER) -> Iterator[RealEngine]:
    """One for all who are in here at the same time: the first starts it, the last ends it."""
    if lacks := ENGINES[kind].lacks():
        raise Unable(lacks)
    if kind not in _engines:
        _engines[kind] = ENGINES[kind](Path(mkdtemp(prefix="mooring-bench-")))
    _users[kind] = _users.get(kind, 0) + 1
    try:
        if not _engines[kind].pid:
            _engines[kind].set_up()
        yield _engines[kind]
    finally:
        _users[kind] -= 1
        if not _users[kind]:
            _engines.pop(kind).tear_down()


def options(where: RealEngine) -> ContainerOptions:
    """A container for any of our servers, for a daemon."""
    return ContainerOptions(
        image=NAME, volumes=host_volumes(), network="none", engine=f"unix://{where.socket}"
    )


def by_hand(where: RealEngine, child: Argv) -> Argv:
    """The same container on one's own stdin and stdout, as people write it into the settings of an editor."""
    if shutil.which("docker") is None:
        raise Unable("no docker (Debian: apt-get install docker.io)")
    volumes = [word for volume in host_volumes() for word in ("--volume", str(volume))]
    return ["docker", "-H", f"unix://{where.socket}", "run", "-i", "--rm", *SAME, *volumes, NAME, *child]


@contextmanager
def moored(where: RealEngine, child: Argv, *more: str) -> Iterator[Running]:
    """A Mooring that has answered a call from a container. That call's session is ended again."""
    asked = options(where)
    words = ["--image", asked.image, "--engine", asked.engine, "--network", asked.network]
    words += [word for volume in asked.volumes for word in ("--volume", str(volume))]
    port = free_port()
    with started(MOORING, mooring_command(port, child, *words, *more), port, child) as running:
        first_answer(port).leave()
        yield running


@contextmanager
def in_container(target: str, child: Argv) -> Iterator[Endpoint]:
    """Something to aim the load generator at. What is not Mooring has `docker run -i` as its server."""
    if target != MOORING:
        with before_command(target, child) as found:
            yield found
        return
    with engine() as where, moored(where, child) as running:
        yield running


@contextmanager
def before_command(target: str, child: Argv) -> Iterator[Endpoint]:
    """The same with `docker run -i` as the server of whatever it is, as any command may be."""
    with engine() as where, endpoint(target, by_hand(where, child)) as found:
        yield found


def wait_for_containers(where: RealEngine, number: int) -> list[str]:
    """Until there are so many, of any state."""
    deadline = time.monotonic() + PATIENCE_S
    while len(found := where.containers()) != number:
        if time.monotonic() > deadline:
            raise Unable(f"{len(found)} containers, not {number}, after {PATIENCE_S:g} s")
        time.sleep(0.02)
    return found


def died_ns(where: RealEngine, container: str, since_ns: int) -> int:
    """When it died, as the engine tells it to everybody; what is past is told again, if perhaps late."""
    connection = http.client.HTTPConnection("engine", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    filters = quote(json.dumps({"container": [container]}))
    try:
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(str(where.socket))
        connection.request("GET", f"/v1.41/events?since={since_ns // 10**9}&filters={filters}")
        for line in connection.getresponse():
            if (event := json.loads(line))["Action"] == "die":
                return int(event["timeNano"])
    except TimeoutError:
        pass
    finally:
        connection.close()
    raise Unable("the engine told of no end")
