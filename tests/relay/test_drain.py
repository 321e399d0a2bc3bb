"""How a relay ends: who is told what, in which order, and that nobody is waited for too long."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.relay.running import restart_relay
from mooring.errors import ListenFailed, Unavailable, exit_status
from mooring.host import relaying, waits
from mooring.host.stop import Stop
from mooring.http.limits import Limits
from mooring.http.websocket_client import Refused
from mooring.relay import asked
from mooring.relay.envelope import Kind, encode, read_json, split, write_json
from mooring.relay.keeper import Keeper
from mooring.relay.policy import RelayPolicy
from mooring.relay.relay import Relay
from mooring.relay.token_book import TokenBook
from mooring.relay.words import WINDOW_BYTES, Head, Reset, Restart, text_as_headers
from mooring.wire.http import Response
from mooring.wire.websocket import WebSocket
from tests.http_client import Peer, get
from tests.relay.harness import bearer, harness
from tests.relay.peers import AGENT, CLIENT, End, Heard, Peers, peers_of
from tests.relay.running import Running, answers, end_listening, running
from tests.relay.test_calls import MIB
from tests.support import free_port, until, within
from tests.websocket_client import BINARY, CLOSE, frame, goodbye, read_frame, upgrade

pytestmark = pytest.mark.usefixtures("no_secret_in_logs")

EVENT = b'event: message\ndata: {"jsonrpc":"2.0","id":7,"result":{}}\n\n'
CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"tell-nobody"}}'
DOORS = pytest.mark.parametrize("door", [AGENT, CLIENT])


MODES = pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
"""That it is the same in every one; test_tls_modes.py has those with certificates that are ordered."""


@pytest.fixture
def is_tls() -> bool:
    """Unless a test asks for it."""
    return False


@pytest.fixture(autouse=True)
def _no_distance_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a ping now and then, which some of these would take for a word of the end."""
    monkeypatch.setattr(Keeper, "measure", lambda keeper: None)


@pytest.fixture
async def relay(tmp_path: Path, is_tls: bool) -> AsyncIterator[Running]:
    async with running(tmp_path, policy=RelayPolicy(goodbye_s=1.0), tls=is_tls) as made:
        made.usual_tokens()
        await made.start()
        yield made


@contextlib.asynccontextmanager
async def dialled(relay: Running) -> AsyncIterator[Peer]:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", relay.port, ssl=relay.trust))
    try:
        yield peer
    finally:
        await peer.aclose()


@pytest.fixture
def bounds_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Of what the end of a relay waits for, one wait after the other."""
    bounds: list[float] = []
    wait = waits.until

    async def noted(stop: Stop, timeout_s: float, *events: Awaitable[None]) -> None:
        bounds.append(timeout_s)
        await wait(stop, timeout_s, *events)

    monkeypatch.setattr(relaying, "until", noted)
    return bounds


def hello_of(token: str, **fields: Any) -> bytes:
    return frame(BINARY, encode(Kind.HELLO, payload=write_json({"instance": "one", "token": token} | fields)))


async def raw(relay: Running, stack: contextlib.AsyncExitStack, door: str, **fields: Any) -> Peer:
    """An agent or a client of which every byte is the test's; its welcome has come."""
    peer = await stack.enter_async_context(dialled(relay))
    token = relay.laptops if door == AGENT else relay.phone
    peer.send(upgrade(door) + hello_of(token, **fields))
    assert (await peer.head()).status == 101
    assert (await read_frame(peer.reader)).opcode == BINARY
    return peer


async def frames_until_end(peer: Peer) -> list[Any]:
    """Whatever still comes, to the end of the connection."""
    frames: list[Any] = []
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            frames.append(await read_frame(peer.reader))
    return frames


def ask(relay: Running, target: str = "/laptop/time/mcp") -> "asyncio.Task[tuple[int, bytes]]":
    async def asking() -> tuple[int, bytes]:
        client = relay.client()
        response = await client.request("POST", target, bearer(relay.phone), CALL)
        return response.status, await response.read(MIB)

    return asyncio.create_task(asking())


# Goodbyes -----------------------------------------------------------------------------------------


@MODES
async def test_everybody_is_told_and_it_ends_well(relay: Running) -> None:
    agent = await relay.peers.agent(relay.laptops)
    clients = [await relay.peers.client(relay.phone) for _ in range(3)]
    said_nothing = await relay.peers.upgrade(CLIENT, relay.phone)
    assert await relay.end() == 0
    for end in (agent, *clients, said_nothing):
        assert await end.gone() == (1001, "shutting down")
        assert end.word(Kind.RESTART) is None
    assert not await answers(relay.port)
    [draining] = relay.events("draining")
    assert draining.cause == "SIGTERM" and relay.events("ended")  # type: ignore[attr-defined]
    assert draining.getMessage() == "SIGTERM: stopping, with 0 calls under way, 1 agent and 3 clients"


async def test_nobody_is_there(relay: Running) -> None:
    assert await relay.end() == 0


@MODES
@pytest.mark.parametrize(
    "answer_with", ["at once", "never", "its own goodbye before", "data, then a goodbye"]
)
@DOORS
async def test_one_goodbye_each_byte_for_byte(relay: Running, door: str, answer_with: str) -> None:
    """Closing against the other end's own close, and twice (by the drain and by the end), is one frame."""
    async with within(60), contextlib.AsyncExitStack() as stack:
        peer = await raw(relay, stack, door)
        if answer_with == "its own goodbye before":
            peer.send(goodbye(1000))
        ending = asyncio.create_task(relay.end())
        frames: list[Any] = []
        while not frames or frames[-1].opcode != CLOSE:
            frames.append(await read_frame(peer.reader))
        if answer_with == "at once":
            peer.send(goodbye(1001))
        elif answer_with == "data, then a goodbye":
            peer.send(frame(BINARY, encode(Kind.PING, payload=b"too late")) + goodbye(1001))
        frames += await frames_until_end(peer)
        assert [one.opcode for one in frames].count(CLOSE) == 1 and frames[-1].opcode == CLOSE
        if answer_with == "its own goodbye before":
            assert frames[-1].code in (1000, 1001), "whoever was first"
        else:
            assert frames[-1].data == struct.pack("!H", 1001) + b"shutting down"
        if answer_with != "never":
            await peer.aclose()
        assert await ending == 0


