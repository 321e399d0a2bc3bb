"""Many clients on one process (`--shared`): each hears what is its own, and nothing else."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from mooring.proxy.call_errors import Failure
from mooring.proxy.face import MAX_MISSED_BYTES
from mooring.proxy.passed_trunk import SHARED, Purpose
from mooring.proxy.riders import Indifferent, Ride
from mooring.proxy.shared_face import SharedFace
from mooring.proxy.sharing import Sharing
from mooring.proxy.trunk import Trunk
from mooring.wire.budget import Budget
from tests.hosting import SCRIPTED, Host, hosting
from tests.integration.test_eras import HANDSHAKE, MODERN, ModernClient
from tests.mcp_client import Json, McpClient, Stream, client_of, emission
from tests.one_pipe import Ears, Pipe, trunks_over
from tests.support import children, until, within

ALL_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class Told(Indifferent):
    """A call of a client, which remembers why it failed."""

    counts = True

    def __init__(self) -> None:
        self.failure: Failure | None = None

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        self.failure = failure


def trunks_held(trunk: Trunk) -> int:
    return sum(len(ride.line) for ride in trunk.rides.values())


@asynccontextmanager
async def clients_of(
    server: tuple[str, ...], number: int, *, shared: int = 1, **options: Any
) -> AsyncIterator[tuple[Host, list[McpClient]]]:
    async with AsyncExitStack() as stack:
        options = {"shared": shared, "spare": 0, "drain_timeout_s": 0.2, **options}
        host = await stack.enter_async_context(hosting(server, **options))
        yield host, [await stack.enter_async_context(client_of(host.port)) for _ in range(number)]


async def readyz(host: Host) -> Json:
    async with McpClient(host.port, path="/readyz") as probe:
        return json.loads((await probe.raw("GET")).body)  # type: ignore[no-any-return]


async def in_streams(streams: list[Stream], method: str) -> list[Json]:
    """The next message of that method, in each."""

    async def next_of(stream: Stream) -> Json:
        while (message := await stream.message()).get("method") != method:
            pass
        return message

    return [await next_of(stream) for stream in streams]


async def said_before(stream: Stream, client: McpClient) -> list[str]:
    """The methods of all that came on a stream before news that were caused just now."""
    await client.emit({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
    methods = []
    while (method := (await stream.message())["method"]) != "notifications/prompts/list_changed":
        methods.append(method)
    return methods


async def test_all_sessions_have_one_process() -> None:
    async with clients_of(SCRIPTED, 8) as (host, clients):
        assert len({await client.pid() for client in clients}) == 1
        async with within():  # the one on which it was tried whether the server works may still be stopping
            while [entry["use"] for entry in (await readyz(host))["instances"]] != ["serving"]:
                await asyncio.sleep(0.01)
        heard = await clients[0].heard()
        assert sum(b'"initialize"' in line for line in heard) == 1, "introduced once"
        assert sum(b"notifications/initialized" in line for line in heard) == 1


async def test_several_processes_are_used_evenly() -> None:
    async with clients_of(SCRIPTED, 6, shared=3) as (_host, clients):
        pids = [await client.pid() for client in clients]
        assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2, 2]


async def test_equal_ids_and_tokens_of_any_type_are_kept_apart() -> None:
    async with clients_of(HANDSHAKE, 6) as (_host, clients):

        async def progress(client: McpClient, id: int | str, token: int | str) -> None:
            params = {"name": "progress", "_meta": {"progressToken": token, "other": 1}}
            stream = await client.stream("POST", client.request("tools/call", params, id=id))
            *notes, answer = [message for message in await stream.rest() if message]
            assert [note["params"] for note in notes] == [
                {"progressToken": token, "progress": n} for n in range(3)
            ]
            assert answer["id"] == id and type(answer["id"]) is type(id)

        calls = [(client, id, token) for client in clients for id, token in ((1, "1"), ("1", 1))]
        await asyncio.gather(*(progress(*call) for call in calls))


@pytest.mark.parametrize("version", ALL_REVISIONS)
async def test_each_gets_the_revision_it_asks_for(version: str) -> None:
    async with clients_of(SCRIPTED, 1) as (host, (newest,)), McpClient(host.port) as client:
        result = await client.initialize(version)
        assert result["protocolVersion"] == version
        assert result["serverInfo"]["name"] == "scripted"
        assert await client.pid() == await newest.pid()


async def test_a_revision_that_the_server_does_not_reach_is_not_promised() -> None:
    async with hosting((*SCRIPTED, "--version", "2025-03-26"), shared=1) as host:
        for version, answered in (("2025-11-25", "2025-03-26"), ("2024-11-05", "2024-11-05")):
            async with McpClient(host.port) as client:
                assert (await client.initialize(version))["protocolVersion"] == answered


async def test_a_cancellation_reaches_the_own_call_only() -> None:
    async with clients_of(SCRIPTED, 2) as (host, (one, two)):
        held = [await client.send("POST", client.request("x/hold", id=7)) for client in (one, two)]
        while len([line for line in await one.heard() if b"x/hold" in line]) < 2:
            pass
        calls = {
            json.loads(line)["id"]: number
            for number, line in enumerate(line for line in await one.heard() if b"x/hold" in line)
        }
        await two.notify("notifications/cancelled", {"requestId": 7})
        async with within():
            while not any(b"cancelled" in line for line in await one.heard()):
                pass
        told = [json.loads(line) for line in await one.heard() if b"cancelled" in line]
        assert [calls[note["params"]["requestId"]] for note in told] == [1]
        assert (await readyz(host))["calls_in_flight"] >= 1
        del held


async def test_a_client_that_leaves_takes_its_calls_along_and_nothing_else() -> None:
    async with clients_of(SCRIPTED, 2) as (_host, (one, two)):
        pid = await two.pid()
        await one.send("POST", one.request("x/hold", id=1))
        while not any(b"x/hold" in line for line in await two.heard()):
            pass
        assert (await one.raw("DELETE")).status == 204
        while not any(b"cancelled" in line for line in await two.heard()):
            pass
        assert await two.pid() == pid


async def test_what_the_server_asks_is_refused() -> None:
    question = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {}}
    async with hosting(SCRIPTED, shared=1, spare=0) as host, McpClient(host.port) as client:
        await client.initialize(capabilities={"sampling": {}, "roots": {}, "elicitation": {}})
        stream = await client.stream()
        await client.emit(question, {"jsonrpc": "2.0", "id": "p", "method": "ping"})
        heard = [json.loads(line) for line in await client.heard()]
        answers = {message["id"]: message for message in heard if "method" not in message}
        assert answers["q"]["error"]["code"] == -32601 and answers["p"]["result"] == {}
        introduction = next(message for message in heard if message.get("method") == "initialize")
        assert introduction["params"]["capabilities"] == {}, "nothing is declared for anybody"
        assert await said_before(stream, client) == []


async def test_news_reach_all_and_updates_their_subscribers() -> None:
    capabilities = '{"resources": {"subscribe": true, "listChanged": true}, "prompts": {"listChanged": true}}'
    async with clients_of((*SCRIPTED, "--capabilities", capabilities), 3) as (_host, clients):
        one, two, three = clients
        streams = [await client.stream() for client in clients]
        updated = {"jsonrpc": "2.0", "method": "notifications/resources/updated"}
        a, inside = {"uri": "res://a"}, {"uri": "res://a/b"}
        for client in (one, two):
            await client.result("resources/subscribe", a)
        await three.result("resources/subscribe", {"uri": "res://c"})
        await one.emit({**updated, "params": a}, {**updated, "params": inside})
        for stream in streams[:2]:
            assert [(await stream.message())["params"] for _ in range(2)] == [a, inside]
        assert await said_before(streams[2], one) == []
        # One of two goes: the server is not told. The second goes: it is.
        await in_streams(streams[:2], "notifications/prompts/list_changed")
        await one.result("resources/unsubscribe", a)
        assert not any(b"unsubscribe" in line for line in await one.heard())
        await one.emit({**updated, "params": a})
        assert (await streams[1].message())["params"] == a
        assert await said_before(streams[0], one) == []
        await two.raw("DELETE")
        async with within():
            while not any(b"unsubscribe" in line for line in await one.heard()):
                pass


async def test_a_subscription_that_the_server_refuses_is_none() -> None:
    async with clients_of(HANDSHAKE, 1) as (_, (client,)):
        answer = await client.ask("resources/subscribe", {"uri": 7})
        assert answer["error"]["code"] == -32602
    refusing = '{"resources": {"subscribe": true}}'
    async with clients_of((*SCRIPTED, "--capabilities", refusing), 1) as (_host, (client,)):
        await client.result("resources/subscribe", {"uri": "res://a"})
        for n in range(1023):
            await client.result("resources/subscribe", {"uri": f"res://{n}"})
        answer = await client.ask("resources/subscribe", {"uri": "res://one-too-many"})
        assert "too many subscriptions" in answer["error"]["message"]


async def test_a_log_message_goes_to_whoever_is_alone_and_wants_it() -> None:
    async with clients_of(HANDSHAKE, 2) as (_host, (one, two)):
        streams = [await client.stream() for client in (one, two)]
        say = {"name": "log", "arguments": {"say": "mine"}}
        await one.result("logging/setLevel", {"level": "debug"})
        answered = await one.stream("POST", one.request("tools/call", say))
        assert [message.get("method", "answer") for message in await answered.rest()] == [
            "notifications/message",
            "answer",
        ]
        # Graver ones only
        await one.result("logging/setLevel", {"level": "error"})
        answer = await one.raw("POST", one.request("tools/call", say))
        assert answer.headers["content-type"] == "application/json"
        # Of the calls of one who does not want it nobody hears
        await one.result("logging/setLevel", {"level": "debug"})
        answer = await two.raw("POST", two.request("tools/call", say))
        assert answer.headers["content-type"] == "application/json"
        # Nor while another one has a call
        held = await two.send("POST", two.request("tools/call", {"name": "hold"}))
        async with within():
            while "hold" not in await one.text("heard"):
                pass
        answer = await one.raw("POST", one.request("tools/call", say))
        assert answer.headers["content-type"] == "application/json"
        del held, streams
        assert "error" in await one.ask("logging/setLevel", {"level": "loud"})


@pytest.mark.parametrize("way", ["cancelled", "left"])
async def test_the_log_of_a_call_that_was_given_up_reaches_nobody_else(way: str) -> None:
    """The server may go on with it, and log for it while another one is alone."""
    async with clients_of(SCRIPTED, 2) as (_host, (gone, reader)):
        await reader.result("logging/setLevel", {"level": "debug"})
        await gone.send("POST", gone.request("x/hold", id="held"))
        async with within():
            while not (holds := [line for line in await reader.heard() if b"x/hold" in line]):
                pass
        if way == "left":
            await gone.raw("DELETE")
        else:
            await gone.notify("notifications/cancelled", {"requestId": "held"})
        async with within():
            while not any(b"cancelled" in line for line in await reader.heard()):
                pass
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "d"}}
        answer = await reader.raw("POST", reader.request("x/emit", emission(log)))
        assert answer.headers["content-type"] == "application/json", "it may be the log of the call given up"
        # Once the server is done with it, what it logs is again of whoever is alone.
        done = {"jsonrpc": "2.0", "id": json.loads(holds[0])["id"], "result": {}}
        await reader.emit(done)
        stream = await reader.stream("POST", reader.request("x/emit", emission(log)))
        assert (await stream.message())["method"] == "notifications/message"


async def test_of_too_many_calls_given_up_it_is_known_that_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.proxy.trunk.MOST_STRAYS", 1)
    async with clients_of(SCRIPTED, 2) as (_host, (gone, reader)):
        await reader.result("logging/setLevel", {"level": "debug"})
        for id in (1, 2):
            await gone.send("POST", gone.request("x/hold", id=id))
        async with within():
            while len(holds := [line for line in await reader.heard() if b"x/hold" in line]) < 2:
                pass
        for id in (1, 2):
            await gone.notify("notifications/cancelled", {"requestId": id})
        async with within():
            while sum(b"cancelled" in line for line in await reader.heard()) < 2:
                pass
        await reader.emit(*({"jsonrpc": "2.0", "id": json.loads(hold)["id"], "result": {}} for hold in holds))
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "d"}}
        answer = await reader.raw("POST", reader.request("x/emit", emission(log)))
        assert answer.headers["content-type"] == "application/json"


async def test_the_server_is_told_the_most_verbose_level_that_is_wanted() -> None:
    async with clients_of(SCRIPTED, 2) as (_host, (one, two)):

        async def levels() -> list[str]:
            lines = [json.loads(line) for line in await one.heard()]
            return [line["params"]["level"] for line in lines if line.get("method") == "logging/setLevel"]

        await one.result("logging/setLevel", {"level": "error"})
        await two.result("logging/setLevel", {"level": "debug"})
        await one.result("logging/setLevel", {"level": "warning"})
        assert await levels() == ["error", "debug"]
        await two.raw("DELETE")
        async with within():
            while await levels() != ["error", "debug", "warning"]:
                pass


async def test_tasks_are_not_offered() -> None:
    capabilities = '{"tools": {}, "tasks": {"list": {}}}'
    server = (*SCRIPTED, "--capabilities", capabilities)
    async with hosting(server, shared=1) as host, McpClient(host.port) as client:
        assert (await client.initialize())["capabilities"] == {"tools": {}}
        assert (await client.ask("tasks/list"))["error"]["code"] == -32601
        await client.result("x/any", {"task": {"ttl": 1}, "_meta": {"a": 1}, "b": 2})
        heard = next(json.loads(line) for line in await client.heard() if b"x/any" in line)
        assert heard["params"] == {"_meta": {"a": 1}, "b": 2}


async def test_what_concerns_a_client_of_its_own_does_not_reach_the_server() -> None:
    async with clients_of(SCRIPTED, 1) as (_host, (client,)):
        await client.notify("notifications/roots/list_changed")
        await client.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        await client.notify("notifications/cancelled", {"requestId": "nothing"})
        await client.notify("notifications/x/own", {"a": 1})
        async with within():
            while not any(b"x/own" in line for line in await client.heard()):
                pass
        methods = [json.loads(line).get("method") for line in await client.heard()]
        assert [method for method in methods if method.startswith("notifications")] == [
            "notifications/initialized",
            "notifications/x/own",
        ]


async def test_a_death_costs_the_calls_and_no_session() -> None:
    async with clients_of(SCRIPTED, 3) as (_host, clients):
        streams = [await client.stream() for client in clients]
        pid = await clients[0].pid()
        await clients[1].result("logging/setLevel", {"level": "debug"})
        held = [await client.send("POST", client.request("x/hold", id=1)) for client in clients]
        while len([line for line in await clients[0].heard() if b"x/hold" in line]) < 3:
            pass
        os.kill(pid, signal.SIGKILL)
        for peer in held:
            async with within():
                error = json.loads((await peer.answer()).body)["error"]
            assert error["data"]["reason"] == "server_exited"
        await in_streams(streams, "notifications/tools/list_changed")
        told = await in_streams(streams, "notifications/message")
        assert all("restarted" in note["params"]["data"] for note in told)
        assert {await client.pid() for client in clients} != {pid}
        assert len({await client.pid() for client in clients}) == 1
        heard = [json.loads(line).get("method") for line in await clients[0].heard()]
        assert heard[:3] == ["initialize", "notifications/initialized", "logging/setLevel"]


async def test_a_server_that_comes_back_with_another_revision_ends_the_sessions(tmp_path: Any) -> None:
    state = str(tmp_path / "starts")
    server = (*SCRIPTED, "--state", state, "--version", "2025-11-25", "--version-after", "3:2025-03-26")
    async with clients_of(server, 2) as (host, (one, two)):
        await one.emit(exit=3)
        async with within():
            while (await two.raw("POST", two.request("x/pid"))).status != 404:
                await asyncio.sleep(0.02)
        async with McpClient(host.port) as client:
            assert (await client.initialize())["protocolVersion"] == "2025-03-26"
            assert await client.pid()


async def test_an_idle_session_keeps_its_place_and_the_process_ends_when_all_are_idle() -> None:
    async with clients_of(SCRIPTED, 2, idle_timeout_s=0.3) as (host, clients):
        pids = {await client.pid() for client in clients}
        await clients[0].result("resources/subscribe", {"uri": "res://a"})
        async with within():
            while (await readyz(host))["instances"]:
                await asyncio.sleep(0.05)
        assert {await client.pid() for client in clients} != pids
        assert any(b"resources/subscribe" in line for line in await clients[0].heard())


async def test_a_slow_reader_holds_nobody_up() -> None:
    async with clients_of(SCRIPTED, 2, unsent_bytes=1000) as (_host, (slow, quick)):
        await slow.stream()
        params = {"_meta": {"progressToken": 1}}
        note = {"jsonrpc": "2.0", "method": "notifications/progress"}
        await slow.send("POST", slow.request("x/hold", params))
        async with within():
            while not (holds := [line for line in await quick.heard() if b"x/hold" in line]):
                pass
        token = json.loads(holds[0])["params"]["_meta"]["progressToken"]
        progress = {**note, "params": {"progressToken": token, "progress": 1, "message": "m" * 60_000}}
        for _ in range(200):
            await quick.emit(progress)
        assert await quick.pid()


async def test_sessions_and_requests_without_one_share_a_process() -> None:
    async with clients_of(HANDSHAKE, 2) as (host, clients), ModernClient(host.port) as modern:
        pids = {json.loads(await client.text("echo"))["pid"] for client in clients}
        modern.capabilities = {"elicitation": {}, "sampling": {}}
        pids.add((await modern.said("echo"))["pid"])
        assert len(pids) == 1
        # A question of the server is refused, though this client could be asked.
        assert (await modern.said("ask"))["elicitation/create"]["code"] == -32601
        # News reach whoever listens, of either kind.
        await clients[0].result("resources/subscribe", {"uri": "res://a"})
        wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["res://a"]}}
        listener = await modern.watch("subscriptions/listen", wanted)
        stream = await clients[0].stream()
        assert (await listener.message())["method"] == "notifications/subscriptions/acknowledged"
        await clients[1].text("change")
        for hearer in (listener, stream):
            assert [(await hearer.message())["method"].split("/")[1] for _ in range(2)] == [
                "tools",
                "resources",
            ]
        # Of the log a request hears what is said while it is alone.
        meta = {"io.modelcontextprotocol/logLevel": "debug"}
        answered = await modern.watch("tools/call", {"name": "log", "arguments": {"say": "x"}}, **meta)
        assert [m.get("method", "answer") for m in await answered.rest()] == [
            "notifications/message",
            "answer",
        ]


@pytest.mark.parametrize("listens_first", [True, False])
async def test_a_listener_hears_all_processes(listens_first: bool) -> None:
    """Without a session its calls are served by any of them."""
    async with AsyncExitStack() as stack:
        host, clients = await stack.enter_async_context(clients_of(HANDSHAKE, 0, shared=2))
        modern = await stack.enter_async_context(ModernClient(host.port))

        async def listen() -> Stream:
            listener = await modern.watch(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["res://a"]}}
            )
            assert (await listener.message())["method"] == "notifications/subscriptions/acknowledged"
            return listener

        listener = await listen() if listens_first else None
        clients = [await stack.enter_async_context(client_of(host.port)) for _ in range(2)]
        pids = [json.loads(await client.text("echo"))["pid"] for client in clients]
        assert len(set(pids)) == 2
        listener = listener or await listen()
        for client in clients:
            await client.text("change")
            assert (await listener.message())["method"] == "notifications/resources/updated"
        # The next process in the place of one that died is heard as well.
        os.kill(pids[1], signal.SIGKILL)
        async with within():
            while len(serving := [each["pid"] for each in (await readyz(host))["instances"]]) < 2 or (
                pids[1] in serving
            ):
                await asyncio.sleep(0.01)
        await clients[1].text("change")
        assert (await listener.message())["method"] == "notifications/resources/updated"


async def test_a_server_of_the_new_era_is_shared_by_sessions_too() -> None:
    async with clients_of(MODERN, 3) as (host, clients), ModernClient(host.port) as modern:
        pids = {json.loads(await client.text("echo"))["pid"] for client in clients}
        pids.add((await modern.said("echo"))["pid"])
        assert len(pids) == 1
        streams = [await client.stream() for client in clients]
        await clients[0].result("resources/subscribe", {"uri": "res://a"})
        await clients[1].text("change")
        await in_streams(streams, "notifications/tools/list_changed")
        await in_streams(streams[:1], "notifications/resources/updated")
        # Each hears its own log, and a call that was given up silences it.
        say = {"name": "log", "arguments": {"say": "mine"}}

        async def said(client: McpClient) -> list[str]:
            answer = await client.raw("POST", client.request("tools/call", say))
            return ["log"] if b"notifications/message" in answer.body else []

        await clients[0].result("logging/setLevel", {"level": "debug"})
        assert await said(clients[0]) == ["log"] and await said(clients[1]) == []
        await clients[0].send("POST", clients[0].request("tools/call", {"name": "hold"}, id="h"))
        async with within():
            while not any(m.get("params", {}).get("name") == "hold" for m in await modern.said("heard")):
                pass
        await clients[1].result("logging/setLevel", {"level": "debug"})
        assert await said(clients[1]) == [], "another one's call is running that is logged"
        await clients[0].notify("notifications/cancelled", {"requestId": "h"})
        assert await said(clients[1]) == [] == await said(clients[0])
        # A death costs the calls and no session; the next instance is heard again.
        os.kill(pids.pop(), signal.SIGKILL)
        await in_streams(streams, "notifications/tools/list_changed")
        assert await said(clients[1]) == ["log"]
        await clients[1].text("change")
        await in_streams(streams, "notifications/tools/list_changed")


async def test_a_server_that_cannot_start_is_told_of() -> None:
    async with hosting((*SCRIPTED, "--refuse"), shared=1) as host, McpClient(host.port) as client:
        answer = await client.raw("POST", client.request("initialize", {"protocolVersion": "2025-11-25"}))
        assert answer.status in (200, 503)
        assert "error" in json.loads(answer.body)


async def test_a_forged_token_reaches_nobody_else() -> None:
    """However the name of the token is written, what the server is given is a number of ours or nothing."""
    async with clients_of(SCRIPTED, 2) as (_host, (victim, forger)):
        held = await victim.send("POST", victim.request("x/hold", {"_meta": {"progressToken": "v"}}))
        async with within():
            while not (holds := [line for line in await forger.heard() if b"x/hold" in line]):
                pass
        number = json.loads(holds[0])["id"]
        for n, params in enumerate(
            (
                '{"_meta":{"progress\\u0054oken":%d}}',
                '{"\\u005fmeta":{"progressToken":%d}}',
                '{"_meta":{"progressToken":%d.0}}',
                '{"_meta":{"progressToken":[%d]}}',
                '{"_meta":{"progressToken":%d},"_meta":{}}',
                '{"_meta":{"progressToken":%d,"progressToken":null}}',
            )
        ):
            body = f'{{"jsonrpc":"2.0","id":{n},"method":"x/forged","params":{params % number}}}'
            assert (await forger.raw("POST", body.encode())).status == 200
        forged = [json.loads(line) for line in await forger.heard() if b"x/forged" in line]
        assert len(forged) == 6
        for call in forged:
            meta = call["params"].get("_meta", {})
            assert meta.get("progressToken", call["id"]) == call["id"]
        held.reset()


async def test_calls_on_one_process_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.proxy.sharing.MOST_CALLS", 3)
    async with clients_of(SCRIPTED, 2) as (_host, (one, two)):
        for _ in range(2):
            await one.send("POST", one.request("x/hold"))
            await two.send("POST", two.request("x/hold"))
        async with within():
            while (answer := await two.ask("x/any")).get("result"):
                pass
        assert answer["error"]["data"] == {"reason": "too_many_calls", "retryable": True}


async def test_news_for_a_slow_reader_are_kept_within_a_bound() -> None:
    face, ears = SharedFace(Sharing(trunks_over(Pipe()), 1), time.monotonic), Ears()
    face.attach(ears)
    face.pause_reading()
    lines = [b"%d %b" % (n % 300, b"x" * 300) for n in range(600)]
    for line in lines:
        face.hear_news(line)
    assert not ears.heard
    face.resume_reading()
    assert ears.heard[-1] == lines[-1] and len(set(ears.heard)) == len(ears.heard)
    assert MAX_MISSED_BYTES - 400 < sum(map(len, ears.heard)) <= MAX_MISSED_BYTES
    face.hear_news(b"now")
    assert ears.heard[-1] == b"now"


async def test_nothing_is_left() -> None:
    before = children()
    async with clients_of(SCRIPTED, 4, shared=2) as (_host, clients):
        await asyncio.gather(*(client.pid() for client in clients))
        for client in clients:
            await client.send("POST", client.request("x/emit", emission(answer=False)))
    await until(lambda: children() <= before)


async def held_bytes(host: Host) -> int:
    async with McpClient(host.port, path="/metrics") as probe:
        page = (await probe.raw("GET")).body.decode()
    [line] = [
        line for line in page.splitlines() if line.startswith("mooring_held_bytes") and 'of="calls"' in line
    ]
    return int(line.rpartition(" ")[2])


@pytest.mark.parametrize("server", [SCRIPTED, MODERN])
async def test_a_large_call_takes_no_room_once_it_is_answered(server: tuple[str, ...]) -> None:
    async with clients_of(server, 1) as (host, (client,)):
        large = {"name": "echo", "arguments": {"text": "x" * 1_000_000}}
        await client.ask("tools/call", large)
        assert await held_bytes(host) < 1000, "but for a listener"


async def test_large_calls_without_a_session_have_a_share_together() -> None:
    """Each would fit into one; not all of them."""
    pipe = Pipe()
    trunks = trunks_over(pipe, Budget(4000, 4))
    trunk = trunks.make(Sharing(trunks, 1), purpose=Purpose(SHARED), max_calls=100)
    riders = [Told() for _ in range(20)]
    for n, rider in enumerate(riders):
        trunk.ride(n, "tools/call", b'{"text":"%b"}' % (b"x" * 800), rider)
    refused = [rider.failure.reason for rider in riders if rider.failure is not None]
    assert 0 < len(refused) < len(riders) and set(refused) == {"too_busy"}
    assert trunks_held(trunk) <= 4000
    await trunks.aclose("end of test")


async def test_a_process_with_listeners_is_not_idle() -> None:
    async with clients_of(HANDSHAKE, 0, idle_timeout_s=0.5) as (host, _), ModernClient(host.port) as modern:
        pid = (await modern.said("echo"))["pid"]
        listener = await modern.watch("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert (await listener.message())["method"] == "notifications/subscriptions/acknowledged"
        await asyncio.sleep(1.5)  # several looks of the clock beyond its idle time
        assert (await modern.said("echo"))["pid"] == pid
