"""Links that are lost: what goes on, what is told, and that nothing is done twice."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.http.websocket_client import ClientSockets
from mooring.relay.envelope import Kind
from mooring.relay.link import Stream
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.relay.words import WINDOW_BYTES, Head, Opening, Reset
from mooring.wire.websocket import WebSocket
from tests.relay.harness import bearer, harness
from tests.relay.peers import CLIENT, End, Heard, Talk, peers_of, talks
from tests.relay.test_calls import CALL, MIB, Place, Server
from tests.relay.wire import Wire, wire_to
from tests.support import until, within


class Far(Place):
    """A place whose agent is behind a wire that can be cut."""

    wire: Wire


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[Far]:
    async with (
        harness(tmp_path, RelayPolicy(hold_s=1.5, grace_s=3.0, probe_s=0.5)) as relay,
        wire_to(relay.port) as wire,
    ):
        server = Server()
        port = await relay.serve(server)
        agent = await relay.connect(relay.token("laptop", "time"), port, via=wire.port)
        place = Far(relay, server, agent, relay.token("phone", calls="laptop/*"), relay.client())
        place.wire = wire
        yield place
        await agent.aclose()


async def told(response: ClientResponse) -> dict[str, object]:
    error: dict[str, object] = json.loads(await response.read(MIB))["error"]["data"]
    return error


async def test_a_call_in_flight_is_answered_after_the_reconnect_and_done_once(far: Far) -> None:
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    far.wire.cut()
    await until(lambda: far.agent.agent.reconnects == 1 and far.agent.agent.is_connected)
    [held] = far.server.held
    held.start(200, [(b"content-type", b"text/plain")])
    held.write(b"done")
    held.end()
    response = await asking
    assert await response.read(MIB) == b"done" and len(far.server.asked) == 1
    assert not far.server.left


async def test_an_answer_that_was_given_while_nobody_could_hear_it_is_not_lost(far: Far) -> None:
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    far.wire.take_down()
    await until(lambda: not far.agent.agent.is_connected)
    [held] = far.server.held
    held.start(200, [(b"content-type", b"text/plain")])
    held.write(b"x" * 50_000)
    held.end()
    await until(lambda: not far.agent.answering.in_flight)
    far.wire.put_up()
    assert await (await asking).read(MIB) == b"x" * 50_000


async def test_a_call_that_comes_while_the_link_is_lost_waits_for_it(far: Far) -> None:
    far.wire.take_down()
    [keeper] = far.relay.relay.registry.snapshot()
    await until(lambda: not keeper.is_attached)
    asking = asyncio.create_task(far.ask())
    await asyncio.sleep(0.2)
    assert not asking.done() and not far.server.asked
    far.wire.put_up()
    assert (await asking).status == 201 and len(far.server.asked) == 1


async def test_who_waited_long_enough_is_told_what_is_known(far: Far) -> None:
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    stream = await far.ask("GET", "/laptop/time/mcp?events", b"")
    far.wire.take_down()
    await until(lambda: not far.agent.agent.is_connected)
    late = asyncio.create_task(far.ask())
    assert await told(await asking) == {"reason": "agent_lost", "retryable": False}
    assert await told(await late) == {"reason": "agent_lost", "retryable": True}
    assert far.relay.relay.calls_in_flight == 1, "a stream that no call waits on is held for the whole grace"
    far.wire.put_up()
    await until(lambda: far.agent.agent.is_connected)
    await until(lambda: far.server.left == 1)
    assert len(far.server.asked) == 2, "what nobody waits for any more is not done"
    far.server.streams[0].write(b"data: 1\n\n")
    assert await anext(stream) == b"data: 1\n\n"
    stream.close()


@contextlib.asynccontextmanager
async def two_sockets(far: Far) -> AsyncIterator[tuple[WebSocket, list[bytes], Heard, Stream]]:
    """A caller's WebSockets, by HTTP and in our framing, and what each hears."""
    heard: list[bytes] = []
    sockets, fields = ClientSockets(), [("sec-websocket-protocol", "mcp")]
    async with peers_of(far.relay.port) as peers:
        client = await peers.client(far.caller)
        socket = await sockets.open(
            far.client.origin, "/laptop/time/ws", bearer(far.caller), subprotocol="mcp"
        )
        socket.on_message = heard.append
        framed = client.open("laptop/time", method="GET", path="ws", websocket=True, headers=fields)
        await until(lambda: framed.head)
        assert framed.stream is not None
        yield socket, heard, framed, framed.stream
        await sockets.aclose()