@pytest.fixture
def _nothing_else_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose peer does not do its part."""
    patient = partial(Limits, linger_timeout_s=7200.0, write_stall_timeout_s=7200.0)
    monkeypatch.setattr(relaying, "Limits", patient)


@MODES
@DOORS
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "does not read"])
@pytest.mark.usefixtures("_nothing_else_ends_it")
async def test_who_never_answers_a_goodbye_is_cut_when_its_time_is_over(
    tmp_path: Path, is_tls: bool, door: str, reads: bool
) -> None:
    policy = RelayPolicy(goodbye_s=0.2)
    async with (
        running(tmp_path, policy=policy, tls=is_tls, drain_timeout_s=7200.0) as relay,
        contextlib.AsyncExitStack() as stack,
    ):
        relay.usual_tokens()
        await relay.start()
        peer = await raw(relay, stack, door)
        transport = peer.writer.transport
        assert isinstance(transport, asyncio.Transport)
        if not reads:
            transport.pause_reading()
        relay.stop.request("SIGTERM")
        if reads:
            assert (await read_frame(peer.reader)).opcode == CLOSE
            transport.pause_reading()  # by itself it would answer the goodbye of TLS
        assert await relay.ended() == 0


@DOORS
async def test_a_goodbye_of_its_own_and_a_revoked_token_meanwhile_are_one_frame(
    relay: Running, door: str
) -> None:
    """The handler's own end, the heartbeat's and the drain's at the same moment."""
    async with within(60), contextlib.AsyncExitStack() as stack:
        peer = await raw(relay, stack, door)
        relay.tokens.revoke("laptop" if door == AGENT else "phone")
        peer.send(frame(BINARY, encode(Kind.GOODBYE, payload=b"{}")))
        ending = asyncio.create_task(relay.end())
        frames = [await read_frame(peer.reader)]
        peer.send(goodbye(1000))
        frames += await frames_until_end(peer)
        assert [one.opcode for one in frames] == [CLOSE]
        assert frames[0].code in (1000, 1001, 4401)
        await peer.aclose()
        assert await ending == 0


@MODES
@DOORS
@pytest.mark.parametrize("way", ["--announce-restart", "mooring relay restart"])
async def test_a_restart_is_told_with_a_moment_to_come_back(
    tmp_path: Path, is_tls: bool, door: str, way: str
) -> None:
    policy = RelayPolicy(return_s=8.0, return_each_s=1.0)
    async with running(tmp_path, announce_restart=way.startswith("--"), policy=policy, tls=is_tls) as relay:
        relay.usual_tokens()
        await relay.start()
        tokens = [relay.laptops] if door == AGENT else [relay.phone] * 6
        ends = [await relay.peers.dial(door, token) for token in tokens]
        if way.startswith("--"):
            assert await relay.end() == 0
        else:
            assert await relay.control("POST", "/restart") == {"restarting": True}
            assert await relay.ended() == relaying.BEGIN_ANEW
        delays = []
        for end in ends:
            assert await end.gone() == (1012, "restarting")
            got = end.word(Kind.RESTART)
            assert got is not None, "said before the goodbye"
            word: Restart = read_json(got.payload, Restart)
            delays.append(word.reconnect_in_ms)
        # When it listens again, and not all at once.
        assert all(1000 <= delay <= 1000 * (1 + len(ends)) + 20 for delay in delays)
        assert len(ends) == 1 or len(set(delays)) > 1, "not all at the same moment"


async def test_an_agent_comes_back_no_sooner_than_it_was_told(tmp_path: Path) -> None:
    async with harness(tmp_path, RelayPolicy(return_s=900.0, return_each_s=900.0)) as relay:
        token = relay.token("laptop", "time")
        agent = await relay.connect(token, await relay.serve(lambda exchange: None))
        told: list[float] = []
        heard = agent.agent.link.on_word
        assert heard is not None

        def on_word(got: Any) -> None:
            if got.kind == Kind.RESTART:
                told.append(read_json(got.payload, Restart).reconnect_in_ms / 1000)
            heard(got)

        agent.agent.link.on_word = on_word
        await relay.relay.drain("test", calls_s=0.1, is_restart=True)
        await until(lambda: agent.agent.status(0).next_attempt_in_s is not None)
        wait_s = agent.agent.status(0).next_attempt_in_s
        # Never longer than the longest delay of its own policy (0.2 s here), plus the jitter.
        assert told and wait_s is not None and wait_s >= min(told[0], 0.2) - 0.15


