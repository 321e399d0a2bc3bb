"""Which era a server speaks is found out once, for all lives of the daemon; unless it was upgraded."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.workloads import era_memory
from mooring.workloads.definition import dump_options
from tests.integration.test_daemon import Life, living
from tests.integration.test_eras import HANDSHAKE, MODERN, ModernClient
from tests.integration.test_fleet import described
from tests.support import until, within

WRONG = b'{"supportedVersions":["2026-07-28"],"capabilities":{}}'


class Server:
    """A server that writes down what it hears, in a folder for each of its processes."""

    def __init__(self, tmp_path: Path, argv: tuple[str, ...]) -> None:
        self.state, self.heard = tmp_path / "state", tmp_path / "heard"
        self.heard.mkdir()
        self.argv = (*argv, "--record", str(self.heard))

    async def call(self, life: Life) -> Any:
        """A call of a client of 2026-07-28, once the server is ready."""
        body = msgspec.json.decode(dump_options(described("one"))) | {"argv": self.argv}
        await life.ask("PUT", "/servers/one", {"options": body})
        async with within():
            while (await life.ask("GET", "/servers/one"))["state"] != "ready":
                pass
        async with ModernClient((await life.ask("GET", "/daemon"))["port"]) as client:
            client.path = "/one/mcp"
            return await client.said("echo", arguments={"n": 1})

    def times_asked(self) -> int:
        lines = [line for file in self.heard.iterdir() for line in file.read_text().splitlines()]
        return sum(json.loads(line).get("method") == "server/discover" for line in lines)

    def eras(self) -> list[tuple[str, bytes]]:
        path = f"file:{self.state / 'state.db'}?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as connection:
            return connection.execute("SELECT version, discovery FROM era").fetchall()

    def misremember(self, version: str) -> None:
        with closing(sqlite3.connect(self.state / "state.db")) as connection, connection:
            connection.execute("UPDATE era SET version = ?, discovery = ?", (version, WRONG))


async def test_it_is_found_out_once_for_all_lives(tmp_path: Path) -> None:
    server = Server(tmp_path, HANDSHAKE)
    async with living(server.state) as life:
        assert (await server.call(life))["arguments"] == {"n": 1}
        await until(lambda: server.eras() == [("era 1", b"")])
        assert server.times_asked() == 1
    async with living(server.state) as life:
        assert (await server.call(life))["arguments"] == {"n": 1}
        assert server.times_asked() == 1


async def test_what_was_true_of_another_version_is_not_believed_and_is_corrected(tmp_path: Path) -> None:
    server = Server(tmp_path, HANDSHAKE)
    async with living(server.state) as life:
        await server.call(life)
        await until(server.eras)
    server.misremember("era 0")
    async with living(server.state) as life:
        assert (await server.call(life))["arguments"] == {"n": 1}
        assert server.times_asked() == 2
        await until(lambda: server.eras() == [("era 1", b"")])


async def test_a_server_that_refuses_handshakes_says_no_version_and_is_asked_each_time(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path, MODERN)
    for times in (1, 2):
        async with living(server.state) as life:
            assert (await server.call(life))["arguments"] == {"n": 1}
            assert server.times_asked() == times and server.eras() == []


async def test_long_words_are_not_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(era_memory, "MAX_DISCOVERY_BYTES", -1)
    server = Server(tmp_path, HANDSHAKE)
    async with living(server.state) as life:
        await server.call(life)
    assert server.eras() == []
