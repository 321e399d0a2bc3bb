"""Agents and clients that come to a relay: how they are greeted and refused, and what clients get there."""

import asyncio
import contextlib
import json
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.http.client import Client
from mooring.http.websocket_client import Refused
from mooring.relay.callers import HttpCaller
from mooring.relay.envelope import (
    HEAD_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_WORDS_BYTES,
    MORE,
    Kind,
    encode,
    write_json,
    write_number,
)
from mooring.relay.policy import RelayPolicy
from mooring.relay.token_book import TokenBook
from mooring.relay.token_file import Wanted
from mooring.relay.words import MAX_RESET_CHARACTERS, WINDOW_BYTES, Head, Opening, Reset
from tests.http_client import Peer
from tests.relay.harness import Connected, Harness, bearer, harness
from tests.relay.peers import AGENT, CLIENT, Heard, Peers, peers_of
from tests.relay.test_calls import MIB, Server
from tests.relay.wire import wire_to
from tests.support import until, within
from tests.websocket_client import BINARY, CONT, TEXT, frame, opened, read_frame

pytestmark = pytest.mark.usefixtures("no_secret_in_logs")

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"tell-nobody"}}'
DOORS = pytest.mark.parametrize("door", [AGENT, CLIENT])
NOBODYS = "mrt_aaaaaaaaaaaa_" + "A" * 43


class Street:
    """A relay with an agent `laptop` (servers `time` and `notes`), and everybody who comes to it."""

    def __init__(self, relay: Harness, server: Server, agent: Connected, peers: Peers) -> None:
        self.relay = relay
        self.server = server
        self.agent = agent
        self.peers = peers
        self.phone = relay.token("phone", calls="laptop/*")
        self.desk = relay.token("desk", "time,notes")

    def count(self, name: str, *values: str) -> int:
        return self.relay.relay.counters.find(name, *values).value

    async def ask(self, client: Client, target: str = "/laptop/time/mcp", body: bytes = CALL) -> Any:
        response = await client.request("POST", target, bearer(self.phone), body)
        return response.status, json.loads(await response.read(MIB))


@contextlib.asynccontextmanager
async def street_of(folder: Path, **policy: Any) -> AsyncIterator[Street]:
    bounds = {"hold_s": 1.0, "grace_s": 3.0, "probe_s": 0.3} | policy
    async with harness(folder, RelayPolicy(**bounds)) as relay, peers_of(relay.port) as peers:
        server = Server()
        port = await relay.serve(server)
        agent = await relay.connect(relay.token("laptop", "time,notes"), port, "time,notes")
        yield Street(relay, server, agent, peers)
        await peers.aclose()


@pytest.fixture
async def street(tmp_path: Path) -> AsyncIterator[Street]:
    async with street_of(tmp_path) as made:
        yield made


@contextlib.asynccontextmanager
async def raw_peer(port: int) -> AsyncIterator[Peer]:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield peer
    finally:
        await peer.aclose()


# Before the upgrade ---------------------------------------------------------------------------


@DOORS
@pytest.mark.parametrize(
    "authorization",
    [
        b"Bearer nonsense",
        b"Bearer " + NOBODYS.encode(),
        b"Basic " + NOBODYS.encode(),
        b"Bearer",
        b"",
        b"\xff",
    ],
)
async def test_a_bad_token_is_refused_before_anything_is_agreed(
    street: Street, door: str, authorization: bytes
) -> None:
    with pytest.raises(Refused) as caught:
        await street.peers.upgrade(door, extra=[(b"Authorization", authorization)])
    assert caught.value.status == 401 and b"Bearer" in (caught.value.header(b"www-authenticate") or b"")
    assert json.loads(caught.value.body)["error"]["code"] == "unauthorized"
    assert street.count("upgrades_total", "agent" if door == AGENT else "client", "bad_token") == 1


@DOORS
async def test_two_tokens_are_none(street: Street, door: str) -> None:
    with pytest.raises(Refused) as caught:
        await street.peers.upgrade(
            door, street.phone, [(b"Authorization", b"Bearer " + street.desk.encode())]
        )
    assert caught.value.status == 401


@DOORS
async def test_what_is_no_upgrade_is_told_what_it_should_be(street: Street, door: str) -> None:
    for method, status in (("GET", 426), ("POST", 426)):
        response = await street.relay.client().request(method, door, bearer(street.desk))
        assert response.status == status
        await response.read(MIB)


async def test_another_subprotocol_is_refused_and_none_at_all_is_not(street: Street) -> None:
    authorization = f"Authorization: Bearer {street.desk}\r\n"
    async with within(), raw_peer(street.relay.port) as peer:
        answer = await opened(peer, AGENT, authorization)
        assert "sec-websocket-protocol" not in answer.headers
    async with within(), raw_peer(street.relay.port) as peer:
        extra = authorization + "Sec-WebSocket-Protocol: mooring-relay-1, other\r\n"
        assert (await opened(peer, AGENT, extra)).headers["sec-websocket-protocol"] == "mooring-relay-1"
    async with within(), raw_peer(street.relay.port) as peer:
        with pytest.raises(AssertionError, match="status=400"):
            await opened(peer, AGENT, authorization + "Sec-WebSocket-Protocol: mooring-relay-2\r\n")


# The hello ------------------------------------------------------------------------------------


async def test_an_agent_is_welcome(street: Street) -> None:
    end = await street.peers.agent(street.desk, "time")
    welcome = end.welcome
    assert welcome is not None
    assert (welcome.version, welcome.name, welcome.servers) == (1, "desk", ("time",))
    assert welcome.url == f"http://127.0.0.1:{street.relay.port}/desk"
    assert (welcome.resumed, welcome.grace_ms, welcome.window) == (False, 3000, WINDOW_BYTES)
    assert len(welcome.link) >= 20
    assert street.count("upgrades_total", "agent", "accepted") == 2, "the laptop's, and this"


async def test_a_client_is_welcome(street: Street) -> None:
    end = await street.peers.client(street.phone, servers=["laptop/time"])
    welcome = end.welcome
    assert welcome is not None
    assert (welcome.version, welcome.name, welcome.servers, welcome.url) == (1, "phone", (), "")
    assert street.count("upgrades_total", "client", "accepted") == 1


@DOORS
async def test_a_token_may_come_with_the_hello(street: Street, door: str) -> None:
    token = street.desk if door == AGENT else street.phone
    end = await street.peers.upgrade(door)
    welcome = await end.hello(token=token, servers=["time"] if door == AGENT else [])
    assert welcome.name == ("desk" if door == AGENT else "phone")


@DOORS
@pytest.mark.parametrize("token", ["", "nonsense", NOBODYS, "ü" * 60])
async def test_a_bad_token_in_the_hello(street: Street, door: str, token: str) -> None:
    end = await street.peers.upgrade(door)
    with pytest.raises(ConnectionError) as caught:
        await end.hello(token=token, servers=["time"])
    assert caught.value.args == (4401, "the token is not valid here")
    assert street.count("upgrades_total", "agent" if door == AGENT else "client", "bad_token") == 1


