"""A daemon hands over to another, both in this process: what is under way, what waits, what cannot move."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from mooring.host import daemon, handing_over, leaving
from mooring.host.daemon import DaemonOptions
from mooring.proxy.policy import SessionPolicy
from mooring.runtimes import ProcessInstance
from mooring.secrets.vault import Vault
from mooring.workloads import session_keeper
from mooring.workloads.definition import ServerOptions, dump_options
from tests.hosting import ENVIRONMENT, SCRIPTED, SHORT
from tests.integration.test_daemon import Life, living
from tests.integration.test_eras import ASKABLE, HANDSHAKE, MODERN, ModernClient
from tests.integration.test_sse_transport import SseClient
from tests.ledger import Caller, Ledger
from tests.mcp_client import McpClient, client_of
from tests.support import alive, until, within
from tests.websocket_client import ws_client


@pytest.fixture(autouse=True)
def _sessions_are_written_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "WRITE_S", 0.01)


class Daemons:
    """The daemon that serves, and those before it that may still finish something."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.port = 0

    async def run(self, name: str, command: tuple[str, ...], **options: Any) -> None:
        described = ServerOptions(name=name, argv=command, env=ENVIRONMENT, patience=SHORT, **options)
        body = {"options": msgspec.json.decode(dump_options(described)), "replace": False}
        await self.life.ask("PUT", f"/servers/{name}", body)
        self.port = (await self.life.ask("GET", "/daemon"))["port"]
        while (await self.life.ask("GET", f"/servers/{name}"))["state"] != "ready":
            await asyncio.sleep(0.01)

    async def pids(self, name: str) -> set[int]:
        """Of all its processes that serve somebody."""
        seen = await self.life.ask("GET", f"/servers/{name}")
        return {one["pid"] for one in seen["instances"] if one["use"] == "serving"}

    async def restart(self) -> Life:
        """Another one takes over; returns the old one, which ends when it has nothing left."""
        before = (await self.life.ask("GET", "/daemon"))["nonce"]
        old, new = self.life, Life(self.life.places)
        options = DaemonOptions(places=new.places, take_over=True, drain_timeout_s=20.0)
        new.task = asyncio.create_task(daemon.run(options, new.stop))
        while (await new.ask("GET", "/daemon"))["nonce"] == before:
            assert not new.task.done(), new.task.exception()
            await asyncio.sleep(0.01)
        self.life = new
        return old


def has_ended(life: Life) -> bool:
    assert life.task is not None
    return life.task.done()


@asynccontextmanager
async def daemons(tmp_path: Path) -> AsyncIterator[Daemons]:
    async with within(60), living(tmp_path, drain_timeout_s=20.0) as life:
        here = Daemons(life)
        try:
            yield here
        finally:
            await here.life.end()


async def test_a_call_in_flight_is_finished_by_the_old_one_and_others_do_not_wait(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        port = here.port
        async with client_of(port, path="/ledger/mcp") as busy, client_of(port, path="/ledger/mcp") as other:
            slow, quick = await Caller.of(busy), await Caller.of(other)
            pids = [(await caller.mark(f"first-{n}"))["pid"] for n, caller in enumerate((slow, quick))]
            slow.send("x/mark", mark="slow", delay_s=0.7)
            await until(lambda: ledger.marks()["slow"])
            old = await here.restart()
            assert (await quick.mark("quick"))["pid"] == pids[1]
            # One that comes for the busy session waits until that has moved, and is executed there.
            behind = asyncio.create_task(busy.result("x/mark", {"mark": "behind"}))
            assert (await slow.answer())["mark"] == "slow"
            assert (await behind)["pid"] == pids[0]
            assert (await slow.mark("last"))["pid"] == pids[0]
            await until(partial(has_ended, old))
        assert set(ledger.marks().values()) == {1}


async def test_a_call_beside_one_that_takes_long_is_not_held_up_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "HOLD_S", 0.2)
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        async with client_of(here.port, path="/ledger/mcp") as client:
            slow = await Caller.of(client)
            slow.send("x/mark", mark="slow", delay_s=2.0)
            await until(lambda: ledger.marks()["slow"])
            await here.restart()
            first = await client.result("x/mark", {"mark": "beside"})
            assert not slow.peer.reader.at_eof() and ledger.marks()["beside"] == 1
            assert (await client.result("x/mark", {"mark": "and again"}))["pid"] == first["pid"]
            assert (await slow.answer())["pid"] == first["pid"]
            assert (await slow.mark("after"))["pid"] == first["pid"]


