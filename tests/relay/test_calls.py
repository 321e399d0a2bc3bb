"""Requests through a relay and an agent to a server: what arrives, what comes back, and what ends how."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.http.client import Client, ClientResponse
from mooring.http.client_errors import AnswerLost
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets, Refused
from mooring.relay.policy import RelayPolicy
from mooring.wire.http import Exchange, Response
from tests.relay.harness import Connected, Harness, bearer, harness
from tests.relay.peers import peers_of
from tests.support import until

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":1}}'
MIB = 1024 * 1024


class Server:
    """Answers what its path says; notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Exchange] = []
        self.streams: list[Exchange] = []
        self.left = 0
        self.held: list[Exchange] = []
        self.said: list[bytes] = []
        self.closed: list[tuple[int, str]] = []

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        self.asked.append(exchange)
        kind = request.query
        if request.path.endswith("/ws"):
            self._talk(exchange)
        elif kind == "hold":
            self.held.append(exchange)
            exchange.on_disconnect = self._on_left
        elif kind == "events":
            exchange.start(200, [(b"content-type", b"text/event-stream")])
            self.streams.append(exchange)
            exchange.on_disconnect = self._on_left
        elif kind.startswith("large"):
            exchange.respond(Response(200, b"x" * int(kind[5:]), [(b"content-type", b"text/plain")]))
        else:
            seen = {
                "method": request.method,
                "path": request.path,
                "query": request.query,
                "body": request.body.decode("latin-1"),
                "headers": {name.decode(): value.decode() for name, value in request.headers},
            }
            headers = [
                (b"content-type", b"application/json"),
                (b"mcp-session-id", b"abc"),
                (b"x-odd", b"\xe9"),
            ]
            exchange.respond(Response(201, json.dumps(seen).encode(), headers))

    def _on_left(self) -> None:
        self.left += 1

    def _talk(self, exchange: Exchange) -> None:
        socket = exchange.upgrade("mcp")
        if socket is not None:

            def answer(message: bytes) -> None:
                self.said.append(message)
                socket.send(b"you said " + message)

            socket.on_message = answer
            socket.on_closed = lambda code, reason: self.closed.append((code, reason))


class Place:
    """A relay, an agent and its server."""

    def __init__(self, relay: Harness, server: Server, agent: Connected, caller: str, client: Client) -> None:
        self.relay = relay
        self.server = server
        self.agent = agent
        self.caller = caller
        self.client = client

    async def ask(
        self, method: str = "POST", target: str = "/laptop/time/mcp", body: bytes = CALL
    ) -> ClientResponse:
        headers = [*bearer(self.caller), (b"Content-Type", b"application/json"), (b"Mcp-Session-Id", b"s1")]
        return await self.client.request(method, target, headers, body)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with harness(tmp_path, RelayPolicy(hold_s=2.0, grace_s=5.0)) as relay:
        server = Server()
        port = await relay.serve(server)
        agent = await relay.connect(relay.token("laptop", "time,notes"), port, "time,notes")
        caller = relay.token("phone", calls="laptop/*")
        yield Place(relay, server, agent, caller, relay.client())


async def test_a_request_arrives_as_it_was_and_its_answer_too(place: Place) -> None:
    response = await place.ask(target="/laptop/time/mcp?a=b%20c")
    seen = json.loads(await response.read(MIB))
    assert response.status == 201
    assert (seen["method"], seen["path"], seen["query"]) == ("POST", "/time/mcp", "a=b%20c")
    assert seen["body"].encode() == CALL
    assert seen["headers"]["mcp-session-id"] == "s1" and seen["headers"]["x-caller"] == "phone"
    assert seen["headers"]["x-prefix"] == "/laptop"
    assert "authorization" not in seen["headers"], "the caller's token is the relay's business"
    assert response.header(b"mcp-session-id") == b"abc" and response.header(b"x-odd") == b"\xe9"
    assert response.header(b"content-length") is not None


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 300_000, 5 * MIB])
async def test_bodies_of_any_size_pass_either_way(place: Place, size: int) -> None:
    response = await place.ask(target=f"/laptop/time/mcp?large{size}", body=b"y" * size)
    assert await response.read(10 * MIB) == b"x" * size
    assert place.server.asked[-1].request.body == b"y" * size


async def test_events_come_when_they_are_sent_and_who_goes_is_missed(place: Place) -> None:
    response = await place.ask("GET", "/laptop/time/mcp?events", b"")
    assert response.status == 200 and response.header(b"content-type") == b"text/event-stream"
    [stream] = place.server.streams
    for number in range(3):
        stream.write(b"data: %d\n\n" % number)
        assert await anext(response) == b"data: %d\n\n" % number
    response.close()
    await until(lambda: place.server.left == 1)
    assert not place.relay.relay.calls_in_flight


