"""Who is connected to a relay, and who has which name."""

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import MooringError
from mooring.http.websocket import WebSocketConnection
from mooring.relay.counting import make_counters
from mooring.relay.envelope import Kind, encode, write_json, write_number
from mooring.relay.keeper import AGENT, CLIENT, Keeper
from mooring.relay.meters import ByteMeter, BytePolicy
from mooring.relay.policy import RelayPolicy
from mooring.relay.registry import Registry
from mooring.relay.tokens import Grant
from mooring.relay.words import Head, Hello, Reset
from tests.relay.harness import Harness, bearer, harness
from tests.relay.peers import AGENT as AGENTS_DOOR
from tests.relay.peers import End, Peers, peers_of
from tests.support import until

pytestmark = pytest.mark.usefixtures("no_secret_in_logs")

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"tell-nobody"}}'
MIB = 1024 * 1024


def keeper_of(kind: str, name: str, on_gone: Callable[[Keeper], None] = lambda keeper: None) -> Keeper:
    """A link that no socket carries yet."""
    grant = Grant(id=f"{name}-id", name=name, servers=frozenset({"time"}), calls=frozenset())
    return Keeper(
        kind,
        grant,
        Hello(instance="one", servers=("time",)),
        RelayPolicy(),
        meter=ByteMeter(BytePolicy(), lambda: 0.0),
        counters=make_counters(),
        on_gone=on_gone,
    )


# The tables ------------------------------------------------------------------------------------


async def test_nobody_is_there_at_first() -> None:
    registry = Registry()
    assert registry.snapshot() == [] and registry.counts == (0, 0)
    assert registry.agent("laptop") is None and registry.client("x") is None


async def test_agents_and_clients_alike_and_a_fresh_copy_each_time() -> None:
    registry = Registry()
    agent, clients = keeper_of(AGENT, "laptop"), [keeper_of(CLIENT, "phone") for _ in range(2)]
    for keeper in (agent, *clients):
        assert registry.claim(keeper)
    first = registry.snapshot()
    assert set(map(id, first)) == {id(agent), *map(id, clients)} and registry.counts == (1, 2)
    first.clear()
    second = registry.snapshot()
    second.append(agent)
    second.reverse()
    assert len(registry.snapshot()) == 3 and registry.counts == (1, 2)
    assert registry.agent("laptop") is agent and registry.client(clients[0].id) is clients[0]
    kept = registry.snapshot()
    for keeper in kept:
        assert registry.release(keeper)
    assert len(kept) == 3, "what somebody works with does not change under his hands"
    assert registry.snapshot() == [] and registry.counts == (0, 0)


async def test_a_name_is_had_by_one_and_given_up_by_that_one() -> None:
    registry = Registry()
    first, second, third = (keeper_of(AGENT, "laptop") for _ in range(3))
    assert registry.claim(first) and not registry.claim(second)
    assert not registry.claim(second, third), "the one whose place it wants is not there"
    assert registry.claim(second, first)
    assert not registry.release(first), "late: the name is another's by now"
    assert registry.agent("laptop") is second
    assert not registry.claim(third, first)
    assert registry.release(second) and not registry.release(second)
    assert registry.claim(third) and registry.counts == (1, 0)


async def test_a_link_goes_once() -> None:
    """By its end, its heartbeat and the drain at the same moment: its place is given up once."""
    went: list[Keeper] = []
    keeper = keeper_of(AGENT, "laptop", went.append)
    for code in (1001, 1012, 4401):
        keeper.leave(Reset("draining"), code, "")
    assert went == [keeper] and keeper.is_gone


class Yielding(dict[str, Keeper]):
    """A table that lets other threads go on between a look at it and what is done about that."""

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        time.sleep(0)
        return found