class Crowd:
    """Many peers of few bytes each, and the order in which things happened to them."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.members: list[Member] = []

    async def join(self, port: int, token: str, number: int, *, answers: bool) -> "Member":
        loop = asyncio.get_running_loop()
        _, member = await loop.create_connection(
            lambda: Member(self, number, token, answers=answers), "127.0.0.1", port
        )
        self.members.append(member)
        return member

    def those(self, what: str) -> list[int]:
        return [number for event, number in self.log if event == what]

    def leave(self) -> None:
        for member in self.members:
            member.transport.abort()


class Member(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, crowd: Crowd, number: int, token: str, *, answers: bool) -> None:
        self._crowd = crowd
        self._number = number
        self._token = token
        self._answers = answers
        self._unread = b""
        self.is_welcome = False
        self.goodbyes: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.write(upgrade(CLIENT) + hello_of(self._token))

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if self._unread.startswith(b"HTTP/"):
            head, end, rest = self._unread.partition(b"\r\n\r\n")
            if not end:
                return
            assert head.startswith(b"HTTP/1.1 101 "), head
            self._unread = rest
        while len(self._unread) >= 2:
            size, start = self._unread[1], 2
            if size == 126:
                [size], start = struct.unpack("!H", self._unread[2:4]), 4
            if len(self._unread) < start + size:
                return
            self._take(self._unread[0] & 0x0F, self._unread[start : start + size])
            self._unread = self._unread[start + size :]

    def _take(self, opcode: int, data: bytes) -> None:
        if opcode == CLOSE:
            self.goodbyes.append(data)
            self._crowd.log.append(("goodbye", self._number))
            if self._answers:
                self.transport.write(frame(CLOSE, data))
        elif next(split(data)).kind == Kind.WELCOME:
            self.is_welcome = True

    def eof_received(self) -> bool:
        self._crowd.log.append(("end", self._number))
        return False


async def test_a_thousand_of_which_some_never_answer(tmp_path: Path, bounds_s: list[float]) -> None:
    """One after the other, those 200 would take a thousand seconds."""
    policy = RelayPolicy(spread_each_s=0.0)  # no two moments for two goodbyes: then their order says more
    async with running(tmp_path, policy=policy, upgrades_per_second=1e6) as relay:
        relay.usual_tokens()
        await relay.start()
        crowd = Crowd()
        try:
            for start in range(0, 1000, 50):
                await asyncio.gather(
                    *(
                        crowd.join(relay.port, relay.phone, number, answers=number % 5 != 0)
                        for number in range(start, start + 50)
                    )
                )
            await until(lambda: all(member.is_welcome for member in crowd.members), 60)
            assert json.loads((await relay.page("/healthz"))[1])["clients"] == 1000
            assert await relay.end() == 0, "a peer that never answers changes nothing"
            await until(lambda: len(crowd.those("goodbye")) == 1000)
            expected = struct.pack("!H", 1001) + b"shutting down"
            assert all(member.goodbyes == [expected] for member in crowd.members)
            # As long as for one: 10 s for the goodbyes, and of those what is left for the silent.
            assert bounds_s[0] == 10.0 and len(bounds_s) == 2 and bounds_s[1] <= 10.0
            # Nobody's silence was waited for before somebody else was told: they were all waited for at once.
            silent = [number for number in range(1000) if number % 5 == 0]
            first_end = next(at for at, (what, n) in enumerate(crowd.log) if what == "end" and n in silent)
            assert len([1 for what, _ in crowd.log[:first_end] if what == "goodbye"]) == 1000
        finally:
            crowd.leave()


@pytest.mark.parametrize(
    ("total_s", "links", "calls_s"),
    [(10.0, 0, 8.0), (10.0, 1, 7.0), (10.0, 3, 5.0), (10.0, 5, 5.0), (3.0, 0, 1.5), (60.0, 3, 55.0)],
)
async def test_calls_have_all_the_time_that_links_do_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total_s: float, links: int, calls_s: float
) -> None:
    granted_s: list[float] = []
    drain = Relay.drain

    async def noted(relay: Relay, cause: str, *, calls_s: float, is_restart: bool) -> None:
        granted_s.append(calls_s)
        relay._policy = RelayPolicy(spread_each_s=0.0)  # which need not be waited for here
        await drain(relay, cause, calls_s=calls_s, is_restart=is_restart)

    monkeypatch.setattr(Relay, "drain", noted)
    policy = RelayPolicy(flush_s=2.0, spread_s=3.0, spread_each_s=1.0)
    async with running(tmp_path, policy=policy, drain_timeout_s=total_s) as relay:
        relay.usual_tokens()
        await relay.start()
        for _ in range(links):
            await relay.peers.client(relay.phone)
        assert await relay.end() == 0
    assert granted_s == [calls_s]


async def test_closes_are_spread_so_that_not_all_come_back_at_once(tmp_path: Path) -> None:
    """With a spread they come one by one: between the first and the last, others are served."""
    policy = RelayPolicy(spread_each_s=0.02, spread_s=3.0)
    async with running(tmp_path, policy=policy) as relay:
        relay.usual_tokens()
        await relay.start()
        ends = [await relay.peers.client(relay.phone) for _ in range(30)]
        ending = asyncio.create_task(relay.end())
        await until(lambda: any(end.closed for end in ends))
        assert not all(end.closed for end in ends)
        assert await ending == 0
        assert {await end.gone() for end in ends} == {(1001, "shutting down")}


# Who comes meanwhile -------------------------------------------------------------------------------


async def drain_held_up(
    relay: Running, cause: str = "SIGTERM"
) -> "tuple[asyncio.Task[tuple[int, bytes]], asyncio.Task[int]]":
    """A drain that waits for a call."""
    await relay.laptop()
    asking = ask(relay, "/laptop/time/mcp?hold")
    await until(lambda: relay.server.held)
    ending = asyncio.create_task(relay.end(cause))
    await until(lambda: relay.events("draining"))
    return asking, ending


def let_go(relay: Running) -> None:
    for held in relay.server.held:
        held.respond(Response(200, b"done"))


@MODES
async def test_upgrades_asked_for_during_the_drain_get_503_and_never_101(relay: Running) -> None:
    async with within(60), contextlib.AsyncExitStack() as stack:
        used = [await stack.enter_async_context(dialled(relay)) for _ in range(2)]
        fresh = [await stack.enter_async_context(dialled(relay)) for _ in range(2)]
        for peer in used:
            assert (await peer.get("/healthz")).status == 200
        await until(lambda: True)
        asking, ending = await drain_held_up(relay)
        for door, peer in zip((AGENT, CLIENT, AGENT, CLIENT), (*used, *fresh), strict=True):
            peer.send(upgrade(door, f"Authorization: Bearer {relay.phone}\r\n"))
            answer = await peer.answer()
            assert answer.status == 503 and int(answer.headers["retry-after"]) > 0
            assert json.loads(answer.body)["error"]["code"] == "draining"
        late = await stack.enter_async_context(dialled(relay))
        late.send(upgrade(AGENT, f"Authorization: Bearer {relay.phone}\r\n"))
        assert (await late.answer()).status == 503, "who comes now is told so, too"
        let_go(relay)
        assert await asking == (200, b"done") and await ending == 0


async def test_readiness_says_so_and_health_does_not(relay: Running) -> None:
    async with within(60), contextlib.AsyncExitStack() as stack:
        ready, health = [await stack.enter_async_context(dialled(relay)) for _ in range(2)]
        answer = await ready.get("/readyz")
        assert answer.status == 200 and json.loads(answer.body)["state"] == "ready"
        assert (await health.get("/healthz")).status == 200
        asking, ending = await drain_held_up(relay)
        answer = await ready.get("/readyz")
        told = json.loads(answer.body)
        assert (answer.status, told["state"], told["cause"], told["calls_in_flight"]) == (
            503,
            "draining",
            "SIGTERM",
            1,
        )
        assert (await health.get("/healthz")).status == 200
        let_go(relay)
        await asyncio.gather(asking, ending)


async def test_calls_that_come_during_the_drain_are_told_so(relay: Running) -> None:
    async with within(60), contextlib.AsyncExitStack() as stack:
        by_http = await stack.enter_async_context(dialled(relay))
        assert (await by_http.get("/healthz")).status == 200
        by_framing = await relay.peers.client(relay.phone)
        asking, ending = await drain_held_up(relay)
        head = f"POST /laptop/time/mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {relay.phone}\r\n"
        by_http.send(f"{head}Content-Length: {len(CALL)}\r\n\r\n".encode() + CALL)
        answer = await by_http.answer()
        told = json.loads(answer.body)
        assert (answer.status, told["id"]) == (200, 7)
        assert told["error"]["data"] == {"reason": "draining", "retryable": True}
        reset = (await by_framing.call("laptop/time", CALL).over()).reset
        assert reset is not None and (reset.reason, reset.not_executed) == ("draining", True)
        let_go(relay)
        assert await asking == (200, b"done") and await ending == 0
        assert len(relay.server.asked) == 1


@DOORS
async def test_a_hello_during_the_drain_is_not_welcome(relay: Running, door: str) -> None:
    end = await relay.peers.upgrade(door, relay.laptops)
    asking, ending = await drain_held_up(relay)
    with pytest.raises(ConnectionError) as caught:
        await end.hello(servers=[])
    assert caught.value.args == (1001, "shutting down")
    let_go(relay)
    await asyncio.gather(asking, ending)


async def test_who_registers_during_the_drain_is_closed_too(tmp_path: Path) -> None:
    """One that waits for an incumbent's sign, and one that comes back to its own link."""
    async with harness(tmp_path, RelayPolicy(probe_s=0.2)) as relay, peers_of(relay.port) as peers:
        token, desk = relay.token("laptop", "time"), relay.token("desk", "time")
        incumbent = await peers.agent(token)
        incumbent.is_silent = True
        back = await peers.agent(desk)
        back.socket.abort()
        keeper = relay.relay.registry.agent("desk")
        await until(lambda: keeper is not None and not keeper.is_attached)
        newcomer = await peers.upgrade(AGENT, token)
        hello = asyncio.create_task(newcomer.hello(servers=["time"]))
        await until(lambda: incumbent.word(Kind.PING))
        returning = await peers.upgrade(AGENT, desk)
        assert back.welcome is not None
        fields = {"link": back.welcome.link, "instance": back.instance, "received": back.link.received}
        returning.socket.send(encode(Kind.HELLO, payload=write_json(fields)))
        await until(lambda: relay.relay._welcoming._claims)
        await relay.relay.drain("test", calls_s=0.1, is_restart=False)
        with contextlib.suppress(ConnectionError):
            await hello
        for end in (incumbent, newcomer, returning):
            assert await end.gone() == (1001, "shutting down")
        assert relay.relay.registry.snapshot() == []


