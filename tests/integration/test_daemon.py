"""The daemon, in the test's own loop: its socket, its API, its port, its end."""

import asyncio
import json
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.api.client import ApiClient, NotRunning
from mooring.errors import ListenFailed, MooringError, Unavailable, UserError
from mooring.host import daemon, neighbours
from mooring.host.daemon import DaemonOptions
from mooring.host.ownership import AlreadyOwned, holder
from mooring.host.places import Places, find_places
from mooring.host.stop import Stop
from mooring.store.store import Store
from mooring.workloads import session_keeper
from mooring.workloads.definition import dump_options
from tests.hosting import SCRIPTED
from tests.integration.test_fleet import described
from tests.mcp_client import McpClient, client_of
from tests.support import children, until, within


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(session_keeper, "WRITE_S", 0.01)
    before = children()
    yield
    assert children() <= before


class Life:
    """One run of the daemon."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.stop = Stop(time.monotonic)
        self.client = ApiClient(places.socket)
        self.task: asyncio.Task[int] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self.client.ask, method, path, body)

    async def run(self, name: str, *words: str, replace: bool = False) -> Any:
        options = msgspec.json.decode(dump_options(described(name, *words)))
        return await self.ask("PUT", f"/servers/{name}", {"options": options, "replace": replace})

    async def end(self) -> int:
        assert self.task is not None
        self.stop.request("end of test")
        async with within(60):
            return await self.task


@asynccontextmanager
async def living(state: Path, port: int = 0, **options: Any) -> AsyncIterator[Life]:
    life = Life(Places(state, port))
    options = {"drain_timeout_s": 2.0, **options}
    life.task = asyncio.create_task(daemon.run(DaemonOptions(places=life.places, **options), life.stop))
    await until(lambda: life.places.socket.exists() or life.task is None or life.task.done())
    try:
        yield life
    finally:
        if not life.task.done():
            await life.end()


async def test_a_server_from_the_first_to_the_last_word(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        about = await life.ask("GET", "/daemon")
        await until(lambda: holder(life.places.lock) == about)  # written as soon as it answers
        assert await life.ask("GET", "/servers") == []
        done = await life.run("one")
        assert done["changed"] and done["server"]["name"] == "one"
        url = done["server"]["url"]
        assert url == f"http://127.0.0.1:{about['port']}/one/mcp"
        async with client_of(about["port"], path="/one/mcp") as client:
            pid = await client.pid()
            [server] = await life.ask("GET", "/servers")
            assert (server["state"], server["sessions"], server["generation"]) == ("ready", 1, 1)
            assert pid in [instance["pid"] for instance in server["instances"]]
            assert server["memory_bytes"] > 1_000_000 and server["command"] == list(SCRIPTED)
            assert not (await life.run("one"))["changed"]
            with pytest.raises(UserError, match="another definition"):
                await life.run("one", "--mute")
            await life.ask("POST", "/servers/one/restart")
            assert await client.pid() != pid, "the session goes on"
            await life.ask("POST", "/servers/one/stop")
            answer = await client.raw("POST", client.request("x/pid"))
            assert (answer.status, "retry-after" in answer.headers) == (503, True)
            assert "mooring start one" in answer.body.decode()
            await life.ask("POST", "/servers/one/start")
            assert await client.pid()
        assert (await life.ask("DELETE", "/servers/one"))["cut"] == 0
        async with McpClient(about["port"], path="/one/mcp") as client:
            assert (await client.raw("POST", client.request("x/pid"))).status == 404
        for method, path in (("GET", "/servers/one"), ("DELETE", "/servers/one"), ("GET", "/nothing")):
            with pytest.raises(UserError):
                await life.ask(method, path)
    with pytest.raises(NotRunning):
        life.client.ask("GET", "/daemon")


async def test_sessions_and_servers_come_back_with_the_next_one(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        await life.run("one")
        await life.run("two")
        await life.ask("POST", "/servers/two/stop")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            session = client.session
    async with living(tmp_path, port) as life, McpClient(port, path="/one/mcp") as client:
        client.session = session
        async with within():
            while (await client.raw("POST", client.request("x/any"))).status != 200:
                await asyncio.sleep(0.02)
        states = {server["name"]: server["state"] for server in await life.ask("GET", "/servers")}
        assert states["two"] == "stopped" and states["one"] in ("starting", "ready")


async def test_a_session_is_never_unknown_while_its_server_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Store.sessions

    def read_slowly(store: Store, name: str) -> Any:
        time.sleep(0.3)
        return read(store, name)

    monkeypatch.setattr(Store, "sessions", read_slowly)
    async with living(tmp_path) as life:
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            statuses = []
            restarting = asyncio.create_task(life.ask("POST", "/servers/one/restart"))
            async with within():
                while not restarting.done():
                    statuses.append((await client.raw("POST", client.request("x/any"))).status)
                await restarting
            assert set(statuses) == {200}


async def hammered(client: McpClient, is_over: asyncio.Event) -> list[tuple[int, bytes]]:
    """What a client is told that calls again and again until then, where it was not an answer."""
    wrong = []
    while not is_over.is_set():
        answer = await client.raw("POST", client.request("x/pid"))
        if answer.status != 200 or b'"result"' not in answer.body:
            wrong.append((answer.status, answer.body))
        await asyncio.sleep(0)
    return wrong


@pytest.mark.parametrize("restarts", [3])
async def test_calls_that_come_during_a_restart_wait_for_its_end(tmp_path: Path, restarts: int) -> None:
    async with living(tmp_path) as life:
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            is_over = asyncio.Event()
            calling = asyncio.create_task(hammered(client, is_over))
            for _ in range(restarts):
                await life.ask("POST", "/servers/one/restart")
            is_over.set()
            async with within():
                assert await calling == []


async def test_the_first_call_after_a_restart_of_the_daemon_is_served(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            session = client.session
            assert await client.pid()
    async with living(tmp_path, port), McpClient(port, path="/one/mcp") as client:
        client.session = session
        assert await client.pid()


async def test_whoever_calls_a_server_that_is_stopped_then_is_told_so_and_keeps_its_session(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as life:
        await life.run("one", "--deaf-to", "nothing")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            is_over = asyncio.Event()
            calling = asyncio.create_task(hammered(client, is_over))
            await life.ask("POST", "/servers/one/stop")
            is_over.set()
            async with within():
                assert {status for status, _ in await calling} <= {503}
            await life.ask("POST", "/servers/one/start")
            assert await client.pid()


async def test_there_is_one_daemon_for_a_directory(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        with pytest.raises(AlreadyOwned):
            await daemon.run(DaemonOptions(places=life.places), Stop(time.monotonic))
        assert (await life.ask("GET", "/daemon"))["pid"]


async def test_there_is_one_daemon_for_a_directory_whose_lock_was_removed(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        life.places.lock.unlink()
        with pytest.raises(AlreadyOwned, match=f"pid {os.getpid()}"):
            await daemon.run(DaemonOptions(places=life.places), Stop(time.monotonic))
        await life.run("one")
        assert (await life.ask("GET", "/servers/one"))["state"], "it still owns its state"


async def refused_at(port: int, state: Path) -> ListenFailed:
    with pytest.raises(ListenFailed) as caught:
        await daemon.run(DaemonOptions(places=Places(state, port)), Stop(time.monotonic))
    assert f"MOORING_PORT={port + 1}" in caught.value.hint
    return caught.value


async def test_a_port_that_is_taken_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with living(tmp_path / "a") as life:
        port = (await life.ask("GET", "/daemon"))["port"]
        assert "another Mooring" in (await refused_at(port, tmp_path / "b")).message

    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    monkeypatch.setattr(neighbours, "PATIENCE_S", 0.05)
    for strange in (chatter, silence):
        async with within(), await asyncio.start_server(strange, "127.0.0.1", 0) as other:
            port = other.sockets[0].getsockname()[1]
            error = await refused_at(port, tmp_path / "c")
            assert "already in use" in error.message and "Mooring" not in error.message


async def test_the_api_on_the_port_needs_the_token(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        port = (await life.ask("GET", "/daemon"))["port"]
        assert life.places.token.stat().st_mode & 0o077 == 0
        token = life.places.token.read_text().strip()
        async with McpClient(port, path="/api/v1/servers") as client:
            assert (await client.raw("GET")).status == 401
            answer = await client.raw("GET", Authorization=f"Bearer {token}")
            assert (answer.status, json.loads(answer.body)) == (200, [])
            answer = await client.raw("GET", Authorization=f"Bearer {token}", Host="evil.example")
            assert answer.status == 403


async def test_a_token_that_a_full_disk_left_empty_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    (tmp_path / "token.new").touch()
    async with living(tmp_path) as life:
        assert len(life.places.token.read_text().strip()) > 30
        assert not (tmp_path / "token.new").exists()


async def test_the_document_of_the_api(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        document = await life.ask("GET", "/openapi.json")
        assert document["openapi"].startswith("3.1")
        assert set(document["paths"]["/api/v1/servers/{name}"]) == {"get", "put", "delete"}
        assert {"Server", "Daemon", "Changed", "Problem"} <= set(document["components"]["schemas"])


async def test_calls_in_flight_are_finished_first(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        await life.run("one")
        port = (await life.ask("GET", "/daemon"))["port"]
        async with client_of(port, path="/one/mcp") as client:
            held = await client.send("POST", client.request("x/hold"))
            async with within():
                while not (await life.ask("GET", "/servers/one"))["calls"]:
                    pass
            ending = asyncio.create_task(life.end())
            async with within():
                assert b"shutting_down" in (await held.answer()).body
            assert await ending == 3


async def test_the_daemon_can_be_asked_to_end(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        await life.ask("POST", "/daemon/stop")
        assert life.task is not None
        async with within():
            assert await life.task == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "malformed"),
        (b'{"options": {}}', "malformed"),
        (b'{"options": {"argv": "x"}}', "malformed"),
        (b"[]", "malformed"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(tmp_path: Path, body: bytes, words: str) -> None:
    async with living(tmp_path) as life:
        token = life.places.token.read_text().strip()
        port = (await life.ask("GET", "/daemon"))["port"]
        async with McpClient(port, path="/api/v1/servers/one") as client:
            head = client.head("POST", body, Authorization=f"Bearer {token}").replace(b"POST", b"PUT", 1)
            peer = await client.peer()
            peer.send(head)
            async with within():
                answer = await peer.answer()
            assert answer.status == 400 and words in answer.body.decode()


async def test_metrics_of_all_servers_are_on_one_page(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        port = (await life.ask("GET", "/daemon"))["port"]
        for name in ("one", "two"):
            await life.run(name)
        async with client_of(port, path="/two/mcp") as client, McpClient(port, path="/metrics") as watch:
            await client.pid()
            answer = await watch.raw("GET")
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            families = list(text_string_to_metric_families(answer.body.decode()))
            found = {
                (sample.name, *sample.labels.values()): sample.value
                for family in families
                for sample in family.samples
            }
            assert len({family.name for family in families}) == len(families), "each in one place"
            assert found["mooring_sessions", "two", "live"] == 1
            assert (found["mooring_calls_total", "one"], found["mooring_calls_total", "two"]) == (0, 2)
            assert found["mooring_call_duration_seconds_count", "two"] == 2
            assert found["mooring_connections",] >= 1 and ("mooring_connections", "one") not in found
            assert found["mooring_held_bytes", "two", "calls"] == found["mooring_held_bytes", "answers"] == 0
            await life.ask("DELETE", "/servers/two")
            page = (await watch.raw("GET")).body.decode()
            assert 'server="one"' in page and 'server="two"' not in page
            assert (await watch.raw("GET", Host="evil.example")).status == 403


async def test_connections_leave_half_of_all_descriptors_to_the_servers(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        async with living(tmp_path) as life:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))  # for the other ends, which are ours too
            port = (await life.ask("GET", "/daemon"))["port"]
            async with McpClient(port, path="/livez") as client, within():
                peers = [await client.peer() for _ in range(51)]
                for peer in peers:
                    peer.send(client.head("GET"))
                assert [(await peer.answer()).status for peer in peers] == [200] * 50 + [503]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_places(tmp_path: Path) -> None:
    assert find_places({"MOORING_STATE_DIR": str(tmp_path), "MOORING_PORT": "5"}) == Places(tmp_path, 5)
    assert find_places({"XDG_STATE_HOME": str(tmp_path)}) == Places(tmp_path / "mooring", 4670)
    with pytest.raises(UserError, match="no port"):
        find_places({"MOORING_PORT": "many"})
    deep = Places(tmp_path / ("x" * 120), 1)
    assert len(str(deep.socket)) < 100
    deep.make()
    assert deep.socket.parent.stat().st_mode & 0o077 == 0


async def test_a_directory_with_a_long_name(tmp_path: Path) -> None:
    async with living(tmp_path / ("x" * 120)) as life:
        assert (await life.ask("GET", "/daemon"))["pid"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "connection_lost"),
        (b"SSH-2.0\r\n", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "api_mismatch"),
        (b"HTTP/1.1 200 OK\r\nMooring-Api: 2\r\n\r\n{}", "api_mismatch"),
        (b"HTTP/1.1 200 OK\r\nMooring-Api: 1\r\n\r\n{", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nMooring-Api: 1\r\n\r\n" + b" " * 200, "bad_answer"),
    ],
)
async def test_answers_that_make_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, code: str
) -> None:
    monkeypatch.setattr("mooring.api.client.MAX_ANSWER_BYTES", 100)

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(say, tmp_path / "s"):
        with pytest.raises(MooringError) as caught:
            await asyncio.to_thread(ApiClient(tmp_path / "s").ask, "GET", "/servers")
    assert caught.value.code == code


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        ApiClient(tmp_path / "nothing").ask("GET", "/daemon")
    assert issubclass(AlreadyOwned, Unavailable)
