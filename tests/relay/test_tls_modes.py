"""The whole of `mooring relay` in every TLS mode: an agent connects, a call passes, it ends as it should."""

import asyncio
import contextlib
import dataclasses
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.control_sockets import ask_socket
from mooring.errors import ListenFailed, UserError, exit_status
from mooring.host import relaying
from mooring.host.relay_options import AcmeOptions, RelayOptions
from mooring.host.stop import Stop
from mooring.http.client import Client
from mooring.http.client_errors import NotSent
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.relay.agent import Agent, Target
from mooring.relay.answering import Answering
from mooring.relay.certificates.policy import CertificatePolicy
from mooring.relay.policy import AgentPolicy
from mooring.relay.state_folder import control_socket, make_state, tokens_path
from mooring.relay.token_file import TokenFile, Wanted
from mooring.relay.words import Head
from tests.relay.harness import LocalDoor, bearer
from tests.relay.pebble import BLOCKED, Pebble, pebble_running, require_pebble
from tests.relay.peers import peers_of
from tests.relay.running import answers, certified, end_listening
from tests.relay.test_calls import CALL, MIB, Server
from tests.relay.wire import wire_to
from tests.support import free_port, until, within

MODES = ("insecure", "tls", "http-01", "tls-alpn-01")
DOMAIN = "relay.example.com"


class Way:
    """How a relay is reached in one mode."""

    def __init__(self, options: RelayOptions, port: int, tls: ssl.SSLContext | None, host: str) -> None:
        self.options = options
        self.origin = Origin(host="127.0.0.1", port=port, tls=tls) if tls is None else _Named(host, port, tls)
        self.port = port