async def test_who_slips_in_while_others_are_being_closed_is_closed_too(tmp_path: Path) -> None:
    """Nobody is let in by then; here the door is held open for a moment, as a race would."""
    policy = RelayPolicy(spread_each_s=1.0, spread_s=1.0)
    async with harness(tmp_path, policy) as relay, peers_of(relay.port) as peers:
        token = relay.token("laptop", "time")
        ends = [await peers.client(token) for _ in range(5)]
        draining = asyncio.create_task(relay.relay.drain("test", calls_s=0.1, is_restart=False))
        await until(lambda: any(end.closed for end in ends))
        relay.relay._welcoming._refusal = None
        late = await peers.client(token)
        relay.relay._welcoming.refuse_new("test")
        await draining
        for end in (*ends, late):
            assert await end.gone() == (1001, "shutting down")
        assert relay.relay.registry.snapshot() == []


async def test_a_claim_that_is_decided_after_the_links_were_closed_gets_nothing(tmp_path: Path) -> None:
    """Its incumbent is asked for longer than the whole drain takes."""
    async with harness(tmp_path, RelayPolicy(probe_s=60.0)) as relay, peers_of(relay.port) as peers:
        token = relay.token("laptop", "time")
        incumbent = await peers.agent(token)
        incumbent.is_silent = True
        newcomer = await peers.upgrade(AGENT, token)
        hello = asyncio.create_task(newcomer.hello(servers=["time"]))
        await until(lambda: incumbent.word(Kind.PING))
        await relay.relay.drain("test", calls_s=0.1, is_restart=False)
        with pytest.raises(ConnectionError) as caught:
            await hello
        assert caught.value.args == (1001, "shutting down")
        assert relay.relay.registry.snapshot() == [] and not relay.relay._welcoming.sockets


# Calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["http", "framing"])
async def test_calls_in_flight_finish(relay: Running, by: str) -> None:
    client = await relay.peers.client(relay.phone)
    await relay.laptop()
    if by == "http":
        asking = ask(relay, "/laptop/time/mcp?hold")
    else:
        framed = client.call("laptop/time", CALL, query="hold")
    await until(lambda: relay.server.held)
    ending = asyncio.create_task(relay.end())
    await until(lambda: relay.events("draining"))
    await asyncio.sleep(0.3)
    assert client.closed is None and not ending.done()
    let_go(relay)
    if by == "http":
        assert await asking == (200, b"done")
    else:
        assert bytes((await framed.over()).data) == b"done"
    assert await ending == 0 and await client.gone() == (1001, "shutting down")


