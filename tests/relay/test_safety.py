"""Strangers at a relay: floods, slowness, forgery and curiosity are refused cheaply, and counted."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring import __version__
from mooring.errors import UserError
from mooring.host import relaying
from mooring.host.relay_options import RelayOptions
from mooring.host.stop import Stop
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets, Refused
from mooring.relay.admission import FAILURES, UPGRADES, parse_proxy
from mooring.relay.envelope import MAX_MESSAGE_BYTES, Kind, encode
from mooring.relay.policy import RelayPolicy
from mooring.relay.words import Head, Reset
from mooring.wire.http import Response
from tests.http_client import Peer, get
from tests.relay.harness import bearer, harness
from tests.relay.peers import AGENT, CLIENT, peers_of
from tests.relay.running import Running, answers, running
from tests.relay.test_calls import MIB
from tests.support import free_port, until, within
from tests.websocket_client import BINARY, frame, opened, read_frame, upgrade

pytestmark = pytest.mark.usefixtures("no_secret_in_logs")

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"tell-nobody"}}'
NOBODYS = "mrt_aaaaaaaaaaaa_" + "A" * 43
DOORS = pytest.mark.parametrize("door", [AGENT, CLIENT])


@contextlib.asynccontextmanager
async def started(folder: Path, **options: Any) -> AsyncIterator[Running]:
    given = {"metrics_listen": ("127.0.0.1", free_port())} | options
    async with running(folder, **given) as relay:
        relay.usual_tokens()
        await relay.start()
        yield relay


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[Running]:
    async with started(tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def dialled(port: int, source: str = "127.0.0.1") -> AsyncIterator[Peer]:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))
    try:
        yield peer
    finally:
        await peer.aclose()


async def metric(relay: Running, sample: str, prefix: str = "relay_") -> float:
    """One value of the page; `sample` is its name with its labels."""
    assert relay.options.metrics_listen is not None
    _, page = await relay.page("/metrics", relay.options.metrics_listen[1])
    [line] = [line for line in page.decode().splitlines() if line.startswith(f"mooring_{prefix}{sample} ")]
    return float(line.rpartition(" ")[2])


async def counted(relay: Running, sample: str, value: int) -> None:
    """Waits for it: some counts are taken with the heartbeat."""
    async with within():
        while await metric(relay, sample) != value:
            await asyncio.sleep(0.01)


async def knock(port: int, times: int, *, source: str = "127.0.0.1", extra: str = "") -> list[int]:
    """The statuses of so many requests at the agents' door; only the address matters."""
    async with within(60), dialled(port, source) as peer:
        statuses = []
        for _ in range(times):
            peer.send(get(AGENT, extra))
            answer = await peer.answer()
            statuses.append(answer.status)
            if answer.status == 429:
                assert int(answer.headers["retry-after"]) >= 1
                assert json.loads(answer.body)["error"]["code"] == "rate_limited"
        return statuses


# Floods ------------------------------------------------------------------------------------------


async def test_a_flood_of_upgrades_from_one_address_is_refused_and_nobody_else(tmp_path: Path) -> None:
    async with started(tmp_path, upgrades_per_second=0.01) as relay:
        agent = await relay.laptop()  # one of the burst
        statuses = await knock(relay.port, UPGRADES.burst + 20)
        assert statuses == [426] * (UPGRADES.burst - 1) + [429] * 21
        with pytest.raises(Refused) as caught:
            await relay.peers.upgrade(AGENT, relay.laptops)
        assert caught.value.status == 429, "before any token is looked at"
        # Another address, those who are connected, and callers notice nothing.
        assert await knock(relay.port, 1, source="127.0.0.2") == [426]
        response = await relay.client().request("POST", "/laptop/time/mcp", bearer(relay.phone), CALL)
        assert response.status == 201 and agent.agent.is_connected
        await response.read(MIB)
        assert (await relay.page("/healthz"))[0] == 200
        assert await metric(relay, 'upgrades_total{kind="agent",outcome="rate_limited"}') == 22