class _Named(Origin):
    """Reached at 127.0.0.1 under another name: what DNS would do."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        super().__init__(host="127.0.0.1", port=port, tls=tls)
        object.__setattr__(self, "_name", host)

    @property
    def authority(self) -> str:
        return f"{self.__dict__['_name']}:{self.port}"


@pytest.fixture(scope="module", autouse=True)  # before anybody looks which processes there are
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    require_pebble()
    with pebble_running(tmp_path_factory.mktemp("pebble")) as running:
        yield running


def _for_name(context: ssl.SSLContext) -> ssl.SSLContext:
    # The test dials an address, and asyncio would check that; the chain is checked all the same.
    context.check_hostname = False
    return context


@pytest.fixture(params=MODES)
def way(request: pytest.FixtureRequest, tmp_path: Path, pebble: Pebble) -> Way:
    state, port = tmp_path / "state", free_port()
    make_state(state)
    if request.param == "insecure":
        return Way(RelayOptions(state=state, insecure_listen=("127.0.0.1", port)), port, None, "")
    if request.param == "tls":
        cert, key, trust = certified(tmp_path, DOMAIN)
        options = RelayOptions(state=state, tls_cert=cert, tls_key=key, listen=("127.0.0.1", port))
        return Way(options, port, _for_name(trust), DOMAIN)
    by_http = request.param == "http-01"
    options = RelayOptions(
        state=state,
        domain=DOMAIN,
        acme=AcmeOptions(directory=pebble.url, ca_file=pebble.ca_file),
        listen=("127.0.0.1", pebble.tls_port),
        http_listen=("127.0.0.1", pebble.http_port) if by_http else None,
        allow_root=True,
        is_production=True,
    )
    return Way(options, pebble.tls_port, _for_name(pebble.trust()), DOMAIN)


@contextlib.asynccontextmanager
async def relay_of(way: Way) -> AsyncIterator[tuple[Stop, "asyncio.Task[int]"]]:
    stop = Stop(time.monotonic)
    task = asyncio.create_task(relaying.run(way.options, stop))
    try:
        yield stop, task
    finally:
        stop.request("the test is over")
        await asyncio.gather(task, return_exceptions=True)


async def test_agent_call_and_end(way: Way, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tokens = TokenFile(tokens_path(way.options.state))
    [laptop, phone] = tokens.create(
        Wanted(name="laptop", servers=("time",)), Wanted(name="phone", calls=("laptop/time",))
    )
    server = Server()
    local = Listener(server)
    [(_, local_port)] = await local.listen_tcp("127.0.0.1", 0)
    door = LocalDoor(local_port, ("time",))
    policy = AgentPolicy(first_delay_s=0.05, longest_delay_s=0.2)
    answering = Answering(door, policy)
    target = Target(
        origin=way.origin, path="/v1/server", shown="the relay", servers=("time",), token=lambda: laptop.text
    )
    agent = Agent(target, policy, on_open=answering.open)
    client = Client(way.origin)
    async with within(60), relay_of(way) as (stop, running):
        connecting = asyncio.create_task(agent.run())
        await until(lambda: agent.is_connected or running.done() or connecting.done(), 40)
        assert agent.is_connected, running.exception() if running.done() else agent.last_error
        response = await client.request("POST", "/laptop/time/mcp", bearer(phone.text), CALL)
        assert response.status == 201 and len(await response.read(MIB)) > 0
        ended: list[tuple[int, str]] = []
        carrier = agent._carrier
        assert carrier is not None
        heard, carrier._on_lost = carrier._on_lost, lambda code, reason: ended.append((code, reason))
        assert heard is not None
        stop.request("SIGTERM")
        assert await running == 0
        await until(lambda: ended)
        assert ended == [(1001, "shutting down")]
        heard(*ended[0])
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", way.port)
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
    for closing in (agent, answering, door, client, local):
        await closing.aclose()
    for secret in (laptop.text, phone.text):
        assert secret not in caplog.text


def ordering(pebble: Pebble, state: Path, domain: str) -> RelayOptions:
    """A relay whose port 80 leads nowhere yet."""
    make_state(state)
    policy = CertificatePolicy(first_poll_s=0.02, first_retry_s=0.2)
    return RelayOptions(
        state=state,
        domain=domain,
        acme=AcmeOptions(directory=pebble.url, ca_file=pebble.ca_file, policy=policy),
        listen=("127.0.0.1", pebble.tls_port),
        http_listen=("127.0.0.1", free_port()),
    )


async def test_a_first_order_that_fails_is_tried_again_by_a_relay_that_stays(
    tmp_path: Path, pebble: Pebble, caplog: pytest.LogCaptureFixture
) -> None:
    """Started anew each time, it would use up what the authority forgives."""
    caplog.set_level(logging.INFO)
    options = ordering(pebble, tmp_path / "state", DOMAIN)
    assert options.http_listen is not None

    def logged(event: str) -> list[str]:
        return [one.getMessage() for one in caplog.records if getattr(one, "event", "") == event]

    async def status() -> Any:
        return await asyncio.to_thread(ask_socket, control_socket(options.state), "GET", "/status")

    named = _Named(DOMAIN, pebble.tls_port, _for_name(pebble.trust()))
    client = Client(named)
    async with within(60), relay_of(Way(options, pebble.tls_port, named.tls, DOMAIN)) as (stop, running):
        await until(lambda: logged("certificate_trouble") or running.done(), 40)
        assert not running.done(), running.exception()
        [first, *_] = logged("certificate_trouble")
        assert "did not find this relay" in first and "next try in" in first and "port 80 of" in first
        await until(lambda: logged("listening"))
        assert (await status())["state"] == "no certificate"
        with pytest.raises(NotSent):
            await client.request("GET", "/readyz", [])
        async with wire_to(options.http_listen[1], at=pebble.http_port):
            await until(lambda: logged("certificate_obtained"), 40)
        assert (await client.request("GET", "/readyz", [])).status == 200
        assert (await status())["state"] == "ready"
        stop.request("SIGTERM")
        assert await running == 0
    await client.aclose()


async def test_what_time_does_not_heal_ends_it(
    tmp_path: Path, pebble: Pebble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    options = ordering(pebble, tmp_path / "state", BLOCKED)
    with pytest.raises(UserError) as caught:
        async with within(60):
            await relaying.run(options, Stop(time.monotonic))
    assert (caught.value.code, exit_status(caught.value)) == ("domain_refused", 2)
    assert "next try" not in caplog.text, "whoever ends tries nothing again, and says once why"


async def test_no_port_answers_and_no_task_is_left(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    metrics, others = free_port(), asyncio.all_tasks()
    way.options = dataclasses.replace(way.options, metrics_listen=("127.0.0.1", metrics))
    by_http = way.options.http_listen
    ports = [way.port, metrics, *([by_http[1]] if way.options.domain and by_http is not None else [])]
    async with within(60), relay_of(way) as (stop, running):
        await until(lambda: "relaying at" in caplog.text or running.done(), 40)
        assert [await answers(port) for port in ports] == [True] * len(ports)
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert names >= {"relay", *(["certificates"] if way.options.domain else [])}
        stop.request("SIGTERM")
        assert await running == 0
        assert asyncio.all_tasks() == others
        assert [await answers(port) for port in ports] == [False] * len(ports)
        assert not control_socket(way.options.state).exists()


@pytest.mark.parametrize("way", ["http-01"], indirect=True)
async def test_when_port_80_dies_the_others_are_drained_first(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tokens = TokenFile(tokens_path(way.options.state))
    [laptop] = tokens.create(Wanted(name="laptop", servers=("time",)))
    assert way.options.http_listen is not None
    _, port_80 = way.options.http_listen
    async with within(60), relay_of(way) as (_, running), peers_of(way.port, way.origin) as peers:
        await until(lambda: "relaying at" in caplog.text or running.done(), 40)
        agent, client = await peers.agent(laptop.text), await peers.client(laptop.text)
        call = client.call("laptop/time", CALL)
        await until(lambda: agent.opened)
        end_listening(port_80)
        await until(lambda: "stopping" in caplog.text)
        assert not call.is_over and client.closed is None
        stream, _, _ = agent.opened[0]
        stream.head(Head(200))
        stream.send(b"done")
        stream.end()
        assert bytes((await call.over()).data) == b"done"
        with pytest.raises(ListenFailed, match=f"127.0.0.1:{port_80} cannot be listened on") as caught:
            await running
        assert exit_status(caught.value) == 1
        assert await client.gone() == (1001, "shutting down")
        assert not await answers(way.port) and not await answers(port_80)


@pytest.mark.parametrize("way", ["http-01", "tls-alpn-01"], indirect=True)
async def test_a_signal_during_the_first_order_ends_it(way: Way, pebble: Pebble) -> None:
    """The authority looks for the relay, and does not find it: somebody listens there who says nothing."""
    listen, by_http = ("127.0.0.1", free_port()), way.options.http_listen is not None
    if by_http:
        way.options = dataclasses.replace(way.options, http_listen=listen)
    else:
        way.options = dataclasses.replace(way.options, listen=listen)
    ports = [listen[1], pebble.tls_port] if by_http else [listen[1]]
    asked: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(
        lambda reader, writer: asked.append(writer),
        "127.0.0.1",
        pebble.http_port if by_http else pebble.tls_port,
    )
    others = asyncio.all_tasks()
    async with silent, within(60), relay_of(way) as (stop, running):
        await until(lambda: asked or running.done(), 40)
        assert not running.done()
        assert [await answers(port) for port in ports] == [True] * len(ports)
        stop.request("SIGTERM")
        assert await running == 0
        assert asyncio.all_tasks() == others
        assert [await answers(port) for port in ports] == [False] * len(ports)
        assert not control_socket(way.options.state).exists()
        for writer in asked:
            writer.transport.abort()