@MODES
@pytest.mark.parametrize("by", ["http", "framing"])
async def test_a_call_that_does_not_finish_is_told_and_the_status_says_so(
    tmp_path: Path, is_tls: bool, by: str
) -> None:
    async with running(tmp_path, drain_timeout_s=1.0, tls=is_tls) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.laptop()
        if by == "http":
            asking = ask(relay, "/laptop/time/mcp?hold")
        else:
            client = await relay.peers.client(relay.phone)
            framed = client.call("laptop/time", CALL, query="hold")
        await until(lambda: relay.server.held)
        assert await relay.end() == 3
        if by == "http":
            status, body = await asking
            error = json.loads(body)["error"]
            assert status == 200 and error["data"] == {"reason": "draining", "retryable": False}
            assert "SIGTERM" in error["message"]
        else:
            reset = (await framed.over()).reset
            assert reset is not None and (reset.reason, reset.not_executed) == ("draining", False)
            assert await client.gone() == (1001, "shutting down")
        # The agent was told before its link was closed: what nobody waits for is not done to its end.
        await until(lambda: relay.server.left == 1)
        assert agent.agent.reconnects == 0
        [ended] = relay.events("ended")
        assert ended.cut == 1  # type: ignore[attr-defined]


LISTENING = pytest.mark.parametrize(
    ("method", "fields"), [("GET", []), ("POST", [("Mcp-Method", "subscriptions/listen")])]
)


@LISTENING
async def test_streams_that_only_listen_end_at_once_and_are_no_calls(
    tmp_path: Path, method: str, fields: list[tuple[str, str]]
) -> None:
    """By either way. Nobody waits for them: this drain would last for an hour otherwise."""
    async with running(tmp_path, drain_timeout_s=7200.0) as relay:
        relay.usual_tokens()
        await relay.start()
        await relay.laptop()
        client = await relay.peers.client(relay.phone)
        framed = client.call("laptop/time", method=method, query="events", headers=fields)
        caller, headers = relay.client(), [*bearer(relay.phone), *text_as_headers(fields)]
        by_http = await caller.request(method, "/laptop/time/mcp?events", headers)
        await until(lambda: len(relay.server.streams) == 2)
        assert await relay.end() == 0
        assert await by_http.read(MIB) == b"", "a proper end"
        reset = (await framed.over()).reset
        assert reset is not None and reset.reason == "draining"
        await until(lambda: relay.server.left == 2)


@pytest.mark.parametrize("by", ["http", "framing"])
async def test_a_stream_of_the_older_transport_ends_when_nothing_comes_on_it(tmp_path: Path, by: str) -> None:
    """Answers to calls come on it, which were sent elsewhere. This drain would last for hours otherwise."""
    policy = RelayPolicy(lull_s=2.0)
    async with running(tmp_path, drain_timeout_s=7200.0, policy=policy) as relay, within(60):
        relay.usual_tokens()
        await relay.start()
        agent, client = await relay.peers.agent(relay.laptops), await relay.peers.client(relay.phone)
        heard = Heard()
        if by == "http":
            asking = asyncio.create_task(
                relay.client().request("GET", "/laptop/time/sse", bearer(relay.phone))
            )
        else:
            client.call("laptop/time", method="GET", path="sse", ear=heard)
        await until(lambda: agent.opened)
        [(stream, _, seen)] = agent.opened
        stream.head(Head(200, [("content-type", "text/event-stream")]))
        ending = asyncio.create_task(relay.end())
        await until(lambda: relay.events("draining"))
        await asyncio.sleep(0.2)  # it was looked at more than once
        stream.send(EVENT)
        await until(lambda: seen.reset is not None)
        assert await ending == 0, "nobody knows of a call that was cut"
        if by == "http":
            assert await (await asking).read(MIB) == EVENT, "and a proper end"
        else:
            assert bytes((await heard.over()).data) == EVENT
            assert heard.reset is not None and heard.reset.reason == "draining"


async def test_a_stream_of_the_older_transport_on_which_much_comes_is_no_call(tmp_path: Path) -> None:
    async with running(tmp_path, drain_timeout_s=1.0, policy=RelayPolicy(lull_s=3600.0)) as relay:
        relay.usual_tokens()
        await relay.start()
        agent, client = await relay.peers.agent(relay.laptops), await relay.peers.client(relay.phone)
        by_framing = client.call("laptop/time", method="GET", path="sse", ear=Heard())
        asking = asyncio.create_task(relay.client().request("GET", "/laptop/time/sse", bearer(relay.phone)))
        await until(lambda: len(agent.opened) == 2)
        for stream, _, _ in agent.opened:
            stream.head(Head(200, [("content-type", "text/event-stream")]))
            stream.send(EVENT)
        assert await relay.end() == 0
        assert await (await asking).read(MIB) == EVENT and (await by_framing.over()).data == EVENT


ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{}}'


NO_CALLS = {
    "nothing": [],
    "to listen": [b'{"jsonrpc":"2.0","id":8,"method":"subscriptions/listen"}'],
    "and took back": [
        b'{"jsonrpc":"2.0","id":9,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}',
    ],
}
"""What was asked on a WebSocket, without anybody who waits for an answer."""


@pytest.mark.parametrize("asked_for", NO_CALLS)
@pytest.mark.parametrize("by", ["http", "framing"])
async def test_a_websocket_is_closed_when_its_calls_are_done(tmp_path: Path, by: str, asked_for: str) -> None:
    async with running(tmp_path, drain_timeout_s=7200.0) as relay, peers_of(0) as other:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        client = await relay.peers.client(relay.phone)
        opening = [
            asyncio.create_task(_socket(relay, other) if by == "http" else _framed_socket(client))
            for _ in range(2)
        ]
        await until(lambda: len(agent.opened) == 2)
        for stream, _, _ in agent.opened:
            stream.head(Head(101, [("sec-websocket-protocol", "mcp")]))
        idle, busy = await asyncio.gather(*opening)
        for message in NO_CALLS[asked_for]:
            idle.say(message)
        busy.say(CALL[:20], CALL[20:])
        said = {*NO_CALLS[asked_for], CALL}
        await until(lambda: said == {one for _, _, heard in agent.opened for one in heard.messages})
        ending = asyncio.create_task(relay.end())
        await until(lambda: idle.closed)
        assert idle.closed == [(1001, "the relay is shutting down")] and not busy.closed
        [stream] = [stream for stream, _, heard in agent.opened if CALL in heard.messages]
        stream.send(ANSWER[:20], more=True)
        stream.send(ANSWER[20:])
        await until(lambda: busy.closed)
        assert busy.heard == [ANSWER]
        assert busy.closed == [(1001, "the relay is shutting down")]
        assert await ending == 0
        idle.leave()


