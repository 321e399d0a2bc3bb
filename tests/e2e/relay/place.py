"""A relay, a workstation with servers and the agent that connects them, each by the `mooring` command."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from tests.e2e.program import Json, Program
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.mcp_client import McpClient
from tests.support import free_port, within

__all__ = ["AGENT", "CALLER", "Command", "Place", "Servers", "Where", "bearer", "place"]

Servers = dict[str, Sequence[str | Path] | str]
"""Of each its command, or (a text) the URL of one that runs already."""
AGENT, CALLER = "laptop", "phone"
STARTS_S = 60.0
"""For a program to be there; never a measure of speed."""


def bearer(token: str) -> dict[str, str]:
    """The header that every caller sends."""
    return {"Authorization": f"Bearer {token}"}


class Command(Program):
    """A `mooring …` that goes on until it is told to end. Its log is in `messages`, its stdout in `words`."""

    def __init__(
        self, *words: str, environment: dict[str, str], prefix: Sequence[str] = (), **more: str
    ) -> None:
        argv = [*prefix, MOORING, *words, "--log-format", "json"]
        super().__init__(argv, listen_to="stderr", environment={**environment, **more})

    @property
    def pid(self) -> int:
        return self.process.pid

    async def logged(self, event: str, *, since: int = 0) -> Json:
        """The first log line of that event; waits for it."""
        async with within(STARTS_S):
            return await self.message(lambda line: line.get("event") == event, since=since)

    async def printed(self, text: str) -> str:
        """The first line on stdout with that in it; waits for it."""
        async with within(STARTS_S):
            return await self.word(lambda line: text in line)

    def events(self, name: str) -> list[Json]:
        return [line for line in self.messages if line.get("event") == name]

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """By a signal; its exit status."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.ended()

    async def kill(self) -> None:
        """Without warning."""
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()


@dataclass(frozen=True, kw_only=True)
class Where:
    """How the relay of a place is reached, and by what commands are run: one may enter a namespace."""

    host: str = "127.0.0.1"
    """The agent's way to it; callers are on the same machine."""
    listen: str = "127.0.0.1"
    has_tls: bool = False
    prefix: tuple[str, ...] = ()
    """Of all commands but the relay's."""


HERE = Where()


class Place:
    """All that a test of the relay needs; `place` makes one."""

    def __init__(self, workstation: Home, folder: Path, stack: AsyncExitStack, where: Where) -> None:
        self.workstation = workstation
        self.state = folder / "relay"
        """Of the relay."""
        self.port = free_port()
        """The relay's, whichever of its lives it is."""
        self.laptop = self.phone = ""
        """The tokens of the agent, and of a caller that may call all its servers."""
        self.ca_file = _make_certificate(folder) if where.has_tls else None
        self._stack = stack
        self._where = where
        self._relay: Command | None = None
        self._agent: Command | None = None

    # What runs.

    @property
    def relay(self) -> Command:
        assert self._relay is not None
        return self._relay

    @property
    def agent(self) -> Command:
        assert self._agent is not None
        return self._agent

    async def open_relay(self, *options: str) -> Command:
        """Begin, or begin again at the same port; it listens when this returns."""
        address = f"{self._where.listen}:{self.port}"
        listen = ["--insecure-listen", address, "--allow-plaintext"]
        if self.ca_file is not None:
            files = [str(self.ca_file.with_name(name)) for name in ("relay.pem", "relay.key")]
            listen = ["--listen", address, "--tls-cert", files[0], "--tls-key", files[1]]
        relay = Command(
            "relay",
            *listen,
            *options,
            environment=self.workstation.environment,
            MOORING_RELAY_STATE=str(self.state),
        )
        self._relay = await self._stack.enter_async_context(relay)
        await relay.logged("listening")
        return relay

    async def connect(self, *options: str, token: str = "", wait: bool = True) -> Command:
        """`mooring connect`; connected when this returns."""
        agent = self.command("connect", self.address, *options, token=token or self.laptop)
        self._agent = await self._stack.enter_async_context(agent)
        if wait:
            await agent.logged("connected")
        return agent

    def command(self, *words: str, token: str) -> Command:
        """One that has that token, not begun yet."""
        how = [] if self._where.host == HERE.host else ["--allow-plaintext"]
        how += [] if self.ca_file is None else ["--ca-file", str(self.ca_file)]
        return Command(
            *words,
            *how,
            environment=self.workstation.environment,
            prefix=self._where.prefix,
            MOORING_RELAY_TOKEN=token,
        )

    async def run(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """A command that ends by itself: its exit status, stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            MOORING,
            *words,
            env={**self.workstation.environment, "MOORING_RELAY_STATE": str(self.state), **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with within(STARTS_S):
            out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    async def done(self, *words: str, **environment: str) -> str:
        """The stdout of one that must succeed."""
        status, out, err = await self.run(*words, **environment)
        assert status == 0, (words, out, err)
        return out

    async def told(self, *words: str) -> Any:
        """What it says in JSON."""
        return json.loads(await self.done(*words, "--json"))

    async def token(self, name: str, *words: str) -> str:
        """A new one."""
        return str((await self.told("relay", "token", "create", name, *words))["token"])

    # Where it is.

    @property
    def address(self) -> str:
        """For `mooring connect`."""
        return f"{'ws' if self.ca_file is None else 'wss'}://{self._where.host}:{self.port}"

    def url(self, server: str, path: str = "mcp") -> str:
        """For an MCP client; `path` as in the URL map."""
        scheme = ("ws" if path == "ws" else "http") + ("" if self.ca_file is None else "s")
        return f"{scheme}://{self._where.host}:{self.port}/{AGENT}/{server}/{path}"

    def caller(self, server: str, token: str = "", **options: Any) -> McpClient:
        """A client that shows what is on the wire; not initialized."""
        return McpClient(
            self.port, path=f"/{AGENT}/{server}/mcp", headers=bearer(token or self.phone), **options
        )

    async def end(self) -> None:
        """As all of it is meant to end."""
        for command in (self._agent, self._relay):
            if command is not None and command.process.returncode is None:
                status = await command.end()
                assert status == 0, f"exit status {status}\n{command.told()}"


def _make_certificate(folder: Path) -> Path:
    """An authority's own, beside a certificate that it has given to the relay."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    path = folder / "authority.pem"
    authority.cert_pem.write_to_path(path)
    issued.private_key_pem.write_to_path(folder / "relay.key")
    for number, pem in enumerate(issued.cert_chain_pems):
        pem.write_to_path(folder / "relay.pem", append=number > 0)
    return path


def _words_of(server: Sequence[str | Path] | str) -> list[str]:
    return ["--url", server] if isinstance(server, str) else ["--", *map(str, server)]


@asynccontextmanager
async def place(
    tmp_path: Path,
    servers: Servers,
    *,
    where: Where = HERE,
    connect: bool = True,
) -> AsyncIterator[Place]:
    """A relay, a daemon with these servers, and `mooring connect`; at the end nothing of them is left."""
    async with home(tmp_path, prefix=where.prefix) as workstation, AsyncExitStack() as stack:
        made = Place(workstation, tmp_path, stack, where)
        made.laptop, made.phone, *_ = await asyncio.gather(
            made.token(AGENT, "--servers", ",".join(servers) or "*"),
            made.token(CALLER, "--call", f"{AGENT}/*"),
            *(workstation.done("run", name, *_words_of(server)) for name, server in servers.items()),
        )
        await made.open_relay()
        if connect:
            await made.connect()
        yield made
        await made.end()
