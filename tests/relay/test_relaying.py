"""The whole of `mooring relay`: from its options to its exit status, and nothing is left."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.errors import ListenFailed, MooringError, Unavailable, UserError, exit_status
from mooring.host import relaying
from mooring.host.relay_options import RelayOptions
from mooring.host.stop import Stop
from mooring.http.websocket_client import Refused
from mooring.relay.envelope import Kind
from mooring.relay.policy import RelayPolicy
from mooring.relay.token_file import Wanted
from mooring.relay.words import Reset
from tests.relay.harness import bearer
from tests.relay.peers import AGENT, CLIENT, peers_of
from tests.relay.running import Running, answers, running
from tests.relay.test_calls import MIB
from tests.support import free_port, until, within

pytestmark = pytest.mark.usefixtures("no_secret_in_logs")

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"tell-nobody"}}'


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, metrics_listen=("127.0.0.1", free_port())) as made:
        made.usual_tokens()
        await made.start()
        yield made


def other_tasks() -> "set[asyncio.Task[object]]":
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


# Its life -----------------------------------------------------------------------------------------


async def test_from_a_caller_to_a_server_and_back(relay: Running) -> None:
    await relay.laptop()
    response = await relay.client().request("POST", "/laptop/time/mcp", bearer(relay.phone), CALL)
    assert response.status == 201
    seen = json.loads(await response.read(MIB))
    assert seen["body"].encode() == CALL and seen["headers"]["x-caller"] == "phone"
    assert await relay.end() == 0


async def test_when_it_has_returned_no_port_answers_and_no_task_is_left(tmp_path: Path) -> None:
    before, metrics = other_tasks(), free_port()
    async with running(tmp_path, metrics_listen=("127.0.0.1", metrics)) as relay:
        relay.usual_tokens()
        await relay.start()
        agent, client = await relay.peers.agent(relay.laptops), await relay.peers.client(relay.phone)
        call = client.call("laptop/time", CALL)
        await until(lambda: agent.opened)
        control = relaying.control_socket(relay.options.state)
        assert await answers(relay.port) and await answers(metrics) and control.exists()
        assert call.stream is not None
        call.stream.give_up(Reset("enough"))
        assert await relay.end() == 0
        assert not await answers(relay.port) and not await answers(metrics) and not control.exists()
        assert other_tasks() - before <= {relay.task}
        with pytest.raises(OSError):
            await asyncio.open_unix_connection(control)


async def test_status_tells_who_is_connected(relay: Running) -> None:
    agent = await relay.peers.agent(relay.laptops, "time,notes")
    client = await relay.peers.client(relay.phone)
    call = client.call("laptop/time", CALL)
    await until(lambda: agent.opened)
    agent.say(b"bad")
    await until(lambda: True)
    agent.socket.abort()

    async def told() -> dict[str, object]:
        return (await relay.control("GET", "/status"))["agents"][0]  # type: ignore[no-any-return]

    async with within():
        while (await told())["state"] != "lost":
            await asyncio.sleep(0.01)
    status = await relay.control("GET", "/status")
    [laptop], [phone] = status["agents"], status["clients"]
    assert laptop["name"] == "laptop" and laptop["servers"] == ["notes", "time"]
    assert (laptop["calls"], laptop["open"], laptop["bad_envelopes"]) == (1, 1, 1)
    assert (phone["name"], phone["state"], phone["calls"], phone["reconnects"]) == (
        "phone",
        "connected",
        1,
        0,
    )
    assert status["state"] == "ready" and status["pid"] == os.getpid() and status["certificate"] is None
    assert status["urls"] == [f"http://127.0.0.1:{relay.port}"]
    assert relay.laptops not in json.dumps(status) and relay.phone not in json.dumps(status)
    assert agent.welcome is not None and agent.welcome.link not in json.dumps(status)
    await relay.peers.agent(relay.laptops, "time", again=agent)
    assert (await told())["reconnects"] == 1 and (await told())["servers"] == ["time"]
    assert not call.is_over


async def test_the_folder_is_its_owners_alone(relay: Running) -> None:
    state = relay.options.state
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    for path in state.iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    kept = b"".join(path.read_bytes() for path in state.iterdir() if path.is_file())
    for token in (relay.laptops, relay.phone):
        secret = token.split("_", 2)[2]
        assert len(secret) == 43 and secret.encode() not in kept


async def test_a_token_made_while_it_runs_is_good_and_a_revoked_one_is_not(tmp_path: Path) -> None:
    async with running(tmp_path, policy=RelayPolicy(acknowledge_s=0.05)) as relay:
        await relay.start()
        token = relay.token("late", "time")
        end = await relay.peers.agent(token)
        relay.tokens.revoke("late")
        assert (await end.gone())[0] == 4401
        with pytest.raises(Refused) as caught:
            await relay.peers.agent(token)
        assert caught.value.status == 401


async def test_a_token_is_good_at_once_at_every_door(tmp_path: Path) -> None:
    """However long it is until the relay looks at the file again."""
    async with running(tmp_path, policy=RelayPolicy(acknowledge_s=3600.0)) as relay:
        await relay.start()
        agent = await relay.peers.agent(relay.token("late", "time"))
        await relay.peers.client(relay.token("phone", calls="late/*"))
        end = await relay.peers.upgrade(AGENT)
        assert (await end.hello(token=relay.token("desk", "time"), servers=["time"])).name == "desk"
        for token, status in ((relay.token("pad", calls="late/*"), 404), ("mrt_x", 401)):
            response = await relay.client().request("POST", "/late/other/mcp", bearer(token), b"{}")
            await response.read(1 << 20)
            assert response.status == status
        assert agent.closed is None


async def test_tokens_that_cannot_be_read_any_more_leave_those_from_before(tmp_path: Path) -> None:
    async with running(tmp_path, policy=RelayPolicy(acknowledge_s=0.05)) as relay:
        relay.usual_tokens()
        await relay.start()
        end = await relay.peers.agent(relay.laptops)
        whole = relay.book.path.read_bytes()
        relay.book.path.write_bytes(b"{ damaged")
        await until(lambda: any("cannot be read" in record.getMessage() for record in relay.records))
        await relay.peers.client(relay.phone)
        assert end.closed is None
        await asyncio.sleep(0.3)
        errors = [record for record in relay.records if "cannot be read" in record.getMessage()]
        assert len(errors) == 1, "told once"
        relay.book.path.write_bytes(whole)


async def test_an_expired_token_ends_what_it_had(tmp_path: Path) -> None:
    async with running(tmp_path, policy=RelayPolicy(acknowledge_s=0.05)) as relay:
        await relay.start()
        [created] = relay.tokens.create(Wanted(name="brief", servers=("time",), lifetime_s=3.0))
        await asyncio.sleep(0.5)
        end = await relay.peers.agent(created.text)
        assert end.closed is None
        assert (await end.gone())[0] == 4401


# What it refuses, and fails at -----------------------------------------------------------------------


async def test_refused_configuration_opens_nothing(tmp_path: Path) -> None:
    port = free_port()
    options = RelayOptions(state=tmp_path / "state", insecure_listen=("0.0.0.0", port))
    with pytest.raises(UserError) as caught:
        await relaying.run(options, Stop(lambda: 0.0))
    assert exit_status(caught.value) == 2 and not (tmp_path / "state").exists()
    assert not await answers(port)


@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
async def test_root_in_production_opens_nothing(tmp_path: Path) -> None:
    options = RelayOptions(
        state=tmp_path / "state", insecure_listen=("127.0.0.1", free_port()), is_production=True
    )
    with pytest.raises(UserError) as caught:
        await relaying.run(options, Stop(lambda: 0.0))
    assert caught.value.code == "relay_as_root" and not (tmp_path / "state").exists()


@pytest.mark.parametrize("which", ["public", "metrics"])
async def test_an_address_that_cannot_be_had_closes_the_others(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, other = taken.getsockname()[1], free_port()
        addresses = {"public": (port, other), "metrics": (other, port)}[which]
        options = RelayOptions(
            state=tmp_path / "state",
            insecure_listen=("127.0.0.1", addresses[0]),
            metrics_listen=("127.0.0.1", addresses[1]),
        )
        with pytest.raises(ListenFailed) as caught:
            await relaying.run(options, Stop(lambda: 0.0))
        assert exit_status(caught.value) == 1
        assert not await answers(other)
        assert not relaying.control_socket(tmp_path / "state").exists()


async def test_two_relays_do_not_share_a_folder(relay: Running) -> None:
    options = RelayOptions(state=relay.options.state, insecure_listen=("127.0.0.1", 0))
    with pytest.raises(Unavailable) as caught:
        await relaying.run(options, Stop(lambda: 0.0))
    assert caught.value.code == "relay_running"
    assert (await relay.control("GET", "/status"))["state"] == "ready", "the first one is as it was"
    assert await relay.end() == 0
    stop = Stop(lambda: 0.0)
    stop.request("at once")
    assert await relaying.run(options, stop) == 0, "and free again"


async def test_damaged_tokens_are_no_tokens(tmp_path: Path) -> None:
    async with running(tmp_path) as relay:
        relay.usual_tokens()
        relay.book.path.write_bytes(b"{ damaged")
        await relay.start()
        with pytest.raises(MooringError):
            await relay.ended()
        assert not relay.events("listening")
        relay.task = None


async def test_a_stop_before_it_began_opens_nothing(tmp_path: Path) -> None:
    port, stop = free_port(), Stop(lambda: 0.0)
    stop.request("SIGTERM")
    options = RelayOptions(state=tmp_path / "state", insecure_listen=("127.0.0.1", port))
    assert await relaying.run(options, stop) == 0
    assert not await answers(port) and not relaying.control_socket(options.state).exists()


async def test_a_socket_file_that_a_killed_one_left_is_no_obstacle(tmp_path: Path) -> None:
    async with running(tmp_path) as relay:
        left = relaying.control_socket(relay.options.state)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))
        await relay.start()
        assert (await relay.control("GET", "/status"))["state"] == "ready"


async def test_it_may_be_told_to_end_at_any_moment_of_its_beginning(tmp_path: Path) -> None:
    for turns in range(12):
        stop = Stop(lambda: 0.0)
        options = RelayOptions(state=tmp_path / "state", insecure_listen=("127.0.0.1", 0))
        task = asyncio.create_task(relaying.run(options, stop))
        for _ in range(turns):
            await asyncio.sleep(0)
        stop.request("SIGTERM")
        async with within():
            assert await task == 0


# In a process of its own ------------------------------------------------------------------------------


class Program:
    """`mooring relay …`, as it is run."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ended(self) -> tuple[int, str]:
        async with within(60):
            _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()