async def test_the_last_answer_on_a_websocket_goes_before_its_end(tmp_path: Path) -> None:
    """It is longer than what the client takes at once."""
    async with running(tmp_path, drain_timeout_s=7200.0) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        client = await relay.peers.client(relay.phone)
        slow = await _framed_socket(client, ear=Heard(takes=False))
        slow.say(CALL)
        await until(lambda: agent.opened and agent.opened[0][2].messages)
        stream, _, _ = agent.opened[0]
        answer = b'{"jsonrpc":"2.0","id":7,"result":{"x":"%s"}}' % (b"x" * WINDOW_BYTES)
        stream.head(Head(101))
        stream.send(answer)
        await until(lambda: slow.ear.count == WINDOW_BYTES)
        ending = asyncio.create_task(relay.end())
        await until(lambda: relay.events("draining"))
        await asyncio.sleep(0.2)
        assert not slow.closed and slow.ear.stream is not None
        slow.ear.stream.consumed()
        await until(lambda: slow.closed)
        assert slow.heard == [answer] and await ending == 0


@pytest.mark.parametrize("who", ["caller", "server"])
async def test_a_websocket_with_a_message_too_long_to_be_looked_into_counts_as_a_call(
    tmp_path: Path, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "MAX_OVERHEARD_BYTES", 1000)
    async with running(tmp_path, drain_timeout_s=1.0) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        socket = await _framed_socket(await relay.peers.client(relay.phone))
        await until(lambda: agent.opened)
        stream, _, heard = agent.opened[0]
        stream.head(Head(101))
        assert socket.ear.stream is not None
        (socket.ear.stream if who == "caller" else stream).send(b"x" * 1001)
        await until(lambda: socket.heard or heard.messages)
        assert await relay.end() == 3
        assert [got.count for got in (socket.ear, heard)] in ([0, 1001], [1001, 0]), "it passes all the same"


class _Socket:
    """A caller's WebSocket, by HTTP."""

    def __init__(self, socket: WebSocket) -> None:
        self.heard: list[bytes] = []
        self.closed: list[tuple[int, str]] = []
        self._socket = socket
        socket.on_message = self.heard.append
        socket.on_closed = lambda code, reason: self.closed.append((code, reason))

    def say(self, *pieces: bytes) -> None:
        self._socket.send(b"".join(pieces))

    def leave(self) -> None:
        self._socket.abort()


class _FramedSocket:
    """The same, by our framing."""

    def __init__(self, ear: Heard) -> None:
        self.ear = ear

    @property
    def heard(self) -> list[bytes]:
        return self.ear.messages

    @property
    def closed(self) -> list[tuple[int, str]]:
        reset = self.ear.reset
        return [] if reset is None else [(reset.close, reset.message)]

    def say(self, *pieces: bytes) -> None:
        assert self.ear.stream is not None
        for number, piece in enumerate(pieces, 1):
            self.ear.stream.send(piece, more=number < len(pieces))

    def leave(self) -> None:
        """With its link."""


async def _socket(relay: Running, other: Peers) -> _Socket | _FramedSocket:
    return _Socket(
        await other._sockets.open(
            relay.peers._origin, "/laptop/time/ws", bearer(relay.phone), subprotocol="mcp"
        )
    )


async def _framed_socket(client: End, ear: Heard | None = None) -> _FramedSocket:
    return _FramedSocket(client.open("laptop/time", ear=ear, method="GET", path="ws", websocket=True))


async def test_answers_that_wait_for_a_slow_line_are_sent_before_the_goodbye(relay: Running) -> None:
    """What is queued on a link is flushed: a client that reads late has all of its answer."""
    agent = await relay.peers.agent(relay.laptops)
    client = await relay.peers.client(relay.phone)
    call = client.call("laptop/time", CALL, ear=Heard())
    await until(lambda: agent.opened)
    stream, _, _ = agent.opened[0]
    client.socket.hold()
    stream.head(Head(200, []))
    stream.send(b"x" * 200_000)
    stream.end()
    ending = asyncio.create_task(relay.end())
    await until(lambda: relay.events("draining"))
    await asyncio.sleep(0.2)
    client.socket.go_on()
    assert (await call.over()).count == 200_000 and call.is_ended
    assert await client.gone() == (1001, "shutting down") and await ending == 0


# Those who are in the way ---------------------------------------------------------------------------


async def test_a_close_that_blocks_under_a_deadline_of_50_ms(tmp_path: Path, bounds_s: list[float]) -> None:
    """Nobody reads there: nothing can be flushed, no goodbye is answered, and each may take an hour."""
    policy = RelayPolicy(flush_s=3600.0, goodbye_s=3600.0)
    async with running(tmp_path, drain_timeout_s=0.05, policy=policy) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        stuck = await relay.peers.client(relay.phone)
        good = await relay.peers.client(relay.phone)
        await fill_up(agent, stuck)
        assert await relay.end() == 0, "none of those was a call"
        # Whatever else it had waited for would have been an hour; the rest is for the listener's connections.
        assert bounds_s == [0.05, 0.1] and stuck.closed is None
        assert await good.gone() == (1001, "shutting down")
        assert not await answers(relay.port)
        stuck.socket.go_on()


