"""A replica without its lease says nothing to a server: also not what it was to say before it lapsed."""

import asyncio
import os
import signal
from typing import Any

import pytest

from mooring.http.client_limits import ClientLimits
from mooring.proxy.proxy import TICK_S, TICKS_AT_REST
from mooring.remote.options import RemoteOptions
from mooring.replicas.membership import Membership
from mooring.workloads import remote_maker
from mooring.workloads.workload import Workload
from tests.e2e.replicas.conftest import ledger
from tests.faults.test_health import pings_heard
from tests.faults.test_remote_server import CALL, Elsewhere
from tests.faults.test_stdio_server import only
from tests.hosting import Host
from tests.integration.test_sharing import readyz
from tests.ledger import Ledger
from tests.mcp_client import McpClient, client_of
from tests.raw_server import Asked, RawServer, Wire, raw_server
from tests.replicas.stores import Server
from tests.replicas.test_bounds import opened, replica, server
from tests.replicas.test_releasing import knows_another
from tests.support import alive, until, within

__all__ = ["ledger", "server"]

TOOL = {"name": "x", "arguments": {}}
PINGS: dict[str, Any] = {"ping_interval_s": 0.05, "ping_timeout_s": 0.3}


class Lapse:
    """For as long as `is_on`, no replica has a lease as far as it knows itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = False
        self._looks: int | None = None
        holds = Membership.holds
        monkeypatch.setattr(Membership, "holds", lambda member: self._look() and holds(member))

    def comes_after(self, looks: int) -> None:
        self._looks = looks

    def _look(self) -> bool:
        if self._looks is not None:
            self.is_on, self._looks = (True, None) if self._looks == 0 else (False, self._looks - 1)
        return not self.is_on


@pytest.fixture
def lapse(monkeypatch: pytest.MonkeyPatch) -> Lapse:
    return Lapse(monkeypatch)


async def in_flight(host: Host, calls: int) -> None:
    async with within():
        while (await readyz(host))["calls_in_flight"] < calls:
            await asyncio.sleep(0.02)


async def test_a_server_that_ends_has_no_successor(server: Server, lapse: Lapse) -> None:
    """Not even for a call that it had not read, and that was not executed."""
    async with replica(server) as host, McpClient(host.port) as client:
        await client.initialize()
        pid = await client.pid()
        assert "result" in await client.ask("x/stall")
        calling = asyncio.create_task(client.ask("x/pid"))
        await in_flight(host, 1)
        lapse.is_on = True
        os.kill(pid, signal.SIGKILL)
        async with within():
            error = (await calling)["error"]
        assert error["data"] == {"reason": "lease_lost", "retryable": True}
        assert not host.events("session_recovered")
        lapse.is_on = False
        assert await client.pid() != pid
        assert host.events("session_recovered")


async def test_what_waits_behind_a_full_pipe_is_not_written(
    server: Server, lapse: Lapse, ledger: Ledger
) -> None:
    """It is, when the lease is there again and nobody has taken the session."""
    async with replica(server, argv=ledger.command, spare=0) as host, McpClient(host.port) as client:
        await client.initialize()
        pid = (await client.result("x/mark", {"mark": "before"}))["pid"]
        os.kill(pid, signal.SIGSTOP)
        filling = asyncio.create_task(client.ask("x/any", {"filler": "x" * 100_000}))
        await in_flight(host, 1)
        behind = asyncio.create_task(client.ask("x/mark", {"mark": "behind"}))
        await in_flight(host, 2)
        lapse.is_on = True
        os.kill(pid, signal.SIGCONT)
        await asyncio.wait([behind], timeout=1.0)
        assert not ledger.has("behind")
        lapse.is_on = False
        async with within():
            assert (await behind)["result"]["mark"] == "behind"
            await filling
    assert ledger.marks() == {"before": 1, "behind": 1}


async def test_of_a_session_that_another_has_nothing_is_written_any_more(
    server: Server, ledger: Ledger
) -> None:
    """Although we have our lease: Redis had failed over, say, and lost that the session was ours again."""
    async with (
        opened(server.port) as store,
        replica(server, argv=ledger.command, touch_s=0.2) as host,
        McpClient(host.port) as client,
    ):
        await client.initialize()
        pid = (await client.result("x/mark", {"mark": "before"}))["pid"]
        os.kill(pid, signal.SIGSTOP)
        calls = [client.request("x/any", {"filler": "x" * 100_000}), client.request("x/mark", {"mark": "it"})]
        cut = []
        for n, call in enumerate(calls):
            cut.append(asyncio.create_task(client.raw("POST", call)))
            await in_flight(host, n + 1)
        place = await store.find(client.session)
        assert place is not None
        assert await store.claim(client.session, place, "ghost", 1.0, 60.0)
        await host.logged("session_lost_to_another")
        os.kill(pid, signal.SIGCONT)
        await until(lambda: not alive(pid))
        async with within():
            await asyncio.gather(*cut)
    assert ledger.marks() == {"before": 1}


async def test_nobody_is_asked_for_a_sign_of_life(server: Server, lapse: Lapse) -> None:
    """A word to a server is one, whoever it is from."""
    async with replica(server, spare=0, sessions=PINGS) as host, client_of(host.port) as client:
        stream = await client.stream()  # so it is looked at with every tick
        async with within():
            while (before := len(await pings_heard(client))) < 2:
                pass
        lapse.is_on = True
        await asyncio.sleep(10 * TICK_S)
        lapse.is_on = False
        assert len(await pings_heard(client)) <= before + 4, "just before, and just after"
        async with within():
            while len(await pings_heard(client)) < before + 8:
                pass
        stream.reset()


class Forgetful(Elsewhere):
    """Hears nothing of the lapse, which begins while a session is opened there."""

    def __init__(self, lapse: Lapse) -> None:
        super().__init__()
        self._lapse = lapse
        self.has_forgotten = False

    def _open(self, id: int | str) -> bytes:
        self._lapse.is_on = self.has_forgotten
        return super()._open(id)

    def forget(self) -> None:
        self.known = set()
        self.has_forgotten = True


async def test_what_waits_for_a_server_elsewhere_is_not_sent(server: Server, lapse: Lapse) -> None:
    script = Forgetful(lapse)
    async with (
        raw_server(script) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as host,
        client_of(host.port) as client,
    ):
        assert "n" in await client.result(CALL, TOOL)
        script.forget()
        refused = await client.ask(CALL, TOOL)
        assert refused["error"]["data"] == {"reason": "lease_lost", "retryable": True}
        # The first; and the one that was refused, since it named the session that was forgotten.
        assert len(await elsewhere.count(2, CALL)) == 2
        lapse.is_on = script.has_forgotten = False


async def test_what_waits_for_a_connection_there_is_not_sent(
    server: Server, lapse: Lapse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked at before it waited; by then another replica may have the session."""
    monkeypatch.setattr(remote_maker, "limits_of", lambda sessions: ClientLimits(max_connections=2))
    going_on = asyncio.Event()

    async def waits(asked: Asked, wire: Wire) -> bytes | None:
        await going_on.wait()
        return b""

    async with (
        raw_server(Elsewhere(only(CALL, waits))) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as host,
        client_of(host.port) as client,
    ):
        first, second = (
            asyncio.create_task(client.ask(CALL, {"name": name, "arguments": {}})) for name in ("x", "y")
        )
        await elsewhere.count(1, CALL)
        await in_flight(host, 2)
        lapse.is_on = True
        going_on.set()
        async with within():
            assert "result" in await first
            refused = await second
        assert refused["error"]["data"] == {"reason": "lease_lost", "retryable": True}
        assert len(await elsewhere.count(1, CALL)) == 1
        lapse.is_on = False