async def test_whatever_ends_a_session_meanwhile_leaves_nobody_waiting(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        port = here.port
        async with (
            client_of(port, path="/ledger/mcp") as ended,
            client_of(port, path="/ledger/mcp") as stopped,
        ):
            for n, client in enumerate((ended, stopped)):
                slow = {"mark": f"slow-{n}", "delay_s": 1.0 if client is stopped else 60.0}
                await client.send("POST", client.request("x/mark", slow))
                await until(partial(ledger.has, f"slow-{n}"))
            old = await here.restart()
            held = asyncio.create_task(ended.raw("POST", ended.request("x/mark", {"mark": "held"})))
            await asyncio.sleep(0.2)
            assert (await ended.raw("DELETE")).status == 204
            assert (await held).status == 404
            await here.life.ask("POST", "/servers/ledger/restart")
            await until(partial(has_ended, old))
            assert (await stopped.result("x/mark", {"mark": "after"}))["mark"] == "after", (
                "the session goes on"
            )
            assert len((await here.life.ask("GET", "/servers/ledger"))["instances"]) <= 2
        assert ledger.marks()["held"] == 0


async def test_told_to_end_while_it_finishes_calls_the_old_one_ends(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        async with client_of(here.port, path="/ledger/mcp") as client:
            slow = await Caller.of(client)
            slow.send("x/mark", mark="slow", delay_s=0.7)
            await until(lambda: ledger.marks()["slow"])
            old = await here.restart()
            old.stop.request("SIGTERM")
            pid = (await slow.answer())["pid"]
            assert (await slow.mark("after"))["pid"] == pid, "it had the time to hand it over"
            await until(partial(has_ended, old))


async def test_a_question_is_answered_across_the_restart(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        async with client_of(here.port, path="/ledger/mcp") as client:
            asking = await client.stream("POST", client.request("x/ask", {"mark": "question"}))
            question = await asking.message()
            await here.restart()
            await client.respond(question["id"], {"roots": []})
            [answer] = await asking.rest()
            assert answer["result"]["mark"] == "question"
            assert (await client.result("x/mark", {"mark": "after"}))["pid"] == answer["result"]["pid"]


async def test_a_stream_is_resumed_at_the_new_one(tmp_path: Path) -> None:
    news = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    async with daemons(tmp_path) as here:
        await here.run("one", SCRIPTED)
        async with client_of(here.port, path="/one/mcp") as client:
            stream = await client.stream()
            await client.emit({**news, "params": {"n": 1}})
            assert (await stream.message())["params"] == {"n": 1}
            await here.restart()
            position = await stream.event()
            assert position is not None and position.id and not position.data
            assert await stream.event() is None, "it has ended properly"
            await client.emit({**news, "params": {"n": 2}})
            again = await client.stream(Last_Event_ID=position.id)
            assert (await again.message())["params"] == {"n": 2}


async def test_what_many_share_goes_on_when_their_calls_are_answered(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command, sessions=SessionPolicy(shared=1))
        port = here.port
        async with client_of(port, path="/ledger/mcp") as one, client_of(port, path="/ledger/mcp") as two:
            pid = (await one.result("x/mark", {"mark": "a"}))["pid"]
            for n in range(3):
                slow, mark = await Caller.of(two), f"slow-{n}"
                slow.send("x/mark", mark=mark, delay_s=0.2)
                while not ledger.marks()[mark]:
                    await asyncio.sleep(0.01)
                await here.restart()
                assert (await slow.answer())["pid"] == pid
                assert (await one.result("x/mark", {"mark": f"b-{n}"}))["pid"] == pid
                assert (await slow.mark(f"c-{n}"))["pid"] == pid
        assert set(ledger.marks().values()) == {1}


async def test_what_many_share_is_begun_anew_if_a_call_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing_over, "CALM_S", 0.1)
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command, sessions=SessionPolicy(shared=1))
        port = here.port
        async with client_of(port, path="/ledger/mcp") as one, client_of(port, path="/ledger/mcp") as two:
            pid = (await one.result("x/mark", {"mark": "a"}))["pid"]
            slow = await Caller.of(two)
            slow.send("x/mark", mark="slow", delay_s=0.7)
            await until(lambda: ledger.marks()["slow"])
            old = await here.restart()
            other = (await one.result("x/mark", {"mark": "b"}))["pid"]
            assert other != pid
            assert (await slow.answer())["pid"] == pid
            assert (await slow.mark("c"))["pid"] == other
            await until(lambda: has_ended(old) and not alive(pid))
        assert set(ledger.marks().values()) == {1}


async def test_a_parked_call_is_gone_on_with_where_it_waits(tmp_path: Path) -> None:
    """A client without sessions was asked something; what it answers belongs to the call that waits."""
    async with daemons(tmp_path) as here:
        await here.run("era", HANDSHAKE)
        async with ModernClient(here.port) as client:
            client.path, client.capabilities = "/era/mcp", ASKABLE
            asked = await client.tool("ask")
            [key] = asked["inputRequests"]
            old = await here.restart()
            assert (await client.tool("echo"))["resultType"] == "complete"
            assert not has_ended(old), "it still has the call"
            answer = {"action": "accept", "content": {"name": "Ada"}}
            heard = await client.said("ask", inputResponses={key: answer}, requestState=asked["requestState"])
            assert heard["elicitation/create"] == answer
            await until(partial(has_ended, old))


async def test_a_call_that_is_parked_at_the_new_one_is_gone_on_with_there(tmp_path: Path) -> None:
    """Whose answer it is says the seal of what the client was given."""
    answer = {"action": "accept", "content": {"name": "Ada"}}
    async with daemons(tmp_path) as here:
        await here.run("era", HANDSHAKE)
        async with ModernClient(here.port) as early, ModernClient(here.port) as late:
            for client in (early, late):
                client.path, client.capabilities = "/era/mcp", ASKABLE
            first = await early.tool("ask")
            old = await here.restart()
            second = await late.tool("ask")
            forged = await late.post("tools/call", {"name": "ask", "requestState": "x" * 60})
            assert forged.status == 400, "and does not go to and fro"
            for client, asked in ((late, second), (early, first)):
                assert not has_ended(old)
                [key] = asked["inputRequests"]
                going_on = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
                assert (await client.said("ask", **going_on))["elicitation/create"] == answer
            await until(partial(has_ended, old))


async def test_nobody_hears_the_answer_to_a_websocket_on_a_shared_process(tmp_path: Path) -> None:
    """Messages that come while it is handed over wait, or their connection ends: none is sent to nobody."""
    ledger, answers = Ledger(tmp_path / "ledger"), 0
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command, sessions=SessionPolicy(shared=1))
        over = asyncio.Event()

        async def on_http(who: int) -> None:
            async with client_of(here.port, path="/ledger/mcp") as client:
                n = 0
                while not over.is_set():
                    n += 1
                    said = await client.result("x/mark", {"mark": f"http-{who}-{n}"})
                    assert said["mark"] == f"http-{who}-{n}"

        async def on_websockets() -> int:
            count = 0
            while not over.is_set():
                with contextlib.suppress(ConnectionClosed):
                    async with ws_client(here.port, path="/ledger/ws") as client:
                        while not over.is_set():
                            mark = f"ws-{count}"
                            assert (await client.result("x/mark", {"mark": mark}))["mark"] == mark
                            count += 1
            return count

        clients = [asyncio.create_task(on_http(who)) for who in range(3)]
        talking = asyncio.create_task(on_websockets())
        for _ in range(5):
            old = await here.restart()
            await until(partial(has_ended, old))
        over.set()
        await asyncio.gather(*clients)
        answers = await talking
        assert answers > 0
        assert max(ledger.marks().values()) == 1


