"""Relays that run: Mooring's, as its users start it, and the plain one; and who is behind them."""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import processes
from bench.daemon import Daemon, daemon
from bench.installed import mooring_program
from bench.measuring import Unable
from bench.processes import Process
from bench.programs import FOLDER, build, log_of
from bench.relay_peer.ways import AGENT, PLAIN, SERVER
from bench.targets import Argv, environment, free_port, native_child
from mooring.relay.state_folder import make_state, tokens_path
from mooring.relay.token_file import TokenFile, Wanted

__all__ = [
    "Calls",
    "Clients",
    "Helper",
    "Relay",
    "Workstation",
    "agent",
    "caller",
    "clients_of",
    "helper",
    "relay",
    "waited",
    "workstation",
]

PATIENCE_S = 60.0
UPGRADES = ("--upgrades-per-second", "10000")
"""All come from one address here."""
CALLER = "caller"


class Relay:
    """One of Mooring's that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, state: Path, tokens: list[str]) -> None:
        self.process = process
        self.port = port
        self.state = state
        self.tokens = tokens

    def health(self) -> dict[str, Any]:
        """How many are connected, if it answers. Raises OSError."""
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            asking.request("GET", "/healthz")
            found: dict[str, Any] = json.loads(asking.getresponse().read())
        finally:
            asking.close()
        return found


def waited(done: Callable[[], bool], complaint: str, patience_s: float = PATIENCE_S) -> None:
    """Until it is; whoever cannot be asked yet is not."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if done():
                return
        except (OSError, http.client.HTTPException):
            pass
        if time.monotonic() > deadline:
            raise Unable(complaint)
        time.sleep(0.01)


@contextmanager
def relay(wanted: Sequence[Wanted], *options: str) -> Iterator[Relay]:
    """Mooring's, with these tokens, a folder of its own and without TLS; ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        state, port = Path(folder) / "relay", free_port()
        make_state(state)
        tokens = [created.text for created in TokenFile(tokens_path(state)).create(*wanted)]
        where = ["--state", str(state), "--insecure-listen", f"127.0.0.1:{port}"]
        with _started("relay", [mooring_program(), "relay", *where, *UPGRADES, *options]) as process:
            found = Relay(process, port, state, tokens)
            waited(lambda: bool(found.health()), "the relay does not answer")
            yield found


@contextmanager
def _started(name: str, argv: Argv, extra: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with log_of(name) as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**environment(), **(extra or {})},
            cwd=FOLDER.parent,
            start_new_session=True,  # Ctrl-C is for us; we end it
        )
    try:
        yield process
    finally:
        processes.end(process)


class Helper:
    """A program of this package that is told something, and says something, in lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout

    def tell(self, line: str) -> None:
        self._stdin.write(line.encode() + b"\n")
        self._stdin.flush()

    def hear(self) -> bytes:
        """What it says next; it ends by itself when nothing happens for long."""
        if line := self._stdout.readline():
            return line
        raise Unable(f"a program of the benchmark ended with status {self._process.wait()}")


@contextmanager
def helper(name: str, *words: str) -> Iterator[Helper]:
    """`python -m bench.relay_peer.NAME`; ended afterwards."""
    argv = [sys.executable, "-m", f"bench.relay_peer.{name}", *words]
    with log_of(f"relay-{name}") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=FOLDER.parent,
            start_new_session=True,
        )
    with process:
        try:
            yield Helper(process)
        finally:
            process.kill()


# Clients that speak a relay's own framing, and an agent that answers by itself


class Clients:
    """What is measured with them is the relay: its process is the one whose CPU counts."""

    def __init__(self, way: str, port: int, token: str, process: subprocess.Popen[bytes]) -> None:
        self._argv = [
            sys.executable,
            "-m",
            "bench.relay_peer.load",
            way,
            str(port),
            *([token] if token else []),
        ]
        self._process = process

    def load_argv(self, *options: str) -> Argv:
        return [*self._argv, *options]

    def own_processes(self) -> list[Process]:
        return processes.descendants(self._process.pid)[:1]


@contextmanager
def clients_of(way: str) -> Iterator[Clients]:
    """A relay that is spoken to that way, with its agent."""
    with ExitStack() as stack:
        if way == PLAIN:
            port, agent_token, caller_token = free_port(), "", ""
            argv = [sys.executable, "-m", "bench.relay_peer.plain_relay", str(port)]
            process = stack.enter_context(_started("plain-relay", argv))
        else:
            # Nobody is slowed down: what is measured is what it can do, not what it grants.
            running = stack.enter_context(relay([agent(AGENT), caller()], "--bytes-per-minute", "none"))
            port, process = running.port, running.process
            agent_token, caller_token = running.tokens
        tokens = [agent_token] if agent_token else []
        stack.enter_context(helper("agent", way, str(port), *tokens)).hear()
        yield Clients(way, port, caller_token, process)


def agent(name: str) -> Wanted:
    """A token for a workstation of that name."""
    return Wanted(name=name, servers=(SERVER,))


def caller() -> Wanted:
    """A token for whoever calls the agent's server."""
    return Wanted(name=CALLER, calls=(f"{AGENT}/{SERVER}",))


# Callers that speak HTTP, and a workstation


class Calls:
    """Of a server by HTTP: through a relay with a token, or directly."""

    def __init__(self, port: int, prefix: str, token: str = "") -> None:
        self._where = f"127.0.0.1:{port}{prefix}"
        self._fields = ("-H", f"Authorization: Bearer {token}") if token else ()

    def load_argv(self, *options: str) -> Argv:
        return [str(build("load")), "http", self._where, *self._fields, *options]

    def own_processes(self) -> list[Process]:
        """Nobody's CPU is of interest."""
        return []


class Workstation:
    """A daemon with a server, and `mooring connect` beside it."""

    def __init__(self, daemon: Daemon, relay: Relay, token: str) -> None:
        self.directly = Calls(daemon.port, f"/{SERVER}")
        self.through_relay = Calls(relay.port, f"/{AGENT}/{SERVER}", token)


@contextmanager
def workstation() -> Iterator[Workstation]:
    """One that is connected to a relay, with the server that answers in microseconds."""
    with daemon() as found, relay([agent(AGENT)]) as between:
        found.run(SERVER, native_child())
        found.wait_for("ready")
        [token] = between.tokens  # who offers a server may call it too
        argv = [mooring_program(), "connect", f"ws://127.0.0.1:{between.port}"]
        with _started("connect", argv, {**found.environment, "MOORING_RELAY_TOKEN": token}):
            waited(lambda: between.health()["agents"] == 1, "the workstation does not connect")
            yield Workstation(found, between, token)
