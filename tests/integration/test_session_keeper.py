"""Sessions go on after Mooring itself was restarted: the same id, another process, all that was said."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.host.routes import add_routes
from mooring.http.router import Router
from mooring.proxy.policy import SessionPolicy
from mooring.store.database import StoreError
from mooring.store.records import Session as Record
from mooring.store.store import Store
from mooring.workloads import session_keeper
from mooring.workloads.definition import ServerOptions
from mooring.workloads.session_keeper import SessionKeeper
from mooring.workloads.workload import Workload
from tests.hosting import ENVIRONMENT, SCRIPTED, SHORT
from tests.http_client import serving
from tests.mcp_client import McpClient, client_of
from tests.support import until, within
from tests.websocket_client import ws_client


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "WRITE_S", 0.01)


class Book:
    """A store for one workload, whose pen may break."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory, time.time)
        self.store.claim(1, "boot")
        self.generation = self.store.add("test", b"{}").generation
        self.broken = False
        self.tries = 0

    async def write(self, changed: list[Record], ended: list[str]) -> None:
        self.tries += 1
        if self.broken:
            raise StoreError("the disk is full", code="disk_full")
        self.store.keep_sessions("test", self.generation, changed, ended)

    def ids(self) -> list[str]:
        return [record.id for record in self.store.sessions("test")]


@asynccontextmanager
async def kept(book: Book, **sessions: Any) -> AsyncIterator[int]:
    """A server that knows what an earlier one wrote into the book, and writes on; its port."""
    policy = SessionPolicy(**sessions)
    options = ServerOptions(name="test", argv=SCRIPTED, env=ENVIRONMENT, patience=SHORT, sessions=policy)
    workload = Workload(options, clock=time.monotonic)
    keeper = SessionKeeper(workload.proxy, book.write, clock=time.monotonic, wall=time.time)
    keeper.restore(book.store.sessions("test"))
    router = Router()
    add_routes(router, workload.proxy, "")
    async with serving(router) as served:
        workload.start()
        yield served.port
        await workload.stop("end of test")
        await keeper.aclose()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path)
    yield book
    book.store.close()


async def test_a_session_goes_on_after_a_restart(book: Book) -> None:
    async with kept(book) as port, client_of(port) as client:
        await client.result("logging/setLevel", {"level": "debug"})
        await client.result("resources/subscribe", {"uri": "res://a"})
        session = client.session
    assert book.ids() == [session], "that we stop ends no session"
    async with kept(book) as port, McpClient(port) as client:
        client.session = session
        heard = await client.heard()
        told = [b"initialize", b"notifications/initialized", b"logging/setLevel", b"resources/subscribe"]
        assert all(word in line for word, line in zip(told, heard, strict=False))
        assert (await client.raw("DELETE")).status == 204
        await until(lambda: not book.ids())
    async with kept(book) as port, McpClient(port) as client:
        client.session = session
        assert (await client.raw("POST", client.request("x/pid"))).status == 404


async def test_only_sessions_whose_clients_come_back_by_their_id_are_written(book: Book) -> None:
    async with kept(book) as port, client_of(port) as client, ws_client(port):
        await until(lambda: book.ids() == [client.session])


async def test_what_could_not_be_written_is_written_later(book: Book) -> None:
    async with kept(book) as port:
        book.broken = True
        async with client_of(port) as client:
            await until(lambda: book.tries >= 1)
            assert book.ids() == []
            book.broken = False
            async with within():
                while book.ids() != [client.session]:
                    await client.result("logging/setLevel", {"level": "info"})
                    await asyncio.sleep(0.02)


async def test_a_record_that_cannot_be_read_costs_itself_only(book: Book) -> None:
    async with kept(book) as port, client_of(port) as client:
        session = client.session
        await until(lambda: book.ids() == [session])
    bad = Record("bad", "test", "local", "streamable-http", "", b"{", 1.0, time.time())
    book.store.keep_sessions("test", book.generation, [bad], [])
    async with kept(book) as port, McpClient(port) as client:
        client.session = session
        assert await client.pid()


async def test_the_time_of_the_last_use_is_written(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_keeper, "TOUCH_S", 0.05)
    async with kept(book) as port, client_of(port) as client:
        await until(lambda: book.ids() == [client.session])
        [first] = book.store.sessions("test")
        await client.pid()
        await until(lambda: book.store.sessions("test")[0].used_at > first.used_at)
        assert book.store.sessions("test")[0].opened_at == first.opened_at


async def test_a_session_that_nobody_uses_is_forgotten_in_memory_and_in_the_book(book: Book) -> None:
    async with kept(book, forget_after_s=2.0) as port, client_of(port) as used, client_of(port) as unused:
        await until(lambda: sorted(book.ids()) == sorted([used.session, unused.session]))
        async with within():
            while unused.session in book.ids():
                assert await used.pid()
        assert used.session in book.ids()
        assert (await unused.raw("POST", unused.request("x/pid"))).status == 404
        stream = await used.stream()
        async with client_of(port) as later:
            await until(lambda: later.session in book.ids())
            await until(lambda: later.session not in book.ids())
        assert used.session in book.ids(), "whoever listens uses it"
        stream.reset()


async def test_a_session_that_was_not_used_for_too_long_before_a_restart_is_not_brought_back(
    book: Book,
) -> None:
    async with kept(book) as port, client_of(port) as client:
        session = client.session
    [record] = book.store.sessions("test")
    old = record._replace(used_at=record.used_at - SessionPolicy().forget_after_s + 2.0)
    book.store.keep_sessions("test", book.generation, [old], [])
    async with kept(book) as port, McpClient(port) as client:
        client.session = session
        assert book.ids() == [session]
        await until(lambda: not book.ids())
        assert (await client.raw("POST", client.request("x/pid"))).status == 404


async def test_uses_are_not_written_because_something_else_is(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    async def write(changed: list[Record], ended: list[str]) -> None:
        written.extend(record.id for record in changed)

    monkeypatch.setattr(book, "write", write)
    async with kept(book) as port, client_of(port) as quiet:
        await until(lambda: quiet.session in written)
        for _ in range(3):
            await quiet.pid()
            async with client_of(port) as other:
                await until(lambda: other.session in written)
        # (its `initialize` and its `initialized` may be written together)
        assert written.count(quiet.session) <= 2
    assert written[-1] and written.count(quiet.session) <= 3, "and once more at the end"