async def test_instances_that_nobody_uses_end_there_too(tmp_path: Path) -> None:
    async with daemons(tmp_path) as here:
        for name, server in (("old-era", HANDSHAKE), ("new-era", MODERN)):
            await here.run(name, server, sessions=SessionPolicy(idle_timeout_s=0.5))
            async with ModernClient(here.port) as client:
                client.path = f"/{name}/mcp"
                assert (await client.tool("echo"))["resultType"] == "complete"
        await here.restart()
        for name in ("old-era", "new-era"):
            while await here.pids(name):
                await asyncio.sleep(0.05)


async def test_a_session_stays_with_its_process_of_several_that_are_shared(tmp_path: Path) -> None:
    async with daemons(tmp_path) as here, contextlib.AsyncExitStack() as stack:
        await here.run("test", SCRIPTED, sessions=SessionPolicy(shared=3))
        clients = [await stack.enter_async_context(client_of(here.port, path="/test/mcp")) for _ in range(6)]
        pids = [await client.pid() for client in clients]
        assert len(set(pids)) == 3
        for _ in range(2):
            await here.restart()
            assert [await client.pid() for client in clients] == pids


async def test_a_value_that_a_process_was_given_before_stays_masked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with daemons(tmp_path) as here:
        vault = Vault(here.life.places.secrets)
        vault.put("linear", "the-first-one")
        await here.run("test", SCRIPTED, env_references={"TOKEN": "secret:linear"})
        async with client_of(here.port, path="/test/mcp") as client:
            pid = await client.pid()
            vault.put("linear", "the-second-one")
            await here.restart()
            assert await client.pid() == pid
            await client.emit(b"I was given the-first-one")
            await until(lambda: "I was given [secret:linear]" in caplog.text)
    assert "the-first-one" not in caplog.text