async def test_a_caller_that_goes_before_its_answer_is_missed_too(place: Place) -> None:
    asking = asyncio.create_task(place.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: place.server.held)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: place.server.left == 1)


async def test_a_reader_that_is_slow_holds_back_its_own_server_only(place: Place) -> None:
    response = await place.ask("GET", "/laptop/time/mcp?events", b"")
    [stream] = place.server.streams
    written = 0
    for _ in range(20_000):
        if not stream.writable:
            break
        stream.write(b"x" * 10_000)
        written += 10_000
        await asyncio.sleep(0)
    await until(lambda: not stream.writable)
    answer = await place.ask()
    assert answer.status == 201
    await answer.read(MIB)
    stream.end()
    assert len(await response.read(500 * MIB)) == written


async def test_a_websocket_is_bridged(place: Place) -> None:
    sockets = ClientSockets()
    heard: list[bytes] = []
    closed: list[tuple[int, str]] = []
    try:
        socket = await sockets.open(
            Origin(host="127.0.0.1", port=place.relay.port),
            "/laptop/time/ws",
            bearer(place.caller),
            subprotocol="mcp",
        )
        socket.on_message = heard.append
        socket.on_closed = lambda code, reason: closed.append((code, reason))
        large = b"z" * 700_000
        for message in (b"hello", b"", large, "ü".encode()):
            socket.send(message)
        await until(lambda: len(heard) == 4)
        assert place.server.said == [b"hello", b"", large, "ü".encode()]
        assert heard == [b"you said " + message for message in place.server.said]
        socket.close(1000, "enough")
        await until(lambda: place.server.closed and closed)
        assert place.server.closed == [(1000, "enough")]
    finally:
        await sockets.aclose()


async def test_a_websocket_that_its_server_refuses_is_refused(place: Place) -> None:
    sockets = ClientSockets()
    with pytest.raises(Refused) as caught:
        await sockets.open(
            Origin(host="127.0.0.1", port=place.relay.port),
            "/laptop/time/ws",
            bearer(place.caller),
            subprotocol="other",
        )
    assert caught.value.status == 503
    await sockets.aclose()


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/laptop/time/other", 404, "no_such_server"),
        ("/laptop/time", 404, "no_such_server"),
        ("/", 404, "no_such_server"),
        ("/laptop/secret/mcp", 404, "no_such_server"),
        ("/desktop/time/mcp", 403, "not_allowed"),
        ("/laptop/..%2fx/mcp", 404, "no_such_server"),
    ],
)
async def test_what_is_not_there_and_what_is_not_allowed(
    place: Place, target: str, status: int, code: str
) -> None:
    response = await place.ask(target=target)
    assert response.status == status
    assert json.loads(await response.read(MIB))["error"]["code"] == code
    assert not place.server.asked


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (
            "desktop",
            "this token may not call desktop/time: mooring relay token create NAME --call desktop/time",
        ),
        ("desk;top", "this token may not call that server"),
    ],
)
async def test_who_may_not_call_is_told_which_token_may_and_nothing_that_is_no_name(
    place: Place, agent: str, words: str
) -> None:
    response = await place.ask(target=f"/{agent}/time/mcp")
    assert json.loads(await response.read(MIB))["error"]["message"] == words
    async with peers_of(place.relay.port) as peers:
        refused = await (await peers.client(place.caller)).call(f"{agent}/time", CALL).over()
        assert refused.reset is not None and refused.reset.message == words


async def test_an_agent_that_is_away_is_not_a_session_that_is_lost(place: Place) -> None:
    place.relay.token("tablet", "time")
    caller = place.relay.token("all", calls="*")
    response = await place.client.request("POST", "/tablet/time/mcp", bearer(caller), CALL)
    told = json.loads(await response.read(MIB))
    assert (response.status, told["id"]) == (200, 7)
    assert told["error"]["data"] == {"reason": "agent_absent", "retryable": True}
    response = await place.client.request("GET", "/tablet/time/mcp", bearer(caller))
    assert response.status == 503 and response.header(b"retry-after")
    await response.read(MIB)


@pytest.mark.parametrize(
    "authorization", [None, b"Bearer nonsense", b"Bearer mrt_aaaaaaaaaaaa_" + b"A" * 43, b"Basic x"]
)
async def test_without_a_token_nobody_gets_in(place: Place, authorization: bytes | None) -> None:
    headers = [(b"Authorization", authorization)] if authorization else []
    response = await place.client.request("POST", "/laptop/time/mcp", headers, CALL)
    assert response.status == 401 and b"Bearer" in (response.header(b"www-authenticate") or b"")
    await response.read(MIB)
    assert not place.server.asked


