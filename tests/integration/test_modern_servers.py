"""Servers of 2026-07-28: who may use which of their instances, and listeners that end."""

import asyncio
import json

import pytest

from mooring.proxy.era import find_era
from mooring.proxy.ports import Channel
from mooring.wire.modern import LEVEL_KEY
from tests.hosting import Host, hosting
from tests.http_client import Peer
from tests.integration.test_eras import HANDSHAKE, MODERN, ModernClient, modern_client_of
from tests.mcp_client import client_of
from tests.one_pipe import OnePipe, Pipe
from tests.support import alive, until, within

LOGGED = {LEVEL_KEY: "debug"}


class Unanswering(Pipe):
    """An instance that says nothing."""

    def send(self, line: bytes) -> int:
        return 0


class Lent(OnePipe):
    """Counts what it gets back."""

    released = 0

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None:
        self.released += 1


async def test_who_stops_asking_for_the_era_gives_the_instance_back() -> None:
    backend = Lent(Unanswering())
    asking = asyncio.create_task(find_era(backend, 60))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled() and backend.released == 1


async def hold_with_log(client: ModernClient, host: Host, number: int) -> Peer:
    """A call that is never answered, and reads the log."""
    body, headers = client.question("tools/call", {"name": "hold"}, **LOGGED)
    peer = await client.send("POST", body, **headers)
    in_flight = f'mooring_calls_in_flight{{server="test"}} {number}\n'.encode()
    async with ModernClient(host.port) as probe, within():
        probe.path = "/metrics"
        while in_flight not in (await probe.raw("GET")).body:
            pass
    return peer


async def test_an_instance_whose_log_reader_left_is_used_no_more() -> None:
    """It may still log on behalf of that call, and a log message names none."""
    async with modern_client_of(MODERN, spare=0) as (client, host):
        pid = (await client.said("echo"))["pid"]
        listener = await client.watch("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await listener.message()
        held = await hold_with_log(client, host, 1)
        held.reset()
        async with within():
            while (await client.said("echo"))["pid"] == pid:
                pass
        assert alive(pid), "for whoever rides there already"
        listener.reset()
        await until(lambda: not alive(pid))


async def test_readers_of_the_log_have_no_more_instances_than_there_may_be_sessions() -> None:
    async with modern_client_of(MODERN, spare=0, max_sessions=2, drain_timeout_s=0.1) as (client, host):
        await hold_with_log(client, host, 1)
        await hold_with_log(client, host, 2)
        refused = await client.ask("tools/call", {"name": "log"}, **LOGGED)
        assert refused["error"]["data"] == {"reason": "too_many_listeners", "retryable": True}
        assert await client.said("echo"), "whoever wants no log rides with others"


async def test_a_listener_that_kills_the_server_is_not_given_to_the_next_one() -> None:
    async with modern_client_of(MODERN) as (client, host):
        wanted = {"notifications": {"resourceSubscriptions": ["res://deadly"]}}
        stream = await client.watch("subscriptions/listen", wanted)
        assert (await stream.message())["error"]["data"]["reason"] == "server_exited"
        assert await client.said("echo")
        assert len(host.events("server_exited")) == 1


@pytest.mark.parametrize("server", [HANDSHAKE, MODERN], ids=["handshake", "modern"])
async def test_a_token_that_only_the_server_sees_reaches_nobody_else(server: tuple[str, ...]) -> None:
    """Of two members with one name Mooring takes the last, this server the first."""
    async with modern_client_of((*server, "--first"), drain_timeout_s=0.1) as (client, _):
        await client.said("echo")
        holding = {"name": "hold"}
        body, headers = client.question("tools/call", holding, progressToken="victim")
        held = await client.send("POST", body, **headers)
        async with within():
            while not (
                holds := [m for m in await client.said("heard") if m.get("params", {}).get("name") == "hold"]
            ):
                pass
        number = holds[0]["id"]
        for token in (
            b'"progressToken":%d,"progressToken":null',
            b'"progress\\u0054oken":%d,"progressToken":null',
        ):
            body, headers = client.question("tools/call", {"name": "progress"}, forged=True)
            forged = body.replace(b'"forged": true', token % number)
            answer = await client.raw("POST", forged, **headers)
            assert answer.status == 200 and answer.headers["content-type"] == "application/json"
        await client.ask("tools/call", {"name": "die"})
        async with within():
            answer = await held.answer()
        assert answer.headers["content-type"] == "application/json", "no progress came before the answer"


async def test_subscriptions_of_a_handshake_client_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.wire.memory.MAX_SUBSCRIPTIONS", 2)
    async with hosting(MODERN) as host, client_of(host.port) as client:
        for uri in ("res://1", "res://2", "res://2"):
            assert await client.result("resources/subscribe", {"uri": uri}) == {}
        refused = await client.ask("resources/subscribe", {"uri": "res://3"})
        assert "too many subscriptions" in refused["error"]["message"]
        await client.result("resources/unsubscribe", {"uri": "res://1"})
        assert await client.result("resources/subscribe", {"uri": "res://3"}) == {}
        filters = [
            message["params"]["notifications"].get("resourceSubscriptions", [])
            for message in json.loads(await client.text("heard"))
            if message.get("method") == "subscriptions/listen"
        ]
        assert filters[-1] == ["res://2", "res://3"] and max(map(len, filters)) == 2


async def test_a_session_listens_again_when_the_server_has_ended_its_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.proxy.modern_face.LISTEN_AGAIN_S", 0.01)
    async with hosting(MODERN) as host, client_of(host.port) as client:
        stream = await client.stream()
        await client.call("end-listeners")
        async with within():
            while "subscriptions/listen" not in (await client.text("heard")).partition("end-listeners")[2]:
                pass
        await client.call("change")
        assert (await stream.message())["method"] == "notifications/tools/list_changed"