async def test_what_a_stranger_says_about_addresses_means_nothing(tmp_path: Path) -> None:
    async with started(tmp_path, upgrades_per_second=0.01) as relay:
        assert await knock(relay.port, UPGRADES.burst) == [426] * UPGRADES.burst
        for forged in ("203.0.113.9", "127.0.0.2", "unix", "", "nonsense"):
            assert await knock(relay.port, 1, extra=f"X-Forwarded-For: {forged}\r\n") == [429]
        assert await knock(relay.port, 1, extra="Forwarded: for=203.0.113.9\r\n") == [429]
        assert await knock(relay.port, 1, extra="X-Real-IP: 203.0.113.9\r\n") == [429]


async def test_a_proxy_that_is_trusted_says_whom_it_speaks_for(tmp_path: Path) -> None:
    proxies = (parse_proxy("127.0.0.1"), parse_proxy("10.0.0.0/8"))
    async with started(tmp_path, upgrades_per_second=0.01, trust_proxies=proxies) as relay:
        one = "X-Forwarded-For: 203.0.113.9\r\n"
        assert await knock(relay.port, UPGRADES.burst + 1, extra=one) == [426] * UPGRADES.burst + [429]
        # What stands left of the last address that is not a proxy's was written by that one.
        assert await knock(relay.port, 1, extra="X-Forwarded-For: 198.51.100.1, 203.0.113.9\r\n") == [429]
        assert await knock(relay.port, 1, extra="X-Forwarded-For: 203.0.113.9, 10.1.2.3\r\n") == [429]
        assert await knock(relay.port, 1, extra="X-Forwarded-For: 203.0.113.10\r\n") == [426]
        # Somebody who is no proxy counts for itself, whatever it says.
        assert (
            await knock(relay.port, UPGRADES.burst, source="127.0.0.2", extra=one) == [426] * UPGRADES.burst
        )
        again = "X-Forwarded-For: 203.0.113.77\r\n"
        assert await knock(relay.port, 1, source="127.0.0.2", extra=again) == [429]


async def test_guesses_at_tokens_are_few_and_good_tokens_behind_the_same_address_go_on(
    relay: Running,
) -> None:
    async with within(60), dialled(relay.port) as peer:
        statuses = []
        for _ in range(FAILURES.burst + 5):
            peer.send(get("/laptop/time/mcp", f"Authorization: Bearer {NOBODYS}\r\n"))
            answer = await peer.answer()
            statuses.append(answer.status)
            if "connection" in answer.headers:
                break
    assert statuses[0] == 401 and set(statuses) <= {401, 429}
    while len(statuses) < FAILURES.burst + 5:
        statuses.append((await relay.page("/laptop/time/mcp"))[0])
    assert statuses == [401] * FAILURES.burst + [429] * 5
    with pytest.raises(Refused) as caught:
        await relay.peers.upgrade(AGENT, NOBODYS)
    assert caught.value.status == 429 and int(caught.value.header(b"retry-after") or 0) >= 1
    end = await relay.peers.upgrade(CLIENT)
    with pytest.raises(ConnectionError) as refused:
        await end.hello(token=NOBODYS)
    assert refused.value.args[0] == 4401
    await relay.peers.agent(relay.laptops)
    await relay.peers.client(relay.phone)
    assert await metric(relay, 'calls_total{outcome="bad_token"}') == FAILURES.burst
    assert await metric(relay, 'calls_total{outcome="rate_limited"}') == 5


async def test_so_many_connections_and_the_next_is_told_so(tmp_path: Path) -> None:
    async with started(tmp_path, max_connections=5) as relay:
        agent = await relay.peers.agent(relay.laptops)
        clients = [await relay.peers.client(relay.phone) for _ in range(4)]
        with pytest.raises(Refused) as caught:
            await relay.peers.upgrade(CLIENT, relay.phone)
        assert caught.value.status == 503 and agent.closed is None
        clients[0].link.say(Kind.GOODBYE, b"{}")
        await clients[0].gone()
        async with within():
            while True:
                with contextlib.suppress(Refused):
                    await relay.peers.client(relay.phone)
                    break
                await asyncio.sleep(0.05)


async def test_a_crowd_of_one_address_that_asks_for_nothing_shuts_nobody_out(tmp_path: Path) -> None:
    async with started(tmp_path, max_connections=40) as relay, contextlib.AsyncExitStack() as stack:
        agent = await relay.laptop()
        asking = asyncio.create_task(
            relay.client().request("POST", "/laptop/time/mcp?hold", bearer(relay.phone), CALL)
        )
        await until(lambda: relay.server.held)
        crowd = [await stack.enter_async_context(dialled(relay.port)) for _ in range(80)]
        client = await relay.peers.client(relay.phone)  # from the same address, too
        async with within():
            assert await crowd[0].at_end(), "who came first has waited longest"
        relay.server.held[0].respond(Response(200, b"done"))
        response = await asking
        assert await response.read(MIB) == b"done"
        assert agent.agent.is_connected and client.closed is None
        assert relay.options.metrics_listen is not None
        assert await metric(relay, "connections_refused_total", "") >= 60


