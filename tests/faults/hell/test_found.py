"""What runs from hell have found, each in the smallest scene that shows it."""

import logging
import socket
import struct
import time

import pytest

from mooring.errors import Unavailable
from mooring.wire import jsonrpc
from mooring.wire.modern import CAPABILITIES_KEY, VERSION_KEY, ModernRequest, read_request
from mooring.workloads.definition import ServerOptions
from mooring.workloads.workload import Workload
from tests.http_client import Held, get, serving
from tests.support import within


class Reply:
    """Nobody waits for the answer; what it would be is kept."""

    is_over = False

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def on_gone(self, gone: object) -> None: ...

    def begin_stream(self, now: float) -> None: ...

    def note(self, line: bytes, now: float) -> None: ...

    def answer(self, line: bytes, code: int, now: float) -> None:
        self.answers.append(line)

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
