"""Several replicas of one server, as real processes that share a real Redis; and clients that go about."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.mooring import Mooring, running_mooring
from tests.http_client import Peer
from tests.mcp_client import McpClient
from tests.replicas.sets import Place
from tests.replicas.stores import Server
from tests.support import free_port, within

__all__ = ["Fleet", "Roaming", "running_fleet"]


class Fleet:
    """The replicas that run; each is stopped at the end, and must leave nothing."""

    def __init__(
        self,
        stack: AsyncExitStack,
        store: Server | Place,
        server: Sequence[str | Path] | str,
        options: Sequence[str],
    ) -> None:
        self.store = store
        self.replicas: list[Mooring] = []
        self._stack = stack
        self._server = server
        self._options = options

    async def add(self, *options: str, port: int | None = None) -> Mooring:
        """One more."""
        own, prefix = self._place(port or free_port())
        given = (*own, "--sessions", self.store.url, *self._options, *options)
        mooring = await self._stack.enter_async_context(
            running_mooring(*given, server=self._server, prefix=prefix)
        )
        self.replicas.append(mooring)
        return mooring

    def _place(self, port: int) -> tuple[Sequence[str], Sequence[str]]:
        """Options of the next one, and the command that becomes it where it is to be."""
        return ("--port", str(port), "--advertise", f"http://127.0.0.1:{port}"), ()

    @property
    def ports(self) -> list[int]:
        return [port_of(replica) for replica in self.replicas]

    @property
    def addresses(self) -> list[str]:
        return [urlsplit(replica.url).netloc for replica in self.replicas]

    async def know_each_other(self) -> None:
        """Until each has seen all the others."""
        async with within():
            for replica in self.replicas:
                while (await replica.get("/readyz"))[1]["replicas"]["others"] < len(self.replicas) - 1:
                    await asyncio.sleep(0.05)

    def other_than(self, *replicas: Mooring) -> Mooring:
        return next(one for one in self.replicas if one not in replicas)


def port_of(replica: Mooring) -> int:
    port = urlsplit(replica.url).port
    assert port is not None
    return port


def host_of(replica: Mooring) -> str:
    return urlsplit(replica.url).hostname or ""


@asynccontextmanager
async def running_fleet(
    count: int, store: Server | Place, server: Sequence[str | Path] | str, *options: str
) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, store, server, options)
        for _ in range(count):
            await fleet.add()
        yield fleet


class Roaming(McpClient):
    """A client behind a balancer without any affinity: each request goes to the next replica."""

    def __init__(self, ports: Sequence[int], **options: Any) -> None:
        super().__init__(ports[0], **options)
        self._places = itertools.cycle([(self.host, port) for port in ports])

    def go_only_to(self, *replicas: Mooring) -> None:
        """From now on."""
        self._places = itertools.cycle([(host_of(replica), port_of(replica)) for replica in replicas])

    async def peer(self) -> Peer:
        self.host, self.port = next(self._places)
        return await super().peer()

    async def mark(self, text: str, delay_s: float = 0.0) -> dict[str, Any]:
        """Executed where it is written down."""
        return await self.ask("x/mark", {"mark": text, "delay_s": delay_s})

    async def unavailable(self, method: str) -> dict[str, Any]:
        """The reason in a 503, which says when to come back."""
        answer = await self.raw("POST", self.request(method, {}))
        assert answer.status == 503, answer
        assert int(answer.headers["retry-after"]) >= 1
        return json.loads(answer.body)["error"]["data"]  # type: ignore[no-any-return]