@MODES
@pytest.mark.usefixtures("_nothing_else_ends_it")
async def test_what_nobody_takes_is_flushed_only_so_long(tmp_path: Path, is_tls: bool) -> None:
    """And who does not read the goodbye either is cut: this drain would last for two hours otherwise."""
    policy = RelayPolicy(flush_s=0.1, goodbye_s=0.2)
    async with running(tmp_path, policy=policy, tls=is_tls, drain_timeout_s=7200.0) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        stuck = await relay.peers.client(relay.phone)
        await fill_up(agent, stuck)
        assert await relay.end() == 0
        assert stuck.closed is None
        stuck.socket.go_on()


async def fill_up(agent: End, client: End) -> None:
    """Streams that nobody waits on, with more than the client's socket takes; it reads nothing."""
    for _ in range(60):
        client.call("laptop/time", method="GET", ear=Heard(keeps=False))
    await until(lambda: len(agent.opened) == 60)
    client.socket.hold()
    for stream, _, _ in agent.opened:
        stream.head(Head(200, []))
        stream.send(b"x" * 250_000)
    await until(lambda: agent.link.has_nothing_to_send)


@MODES
@pytest.mark.usefixtures("_nothing_else_ends_it")
async def test_who_keeps_a_connection_open_and_does_not_read_has_no_more_than_the_drain(
    tmp_path: Path, is_tls: bool
) -> None:
    policy = RelayPolicy(goodbye_s=0.1)
    async with running(tmp_path, policy=policy, tls=is_tls, drain_timeout_s=1.0) as relay:
        await relay.start()
        async with dialled(relay) as peer:
            assert (await peer.get("/healthz")).status == 200
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            assert await relay.end() == 0


async def test_a_second_signal_forces(tmp_path: Path) -> None:
    now = [0.0]
    stop = Stop(lambda: now[0])
    async with running(tmp_path, stop=stop, drain_timeout_s=7200.0) as relay:
        relay.usual_tokens()
        await relay.start()
        await relay.laptop()
        client = await relay.peers.client(relay.phone)
        framed = client.call("laptop/time", CALL, query="hold")
        asking = ask(relay, "/laptop/time/mcp?hold")
        await until(lambda: len(relay.server.held) == 2)
        stop.request("SIGINT")
        await until(lambda: relay.events("draining"))
        stop.request("SIGINT")  # the same signal, come twice
        await asyncio.sleep(0.1)
        assert relay.task is not None and not relay.task.done()
        now[0] = 1.0
        stop.request("SIGINT")
        assert await relay.ended() == 3
        status, body = await asking
        error = json.loads(body)["error"]
        assert status == 200 and error["data"]["reason"] == "draining" and "SIGINT" in error["message"]
        reset = (await framed.over()).reset
        assert reset is not None and reset.reason == "draining"
        [ended] = relay.events("ended")
        assert ended.cut == 2  # type: ignore[attr-defined]


@DOORS
@pytest.mark.parametrize("way", ["a second signal", "the deadline"])
async def test_a_restart_that_is_forced_is_told_all_the_same(tmp_path: Path, door: str, way: str) -> None:
    """Before a link's turn has come, and while a call is not answered."""
    now, each_s = [0.0], 3600.0
    policy = RelayPolicy(spread_s=each_s, spread_each_s=each_s, return_s=each_s, return_each_s=each_s)
    async with running(
        tmp_path,
        stop=Stop(lambda: now[0]),
        drain_timeout_s=7200.0 if way == "a second signal" else 0.05,
        announce_restart=True,
        policy=policy,
    ) as relay:
        relay.usual_tokens()
        await relay.start()
        agent, client = await relay.peers.agent(relay.laptops), await relay.peers.client(relay.phone)
        call = client.call("laptop/time", CALL)
        await until(lambda: agent.opened)
        relay.stop.request("SIGTERM")
        await until(lambda: relay.events("draining"))
        if way == "a second signal":
            now[0] = 1.0
            relay.stop.request("SIGTERM")
        assert await relay.ended() == 3 and (await call.over()).reset is not None
        end = agent if door == AGENT else client
        assert await end.gone() == (1012, "restarting")
        told = [read_json(got.payload, Restart) for got in end.words if got.kind == Kind.RESTART]
        assert told and told[-1].reconnect_in_ms > 0, "counted from the goodbye that came"


@pytest.mark.parametrize("first", ["signal", "restart"])
async def test_a_signal_ends_it_whether_a_restart_was_asked_for_before_or_after(
    tmp_path: Path, first: str
) -> None:
    async with running(tmp_path, stop=Stop(lambda: 0.0)) as relay:
        relay.usual_tokens()
        await relay.start()
        asking, ending = await drain_held_up(relay, "SIGTERM" if first == "signal" else relaying.RESTART)
        told = await relay.control("POST", "/restart")
        if first == "signal":
            assert told["error"]["code"] == "relay_stopping"
            with pytest.raises(Unavailable, match="shutting down"):
                await asyncio.to_thread(restart_relay, str(relay.options.state))
        else:
            assert told == {"restarting": True}
            relay.stop.request("SIGTERM")
        let_go(relay)
        assert await asking == (200, b"done") and await ending == 0


async def test_a_restart_that_is_asked_for_again_is_no_second_signal(tmp_path: Path) -> None:
    now = [0.0]
    stop = Stop(lambda: now[0])
    async with running(tmp_path, stop=stop) as relay:
        relay.usual_tokens()
        await relay.start()
        asking, ending = await drain_held_up(relay, cause=relaying.RESTART)
        now[0] = 1.0
        assert await relay.control("POST", "/restart") == {"restarting": True}
        assert not stop.forced
        let_go(relay)
        assert await asking == (200, b"done") and await ending == relaying.BEGIN_ANEW


