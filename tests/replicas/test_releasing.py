"""A replica lets go of its sessions: what of them comes to it meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.replicas.shared_store import Kept, SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from tests.hosting import SCRIPTED, Host
from tests.integration.test_sharing import readyz
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.replicas.test_bounds import replica, server
from tests.support import until, within

__all__ = ["server"]

HELLO = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class LostAnswers:
    """Redis does what it is told; that it did is not heard, for as long as `are_lost`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.are_lost = True
        self.released: list[str] = []
        keep = SharedStore.keep

        async def keep_and_say_nothing(store: SharedStore, id: str, *args: Any, **options: Any) -> Kept:
            kept = await keep(store, id, *args, **options)
            if options.get("next_owner") == "" and self.are_lost:
                self.released.append(id)
                raise StoreUnavailable("no answer")
            return kept

        monkeypatch.setattr(SharedStore, "keep", keep_and_say_nothing)


@pytest.mark.parametrize("is_taken", [False, True], ids=["nobody has it", "another has it"])
async def test_while_it_is_not_known_whether_a_session_is_gone_its_requests_wait(
    is_taken: bool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then they are served where it is, so that no two servers work for it."""
    async with (
        replica(server, lease_s=3.0) as other,
        replica(server, lease_s=3.0, drain_delay_s=5.0) as owner,
        McpClient(owner.port) as client,
        McpClient(other.port) as elsewhere,
    ):
        await knows_another(owner)
        await client.initialize()
        elsewhere.session = client.session
        here = await client.pid()
        answers = LostAnswers(monkeypatch)
        owner.stop.request("SIGTERM")
        await until(lambda: answers.released)
        asking = asyncio.create_task(client.pid())
        there = await elsewhere.pid() if is_taken else None
        await asyncio.wait([asking], timeout=1.0)
        assert not asking.done()
        answers.are_lost = False
        async with within():
            served_by = await asking
        assert served_by != here
        assert served_by == await elsewhere.pid()
        assert there in (None, served_by)


async def test_what_is_written_while_a_session_is_let_go_is_not_lost_to_another(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis hears that it is nobody's before it hears that it was used; we hear of both the other way."""
    writing, released, written = asyncio.Event(), asyncio.Event(), asyncio.Event()
    keep = SharedStore.keep

    async def keep_in_that_order(store: SharedStore, id: str, *args: Any, **options: Any) -> Kept:
        if options.get("next_owner") == "":
            kept = await keep(store, id, *args, **options)
            released.set()
            await written.wait()
            return kept
        writing.set()
        await released.wait()
        kept = await keep(store, id, *args, **options)
        written.set()
        return kept

    async with (
        replica(server, lease_s=3.0) as other,
        replica(server, lease_s=3.0, touch_s=0.2) as owner,
        McpClient(owner.port) as client,
        within(),
    ):
        await knows_another(owner)
        await client.initialize()
        with monkeypatch.context() as ordered:
            ordered.setattr(SharedStore, "keep", keep_in_that_order)
            while not writing.is_set():
                await client.pid()
            assert await owner.end() == 0
        assert written.is_set()
        assert not owner.events("session_lost_to_another")
        client.port = other.port
        assert await client.pid()


async def test_a_session_that_opens_late_is_let_go_too(server: Server, tmp_path: Path) -> None:
    """Its replica lives on for a call of somebody else: whoever comes to another is served there at once."""
    (slow := tmp_path / "slow").touch()
    late = ("/bin/sh", "-c", f'while test -e {slow}; do sleep 0.05; done; exec "$@"', "late", *SCRIPTED)
    async with (
        replica(server, lease_s=3.0) as other,
        replica(server, lease_s=3.0, argv=late, spare=0) as owner,
        McpClient(owner.port, path="/sse") as holding,
        McpClient(owner.port) as client,
    ):
        await knows_another(owner)
        await other_call(holding, slow)
        slow.touch()
        opening = asyncio.create_task(client.initialize())
        async with within():
            while (await readyz(owner))["sessions"] < 2:
                await asyncio.sleep(0.02)
        owner.stop.request("SIGTERM")
        await until(lambda: owner.events("draining"))
        slow.unlink()
        async with within():
            await opening
            client.port = other.port
            await client.pid()
        assert owner.task is not None
        assert not owner.task.done()


async def other_call(client: McpClient, slow: Path) -> None:
    """One that no other replica can have, and that does not end by itself."""
    endpoint = await (await client.stream()).event()
    assert endpoint is not None
    client.path = endpoint.data
    slow.unlink()
    for method, params in (("initialize", HELLO), ("x/hold", {})):
        assert (await client.raw("POST", client.request(method, params))).status == 202


async def knows_another(replica: Host) -> None:
    async with within():
        while not (await readyz(replica))["replicas"]["others"]:
            await asyncio.sleep(0.02)
