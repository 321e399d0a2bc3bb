"""Clients that call through a relay: `python -m bench.relay_peer.load WAY PORT [TOKEN] [options]`.

Each has one call under way and makes the next when it is answered. Like the generator in C this is told by a
line when to begin a window, and says what it found as a line of JSON (`bench.generator.Window`).
"""

import argparse
import asyncio
import json
import sys
import time
from functools import partial

import uvloop

from bench.relay_peer.ways import WAYS, Caller, calling

__all__ = ["Load"]

PATIENCE_S = 30.0


class Load:
    """All clients."""

    def __init__(self, way: str, port: int, token: str, clients: int, size_bytes: int) -> None:
        self._way = way
        self._port = port
        self._token = token
        self._payload = self._expected = _payload(size_bytes)
        self._callers: list[Caller] = []
        self._number = clients
        self._began: list[int] = [0] * clients
        self._spans: list[int] = []
        self._until = 0
        self._busy = 0
        self._errors = 0
        self._quiet = asyncio.Event()

    async def open(self) -> None:
        for number in range(self._number):
            self._callers.append(
                await calling(self._way, self._port, self._token, partial(self._answered, number))
            )

    async def close(self) -> None:
        for caller in self._callers:
            caller.socket.transport.abort()
            await caller.socket.lost

    async def window(self, seconds: float) -> dict[str, object]:
        self._spans, self._errors = [], 0
        self._quiet.clear()
        began, cpu = time.perf_counter_ns(), time.process_time()
        self._until = began + int(seconds * 1e9)
        self._busy = self._number
        for number in range(self._number):
            self._call(number)
        async with asyncio.timeout(seconds + PATIENCE_S):
            await self._quiet.wait()
        took_s = (time.perf_counter_ns() - began) / 1e9
        spans = sorted(self._spans)
        return {
            "calls": len(spans),
            "errors": self._errors,
            "seconds": took_s,
            "rate": len(spans) / took_s,
            "min_us": spans[0] / 1000,
            "p50_us": spans[len(spans) // 2] / 1000,
            "p99_us": spans[len(spans) * 99 // 100] / 1000,
            "events": 0,
            "cpu_share": (time.process_time() - cpu) / took_s,
            "complaint": "an answer is not what was asked" if self._errors else "",
        }

    def _call(self, number: int) -> None:
        self._began[number] = time.perf_counter_ns()
        self._callers[number].call(self._payload)

    def _answered(self, number: int, answer: bytes) -> None:
        now = time.perf_counter_ns()
        self._spans.append(now - self._began[number])
        if answer != self._expected:
            self._errors += 1
        if now < self._until:
            self._call(number)
            return
        self._busy -= 1
        if not self._busy:
            self._quiet.set()


def _payload(size_bytes: int) -> bytes:
    """A call as JSON, so long in all."""
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"t":"%b"}}}'
    return call % (b"x" * (size_bytes - len(call) + 2))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("port", type=int)
    parser.add_argument("token", nargs="?", default="")
    parser.add_argument("-c", type=int, default=50)
    parser.add_argument("-b", type=int, default=512)
    parser.add_argument("-d", type=float, default=1.0)
    parser.add_argument("-w", action="store_true", help="as of the generator in C: always")
    given = parser.parse_args()
    load = Load(given.way, given.port, given.token, given.c, given.b)
    await load.open()
    print(json.dumps({"ready": True}), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await load.window(given.d)), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
