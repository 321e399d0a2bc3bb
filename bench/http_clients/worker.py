"""One client, measured: `worker.py CLIENT PORTS CA_FILE` prints what it found as JSON.

Stands alone: it is run by the interpreter of the client's own environment.
"""

import asyncio
import json
import os
import ssl
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'
CONCURRENT = 32
WINDOW_S = 1.0
LONE_CALLS = 500
BIG = 1 << 20


class Way(Protocol):
    """A client as its users use it: one for all requests, answers read whole or piece by piece."""

    async def call(self, method: str, url: str) -> bytes: ...

    def pieces(self, url: str) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Mooring:
    def __init__(self, ca_file: Path) -> None:
        self._ca_file = ca_file
        self._client: Any = import_module("mooring.http.client").Client
        self._parse_url: Any = import_module("mooring.http.origin").parse_url
        self._clients: dict[str, Any] = {}
        self._targets: dict[str, tuple[Any, str]] = {}

    def _of(self, url: str) -> tuple[Any, str]:
        if url not in self._targets:
            origin, target = self._parse_url(url, self._ca_file)
            key = f"{origin.scheme}://{origin.authority}"
            self._clients[key] = self._clients.get(key) or self._client(origin)
            self._targets[url] = self._clients[key], target
        return self._targets[url]

    async def call(self, method: str, url: str) -> bytes:
        client, target = self._of(url)
        body = BODY if method == "POST" else b""
        response = await client.request(method, target, [(b"Content-Type", b"application/json")], body)
        found: bytes = await response.read(BIG)
        return found

    async def pieces(self, url: str) -> AsyncIterator[bytes]:
        client, target = self._of(url)
        response = await client.request("GET", target, [])
        async for piece in response:
            yield piece

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


class Aiohttp:
    def __init__(self, ca_file: Path) -> None:
        aiohttp: Any = import_module("aiohttp")
        tls = ssl.create_default_context(cafile=ca_file)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls))

    async def call(self, method: str, url: str) -> bytes:
        body = BODY if method == "POST" else None
        headers = {"Content-Type": "application/json"}
        async with self._session.request(method, url, data=body, headers=headers) as response:
            found: bytes = await response.read()
            return found

    async def pieces(self, url: str) -> AsyncIterator[bytes]:
        async with self._session.get(url) as response:
            async for piece in response.content.iter_any():
                yield piece

    async def close(self) -> None:
        await self._session.close()


class Pyreqwest:
    def __init__(self, ca_file: Path) -> None:
        builder: Any = import_module("pyreqwest.client").ClientBuilder
        self._client = builder().http1_only().add_root_certificate_pem(ca_file.read_bytes()).build()

    async def call(self, method: str, url: str) -> bytes:
        request = self._client.request(method, url).header("Content-Type", "application/json")
        request = request.body_bytes(BODY) if method == "POST" else request
        response = await request.build().send()
        return bytes(await response.bytes())

    async def pieces(self, url: str) -> AsyncIterator[bytes]:
        # Without this it holds events back until it has 64 KiB.
        request = self._client.get(url).streamed_read_buffer_limit(0)
        async with request.build_streamed() as response:
            while (piece := await response.body_reader.read_chunk()) is not None:
                yield bytes(piece)

    async def close(self) -> None:
        await self._client.close()


WAYS: dict[str, Callable[[Path], Way]] = {"mooring": Mooring, "aiohttp": Aiohttp, "pyreqwest": Pyreqwest}


async def rate(way: Way, url: str) -> tuple[float, float]:
    """Calls a second with many at once, and µs of CPU that each takes here."""
    calls, until = 0, time.monotonic() + WINDOW_S

    async def calling() -> None:
        nonlocal calls
        while time.monotonic() < until:
            await way.call("POST", url)
            calls += 1

    await asyncio.gather(*(way.call("POST", url) for _ in range(CONCURRENT)))  # connections are there
    until = time.monotonic() + WINDOW_S
    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(calling() for _ in range(CONCURRENT)))
    return calls / (time.monotonic() - began), (time.process_time() - cpu) / calls * 1e6


async def lone(way: Way, url: str) -> float:
    """µs of one call after another, p50."""
    spans = []
    for _ in range(LONE_CALLS):
        began = time.perf_counter_ns()
        await way.call("POST", url)
        spans.append(time.perf_counter_ns() - began)
    return statistics.median(spans) / 1000


async def events(way: Way, url: str) -> tuple[float, float]:
    """µs from when an event was sent to when it is here, p50 and p99."""
    spans: list[int] = []
    rest = b""
    async for piece in way.pieces(url):
        now = time.monotonic_ns()
        *whole, rest = (rest + piece).split(b"\n\n")
        spans += [now - int(event.removeprefix(b"data: ")) for event in whole]
    spans.sort()
    return spans[len(spans) // 2] / 1000, spans[len(spans) * 99 // 100] / 1000


async def what_becomes(doing: Awaitable[object]) -> str:
    try:
        await doing
    except Exception as error:
        return type(error).__name__
    return "no error"


async def resets(way: Way, base: str) -> dict[str, str]:
    """What its user is told of a reset, and how often the server had the request."""

    async def read(url: str) -> None:
        async for _ in way.pieces(url):
            pass

    async def kept(method: str, url: str) -> None:
        await way.call(method, url)
        await way.call(method, url)

    mine = os.getpid()
    said = {
        "before the answer, POST": await what_becomes(way.call("POST", f"{base}/before-{mine}")),
        "in its body, POST": await what_becomes(way.call("POST", f"{base}/body-{mine}")),
        "in a stream, GET": await what_becomes(read(f"{base}/stream-{mine}")),
        "on a connection used before, POST": await what_becomes(kept("POST", f"{base}/kept-{mine}-POST")),
        "on a connection used before, GET": await what_becomes(kept("GET", f"{base}/kept-{mine}-GET")),
    }
    paths = ("before-{}", "body-{}", "stream-{}", "kept-{}-POST", "kept-{}-GET")
    seen = json.loads(await way.call("GET", f"{base}/seen"))
    # Of the last two, the first request was answered.
    times = [seen["/" + path.format(mine)] - path.startswith("kept") for path in paths]
    return {what: f"{told}, sent {count}×" for (what, told), count in zip(said.items(), times, strict=True)}


def resident_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def main(name: str, ports: dict[str, int], ca_file: Path) -> None:
    before = resident_mib()
    way = WAYS[name](ca_file)
    plain, tls, cut = (f"{scheme}://127.0.0.1:{ports[port]}" for scheme, port in _PORTS)
    found: dict[str, Any] = {}
    found["rate"], found["cpu"] = await rate(way, f"{plain}/call")
    found["rate_tls"], found["cpu_tls"] = await rate(way, f"{tls}/call")
    found["lone"] = await lone(way, f"{plain}/call")
    found["lone_tls"] = await lone(way, f"{tls}/call")
    found["event"], found["event_p99"] = await events(way, f"{plain}/events")
    found["memory"] = resident_mib() - before
    found["resets"] = await resets(way, cut)
    await way.close()
    print(json.dumps(found))


_PORTS = (("http", "plain"), ("https", "tls"), ("http", "cut"))

if __name__ == "__main__":
    uvloop: Any = import_module("uvloop")
    uvloop.run(main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])))
