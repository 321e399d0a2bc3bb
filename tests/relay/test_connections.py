"""The connections that a daemon holds: begun and ended as its file says, whatever becomes of each."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.control_sockets import ask_socket
from mooring.errors import Unavailable, UserError
from mooring.host import rehearsing
from mooring.host.connection_file import Wish, connections_path, status_sockets, write_wish
from mooring.host.connections import Connections
from mooring.host.places import Places
from mooring.host.rehearsing import rehearse
from mooring.host.relay_target import options_of
from mooring.http.origin import Origin
from mooring.relay.agent import Target
from tests.relay.harness import Harness, harness
from tests.support import until, within


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
            async with within():
                while (told := (await held.status())[0])["state"] != "connected":
                    await asyncio.sleep(0.01)
            assert told["servers"] == ["time"] and relay.relay.registry.counts == (1, 0)
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


async def test_one_that_cannot_even_be_tried_is_told_with_its_reason_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_to_all = Wish(relay="ws://192.0.2.2:8080", token="env:PATH")
    async with harness(tmp_path) as relay, holding(tmp_path) as held:
        await held.want(open_to_all.relay, open_to_all)
        wish = wish_for(relay, tmp_path)
        await held.want(wish.relay, wish)
        told = {one["relay"]: one for one in await held.status()}
        assert set(told) == {wish.relay, open_to_all.relay}
        refused = told[open_to_all.relay]
        assert (refused["state"], refused["last_error_code"]) == ("refused", "relay_plaintext")
        assert "wss://192.0.2.2:8080" in refused["hint"] and refused["servers"] == []
        assert sum("plain text" in record.getMessage() for record in caplog.records) == 1
        await held.want(open_to_all.relay, None)
        assert [one["relay"] for one in await held.status()] == [wish.relay]


# Asked before it takes the place of another ---------------------------------------------------


def asked_of(wish: Wish, tmp_path: Path) -> Any:
    return asyncio.to_thread(rehearse, options_of(wish, Places(tmp_path, 0), ("time",)))


async def test_who_is_let_in_leaves_whoever_has_the_name_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mooring.relay")
    async with harness(tmp_path) as relay, holding(tmp_path) as held:
        wish = wish_for(relay, tmp_path)
        await asked_of(wish, tmp_path)
        [asked] = [one for one in caplog.records if one.getMessage().startswith("agent laptop ")]
        assert (asked.getMessage(), asked.levelname) == ("agent laptop asks whether it may connect", "DEBUG")
        await held.want(wish.relay, wish)
        await until(lambda: [one.is_attached for one in relay.relay.registry.snapshot()] == [True])
        keeper = relay.relay.registry.agent("laptop")
        await asked_of(wish, tmp_path)
        assert relay.relay.registry.agent("laptop") is keeper and keeper is not None
        assert keeper.is_attached and keeper.reconnects == 0


async def test_who_is_not_let_in_is_told(tmp_path: Path) -> None:
    async with harness(tmp_path) as relay:
        wish, token = wish_for(relay, tmp_path), tmp_path / "token"
        for text, words in (
            ("mrt_aaaaaaaaaaaa_" + "A" * 43, "does not know this token"),
            (relay.token("phone", calls="laptop/*"), "may call, but not connect"),
            ("two words", "is none"),
            (None, "cannot be used"),
        ):
            token.write_text(text) if text else token.unlink()
            with pytest.raises(UserError, match=words) as caught:
                await asked_of(wish, tmp_path)
            assert caught.value.hint


async def test_a_relay_that_does_not_answer_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsing, "REHEARSAL_S", 0.3)
    token = tmp_path / "token"
    token.write_text("mrt_x")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        async with within():
            await asked_of(Wish(relay=f"ws://127.0.0.1:{port}", token=f"file:{token}"), tmp_path)
    async with within():
        await asked_of(Wish(relay=f"ws://127.0.0.1:{port}", token=f"file:{token}"), tmp_path)


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
