"""A real HAProxy in front of replicas: round robin, no affinity, health checks on /readyz."""

import asyncio
import csv
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from tests.support import PATIENCE_S, free_port, within

__all__ = ["Balancer", "Checks", "running_balancer"]

FURTHER = "/usr/sbin"
"""Where Debian has it, which is not on everybody's path."""
CONFIG = """\
global
    maxconn 2000
    stats socket {socket} mode 600 level admin

defaults
    mode http
    timeout connect 2s
    timeout client 10m
    timeout server 10m
    timeout tunnel 10m
    timeout http-request 30s
    timeout http-keep-alive 60s
    timeout check 2s
    retries {retries}
    retry-on conn-failure
    option redispatch 1

frontend mcp
    bind 127.0.0.1:{port}
    default_backend replicas

backend replicas
    balance roundrobin
    option httpchk
    http-check send meth GET uri /readyz
    http-check expect status 200
    default-server check inter {inter_ms}ms fall {fall} rise 1 {further}
{servers}
"""
"""What deploy/haproxy.cfg says, with addresses that are known."""


class Checks(Struct, frozen=True):
    """How soon it is seen that a replica wants nothing new: after so many of its answers."""

    inter_ms: int = 100
    fall: int = 2
    further: str = ""
    retries: int = 3
    """Of a connection that was refused. Who only passes packets on, as nodes of Kubernetes do, has none."""


def binary() -> str:
    found = shutil.which("haproxy") or shutil.which("haproxy", path=FURTHER)
    if found is None:
        pytest.skip("haproxy is not installed (apt-get install haproxy)")
    return found


class Balancer:
    """One that runs, until it is killed; `start` again at the same port."""

    def __init__(self, folder: Path, addresses: Sequence[str], checks: Checks) -> None:
        self.port = free_port()
        self._binary = binary()
        self._config = folder / "haproxy.cfg"
        self._socket = folder / "haproxy.sock"
        self._names = [f"r{n}" for n in range(len(addresses))]
        self._process: asyncio.subprocess.Process | None = None
        servers = [f"    server {name} {at}" for name, at in zip(self._names, addresses, strict=True)]
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            CONFIG.format(
                socket=self._socket,
                port=self.port,
                inter_ms=checks.inter_ms,
                fall=checks.fall,
                further=checks.further,
                retries=checks.retries,
                servers="\n".join(servers),
            )
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            self._binary,
            *("-db", "-q", "-f", str(self._config)),
            stdout=asyncio.subprocess.DEVNULL,
        )
        async with within(PATIENCE_S):
            while "UP" not in (await self.states()).values():
                await asyncio.sleep(0.02)

    async def states(self) -> dict[str, str]:
        """`UP` or `DOWN` of each replica, by its name here; nothing while it does not answer."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError:
            return {}
        try:
            writer.write(b"show stat replicas 4 -1\n")
            rows = csv.DictReader((await reader.read()).decode().splitlines())
            return {row["svname"]: row["status"].split()[0] for row in rows}
        except OSError:
            return {}
        finally:
            writer.close()

    async def sees(self, *up: int) -> None:
        """Until these replicas, and no others, are thought to be there."""
        wanted = {f"r{n}" for n in up}
        async with within(PATIENCE_S):
            while {name for name, state in (await self.states()).items() if state == "UP"} != wanted:
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def running_balancer(
    folder: Path, addresses: Sequence[str], checks: Checks | None = None
) -> AsyncIterator[Balancer]:
    balancer = Balancer(folder, addresses, checks or Checks())
    try:
        await balancer.start()
        yield balancer
    finally:
        await balancer.kill()