AFTER_S = 0.5
IDLE: dict[str, Any] = {"idle_timeout_s": AFTER_S}
UNUSED: dict[str, Any] = {"sessions": {"forget_after_s": AFTER_S}}


def told_of_its_end(elsewhere: RawServer, upstream: str) -> bool:
    return any(
        asked.method == "DELETE" and asked.headers["mcp-session-id"] == upstream
        for asked in elsewhere.requests
    )


@pytest.mark.parametrize(
    ("options", "event"), [(IDLE, "session_idle"), (UNUSED, "session_closed")], ids=["idle", "unused"]
)
async def test_time_ends_nothing_elsewhere_of_which_the_server_could_not_be_told(
    options: dict[str, Any], event: str, server: Server, lapse: Lapse
) -> None:
    """The server would keep what it has of it for ever. When it is ours again, it is told."""
    async with (
        opened(server.port) as store,
        raw_server(Elsewhere()) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url), **options) as host,
        client_of(host.port) as client,
    ):
        place = await store.find(client.session)
        lapse.is_on = True
        assert place is not None and place.record.upstream
        await asyncio.sleep(AFTER_S + 2 * TICKS_AT_REST * TICK_S)
        assert not host.events(event)
        lapse.is_on = False
        await host.logged(event)
        await until(lambda: told_of_its_end(elsewhere, place.record.upstream))


async def test_one_that_does_not_come_back_ends_when_it_is_anothers(server: Server, lapse: Lapse) -> None:
    """Whatever time has come for it meanwhile."""
    async with (
        opened(server.port) as store,
        raw_server(Elsewhere()) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url), lease_s=3.0, **UNUSED) as host,
        client_of(host.port) as client,
    ):
        lapse.is_on = True
        place = await store.find(client.session)
        assert place is not None
        assert await store.claim(client.session, place, "ghost", 1.0, 60.0)
        await store._client.delete(store._keys.lease(place.owner))
        await host.logged("session_lost_to_another")
        async with within():
            while (await readyz(host))["sessions"]:
                await asyncio.sleep(0.02)
        assert not told_of_its_end(elsewhere, place.record.upstream)


@pytest.mark.parametrize("looks", range(4))
async def test_what_is_known_of_a_session_elsewhere_stays_known(
    looks: int, server: Server, lapse: Lapse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the lease is lost while another goes on with it: so many looks after there is an instance."""
    acquire = Workload.acquire

    async def acquire_and_lapse(workload: Workload, **options: Any) -> Any:
        instance = await acquire(workload, **options)
        lapse.comes_after(looks)
        return instance

    async with (
        opened(server.port) as store,
        raw_server(Elsewhere()) as elsewhere,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as owner,
        replica(server, remote=RemoteOptions(url=elsewhere.url)) as heir,
        client_of(owner.port) as client,
    ):
        await knows_another(owner)
        place = await store.find(client.session)
        assert place is not None and place.record.upstream
        assert await owner.end() == 0
        client.port = heir.port
        monkeypatch.setattr(Workload, "acquire", acquire_and_lapse)
        refused = await client.ask(CALL, TOOL)
        assert refused["error"]["data"] == {"reason": "lease_lost", "retryable": True}
        monkeypatch.setattr(Workload, "acquire", acquire)
        lapse.is_on = False
        assert "n" in await client.result(CALL, TOOL)
        assert elsewhere.requests[-1].headers["mcp-session-id"] == place.record.upstream