async def test_a_server_that_was_restarted_meanwhile_takes_no_session_of_the_one_before(
    tmp_path: Path,
) -> None:
    async with daemons(tmp_path) as here:
        ledger = Ledger(tmp_path / "ledger")
        await here.run("ledger", ledger.command)
        async with client_of(here.port, path="/ledger/mcp") as client:
            slow = await Caller.of(client)
            first = (await slow.mark("first"))["pid"]
            slow.send("x/mark", mark="slow", delay_s=0.7)
            await until(lambda: ledger.marks()["slow"])
            old = await here.restart()
            await here.life.ask("POST", "/servers/ledger/restart", {})
            assert (await slow.answer())["pid"] == first
            await until(lambda: has_ended(old) and not alive(first))
            second = (await slow.mark("second"))["pid"]
            assert second != first
            assert (await slow.mark("third"))["pid"] == second
            assert (await here.life.ask("GET", "/servers/ledger"))["sessions"] == 1
            assert len(await here.pids("ledger")) == 1


async def test_a_server_of_the_later_era_is_served_throughout(tmp_path: Path) -> None:
    async with daemons(tmp_path) as here:
        await here.run("era", MODERN)
        port = here.port
        async with ModernClient(port) as client, client_of(port, path="/era/mcp") as older:
            client.path = "/era/mcp"
            listening = await client.watch(
                "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
            for _ in range(2):
                assert (await client.tool("echo"))["resultType"] == "complete"
                assert (await older.call("echo"))["content"]
                pids = await here.pids("era")
                old = await here.restart()
                await until(partial(has_ended, old))
                assert await here.pids("era") == pids
            await listening.rest()
            assert (await client.tool("echo"))["resultType"] == "complete"
            assert (await older.call("echo"))["content"]
            assert len(pids) == 2 and await here.pids("era") == pids


@pytest.mark.parametrize("capabilities", [{}, ASKABLE])
async def test_instances_for_requests_without_a_session_go_on(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    async with daemons(tmp_path) as here:
        await here.run("era", HANDSHAKE)
        async with ModernClient(here.port) as client:
            client.path, client.capabilities = "/era/mcp", capabilities
            assert (await client.tool("echo"))["resultType"] == "complete"
            pids = await here.pids("era")
            assert pids
            for _ in range(2):
                old = await here.restart()
                await until(partial(has_ended, old))
                assert await here.pids("era") == pids
                assert (await client.tool("echo"))["resultType"] == "complete"
                assert await here.pids("era") == pids


async def test_connections_that_are_sessions_end_as_they_should(tmp_path: Path) -> None:
    """WebSocket: 1012, when its call is answered. HTTP+SSE: the end of its stream, when its call is."""
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        port = here.port
        async with (
            McpClient(port, path="/ledger/sse") as idle,
            ws_client(port, path="/ledger/ws") as busy,
        ):
            stream = await idle.stream()
            assert await stream.event() is not None
            slow = asyncio.create_task(busy.result("x/mark", {"mark": "slow", "delay_s": 0.7}))
            await until(lambda: ledger.marks()["slow"])
            old = await here.restart()
            assert await stream.event() is None
            assert (await slow)["mark"] == "slow"
            assert (await busy.closed())[0] == 1012
            await until(partial(has_ended, old))
        assert set(ledger.marks().values()) == {1}


SPILLING = (
    sys.executable,
    "-c",
    """\
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        method, result = message["method"], {"pid": os.getpid()}
        if method == "initialize":
            info = {"name": "spilling", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
        if method == "x/spill":
            print("x" * 20_000, end="", flush=True)
""",
)
"""A server that answers, and then writes on without an end."""


async def test_a_session_on_the_old_transport_is_served_until_it_rests(tmp_path: Path) -> None:
    """It cannot move, so nothing need wait for that."""
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        async with SseClient(here.port) as client:
            await client.connect("/ledger")
            await client.raw("POST", client.request("x/mark", {"mark": "slow", "delay_s": 1.0}, id=8))
            await until(partial(ledger.has, "slow"))
            old = await here.restart()
            await client.raw("POST", client.request("x/mark", {"mark": "beside"}, id=9))
            answers = [message["id"] for message in await client.events.rest()]
            assert answers == [9, 8]
            await until(partial(has_ended, old))


async def test_an_instance_that_cannot_be_passed_on_is_left_and_its_session_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes a line that does not end and is too long to be kept: nobody could read on in its middle."""
    monkeypatch.setattr(handing_over, "STUCK_S", 0.1)
    async with daemons(tmp_path) as here:
        await here.run("one", SPILLING, sessions=SessionPolicy(max_message_bytes=10_000))
        async with client_of(here.port, path="/one/mcp") as client:
            pid = (await client.result("x/spill"))["pid"]
            [instance] = [
                each for each in gc.get_objects() if isinstance(each, ProcessInstance) and each.pid == pid
            ]
            await until(lambda: instance.stdout.unfinished is None)
            old = await here.restart()
            assert await client.pid() != pid
            await until(lambda: has_ended(old) and not alive(pid))


async def test_the_next_restart_waits_for_the_one_before(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with daemons(tmp_path) as here:
        await here.run("ledger", ledger.command)
        async with client_of(here.port, path="/ledger/mcp") as client:
            slow = await Caller.of(client)
            slow.send("x/mark", mark="slow", delay_s=1.0)
            await until(partial(ledger.has, "slow"))
            first = await here.restart()
            second = asyncio.create_task(here.restart())
            pid = (await slow.answer())["pid"]
            assert not second.done(), "only now can everything be handed over"
            assert (await slow.mark("between"))["pid"] == pid
            await until(partial(has_ended, first))
            await until(partial(has_ended, await second))
            assert (await slow.mark("after"))["pid"] == pid


async def test_what_is_wanted_and_what_is_known_of_servers_stays(tmp_path: Path) -> None:
    async with daemons(tmp_path) as here:
        await here.run("one", SCRIPTED)
        await here.run("two", SCRIPTED)
        await here.life.ask("POST", "/servers/two/stop")
        async with client_of(here.port, path="/one/mcp") as client:
            os.kill(await client.pid(), signal.SIGKILL)
            while (await here.life.ask("GET", "/servers/one"))["restarts"] == 0:
                await asyncio.sleep(0.01)
            assert await client.pid()
            before = {server["name"]: server for server in await here.life.ask("GET", "/servers")}
            await here.restart()
            after = {server["name"]: server for server in await here.life.ask("GET", "/servers")}
        for name in (
            "state",
            "reason",
            "generation",
            "started_at",
            "restarts",
            "last_exit",
            "exits",
            "sessions",
        ):
            assert after["one"][name] == before["one"][name], name
        assert (after["two"]["state"], before["one"]["restarts"]) == ("stopped", 1)
        await here.life.ask("POST", "/servers/two/start")
        await here.restart()
        assert (await here.life.ask("GET", "/servers/two"))["generation"] == 3


async def test_a_server_that_does_not_start_is_tried_again_and_others_are_not_disturbed(
    tmp_path: Path,
) -> None:
    async with daemons(tmp_path) as here:
        await here.run("one", SCRIPTED)
        described = ServerOptions(name="bad", argv=(*SCRIPTED, "--refuse"), env=ENVIRONMENT, patience=SHORT)
        body = {"options": msgspec.json.decode(dump_options(described)), "replace": False}
        await here.life.ask("PUT", "/servers/bad", body)
        while (await here.life.ask("GET", "/servers/bad"))["state"] != "failed":
            await asyncio.sleep(0.01)
        await here.restart()
        assert (await here.life.ask("GET", "/servers/one"))["state"] == "ready"
        while (await here.life.ask("GET", "/servers/bad"))["state"] != "failed":
            await asyncio.sleep(0.01)


async def test_whoever_waits_for_events_asks_the_new_one(tmp_path: Path) -> None:
    async with daemons(tmp_path) as here:
        await here.run("one", SCRIPTED)
        last = (await here.life.ask("GET", "/events"))[-1]["number"]
        waiting = asyncio.create_task(here.life.ask("GET", f"/events?after={last}&wait_s=60"))
        await asyncio.sleep(0.1)
        old = await here.restart()
        told = [event["kind"] for event in await waiting]
        assert told in ([], ["daemon_took_over"]), "the new one may have written that down already"
        await until(partial(has_ended, old))
        kinds = [event["kind"] for event in await here.life.ask("GET", f"/events?after={last}")]
        assert kinds == ["daemon_took_over"]