async def test_sixteen_threads_of_200_operations_never_see_a_torn_state() -> None:
    """Each name's holders are a chain: every one of them was ended once, by whoever followed it or by itself,
    but for the one that is there at the end. Without the lock it is not so."""
    registry, names = Registry(), [f"agent-{number}" for number in range(5)]
    registry._agents, registry._clients = Yielding(), Yielding()
    barrier = threading.Barrier(16)
    keepers = [
        [
            [keeper_of(AGENT, names[number % 5]), keeper_of(CLIENT, f"phone-{thread}")][number % 4 == 3]
            for number in range(200)
        ]
        for thread in range(16)
    ]

    def work(thread: int) -> tuple[list[Keeper], list[Keeper]]:
        chance, begun, ended = random.Random(thread), [], []
        barrier.wait()
        for keeper in keepers[thread]:
            before = registry.agent(keeper.name) if keeper.kind == AGENT else None
            if registry.claim(keeper, before):
                begun.append(keeper)
                if before is not None:
                    ended.append(before)
            if chance.random() < 0.5 and registry.release(keeper):
                ended.append(keeper)
            seen = registry.snapshot()
            agents = [one.name for one in seen if one.kind == AGENT]
            assert len(agents) == len(set(agents)), "one name, one agent"
            assert len({id(one) for one in seen}) == len(seen)
            seen.clear()
            counted, held = registry.counts, registry.agent(names[0])
            assert counted[0] <= 5 and (held is None or held.name == names[0])
        return begun, ended

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
    begun = Counter(id(keeper) for began, _ in results for keeper in began)
    ended = Counter(id(keeper) for _, over in results for keeper in over)
    live = {id(keeper) for keeper in registry.snapshot()}
    assert max(begun.values()) == 1 and max(ended.values()) == 1, "nobody ends twice"
    assert set(begun) - set(ended) == live and set(ended) <= set(begun)
    assert registry.counts == (
        sum(one.kind == AGENT for one in registry.snapshot()),
        sum(one.kind == CLIENT for one in registry.snapshot()),
    )


# Whose a name is --------------------------------------------------------------------------------


class Town:
    """A relay, a token `laptop` and who calls it."""

    def __init__(self, relay: Harness, peers: Peers) -> None:
        self.relay = relay
        self.peers = peers
        self.laptop = relay.token("laptop", "time")
        self.phone = relay.token("phone", calls="laptop/*")

    @property
    def registry(self) -> Registry:
        return self.relay.relay.registry

    def count(self, name: str, *values: str) -> int:
        return self.relay.relay.counters.find(name, *values).value

    def ask(self) -> "asyncio.Task[tuple[int, bytes]]":
        async def asking() -> tuple[int, bytes]:
            client = self.relay.client()
            response = await client.request("POST", "/laptop/time/mcp", bearer(self.phone), CALL)
            return response.status, await response.read(MIB)

        return asyncio.create_task(asking())

    async def is_served_by(self, end: End) -> bool:
        before = len(end.opened)
        asking = self.ask()
        await until(lambda: len(end.opened) > before)
        stream, _, _ = end.opened[-1]
        stream.head(Head(204, [("content-length", "0")]))
        stream.end()
        return (await asking)[0] == 204


@contextlib.asynccontextmanager
async def town_of(folder: Path, **policy: Any) -> AsyncIterator[Town]:
    bounds = {"probe_s": 60.0, "grace_s": 60.0, "hold_s": 60.0} | policy
    async with harness(folder, RelayPolicy(**bounds)) as relay, peers_of(relay.port) as peers:
        yield Town(relay, peers)
        await peers.aclose()


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    async with town_of(tmp_path) as made:
        yield made


async def test_a_name_belongs_to_its_token(town: Town) -> None:
    with pytest.raises(MooringError):
        town.relay.token("laptop", "time")
    end = await town.peers.agent(town.laptop, name="desk", instance="anything")
    assert end.welcome is not None and end.welcome.name == "laptop"