async def test_a_token_that_is_revoked_ends_agents_and_clients_at_once(
    street: Street, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mooring.relay")
    agent = await street.peers.agent(street.desk)
    client = await street.peers.client(street.phone)
    calling = client.call("laptop/time", CALL, query="hold")
    await until(lambda: street.server.held)
    street.relay.tokens.revoke("desk")
    street.relay.tokens.revoke("phone")
    for end in (agent, client):
        code, reason = await end.gone()
        assert code == 4401 and "revoked" in reason
    assert {keeper.name for keeper in street.relay.relay.registry.snapshot()} == {"laptop"}
    assert "the token desk was revoked" in caplog.messages
    assert "agent desk has gone: the token was revoked, changed or has expired" in caplog.messages
    await until(lambda: street.server.left == 1)
    assert (await calling.over()).reset is not None
    with pytest.raises(Refused) as caught:
        await street.peers.upgrade(CLIENT, street.phone)
    assert caught.value.status == 401


async def test_a_token_that_is_used_and_revoked_before_the_tokens_are_read_again(
    street: Street, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has just made it uses it in the next moment: while the others of the file are being read."""
    caplog.set_level("INFO", "mooring.relay")
    begun, go_on, reload = asyncio.Event(), threading.Event(), TokenBook.reload
    loop = asyncio.get_running_loop()

    def late(book: TokenBook) -> dict[str, str]:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(20)
        return reload(book)

    tokens = street.relay.tokens
    with monkeypatch.context() as patched:
        patched.setattr(TokenBook, "reload", late)
        tokens.revoke("desk")
        async with within():
            await begun.wait()
        [guest] = tokens.create(Wanted(name="guest", calls=("laptop/*",)))
        client = await street.peers.client(guest.text)
        tokens.revoke("guest")
        go_on.set()
        assert (await client.gone())[0] == 4401
    assert {"the token desk was revoked", "the token guest was revoked"} <= {*caplog.messages}
    assert await street.ask(street.relay.client()), "the relay has not ended"
    assert not street.relay._beat.done()


async def test_versions_are_negotiated(street: Street) -> None:
    for versions in ([1], [1, 2], [99, 1, 3]):
        end = await street.peers.agent(street.desk, versions=versions, instance="one")
        assert end.welcome is not None and end.welcome.version == 1
        end.socket.abort()


@DOORS
@pytest.mark.parametrize("versions", [[2], [], [0], [-1, 2]])
async def test_no_version_in_common(street: Street, door: str, versions: list[int]) -> None:
    token = street.desk if door == AGENT else street.phone
    code, reason = await street.peers.refused(door, token, versions=versions)
    assert code == 1002 and "version 1 " in reason


@DOORS
async def test_unknown_fields_are_ignored(street: Street, door: str) -> None:
    token = street.desk if door == AGENT else street.phone
    end = await street.peers.dial(door, token, colour="blue", nested={"a": [1, None]}, servers=[])
    assert end.welcome is not None


@DOORS
@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"x",
        b"\x00" * 17,
        b"\xff" * 18,
        b"GET / HTTP/1.1\r\n\r\n",
        encode(Kind.HELLO),
        encode(Kind.HELLO, payload=b"{"),
        encode(Kind.HELLO, payload=b"[]"),
        encode(Kind.HELLO, payload=b"\xff\xfe"),
        encode(Kind.HELLO, payload=b'{"versions":"1"}'),
        encode(Kind.HELLO, payload=b'{"instance":7}'),
        encode(Kind.HELLO, payload=b"[" * 50_000),
        encode(Kind.HELLO, payload=b'{"instance":""}'),
        encode(Kind.HELLO, payload=b'{"instance":"%b"}' % (b"a" * 129)),
        encode(Kind.HELLO, payload=b'{"instance":"a","window":1023}'),
        encode(Kind.HELLO, payload=b'{"instance":"a","window":-1}'),
        encode(Kind.HELLO, payload=b'{"instance":"a","window":67108865}'),
        encode(Kind.HELLO, payload=b'{"instance":"a","received":-1}'),
        encode(Kind.HELLO, payload=b'{"instance":"a"}') * 2,
        encode(Kind.HELLO, payload=b'{"instance":"a"}')[:-1],
        encode(Kind.HELLO, payload=b'{"instance":"a"}') + b"x",
        encode(Kind.WELCOME, payload=b'{"version":1,"link":"a","name":"b"}'),
        encode(Kind.PING, payload=b"12345678"),
        encode(Kind.OPEN, 1, b"{}", sequence=1),
        encode(200, payload=b"{}"),
    ],
)
async def test_what_is_no_hello(street: Street, door: str, message: bytes) -> None:
    end = await street.peers.upgrade(door, street.desk if door == AGENT else street.phone)
    end.say(message)
    code, reason = await end.gone()
    assert code == 1002 and reason
    assert street.count("upgrades_total", "agent" if door == AGENT else "client", "protocol_error") == 1
    assert len(street.relay.relay.registry.snapshot()) == 1


@DOORS
async def test_text_is_not_understood(street: Street, door: str) -> None:
    token = street.desk if door == AGENT else street.phone
    async with within(), raw_peer(street.relay.port) as peer:
        await opened(peer, door, f"Authorization: Bearer {token}\r\n")
        peer.send(frame(TEXT, b'{"instance":"a"}'))
        assert (await read_frame(peer.reader)).code == 1003


@DOORS
@pytest.mark.parametrize("pieces", [1, 4])
async def test_a_message_over_256_kib_is_too_large(street: Street, door: str, pieces: int) -> None:
    token = street.desk if door == AGENT else street.phone
    data = encode(99, payload=b"x" * (MAX_MESSAGE_BYTES + 1 - 18))
    assert len(data) == MAX_MESSAGE_BYTES + 1
    async with within(), raw_peer(street.relay.port) as peer:
        await opened(peer, door, f"Authorization: Bearer {token}\r\n")
        size = len(data) // pieces + 1
        for start in range(0, len(data), size):
            is_last = start + size >= len(data)
            peer.send(frame(CONT if start else BINARY, data[start : start + size], fin=is_last))
        assert (await read_frame(peer.reader)).code == 1009


async def test_a_message_of_256_kib_is_not(street: Street) -> None:
    end = await street.peers.client(street.phone)
    end.say(encode(9, payload=b"x" * (MAX_MESSAGE_BYTES - 18)))
    assert (await end.call("laptop/time", CALL).over()).head is not None
    end.say(encode(9, payload=b"x" * (MAX_MESSAGE_BYTES - 17)))
    assert (await end.gone())[0] == 1009
    assert street.agent.agent.is_connected, "that one only"


@DOORS
async def test_who_says_no_hello_does_not_stay(tmp_path: Path, door: str) -> None:
    async with street_of(tmp_path, hello_s=0.2) as street:
        token = street.desk if door == AGENT else street.phone
        end = await street.peers.upgrade(door, token)
        assert await end.gone() == (1002, "no hello came")
        with pytest.raises(ConnectionError):
            await end.hello()
        await until(lambda: street.relay.listener.connections == 1)
        assert street.relay.relay._welcoming.sockets == []


@DOORS
async def test_a_hello_that_trickles_in_has_no_more_time(tmp_path: Path, door: str) -> None:
    async with street_of(tmp_path, hello_s=0.3) as street, within(), raw_peer(street.relay.port) as peer:
        token = street.desk if door == AGENT else street.phone
        await opened(peer, door, f"Authorization: Bearer {token}\r\n")
        hello = frame(BINARY, encode(Kind.HELLO, payload=b'{"instance":"a"}' + b" " * 10_000))
        reading = asyncio.create_task(read_frame(peer.reader))
        for at in range(len(hello)):
            peer.send(hello[at : at + 1])
            await asyncio.sleep(0.01)
            if reading.done():
                break
        assert (await reading).code == 1002


async def test_who_goes_before_a_hello_leaves_nothing(street: Street) -> None:
    for _ in range(20):
        end = await street.peers.upgrade(AGENT, street.desk)
        end.socket.abort()
    await until(lambda: street.count("upgrades_total", "agent", "left") == 20)
    assert street.relay.relay._welcoming.sockets == []


@DOORS
async def test_two_hellos_in_one_breath(street: Street, door: str) -> None:
    """Of a client the second one ends it; what an agent says too much is left out, or refused with it."""
    token = street.desk if door == AGENT else street.phone
    async with within(), raw_peer(street.relay.port) as peer:
        await opened(peer, door, f"Authorization: Bearer {token}\r\n")
        hello = frame(BINARY, encode(Kind.HELLO, payload=b'{"instance":"a"}'))
        peer.send(hello + hello)
        got = await read_frame(peer.reader)
        if got.opcode == BINARY:  # the welcome
            got = await read_frame(peer.reader)
        assert got.code == 1002


async def test_a_second_hello_later_ends_a_client(street: Street) -> None:
    client = await street.peers.client(street.phone)
    client.say(encode(Kind.HELLO, payload=write_json({"instance": client.instance})))
    assert await client.gone() == (1002, "said twice, or by the wrong end")


async def test_a_second_hello_later_is_left_out_of_an_agents_words(street: Street) -> None:
    agent = await street.peers.agent(street.desk)
    agent.say(encode(Kind.HELLO, payload=write_json({"instance": agent.instance})))
    agent.say(encode(Kind.PING, payload=b"still"))
    await until(lambda: agent.word(Kind.PONG))
    assert street.relay.relay.registry.agent("desk").link.bad == 1  # type: ignore[union-attr]


# Who may do what ------------------------------------------------------------------------------


async def test_an_agent_offers_what_its_token_allows(street: Street) -> None:
    peers = street.peers
    assert await peers.refused(AGENT, street.phone) == (4403, "this token may call, but not connect")
    assert await peers.refused(AGENT, street.desk, servers=["time", "other"]) == (
        4403,
        "this token may not offer other",
    )
    code, reason = await peers.refused(AGENT, street.desk, servers=["<script>"])
    assert code == 4403 and "script" not in reason
    assert (await peers.refused(AGENT, street.desk, servers=["*"]))[0] == 4403
    assert (await peers.refused(AGENT, street.desk, servers=["other"], willing=True))[0] == 4403
    end = await peers.agent(street.desk, "other,notes", willing=True)
    assert end.welcome is not None and end.welcome.servers == ("notes",)
    assert street.count("upgrades_total", "agent", "not_allowed") == 5


async def test_a_client_asks_for_what_its_token_allows_and_there_is(street: Street) -> None:
    peers = street.peers
    street.relay.relay._began = float("-inf")  # whoever was on the way to a new relay has come
    refused = await peers.refused(CLIENT, street.phone, servers=["desk/time"])
    assert refused == (4403, "this token may not call desk/time")
    assert (await peers.refused(CLIENT, street.phone, servers=["laptop"]))[0] == 4403
    assert (await peers.refused(CLIENT, street.phone, servers=["laptop/../x"]))[0] == 4403
    assert (await peers.refused(CLIENT, street.phone, servers=["laptop/other"]))[0] == 4404
    assert (await peers.refused(CLIENT, street.desk, servers=["desk/time"]))[0] == 4404, "not connected"
    await peers.agent(street.desk, "time")
    await peers.client(street.desk, servers=["desk/time"])
    assert street.count("upgrades_total", "client", "not_allowed") == 3
    assert street.count("upgrades_total", "client", "no_such_server") == 2


async def test_too_many_of_a_kind(tmp_path: Path) -> None:
    async with street_of(tmp_path, max_agents=2, max_clients=1, max_servers_per_agent=2) as street:
        peers, third = street.peers, street.relay.token("third", "*")
        assert (await peers.refused(AGENT, third, servers=["a", "b", "c"]))[0] == 4429
        assert (await peers.refused(CLIENT, third, servers=["a/b", "a/c", "a/d"]))[0] == 4429
        desk = await peers.agent(street.desk)
        assert await peers.refused(AGENT, third, servers=["a"]) == (4429, "too many agents are connected")
        phone = await peers.client(street.phone)
        assert await peers.refused(CLIENT, third) == (4429, "too many clients are connected")
        # Who is there already takes no further place.
        desk.socket.abort()
        phone.socket.abort()
        again = await peers.agent(street.desk, again=desk)
        assert again.welcome is not None and again.welcome.resumed
        assert (await peers.client(street.phone, again=phone)).welcome.resumed  # type: ignore[union-attr]
        assert street.count("upgrades_total", "agent", "too_many") == 2


async def test_too_many_at_the_same_moment(tmp_path: Path) -> None:
    """Besides the laptop there is room for one."""
    async with street_of(tmp_path, max_agents=2) as street:
        tokens = [street.relay.token(f"desk-{number}", "time") for number in range(6)]
        ends = [await street.peers.upgrade(AGENT, token) for token in tokens]
        arriving = [end.hello(servers=["time"]) for end in ends]
        results = await asyncio.gather(*arriving, return_exceptions=True)
        refused = [one.args for one in results if isinstance(one, ConnectionError)]
        assert refused == [(4429, "too many agents are connected")] * 5
        assert street.relay.relay.registry.counts == (2, 0)


async def test_what_was_read_together_is_paid_for_together(street: Street) -> None:
    """Nothing more is read before the longest of the rests is over."""
    client = await street.peers.client(street.phone)
    [keeper] = [one for one in street.relay.relay.registry.snapshot() if one.kind == "client"]
    assert keeper.carrier is not None
    loop, happened, rests_s = asyncio.get_running_loop(), list[str](), [0.05, 0.3]

    def measure(count: int) -> float:
        happened.append("a message was read")
        if len(happened) == 2:
            loop.call_later(0.2, happened.append, "the shorter rest is over")
        return rests_s.pop(0) if rests_s else 0.0

    keeper.carrier._measure = measure
    for mark in (b"1", b"2"):
        client.socket.send(encode(Kind.PING, payload=mark))
    await until(lambda: len(happened) == 2)
    client.socket.send(encode(Kind.PING, payload=b"3"))
    await until(lambda: len(happened) == 4)
    assert happened[2:] == ["the shorter rest is over", "a message was read"]


# What is said wrong later ---------------------------------------------------------------------

OPENING = write_json({"server": "laptop/time", "method": "POST", "path": "mcp"})
BAD = {
    "no envelope": b"x",
    "longer than its message": encode(Kind.DATA, 1, b"xyz", sequence=1)[:-1],
    "no sequence": encode(Kind.OPEN, 1, OPENING),
    "a gap": encode(Kind.OPEN, 1, OPENING, sequence=9),
    "an opening of nothing": encode(Kind.OPEN, 0, OPENING, sequence=1),
    "an opening that is not JSON": encode(Kind.OPEN, 1, b"{", sequence=1),
    "an opening of other things": encode(Kind.OPEN, 1, b'{"server":7}', sequence=1),
    "a number that is none": encode(Kind.ACK, payload=b"1"),
    "a welcome": encode(Kind.WELCOME, payload=b"{}"),
    "a head from the end that asks": encode(Kind.OPEN, 1, OPENING, sequence=1)
    + encode(Kind.HEAD, 1, b'{"status":200}', sequence=2),
    "opened twice": encode(Kind.OPEN, 1, OPENING, sequence=1) + encode(Kind.OPEN, 1, OPENING, sequence=2),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
async def test_a_bad_frame_of_a_client_ends_that_client_only(street: Street, bad: bytes) -> None:
    good = await street.peers.client(street.phone)
    kept = good.call("laptop/time", CALL, query="hold")
    await until(lambda: len(street.server.held) == 1)
    culprit = await street.peers.client(street.phone)
    culprit.say(bad)
    code, reason = await culprit.gone()
    assert code == 1002 and reason
    # It is over for good, with all that it had opened: nobody waits for its return.
    await until(lambda: len(street.relay.relay.registry.snapshot()) == 2)
    await until(lambda: len(street.relay.relay.registry.agent("laptop").link.streams) == 1)  # type: ignore[union-attr]
    assert not kept.is_over and good.closed is None
    assert (await good.call("laptop/time", CALL).over()).head is not None
    street.server.held[0].abort()
    assert (await kept.over()).reset is not None


async def test_calls_of_a_client_that_breaks_the_rules_are_ended_at_once(tmp_path: Path) -> None:
    """Not after the time that is given to those who lost their link."""
    async with street_of(tmp_path, hold_s=600.0, grace_s=600.0) as street:
        culprit = await street.peers.client(street.phone)
        culprit.call("laptop/time", CALL, query="hold")
        await until(lambda: street.server.held)
        culprit.say(b"garbage")
        await culprit.gone()
        await until(lambda: street.server.left == 1)
        with pytest.raises(AssertionError):
            assert (await street.peers.client(street.phone, again=culprit)).welcome.resumed  # type: ignore[union-attr]


AGENTS_BAD = {
    **{name: BAD[name] for name in ("no envelope", "longer than its message", "no sequence", "a welcome")},
    "a number that is none": BAD["a number that is none"],
    "a hello": encode(Kind.HELLO, payload=b"{}"),
    "a goodbye of other things": encode(Kind.GOODBYE, payload=b'{"reason":7}'),
    "random": bytes(range(256)),
}


@pytest.mark.parametrize("bad", AGENTS_BAD.values(), ids=AGENTS_BAD.keys())
async def test_a_bad_envelope_of_an_agent_is_dropped_and_counted(street: Street, bad: bytes) -> None:
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    client = street.relay.client()
    asking = asyncio.create_task(client.request("POST", "/desk/time/mcp", bearer(caller), CALL))
    await until(lambda: agent.opened and agent.opened[0][2].is_ended)
    agent.say(bad)
    stream, opening, heard = agent.opened[0]
    assert (opening.server, opening.caller, bytes(heard.data)) == ("time", "all", CALL)
    stream.head(Head(200, [("content-length", "4")]))
    stream.send(b"fine")
    stream.end()
    response = await asking
    assert (response.status, await response.read(MIB)) == (200, b"fine")
    keeper = street.relay.relay.registry.agent("desk")
    assert keeper is not None and keeper.link.bad == 1 and agent.closed is None
    await until(lambda: street.count("bad_envelopes_total") == 1)  # while it is there
    agent.link.say(Kind.GOODBYE, write_json({}))
    await agent.gone()
    assert street.count("bad_envelopes_total") == 1


@pytest.mark.parametrize("sequence", [5, 2**64 - 1])
async def test_a_gap_in_an_agents_sequence_ends_the_socket_and_it_may_come_back(
    street: Street, sequence: int
) -> None:
    """With that number taken for the last one, nothing that it says would be the next for ever."""
    agent = await street.peers.agent(street.desk)
    client = await street.peers.client(street.relay.token("all", calls="*"))
    call = client.call("desk/time", CALL)
    await until(lambda: agent.opened)
    agent.say(encode(Kind.DATA, 1, b"abc", sequence=sequence))
    assert (await agent.gone())[0] == 1011
    await call.over()
    assert call.reset is not None and call.reset.reason == "link_damaged"
    await street.peers.agent(street.desk, again=agent)
    assert agent.welcome is not None and agent.welcome.resumed
    call = client.call("desk/time", CALL)
    await until(lambda: len(agent.opened) == 2)
    agent.opened[1][0].head(Head(200))
    agent.opened[1][0].end()
    assert (await call.over()).is_ended


async def test_what_an_agent_says_about_a_call_that_cannot_be_understood_is_counted(street: Street) -> None:
    """With a good sequence: what comes after it is understood."""
    agent = await street.peers.agent(street.desk)
    keeper = street.relay.relay.registry.agent("desk")
    assert keeper is not None
    sequence = 0
    for bad in (
        encode(Kind.OPEN, 1, OPENING, sequence=1),
        encode(Kind.HEAD, 77, b"{", sequence=2),
        encode(Kind.DATA, 77, b"x", sequence=3),
        encode(99, 77, b"of a newer version", sequence=4),
    ):
        sequence += 1
        agent.say(bad)
    await until(lambda: keeper.link.received == sequence)
    assert (keeper.link.bad, keeper.link.stray) == (1, 3), "agents open nothing; the rest is for nobody"
    assert agent.closed is None


async def test_unknown_kinds_and_flags_mean_nothing(street: Street) -> None:
    end = await street.peers.client(street.phone)
    call = end.open("laptop/time")
    assert call.stream is not None
    await until(lambda: end.link.has_nothing_to_send)
    sent = end.link._sent
    end.say(encode(13, payload=b"?"), encode(Kind.PING, payload=b"a", flags=0x80))
    end.link._sent = sent + 3
    end.say(
        encode(77, call.stream.id, b"?", sequence=sent + 1),
        encode(Kind.DATA, call.stream.id, CALL[:9], sequence=sent + 2, flags=0xF0 | MORE),
        encode(Kind.DATA, call.stream.id, CALL[9:], sequence=sent + 3, flags=0xF0),
    )
    call.stream.end()
    await call.over()
    assert json.loads(call.data)["body"].encode() == CALL
    assert end.word(Kind.PONG) is not None


# One caller's trouble is no other's -------------------------------------------------------------


async def test_a_failed_send_to_one_caller_never_ends_the_agents_loop(street: Street) -> None:
    """Callers that have gone while their answers come: reset, half closed, or not reading at all."""
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    head = f"Authorization: Bearer {caller}\r\nHost: localhost\r\n"
    async with contextlib.AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(raw_peer(street.relay.port)) for _ in range(20)]
        for peer in callers:
            peer.send(f"GET /desk/time/mcp HTTP/1.1\r\n{head}\r\n".encode())
        await until(lambda: len(agent.opened) == 20)
        for stream, _, _ in agent.opened:
            stream.head(Head(200, [("content-type", "text/event-stream")]))
        for number, peer in enumerate(callers):
            if number % 2:
                peer.reset()
        for _ in range(10):
            for stream, _, _ in agent.opened:
                stream.send(b"data: 1\n\n")
            await asyncio.sleep(0.005)
        await until(lambda: sum(heard.reset is not None for _, _, heard in agent.opened) == 10)
        for stream, _, heard in agent.opened:
            if heard.reset is None:
                stream.end()
        for peer in callers[::2]:
            async with within():
                answer = await peer.answer()
            assert answer.body == b"data: 1\n\n" * 10
    assert agent.closed is None and street.relay.relay.calls_in_flight == 0


async def test_a_caller_whose_answer_fails_inside_the_relay_is_told_and_others_go_on(
    street: Street, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = HttpCaller.on_data

    def fail_once(self: HttpCaller, data: bytes, more: bool) -> None:
        if data == b"odd":
            raise RuntimeError("as nobody expects it")
        told(self, data, more)

    monkeypatch.setattr(HttpCaller, "on_data", fail_once)
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    clients = [street.relay.client() for _ in range(2)]
    asking = [
        asyncio.create_task(client.request("POST", "/desk/time/mcp", bearer(caller), CALL))
        for client in clients
    ]
    await until(lambda: len(agent.opened) == 2)
    for (stream, _, _), body in zip(agent.opened, (b"odd", b"fine"), strict=True):
        stream.head(Head(200, [("content-length", str(len(body)))]))
        stream.send(body)
        stream.end()
    async with within():
        answers = [await (await one).read(MIB) for one in asking]
    assert answers[1] == b"fine"
    assert json.loads(answers[0])["error"]["data"]["reason"] == "internal_error"
    assert agent.closed is None and street.relay.relay.calls_in_flight == 0
    assert "could not be taken" in caplog.text


async def test_an_agent_that_sends_more_than_there_is_room_for(street: Street) -> None:
    """Its caller, who does not read, is told; the link and its other calls go on."""
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    async with raw_peer(street.relay.port) as slow:
        head = f"Authorization: Bearer {caller}\r\nHost: localhost\r\n"
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        slow.send(f"GET /desk/time/mcp HTTP/1.1\r\n{head}\r\n".encode())
        await until(lambda: agent.opened)
        stream, _, heard = agent.opened[0]
        stream.head(Head(200, [("content-type", "application/octet-stream")]))
        stream._credit = 1 << 40  # it takes no notice of what the relay allows
        for _ in range(400):
            if heard.reset is not None:
                break
            stream.send(b"x" * 65536)
            await asyncio.sleep(0.005)
        assert heard.reset is not None and heard.reset.reason == "flow_control"
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with within():
            with contextlib.suppress(OSError):
                await slow.reader.read(-1)
    await until(lambda: not street.relay.relay.calls_in_flight)
    asking = asyncio.create_task(
        street.relay.client().request("POST", "/desk/time/mcp", bearer(caller), CALL)
    )
    await until(lambda: len(agent.opened) == 2)
    agent.opened[1][0].head(Head(202, [("content-length", "0")]))
    agent.opened[1][0].end()
    assert (await asking).status == 202 and agent.closed is None


async def test_an_agent_that_answers_nonsense(street: Street) -> None:
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    for head in (
        Head(99),
        Head(101),
        Head(600),
        Head(200, [("a\r\nb", "c")]),
        Head(200, [("a", "b\r\nset-cookie: c")]),
        Head(200, [("a", "\u1234")]),
        None,
    ):
        client = street.relay.client()
        asking = asyncio.create_task(client.request("POST", "/desk/time/mcp", bearer(caller), CALL))
        await until(lambda: agent.opened)
        stream, _, _ = agent.opened.pop()
        if head is not None:
            stream.head(head)
        stream.send(b"x")
        stream.end()
        response = await asking
        assert json.loads(await response.read(MIB))["error"]["data"]["reason"] == "bad_answer", head
    assert agent.closed is None


async def test_an_agent_that_ends_a_websocket_before_it_has_begun(street: Street) -> None:
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    async with peers_of(street.relay.port) as peers:
        opening = asyncio.create_task(
            peers._sockets.open(peers._origin, "/desk/time/ws", bearer(caller), subprotocol="mcp")
        )
        await until(lambda: agent.opened)
        agent.opened[0][0].end()
        with pytest.raises(Refused):
            await opening
        await until(lambda: agent.opened[0][2].reset is not None)
        assert not agent.link.streams, "nothing of it is left at either end"
        assert all(not keeper.link.streams for keeper in street.relay.relay.registry.snapshot())


async def test_a_websocket_of_a_server_that_dies_ends_its_callers(street: Street) -> None:
    """Nobody says goodbye there: the caller hears of it in a code that may be sent."""
    async with peers_of(street.relay.port) as peers:
        end = await peers._sockets.open(
            peers._origin, "/laptop/time/ws", bearer(street.phone), subprotocol="mcp"
        )
        closed: list[tuple[int, str]] = []
        end.on_closed = lambda code, reason: closed.append((code, reason))
        await until(lambda: street.agent.answering._talks)
        for socket in tuple(street.agent.answering._sockets._house.upgraded):
            socket.abort()
        await until(lambda: closed)
        assert closed[0][0] == 1011
        await until(lambda: not street.relay.relay.calls_in_flight)


@pytest.mark.parametrize("code", [0, 5, 999, 1005, 1006, 1015, 2999, 5000, 1012, 4999])
async def test_any_code_with_which_an_agent_ends_a_websocket(street: Street, code: int) -> None:
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    async with peers_of(street.relay.port) as peers:
        opening = asyncio.create_task(
            peers._sockets.open(peers._origin, "/desk/time/ws", bearer(caller), subprotocol="mcp")
        )
        await until(lambda: agent.opened)
        stream, asked, _ = agent.opened[0]
        assert asked.websocket and ("sec-websocket-protocol", "mcp") in asked.headers
        stream.head(Head(101, [("sec-websocket-protocol", "mcp")]))
        socket = await opening
        closed: list[tuple[int, str]] = []
        socket.on_closed = lambda code, reason: closed.append((code, reason))
        stream.reset(Reset("closed", "enough", close=code))
        await until(lambda: closed)
        assert closed == [(code if code in (1012, 4999) else 1011, "enough")]
        await until(lambda: not street.relay.relay.calls_in_flight)


# Clients that speak our framing -----------------------------------------------------------------


async def test_a_call_by_framing(street: Street) -> None:
    end = await street.peers.client(street.phone)
    call = await end.call(
        "laptop/time", CALL, query="a=b%20c", headers=[("Mcp-Session-Id", "s1"), ("content-type", "x/y")]
    ).over()
    assert call.head is not None and call.head.status == 201 and call.is_ended
    assert ("mcp-session-id", "abc") in call.head.headers
    seen = json.loads(call.data)
    assert (seen["method"], seen["path"], seen["query"]) == ("POST", "/time/mcp", "a=b%20c")
    assert seen["body"].encode() == CALL
    assert seen["headers"]["x-caller"] == "phone" and seen["headers"]["mcp-session-id"] == "s1"
    assert street.count("calls_total", "passed_on") == 1


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_537, 300_000, 5 * MIB])
async def test_bodies_of_any_size_by_framing(street: Street, size: int) -> None:
    end = await street.peers.client(street.phone)
    call = await end.call("laptop/time", b"y" * size, query=f"large{size}").over()
    assert bytes(call.data) == b"x" * size and call.is_ended
    assert street.server.asked[-1].request.body == b"y" * size


async def test_many_connections_on_one_socket(street: Street) -> None:
    end = await street.peers.client(street.phone)
    calls = [end.call("laptop/time", b"%d" % number) for number in range(200)]
    for number, call in enumerate(calls):
        assert json.loads((await call.over()).data)["body"] == str(number)
    assert street.relay.listener.websockets == 2 and len(street.server.asked) == 200
    keepers = street.relay.relay.registry.snapshot()
    await until(lambda: not any(keeper.link.streams for keeper in keepers))
    assert not end.link.streams


async def test_events_and_websockets_by_framing(street: Street) -> None:
    end = await street.peers.client(street.phone)
    events = end.call("laptop/time", method="GET", query="events")
    await until(lambda: street.server.streams)
    for number in range(3):
        street.server.streams[0].write(b"data: %d\n\n" % number)
        await until(lambda number=number: events.data.endswith(b"data: %d\n\n" % number))  # type: ignore[misc]
    talk = end.open(
        "laptop/notes",
        method="GET",
        path="ws",
        websocket=True,
        headers=[("sec-websocket-protocol", "mcp")],
    )
    assert talk.stream is not None
    large = b"z" * 700_000
    for message in (b"hello", large):
        talk.stream.send(message)
    await until(lambda: len(talk.messages) == 2)
    assert talk.head is not None and talk.head.status == 101
    assert street.server.said == [b"hello", large]
    assert talk.messages == [b"you said hello", b"you said " + large]
    assert events.stream is not None
    events.stream.reset(Reset("enough"))
    await until(lambda: street.server.left == 1)
    talk.stream.end()
    await until(lambda: street.server.closed)


async def test_whom_a_client_says_it_is_means_nothing(street: Street) -> None:
    end = await street.peers.client(street.phone)
    forged = [
        ("mooring-caller", "laptop"),
        ("Mooring-Proof", "x"),
        ("x-forwarded-for", "10.0.0.1"),
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("host", "elsewhere"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("content-length", "3"),
    ]
    call = await end.call("laptop/time", CALL, caller="laptop", headers=forged).over()
    seen = json.loads(call.data)
    assert seen["headers"]["x-caller"] == "phone" and seen["body"].encode() == CALL
    assert not {name.lower() for name, _ in forged} - {"content-length", "host"} & set(seen["headers"])
    assert seen["headers"]["host"] != "elsewhere" and seen["headers"]["content-length"] == str(len(CALL))


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        ({"server": "desk/time"}, "not_allowed"),
        ({"server": "laptop"}, "not_allowed"),
        ({"server": ""}, "not_allowed"),
        ({"server": "laptop/time/x"}, "not_allowed"),
        ({"server": "laptop/*"}, "not_allowed"),
        ({"server": "*/*"}, "not_allowed"),
        ({"server": "laptop/../notes"}, "not_allowed"),
        ({"server": "laptop/other"}, "no_such_server"),
        ({"server": "laptop/time", "path": "admin"}, "no_such_server"),
        ({"server": "laptop/time", "path": "mcp/../../api/v1/servers"}, "no_such_server"),
        ({"server": "laptop/time", "path": ""}, "no_such_server"),
        ({"server": "laptop/time", "method": "PUT"}, "no_such_server"),
        ({"server": "laptop/time", "method": "GET /notes/mcp HTTP/1.1\r\nx: y\r\n\r\nGET"}, "no_such_server"),
    ],
)
async def test_openings_that_are_refused_and_the_link_goes_on(
    street: Street, opening: dict[str, Any], reason: str
) -> None:
    end = await street.peers.client(street.phone)
    call = end.call(body=CALL, **opening)
    assert (await call.over()).reset is not None
    assert call.reset is not None and (call.reset.reason, call.reset.not_executed) == (reason, True)
    assert not street.server.asked and street.count("calls_total", reason) == 1
    assert (await end.call("laptop/time", CALL).over()).head is not None


def filled(words: Any, size: int) -> Any:
    """The same with headers that make it as long as that on the link."""
    words.headers = [("x", "")]
    words.headers = [("x", "y" * (size - len(write_json(words))))]
    assert len(write_json(words)) == size
    return words


async def test_a_head_that_is_too_long_is_refused_and_cuts_off_nobody(street: Street) -> None:
    """As long as the other end would have it, or just a little longer than it may be."""
    client, agent = await street.peers.client(street.phone), await street.peers.agent(street.desk)
    for number, size in enumerate((MAX_WORDS_BYTES + 1, MAX_MESSAGE_BYTES - HEAD_BYTES)):
        opening = filled(Opening("laptop/time", "POST", "mcp"), size)
        heard = Heard()
        heard.stream = client.link.open(opening, heard)
        await heard.over()
        assert heard.reset is not None
        assert (heard.reset.reason, heard.reset.not_executed) == ("too_large", True)
        caller = await street.peers.client(street.relay.token(f"all{number}", calls="*"))
        call = caller.call("desk/time", CALL)
        await until(lambda: agent.opened)
        stream, _, _ = agent.opened.pop()
        stream._put(Kind.HEAD, write_json(filled(Head(200), size)))  # it does not look
        await call.over()
        assert call.reset is not None and call.reset.reason == "bad_answer" and call.head is None
        assert caller.closed is None
    assert (await client.call("laptop/time", CALL).over()).head is not None
    assert client.closed is None and agent.closed is None and street.agent.agent.reconnects == 0


async def test_heads_of_any_length_that_is_allowed_pass(street: Street) -> None:
    agent = await street.peers.agent(street.desk)
    client = await street.peers.client(street.relay.token("all", calls="*"))
    opening = filled(Opening("desk/time", "POST", "mcp"), MAX_WORDS_BYTES - 20)  # the relay adds its caller
    heard = Heard()
    heard.stream = client.link.open(opening, heard)
    await until(lambda: agent.opened)
    stream, _, _ = agent.opened.pop()
    stream.head(filled(Head(200), MAX_WORDS_BYTES))
    await until(lambda: heard.head)
    assert heard.reset is None and client.closed is None and agent.closed is None


async def test_a_reset_without_end_is_told_in_short(street: Street) -> None:
    agent = await street.peers.agent(street.desk)
    client = await street.peers.client(street.relay.token("all", calls="*"))
    call = client.call("desk/time", CALL)
    await until(lambda: agent.opened)
    stream, _, _ = agent.opened.pop()
    words = b'{"reason":"%s","message":"%s","close":%d}' % (b"x" * 100_000, b"y" * 100_000, 1 << 70)
    stream._put(Kind.RESET, words)
    await call.over()
    assert call.reset == Reset("x" * MAX_RESET_CHARACTERS, "y" * MAX_RESET_CHARACTERS)
    assert client.closed is None and agent.closed is None


async def test_an_answer_begins_once(street: Street) -> None:
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    client = await street.peers.client(caller)
    call = client.call("desk/time", CALL)
    await until(lambda: agent.opened)
    stream, _, heard = agent.opened.pop()
    stream.head(Head(200))
    stream.head(Head(200))
    await until(lambda: heard.is_over and call.is_over)
    assert heard.reset is not None and heard.reset.reason == "bad_answer"
    assert call.reset is not None and call.reset.reason == "bad_answer"
    assert client.closed is None and agent.closed is None


async def test_an_agent_that_does_not_read_has_no_queue_without_end(
    street: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of what costs no credit either: the client that sends it is ended."""
    monkeypatch.setattr("mooring.relay.link.MAX_UNREAD_MESSAGES", 100)
    monkeypatch.setattr("mooring.relay.link.MAX_UNACKNOWLEDGED_BYTES", 100_000)
    agent = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    client = await street.peers.client(caller)
    call = client.open("desk/time", method="GET", path="ws", websocket=True)
    await until(lambda: agent.opened)
    keeper = street.relay.relay.registry.agent("desk")
    assert keeper is not None and call.stream is not None
    agent.socket.hold()
    async with within():
        while client.closed is None:
            for _ in range(100):
                call.stream.send(b"")
            await until(lambda: client.closed or client.link.has_nothing_to_send)
            assert sum(len(stream._queue) for stream in keeper.link.streams.values()) < 5000
    assert client.closed[0] == 1002
    agent.socket.go_on()
    await until(lambda: agent.opened[0][2].is_over)
    assert agent.closed is None


HIDDEN = "x HTTP/1.1\r\nHost: a\r\n\r\nPOST /secret/mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
INJECTED: dict[str, dict[str, Any]] = {
    "a request in the query": {"query": HIDDEN},
    "a line end in the query": {"query": "a\nx-injected: 1"},
    "a space in the query": {"query": "a b"},
    "other letters in the query": {"query": "ä"},
    "a field in a field's name": {"headers": [("x: y\r\nx-injected", "1")]},
    "a space in a field's name": {"headers": [("x injected", "1")]},
    "a value in a field's name": {"headers": [("authorization:x", "")]},
    "no name of a field": {"headers": [("", "1")]},
    "a field in a field's value": {"headers": [("x", "y\r\nx-injected: 1")]},
    "a line end in a field's value": {"headers": [("x", "y\nx-injected: 1")]},
    "nothing in a field's value": {"headers": [("x", "\0")]},
    "letters that no field has": {"headers": [("x", "\u1234")]},
}


@pytest.mark.parametrize("is_socket", [False, True])
@pytest.mark.parametrize("opening", INJECTED.values(), ids=INJECTED.keys())
async def test_nothing_of_an_opening_becomes_another_request(
    street: Street, opening: dict[str, Any], is_socket: bool
) -> None:
    """What a client says of a request is put into one at the workstation: it must not say more than one."""
    end = await street.peers.client(street.phone)
    way: dict[str, Any] = {"path": "ws", "method": "GET", "websocket": True} if is_socket else {}
    call = end.call("laptop/time", b"" if is_socket else CALL, **way, **opening)
    await call.over()
    assert call.reset is not None and (call.reset.reason, call.reset.not_executed) == ("bad_request", True)
    assert (await end.call("laptop/time", CALL).over()).head is not None
    assert [exchange.request.path for exchange in street.server.asked] == ["/time/mcp"]
    assert end.closed is None and street.agent.agent.reconnects == 0


FORGED: dict[str, dict[str, Any]] = {
    **INJECTED,
    "a request in the method": {"method": HIDDEN},
    "a field in the caller's name": {"caller": "a\r\nx-injected: 1"},
}


@pytest.mark.parametrize("is_socket", [False, True])
@pytest.mark.parametrize("opening", FORGED.values(), ids=FORGED.keys())
async def test_an_agent_does_not_rely_on_its_relay_for_that(
    street: Street, opening: dict[str, Any], is_socket: bool
) -> None:
    keeper = street.relay.relay.registry.agent("laptop")
    assert keeper is not None
    way: dict[str, Any] = {"path": "ws", "websocket": True} if is_socket else {"path": "mcp"}
    heard = Heard()
    heard.stream = keeper.open(Opening(**({"server": "time", "method": "POST"} | way | opening)), heard)
    heard.stream.end()
    await heard.over()
    assert heard.reset is not None and heard.reset.reason == "bad_request"
    assert not street.server.asked and street.agent.agent.is_connected


async def test_a_client_has_so_many_calls_at_once(tmp_path: Path) -> None:
    async with street_of(tmp_path, max_streams_per_client=3) as street:
        end = await street.peers.client(street.phone)
        held = [end.call("laptop/time", CALL, query="hold") for _ in range(3)]
        await until(lambda: len(street.server.held) == 3)
        over = await end.call("laptop/time", CALL).over()
        assert over.reset is not None and (over.reset.reason, over.reset.not_executed) == ("too_many", True)
        street.server.held[0].abort()
        await until(lambda: any(call.is_over for call in held))
        assert (await end.call("laptop/time", CALL).over()).head is not None


async def test_an_agent_that_is_gone_is_told_to_clients(street: Street) -> None:
    end = await street.peers.client(street.phone)
    call = end.call("laptop/time", CALL, query="hold")
    await until(lambda: street.server.held)
    await street.agent.agent.leave("it sleeps")
    reset = (await call.over()).reset
    assert reset is not None and (reset.reason, reset.not_executed) == ("agent_gone", False)
    late = (await end.call("laptop/time", CALL).over()).reset
    assert late is not None and (late.reason, late.not_executed) == ("agent_absent", True)


# Shares and bounds ------------------------------------------------------------------------------


class Endless(Server):
    """Says as much as anybody takes, on every stream that it was asked for."""

    def __call__(self, exchange: Any) -> None:
        if exchange.request.query != "endless":
            super().__call__(exchange)
            return
        exchange.start(200, [(b"content-type", b"application/octet-stream")])

        def fill() -> None:
            while exchange.writable and not exchange.disconnected:
                exchange.write(b"x" * 32_768)

        exchange.on_writable = fill
        fill()


@contextlib.asynccontextmanager
async def endless(folder: Path) -> AsyncIterator[Street]:
    async with harness(folder, RelayPolicy()) as relay, peers_of(relay.port) as peers:
        server = Endless()
        port = await relay.serve(server)
        agent = await relay.connect(relay.token("laptop", "time"), port)
        yield Street(relay, server, agent, peers)
        await peers.aclose()


async def test_shares_on_one_link_are_equal_and_a_slow_one_holds_up_nobody(tmp_path: Path) -> None:
    async with endless(tmp_path) as street:
        end = await street.peers.client(street.phone)
        quick = [
            end.call("laptop/time", method="GET", query="endless", ear=Heard(keeps=False)) for _ in range(8)
        ]
        slow = end.call("laptop/time", method="GET", query="endless", ear=Heard(takes=False, keeps=False))
        await until(lambda: all(one.head for one in (*quick, slow)))
        await until(lambda: slow.count == WINDOW_BYTES)
        began = [one.count for one in quick]
        await until(lambda: sum(one.count for one in quick) - sum(began) > 24 * MIB, 60)
        shares = [one.count - before for one, before in zip(quick, began, strict=True)]
        assert max(shares) <= 2 * min(shares), shares
        assert slow.count == WINDOW_BYTES, "and not one byte beyond what it said it has room for"
        # It is not forgotten: when it takes, it goes on.
        assert slow.stream is not None
        slow.takes = True
        slow.stream.consumed()
        await until(lambda: slow.count > 2 * WINDOW_BYTES)


async def test_callers_by_http_share_an_agents_link_equally(tmp_path: Path) -> None:
    async with endless(tmp_path) as street:
        counts = [0] * 6

        async def read(number: int) -> None:
            client = street.relay.client()
            response = await client.request("GET", "/laptop/time/mcp?endless", bearer(street.phone))
            async for piece in response:
                counts[number] += len(piece)

        idle = await street.relay.client().request("GET", "/laptop/time/mcp?endless", bearer(street.phone))
        readers = [asyncio.create_task(read(number)) for number in range(6)]
        try:
            await until(lambda: min(counts) > 0)
            began = list(counts)
            await until(lambda: sum(counts) - sum(began) > 24 * MIB, 60)
            shares = [count - before for count, before in zip(counts, began, strict=True)]
            assert max(shares) <= 2 * min(shares), shares
            # The one who does not read: what is kept for it is bounded, wherever it waits.
            [keeper] = street.relay.relay.registry.snapshot()
            assert keeper.link.unacknowledged_bytes < 4 * MIB
            assert street.relay.listener.unsent_bytes < 2 * MIB
        finally:
            idle.close()
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def test_a_client_that_reads_nothing_at_all_costs_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    async with endless(tmp_path) as street:
        end = await street.peers.client(street.phone)
        calls = [end.call("laptop/time", method="GET", query="endless") for _ in range(10)]
        await until(lambda: all(call.head for call in calls))
        end.socket.hold()
        keeper = next(one for one in street.relay.relay.registry.snapshot() if one.kind == "client")

        def queued() -> int:
            return sum(stream.queued_bytes for stream in keeper.link.streams.values())

        def stands() -> bool:
            """The socket takes no more; or its buffers take all that there is credit for."""
            return keeper.carrier is not None and (not keeper.carrier.socket.writable or queued() > 0)

        await until(stands)
        other = await street.peers.client(street.phone)
        for _ in range(50):  # meanwhile others are served
            assert (await other.call("laptop/time", CALL).over()).head is not None
        assert queued() <= 10 * (WINDOW_BYTES + 128 * 1024)
        assert street.relay.listener.unsent_bytes <= MIB
        for call in calls:
            assert call.stream is not None
            call.stream.reset(Reset("enough"))
        end.socket.go_on()


# Clients whose link is lost ---------------------------------------------------------------------


async def test_a_lost_client_goes_on_with_its_calls(street: Street) -> None:
    async with wire_to(street.relay.port) as wire:
        end = await street.peers.client(street.phone, via=wire.port)
        held = [end.call("laptop/time", CALL, query="hold") for _ in range(3)]
        events = end.call("laptop/time", method="GET", query="events")
        await until(lambda: len(street.server.held) == 3 and street.server.streams)
        link = end.welcome.link if end.welcome else ""
        wire.cut()
        await end.gone()
        # Answers that come while nobody hears them, and a call that is made meanwhile.
        street.server.streams[0].write(b"data: 1\n\n")
        for number, exchange in enumerate(street.server.held):
            exchange.start(200, [(b"content-type", b"text/plain")])
            exchange.write(b"%d" % number * 100_000)
            exchange.end()
        late = end.call("laptop/notes", CALL)
        await street.peers.client(street.phone, again=end, via=wire.port)
        assert end.welcome is not None and (end.welcome.resumed, end.welcome.link) == (True, link)
        for number, call in enumerate(held):
            assert bytes((await call.over()).data) == b"%d" % number * 100_000
        assert (await late.over()).head is not None
        await until(lambda: events.data == b"data: 1\n\n")
        assert len(street.server.asked) == 5, "none twice"
        assert street.count("upgrades_total", "client", "resumed") == 1
        await street.peers.aclose()


@pytest.mark.parametrize("kind", ["client", "agent"])
async def test_links_that_are_lost_are_counted(street: Street, kind: str) -> None:
    end = (
        await street.peers.client(street.phone) if kind == "client" else await street.peers.agent(street.desk)
    )
    assert street.count("links_lost_total", kind) == 0
    end.socket.abort()
    await until(lambda: street.count("links_lost_total", kind) == 1)
    again = (
        await street.peers.client(street.phone, again=end)
        if kind == "client"
        else await street.peers.agent(street.desk, again=end)
    )
    again.link.say(Kind.GOODBYE, write_json({}))
    assert (await again.gone())[0] == 1000
    assert street.count("links_lost_total", kind) == 1, "who said goodbye was not lost"


async def test_a_client_comes_back_to_its_link_whoever_of_its_agents_is_away(street: Street) -> None:
    desk = await street.peers.agent(street.desk)
    caller = street.relay.token("all", calls="*")
    end = await street.peers.client(caller, servers=["laptop/time", "desk/time"])
    held = end.call("laptop/time", CALL, query="hold")
    await until(lambda: street.server.held)
    end.socket.abort()
    desk.link.say(Kind.GOODBYE, write_json({}))
    await desk.gone()
    await street.peers.client(caller, again=end, servers=["laptop/time", "desk/time"])
    assert end.welcome is not None and end.welcome.resumed
    street.server.held[0].start(200, [])
    street.server.held[0].end()
    assert (await held.over()).is_ended


@DOORS
async def test_who_acknowledges_nothing_is_not_served_for_ever(
    street: Street, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resets and credit are not held back by what is unacknowledged: their number must have another end."""
    monkeypatch.setattr("mooring.relay.link.MAX_UNACKNOWLEDGED_BYTES", 20_000)
    end = await street.peers.dial(door, street.desk if door == AGENT else street.phone, servers=[])
    assert end.carrier is not None
    end.carrier.drop()  # from now on it reads, and says nothing by itself
    end.socket.on_message = lambda message: None
    end.socket.on_closed = end._on_closed
    keeper = next(one for one in street.relay.relay.registry.snapshot() if one.name != "laptop")
    if door == CLIENT:
        for number in range(1, 1001):
            opening = write_json({"server": "nobody/x", "method": "GET", "path": "mcp"})
            end.say(encode(Kind.OPEN, number, opening, sequence=number))
    else:
        for _ in range(1000):
            keeper.link.urgent(Kind.RESET, 1, write_json({"reason": "x" * 50}))
    code, reason = await end.gone()
    assert (code, reason) == (1011, "nothing is acknowledged") and keeper.is_gone


async def test_a_client_that_does_not_come_back_is_not_waited_for(street: Street) -> None:
    end = await street.peers.client(street.phone)
    end.call("laptop/time", CALL, query="hold")
    events = end.call("laptop/time", method="GET", query="events")
    await until(lambda: street.server.held and street.server.streams)
    end.socket.abort()
    await until(lambda: street.server.left == 1)
    assert len(street.relay.relay.registry.snapshot()) == 2, "its link is kept for longer than its calls"
    await until(lambda: len(street.relay.relay.registry.snapshot()) == 1)
    await until(lambda: street.server.left == 2)
    assert not events.is_over
    await street.peers.client(street.phone, again=end)
    assert end.welcome is not None and not end.welcome.resumed


async def test_a_client_that_remembers_what_never_was(street: Street) -> None:
    """It is told to begin anew; all that it had is over."""
    end = await street.peers.client(street.phone)
    end.call("laptop/time", CALL, query="hold")
    await until(lambda: street.server.held)
    end.socket.abort()
    with pytest.raises(ConnectionError) as caught:
        await street.peers.client(street.phone, again=end, received=10_000_000)
    assert caught.value.args[0] == 1011
    await until(lambda: street.server.left == 1)
    assert len(street.relay.relay.registry.snapshot()) == 1


async def test_a_client_says_goodbye(street: Street) -> None:
    end = await street.peers.client(street.phone)
    end.call("laptop/time", CALL, query="hold")
    await until(lambda: street.server.held)
    end.link.say(Kind.GOODBYE, write_json({"reason": "enough", "more": 1}))
    assert await end.gone() == (1000, "goodbye")
    await until(lambda: street.server.left == 1)
    assert len(street.relay.relay.registry.snapshot()) == 1


async def test_its_own_ghost_is_no_other(street: Street) -> None:
    """The relay believes in the old socket still; whoever comes back goes on all the same."""
    async with wire_to(street.relay.port) as wire:
        end = await street.peers.client(street.phone, via=wire.port)
        call = end.call("laptop/time", CALL, query="hold")
        await until(lambda: street.server.held)
        wire.freeze()
        assert end.carrier is not None
        end.carrier.drop()
        end.link.lose()
        await street.peers.client(street.phone, again=end)
        assert end.welcome is not None and end.welcome.resumed
        street.server.held[0].start(200, [])
        street.server.held[0].end()
        assert (await call.over()).is_ended
        assert len(street.relay.relay.registry.snapshot()) == 2
        await street.peers.aclose()


async def test_pings_are_answered(street: Street) -> None:
    for end in (await street.peers.client(street.phone), await street.peers.agent(street.desk)):
        end.say(encode(Kind.PING, payload=b"0123456789abcdefXXXX"))
        await until(lambda end=end: end.word(Kind.PONG))  # type: ignore[misc]
        pong = end.word(Kind.PONG)
        assert pong is not None and pong.payload == b"0123456789abcdef", "no more than a mark comes back"


async def test_who_has_missed_a_ping_is_measured_again(street: Street) -> None:
    end = await street.peers.agent(street.desk)
    keeper = street.relay.relay.registry.agent("desk")
    assert keeper is not None
    end.is_silent = True
    keeper.measure()
    missed = set(keeper._probes)
    await until(lambda: end.word(Kind.PING))
    async with within():
        while missed & set(keeper._probes):  # as old as a sign may be
            await asyncio.sleep(0.05)
            keeper.measure()
    assert keeper.round_trip_s is None
    end.is_silent = False
    keeper.measure()
    await until(lambda: keeper.round_trip_s is not None)


async def test_an_acknowledgement_of_the_future_is_harmless(street: Street) -> None:
    end = await street.peers.client(street.phone)
    end.say(encode(Kind.ACK, payload=write_number(1 << 60)))
    assert (await end.call("laptop/time", CALL).over()).head is not None
    end.say(encode(Kind.CREDIT, 99, struct.pack(">Q", 1), sequence=end.link._sent + 1))
    assert end.closed is None