@contextlib.asynccontextmanager
async def program(state: Path, *arguments: str) -> AsyncIterator[Program]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(state), "MOORING_RELAY_STATE": str(state)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mooring",
        "relay",
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--domain"),
        (["--insecure-listen", "0.0.0.0:0"], "--allow-plaintext"),
        (["--insecure-listen", ":0"], "--allow-plaintext"),
        (["--insecure-listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"], "this machine"),
        (["--insecure-listen", "127.0.0.1:0", "--trust-proxy", "0.0.0.0/0"], "everybody"),
        (["--insecure-listen", "127.0.0.1:0", "--domain", "relay.example.com"], "--tls-cert"),
        (["--tls-cert", "missing.pem", "--tls-key", "missing.key", "--listen", "127.0.0.1:0"], "missing"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
async def test_exit_status_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    async with program(tmp_path / "state", *arguments) as relay:
        status, errors = await relay.ended()
    assert status == 2 and words in errors and "Traceback" not in errors


async def test_exit_status_1_for_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with program(tmp_path / "state", "--insecure-listen", f"127.0.0.1:{port}") as relay:
            status, errors = await relay.ended()
    assert status == 1 and str(port) in errors and "Traceback" not in errors


async def started(relay: Program, port: int) -> None:
    async with within(60):
        while not await answers(port):
            assert relay.process.returncode is None
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_exit_status_0_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    async with running(tmp_path) as tokens:
        tokens.usual_tokens()
        async with (
            program(tokens.options.state, "--insecure-listen", f"127.0.0.1:{port}") as relay,
            peers_of(port) as peers,
        ):
            await started(relay, port)
            agent, client = await peers.agent(tokens.laptops), await peers.client(tokens.phone)
            relay.process.send_signal(number)
            for end in (agent, client):
                assert await end.gone() == (1001, "shutting down")
            status, errors = await relay.ended()
        assert status == 0 and "Traceback" not in errors
        assert tokens.laptops not in errors and tokens.phone not in errors


async def test_exit_status_3_for_a_call_that_was_cut(tmp_path: Path) -> None:
    port = free_port()
    async with running(tmp_path) as tokens:
        tokens.usual_tokens()
        arguments = ("--insecure-listen", f"127.0.0.1:{port}", "--drain-timeout", "1s")
        async with program(tokens.options.state, *arguments) as relay, peers_of(port) as peers:
            await started(relay, port)
            agent, client = await peers.agent(tokens.laptops), await peers.client(tokens.phone)
            call = client.call("laptop/time", CALL)
            await until(lambda: agent.opened)
            relay.process.terminate()
            assert (await call.over()).reset is not None
            assert (await relay.ended())[0] == 3


@pytest.mark.parametrize("way", ["command", "option"])
async def test_a_restart_of_the_process(tmp_path: Path, way: str) -> None:
    """By the command it begins anew by itself, at the same address; by the option somebody else does it."""
    port = free_port()
    async with running(tmp_path) as tokens:
        tokens.usual_tokens()
        arguments = ["--insecure-listen", f"127.0.0.1:{port}"]
        arguments += ["--announce-restart"] if way == "option" else []
        async with program(tokens.options.state, *arguments) as relay, peers_of(port) as peers:
            await started(relay, port)
            agent = await peers.agent(tokens.laptops)
            if way == "option":
                relay.process.terminate()
                assert (await agent.gone())[0] == 1012 and (await relay.ended())[0] == 0
            else:
                async with program(tokens.options.state, "restart") as command:
                    status, errors = await command.ended()
                    assert status == 0, errors
                assert (await agent.gone())[0] == 1012
                assert relay.process.returncode is None, "the same process"
                again = await peers.agent(tokens.laptops)
                assert again.welcome is not None and not again.welcome.resumed
                relay.process.terminate()
                assert await again.gone() == (1001, "shutting down")
                assert (await relay.ended())[0] == 0
            assert agent.word(Kind.RESTART) is not None


async def test_commands_say_so_when_no_relay_runs(tmp_path: Path) -> None:
    for command in ("status", "restart"):
        async with program(tmp_path / "state", command) as relay:
            status, errors = await relay.ended()
        assert status == 1 and "no relay runs" in errors


@pytest.mark.parametrize("door", [AGENT, CLIENT])
async def test_doors_are_for_those_with_tokens(relay: Running, door: str) -> None:
    with pytest.raises(Refused) as caught:
        await relay.peers.upgrade(door, "mrt_aaaaaaaaaaaa_" + "A" * 43)
    assert caught.value.status == 401