async def test_what_nobody_waits_on_lives_through_an_outage_that_is_longer_than_calls_are_held(
    far: Far,
) -> None:
    """WebSockets on which nothing is asked, by either way, and streams that only listen."""
    async with two_sockets(far) as (by_http, heard, by_framing, framed):
        headers = [*bearer(far.caller), (b"Mcp-Method", b"subscriptions/listen")]
        listening = await far.client.request("POST", "/laptop/time/mcp?events", headers, CALL)
        far.wire.take_down()
        assert await told(await far.ask()) == {"reason": "agent_lost", "retryable": True}
        far.wire.put_up()
        await until(lambda: far.agent.agent.is_connected)
        by_http.send(b"ahoy")
        framed.send(b"ahoy")
        await until(lambda: heard and by_framing.messages)
        assert heard == by_framing.messages == [b"you said ahoy"]
        far.server.streams[0].write(b"data: 1\n\n")
        assert await anext(listening) == b"data: 1\n\n"
        listening.close()


async def test_what_is_asked_on_a_websocket_while_the_link_is_lost_is_held_no_longer_than_other_calls(
    far: Far,
) -> None:
    async with two_sockets(far) as (by_http, heard, by_framing, framed):
        far.wire.take_down()
        keeper = far.relay.relay.registry.agent("laptop")
        await until(lambda: keeper is not None and not keeper.is_attached)
        by_http.send(CALL)
        framed.send(CALL)
        await until(lambda: heard)
        assert json.loads(heard[0])["error"]["data"]["reason"] == "agent_lost"
        reset = (await by_framing.over()).reset
        assert reset is not None and reset.reason == "agent_lost"


async def test_after_the_grace_the_agent_is_gone_and_everybody_is_told(far: Far) -> None:
    stream = await far.ask("GET", "/laptop/time/mcp?events", b"")
    far.wire.take_down()
    assert await stream.read(MIB) == b""
    assert far.relay.relay.registry.snapshot() == []
    assert await told(await far.ask()) == {"reason": "agent_absent", "retryable": True}
    await until(lambda: far.server.left == 1)
    far.wire.put_up()
    await until(lambda: far.agent.agent.is_connected)
    assert (await far.ask()).status == 201


async def test_an_agent_that_says_goodbye_is_gone_at_once(far: Far) -> None:
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    await far.agent.agent.leave("it sleeps")
    assert (await told(await asking))["reason"] == "agent_gone"
    await far.agent.task
    assert far.relay.relay.registry.snapshot() == []


async def test_two_with_one_token(far: Far) -> None:
    """The incumbent answers, and keeps the name; the other one gives up when that goes on."""
    token = far.relay.token("desk", "time")
    port = far.agent.door.port
    first = await far.relay.connect(token, port)
    policy = AgentPolicy(first_delay_s=0.01, longest_delay_s=0.02, max_conflicts=3, conflicts_s=0.3)
    second = await far.relay.connect(token, port, policy=policy, wait=False)
    await until(second.task.done)
    assert far.relay.relay.counters.find("upgrades_total", "agent", "name_held").value >= 3
    assert getattr(second.task.exception(), "code", "") == "name_held"
    status = second.agent.status(0)
    assert status.state == "refused" and status.last_error is not None and "4409" in status.last_error
    assert first.agent.is_connected and first.agent.reconnects == 0


async def test_a_ghost_is_replaced_and_its_late_end_changes_nothing(far: Far) -> None:
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    [ghost] = far.relay.relay.registry.snapshot()
    far.wire.freeze()
    far.agent.task.cancel()
    token = far.relay.tokens  # the same token, from another start of the program
    assert token is not None
    again = await far.relay.connect(far.agent.agent.target.token(), far.agent.door.port)
    assert again.agent.is_connected
    assert (await told(await asking))["reason"] == "agent_replaced"
    [now] = far.relay.relay.registry.snapshot()
    assert now is not ghost and ghost.is_gone
    far.wire.thaw()
    await asyncio.sleep(0.2)
    assert far.relay.relay.registry.snapshot() == [now] and now.is_attached
    assert (await far.ask()).status == 201


