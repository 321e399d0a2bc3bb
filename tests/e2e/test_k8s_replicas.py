"""Three rendered pods that share a real Redis, each started, asked and ended as the kubelet does it."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.mooring import COMMAND, LINUX_ONLY
from tests.e2e.program import Program
from tests.e2e.test_k8s_command import TOKEN, Pod, rendered
from tests.http_client import Peer
from tests.ledger import Ledger
from tests.manifests import Manifest, container, of_kind
from tests.mcp_client import McpClient
from tests.replicas.sets import PASSWORD, running_place
from tests.support import within

pytestmark = [LINUX_ONLY, pytest.mark.e2e]

BEARER = {"Authorization": f"Bearer {TOKEN}"}
REPLICA_KEY = "known-to-replicas-alone"
KEPT_KEY = "mooring:tools:time:key"
"""Where they would keep one that they made themselves."""
GRACE = ("--drain-delay", "1s", "--drain-timeout", "10s")
LAG_S = 0.5
"""For so long after its end was asked for, requests still come to a pod."""


class Replica(Pod):
    """A pod of the set: it has an address of its own, and the port that all have."""

    def __init__(self, objects: list[Manifest], folder: Path, secrets: dict[str, str], ip: str) -> None:
        super().__init__(objects, folder, secrets)
        self.ip = ip
        self.environment["POD_IP"] = ip

    @property
    def port(self) -> int:
        [only] = container(self.objects)["ports"]
        return int(only["containerPort"])

    def words(self) -> list[str]:
        """All as rendered, but that another pod's address is ours, too."""
        words = super().words()
        words[words.index("--host") + 1] = self.ip
        words[words.index("--port") + 1] = str(self.port)
        return words

    async def holds(self, kind: str) -> bool:
        """Does a probe succeed?"""
        get = container(self.objects)[kind]["httpGet"]
        assert get["port"] == container(self.objects)["ports"][0]["name"]
        try:
            async with McpClient(self.port) as kubelet:
                kubelet.host = self.ip
                return (await (await kubelet.peer()).get(get["path"])).status == 200
        except (OSError, asyncio.IncompleteReadError):
            return False

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Program]:
        """As the kubelet does it: no probe is asked before the one for the start has succeeded."""
        assert container(self.objects)["command"] == [COMMAND.name]
        assert "lifecycle" not in container(self.objects), "nothing is done before SIGTERM"
        argv: list[str | Path] = [COMMAND, *self.words()]
        async with Program(argv, listen_to="stderr", environment=self.environment) as program:
            async with within(60):
                for kind in ("startupProbe", "readinessProbe"):
                    while not await self.holds(kind):
                        await asyncio.sleep(0.05)
            assert await self.holds("livenessProbe")
            yield program


class Caller(McpClient):
    """A client of the Service: each request goes to the next of the pods that are ready, as was told last."""

    def __init__(self, ready: list[Replica]) -> None:
        super().__init__(ready[0].port, headers={**BEARER, "Host": "time"})
        self._ready = ready
        self._turn = itertools.count()
        self.is_over = False

    async def peer(self) -> Peer:
        self.host = self._ready[next(self._turn) % len(self._ready)].ip
        return await super().peer()

    async def go_on(self, name: str) -> int:
        """Until it is over; returns how often."""
        for n in itertools.count():
            if self.is_over:
                return n
            answer = await self.ask("x/mark", {"mark": f"{name}-{n}", "delay_s": 0.0})
            assert answer["result"]["mark"] == f"{name}-{n}"
            await asyncio.sleep(0.01)
        raise AssertionError


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    (tmp_path / "ledger").touch()
    return Ledger(tmp_path / "ledger")


async def rolled(pod: Replica, program: Program, ready: list[Replica]) -> None:
    """Ended as for a new version: routes to it are taken away at the same time, and a little later."""
    program.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(LAG_S)
    assert not await pod.holds("readinessProbe")
    assert await pod.holds("livenessProbe")
    ready.remove(pod)
    async with within(pod.grace_s - LAG_S):  # then comes SIGKILL
        assert await program.ended() == 0, program.told()


async def test_three_pods_are_rolled_and_nobody_notices(ledger: Ledger, tmp_path: Path) -> None:
    with running_place("redis", "tls", tmp_path / "place") as place:
        objects = rendered(
            *("time", "--image", "a:1", "--replicas", "3", *GRACE),
            *("--redis-url", place.url, "--redis-secret", "redis-auth", "--redis-ca-secret", "redis-ca"),
            *("--", *ledger.command),
        )
        assert place.login.ca is not None
        secrets = {
            "time-tokens/tokens": f"me {TOKEN}\n",
            "time-tokens/replica-key": f"{REPLICA_KEY}\n",
            "redis-auth/password": PASSWORD,
            "redis-ca/ca.crt": place.login.ca.read_text(),
        }
        count = of_kind(objects, "StatefulSet")["spec"]["replicas"]
        pods = [Replica(objects, tmp_path / f"time-{n}", secrets, f"127.1.46.{70 + n}") for n in range(count)]
        async with AsyncExitStack() as stack:
            programs = [await stack.enter_async_context(pod.started()) for pod in pods]
            ready = list(pods)
            callers = [await stack.enter_async_context(Caller(ready)) for _ in range(4)]
            for caller in callers:
                await caller.initialize()
            names = [caller.session for caller in callers]
            calling = [asyncio.create_task(one.go_on(f"c{n}")) for n, one in enumerate(callers)]
            try:
                for n, pod in reversed(list(enumerate(pods))):  # as a StatefulSet does it
                    await rolled(pod, programs[n], ready)
                    programs[n] = await stack.enter_async_context(pod.started())
                    ready.append(pod)
                    await asyncio.sleep(1)
            finally:
                for caller in callers:
                    caller.is_over = True
                done = await asyncio.gather(*calling)
            assert all(count > 50 for count in done)
            assert [caller.session for caller in callers] == names
            for n in reversed(range(count)):  # scaled to nothing: nobody is left to pass anything on to
                programs[n].process.send_signal(signal.SIGTERM)
                async with within(pods[n].grace_s):
                    assert await programs[n].ended() == 0
            said = "".join(program.told() for program in programs)
            assert not any(secret in said for secret in (PASSWORD, TOKEN, REPLICA_KEY))
        [node] = place.nodes
        assert node.ask("GET", KEPT_KEY) is None
    marks = ledger.marks()
    assert len(marks) == sum(done) and set(marks.values()) == {1}
