"""A relay, agents and a workstation's servers in one process, on real sockets."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from mooring.http.client import Client
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.relay.admission import ClientAddress, RateLimiter, RatePolicy
from mooring.relay.agent import Agent, Target
from mooring.relay.answering import Answering
from mooring.relay.gate import Gate
from mooring.relay.meters import BytePolicy, Meters
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.relay.relay import Relay
from mooring.relay.state_folder import make_state, tokens_path
from mooring.relay.token_book import TokenBook
from mooring.relay.token_file import TokenFile, Wanted
from mooring.wire.http import App, Headers
from tests.support import until

__all__ = ["Harness", "harness"]

GENEROUS = RatePolicy(per_second=1000.0, burst=1000)


class LocalDoor:
    """To servers that listen in this process."""

    def __init__(self, port: int, servers: tuple[str, ...]) -> None:
        self._origin = Origin(host="127.0.0.1", port=port)
        self._servers = servers
        self._client: Client | None = None
        self.port = port

    async def client(self) -> Client:
        if self._client is None:
            self._client = Client(self._origin)
        return self._client

    def headers(self, caller: str, prefix: str) -> Headers:
        return [(b"x-caller", caller.encode()), (b"x-prefix", prefix.encode())]

    def doubt(self) -> None:
        """There is only one place."""

    def is_offered(self, server: str) -> bool:
        return server in self._servers

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()


class Connected:
    """An agent that runs."""

    def __init__(
        self, agent: Agent, answering: Answering, task: "asyncio.Task[None]", door: LocalDoor
    ) -> None:
        self.agent = agent
        self.answering = answering
        self.task = task
        self.door = door

    async def aclose(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.agent.aclose()
        await self.answering.aclose()
        await self.door.aclose()


class Harness:
    """What a test of the relay needs."""

    def __init__(self, folder: Path, policy: RelayPolicy) -> None:
        make_state(folder)
        self.tokens = TokenFile(tokens_path(folder))
        self.book = TokenBook.load(tokens_path(folder))
        self.policy = policy
        self._stack = contextlib.AsyncExitStack()
        self.port = 0
        self.trust: ssl.SSLContext | None = None
        """Of those who dial it, if it speaks TLS."""
        self._relay: Relay | None = None
        self._listener: Listener | None = None

    @property
    def relay(self) -> Relay:
        assert self._relay is not None
        return self._relay

    @property
    def listener(self) -> Listener:
        assert self._listener is not None
        return self._listener

    def token(self, name: str, servers: str = "", calls: str = "") -> str:
        """A new token's text."""
        wanted = Wanted(
            name=name,
            servers=tuple(filter(None, servers.split(","))),
            calls=tuple(filter(None, calls.split(","))),
        )
        [created] = self.tokens.create(wanted)
        self.book.reload()
        return created.text

    def origin(self, port: int = 0) -> Origin:
        """Where it is dialled; `port`: that of what is in between."""
        return Origin(host="127.0.0.1", port=port or self.port, tls=self.trust)

    async def open_relay(self, *, port: int = 0, upgrades: RatePolicy = GENEROUS) -> None:
        """Begin, or begin again on the same port."""
        loop = asyncio.get_running_loop()
        gate = Gate(
            self.book,
            ClientAddress(),
            upgrades=RateLimiter(upgrades, loop.time),
            failures=RateLimiter(GENEROUS, loop.time),
        )
        meters = Meters(BytePolicy(), loop.time)
        relay = Relay(self.book, gate, meters, self.policy, url=lambda: f"http://127.0.0.1:{self.port}")
        limits = Limits(linger_timeout_s=1.0)
        self._relay, self._listener = relay, Listener(relay, admit=relay.admit, limits=limits)
        [(_, self.port)] = await self._listener.listen_tcp("127.0.0.1", port or self.port)
        self._beat = asyncio.create_task(relay.run())

    async def close_relay(self) -> None:
        """As if it were killed: nobody is told."""
        if self._listener is None or self._relay is None:
            return
        self._beat.cancel()
        await asyncio.gather(self._beat, return_exceptions=True)
        self._listener.abort()
        await self._listener.aclose()
        await self._relay.aclose()
        self._relay = self._listener = None

    async def serve(self, app: App) -> int:
        """A workstation's servers; their port."""
        listener = Listener(app)
        [(_, port)] = await listener.listen_tcp("127.0.0.1", 0)
        self._stack.push_async_callback(listener.aclose)
        return port

    async def connect(
        self,
        token: str,
        port: int,
        servers: str = "time",
        *,
        policy: AgentPolicy | None = None,
        via: int | None = None,
        wait: bool = True,
    ) -> Connected:
        """An agent, that is connected when this returns."""
        policy = policy or AgentPolicy(first_delay_s=0.05, longest_delay_s=0.2, longest_asked_s=0.2)
        names = tuple(servers.split(","))
        door = LocalDoor(port, names)
        answering = Answering(door, policy)
        target = Target(
            origin=self.origin(via or 0),
            path="/v1/server",
            shown=f"ws://127.0.0.1:{self.port}",
            servers=names,
            token=lambda: token,
        )

        def on_welcome(welcome: object) -> None:
            answering.name = getattr(welcome, "name", "")

        agent = Agent(target, policy, on_open=answering.open, on_welcome=on_welcome)
        connected = Connected(agent, answering, asyncio.create_task(agent.run()), door)
        self._stack.push_async_callback(connected.aclose)
        if wait:
            await until(lambda: agent.is_connected or connected.task.done())
        return connected

    def client(self) -> Client:
        """Somebody who calls."""
        client = Client(self.origin())
        self._stack.push_async_callback(client.aclose)
        return client

    async def aclose(self) -> None:
        await self._stack.aclose()
        await self.close_relay()


@contextlib.asynccontextmanager
async def harness(folder: Path, policy: RelayPolicy | None = None) -> AsyncIterator[Harness]:
    """A relay that listens, and what belongs to it; nothing is left afterwards."""
    made = Harness(folder / "state", policy or RelayPolicy())
    await made.open_relay()
    try:
        yield made
    finally:
        await made.aclose()


def bearer(token: str) -> Headers:
    """Of a request."""
    return [(b"Authorization", b"Bearer " + token.encode())]
