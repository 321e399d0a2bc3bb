"""Servers that hang while nobody calls them: noticed, replaced, and their clients go on."""

import json
import os
import signal
from typing import Any

import pytest

from tests.hosting import SCRIPTED, Host, hosting
from tests.integration.test_eras import MODERN, ModernClient
from tests.integration.test_sharing import readyz
from tests.mcp_client import McpClient, client_of
from tests.support import alive, suspend, until, within

QUICK: dict[str, Any] = {"ping_interval_s": 0.05, "ping_timeout_s": 0.3, "spare": 0}


async def given_up(host: Host, number: int = 1) -> Any:
    return await host.logged("server_given_up", number)


async def pings_heard(client: McpClient) -> list[Any]:
    messages = [json.loads(line) for line in await client.heard()]
    return [message["id"] for message in messages if message.get("method") == "ping"]


async def test_an_idle_server_that_hangs_is_replaced_and_its_session_goes_on() -> None:
    async with hosting(SCRIPTED, **QUICK) as host, client_of(host.port) as client:
        pid = await client.pid()
        await suspend(pid)
        record = await given_up(host)
        assert record.pid == pid and "did not answer 2 pings" in record.getMessage()
        assert await client.pid() != pid
        assert (await readyz(host))["last_exit"] == "it did not answer 2 pings"
        await until(lambda: not alive(pid))


async def test_a_server_with_a_call_in_flight_is_not_replaced_however_long_it_hangs() -> None:
    async with (
        hosting(SCRIPTED, **QUICK) as host,
        client_of(host.port) as busy,
        client_of(host.port) as idle,
    ):
        pids = [await busy.pid(), await idle.pid()]
        for pid in pids:
            await suspend(pid)
        peer = await busy.send("POST", busy.request("x/pid"))
        assert (await given_up(host)).pid == pids[1]
        await suspend(await idle.pid())
        assert (await given_up(host, 2)).pid not in pids, "time enough for the other, twice over"
        os.kill(pids[0], signal.SIGCONT)
        async with within():
            assert json.loads((await peer.answer()).body)["result"]["pid"] == pids[0]


async def test_pings_reach_no_client_and_are_no_use() -> None:
    """The instance of an idle session is ended although it is asked again and again."""
    options = {**QUICK, "idle_timeout_s": 4.0}
    async with hosting(SCRIPTED, **options) as host, client_of(host.port) as client:
        stream = await client.stream()
        async with within():
            while len(pings := await pings_heard(client)) < 2:
                pass
        assert len(set(pings)) == len(pings)
        stream.reset()
        await host.logged("session_idle")
        assert not host.events("server_given_up")
        assert len(host.events("instance_started")) == 2, "of the probe and of the session"


async def test_an_error_is_an_answer_too() -> None:
    async with hosting((*SCRIPTED, "--without", "ping"), **QUICK) as host, client_of(host.port) as client:
        pid = await client.pid()
        async with within():
            while len(await pings_heard(client)) < 3:
                pass
        assert await client.pid() == pid
        await suspend(pid)
        assert (await given_up(host)).pid == pid, "it did answer, so its silence means something"


async def test_a_server_of_2026_07_28_is_asked_what_it_knows() -> None:
    async with hosting(MODERN, **QUICK) as host, client_of(host.port) as client:
        pid = json.loads(await client.text("echo"))["pid"]
        await host.logged("era")
        async with within():
            while True:
                heard = json.loads(await client.text("heard"))
                if sum(message.get("method") == "server/discover" for message in heard) >= 2:
                    break
        assert json.loads(await client.text("echo"))["pid"] == pid


async def test_a_server_that_never_answers_pings_is_left_alone() -> None:
    async with hosting((*SCRIPTED, "--deaf-to", "ping"), **QUICK) as host, client_of(host.port) as client:
        pid = await client.pid()
        await host.logged("pings_unanswered")
        assert await client.pid() == pid and not host.events("server_given_up")


async def test_a_shared_server_that_hangs_is_replaced() -> None:
    options = {**QUICK, "shared": 1}
    async with (
        hosting(SCRIPTED, **options) as host,
        client_of(host.port) as one,
        client_of(host.port) as other,
    ):
        pid = await one.pid()
        assert await other.pid() == pid
        await suspend(pid)
        assert (await given_up(host)).pid == pid
        assert await one.pid() == await other.pid() != pid


async def test_a_server_of_2026_07_28_that_hangs_is_replaced_under_its_listeners() -> None:
    async with hosting(MODERN, **QUICK) as host, ModernClient(host.port) as client:
        pid = (await client.said("echo"))["pid"]
        stream = await client.watch("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await stream.message()
        await suspend(pid)
        assert (await given_up(host)).pid == pid
        assert (await client.said("echo"))["pid"] != pid
        await client.tool("change")
        async with within():
            while (await stream.message()).get("method") != "notifications/tools/list_changed":
                pass


@pytest.mark.parametrize("shared", [0, 1])
async def test_the_silence_of_a_server_that_is_being_stopped_is_no_reason_for_another(shared: int) -> None:
    async with hosting(SCRIPTED, **QUICK, shared=shared, drain_timeout_s=4.0) as host:
        async with client_of(host.port) as client, client_of(host.port) as other:
            await suspend(await client.pid())
            peer = await other.send("POST", other.request("x/hold"))
            await host.end()
            async with within():
                await peer.answer()
        assert not host.events("server_given_up")


async def test_pings_can_be_switched_off() -> None:
    async with hosting(SCRIPTED, **{**QUICK, "ping_interval_s": None}, idle_timeout_s=3.0) as host:
        async with client_of(host.port) as client:
            await suspend(await client.pid())
            await host.logged("session_idle")
        assert not host.events("server_given_up")
