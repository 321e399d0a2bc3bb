"""A network for replicas: each has a machine of its own, for all it sees; Redis and clients have another.

hub    the test, its clients, a balancer; Redis at an address of its own; the bridge that joins all
r0 …   one replica each
"""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from tests.e2e.replicas.fleet import Fleet
from tests.networks import do, inside, need_networks, path_of, skipped_if_not_allowed
from tests.replicas.stores import Server, running_server

__all__ = ["REDIS", "Network", "address_of", "redis_in", "running_network", "scattered_fleet"]

HUB, REDIS = "10.214.0.1", "10.214.0.2"
TELLING = {"DROP": (), "REJECT": ("--reject-with", "tcp-reset")}
"""What becomes of a packet: it vanishes, or its sender is told at once."""


def address_of(n: int) -> str:
    """Of a replica."""
    return f"10.214.0.{11 + n}"


class Network:
    """The test itself is in its hub."""

    def __init__(self, count: int) -> None:
        self.hub = f"mooring-{os.getpid()}-hub"
        self._machines = [f"mooring-{os.getpid()}-r{n}" for n in range(count)]

    def lay(self) -> None:
        for name in (self.hub, *self._machines):
            do("ip", "netns", "add", name)
            do("ip", "-n", name, "link", "set", "lo", "up")
        do("ip", "-n", self.hub, "link", "add", "bridge", "type", "bridge")
        do("ip", "-n", self.hub, "link", "set", "bridge", "up")
        for address in (HUB, REDIS):
            do("ip", "-n", self.hub, "address", "add", f"{address}/24", "dev", "bridge")
        for n, machine in enumerate(self._machines):
            far = ("peer", "name", "cable", "netns", machine)
            do("ip", "-n", self.hub, "link", "add", f"to-r{n}", "type", "veth", *far)
            do("ip", "-n", self.hub, "link", "set", f"to-r{n}", "master", "bridge", "up")
            do("ip", "-n", machine, "address", "add", f"{address_of(n)}/24", "dev", "cable")
            do("ip", "-n", machine, "link", "set", "cable", "up")

    def remove(self) -> None:
        for name in (self.hub, *self._machines):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def prefix(self, n: int) -> tuple[str, ...]:
        """Of commands on the machine of a replica."""
        return ("nsenter", f"--net={path_of(self._machines[n])}", "--")

    def cut(self, n: int, *addresses: str, how: str = "DROP") -> None:
        """Between a replica and these addresses, in both directions."""
        for address in addresses:
            out = ("OUTPUT", "-p", "tcp", "-d", address, "-j", how, *TELLING[how])
            do(*self.prefix(n), "iptables", "-I", *out)
            # What tells the sender comes by loopback, in the name of the other.
            into = ("INPUT", "-i", "cable", "-p", "tcp", "-s", address, "-j", "DROP")
            do(*self.prefix(n), "iptables", "-I", *into)

    def part(self, one: int, other: int, how: str = "DROP") -> None:
        """Two replicas do not reach each other."""
        self.cut(one, address_of(other), how=how)
        self.cut(other, address_of(one), how=how)

    def mend(self) -> None:
        for n in range(len(self._machines)):
            do(*self.prefix(n), "iptables", "-F")


@contextmanager
def running_network(count: int) -> Iterator[Network]:
    need_networks()
    network = Network(count)
    try:
        with skipped_if_not_allowed():
            network.lay()
            network.cut(0, REDIS, how="REJECT")
            network.mend()
        with inside(path_of(network.hub)):
            yield network
    finally:
        network.remove()


@asynccontextmanager
async def redis_in(network: Network, folder: Path) -> AsyncIterator[Server]:
    """Whoever is in that network may use it."""
    assert path_of(network.hub).exists()
    async with running_server(
        "redis", folder, "--bind", "127.0.0.1", REDIS, "--protected-mode", "no", "--appendonly", "no"
    ) as server:
        server.host = REDIS
        yield server


class Scattered(Fleet):
    """Each on its own machine."""

    def __init__(
        self,
        stack: AsyncExitStack,
        store: Server,
        server: Sequence[str | Path] | str,
        options: Sequence[str],
        network: Network,
    ) -> None:
        super().__init__(stack, store, server, options)
        self._network = network

    def _place(self, port: int) -> tuple[Sequence[str], Sequence[str]]:
        n = len(self.replicas)
        host = address_of(n)
        where = ("--host", host, "--port", str(port), "--advertise", f"http://{host}:{port}")
        return (*where, "--allow-remote", "--no-auth"), self._network.prefix(n)


@asynccontextmanager
async def scattered_fleet(
    network: Network, count: int, store: Server, server: Sequence[str | Path] | str, *options: str
) -> AsyncIterator[Scattered]:
    async with AsyncExitStack() as stack:
        fleet = Scattered(stack, store, server, options, network)
        for _ in range(count):
            await fleet.add()
        try:
            yield fleet
        finally:
            network.mend()  # they end as they should, whatever a test has left