async def test_its_own_ghost_is_no_conflict(far: Far) -> None:
    """The relay still believes in the old socket; the agent that comes back is known by its link."""
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    carrier = far.agent.agent._carrier
    assert carrier is not None
    far.wire.freeze()
    async with wire_to(far.relay.port):
        carrier.socket.abort()
        far.wire.thaw()
        await until(lambda: far.agent.agent.reconnects == 1)
    far.server.held[0].start(200, [(b"content-type", b"text/plain")])
    far.server.held[0].end()
    assert (await asking).status == 200 and len(far.server.asked) == 1


async def test_a_relay_that_was_killed_and_is_back(far: Far) -> None:
    asking = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    await far.relay.close_relay()
    with pytest.raises((AnswerLost, NotSent)):
        await asking
    await far.relay.open_relay()
    await until(lambda: far.agent.agent.is_connected)
    await until(lambda: far.server.left == 1)
    response = await far.ask()
    assert response.status == 201
    assert far.agent.agent.reconnects == 1


async def one_call(far: Far, number: int) -> str:
    """What became of it: `done`, or the reason why not."""
    body = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call"}' % number
    response = await far.ask(body=body)
    answer = json.loads(await response.read(MIB))
    return str(answer["error"]["data"]["reason"]) if "error" in answer else "done"


@pytest.mark.parametrize("seed", range(3))
async def test_cut_again_and_again_every_call_is_answered_and_done_once(far: Far, seed: int) -> None:
    chance = random.Random(seed)
    over = asyncio.Event()

    async def cutting() -> None:
        while not over.is_set():
            await asyncio.sleep(chance.random() * 0.05)
            far.wire.cut()

    cutter = asyncio.create_task(cutting())
    outcomes: list[str] = []
    for begin in range(0, 200, 20):
        calls = (one_call(far, number) for number in range(begin, begin + 20))
        outcomes += await asyncio.gather(*calls)
    over.set()
    await cutter
    assert Counter(outcomes)["done"] + Counter(outcomes)["agent_lost"] == 200
    assert Counter(outcomes)["done"] > 150
    done = Counter(json.loads(exchange.request.body)["id"] for exchange in far.server.asked)
    assert max(done.values()) == 1, "none twice"
    assert set(range(200)) - set(done) <= {n for n, outcome in enumerate(outcomes) if outcome != "done"}


async def test_large_answers_survive_cuts_byte_for_byte(far: Far) -> None:
    async def one() -> bytes:
        response = await far.ask(target=f"/laptop/time/mcp?large{2 * MIB}")
        return await response.read(10 * MIB)

    asking = [asyncio.create_task(one()) for _ in range(5)]
    for _ in range(8):
        await asyncio.sleep(0.05)
        far.wire.cut()
    assert all(answer == b"x" * (2 * MIB) for answer in await asyncio.gather(*asking))


async def test_hurry_after_a_change_of_network(far: Far) -> None:
    """A link that does not answer any more is given up at once, not after its heartbeat."""
    patient = AgentPolicy(first_delay_s=60.0, longest_delay_s=60.0, probe_s=0.2)
    async with wire_to(far.relay.port) as wire:
        other = await far.relay.connect(
            far.relay.token("desk", "time"), far.agent.door.port, policy=patient, via=wire.port
        )
        wire.freeze()
        other.agent.hurry()
        await until(lambda: not other.agent.is_connected)
        wire.thaw()
        other.agent.hurry()
        await until(lambda: other.agent.is_connected and other.agent.reconnects == 1)
        await other.aclose()