async def test_an_incumbent_that_answers_keeps_its_name(town: Town) -> None:
    first = await town.peers.agent(town.laptop)
    for _ in range(3):
        code, reason = await town.peers.refused(AGENTS_DOOR, town.laptop, servers=["time"])
        assert (code, reason) == (4409, "laptop is connected from elsewhere")
    assert first.closed is None and await town.is_served_by(first)
    assert town.count("upgrades_total", "agent", "name_held") == 3
    assert [keeper.reconnects for keeper in town.registry.snapshot()] == [0]


async def test_whatever_an_incumbent_says_is_a_sign(tmp_path: Path) -> None:
    """Its answer may have to wait behind all that it has to say, on a slow line."""
    async with town_of(tmp_path, probe_s=0.5) as town:
        first = await town.peers.agent(town.laptop)
        first.is_silent = True
        asking = asyncio.create_task(town.peers.refused(AGENTS_DOOR, town.laptop, servers=["time"]))
        await until(lambda: first.word(Kind.PING))
        while not asking.done():
            first.say(encode(Kind.ACK, payload=write_number(0)))
            await asyncio.sleep(0.05)
        assert (await asking)[0] == 4409 and first.closed is None


async def test_an_incumbent_that_does_not_is_replaced_and_its_callers_are_told(tmp_path: Path) -> None:
    async with town_of(tmp_path, probe_s=0.2) as town:
        first = await town.peers.agent(town.laptop)
        first.is_silent = True
        asking = town.ask()
        await until(lambda: first.opened and first.opened[0][2].is_ended)
        second = await town.peers.agent(town.laptop)
        assert (await first.gone())[0] == 4409
        status, body = await asking
        assert status == 200 and b'"reason":"agent_replaced"' in body and b'"retryable":false' in body
        assert first.word(Kind.PING) is not None
        assert town.registry.counts == (1, 0) and await town.is_served_by(second)
        assert town.count("agents_replaced_total") == 1


async def test_nobody_is_asked_for_a_sign_whose_socket_is_lost(town: Town) -> None:
    """Another run of the same program takes the name at once."""
    first = await town.peers.agent(town.laptop)
    first.socket.abort()
    [keeper] = town.registry.snapshot()
    await until(lambda: not keeper.is_attached)
    second = await town.peers.agent(town.laptop)
    assert second.welcome is not None and not second.welcome.resumed
    assert keeper.is_gone and await town.is_served_by(second)


async def test_who_enquires_leaves_a_lost_link_and_its_calls_alone(town: Town) -> None:
    """Each `mooring connect … --background` asks first, mostly on the machine whose daemon has the name."""
    first = await town.peers.agent(town.laptop)
    asking = town.ask()
    await until(lambda: first.opened and first.opened[0][2].is_ended)
    first.socket.abort()
    [keeper] = town.registry.snapshot()
    await until(lambda: not keeper.is_attached)
    enquirer = await town.peers.agent(town.laptop, enquires=True)
    assert await enquirer.gone() == (1000, "")
    assert town.registry.snapshot() == [keeper] and not asking.done()
    await town.peers.agent(town.laptop, again=first)
    stream, _, _ = first.opened[0]
    stream.head(Head(204, [("content-length", "0")]))
    stream.end()
    assert (await asking)[0] == 204 and not enquirer.opened
    assert town.count("agents_replaced_total") == 0


async def test_who_enquires_gets_no_call_that_waits_for_the_agent_and_keeps_no_name(town: Town) -> None:
    """A relay that has just begun: whoever is on its way has the name at once, and what waited for it."""
    asking = town.ask()
    await until(lambda: town.relay.relay._parked._waiting)
    enquirer = await town.peers.agent(town.laptop, enquires=True)
    assert enquirer.welcome is not None
    assert (enquirer.welcome.name, enquirer.welcome.servers, enquirer.welcome.link) == (
        "laptop",
        ("time",),
        "",
    )
    assert town.registry.counts == (0, 0)
    later = town.ask()  # it has not been here: who calls now waits too
    agent = await asyncio.wait_for(town.peers.agent(town.laptop), 20)
    await until(lambda: len(agent.opened) == 2)
    for stream, _, _ in agent.opened:
        stream.head(Head(204, [("content-length", "0")]))
        stream.end()
    assert [(await one)[0] for one in (asking, later)] == [204, 204]
    assert await enquirer.gone() == (1000, "") and not enquirer.opened


