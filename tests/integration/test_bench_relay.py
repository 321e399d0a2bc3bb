"""The relay's instruments: bare clients and agents that keep the rules, a plain relay that passes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.server import serve

from bench.relay_peer import crowd
from bench.relay_peer.crowd import RUDE, Sheep, churn, connected
from bench.relay_peer.load import Load
from bench.relay_peer.plain_relay import Relay as PlainRelay
from bench.relay_peer.sockets import Socket
from bench.relay_peer.ways import AGENT, CALL, PLAIN, SERVER, STREAM, answering
from mooring.relay.envelope import MAX_DATA_BYTES
from mooring.relay.policy import RelayPolicy
from mooring.relay.words import WINDOW_BYTES
from tests.relay.harness import harness
from tests.support import until, within

OURS = (STREAM, CALL)


@asynccontextmanager
async def spoken_to(way: str, folder: Path) -> AsyncIterator[tuple[int, str]]:
    """The port of a relay that has an agent, and a token for its callers."""
    if way == PLAIN:
        async with serve(PlainRelay().serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            agent = await answering(way, port, "")
            yield port, ""
            await left(agent)
        return
    async with harness(folder) as relay:
        caller = relay.token("caller", calls=f"{AGENT}/{SERVER}")
        agent = await answering(way, relay.port, relay.token(AGENT, SERVER))
        yield relay.port, caller
        assert [(one.link.bad, one.link.stray) for one in relay.relay.registry.snapshot()] == [(0, 0)] * 4
        await left(agent)


async def left(socket: Socket) -> None:
    socket.transport.abort()
    await socket.lost


@pytest.mark.parametrize("way", [PLAIN, *OURS])
async def test_every_call_is_answered_by_the_agent(way: str, tmp_path: Path) -> None:
    async with within(60), spoken_to(way, tmp_path) as (port, token):
        load = Load(way, port, token, 3, 512)
        await load.open()
        # More than there is room for under way, on every stream: it is given back.
        wanted, calls = 3 * (WINDOW_BYTES // 512 + 100), 0
        while calls < wanted:
            found = await load.window(0.2)
            assert found["errors"] == 0 and found["complaint"] == ""
            calls += int(str(found["calls"]))
        await load.close()


@pytest.mark.parametrize("way", [PLAIN, *OURS])
async def test_an_answer_is_compared_with_what_was_asked(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with within(60), spoken_to(way, tmp_path) as (port, token):
        load = Load(way, port, token, 3, MAX_DATA_BYTES)
        await load.open()
        assert (await load.window(0.05))["errors"] == 0
        monkeypatch.setattr(load, "_expected", b"something else")
        found = await load.window(0.05)
        assert found["errors"] == found["calls"] and found["complaint"]
        await load.close()


async def test_whoever_comes_and_goes_is_forgotten_at_once_unless_it_says_nothing(tmp_path: Path) -> None:
    async with within(60), harness(tmp_path, RelayPolicy(grace_s=3600.0)) as relay:
        token = relay.token("caller", calls="*")
        await churn(relay.port, [token] * 5 * RUDE)
        await until(lambda: relay.relay.registry.counts == (0, 5))


async def test_connections_that_are_idle_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with within(60), harness(tmp_path) as relay:
        tokens = [relay.token(f"agent-{number}", SERVER) for number in range(3)]
        sockets = await crowd.idle(relay.port, tokens, is_agent=True)
        assert capsys.readouterr().out == '{"connected": 3}\n'
        # They answer when they are asked whether they are there.
        assert all([await one.probe(10.0) for one in relay.relay.registry.snapshot()])
        for socket in sockets:
            await left(socket)


async def test_the_herd_comes_back_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = RelayPolicy(return_s=3.0, return_each_s=3.0)
    async with within(60), harness(tmp_path, policy) as relay:
        flock = [Sheep(relay.port, relay.token(f"agent-{number}", SERVER)) for number in range(2)]
        told: list[float] = []

        def next_s(minimum_s: float) -> float:
            told.append(minimum_s)
            return 0.01

        for one in flock:
            monkeypatch.setattr(one._backoff, "next_s", next_s)
        running = [asyncio.create_task(one.run()) for one in flock]
        await until(lambda: all(one.is_connected for one in flock))
        await relay.relay.drain("test", calls_s=0.1, is_restart=True)
        await until(lambda: not any(one.is_connected for one in flock))
        await relay.close_relay()
        await relay.open_relay()
        await until(lambda: all(one.is_connected for one in flock))
        assert len(list(filter(None, told))) == len(flock), "each word is good for one attempt"
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await relay.close_relay()
        await until(lambda: all(one.socket is None or one.socket.lost.done() for one in flock))


async def test_a_token_that_is_not_good_is_no_connection(tmp_path: Path) -> None:
    async with within(60), harness(tmp_path) as relay:
        with pytest.raises(ConnectionError, match="401"):
            await connected(relay.port, "mrt_nothing", is_agent=True)
        with pytest.raises(ConnectionError, match="says no"):
            await connected(relay.port, relay.token("caller", calls="*"), is_agent=True)
