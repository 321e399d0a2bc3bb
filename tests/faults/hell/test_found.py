"""What runs from hell have found, each in the smallest scene that shows it."""

import logging
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

from mooring.errors import Unavailable
from mooring.wire import jsonrpc
from mooring.wire.modern import CAPABILITIES_KEY, VERSION_KEY, ModernRequest, read_request
from mooring.workloads.definition import ServerOptions
from mooring.workloads.workload import Workload
from tests.hosting import hosting
from tests.http_client import Held, get, serving
from tests.integration.test_eras import ModernClient
from tests.mcp_client import Json
from tests.support import until, within

ASKS_AND_IS_SILENT = """
import json, sys
from pathlib import Path
book = Path(sys.argv[1])
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    with book.open("a") as file:
        file.write(line)
    method, id = message.get("method"), message.get("id")
    if method == "server/discover":
        say(id=id, error={"code": -32601, "message": "what?"})
    elif method == "initialize" and '"test"' in line and book.read_text().count(line) == 1:
        say(id="stale", method="roots/list")
    elif method == "initialize":
        info = {"name": "second", "version": "1"}
        say(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info})
    elif id is not None and method is not None:
        say(id=id, result={"content": []})
"""
"""The first that is introduced to the client, always in the same words, asks and never answers."""


class Reply:
    """Nobody waits for the answer."""

    is_over = False

    def on_gone(self, gone: object) -> None: ...

    def begin_stream(self, now: float) -> None: ...

    def note(self, line: bytes, now: float) -> None: ...

    def answer(self, line: bytes, code: int, now: float) -> None: ...

    def tick(self, now: float) -> None: ...


def modern_request() -> ModernRequest:
    meta = f'{{"{VERSION_KEY}":"2026-07-28","{CAPABILITIES_KEY}":{{}}}}'
    line = f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}'
    request = read_request(jsonrpc.parse(line.encode()), None)
    assert isinstance(request, ModernRequest)
    return request


async def test_a_request_that_comes_after_the_end_is_refused_and_does_not_wait_for_ever() -> None:
    workload = Workload(ServerOptions(name="over", argv=("true",)), clock=time.monotonic)
    await workload.stop("the run is over")
    with pytest.raises(Unavailable, match="the run is over"):
        workload.proxy.take(modern_request(), Reply(), "somebody")


async def test_what_is_written_in_the_turn_in_which_a_peer_has_gone_is_no_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = Held()
    async with serving(held) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as peer:
            peer.sendall(get())
            async with within():
                [exchange] = await held.count(1)
            exchange.start(200, [])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(20):
            exchange.write(b"a line of a flood")
        async with within():
            await held.count_gone(1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_what_an_instance_asked_that_was_given_up_is_not_answered_to_the_next(tmp_path: Path) -> None:
    book, server = tmp_path / "book", tmp_path / "server.py"
    server.write_text(ASKS_AND_IS_SILENT)
    argv = (sys.executable, "-I", "-S", str(server), str(book))
    async with hosting(argv, spare=0, handshake_timeout_s=3.0) as host, ModernClient(host.port) as client:
        client.capabilities = {"roots": {}}
        asked = (await client.ask("tools/call", {"name": "x"}))["result"]
        assert asked["resultType"] == "input_required"
        await until(lambda: "tools/call" in book.read_text(), 60)
        answers: Json = {key: {"roots": []} for key in asked["inputRequests"]}
        again = {"name": "x", "requestState": asked["requestState"], "inputResponses": answers}
        assert (await client.ask("tools/call", again))["result"]["resultType"] == "complete"
        await client.tool("x")
    assert "stale" not in book.read_text()