async def test_who_enquires_hears_what_it_would_hear(tmp_path: Path) -> None:
    async with town_of(tmp_path, max_agents=1) as town:
        desk = town.relay.token("desk", "time")
        await town.peers.agent(town.laptop)
        for token, words in (
            (town.laptop, (4409, "laptop is connected from elsewhere")),
            (desk, (4429, "too many agents are connected")),
            (town.phone, (4403, "this token may call, but not connect")),
        ):
            assert await town.peers.refused(AGENTS_DOOR, token, servers=["time"], enquires=True) == words
        client = await town.peers.client(town.phone, enquires=True)
        assert await client.gone() == (1000, "") and town.registry.counts == (1, 0)


async def test_an_incumbent_that_says_goodbye_while_it_is_asked(town: Town) -> None:
    """Nobody waits for the rest of the time: the name is free."""
    first = await town.peers.agent(town.laptop)
    first.is_silent = True
    dialling = asyncio.create_task(town.peers.agent(town.laptop))
    await until(lambda: first.word(Kind.PING))
    first.link.say(Kind.GOODBYE, write_json({}))
    second = await asyncio.wait_for(dialling, 20)
    assert (await first.gone())[0] == 1000 and await town.is_served_by(second)
    assert town.count("agents_replaced_total") == 0


async def test_an_incumbent_whose_socket_is_lost_while_it_is_asked(town: Town) -> None:
    first = await town.peers.agent(town.laptop)
    first.is_silent = True
    dialling = asyncio.create_task(town.peers.agent(town.laptop))
    await until(lambda: first.word(Kind.PING))
    first.socket.abort()
    second = await asyncio.wait_for(dialling, 20)
    assert await town.is_served_by(second)


async def test_an_incumbent_that_comes_back_while_it_is_asked_is_there(town: Town) -> None:
    """The question went to its old socket, that nobody reads any more."""
    first = await town.peers.agent(town.laptop)
    first.is_silent = True
    refusing = asyncio.create_task(town.peers.refused(AGENTS_DOOR, town.laptop, servers=["time"]))
    await until(lambda: first.word(Kind.PING))
    assert first.carrier is not None
    first.carrier.drop()
    first.link.lose()
    await town.peers.agent(town.laptop, again=first)
    assert first.welcome is not None and first.welcome.resumed
    assert (await asyncio.wait_for(refusing, 20))[0] == 4409
    assert await town.is_served_by(first)


async def test_a_newcomer_that_goes_while_the_incumbent_is_asked_keeps_nobody_out(tmp_path: Path) -> None:
    """It may have been given the name, as the incumbent gave no sign: who was there can have it back."""
    async with town_of(tmp_path, probe_s=0.3) as town:
        first = await town.peers.agent(town.laptop)
        first.is_silent = True
        newcomer = await town.peers.upgrade(AGENTS_DOOR, town.laptop)
        dialling = asyncio.create_task(newcomer.hello(servers=["time"]))
        await until(lambda: first.word(Kind.PING))
        newcomer.socket.abort()
        with pytest.raises(ConnectionError):
            await dialling
        await until(lambda: not town.relay.relay._welcoming._claims)
        await town.peers.agent(town.laptop, again=first)
        assert town.registry.counts == (1, 0) and await town.is_served_by(first)