async def test_a_call_to_a_relay_that_has_just_begun_waits_for_its_agent(far: Far) -> None:
    far.wire.take_down()
    await far.relay.close_relay()
    await far.relay.open_relay()
    asking = asyncio.create_task(far.ask())
    await asyncio.sleep(0.2)
    assert not asking.done()
    far.wire.put_up()
    assert (await asking).status == 201
    far.wire.take_down()
    await far.relay.close_relay()
    await far.relay.open_relay()
    assert await told(await far.ask()) == {"reason": "agent_absent", "retryable": True}


async def test_a_clients_call_to_a_relay_that_has_just_begun_waits_too(far: Far) -> None:
    """With all that is said on it meanwhile, as far as the window goes; whoever names it is welcome."""
    far.wire.take_down()
    await far.relay.close_relay()
    await far.relay.open_relay()
    async with peers_of(far.relay.port) as peers:
        client = await peers.client(far.caller, servers=["laptop/time"])
        body = b"x" * (3 * WINDOW_BYTES)
        waits = client.call("laptop/time", body, query="large5")
        gone = client.call("laptop/time", b"never mind")
        [keeper] = far.relay.relay.registry.snapshot()
        await until(lambda: len(keeper.link.streams) == 2)
        assert gone.stream is not None
        gone.stream.reset(Reset("caller_gone"))
        await until(lambda: len(keeper.link.streams) == 1)
        assert not waits.is_over
        far.wire.put_up()
        assert bytes((await waits.over()).data) == b"xxxxx"
        assert [each.request.body for each in far.server.asked] == [body]
        assert far.relay.relay.counters.find("calls_total", "passed_on").value == 1


async def test_a_clients_call_waits_for_an_agent_that_does_not_come_only_so_long(far: Far) -> None:
    far.wire.take_down()
    await far.relay.close_relay()
    await far.relay.open_relay()
    async with peers_of(far.relay.port) as peers:
        client = await peers.client(far.caller)
        reset = (await client.call("laptop/time", b"x").over()).reset
        assert reset is not None and (reset.reason, reset.not_executed) == ("agent_absent", True)
        assert far.relay.relay.counters.find("calls_total", "agent_absent").value == 1
        # What nobody may offer is not waited for, however new the relay is.
        anybody = far.relay.token("anybody", calls="*")
        assert (await peers.refused(CLIENT, anybody, servers=["nobody/time"]))[0] == 4404


async def test_who_takes_the_place_of_an_agent_answers_what_waited_for_it(far: Far) -> None:
    """As a daemon does that hands over to the next: it goes without a goodbye."""
    sent = asyncio.create_task(far.ask(target="/laptop/time/mcp?hold"))
    await until(lambda: far.server.held)
    await far.agent.agent.leave("the next one comes", is_final=False)
    [keeper] = far.relay.relay.registry.snapshot()
    await until(lambda: not keeper.is_attached)
    waiting = asyncio.create_task(far.ask())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await far.relay.connect(far.agent.agent.target.token(), far.agent.door.port)
    assert (await waiting).status == 201
    assert await told(await sent) == {"reason": "agent_replaced", "retryable": False}
    assert len(far.server.asked) == 2


def deaf() -> End:
    """An agent that answers no ping, and takes nothing of what callers send."""
    agent = End()
    agent.is_silent = True

    def on_open(stream: Stream, opening: Opening) -> None:
        heard = Heard(takes=False)
        heard.stream, stream.ear = stream, heard
        agent.opened.append((stream, opening, heard))

    agent.link.on_open = on_open
    return agent


async def has_said_all(agent: End) -> None:
    """All of the large request that it lets come is there, and the relay has heard what it says of that: to
    acknowledge is a sign of life, too."""
    await until(lambda: any(heard.count == agent.link.window for _, _, heard in agent.opened))
    agent.link.say(Kind.PING, b"all")
    await until(lambda: any(got.kind == Kind.PONG for got in agent.words))


