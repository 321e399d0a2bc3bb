"""A server elsewhere whose secret changes, and Mooring in front of it: whatever is sent to it, and is refused
because of that, is sent once more with the secret as it is now, and nothing is lost or done twice.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.remote.options import RemoteOptions
from mooring.secrets.vault import Vault
from mooring.workloads import workload
from tests.faults.test_remote_server import CALL, INTRODUCTION, PROGRESS, Elsewhere
from tests.faults.test_stdio_server import Script, only, result
from tests.hosting import Host, hosting
from tests.mcp_client import Json, McpClient, client_of
from tests.raw_server import LAST_CHUNK, Asked, RawServer, Wire, answer, event, raw_server, stream_head
from tests.support import until, within

TOOL: Json = {"name": "x", "arguments": {}}
QUESTION: Json = {
    "jsonrpc": "2.0",
    "id": "q",
    "method": "elicitation/create",
    "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
}


class Guarded(Elsewhere):
    """It lets in who has the secret as it is now."""

    def __init__(self, secrets: Path, special: Script | None = None) -> None:
        super().__init__(special)
        self.secrets = secrets
        self.refused: list[Asked] = []
        self._vault = Vault(secrets)
        self._turns = 0
        self.change()

    def change(self) -> None:
        """Another secret, which the vault has already."""
        self._turns += 1
        self._vault.put("linear", self._secret)

    @property
    def _secret(self) -> str:
        return f"secret-{self._turns}"

    def lets_in(self, asked: Asked) -> bool:
        return asked.headers["authorization"] == f"Bearer {self._secret}"

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        if self.lets_in(asked):
            return await super().__call__(asked, wire)
        self.refused.append(asked)
        return answer(status="401 No")


@asynccontextmanager
async def hosted(script: Guarded) -> AsyncIterator[tuple[RawServer, Host]]:
    async with raw_server(script) as server:
        remote = RemoteOptions(url=server.url, header_references={"Authorization": "Bearer {secret:linear}"})
        async with hosting(remote=remote, secrets=script.secrets) as host:
            yield server, host


@asynccontextmanager
async def in_front_of(script: Guarded) -> AsyncIterator[tuple[RawServer, McpClient]]:
    async with hosted(script) as (server, host), client_of(host.port) as client:
        yield server, client


async def test_the_answer_to_a_servers_question(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def special(asked: Asked, wire: Wire) -> bytes | None:
        if not asked.body or "method" in asked.message:
            return await only(CALL, asks)(asked, wire)
        heard.set()
        return answer(status="202 Accepted")

    async def asks(asked: Asked, wire: Wire) -> bytes | None:
        wire.send(stream_head() + event(QUESTION))
        await heard.wait()
        return event(result(asked, {"content": []})) + LAST_CHUNK

    script = Guarded(tmp_path / "secrets", special)
    async with in_front_of(script) as (_, client):
        stream = await client.stream("POST", client.request(CALL, TOOL))
        while (asked := await stream.message()).get("method") != "elicitation/create":
            pass
        script.change()
        await client.respond(asked["id"], {"action": "decline"})
        async with within():
            assert (await stream.rest())[-1]["result"] == {"content": []}
        answers = [one for one in script.refused if one.body and "method" not in one.message]
        assert len(answers) == 1


@pytest.mark.parametrize("method", ["notifications/roots/list_changed", "notifications/cancelled"])
async def test_a_notification(method: str, tmp_path: Path) -> None:
    over = asyncio.Event()

    async def waits(asked: Asked, wire: Wire) -> bytes | None:
        await over.wait()
        wire.close()
        return None

    script = Guarded(tmp_path / "secrets", only(CALL, waits))
    async with in_front_of(script) as (server, client):
        call = await client.send("POST", client.request(CALL, TOOL, id="it"))
        await server.count(1, CALL)
        script.change()
        await client.notify(method, {"requestId": "it"})
        refused, taken = await server.count(2, method)
        assert refused.body == taken.body and script.lets_in(taken)
        call.reset()
        over.set()  # it runs on without its client, and the end would wait for it


async def test_the_rest_of_a_stream(tmp_path: Path) -> None:
    async def begins(asked: Asked, wire: Wire) -> bytes | None:
        if asked.headers.get("last-event-id") == "7":
            [call] = await server.count(1, CALL)
            return stream_head() + event(result(call, {"content": []}), id="8") + LAST_CHUNK
        if not asked.body or asked.message.get("method") != CALL:
            return b""
        wire.send(stream_head() + event(PROGRESS, id="7", retry=1))
        await wire.writer.drain()
        script.change()
        wire.close()
        return None

    script = Guarded(tmp_path / "secrets", begins)
    async with in_front_of(script) as (server, client):
        assert await client.result(CALL, TOOL) == {"content": []}
        assert len(await server.count(1, CALL)) == 1
        assert script.refused


async def test_a_session_that_is_opened_anew(tmp_path: Path) -> None:
    class Forgetful(Guarded):
        """Who has an unknown session is told that first."""

        def lets_in(self, asked: Asked) -> bool:
            return asked.headers.get("mcp-session-id", "") not in ("", *self.known) or super().lets_in(asked)

    script = Forgetful(tmp_path / "secrets")
    async with in_front_of(script) as (_, client):
        assert "n" in await client.result(CALL, TOOL)
        script.known = set()
        script.change()
        assert "n" in await client.result(CALL, TOOL)
        assert "initialize" in [asked.message["method"] for asked in script.refused if asked.body]


async def test_a_way_that_changes_meanwhile_is_no_other_secret(tmp_path: Path) -> None:
    """What comes from another Mooring changes what is said of the way, and not who asks."""
    going_on = asyncio.Event()

    class Slow(Guarded):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            if asked.body and asked.message.get("method") == CALL:
                await going_on.wait()
            return await super().__call__(asked, wire)

    script = Slow(tmp_path / "secrets")
    async with in_front_of(script) as (server, client):
        call = asyncio.create_task(client.result(CALL, TOOL))
        [before] = await server.count(1, CALL)
        script.change()
        stranger = McpClient(client.port)
        assert (await stranger.raw("POST", stranger.request("ping"), mooring_via="another")).status == 400
        going_on.set()
        async with within():
            assert "n" in await call
        [_, after] = await server.count(2, CALL)
        assert after.headers["mooring-via"] == before.headers["mooring-via"] + ", another"


async def test_calls_that_are_refused_one_after_the_other(tmp_path: Path) -> None:
    going_on = {str(n): asyncio.Event() for n in range(4)}

    class Slow(Guarded):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            if asked.body and asked.message.get("method") == CALL:
                await going_on[asked.message["params"]["name"]].wait()
            return await super().__call__(asked, wire)

    script = Slow(tmp_path / "secrets")
    async with in_front_of(script) as (server, client):
        calls = {
            name: asyncio.create_task(client.result(CALL, {"name": name, "arguments": {}}))
            for name in going_on
        }
        await server.count(4, CALL)
        script.change()
        async with within():
            for name, call in calls.items():
                going_on[name].set()
                assert "n" in await call
        calls_refused = [one for one in script.refused if one.body and one.message["method"] == CALL]
        assert len(calls_refused) == 4


@asynccontextmanager
async def in_front_of_stranger(script: Guarded) -> AsyncIterator[tuple[Host, McpClient]]:
    """It knows Mooring with no secret that Mooring has."""
    Vault(script.secrets).put("linear", "not-this-one")
    async with hosted(script) as (_, host), McpClient(host.port) as client:
        await until(lambda: state_of(host) == ("failed", "unauthorized"))
        yield host, client


def state_of(host: Host) -> tuple[str, str]:
    """And why; as it was last logged."""
    states = [vars(record) for record in host.events("state")]
    return (states[-1]["state"], states[-1]["reason"]) if states else ("", "")


async def test_one_that_lets_nobody_in_is_asked_by_the_next_session(tmp_path: Path) -> None:
    script = Guarded(tmp_path / "secrets")
    async with in_front_of_stranger(script) as (_, client):
        script.change()
        await client.initialize()
        assert "n" in await client.result(CALL, TOOL)


async def test_and_by_later_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workload, "REFUSED_AGAIN_S", 0.0)
    script = Guarded(tmp_path / "secrets")
    async with in_front_of_stranger(script) as (host, client):
        refused = await client.raw("POST", client.request("initialize", INTRODUCTION))
        assert json.loads(refused.body)["error"]["data"]["reason"] == "unauthorized", refused
        await until(lambda: state_of(host) == ("failed", "unauthorized"))
        script.change()
        await client.initialize()
        assert "n" in await client.result(CALL, TOOL)


async def test_who_comes_a_moment_after_that_is_told_why_and_not_to_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workload, "REFUSED_AGAIN_S", 3600.0)
    script = Guarded(tmp_path / "secrets")
    async with in_front_of_stranger(script) as (host, client):
        await client.raw("POST", client.request("initialize", INTRODUCTION))
        await until(lambda: len(host.events("state")) > 2 and state_of(host) == ("failed", "unauthorized"))
        asked = len(script.refused)
        refused = await client.raw("POST", client.request("initialize", INTRODUCTION))
        told = json.loads(refused.body)["error"]
        assert told["data"] == {"reason": "unauthorized", "retryable": True}
        assert "wants to know who asks" in told["message"] and "asks us to wait" not in told["message"]
        assert refused.status == 503 and "retry-after" not in refused.headers
        assert len(script.refused) == asked


async def test_that_calls_fail_is_said_once_and_until_one_is_answered(tmp_path: Path) -> None:
    script = Guarded(tmp_path / "secrets")
    async with hosted(script) as (_, host), client_of(host.port) as client:
        assert "n" in await client.result(CALL, TOOL)
        assert (await client.raw("DELETE")).status == 204
        Vault(script.secrets).put("linear", "not-this-one")
        for _ in range(3):
            async with McpClient(host.port) as stranger:
                answer = await stranger.raw("POST", stranger.request("initialize", INTRODUCTION))
                assert json.loads(answer.body)["error"]["data"]["reason"] == "unauthorized"
        assert state_of(host) == ("ready", "calls_fail")
        [told] = host.events("calls_fail")
        assert "who asks (401)" in told.getMessage() and "not-this-one" not in told.getMessage()
        script.change()
        async with client_of(host.port) as friend:
            assert "n" in await friend.result(CALL, TOOL)
        assert len(host.events("calls_answered")) == 1
