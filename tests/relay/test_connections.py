"""The connections that a daemon holds: begun and ended as its file says, whatever becomes of each."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.control_sockets import ask_socket
from mooring.errors import Unavailable
from mooring.host.connection_file import Wish, connections_path, status_sockets, write_wish
from mooring.host.connections import Connections
from mooring.host.places import Places
from mooring.host.relay_target import options_of
from mooring.http.origin import Origin
from mooring.relay.agent import Target
from tests.relay.harness import Harness, harness
from tests.support import until


class Held:
    """A daemon's connections, and its places."""

    def __init__(self, folder: Path, make: Callable[[Wish], Any] | None = None) -> None:
        folder.mkdir()
        self.places = Places(folder, 0)
        self.connections = Connections(
            self.places, make or (lambda wish: options_of(wish, self.places, ("time",)))
        )

    async def want(self, relay: str, wish: Wish | None) -> None:
        write_wish(connections_path(self.places), relay, wish)
        await self.connections.look()

    async def status(self) -> Any:
        path = status_sockets(self.places) / f"daemon-{os.getpid()}.sock"
        return await asyncio.to_thread(ask_socket, path, "GET", "/status")


@asynccontextmanager
async def holding(tmp_path: Path, make: Callable[[Wish], Any] | None = None) -> AsyncIterator[Held]:
    held = Held(tmp_path / "home", make)
    try:
        yield held
    finally:
        await held.connections.aclose()


def wish_for(relay: Harness, tmp_path: Path) -> Wish:
    token = tmp_path / "token"
    token.write_text(relay.token("laptop", "time"))
    return Wish(relay=f"ws://127.0.0.1:{relay.port}", token=f"file:{token}")


async def test_the_relay_has_heard_the_goodbye_when_a_connection_has_ended(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay, holding(tmp_path) as held:
        wish = wish_for(relay, tmp_path)
        for _ in range(5):
            await held.want(wish.relay, wish)
            await until(lambda: relay.relay.registry.counts == (1, 0))
            [told] = await held.status()
            assert (told["state"], told["servers"]) == ("connected", ["time"])
            await held.want(wish.relay, None)
            assert relay.relay.registry.counts == (0, 0) and await held.status() == []


async def test_one_in_which_we_make_a_mistake_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def make(wish: Wish) -> Any:
        options = options_of(wish, held.places, ("time",))
        origin = Origin(host="127.0.0.1", port=1)
        return type(options)(
            places=held.places,
            target=Target(origin=origin, path="/", shown=wish.relay, token=lambda: str(1 / 0)),
        )

    async with holding(tmp_path, make) as held:
        with caplog.at_level(logging.ERROR):
            await held.want("ws://127.0.0.1:1", Wish(relay="ws://127.0.0.1:1", token="env:PATH"))
            await until(lambda: any(record.exc_info for record in caplog.records))
        [told] = await held.status()
        assert (told["state"], told["last_error_code"]) == ("refused", "internal_error")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 500 No\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n\r\n[{", b"\xff"])
async def test_what_is_no_answer_at_a_socket(tmp_path: Path, answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    path = tmp_path / "s.sock"
    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises(Unavailable):
            await asyncio.to_thread(ask_socket, path, "GET", "/status")