async def test_what_waits_for_an_agent_is_passed_on_to_the_next_one_once(far: Far) -> None:
    token = far.relay.token("desk", "time")
    async with peers_of(far.relay.port) as peers:
        first = await peers.agent(token, again=deaf())
        small = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
        asking = asyncio.create_task(far.client.request("POST", "/desk/time/mcp", bearer(token), small))
        large = b'{"jsonrpc":"2.0","id":2,"method":"x","params":{"x":"%s"}}' % (b"y" * MIB)
        other = far.relay.client()
        waiting = asyncio.create_task(other.request("POST", "/desk/time/mcp", bearer(token), large))
        await until(lambda: len(first.opened) == 2)
        await until(lambda: any(heard.is_ended for _, _, heard in first.opened))
        await has_said_all(first)
        second = await peers.agent(token, again=deaf())
        assert await told(await asking) == {"reason": "agent_replaced", "retryable": False}
        await has_said_all(second)
        assert not waiting.done()
        third = await peers.agent(token)
        assert await told(await waiting) == {"reason": "agent_replaced", "retryable": True}
        assert len(second.opened) == 1 and not third.opened


async def test_that_it_was_replaced_is_not_an_agents_to_say(far: Far) -> None:
    """It is the relay that knows; it would pass one request on for ever."""
    token = far.relay.token("desk", "time")
    async with peers_of(far.relay.port) as peers:
        agent = await peers.agent(token)
        opened: list[Stream] = []

        def on_open(stream: Stream, opening: Opening) -> None:
            opened.append(stream)
            stream.reset(Reset("agent_replaced", not_executed=True))

        agent.link.on_open = on_open
        body = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
        response = await far.client.request("POST", "/desk/time/mcp", bearer(token), body)
        assert await told(response) == {"reason": "agent_replaced", "retryable": True}
        assert len(opened) == 1


@pytest.mark.parametrize("is_ghost", [False, True])
async def test_a_link_that_returns_and_says_nothing_holds_no_call_for_longer(
    far: Far, is_ghost: bool
) -> None:
    """Lost again each time before it could, or followed by the next one before it is known to be lost."""
    token = far.relay.token("desk", "time")
    async with peers_of(far.relay.port) as peers:
        agent = await peers.agent(token, again=deaf())
        agent.socket.abort()
        keeper = far.relay.relay.registry.agent("desk")
        assert keeper is not None
        await until(lambda: not keeper.is_attached)
        body = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
        asking = asyncio.create_task(far.client.request("POST", "/desk/time/mcp", bearer(token), body))
        async with within():
            while not asking.done():
                await peers.agent(token, again=agent, received=0)
                assert agent.carrier is not None
                agent.carrier.drop()
                if not is_ghost:
                    agent.socket.abort()
                    await until(lambda: not keeper.is_attached)
        assert (await told(await asking))["reason"] == "agent_lost"
        assert far.relay.relay.registry.agent("desk") is keeper


async def test_bodies_that_wait_have_a_bound_for_each_agent_and_for_all(tmp_path: Path) -> None:
    """Of agents that take nothing, and of those that are waited for; what is over makes room again."""
    policy = RelayPolicy(max_waiting_bytes=5 * MIB, max_waiting_bytes_per_agent=3 * MIB, hold_s=60.0)
    async with harness(tmp_path, policy) as relay, peers_of(relay.port) as peers:
        tokens = {name: relay.token(name, "time") for name in ("desk", "shelf")}
        caller = relay.token("phone", calls="*")
        body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"x":"%s"}}' % (b"y" * (MIB - 100))

        def ask(name: str) -> "asyncio.Task[ClientResponse]":
            headers = bearer(caller)
            return asyncio.create_task(relay.client().request("POST", f"/{name}/time/mcp", headers, body))

        async def refused(name: str) -> None:
            async with within():
                assert await told(await ask(name)) == {"reason": "too_many", "retryable": True}

        desk = await peers.agent(tokens["desk"], again=deaf())
        waiting = [ask("desk") for _ in range(3)]
        await until(lambda: len(desk.opened) == 3)
        await refused("desk")
        parked = [ask("shelf") for _ in range(2)]
        await until(lambda: len(relay.relay._parked._waiting.get("shelf", {})) == 2)
        await refused("shelf")
        desk.opened[0][0].reset(Reset("agent_leaving", not_executed=True))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        [meter] = [meter for id, meter in relay.relay.meters._meters.items() if id in caller]
        before = meter._full_at
        parked.append(ask("shelf"))
        await until(lambda: len(relay.relay._parked._waiting["shelf"]) == 3)
        await refused("shelf")
        await refused("desk")
        sent = meter._full_at
        assert sent > before, "what is waited for is metered too"
        shelf = await peers.agent(tokens["shelf"], again=deaf())
        await until(lambda: len(shelf.opened) == 3)
        assert meter._full_at == sent, "and once"
        await refused("shelf")
        for agent in (desk, shelf):
            agent.link.say(Kind.GOODBYE, b"{}")
        await asyncio.gather(*waiting, *parked)
        assert relay.relay._bodies.has_room("desk", 3 * MIB) and relay.relay._bodies.has_room(
            "shelf", 3 * MIB
        )
        assert not relay.relay._bodies._bytes


