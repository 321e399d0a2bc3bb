"""`mooring sessions`, as a user has it: beside real replicas, on the Redis that they share."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mooring.cli.sessions.telling import HEAD
from tests.e2e.mooring import COMMAND, LINUX_ONLY
from tests.e2e.replicas.fleet import Fleet, Roaming, port_of, running_fleet
from tests.e2e.test_commands_document import names
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.replicas.stores import Server, running_server
from tests.support import alive, free_port, suspend, until, within

pytestmark = LINUX_ONLY

WITHOUT_REDIS = """\
import sys
sys.modules["redis"] = None
from mooring.cli.main import main
main()
"""


class Done(NamedTuple):
    status: int
    out: str
    err: str


async def mooring(*words: str, program: Sequence[str | Path] = (COMMAND,), **environment: str) -> Done:
    process = await asyncio.create_subprocess_exec(
        *program,
        "sessions",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    async with within():
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def listed(store: Server, *words: str) -> list[Any]:
    """What `ls` prints as JSON."""
    done = await mooring("ls", *words, "--json", "--sessions", store.url)
    assert done.status == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


async def about_one(store: Server, command: str, id: str | None, *words: str) -> Done:
    """`show` or `end`."""
    assert id is not None
    return await mooring(command, "--sessions", store.url, *words, "--", id)  # it may begin with dashes


async def told(store: Server, command: str, id: str | None) -> Any:
    """What they print as JSON."""
    done = await about_one(store, command, id, "--json")
    assert done.status == 0, done
    return json.loads(done.out)


async def statuses(fleet: Fleet, client: Roaming) -> list[int]:
    """What each replica answers to a call of the session."""
    found = []
    for replica in fleet.replicas:
        client.go_only_to(replica)
        found.append((await client.raw("POST", client.request("ping"))).status)
    return found


async def test_whose_sessions_are_and_for_how_long(store: Server, ledger: Ledger, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("alice aaaaaaaaaaaaaaaaaaaaaaaa\n")
    tokens.chmod(0o600)
    headers = {"Authorization": "Bearer aaaaaaaaaaaaaaaaaaaaaaaa"}
    async with (
        running_fleet(2, store, ledger.command, "--token-file", str(tokens)) as fleet,
        Roaming(fleet.ports, headers=headers) as client,
    ):
        client.go_only_to(fleet.replicas[1])
        await client.initialize()
        [session] = await listed(store, "--long")
        assert session["id"] == client.session
        assert (session["server"], session["principal"], session["alive"]) == ("e2e", "alice", True)
        assert session["revision"].startswith("20")
        assert 0 <= session["idle_s"] < 60
        assert set(session) == names("`mooring sessions ls --json`")

        [short] = await listed(store, "--server", "e2e")
        assert short["id"] == session["id"][:8]
        assert await listed(store, "--server", "other") == []

        table = (await mooring("ls", "--sessions", store.url)).out
        head, line = table.splitlines()
        assert head.split() == list(HEAD)
        assert line.split()[:3] == ["e2e", short["id"], "alice"]
        assert session["host"] in line
        assert session["id"] not in table

        about = await told(store, "show", short["id"])
        assert about["address"] == f"http://127.0.0.1:{port_of(fleet.replicas[1])}"
        assert about["fence"] == 1
        assert set(about) - set(short) == names("`mooring sessions show ID --json`")
        text = (await about_one(store, "show", short["id"])).out
        assert f"{session['owner']}, Mooring " in text and session["id"] not in text


async def test_a_session_that_has_gone_to_another(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        client.go_only_to(fleet.replicas[0])
        await client.initialize()
        [before] = await listed(store)
        fleet.replicas[0].signal(signal.SIGTERM)
        assert await fleet.replicas[0].ended() == 0
        [nobodys] = await listed(store)
        assert (nobodys["owner"], nobodys["alive"]) == (None, False)
        client.go_only_to(fleet.replicas[1])
        await client.mark("taken")
        about = await told(store, "show", before["id"])
        assert about["owner"] != before["owner"] and about["alive"]
        assert about["fence"] == 2
        assert about["opened_at"] == before["opened_at"]


async def test_ended_for_everybody_at_once(store: Server, ledger: Ledger) -> None:
    async with (
        running_fleet(2, store, ledger.command) as fleet,
        Roaming(fleet.ports) as client,
        Roaming(fleet.ports) as another,
    ):
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        here = (await client.mark("here"))["result"]["pid"]
        client.go_only_to(other)
        await client.mark("there")  # from now on it knows the way
        listening = await client.stream("GET")
        another.go_only_to(owner)
        await another.initialize()
        id = (client.session or "")[:8]
        ended = await told(store, "end", id)
        assert ended["told"] and ended["reason"] is None
        assert set(ended) == names("`mooring sessions end ID --json`")
        assert await statuses(fleet, client) == [404, 404]
        assert await listening.rest() == []
        await until(lambda: not alive(here))
        assert await statuses(fleet, another) == [200, 200]
        assert len(await listed(store)) == 1
        again = await about_one(store, "end", id)
        assert again.status == 2 and f"the session {id} of e2e has ended, by request" in again.err
        await owner.logged("session_closed", reason="ended by request (mooring sessions end)")
    assert set(ledger.marks().values()) == {1}


async def test_replicas_that_were_given_a_key(store: Server, ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 32)
    key = ("--replica-key", f"file:{tmp_path / 'key'}")
    async with (
        running_fleet(2, store, ledger.command, *key) as fleet,
        Roaming(fleet.ports) as client,
        Roaming(fleet.ports) as another,
    ):
        for one in (client, another):
            await one.initialize()
        untold = await about_one(store, "end", another.session)
        assert untold.status == 0
        assert "does not know yet: its replicas have a key of their own" in untold.err
        done = await about_one(store, "end", client.session, *key)
        assert done.status == 0 and "has let go of it" in done.out, done
        assert await statuses(fleet, client) == [404, 404]


async def test_an_owner_that_cannot_be_reached_hears_of_it_from_redis(store: Server, ledger: Ledger) -> None:
    """It advertises where nobody listens; what it next has to write about the session tells it."""
    async with running_fleet(1, store, ledger.command) as fleet:
        await fleet.add("--advertise", f"http://127.0.0.1:{free_port()}")
        there, owner = fleet.replicas
        async with McpClient(port_of(owner)) as client:
            await client.initialize()
            done = await about_one(store, "end", client.session)
            assert done.status == 0
            assert "has ended." in done.out
            assert "does not know yet: " in done.err and "a minute at most" in done.err
            async with McpClient(port_of(there)) as elsewhere:
                elsewhere.session = client.session
                assert (await elsewhere.raw("POST", elsewhere.request("ping"))).status == 404
            await client.raw("POST", client.request("logging/setLevel", {"level": "debug"}))
            async with within():
                while (await client.raw("POST", client.request("ping"))).status != 404:
                    await asyncio.sleep(0.05)
            await until(lambda: not owner.servers())


async def test_an_owner_that_does_not_answer(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        await suspend(owner.pid)
        try:
            ended = await told(store, "end", client.session)
            assert not ended["told"] and "does not answer" in ended["reason"]
            client.go_only_to(other)
            assert (await client.raw("POST", client.request("ping"))).status == 404
        finally:
            os.kill(owner.pid, signal.SIGCONT)


async def test_several_sessions_may_be_meant(store: Server, ledger: Ledger) -> None:
    async with running_fleet(1, store, ledger.command) as fleet:
        clients = [McpClient(fleet.ports[0]) for _ in range(65)]  # more than there are first characters
        try:
            for client in clients:
                await client.raw("POST", client.request("initialize", _hello()))
        finally:
            for client in clients:
                await client.__aexit__()
        first = [session["id"][0] for session in await listed(store)]
        assert len(first) == 65
        twice = next(letter for letter in first if first.count(letter) > 1)
        done = await about_one(store, "end", twice)
        assert done.status == 2
        assert f"{first.count(twice)} sessions begin with {twice}: " in done.err
        assert len(await listed(store)) == 65


def _hello() -> dict[str, object]:
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


async def test_no_sessions(store: Server) -> None:
    done = await mooring("ls", "--sessions", store.url, "--server", "x", "--sessions-prefix", "a:b")
    assert done == (0, "There are no sessions of x with the prefix a:b.\n", "")
    assert await listed(store) == []


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("ls",), 2, "Missing option '--sessions'"),
        (("ls", "--sessions", "http://x"), 2, "begins with none of redis"),
        (("ls", "--sessions", "redis://:canary@x"), 2, "--sessions-password file:PATH"),
        (("ls", "--sessions", "redis://x", "--sessions-password", "canary"), 2, "names where the value is"),
        (("ls", "--sessions", "redis://x", "--sessions-prefix", "*"), 2, "keys cannot begin like that"),
        (("show", "a*", "--sessions", "redis://x"), 2, "an id has letters, digits"),
        (
            ("ls", "--sessions", "redis://127.0.0.1:9"),
            1,
            "Redis at 127.0.0.1:9 cannot be used: connection refused\n",
        ),
        (
            ("ls", "--sessions", "redis://localhost:9"),
            1,
            "Redis at localhost:9 cannot be used: connection refused",
        ),
        (("end", "a", "--sessions", "redis://127.0.0.1:9"), 1, "see that it runs there"),
    ],
)
async def test_what_is_wrong_is_told(words: Sequence[str], status: int, says: str) -> None:
    done = await mooring(*words)
    assert (done.status, done.out) == (status, "")
    assert says in done.err
    assert "canary" not in done.err and "Traceback" not in done.err


async def test_a_wrong_password(tmp_path: Path) -> None:
    async with running_server("redis", tmp_path / "store", "--requirepass", "right") as server:
        for words in (("ls",), ("show", "a"), ("end", "a")):
            url = ("--sessions", server.url, "--sessions-password", "env:PASSWORD")
            done = await mooring(*words, *url, PASSWORD="wrong")
            assert (done.status, done.out) == (2, "")
            assert "Redis refuses us" in done.err and "see --sessions-password" in done.err
        done = await mooring("ls", "--sessions", server.url)
        assert done.status == 2 and "Redis wants a password" in done.err
        right = await mooring(
            "ls", "--sessions", server.url, "--sessions-password", "env:PASSWORD", PASSWORD="right"
        )
        assert right.status == 0


async def test_without_a_client_for_redis() -> None:
    program = (sys.executable, "-c", WITHOUT_REDIS)
    done = await mooring("ls", "--sessions", "redis://x", program=program)
    assert (done.status, done.out) == (2, "")
    assert "-m pip install 'redis>=" in done.err and "mooring[" not in done.err
    helped = await mooring("ls", "--help", program=program)
    assert helped.status == 0
