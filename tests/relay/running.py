"""The whole of `mooring relay` inside the test's own loop: the real thing but for the process around it."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trustme

from mooring.host import relaying
from mooring.host.relay_options import RelayOptions
from mooring.host.stop import Stop
from mooring.http.client import Client
from mooring.http.origin import Origin
from mooring.relay.policy import RelayPolicy
from tests.relay.harness import Connected, Harness
from tests.relay.peers import Peers
from tests.relay.test_calls import Server
from tests.support import open_descriptors, until, within

__all__ = ["Running", "answers", "certified", "end_listening", "running"]


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def certified(folder: Path, name: str) -> tuple[Path, Path, ssl.SSLContext]:
    """A certificate for that name with its key, in files, and who trusts it."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    own = authority.issue_cert(name, key_type=trustme.KeyType.ECDSA)
    cert, key = folder / "cert.pem", folder / "key.pem"
    own.cert_chain_pems[0].write_to_path(cert)
    own.private_key_pem.write_to_path(key)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return cert, key, trust


class Running(Harness):
    """A relay that `relaying.run` runs. Tokens are made before `start`."""

    peers: Peers
    """Who dials it, once it listens."""

    def __init__(self, folder: Path, options: dict[str, Any], stop: Stop | None, *, tls: bool) -> None:
        super().__init__(folder, options.get("policy", RelayPolicy()))
        address = "127.0.0.1", 0
        given: dict[str, Any] = {"insecure_listen": address}
        if tls:
            cert, key, self.trust = certified(folder, "127.0.0.1")
            given = {"listen": address, "tls_cert": cert, "tls_key": key}
        self.options = RelayOptions(state=folder, **given | options)
        self.stop = stop or Stop(time.monotonic)
        self.task: asyncio.Task[int] | None = None
        self.records: list[logging.LogRecord] = []
        self.server = Server()

    async def start(self) -> None:
        """When it returns it listens, or has ended."""
        self.task = asyncio.create_task(relaying._run(self.options, self.stop))
        await until(lambda: self.events("listening") or (self.task is not None and self.task.done()))
        if self.events("listening"):
            self.port = urlsplit(self.events("listening")[0].url).port or 0  # type: ignore[attr-defined]
            self.peers = Peers(self.origin())

    def events(self, name: str) -> list[logging.LogRecord]:
        return [record for record in self.records if getattr(record, "event", "") == name]

    async def laptop(self, servers: str = "time") -> Connected:
        """An agent of that name, with a server behind it. Its token is `laptop`'s."""
        return await self.connect(self.laptops, await self.serve(self.server), servers)

    laptops = phone = ""

    def usual_tokens(self) -> None:
        self.laptops = self.token("laptop", "time,notes")
        self.phone = self.token("phone", calls="laptop/*")

    async def page(self, target: str, port: int | None = None) -> tuple[int, bytes]:
        """What anybody gets there who has no token."""
        client = Client(Origin(host="127.0.0.1", port=port) if port else self.origin())
        try:
            response = await client.request("GET", target, [])
            return response.status, await response.read(1 << 20)
        finally:
            await client.aclose()

    async def control(self, method: str, target: str) -> dict[str, Any]:
        """What `mooring relay status` and `restart` ask."""
        reader, writer = await asyncio.open_unix_connection(relaying.control_socket(self.options.state))
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        told: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
        return told

    async def end(self, cause: str = "SIGTERM") -> int:
        """Ask it to end; its exit status, or that it begins anew."""
        self.stop.request(cause)
        return await self.ended()

    async def ended(self) -> int:
        assert self.task is not None
        async with within(60):
            return await asyncio.shield(self.task)

    async def aclose(self) -> None:
        self.stop.request("the test is over")
        if self.task is not None:
            async with within(60):
                await asyncio.wait([self.task])
        if hasattr(self, "peers"):
            await self.peers.aclose()
        await super().aclose()


@contextlib.asynccontextmanager
async def running(
    folder: Path, *, stop: Stop | None = None, tls: bool = False, **options: Any
) -> AsyncIterator[Running]:
    """Not started yet; ended at the end of the block, at the latest. `tls`: with a certificate of its own."""
    made, handler = Running(folder / "state", options, stop, tls=tls), _Records()
    made.records = handler.records
    logger = logging.getLogger("mooring")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield made
    finally:
        await made.aclose()
        logger.removeHandler(handler)
        logger.setLevel(level)
    crashes = [record.getMessage() for record in handler.records if record.exc_info]
    assert not crashes, crashes


async def answers(port: int) -> bool:
    """Does anybody listen there?"""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def end_listening(port: int) -> None:
    """Whatever socket of this process it is."""
    for number, what in open_descriptors().items():
        if what.startswith("socket:"):
            with socket.socket(fileno=os.dup(number)) as found:
                is_listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if is_listening and found.family == socket.AF_INET and found.getsockname()[1] == port:
                    found.shutdown(socket.SHUT_RDWR)
