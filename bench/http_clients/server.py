"""What the clients are aimed at: `python -m bench.http_clients.server CA_FILE` tells its ports, then serves.

- `POST /call` on the ports `plain` and `tls`: a small answer at once (our own listener, which is fast enough)
- `GET /events`: EVENTS events, one each GAP_S, that say when they were sent
- the port `cut`: requests that are cut off by a reset where the path says; `GET /seen` counts them
"""

import asyncio
import json
import socket
import ssl
import struct
import sys
import time
from collections import Counter
from contextlib import suppress

import trustme
import uvloop

from mooring.http.listener import Listener
from mooring.wire.http import Exchange, Response

EVENTS = 500
GAP_S = 0.002
ANSWER = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "hello world"}]}}
)
JSON = [(b"content-type", b"application/json")]


def app(exchange: Exchange) -> None:
    if exchange.request.path == "/events":
        exchange.start(200, [(b"content-type", b"text/event-stream")])
        _emit(exchange, EVENTS)
    else:
        exchange.respond(Response(200, ANSWER.encode(), JSON))


def _emit(exchange: Exchange, left: int) -> None:
    if exchange.disconnected:
        return
    if not left:
        exchange.end()
        return
    exchange.write(b"data: %d\n\n" % time.monotonic_ns())
    asyncio.get_running_loop().call_later(GAP_S, _emit, exchange, left - 1)


class Cutting:
    """Resets connections, each in the middle of something."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            for turn in range(1_000_000):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next(
                    (line[15:] for line in head.splitlines() if line.lower().startswith("content-length:")),
                    "0",
                )
                await reader.readexactly(int(length))
                path = head.split(" ")[1]
                self.seen[path] += 1
                if self._answer(writer, path, turn):
                    await writer.drain()
                    continue
                await writer.drain()
                break
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    def _answer(self, writer: asyncio.StreamWriter, path: str, turn: int) -> bool:
        """Does the connection live on?"""
        if path == "/seen":
            body = json.dumps(self.seen).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            return True
        if path.startswith("/kept") and turn == 0:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return True
        if path.startswith("/body"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50)
        elif path.startswith("/stream"):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        return False


async def main(ca_file: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca_file)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.set_alpn_protocols(["http/1.1"])
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    listener = Listener(app)
    [(_, plain)] = await listener.listen_tcp("127.0.0.1", 0)
    [(_, encrypted)] = await listener.listen_tcp("127.0.0.1", 0, tls=tls)
    cutting = await asyncio.start_server(Cutting().serve, "127.0.0.1", 0)
    ports = {"plain": plain, "tls": encrypted, "cut": cutting.sockets[0].getsockname()[1]}
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