async def test_a_token_that_is_revoked_ends_what_it_opened(place: Place) -> None:
    response = await place.ask("GET", "/laptop/time/mcp?events", b"")
    place.relay.tokens.revoke("phone")
    assert await response.read(MIB) == b""
    assert (await place.ask()).status == 401
    place.relay.tokens.revoke("laptop")
    await until(place.agent.task.done)
    error = place.agent.task.exception()
    assert getattr(error, "code", "") == "relay_refused" and "4401" in str(error)
    assert place.relay.relay.registry.snapshot() == []


async def test_a_server_that_dies_under_its_answer_is_told_in_words(place: Place) -> None:
    asking = asyncio.create_task(place.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: place.server.held)
    place.server.held[0].abort()
    response = await asking
    told = json.loads(await response.read(MIB))
    assert (response.status, told["id"], told["error"]["data"]["reason"]) == (200, 7, "answer_lost")
    assert (
        told["error"]["data"]["retryable"] is False and "may have been executed" in told["error"]["message"]
    )


async def test_a_stream_that_is_cut_ends_with_an_error_for_its_call(place: Place) -> None:
    response = await place.ask(target="/laptop/time/mcp?events")
    [stream] = place.server.streams
    stream.write(b"data: 1\n\n")
    assert await anext(response) == b"data: 1\n\n"
    stream.abort()
    rest = await response.read(MIB)
    assert b'"reason":"answer_lost"' in rest and b'"id":7' in rest


async def test_a_stream_that_is_cut_inside_an_event_is_visibly_cut(place: Place) -> None:
    response = await place.ask(target="/laptop/time/mcp?events")
    [stream] = place.server.streams
    stream.write(b"data: {")
    assert await anext(response) == b"data: {"
    stream.abort()
    with pytest.raises(AnswerLost):
        await response.read(MIB)


async def test_many_at_once(place: Place) -> None:
    async def one(number: int) -> None:
        response = await place.ask(body=b"%d" % number)
        assert json.loads(await response.read(MIB))["body"] == str(number)

    await asyncio.gather(*(one(number) for number in range(200)))
    assert len(place.server.asked) == 200 and not place.relay.relay.calls_in_flight


async def test_calls_on_a_websocket_that_is_cut_are_told(place: Place) -> None:
    sockets = ClientSockets()
    heard: list[bytes] = []
    closed: list[tuple[int, str]] = []
    try:
        origin = Origin(host="127.0.0.1", port=place.relay.port)
        socket = await sockets.open(origin, "/laptop/time/ws", bearer(place.caller), subprotocol="mcp")
        socket.on_message = heard.append
        socket.on_closed = lambda code, reason: closed.append((code, reason))
        socket.send(CALL)
        await until(lambda: len(heard) == 1)
        await place.agent.agent.leave("it sleeps")
        await until(lambda: closed)
        told = json.loads(heard[-1])
        assert (told["id"], told["error"]["data"]["reason"]) == (7, "agent_gone")
        assert told["error"]["data"]["retryable"] is False, "its server has heard it"
        assert "may have been executed" in told["error"]["message"]
        assert closed[0][0] == 1011
    finally:
        await sockets.aclose()


@pytest.mark.parametrize("size", [10, 200_000])
async def test_what_a_server_says_before_it_closes_is_heard(tmp_path: Path, size: int) -> None:
    def serve(exchange: Exchange) -> None:
        socket = exchange.upgrade("mcp")
        assert socket is not None

        def answer(message: bytes) -> None:
            socket.send(b"x" * size)
            socket.close(4001, "that was all")

        socket.on_message = answer

    sockets = ClientSockets()
    heard: list[bytes] = []
    closed: list[tuple[int, str]] = []
    async with harness(tmp_path) as relay:
        token = relay.token("laptop", "time")
        await relay.connect(token, await relay.serve(serve))
        origin = Origin(host="127.0.0.1", port=relay.port)
        socket = await sockets.open(origin, "/laptop/time/ws", bearer(token), subprotocol="mcp")
        socket.on_message = heard.append
        socket.on_closed = lambda code, reason: closed.append((code, reason))
        socket.send(b"ahoy")
        await until(lambda: closed)
        assert heard == [b"x" * size] and closed == [(4001, "that was all")]
        # And in our own framing, where two links are on the way.
        async with peers_of(relay.port) as peers:
            client = await peers.client(token)
            stream = client.open("laptop/time", method="GET", path="ws", websocket=True)
            await until(lambda: stream.head is not None)
            assert stream.stream is not None
            stream.stream.send(b"ahoy")
            await stream.over()
            assert stream.messages == [b"x" * size]
            assert stream.reset is not None and (stream.reset.reason, stream.reset.close) == ("closed", 4001)
        [keeper] = [one for one in relay.relay.registry.snapshot() if one.kind == "agent"]
        await until(lambda: not keeper.link.streams)
        await sockets.aclose()
