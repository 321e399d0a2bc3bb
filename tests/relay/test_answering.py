"""The agent's own bounds: whatever a relay sends, and whatever its servers do."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mooring.http.client import Client
from mooring.http.client_errors import NotSent
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets, Refused
from mooring.relay import answering, callers
from mooring.relay.link import Stream
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.relay.words import Reset
from mooring.wire.http import Exchange, Headers, Response
from tests.relay.harness import bearer, harness
from tests.relay.peers import Heard, peers_of
from tests.relay.test_calls import CALL, MIB, Server
from tests.support import free_port, until, within

QUICK = AgentPolicy(first_delay_s=0.05, longest_delay_s=0.2, longest_asked_s=0.2)


async def ask(client: Client, token: str, target: str = "/laptop/time/mcp", body: bytes = CALL) -> object:
    response = await client.request("POST", target, bearer(token), body)
    return json.loads(await response.read(MIB))


async def test_a_body_over_the_bound_is_refused_at_the_workstation_too(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay:
        server, token = Server(), relay.token("laptop", "time")
        policy = replace(QUICK, max_body_bytes=1000)
        await relay.connect(token, await relay.serve(server), policy=policy)
        call = CALL.replace(b'"x":1', b'"x":"%b"' % (b"y" * 2000))
        told = await ask(relay.client(), token, body=call)
        assert told["error"]["data"] == {"reason": "too_large", "retryable": True}  # type: ignore[index]
        assert not server.asked
        assert (await ask(relay.client(), token))["method"] == "POST"  # type: ignore[index]


@pytest.mark.parametrize("bound", ["max_waiting_bytes", "max_waiting_bytes_per_caller"])
async def test_what_waits_at_the_workstation_has_a_bound(tmp_path: Path, bound: str) -> None:
    """Bodies and messages that do not become whole; what is over makes room again."""
    async with harness(tmp_path) as relay, peers_of(relay.port) as peers:
        server, token = Server(), relay.token("laptop", "time")
        policy = replace(QUICK, **{bound: 3 * MIB})
        agent = await relay.connect(token, await relay.serve(server), policy=policy)
        client, bodies = await peers.client(token), agent.answering._bodies

        def begun(**opening: Any) -> tuple[Heard, Stream]:
            heard = client.open("laptop/time", **opening)
            assert heard.stream is not None
            return heard, heard.stream

        talk, said = begun(websocket=True, method="GET", path="ws")
        await until(lambda: talk.head)
        other, said_too = begun(websocket=True, method="GET", path="ws")
        await until(lambda: other.head)
        said.send(b"x" * (2 * MIB), more=True)
        await until(lambda: bodies._bytes == 2 * MIB)
        said_too.send(b"x" * (2 * MIB), more=True)
        await until(lambda: other.reset)
        assert other.reset is not None and (other.reset.reason, other.reset.close) == ("too_many", 1013)
        heard, asked = begun()
        asked.send(b"x" * (2 * MIB))
        reset = (await heard.over()).reset
        assert reset is not None and (reset.reason, reset.not_executed) == ("too_many", True)
        assert bodies._bytes == 2 * MIB and not server.said
        said.send(b"")
        await until(lambda: server.said)
        await until(lambda: not bodies._bytes)
        heard, asked = begun()
        asked.send(b"x" * (2 * MIB))
        await until(lambda: bodies._bytes == 2 * MIB)
        asked.reset(Reset("caller_gone"))
        await until(lambda: not bodies._bytes)
        whole = client.call("laptop/time", b"x" * (2 * MIB))
        assert (await whole.over()).is_ended
        await until(lambda: not bodies._bytes)


async def test_calls_at_the_workstation_are_bounded(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay:
        server, token = Server(), relay.token("laptop", "time")
        agent = await relay.connect(token, await relay.serve(server), policy=replace(QUICK, max_streams=2))
        client = relay.client()
        held = [asyncio.create_task(ask(client, token, "/laptop/time/mcp?hold")) for _ in range(2)]
        await until(lambda: len(server.held) == 2)
        told = await ask(client, token)
        assert told["error"]["data"] == {"reason": "too_many", "retryable": True}  # type: ignore[index]
        for exchange in server.held:
            exchange.respond(Response(200, b"{}"))
        await asyncio.gather(*held)
        await until(lambda: not agent.answering.in_flight)
        assert (await ask(client, token))["method"] == "POST"  # type: ignore[index]


@pytest.mark.parametrize("where", [callers, answering])
async def test_a_message_of_a_websocket_is_bounded_either_way(
    tmp_path: Path, where: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, "MAX_SOCKET_MESSAGE_BYTES", 1000)
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        await relay.connect(token, await relay.serve(Server()))
        sockets = ClientSockets()
        closed: list[int] = []
        heard: list[bytes] = []
        origin = Origin(host="127.0.0.1", port=relay.port)
        socket = await sockets.open(origin, "/laptop/time/ws", bearer(token), subprotocol="mcp")
        socket.on_message = heard.append
        socket.on_closed = lambda code, reason: closed.append(code)
        socket.send(b"x" * 500)
        await until(lambda: heard)
        socket.send(b"x" * 2000)
        await until(lambda: closed)
        assert closed == [1009] and len(heard) == 1
        await sockets.aclose()


async def test_a_relay_that_does_not_answer_is_dialled_again(tmp_path: Path) -> None:
    """It agrees to the WebSocket, and says no more."""
    dialled = 0

    def mute(exchange: Exchange) -> None:
        nonlocal dialled
        dialled += 1
        socket = exchange.upgrade("mooring-relay-1")
        assert socket is not None
        socket.expect_binary(1000)

    async with harness(tmp_path) as relay:
        port = await relay.serve(mute)
        policy = replace(QUICK, welcome_s=0.1)
        agent = await relay.connect(relay.token("laptop", "time"), port, policy=policy, via=port, wait=False)
        await until(lambda: dialled >= 3)
        assert agent.agent.last_error is not None and agent.agent.last_error.code == "timeout"


async def test_what_came_is_acknowledged_soon(tmp_path: Path) -> None:
    async with harness(tmp_path, RelayPolicy(acknowledge_s=0.05)) as relay:
        token = relay.token("laptop", "time")
        agent = await relay.connect(token, await relay.serve(Server()))
        await ask(relay.client(), token)
        await until(lambda: agent.agent.link.unacknowledged_bytes == 0)
        [keeper] = relay.relay.registry.snapshot()
        await until(lambda: keeper.link.unacknowledged_bytes == 0)


async def test_a_daemon_that_is_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    port, server = free_port(), Server()
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        agent = await relay.connect(token, port, policy=replace(QUICK, local_s=0.3))
        client = relay.client()
        told = await ask(client, token)
        assert told["error"]["data"] == {"reason": "server_unreachable", "retryable": True}  # type: ignore[index]
        doubts: list[int] = []
        agent.door.doubt = lambda: doubts.append(1)  # type: ignore[method-assign]
        asking = asyncio.create_task(ask(client, token))
        await until(lambda: doubts)
        listener = Listener(server)
        await listener.listen_tcp("127.0.0.1", port)
        assert (await asking)["method"] == "POST"  # type: ignore[index]
        assert len(server.asked) == 1
        await listener.aclose()


async def test_a_websocket_finds_a_daemon_that_is_elsewhere_by_now(tmp_path: Path) -> None:
    """Its port may be another after a restart, and nobody but WebSockets may ever ask."""
    server = Server()
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        agent = await relay.connect(token, free_port())
        there = await relay.serve(server)

        def doubt() -> None:
            agent.door._client = now

        now = Client(Origin(host="127.0.0.1", port=there))
        agent.door.doubt = doubt  # type: ignore[method-assign]
        sockets = ClientSockets()
        origin = Origin(host="127.0.0.1", port=relay.port)
        socket = await sockets.open(origin, "/laptop/time/ws", bearer(token), subprotocol="mcp")
        heard: list[bytes] = []
        socket.on_message = heard.append
        socket.send(b"ahoy")
        await until(lambda: heard)
        await sockets.aclose()


async def test_calls_on_websockets_are_calls_too(tmp_path: Path) -> None:
    """Who leaves waits for them; and they take their places like everything else."""
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        port = await relay.serve(Server())
        agent = await relay.connect(token, port, policy=replace(QUICK, max_streams=1))
        sockets = ClientSockets()
        origin = Origin(host="127.0.0.1", port=relay.port)
        socket = await sockets.open(origin, "/laptop/time/ws", bearer(token), subprotocol="mcp")
        heard: list[bytes] = []
        socket.on_message = heard.append
        answering = agent.answering
        await until(lambda: (answering.in_flight, answering.calls_in_flight) == (1, 0))
        told = await ask(relay.client(), token)
        assert told["error"]["data"] == {"reason": "too_many", "retryable": True}  # type: ignore[index]
        socket.send(CALL)
        await until(lambda: heard)
        assert answering.calls_in_flight == 1
        quiet = asyncio.create_task(answering.wait_quiet())
        await asyncio.sleep(0.2)
        assert not quiet.done()
        socket.close(1000, "")
        async with within():
            await quiet
        assert answering.in_flight == 0
        await sockets.aclose()


class _Broken:
    """An answer in which we ourselves make a mistake."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: Headers = [(b"content-type", b"text/event-stream")]

    def __aiter__(self) -> "_Broken":
        return self

    async def __anext__(self) -> bytes:
        raise ZeroDivisionError

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("path", ["mcp", "ws"])
async def test_who_meets_a_mistake_of_ours_is_told(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        agent = await relay.connect(token, await relay.serve(Server()))

        async def request(*given: object) -> object:
            return _Broken()

        async def opened(*given: object, **named: object) -> object:
            raise ZeroDivisionError

        monkeypatch.setattr(agent.answering, "_request", request)
        monkeypatch.setattr(agent.answering._sockets, "open", opened)
        async with within():
            if path == "mcp":
                response = await relay.client().request("POST", "/laptop/time/mcp", bearer(token), CALL)
                assert b'"reason":"internal_error"' in await response.read(MIB)
            else:
                sockets = ClientSockets()
                origin = Origin(host="127.0.0.1", port=relay.port)
                with pytest.raises(Refused):
                    await sockets.open(origin, "/laptop/time/ws", bearer(token), subprotocol="mcp")
                await sockets.aclose()
        await until(lambda: not agent.agent.link.streams)


async def test_no_door_at_all(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        agent = await relay.connect(token, free_port(), policy=replace(QUICK, local_s=0.2))

        async def nobody() -> Client:
            raise NotSent("Mooring's daemon does not answer", code="no_daemon")

        agent.door.client = nobody  # type: ignore[method-assign]
        told = await ask(relay.client(), token)
        assert "daemon" in told["error"]["message"]  # type: ignore[index]
