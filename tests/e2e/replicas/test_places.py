"""Replicas on a Redis as people run it: with TLS and a password, watched by sentinels, as a cluster."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.replicas.fleet import Fleet, Roaming, running_fleet
from tests.e2e.replicas.test_losing import served
from tests.e2e.replicas.test_redis_trouble import told_at_start
from tests.e2e.replicas.test_sessions_command import mooring
from tests.ledger import Ledger
from tests.replicas.sets import Node, Place, running_place
from tests.support import within

pytestmark = [LINUX_ONLY, pytest.mark.e2e]

LEASE = ("--lease", "3s")
GONE_S = 8.0
"""For so long a server of Redis is watched to be lost: more than two leases, and a failover."""


@pytest.fixture(scope="module", params=["tls", "sentinel-tls", "cluster-tls"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_place("redis", request.param, tmp_path_factory.mktemp("places") / "place") as place:
        yield place


async def sessions(place: Place, *words: str) -> Any:
    """What `mooring sessions` prints as JSON."""
    command, *rest = words
    done = await mooring(command, "--json", "--sessions", place.url, *place.options, "--", *rest)
    assert done.status == 0, done
    return [json.loads(line) for line in done.out.splitlines()] if command == "ls" else json.loads(done.out)


async def test_a_session_goes_from_one_to_the_next(place: Place, ledger: Ledger) -> None:
    """In peace, and by force; `mooring sessions` sees it, and ends it."""
    place.empty()
    async with (
        running_fleet(3, place, ledger.command, *place.options, *LEASE) as fleet,
        Roaming(fleet.ports) as client,
    ):
        await fleet.know_each_other()
        first, second, third = fleet.replicas
        client.go_only_to(first)
        await client.initialize()
        client.go_only_to(*fleet.replicas)
        assert len({(await client.mark(f"anywhere-{n}"))["result"]["pid"] for n in range(6)}) == 1
        first.signal(signal.SIGTERM)
        client.go_only_to(second)
        await client.mark("peace")
        assert await first.ended() == 0
        await client.mark("second")
        [seen] = await sessions(place, "ls")
        assert seen["alive"] and seen["server"] == "e2e"
        second.exit_status = -signal.SIGKILL
        second.signal(signal.SIGKILL)
        await second.ended()
        client.go_only_to(third)
        async with within():
            await served(client, "force")
        about = await sessions(place, "show", seen["id"])
        assert (about["fence"], about["alive"]) == (3, True)
        assert (await sessions(place, "end", seen["id"]))["told"]
        assert (await client.raw("POST", client.request("ping"))).status == 404
        assert await sessions(place, "ls") == []
    assert set(ledger.marks().values()) == {1}


async def pids(clients: list[Roaming], mark: str) -> list[int]:
    answers = await asyncio.gather(*(client.mark(f"{mark}-{n}") for n, client in enumerate(clients)))
    return [answer["result"]["pid"] for answer in answers]


async def recovered(fleet: Fleet) -> None:
    async with within():
        for replica in fleet.replicas:
            while (said := await replica.get("/readyz"))[0] != 200 or said[1]["replicas"]["trouble"]:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("how", "trouble"),
    [
        pytest.param("sentinel", Node.kill, id="sentinel-killed"),
        pytest.param("cluster", Node.stop, id="cluster-stopped"),
        pytest.param("sentinel", Node.stop, id="sentinel-stopped", marks=pytest.mark.slow),
        pytest.param("cluster", Node.kill, id="cluster-killed", marks=pytest.mark.slow),
    ],
)
async def test_owners_serve_while_redis_fails_over(
    how: str, trouble: Any, ledger: Ledger, tmp_path: Path
) -> None:
    """Not a call fails, no process is another; then everything can be had from everywhere again."""
    with running_place("redis", how, tmp_path / "place") as place:
        async with running_fleet(3, place, ledger.command, *place.options, *LEASE) as fleet:
            await fleet.know_each_other()
            clients = [Roaming(fleet.ports) for _ in range(9)]  # of a cluster, in the slots of every node
            try:
                for n, client in enumerate(clients):
                    client.go_only_to(fleet.replicas[n % 3])
                    await client.initialize()
                before = await pids(clients, "before")
                trouble(place.nodes[0])
                loop = asyncio.get_running_loop()
                over_at, n = loop.time() + GONE_S, 0
                while loop.time() < over_at:
                    assert await pids(clients, f"meanwhile-{n}") == before
                    n += 1
                    await asyncio.sleep(0.05)
                await recovered(fleet)
                for shift in range(3):
                    for n, client in enumerate(clients):
                        client.go_only_to(fleet.replicas[(n + shift) % 3])
                    assert await pids(clients, f"after-{shift}") == before
                async with Roaming(fleet.ports) as newcomer:
                    await newcomer.initialize()
                    assert (await newcomer.mark("new"))["result"]["mark"] == "new"
                assert len(await sessions(place, "ls")) == len(clients) + 1
            finally:
                for client in clients:
                    await client.__aexit__(None, None, None)
    assert set(ledger.marks().values()) == {1}


async def test_whoever_does_not_fit_is_told_at_start(place: Place, tmp_path: Path) -> None:
    authority, wrong = tmp_path / "other.pem", tmp_path / "wrong"
    trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.write_to_path(authority)
    wrong.touch(0o600)
    wrong.write_text("not it\n")
    right = dict(zip(place.options[::2], place.options[1::2], strict=True))
    for changed, code in (
        ({"--sessions-ca": str(authority)}, "sessions_untrusted"),
        ({"--sessions-password": f"file:{wrong}"}, "sessions_refused"),
    ):
        options = [word for option in {**right, **changed}.items() for word in option]
        status, said = await told_at_start("--sessions", place.url, *options, bound_s=20)
        assert (status, said["code"]) == (2, code), said
        assert next(iter(changed)) in said["hint"]
        assert "not it" not in json.dumps(said)
        async with within():
            # It asks once, for two seconds: on a busy machine that may be too short.
            while (done := await mooring("ls", "--sessions", place.url, *options)).status == 1:
                assert "Timeout" in done.err or "no answer" in done.err
        assert done.status == 2 and next(iter(changed)) in done.err