async def test_calls_that_were_cut_are_not_forgotten_when_the_closes_take_too_long(tmp_path: Path) -> None:
    """The deadline comes while links are being flushed, after a call was cut."""
    policy = RelayPolicy(flush_s=3600.0, goodbye_s=3600.0)
    async with running(tmp_path, drain_timeout_s=0.4, policy=policy) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        stuck = await relay.peers.client(relay.phone)
        asking = ask(relay)
        calls = [stuck.call("laptop/time", method="GET", ear=Heard(keeps=False)) for _ in range(60)]
        await until(lambda: len(agent.opened) == 61)
        stuck.socket.hold()
        for stream, opening, _ in agent.opened:
            if opening.method == "GET":
                stream.head(Head(200, []))
                stream.send(b"x" * 250_000)
        await until(lambda: agent.link.has_nothing_to_send)
        assert await relay.end() == 3
        assert b'"reason":"draining"' in (await asking)[1]
        stuck.socket.go_on()
        assert len(calls) == 60


async def test_when_a_part_of_it_fails_the_others_are_drained_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, policy=RelayPolicy(acknowledge_s=0.05)) as relay:
        relay.usual_tokens()
        await relay.start()
        await relay.laptop()
        client = await relay.peers.client(relay.phone)
        asking = ask(relay, "/laptop/time/mcp?hold")
        await until(lambda: relay.server.held)

        def fail(self: TokenBook) -> bool:
            raise RuntimeError("as nobody expects it")

        monkeypatch.setattr(TokenBook, "changed", fail)
        await until(lambda: relay.events("draining"))
        assert not asking.done() and client.closed is None
        let_go(relay)
        assert await asking == (200, b"done")
        with pytest.raises(RuntimeError, match="nobody expects"):
            await relay.ended()
        assert await client.gone() == (1001, "shutting down")
        assert not await answers(relay.port)


@MODES
@pytest.mark.parametrize("which", ["public", "metrics"])
async def test_when_a_listener_dies_the_others_are_drained_first(
    tmp_path: Path, is_tls: bool, which: str
) -> None:
    metrics = free_port()
    async with running(tmp_path, metrics_listen=("127.0.0.1", metrics), tls=is_tls) as relay:
        relay.usual_tokens()
        await relay.start()
        await relay.laptop()
        client = await relay.peers.client(relay.phone)
        asking = ask(relay, "/laptop/time/mcp?hold")
        await until(lambda: relay.server.held)
        end_listening(relay.port if which == "public" else metrics)
        await until(lambda: relay.events("draining"))
        assert not asking.done() and client.closed is None
        let_go(relay)
        assert await asking == (200, b"done")
        with pytest.raises(ListenFailed) as caught:
            await relay.ended()
        assert exit_status(caught.value) == 1
        assert await client.gone() == (1001, "shutting down")
        assert not await answers(relay.port) and not await answers(metrics)


async def test_a_lost_link_is_nobody_to_wait_for(tmp_path: Path) -> None:
    """Its calls are held for it, but not beyond the end."""
    async with running(tmp_path, drain_timeout_s=1.0) as relay:
        relay.usual_tokens()
        await relay.start()
        agent = await relay.peers.agent(relay.laptops)
        asking = ask(relay)
        await until(lambda: agent.opened)
        agent.socket.abort()
        assert await relay.end() == 3
        assert b'"reason":"draining"' in (await asking)[1]


async def test_who_waits_for_an_agent_that_is_on_its_way_waits_no_longer(tmp_path: Path) -> None:
    """A relay that has just begun holds calls for agents that it expects."""
    async with running(tmp_path, drain_timeout_s=7200.0) as relay:
        relay.usual_tokens()
        await relay.start()
        asking = ask(relay)
        await asyncio.sleep(0.2)
        assert not asking.done()
        assert await relay.end() == 0
        assert b'"retryable":true' in (await asking)[1]


async def test_reset_is_a_word_too(relay: Running) -> None:
    """A caller that goes while its call is drained is no reason to wait, and no call that was cut."""
    await relay.laptop()
    client = await relay.peers.client(relay.phone)
    framed = client.call("laptop/time", CALL, query="hold")
    asking = ask(relay, "/laptop/time/mcp?hold")
    await until(lambda: len(relay.server.held) == 2)
    ending = asyncio.create_task(relay.end())
    await until(lambda: relay.events("draining"))
    assert framed.stream is not None
    framed.stream.reset(Reset("enough"))
    asking.cancel()
    assert await ending == 0
    await asyncio.gather(asking, return_exceptions=True)


async def test_get_of_a_page_that_was_asked_for_before_is_answered(relay: Running) -> None:
    """A request that arrives on an accepted connection is no victim of the drain."""
    async with within(60), contextlib.AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(dialled(relay)) for _ in range(5)]
        for peer in peers:
            peer.send(get("/healthz"))
        ending = asyncio.create_task(relay.end())
        for peer in peers:
            answer = await peer.answer()
            assert answer.status == 200
        assert await ending == 0


@pytest.mark.parametrize("which", ["metrics", "control"])
async def test_who_asks_at_another_port_is_answered_too(tmp_path: Path, which: str) -> None:
    """A request that has begun is no victim of the drain, whatever listener it came to."""
    metrics = free_port()
    async with (
        running(tmp_path, metrics_listen=("127.0.0.1", metrics), drain_timeout_s=7200.0) as relay,
        within(60),
    ):
        await relay.start()
        control = relaying.control_socket(relay.options.state)
        is_metrics = which == "metrics"
        dialling = asyncio.open_connection("127.0.0.1", metrics) if is_metrics else None
        peer = Peer(*await (dialling or asyncio.open_unix_connection(control)))
        request = get("/metrics" if is_metrics else "/status")
        peer.send(request[:-4])
        ending = asyncio.create_task(relay.end())
        while await answers(metrics):
            pass
        await asyncio.sleep(0.2)
        assert not ending.done()
        peer.send(request[-4:])
        assert (await peer.answer()).status == 200
        assert await ending == 0
        await peer.aclose()


async def test_an_upgrade_that_is_refused_by_a_drain_is_counted(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay, peers_of(relay.port) as peers:
        token = relay.token("laptop", "time")
        await relay.relay.drain("test", calls_s=0.1, is_restart=False)
        with pytest.raises(Refused) as caught:
            await peers.upgrade(AGENT, token)
        assert caught.value.status == 503 and caught.value.header(b"retry-after")
        assert relay.relay.counters.find("upgrades_total", "agent", "draining").value == 1