async def test_of_many_newcomers_one_gets_the_name(tmp_path: Path) -> None:
    async with town_of(tmp_path, probe_s=0.3) as town:
        first = await town.peers.agent(town.laptop)
        first.is_silent = True
        dialling = [town.peers.agent(town.laptop) for _ in range(10)]
        results = await asyncio.gather(*dialling, return_exceptions=True)
        winners = [one for one in results if isinstance(one, End)]
        codes = {one.args[0] for one in results if isinstance(one, ConnectionError)}
        assert len(winners) == 1 and codes <= {1011, 4409} and codes
        assert (await first.gone())[0] == 4409
        assert town.registry.counts == (1, 0) and await town.is_served_by(winners[0])


async def test_late_timers_and_ends_of_one_that_was_replaced_change_nothing(tmp_path: Path) -> None:
    async with town_of(tmp_path, grace_s=0.4, hold_s=0.3, probe_s=0.2) as town:
        first = await town.peers.agent(town.laptop)
        asking = town.ask()
        await until(lambda: first.opened)
        first.socket.abort()  # its grace and its call's patience begin to run out
        [ghost] = town.registry.snapshot()
        await until(lambda: not ghost.is_attached)
        second = await town.peers.agent(town.laptop)
        assert b"agent_replaced" in (await asking)[1]
        [keeper] = town.registry.snapshot()
        kept = town.ask()
        await until(lambda: len(second.opened) == 1)
        await asyncio.sleep(1.0)  # past all of the ghost's timers
        assert town.registry.snapshot() == [keeper] and not keeper.is_gone and not kept.done()
        ghost._end_grace()
        ghost._holding._on_late(list(ghost.link.streams.values()), ghost._holding._held)
        second.opened[0][0].head(Head(204, [("content-length", "0")]))
        second.opened[0][0].end()
        assert (await kept)[0] == 204 and await town.is_served_by(second)


async def test_the_same_run_may_begin_a_new_link_at_once(town: Town) -> None:
    """It has given up its old one, and is not in its own way; nobody is asked for a sign."""
    first = await town.peers.agent(town.laptop, instance="same")
    first.is_silent = True
    second = await town.peers.agent(town.laptop, instance="same")
    assert second.welcome is not None and not second.welcome.resumed
    assert (await first.gone())[0] == 4409 and await town.is_served_by(second)


async def test_links_that_are_lost_stay_in_the_registry_until_their_grace_is_over(tmp_path: Path) -> None:
    async with town_of(tmp_path, grace_s=1.0) as town:
        agent = await town.peers.agent(town.laptop)
        client = await town.peers.client(town.phone)
        assert town.registry.counts == (1, 1)
        for end in (agent, client):
            end.socket.abort()
        await until(lambda: not any(keeper.is_attached for keeper in town.registry.snapshot()))
        assert town.registry.counts == (1, 1)
        await until(lambda: town.registry.snapshot() == [])


async def test_nothing_is_sent_or_closed_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While agents and clients come, are replaced, say goodbye, break the rules and are drained."""
    was_locked: list[bool] = []
    flush = WebSocketConnection._flush

    async with town_of(tmp_path, probe_s=0.1) as town:
        lock = town.registry._lock

        def checked(self: WebSocketConnection) -> None:
            was_locked.append(lock.locked())
            flush(self)

        monkeypatch.setattr(WebSocketConnection, "_flush", checked)
        first = await town.peers.agent(town.laptop)
        assert (await town.peers.refused(AGENTS_DOOR, town.laptop))[0] == 4409
        first.is_silent = True
        second = await town.peers.agent(town.laptop)
        clients = [await town.peers.client(town.phone) for _ in range(3)]
        clients[0].say(b"garbage")
        clients[1].link.say(Kind.GOODBYE, write_json({}))
        await until(lambda: town.registry.counts == (1, 1))
        await town.relay.relay.drain("test", calls_s=1.0, is_restart=True)
        for end in (second, clients[2]):
            assert (await end.gone())[0] == 1012
        assert town.registry.snapshot() == []
    assert len(was_locked) > 20 and not any(was_locked)