async def test_garbage_from_many_leaves_nothing(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay, contextlib.AsyncExitStack() as stack:
        for number in range(100):
            peer = await stack.enter_async_context(dialled(relay.port))
            junk = [
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # a handshake of TLS
                b"\x00" * 500,
                upgrade(AGENT) + b"\xff" * 500,
                upgrade(CLIENT) + frame(BINARY, b"\xff" * 100),
                upgrade(CLIENT) + frame(BINARY, b"x", mask=None),
                upgrade(AGENT) + frame(BINARY, b"x" * 100)[:-50],
                get(AGENT, "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
            ]
            peer.send(junk[number % len(junk)])
            if number % 3 == 0:
                peer.writer.write_eof()
        await asyncio.sleep(0.3)
        assert relay.relay.registry.snapshot() == []
        await stack.aclose()
        await until(lambda: relay.listener.connections == 0)
        assert relay.relay._welcoming.sockets == [] and not relay.relay._welcoming._claims


# Slowness -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def impatient(folder: Path) -> AsyncIterator[tuple[Any, Listener, int]]:
    """A relay whose bounds are a hundredth of the usual ones."""
    async with harness(folder, RelayPolicy(hello_s=0.3)) as relay:
        limits = Limits(header_timeout_s=0.4, read_idle_timeout_s=0.4, keep_alive_timeout_s=0.4)
        listener = Listener(relay.relay, admit=relay.relay.admit, limits=limits)
        [(_, port)] = await listener.listen_tcp("127.0.0.1", 0)
        try:
            yield relay, listener, port
        finally:
            await listener.aclose()


@DOORS
async def test_an_upgrade_that_trickles_in_is_not_waited_for(tmp_path: Path, door: str) -> None:
    async with impatient(tmp_path) as (relay, listener, port), contextlib.AsyncExitStack() as stack:
        token = relay.token("laptop", "time")
        request = upgrade(door, f"Authorization: Bearer {token}\r\nX-Padding: {'x' * 5000}\r\n")
        slow = [await stack.enter_async_context(dialled(port)) for _ in range(30)]
        heads = [asyncio.create_task(peer.head()) for peer in slow]
        async with within():
            for at in range(len(request)):
                if all(head.done() for head in heads):
                    break
                for peer in slow:
                    peer.send(request[at : at + 1])
                await asyncio.sleep(0.01)
            # Meanwhile, and before their time is over, others come in.
            async with peers_of(port) as peers:
                assert (await peers.agent(token)).welcome is not None
            assert {(await head).status for head in heads} == {408}
            assert listener.house.refused == {"too_slow": 30}


async def test_a_connection_that_says_nothing_is_not_kept(tmp_path: Path) -> None:
    async with impatient(tmp_path) as (_, _, port), within(), dialled(port) as peer:
        assert await peer.at_end()


async def test_a_body_that_stops_is_not_waited_for(tmp_path: Path) -> None:
    async with impatient(tmp_path) as (relay, _, port), within(), dialled(port) as peer:
        token = relay.token("laptop", "time")
        head = f"POST /laptop/time/mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        peer.send(f"{head}Content-Length: 1000\r\n\r\n".encode() + b"x" * 10)
        assert (await peer.answer()).status == 408


async def test_a_message_that_stops_ends_its_link(tmp_path: Path) -> None:
    async with impatient(tmp_path) as (relay, _, port), within(), dialled(port) as peer:
        token = relay.token("laptop", "time")
        await opened(peer, AGENT, f"Authorization: Bearer {token}\r\n")
        peer.send(frame(BINARY, b"\x00\x00\x00\x10\x01" + bytes(13) + b'{"instance":"a"}'))
        assert (await read_frame(peer.reader)).opcode == BINARY
        peer.send(frame(BINARY, b"x" * 1000)[:-10])
        got = await read_frame(peer.reader)
        assert got.code == 1008
        await until(lambda: relay.relay.counters.find("links_closed_total", "agent", "1008").value == 1)


# Sizes --------------------------------------------------------------------------------------------


async def test_heads_and_bodies_have_bounds(tmp_path: Path) -> None:
    async with started(tmp_path, policy=RelayPolicy(max_body_bytes=100_000)) as relay:
        await relay.laptop()
        bounds = Limits()
        good = f"Authorization: Bearer {relay.phone}\r\n"
        for request, status in (
            (get("/" + "a" * bounds.max_target_bytes, good), 414),
            (get("/laptop/time/mcp", good + "X-A: " + "b" * bounds.max_header_bytes + "\r\n"), 431),
            (get("/laptop/time/mcp", good + "X-A: b\r\n" * bounds.max_headers), 431),
            (get(AGENT, good + "X-A: " + "b" * bounds.max_header_bytes + "\r\n"), 431),
            (_post(100_001, good), 413),
        ):
            async with within(), dialled(relay.port) as peer:
                peer.send(request)
                assert (await peer.answer()).status == status
        assert not relay.server.asked
        for reason, count in (("target_too_long", 1), ("too_many_headers", 1), ("body_too_large", 1)):
            assert await metric(relay, f'requests_refused_total{{reason="{reason}"}}', "") == count
        response = await relay.client().request(
            "POST", "/laptop/time/mcp", bearer(relay.phone), b"y" * 100_000
        )
        assert response.status == 201
        await response.read(MIB)


def _post(length: int, extra: str) -> bytes:
    return f"POST /laptop/time/mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{extra}\r\n".encode()


@pytest.mark.parametrize("token", ["", NOBODYS])
async def test_nobodys_body_is_read_who_would_not_be_let_in(relay: Running, token: str) -> None:
    """Refused by its head alone: what follows was not even asked for."""
    async with within(), dialled(relay.port) as peer:
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        peer.send(_post(60 * MIB, f"Expect: 100-continue\r\n{authorization}"))
        answer = await peer.answer()
        assert answer.status == 401 and "bearer" in answer.headers["www-authenticate"].lower()


async def test_an_agent_has_so_many_sessions_at_once(tmp_path: Path) -> None:
    async with started(tmp_path, policy=RelayPolicy(max_streams_per_agent=3)) as relay:
        await relay.laptop()
        client = await relay.peers.client(relay.phone)
        framed = client.call("laptop/time", CALL, query="hold")
        streams = [
            await relay.client().request("GET", "/laptop/time/mcp?events", bearer(relay.phone))
            for _ in range(2)
        ]
        await until(lambda: len(relay.server.asked) == 3)
        caller = relay.client()
        response = await caller.request("POST", "/laptop/time/mcp", bearer(relay.phone), CALL)
        told = json.loads(await response.read(MIB))
        assert (response.status, told["id"]) == (200, 7)
        assert told["error"]["data"] == {"reason": "too_many", "retryable": True}
        response = await caller.request("GET", "/laptop/time/mcp", bearer(relay.phone))
        assert response.status == 429 and int(response.header(b"retry-after") or 0) > 0
        await response.read(MIB)
        reset = (await client.call("laptop/time", CALL).over()).reset
        assert reset is not None and (reset.reason, reset.not_executed) == ("too_many", True)
        assert len(relay.server.asked) == 3
        assert await metric(relay, 'calls_total{outcome="too_many"}') == 3
        assert framed.stream is not None
        framed.stream.reset(Reset("enough"))
        await until(lambda: relay.server.left == 1)
        response = await caller.request("POST", "/laptop/time/mcp", bearer(relay.phone), CALL)
        assert response.status == 201
        await response.read(MIB)
        for stream in streams:
            stream.close()


# Bytes per minute ---------------------------------------------------------------------------------

MINUTE = MIB
EXCESS = 24 * 1024
"""Beyond a minute's worth: a second and a half later."""


async def test_an_agent_that_sends_too_much_is_read_later_and_nothing_is_lost(tmp_path: Path) -> None:
    async with started(tmp_path, bytes_per_minute=MINUTE) as relay:
        await relay.laptop()
        caller = relay.client()
        large = f"/laptop/time/mcp?large{MINUTE + EXCESS}"
        response = await caller.request("GET", large, bearer(relay.phone))
        assert await response.read(4 * MIB) == b"x" * (MINUTE + EXCESS)
        assert await metric(relay, "slowed_total") >= 1
        # Others are not made to wait for it.
        client = await relay.peers.client(relay.phone)
        assert client.word(Kind.PONG) is None
        client.link.say(Kind.PING, b"here")
        await until(lambda: client.word(Kind.PONG))
        # And it goes on, at its pace.
        response = await caller.request("POST", "/laptop/time/mcp", bearer(relay.phone), CALL)
        assert response.status == 201
        await response.read(MIB)


async def test_a_client_that_sends_too_much_is_read_later_and_nothing_is_lost(tmp_path: Path) -> None:
    async with started(tmp_path, bytes_per_minute=MINUTE) as relay:
        await relay.laptop()
        client = await relay.peers.client(relay.phone)
        call = client.call("laptop/time", b"y" * (MINUTE + EXCESS), query="large10")
        await call.over()
        assert bytes(call.data) == b"x" * 10
        assert relay.server.asked[-1].request.body == b"y" * (MINUTE + EXCESS)
        assert await metric(relay, "slowed_total") >= 1


async def test_a_websocket_that_sends_too_much_is_read_later_and_nothing_is_lost(tmp_path: Path) -> None:
    async with started(tmp_path, bytes_per_minute=MINUTE) as relay:
        await relay.laptop()
        sockets = ClientSockets()
        origin = Origin(host="127.0.0.1", port=relay.port)
        socket = await sockets.open(origin, "/laptop/time/ws", bearer(relay.phone), subprotocol="mcp")
        for size in (MINUTE, EXCESS):
            socket.send(b"y" * size)
        await until(lambda: len(relay.server.said) == 2)
        socket.send(b"more")
        await asyncio.sleep(0.2)
        assert len(relay.server.said) == 2, "what is beyond it waits"
        assert await metric(relay, "slowed_total") >= 1
        await until(lambda: len(relay.server.said) == 3)
        assert [len(message) for message in relay.server.said] == [MINUTE, EXCESS, 4]
        await sockets.aclose()


async def test_a_caller_that_sent_too_much_is_told_so_and_nothing_is_done(tmp_path: Path) -> None:
    async with started(tmp_path, bytes_per_minute=MINUTE) as relay:
        await relay.laptop()
        caller, other = relay.client(), relay.token("other", calls="laptop/*")
        body = b"y" * MINUTE
        response = await caller.request("POST", "/laptop/time/mcp?large1", bearer(relay.phone), body)
        assert await response.read(MIB) == b"x" and relay.server.asked[-1].request.body == body
        large = CALL.replace(b"tell-nobody", b"y" * (MINUTE // 2))
        response = await caller.request("POST", "/laptop/time/mcp", bearer(relay.phone), large)
        told = json.loads(await response.read(MIB))
        assert told["error"]["data"] == {"reason": "too_many", "retryable": True}
        # Coming again pays no debt, whichever way; and it is that token's alone.
        response = await relay.client().request(
            "POST", "/laptop/time/mcp", bearer(relay.phone), b"y" * MINUTE
        )
        assert response.status == 429
        await response.read(MIB)
        assert len(relay.server.asked) == 1
        await asyncio.sleep(1.2)  # until the new token is read
        response = await caller.request("POST", "/laptop/time/mcp?large1", bearer(other), CALL)
        assert await response.read(MIB) == b"x"


async def test_a_body_beyond_a_minutes_worth_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    """It would be paid for by the links of its token, which stood still until then."""
    async with started(tmp_path, bytes_per_minute=MINUTE) as relay:
        agent = await relay.laptop()
        call = CALL.replace(b"tell-nobody", b"y" * (2 * MINUTE))
        response = await relay.client().request("POST", "/laptop/time/mcp", bearer(relay.laptops), call)
        told = json.loads(await response.read(MIB))
        assert told["error"]["data"] == {"reason": "too_large", "retryable": True}
        response = await relay.client().request("POST", "/laptop/time/mcp", bearer(relay.laptops), call[1:])
        assert response.status == 413 and b"in a minute" in await response.read(MIB)
        assert await metric(relay, 'calls_total{outcome="too_large"}') == 2
        response = await relay.client().request("POST", "/laptop/time/mcp", bearer(relay.laptops), CALL)
        assert response.status == 201 and await response.read(MIB)
        assert agent.agent.is_connected and not await metric(relay, "slowed_total")


async def test_an_agent_that_is_read_later_keeps_its_name_and_is_heard(tmp_path: Path) -> None:
    """What it sent too much is two minutes' worth, but signs of life pass."""
    policy = RelayPolicy(probe_s=0.2)
    async with started(tmp_path, bytes_per_minute=64 * 1024, policy=policy) as relay:
        agent = await relay.peers.agent(relay.laptops)
        agent.say(encode(Kind.DATA, 7777, bytes(200 * 1024), sequence=1))
        await counted(relay, "slowed_total", 1)
        with pytest.raises(ConnectionError) as caught:
            await relay.peers.agent(relay.laptops)
        assert caught.value.args[0] == 4409
        agent.say(encode(Kind.PING, payload=b"here"))
        await until(lambda: agent.word(Kind.PONG))
        assert agent.closed is None


# What strangers do is counted ------------------------------------------------------------------------


@pytest.fixture
async def attentive(tmp_path: Path) -> AsyncIterator[Running]:
    async with started(tmp_path, policy=RelayPolicy(acknowledge_s=0.05)) as made:
        yield made


@DOORS
async def test_messages_that_are_too_large_are_counted(attentive: Running, door: str) -> None:
    end = await attentive.peers.dial(door, attentive.laptops)
    early = await attentive.peers.upgrade(door, attentive.laptops)
    for each in (end, early):
        each.socket.send(b"x" * (MAX_MESSAGE_BYTES + 1))
        assert (await each.gone())[0] == 1009
    kind = "agent" if door == AGENT else "client"
    await counted(attentive, f'links_closed_total{{kind="{kind}",code="1009"}}', 1)
    await counted(attentive, f'upgrades_total{{kind="{kind}",outcome="protocol_error"}}', 1)


async def test_envelopes_for_connections_that_never_were_are_counted(attentive: Running) -> None:
    ends = await attentive.peers.agent(attentive.laptops), await attentive.peers.client(attentive.phone)
    for end in ends:
        end.say(*(encode(Kind.DATA, 7777 + number, b"x", sequence=number) for number in range(1, 51)))
    await counted(attentive, "stray_envelopes_total", 100)
    assert [end.closed for end in ends] == [None, None]
    ends[1].link.say(Kind.GOODBYE, b"{}")
    await counted(attentive, 'links_closed_total{kind="client",code="1000"}', 1)


async def test_links_that_are_nobodys_are_counted(relay: Running) -> None:
    for guess in ("guess", "another"):
        await relay.peers.client(relay.phone, link=guess)
    await counted(relay, 'upgrades_total{kind="client",outcome="not_resumed"}', 2)
    await counted(relay, 'upgrades_total{kind="client",outcome="accepted"}', 0)


async def test_garbage_is_counted(relay: Running) -> None:
    async with within(), dialled(relay.port) as peer:
        peer.send(b"GET / HTTP/1.1\r\nbroken\r\n\r\n")
        assert (await peer.answer()).status == 400
    assert await metric(relay, 'requests_refused_total{reason="malformed"}', "") == 1


# Forgery ------------------------------------------------------------------------------------------


async def test_a_link_is_its_tokens_and_its_runs_alone(relay: Running) -> None:
    """Whoever knows another's link and its run, but not its token, gets a link of its own."""
    await relay.laptop()
    victim = await relay.peers.client(relay.phone)
    held = victim.call("laptop/time", CALL, query="hold")
    await until(lambda: relay.server.held)
    assert victim.welcome is not None
    stolen = {"link": victim.welcome.link, "instance": victim.instance, "received": 0}
    thief = await relay.peers.client(relay.laptops, **stolen)
    assert thief.welcome is not None and not thief.welcome.resumed
    assert thief.welcome.link != victim.welcome.link and thief.welcome.name == "laptop"
    other_run = await relay.peers.client(relay.phone, link=victim.welcome.link)
    assert other_run.welcome is not None and not other_run.welcome.resumed
    for guess in ("", "x", victim.welcome.link[:-1], victim.welcome.link + "A", "laptop", "*"):
        end = await relay.peers.client(relay.phone, link=guess, instance=victim.instance)
        assert end.welcome is not None and not end.welcome.resumed
    relay.server.held[0].start(200, [])
    relay.server.held[0].write(b"for the victim")
    relay.server.held[0].end()
    assert bytes((await held.over()).data) == b"for the victim"
    assert victim.closed is None and not thief.opened


async def test_a_lost_link_is_not_anybodys_either(relay: Running) -> None:
    await relay.laptop()
    victim = await relay.peers.client(relay.phone)
    held = victim.call("laptop/time", CALL, query="hold")
    await until(lambda: relay.server.held)
    victim.socket.abort()
    assert victim.welcome is not None
    stolen = {"link": victim.welcome.link, "instance": victim.instance}
    thief = await relay.peers.client(relay.laptops, **stolen)
    assert thief.welcome is not None and not thief.welcome.resumed
    await relay.peers.client(relay.phone, again=victim)
    assert victim.welcome is not None and victim.welcome.resumed
    relay.server.held[0].start(200, [])
    relay.server.held[0].end()
    assert (await held.over()).is_ended


async def test_an_agents_link_is_no_clients_and_no_other_agents(tmp_path: Path) -> None:
    async with running(tmp_path) as relay:
        relay.usual_tokens()
        other = relay.token("other", "time", "laptop/*")
        await relay.start()
        victim = await relay.peers.agent(relay.laptops)
        assert victim.welcome is not None
        stolen = {"link": victim.welcome.link, "instance": victim.instance}
        for thief in (await relay.peers.agent(other, **stolen), await relay.peers.client(other, **stolen)):
            assert thief.welcome is not None
            assert (thief.welcome.resumed, thief.welcome.name) == (False, "other")
        asking = asyncio.create_task(
            relay.client().request("POST", "/laptop/time/mcp", bearer(relay.phone), CALL)
        )
        await until(lambda: victim.opened)
        victim.opened[0][0].head(Head(204, [("content-length", "0")]))
        victim.opened[0][0].end()
        assert (await asking).status == 204 and victim.closed is None


async def test_what_is_not_ones_own_to_say_is_refused(relay: Running) -> None:
    """Connections that somebody else has open cannot be spoken on: numbers are a link's own."""
    await relay.laptop("time,notes")
    victim, other = await relay.peers.client(relay.phone), await relay.peers.client(relay.phone)
    held = victim.call("laptop/time", CALL, query="hold")
    await until(lambda: relay.server.held)
    assert held.stream is not None
    forged = other.open("laptop/notes", query="large5")
    assert forged.stream is not None and forged.stream.id == held.stream.id, "the same number"
    forged.stream.end()
    assert bytes((await forged.over()).data) == b"xxxxx"
    assert not held.is_over
    relay.server.held[0].start(200, [])
    relay.server.held[0].end()
    assert (await held.over()).is_ended and held.count == 0


async def test_pages_of_other_sites_get_nothing(tmp_path: Path) -> None:
    async with started(tmp_path, allow_origins=("https://good.example",)) as relay:
        await relay.laptop()
        for origin, is_good in (("https://good.example", True), ("https://evil.example", False)):
            headers = [*bearer(relay.phone), (b"Origin", origin.encode())]
            response = await relay.client().request("POST", "/laptop/time/mcp", headers, CALL)
            assert (response.status == 201) is is_good and (response.status == 403) is not is_good
            await response.read(MIB)
            try:
                await relay.peers.upgrade(CLIENT, relay.phone, [(b"Origin", origin.encode())])
                assert is_good
            except Refused as refused:
                assert refused.status == 403 and not is_good


# What is told to whom -------------------------------------------------------------------------------

LABELS = re.compile(r'([a-z_]+)="([^"]*)"')
PLAIN = re.compile("[a-z0-9_]+")


async def test_metrics_name_nobody_and_are_on_their_own_door(relay: Running) -> None:
    agent = await relay.laptop()
    client = await relay.peers.client(relay.phone)
    for _ in range(3):
        await client.call("laptop/time", CALL).over()
    with pytest.raises(Refused):
        await relay.peers.upgrade(AGENT, NOBODYS)
    assert relay.options.metrics_listen is not None
    status, page = await relay.page("/metrics", relay.options.metrics_listen[1])
    text = page.decode()
    assert status == 200
    assert 'mooring_relay_links{kind="agent",state="connected"} 1' in text
    assert 'mooring_relay_calls_total{outcome="passed_on"} 3' in text
    assert 'mooring_relay_upgrades_total{kind="agent",outcome="bad_token"} 1' in text
    welcome = client.welcome
    assert welcome is not None and agent.agent.welcome is not None
    secrets = [relay.laptops, relay.phone, welcome.link, agent.agent.welcome.link, client.instance]
    ids = [token.split("_")[1] for token in (relay.laptops, relay.phone)]
    for word in (*secrets, *ids, "laptop", "phone", "127.0.0.1", "localhost", "time/", str(relay.port)):
        assert word not in text, word
    for line in text.splitlines():
        for label, value in LABELS.findall(line):
            assert PLAIN.fullmatch(value) or (label, value) == ("version", __version__), line
    # By the public door they are not to be had, with a token or without.
    assert (await relay.page("/metrics"))[0] == 401
    response = await relay.client().request("GET", "/metrics", bearer(relay.phone))
    assert response.status == 404
    await response.read(MIB)


@pytest.mark.parametrize("target", ["/status", "/restart", "/metrics", "/", "/v1", "/v1/other", "/laptop"])
async def test_what_is_for_its_owner_is_not_at_the_public_door(relay: Running, target: str) -> None:
    for method in ("GET", "POST"):
        response = await relay.client().request(method, target, bearer(relay.phone))
        assert response.status == 404
        await response.read(MIB)
    assert relay.task is not None and not relay.task.done()


async def test_counts_are_there_before_anything_happened(relay: Running) -> None:
    for sample in (
        'upgrades_total{kind="client",outcome="name_held"}',
        'calls_total{outcome="bad_request"}',
        'links_lost_total{kind="agent"}',
        "agents_replaced_total",
        'links_closed_total{kind="agent",code="1009"}',
        "bad_envelopes_total",
        "stray_envelopes_total",
        "slowed_total",
    ):
        assert await metric(relay, sample) == 0


async def test_health_is_for_everybody_and_says_little(relay: Running) -> None:
    await relay.laptop()
    status, body = await relay.page("/healthz")
    assert status == 200 and len(body) <= 200
    assert json.loads(body) == {"status": "ok", "version": __version__, "agents": 1, "clients": 0}
    status, body = await relay.page("/readyz")
    assert status == 200 and json.loads(body) == {"state": "ready", "calls_in_flight": 0}
    async with within(60), dialled(relay.port) as peer:
        for _ in range(UPGRADES.burst + 20):  # never limited: whoever watches comes often
            answer = await peer.get("/healthz", "Host-Of: anything\r\n")
            assert answer.status == 200 and answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_plain_text_for_everybody_opens_nothing(tmp_path: Path, host: str) -> None:
    port = free_port()
    options = RelayOptions(state=tmp_path / "state", insecure_listen=(host, port))
    with pytest.raises(UserError) as caught:
        await relaying.run(options, Stop(lambda: 0.0))
    assert caught.value.code == "relay_plaintext" and not await answers(port)


async def test_metrics_for_everybody_open_nothing(tmp_path: Path) -> None:
    port = free_port()
    options = RelayOptions(
        state=tmp_path / "state", insecure_listen=("127.0.0.1", port), metrics_listen=("0.0.0.0", free_port())
    )
    with pytest.raises(UserError) as caught:
        await relaying.run(options, Stop(lambda: 0.0))
    assert caught.value.code == "relay_metrics_public" and not await answers(port)


async def test_refusals_repeat_nothing_that_was_sent(relay: Running) -> None:
    """Neither in an answer nor in the goodbye: what a stranger wrote is not for others to read."""
    marker = "<b>tell-nobody</b>"
    response = await relay.client().request(
        "POST", f"/laptop/{'x' * 30}/mcp?{marker}", bearer(relay.phone), b"tell-nobody"
    )
    assert b"tell-nobody" not in await response.read(MIB)
    end = await relay.peers.upgrade(CLIENT)
    with pytest.raises(ConnectionError) as caught:
        await end.hello(token=marker)
    assert marker not in caught.value.args[1]
    end = await relay.peers.upgrade(AGENT, relay.laptops)
    with pytest.raises(ConnectionError) as caught:
        await end.hello(servers=[marker])
    assert caught.value.args[0] == 4403 and "tell-nobody" not in caught.value.args[1]
    end = await relay.peers.client(relay.phone)
    reset = (await end.call(marker, CALL).over()).reset
    assert reset is not None and "tell-nobody" not in reset.message
