"""`mooring connect --client`, all of it but the process: a port here, servers there, a link in between."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mooring.cli.control_sockets import ask_socket
from mooring.errors import UserError
from mooring.host import calling
from mooring.host.connection_file import Wish, status_sockets
from mooring.host.places import Places
from mooring.host.stop import Stop
from mooring.http.client import Client
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets
from mooring.relay.carrier import Carrier
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.wire.http import Response
from mooring.wire.websocket import WebSocket
from tests.relay.harness import Connected, Harness, harness
from tests.relay.test_calls import CALL, MIB, Server
from tests.relay.wire import Wire, wire_to
from tests.support import until, within


class Near:
    """A client of ours, and those who call at its port."""

    def __init__(self, relay: Harness, server: Server, agent: Connected, wire: Wire, places: Places) -> None:
        self.relay = relay
        self.server = server
        self.agent = agent
        self.wire = wire
        self.places = places
        self.stop = Stop(time.monotonic)
        self.urls: dict[str, str] = {}
        self.task: asyncio.Task[int] | None = None
        self.sockets = ClientSockets()

    @property
    def origin(self) -> Origin:
        return Origin(host="127.0.0.1", port=urlsplit(self.urls["laptop/time"]).port or 0)

    @property
    def carriers(self) -> list[Carrier]:
        """What carries the link, at the relay; another one after each loss."""
        there = [keeper for keeper in self.relay.relay.registry.snapshot() if keeper.kind == "client"]
        return [keeper.carrier for keeper in there if keeper.carrier is not None]

    @property
    def is_connected(self) -> bool:
        return bool(self.carriers)

    def is_carried_anew(self, before: Carrier) -> bool:
        return self.is_connected and before not in self.carriers

    async def start(self, wish: Wish, drain_timeout_s: float = 10.0) -> None:
        self.task = asyncio.create_task(
            calling.run(
                wish,
                self.places,
                0,
                self.stop,
                drain_timeout_s=drain_timeout_s,
                on_connected=self.urls.update,
            )
        )
        await until(lambda: self.urls and self.is_connected)

    async def ask(self, query: str = "", method: str = "POST") -> dict[str, Any]:
        client = Client(self.origin)
        try:
            target = "/laptop/time/mcp" + (f"?{query}" if query else "")
            response = await client.request(method, target, [], CALL if method == "POST" else b"")
            told: dict[str, Any] = json.loads(await response.read(MIB))
            return told
        finally:
            await client.aclose()

    async def socket(self) -> tuple[WebSocket, list[bytes]]:
        heard: list[bytes] = []
        socket = await self.sockets.open(self.origin, "/laptop/time/ws", [], subprotocol="mcp")
        socket.on_message = heard.append
        return socket, heard

    async def status(self) -> Any:
        [path] = status_sockets(self.places).glob("client-*.sock")
        return await asyncio.to_thread(ask_socket, path, "GET", "/status")

    async def ended(self) -> int:
        assert self.task is not None
        async with within():
            return await self.task


@asynccontextmanager
async def near(tmp_path: Path, **options: Any) -> AsyncIterator[Near]:
    async with (
        harness(tmp_path, RelayPolicy(grace_s=options.pop("grace_s", 30.0))) as relay,
        wire_to(relay.port) as wire,
    ):
        server, token = Server(), tmp_path / "token"
        agent = await relay.connect(relay.token("laptop", "time"), await relay.serve(server))
        token.write_text(relay.token("phone", calls="laptop/*"))
        made = Near(relay, server, agent, wire, Places(tmp_path / "home", 0))
        wish = Wish(relay=f"ws://127.0.0.1:{wire.port}", servers=("laptop/time",), token=f"file:{token}")
        await made.start(wish, **options)
        try:
            yield made
        finally:
            made.stop.request("the test is over")
            made.stop.request("now")
            if made.task is not None:
                await asyncio.wait([made.task])
            await made.sockets.aclose()


async def test_it_tells_how_it_is(tmp_path: Path) -> None:
    async with near(tmp_path) as here:
        assert (await here.ask())["path"] == "/time/mcp"
        [told] = await here.status()
        assert (told["state"], told["name"], told["servers"]) == ("connected", "phone", ["laptop/time"])
        assert told["urls"] == here.urls and told["calls"] == 1 and told["last_error"] is None
        here.stop.request("enough")
        assert await here.ended() == 0
        assert not list(status_sockets(here.places).glob("*.sock"))
        assert here.relay.relay.registry.counts == (1, 0), "its goodbye was heard before it ended"


async def test_calls_on_a_websocket_are_waited_for_at_its_end(tmp_path: Path) -> None:
    async with near(tmp_path) as here:
        socket, heard = await here.socket()
        socket.send(CALL)
        await until(lambda: heard)  # of "you said", which is no answer to a call
        here.stop.request("SIGTERM")
        assert here.task is not None
        await asyncio.sleep(0.3)
        assert not here.task.done()
        socket.close(1000, "")
        assert await here.ended() == 0


async def test_a_websocket_without_a_call_is_not_waited_for(tmp_path: Path) -> None:
    async with near(tmp_path) as here:
        await here.socket()
        here.stop.request("SIGTERM")
        async with within(5):
            assert await here.ended() == 0


async def test_a_call_on_a_websocket_that_does_not_end_is_cut_and_counts(tmp_path: Path) -> None:
    async with near(tmp_path, drain_timeout_s=0.2) as here:
        socket, heard = await here.socket()
        socket.send(CALL)
        await until(lambda: heard)
        here.stop.request("SIGTERM")
        assert await here.ended() == 3
        await until(lambda: len(heard) == 2)
        assert json.loads(heard[1])["error"]["data"] == {"reason": "shutting_down", "retryable": False}


async def test_a_call_waits_for_a_lost_link_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "RelayPolicy", lambda: RelayPolicy(hold_s=0.3))
    async with near(tmp_path) as here:
        under_way = asyncio.create_task(here.ask("hold"))
        await until(lambda: here.server.held)
        here.wire.take_down()
        async with within(5):
            told = await under_way
        assert told["error"]["data"] == {"reason": "relay_lost", "retryable": False}
        async with within(5):
            told = await here.ask()
        assert told["error"]["data"] == {"reason": "relay_lost", "retryable": True}
        here.wire.put_up()
        await until(lambda: here.is_connected)
        assert (await here.ask())["path"] == "/time/mcp"


async def test_a_websocket_waits_for_a_lost_link_as_long_as_nothing_is_asked_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "RelayPolicy", lambda: RelayPolicy(hold_s=0.3))
    async with near(tmp_path) as here:
        idle, heard = await here.socket()
        asking, answers = await here.socket()
        here.wire.take_down()
        assert (await here.ask())["error"]["data"]["reason"] == "relay_lost"
        asking.send(CALL)
        await until(lambda: answers)
        assert json.loads(answers[0])["error"]["data"] == {"reason": "relay_lost", "retryable": False}
        here.wire.put_up()
        await until(lambda: here.is_connected)
        idle.send(b"ahoy")
        await until(lambda: heard)
        assert heard == [b"you said ahoy"]


async def test_a_stream_that_only_listens_is_not_waited_for_at_either_end(tmp_path: Path) -> None:
    async with near(tmp_path, drain_timeout_s=7200.0) as here:
        client = Client(here.origin)
        fields = [(b"Mcp-Method", b"subscriptions/listen")]
        await client.request("POST", "/laptop/time/mcp?events", fields, CALL)
        assert here.agent.answering.in_flight == 1 and not here.agent.answering.calls_in_flight
        here.stop.request("SIGTERM")
        assert await here.ended() == 0
        await client.aclose()


async def test_a_call_that_the_link_came_back_for_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "RelayPolicy", lambda: RelayPolicy(hold_s=0.5))
    quick = AgentPolicy(first_delay_s=0.01, longest_delay_s=0.02)
    monkeypatch.setattr(calling, "AgentPolicy", lambda: quick)
    async with near(tmp_path) as here:
        under_way = asyncio.create_task(here.ask("hold"))
        await until(lambda: here.server.held)
        for _ in range(8):  # that one of them is lost when a hold of another loss is over
            [before] = here.carriers
            here.wire.cut()
            await until(partial(here.is_carried_anew, before))
            await asyncio.sleep(0.1)
        here.server.held[0].respond(Response(200, b'{"done":1}', [(b"content-type", b"application/json")]))
        assert await under_way == {"done": 1}


async def test_the_address_is_told_when_the_relay_has_let_us_in(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay:
        token = tmp_path / "token"
        token.write_text("mrt_aaaaaaaaaaaa_" + "A" * 43)
        wish = Wish(relay=f"ws://127.0.0.1:{relay.port}", servers=("laptop/time",), token=f"file:{token}")
        told: list[Any] = []
        running = partial(calling.run, places=Places(tmp_path, 0), port=0, drain_timeout_s=1.0)
        with pytest.raises(UserError, match="does not know this token"):
            await running(wish, stop=Stop(time.monotonic), on_connected=told.append)
        assert told == []
        await relay.connect(relay.token("laptop", "time"), await relay.serve(Server()))
        token.write_text(relay.token("phone", calls="laptop/*"))
        stop = Stop(time.monotonic)
        task = asyncio.create_task(running(wish, stop=stop, on_connected=told.append))
        await until(lambda: told)
        relay.listener.abort()
        await until(lambda: not any(one.is_attached for one in relay.relay.registry.snapshot()))
        stop.request("the test is over")
        await task
        assert len(told) == 1 and set(told[0]) == {"laptop/time"}