async def test_messages_of_websockets_that_wait_have_the_same_bound(tmp_path: Path) -> None:
    """Either way: those that do not become whole, and those that are not taken."""
    policy = RelayPolicy(max_waiting_bytes=5 * MIB, max_waiting_bytes_per_agent=3 * MIB)
    async with harness(tmp_path, policy) as relay, peers_of(relay.port) as peers, talks(relay.port) as talk:
        token, bodies = relay.token("desk", "time"), relay.relay._bodies
        desk = await peers.agent(token, again=deaf())

        async def opened() -> tuple[Talk, Stream]:
            asking = asyncio.create_task(talk("/desk/time/ws", token))
            count = len(desk.opened)
            await until(lambda: len(desk.opened) > count)
            stream = desk.opened[-1][0]
            stream.head(Head(101, [("sec-websocket-protocol", "mcp")]))
            return await asking, stream

        (first, first_stream), (second, second_stream), (third, third_stream) = [
            await opened() for _ in range(3)
        ]
        first_stream.send(b"x" * (2 * MIB), more=True)
        await until(lambda: bodies._bytes == 2 * MIB)
        second_stream.send(b"y" * (2 * MIB), more=True)
        assert await second.over() == 1013
        await until(lambda: second_stream.is_over)
        assert bodies._bytes == 2 * MIB
        first_stream.send(b"x")
        await until(lambda: first.heard)
        assert first.heard == [b"x" * (2 * MIB + 1)] and not bodies._bytes
        first.socket.send(b"z" * (2 * MIB))  # which the agent does not take
        await until(lambda: bodies._bytes == 2 * MIB)
        third.socket.send(b"z" * (2 * MIB))
        assert await third.over() == 1013 and bodies._bytes == 2 * MIB
        await until(lambda: third_stream.is_over)
        first_stream.reset(Reset("closed", close=1000))
        assert await first.over() == 1000 and not bodies._bytes


async def test_what_is_looked_into_of_websockets_in_our_framing_counts_too(tmp_path: Path) -> None:
    """Who begins many messages, and ends none, does not have the relay keep them all; they pass, though."""
    policy = RelayPolicy(max_waiting_bytes=5 * MIB, max_waiting_bytes_per_agent=MIB)
    async with harness(tmp_path, policy) as relay, peers_of(relay.port) as peers:
        token, bodies = relay.token("desk", "time"), relay.relay._bodies
        desk = await peers.agent(token)
        client = await peers.client(token)
        piece = b"x" * (MIB // 2)
        ears = [client.open("desk/time", method="GET", path="ws", websocket=True) for _ in range(3)]
        await until(lambda: len(desk.opened) == 3)
        for ear in ears[:2]:
            assert ear.stream is not None
            ear.stream.send(piece, more=True)
        await until(lambda: bodies._bytes == MIB)
        assert ears[2].stream is not None
        ears[2].stream.send(piece, more=True)
        ears[2].stream.send(b"x")
        await until(lambda: desk.opened[2][2].messages == [piece + b"x"])
        assert bodies._bytes == MIB
        assert [stream.is_call for stream in relay.relay._clients_streams()] == [False, False, True]
        for stream, _, _ in desk.opened[:1]:
            stream.reset(Reset("closed", close=1000))
        await until(lambda: bodies._bytes == MIB // 2)
        client.link.fail(Reset("gone"))
        client.socket.abort()
        desk.link.say(Kind.GOODBYE, b"{}")
        await until(lambda: not bodies._bytes)
