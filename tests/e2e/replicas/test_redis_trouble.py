"""Redis is slow, gone, restarted, empty or full: owners go on, what needs it waits and is told."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mooring import COMMAND, LINUX_ONLY, Mooring
from tests.e2e.program import Program
from tests.e2e.replicas.balancer import running_balancer
from tests.e2e.replicas.fleet import Fleet, Roaming, running_fleet
from tests.e2e.replicas.load import Load
from tests.ledger import Ledger
from tests.replicas.stores import Server, running_server
from tests.support import free_port, suspend, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e]

LEASE_S = 3
LEASE = ("--lease", f"{LEASE_S}s")
GONE_S = 2.5 * LEASE_S
"""For as long as Redis does not do what it should: nobody lives by what it has said last."""

Step = Callable[[Server], Awaitable[None]]


async def say(store: Server, *words: str) -> bytes:
    """One command to Redis; the first line of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", store.port)
    try:
        writer.write(b"*%d\r\n" % len(words))
        writer.writelines(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
        return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()


async def stop(store: Server) -> None:
    await suspend(store.pid)


async def go_on(store: Server) -> None:
    os.kill(store.pid, signal.SIGCONT)


async def kill(store: Server) -> None:
    await store.kill()


async def start(store: Server) -> None:
    await store.start()


async def start_with_nothing(store: Server) -> None:
    await store.lose_everything()


async def fill(store: Server) -> None:
    assert await say(store, "CONFIG", "SET", "maxmemory", "1") == b"+OK\r\n"


async def make_room(store: Server) -> None:
    assert await say(store, "CONFIG", "SET", "maxmemory", "0") == b"+OK\r\n"


TROUBLES: dict[str, tuple[Step, Step]] = {
    "stopped": (stop, go_on),
    "killed": (kill, start),
    "lost": (kill, start_with_nothing),
    "full": (fill, make_room),
}


@asynccontextmanager
async def a_session_at_each(fleet: Fleet) -> AsyncIterator[list[Roaming]]:
    """One client for each replica, whose session lives there."""
    async with AsyncExitStack() as stack:
        clients: list[Roaming] = []
        for replica in fleet.replicas:
            client = await stack.enter_async_context(Roaming(fleet.ports))
            client.go_only_to(replica)
            await client.initialize()
            clients.append(client)
        yield clients


async def pids_of(clients: Sequence[Roaming], name: str) -> list[int]:
    """Where a call of each is executed."""
    return [(await client.mark(f"{name}-{n}"))["result"]["pid"] for n, client in enumerate(clients)]


async def refused(replica: Mooring, fleet: Fleet) -> Any:
    """What a client hears that comes anew; None: it is served."""
    async with Roaming(fleet.ports) as newcomer:
        newcomer.go_only_to(replica)
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        async with within():
            answer = await newcomer.raw("POST", newcomer.request("initialize", hello))
        if answer.status == 200:
            return None
        assert answer.status == 503, answer
        assert int(answer.headers["retry-after"]) >= 1
        return json.loads(answer.body)["error"]["data"]["reason"]


async def status_of(replica: Mooring) -> tuple[int, dict[str, Any]]:
    status, page = await replica.get("/readyz")
    return status, page["replicas"]


async def recovered(fleet: Fleet) -> None:
    """Without a restart: everybody is ready, knows all others, and takes newcomers."""
    async with within():
        for replica in fleet.replicas:
            while True:
                status, told = await status_of(replica)
                if status == 200 and told["trouble"] is None and told["others"] == len(fleet.replicas) - 1:
                    break
                await asyncio.sleep(0.05)
    for replica in fleet.replicas:
        assert await refused(replica, fleet) is None


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_owners_go_on_without_redis(trouble: str, store: Server, ledger: Ledger) -> None:
    begin, end = TROUBLES[trouble]
    async with running_fleet(3, store, ledger.command, *LEASE) as fleet:
        await fleet.know_each_other()
        async with a_session_at_each(fleet) as clients:
            before = await pids_of(clients, "before")
            await begin(store)
            loop = asyncio.get_running_loop()
            over_at, n = loop.time() + GONE_S, 0
            while loop.time() < over_at:
                assert await pids_of(clients, f"without-{n}") == before
                n += 1
                await asyncio.sleep(0.05)
            reasons = await asyncio.gather(*(refused(replica, fleet) for replica in fleet.replicas))
            assert reasons == ["sessions_unreachable"] * 3
            for replica in fleet.replicas:
                status, told = await status_of(replica)
                assert (status, told["holds_lease"]) == (200, True)
                assert told["trouble"]
            assert await pids_of(clients, "still") == before
            await end(store)
            await recovered(fleet)
            # No session was lost, or has lost its server; and each can be had from everywhere again.
            for shift in range(3):
                for n, client in enumerate(clients):
                    client.go_only_to(fleet.replicas[(n + shift) % 3])
                assert await pids_of(clients, f"after-{shift}") == before
    assert set(ledger.marks().values()) == {1}


@pytest.mark.parametrize("trouble", ["stopped", "killed", "lost"])
async def test_a_short_trouble_is_not_noticed_by_those_who_have_a_session(
    trouble: str, store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    """Behind a balancer: what looks for its session waits until Redis answers again."""
    begin, end = TROUBLES[trouble]
    async with (
        running_fleet(3, store, ledger.command) as fleet,
        running_balancer(tmp_path / "balancer", fleet.addresses) as balancer,
    ):
        await fleet.know_each_other()
        load = Load(balancer.port, ledger)
        try:
            load.begin("plain", "kept", "several", "asked", "modern")
            await load.has_done(20)
            for _ in range(2):
                await begin(store)
                await asyncio.sleep(1.5)
                await end(store)
                await load.has_done(40)
            await load.end()
        finally:
            await load.stop()
        assert not load.failed, load.failed
        load.assert_none_twice()
        await recovered(fleet)


async def test_a_session_whose_owner_is_lost_with_redis_goes_on_when_redis_is_back(
    store: Server, ledger: Ledger
) -> None:
    """Until then nobody can know whose it is: 503, and a reason."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        owner.exit_status = -signal.SIGKILL
        await client.initialize()
        await client.mark("before")
        await store.kill()
        owner.signal(signal.SIGKILL)
        await owner.ended()
        client.go_only_to(other)
        assert (await client.unavailable("x/mark"))["reason"] == "sessions_unreachable"
        await store.start()
        async with within():
            while (await client.raw("POST", client.request("ping"))).status != 200:
                await asyncio.sleep(0.2)
        assert (await client.mark("after"))["result"]["mark"] == "after"


async def told_at_start(*options: str, bound_s: float = 40.0) -> tuple[int, dict[str, Any]]:
    """The exit status of a replica that cannot begin, and its last words."""
    argv = [str(COMMAND), "run", "--foreground", "e2e", "--port", str(free_port()), "--log-format", "json"]
    words = [*argv, *options, "--", "cat"]
    async with Program(words, listen_to="stderr", environment={**os.environ, "WRONG": "not it"}) as program:
        async with within(bound_s):
            said = await program.message(lambda line: line["event"] == "failed")
        return await program.ended(), said


@pytest.mark.parametrize("given", [(), ("--sessions-password", "env:WRONG")], ids=["none", "wrong"])
async def test_a_wrong_password_is_refused_at_start(given: tuple[str, ...], tmp_path: Path) -> None:
    async with running_server("redis", tmp_path / "locked", "--requirepass", "sesame") as store:
        status, said = await told_at_start("--sessions", store.url, *given, bound_s=20)
    assert (status, said["code"]) == (2, "sessions_refused")
    assert "--sessions-password" in said["hint"]
    assert "not it" not in json.dumps(said)


async def test_a_redis_that_is_not_there_is_waited_for_and_then_refused() -> None:
    port = free_port()
    status, said = await told_at_start("--sessions", f"redis://127.0.0.1:{port}/0")
    assert (status, said["code"]) == (2, "sessions_unreachable")
    assert f"127.0.0.1:{port}" in said["message"]


async def test_a_redis_that_does_not_answer_is_waited_for_and_then_refused(store: Server) -> None:
    await suspend(store.pid)
    status, said = await told_at_start("--sessions", store.url)
    assert (status, said["code"]) == (2, "sessions_unreachable")


async def test_a_redis_that_comes_late_is_waited_for(store: Server, ledger: Ledger) -> None:
    await store.kill()
    starting = asyncio.create_task(_later(store))
    async with running_fleet(1, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        await starting
        await client.initialize()
        assert (await client.mark("m"))["result"]["mark"] == "m"


async def _later(store: Server) -> None:
    await asyncio.sleep(3)
    await store.start()


async def test_nothing_is_taken_from_an_owner_that_lives(store: Server, ledger: Ledger) -> None:
    """Redis has lost where replicas are, and nothing else; as a cluster does with one of its nodes."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        here = (await client.mark("before"))["result"]["pid"]
        async with within():
            while (await status_of(other))[1]["others"]:
                await say(store, "DEL", "mooring:e2e:replicas")
        for replica in (other, owner):
            client.go_only_to(replica)
            assert (await client.mark(f"after-{replica.pid}"))["result"]["pid"] == here
        await recovered(fleet)
    assert set(ledger.marks().values()) == {1}


@pytest.mark.parametrize("comes", ["at once", "when they have settled"])
async def test_whoever_comes_after_redis_has_lost_everything_is_believed(
    comes: str, store: Server, ledger: Ledger, tmp_path: Path
) -> None:
    """The key with which replicas know each other is lost, too: they have one again, all of them the same."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\n")
    tokens.chmod(0o600)
    alice = {"Authorization": "Bearer aaaaaaaaaaaaaaaaaaaaaaaa"}
    options = (*LEASE, "--token-file", str(tokens))
    async with running_fleet(2, store, ledger.command, *options) as fleet:
        await fleet.know_each_other()
        before = list(fleet.replicas)
        await store.lose_everything()
        if comes != "at once":
            for one in before:
                await one.logged("lease_lost")
            await fleet.know_each_other()
        newcomer = await fleet.add()
        for one in before:
            await one.logged("lease_lost")
        await fleet.know_each_other()
        for begins, goes_on in ((newcomer, before), (before[0], [newcomer])):
            async with Roaming(fleet.ports, headers=alice) as client:
                client.go_only_to(begins)
                await client.initialize()
                for n, replica in enumerate(goes_on):
                    client.go_only_to(replica)
                    assert (await client.mark(f"m-{n}"))["result"]["mark"] == f"m-{n}"


async def test_replicas_agree_on_a_key_again(store: Server, ledger: Ledger, tmp_path: Path) -> None:
    """Redis has lost theirs, and nothing else; a newcomer was the first to make another."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\n")
    tokens.chmod(0o600)
    alice = {"Authorization": "Bearer aaaaaaaaaaaaaaaaaaaaaaaa"}
    async with (
        running_fleet(2, store, ledger.command, *LEASE, "--token-file", str(tokens)) as fleet,
        Roaming(fleet.ports, headers=alice) as client,
    ):
        await fleet.know_each_other()
        await client.initialize()
        await say(store, "SET", "mooring:e2e:key", "made-by-a-newcomer")
        client.go_only_to(newcomer := await fleet.add())
        assert (await client.mark("newcomer"))["result"]["mark"] == "newcomer"
        client.go_only_to(*(one for one in fleet.replicas if one is not newcomer))
        for n in range(2):
            assert (await client.mark(f"old-{n}"))["result"]["mark"] == f"old-{n}"
    assert set(ledger.marks().values()) == {1}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
async def test_pages_need_no_redis_whoever_asks(path: str, store: Server, ledger: Ledger) -> None:
    """Not even one who names a session, which everybody can make up."""
    async with running_fleet(1, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        await recovered(fleet)
        client.path, client.session = path, "a-session-of-nobody"
        await stop(store)
        try:
            async with within():
                answers = await asyncio.gather(*(client.raw("GET") for _ in range(20)))
        finally:
            await go_on(store)
        assert {answer.status for answer in answers} == {200}
