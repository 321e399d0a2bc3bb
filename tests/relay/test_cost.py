"""What calls and connections of a relay leave behind, and when those come back that it has sent away."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bench.relay_peer.sockets import BINARY, opened
from bench.relay_peer.ways import AGENT, CALL, SERVER, answering, calling, linked
from mooring.http.origin import Origin
from mooring.relay.admission import UPGRADES, upgrades
from mooring.relay.agent import Agent, Target
from mooring.relay.envelope import Kind, encode, write_json
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.relay.words import Goodbye, Restart
from mooring.wire.http import Response
from tests.relay.harness import Harness, bearer, harness
from tests.support import until, within

OFTEN = 100

Repeat = Callable[[int], Awaitable[None]]


async def by_http(relay: Harness, measured: Callable[[Repeat], Awaitable[None]]) -> None:
    token = relay.token("laptop", "time")
    port = await relay.serve(lambda exchange: exchange.respond(Response(200, b"{}")))
    await relay.connect(token, port)
    client = relay.client()

    async def calls(count: int) -> None:
        for _ in range(count):
            answer = await client.request("POST", "/laptop/time/mcp", bearer(token), b"{}")
            assert await answer.read(100) == b"{}"

    await measured(calls)


async def by_framing(relay: Harness, measured: Callable[[Repeat], Awaitable[None]]) -> None:
    agent = await answering(CALL, relay.port, relay.token(AGENT, SERVER))
    answers: asyncio.Queue[bytes] = asyncio.Queue()
    token = relay.token("phone", calls=f"{AGENT}/{SERVER}")
    caller = await calling(CALL, relay.port, token, answers.put_nowait)

    async def calls(count: int) -> None:
        for _ in range(count):
            caller.call(b"{}")
            assert await answers.get() == b"{}"

    await measured(calls)
    for socket in (caller.socket, agent):
        socket.transport.abort()
        await socket.lost


async def by_connections(relay: Harness, measured: Callable[[Repeat], Awaitable[None]]) -> None:
    token = relay.token("phone", calls="*")

    async def visits(count: int) -> None:
        for _ in range(count):
            socket = await opened(relay.port, "/v1/client", token)
            await linked(socket)
            socket.on_message = lambda message: None
            socket.send(BINARY, encode(Kind.GOODBYE, payload=write_json(Goodbye())))
            await socket.lost
        await until(lambda: relay.relay.registry.counts == (0, 0))

    await measured(visits)


@pytest.mark.parametrize("way", [by_http, by_framing, by_connections])
async def test_nothing_is_left_behind_that_only_the_collector_finds(
    tmp_path: Path, way: Callable[[Harness, Any], Awaitable[None]]
) -> None:
    found: list[str] = []

    async def measured(repeat: Repeat) -> None:
        await repeat(5)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await repeat(OFTEN)
            gc.collect()
            # (asyncio's own transports are found by nobody else either.)
            found.extend(
                type(one).__qualname__ for one in gc.garbage if type(one).__module__[:8] == "mooring."
            )
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    async with within(60), harness(tmp_path) as relay:
        await way(relay, measured)
    assert len(found) < OFTEN, set(found)


@pytest.mark.parametrize(("per_second", "burst"), [(0.5, 200), (20.0, 200), (21.0, 210), (1000.0, 10_000)])
def test_who_may_come_more_often_may_come_more_at_once(per_second: float, burst: int) -> None:
    assert upgrades(per_second).burst == burst
    assert upgrades(UPGRADES.per_second) == UPGRADES


async def test_the_relays_word_on_when_to_come_back_is_good_for_one_attempt(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(
        origin=Origin(host="127.0.0.1", port=unused_tcp_port),
        path="/v1/server",
        shown="the relay",
        token=lambda: "mrt_aaaaaaaaaaaa_" + "x" * 43,
    )
    agent = Agent(target, AgentPolicy())
    told: list[float] = []

    def next_s(minimum_s: float) -> float:
        told.append(minimum_s)
        return 0.0

    monkeypatch.setattr(agent._backoff, "next_s", next_s)
    agent.link.receive(encode(Kind.RESTART, payload=write_json(Restart(reconnect_in_ms=1500))), strict=True)
    running = asyncio.create_task(agent.run())
    await until(lambda: len(told) >= 3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await agent.aclose()
    assert told[:3] == [1.5, 0.0, 0.0]


class Told:
    """A link, as far as it is told when to come back."""

    delay_s = -1.0

    def tell(self, kind: int, words: Restart) -> None:
        assert kind == Kind.RESTART
        self.delay_s = words.reconnect_in_ms / 1000


@pytest.mark.parametrize(
    ("number", "spread_s", "first_s", "last_s"),
    [(5000, 3.0, 4.0, 8.0), (1000, 2.0, 3.0, 5.0), (1, 0.0, 1.0, 1.002)],
)
async def test_those_who_are_sent_away_for_a_restart_come_back_when_it_is_over(
    tmp_path: Path, number: int, spread_s: float, first_s: float, last_s: float
) -> None:
    async with harness(tmp_path, RelayPolicy()) as relay:
        goodbyes: dict[Any, float] = {Told(): spread_s * turn / number for turn in range(number)}
        relay.relay._tell_when_to_return(goodbyes, spread_s)
    returns = [goodbye_s + one.delay_s for one, goodbye_s in goodbyes.items()]
    assert all(first_s - 0.001 <= back <= last_s for back in returns)  # told in milliseconds
    seconds = [int(back - first_s) for back in returns]
    assert number < 5000 or max(map(seconds.count, set(seconds))) < 1.3 * number / (last_s - first_s)
