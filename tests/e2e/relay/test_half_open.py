"""A link that is dead and does not look it: packets vanish, and nobody is told. In networks of its own."""

import asyncio
import functools
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mooring.host.network import watching_network
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets
from mooring.relay.agent import Agent, Target
from mooring.relay.answering import Answering
from mooring.relay.policy import AgentPolicy, RelayPolicy
from tests.e2e.program import Json
from tests.e2e.relay.place import Place, Where, bearer, place
from tests.ledger import Caller, Ledger
from tests.mcp_client import client_of
from tests.networks import do, enter, inside, need_networks, path_of, skipped_if_not_allowed
from tests.relay.harness import Connected, LocalDoor, harness
from tests.relay.harness import bearer as fields
from tests.relay.test_calls import CALL, MIB, Server
from tests.support import until, within

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
    pytest.mark.timeout(300),
]

T = TypeVar("T")

HERE, THERE = "10.213.0.1", "10.213.0.2"
"""The relay's address, and the workstation's."""
QUICK = functools.partial(Limits, ping_interval_s=0.3, ping_timeout_s=0.7)
"""A heart that beats faster than in real life, which asks after 20 s and gives up after 20 more."""
PATIENT = RelayPolicy(hold_s=60.0, grace_s=90.0)


class Cable:
    """Between two networks: that of the relay and its callers, where the test is too, and a workstation's."""

    def __init__(self) -> None:
        self.near, self.far = (f"mooring-{os.getpid()}-{end}" for end in ("near", "far"))

    def lay(self) -> None:
        for name in (self.near, self.far):
            do("ip", "netns", "add", name)
            do("ip", "-n", name, "link", "set", "lo", "up")
        do(
            *("ip", "-n", self.near, "link", "add", "cable", "type", "veth"),
            *("peer", "name", "cable", "netns", self.far),
        )
        for name, address in ((self.near, HERE), (self.far, THERE)):
            do("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
            do("ip", "-n", name, "link", "set", "cable", "up")

    def remove(self) -> None:
        for name in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def cut(self) -> None:
        """Whatever is sent vanishes, in both directions; nobody is told."""
        for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o")):
            self._in_far("iptables", "-I", chain, way, "cable", "-j", "DROP")

    def mend(self) -> None:
        self._in_far("iptables", "-F")

    def change_address(self, last: int = 3) -> None:
        """Of the workstation: it has one more."""
        do("ip", "-n", self.far, "address", "add", f"10.213.0.{last}/24", "dev", "cable")

    @property
    def prefix(self) -> tuple[str, ...]:
        """Of commands on the workstation."""
        return ("nsenter", f"--net={path_of(self.far)}", "--")

    def _in_far(self, *words: str) -> None:
        do(*self.prefix, *words)


@pytest.fixture
def cable() -> Iterator[Cable]:
    """The test itself is at its near end."""
    need_networks()
    laid = Cable()
    try:
        with skipped_if_not_allowed():
            laid.lay()
            laid.cut()
            laid.mend()
        with inside(path_of(laid.near)):
            yield laid
    finally:
        laid.remove()


class Far:
    """A loop in a thread of its own, at the far end of the cable."""

    def __init__(self, cable: Cable) -> None:
        self._cable = cable
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        enter(path_of(self._cable.far))
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._over = asyncio.Event()
            self._loop.call_soon(self._began.set)
            runner.run(self._wait())

    async def _wait(self) -> None:
        await self._over.wait()

    def begin(self) -> None:
        self._thread.start()
        assert self._began.wait(20)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Over there; its result here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class Workstation:
    """At the far end: a server and an agent."""

    def __init__(self) -> None:
        self.server = Server()
        self._stack = AsyncExitStack()

    async def begin(self, token: str, port: int) -> None:
        listener = Listener(self.server)
        [(_, local)] = await listener.listen_tcp("127.0.0.1", 0)
        self._stack.push_async_callback(listener.aclose)
        policy = AgentPolicy(first_delay_s=0.05, longest_delay_s=0.2)
        door = LocalDoor(local, ("time",))
        answering = Answering(door, policy)
        target = Target(
            origin=Origin(host=HERE, port=port),
            path="/v1/server",
            shown=f"ws://{HERE}:{port}",
            servers=("time",),
            token=lambda: token,
        )
        self.agent = Agent(target, policy, on_open=answering.open)
        self.agent._sockets = ClientSockets(QUICK())
        running = Connected(self.agent, answering, asyncio.create_task(self.agent.run()), door)
        self._stack.push_async_callback(running.aclose)
        await until(lambda: self.agent.is_connected)

    async def answer(self) -> None:
        """The call that is held."""
        [held] = self.server.held
        held.start(200, [(b"content-type", b"text/plain")])
        held.write(b"done")
        held.end()

    async def aclose(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def workstation(cable: Cable, token: str, port: int) -> AsyncIterator[tuple[Far, Workstation]]:
    far, made = Far(cable), Workstation()
    far.begin()
    try:
        await far.do(made.begin(token, port))
        yield far, made
    finally:
        await far.do(made.aclose())
        far.end()


async def test_both_ends_notice_and_nothing_is_lost_there_or_elsewhere(
    cable: Cable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.relay.harness.Limits", QUICK)
    async with harness(tmp_path, PATIENT) as relay:
        [(_, port)] = await relay.listener.listen_tcp(HERE, 0)
        phone, client = relay.token("phone", calls="*"), relay.client()
        other = Server()
        near = await relay.connect(relay.token("desk", "time"), await relay.serve(other))

        async def ask(target: str) -> bytes:
            response = await client.request("POST", target, fields(phone), CALL)
            assert response.status < 300, response.status
            return await response.read(MIB)

        async with workstation(cable, relay.token("laptop", "time"), port) as (far, there):
            in_flight = asyncio.create_task(ask("/laptop/time/mcp?hold"))
            await until(lambda: there.server.held)
            keeper = relay.relay.registry.agent("laptop")
            assert keeper is not None
            await until(lambda: keeper.is_attached)
            cable.cut()
            into_the_void = asyncio.create_task(ask("/laptop/time/mcp?late"))
            answers = 0
            async with within(60):
                while keeper.is_attached or there.agent.is_connected:
                    await ask("/desk/time/mcp?meanwhile")
                    answers += 1
            await far.do(there.answer())
            assert not in_flight.done() and not into_the_void.done()
            assert len(there.server.asked) == 1, "what was sent into the void has not come"
            cable.mend()
            async with within(60):
                assert await in_flight == b"done"
                assert b"late" in await into_the_void
            assert [exchange.request.query for exchange in there.server.asked] == ["hold", "late"]
            assert there.agent.reconnects == keeper.reconnects == 1
        assert answers and len(other.asked) == answers
        assert near.agent.reconnects == 0 and near.agent.is_connected


async def status_of(there: Place) -> Json:
    [agent] = (await there.told("relay", "status"))["agents"]
    return dict(agent)


async def test_a_change_of_address_makes_the_agent_look(cable: Cable, tmp_path: Path) -> None:
    """Long before the heartbeat of either end would. What was under way is answered on the next link."""
    ledger = Ledger(tmp_path / "ledger")
    where = Where(host=HERE, listen="0.0.0.0", prefix=cable.prefix)
    async with (
        place(tmp_path, {"ledger": ledger.command}, where=where) as there,
        client_of(there.port, path="/laptop/ledger/mcp", headers=bearer(there.phone)) as client,
    ):
        caller = await Caller.of(client)
        caller.send("x/mark", mark="under-way", delay_s=0.5)
        await until(lambda: ledger.has("under-way"))
        cable.cut()
        seen = len(there.agent.messages)
        cable.change_address()
        async with within(60):
            await there.agent.message(lambda line: "does not answer" in line["message"], since=seen)
        assert (await status_of(there))["state"] == "connected", "the relay does not know yet"
        cable.mend()
        await there.agent.logged("connected", since=seen)
        async with within(60):
            assert (await caller.answer())["mark"] == "under-way"
            assert (await caller.mark("afterwards"))["mark"] == "afterwards"
        assert set(ledger.marks().values()) == {1}
        told = await status_of(there)
        assert (told["state"], told["reconnects"]) == ("connected", 1)


@pytest.mark.slow
async def test_the_commands_notice_by_their_own_heartbeat(cable: Cable, tmp_path: Path) -> None:
    """With no sign but silence: asked after 20 s, given up after 20 more."""
    ledger = Ledger(tmp_path / "ledger")
    where = Where(host=HERE, listen="0.0.0.0", prefix=cable.prefix)
    async with (
        place(tmp_path, {"ledger": ledger.command}, where=where) as there,
        client_of(there.port, path="/laptop/ledger/mcp", headers=bearer(there.phone)) as client,
    ):
        caller = await Caller.of(client)
        assert (await caller.mark("before"))["mark"] == "before"
        seen = len(there.agent.messages)
        cable.cut()
        async with within(90):
            while (await status_of(there))["state"] != "lost":
                await asyncio.sleep(0.5)
            await there.agent.message(lambda line: "link was lost" in line["message"], since=seen)
        caller.send("x/mark", mark="held")
        cable.mend()
        async with within(60):
            assert (await caller.answer())["mark"] == "held"
        assert set(ledger.marks().values()) == {1}


async def test_changes_of_the_network_are_told(cable: Cable) -> None:
    changes = 0

    def on_change() -> None:
        nonlocal changes
        changes += 1

    with watching_network(on_change):
        await asyncio.sleep(0.5)
        assert not changes, "nothing has changed"
        for words in (
            ("address", "add", "10.213.0.9/24", "dev", "cable"),
            ("address", "delete", "10.213.0.9/24", "dev", "cable"),
            ("address", "add", "fd00:213::9/64", "dev", "cable"),
            ("link", "set", "cable", "down"),
            ("link", "set", "cable", "up"),
        ):
            before = changes
            subprocess.run(["ip", "-n", cable.near, *words], check=True, timeout=30)
            await until(lambda before=before: changes > before)  # type: ignore[misc]
    before = changes
    subprocess.run(["ip", "-n", cable.near, "link", "set", "cable", "down"], check=True, timeout=30)
    await asyncio.sleep(0.5)
    assert changes == before, "nobody listens any more"
