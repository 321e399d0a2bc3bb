"""What is measured: how each target is started with a server behind it, and ended.

Every target gets the same server and is run as its users run it. Mooring has everything on: checks, info
logging (to a file), metrics, guardian.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from bench import processes
from bench.client import first_answer
from bench.installed import mooring_program
from bench.peers import npm_program, python_program
from bench.processes import Process
from bench.programs import FOLDER, build, log_of
from bench.results import MINIMAL, MOORING, PIPE

__all__ = [
    "SHARED",
    "Argv",
    "BarePipe",
    "Endpoint",
    "Running",
    "endpoint",
    "environment",
    "free_port",
    "modern_child",
    "mooring_command",
    "native_child",
    "python_child",
    "serving",
    "spawned",
    "started",
]

Argv = list[str]

SHARED = "mooring-shared"
"""Mooring with one server for all; its figures are Mooring's."""


def native_child() -> Argv:
    """The server that answers in microseconds."""
    return [str(build("child"))]


def modern_child() -> Argv:
    """The same, of 2026-07-28 and no other revision."""
    return [*native_child(), "--modern"]


def python_child() -> Argv:
    """A server as people write them, in Python."""
    return [sys.executable, "-m", "mooring.demo"]


def mooring_command(port: int, child: Argv, *options: str) -> Argv:
    """Mooring itself, without a daemon."""
    return [mooring_program(), "run", "--foreground", "bench", "--port", str(port), *options, "--", *child]


def _mooring_shared(port: int, child: Argv) -> Argv:
    return mooring_command(port, child, "--shared")


def _minimal(port: int, child: Argv) -> Argv:
    return [sys.executable, "-m", "bench.minimal_bridge", str(port), *child]


def _pypi_mcp_proxy(port: int, child: Argv) -> Argv:
    return [python_program("mcp-proxy"), "--port", str(port), "--", *child]


def _fastmcp(port: int, child: Argv) -> Argv:
    configuration = FOLDER / "fastmcp.json"
    server = {"command": child[0], "args": child[1:]}
    configuration.write_text(json.dumps({"mcpServers": {"bench": server}}))
    program = python_program("fastmcp")
    return [program, "run", str(configuration), "--transport", "http", "--port", str(port), "--no-banner"]


def _supergateway(port: int, child: Argv) -> Argv:
    mode = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port)]
    return [*npm_program("supergateway"), "--stdio", shlex.join(child), *mode]


def _npm_mcp_proxy(port: int, child: Argv) -> Argv:
    return [*npm_program("mcp-proxy"), "--port", str(port), "--", *child]


COMMANDS: dict[str, Callable[[int, Argv], Argv]] = {
    MOORING: mooring_command,
    SHARED: _mooring_shared,
    MINIMAL: _minimal,
    "pypi-mcp-proxy": _pypi_mcp_proxy,
    "fastmcp": _fastmcp,
    "supergateway": _supergateway,
    "npm-mcp-proxy": _npm_mcp_proxy,
}


class Endpoint(Protocol):
    """What the load generator can be aimed at."""

    def load_argv(self, *options: str) -> Argv: ...

    def own_processes(self) -> list[Process]: ...


class BarePipe:
    """The floor: the generator starts the server itself and talks on its pipes."""

    def __init__(self, child: Argv) -> None:
        self._child = child

    def load_argv(self, *options: str) -> Argv:
        return [str(build("load")), "pipe", *options, "--", *self._child]

    def own_processes(self) -> list[Process]:
        """There is no proxy."""
        return []


class Running:
    """A proxy that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, child: Argv, *, prefix: str = "") -> None:
        self.process = process
        self.port = port
        self._prefix = prefix
        """Of its path, where there are many servers."""
        self._child = tuple(child)

    def load_argv(self, *options: str) -> Argv:
        return [str(build("load")), "http", f"127.0.0.1:{self.port}{self._prefix}", *options]

    def own_processes(self) -> list[Process]:
        """The proxy and its helpers, without the servers."""
        return [process for process in processes.descendants(self.process.pid) if not self._serves(process)]

    def servers(self) -> list[Process]:
        """The processes of the server."""
        return [process for process in processes.descendants(self.process.pid) if self._serves(process)]

    def _serves(self, process: Process) -> bool:
        return process.argv == self._child


def environment() -> dict[str, str]:
    """Ours, with bytecode kept: nobody's start is to include compiling."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def free_port() -> int:
    """A port that nobody listens on, for now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def spawned(name: str, child: Argv, wrapper: Sequence[str] = ()) -> Iterator[Running]:
    """A target just started, perhaps not listening yet; ended afterwards, with all it started."""
    port = free_port()
    with started(name, [*wrapper, *COMMANDS[name](port, child)], port, child) as running:
        yield running


@contextmanager
def started(name: str, argv: Argv, port: int, child: Argv) -> Iterator[Running]:
    """A command that will serve that child at that port; ended afterwards, with all it started."""
    with log_of(name) as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(),
            cwd=FOLDER.parent,
            start_new_session=True,  # Ctrl-C is for us; we end it
        )
    try:
        yield Running(process, port, child)
    finally:
        processes.end(process)


@contextmanager
def serving(name: str, child: Argv) -> Iterator[Running]:
    """A target that has answered a call. That call's session is ended again."""
    with spawned(name, child) as running:
        first_answer(running.port).leave()
        yield running


@contextmanager
def endpoint(name: str, child: Argv) -> Iterator[Endpoint]:
    """Something to aim the load generator at: a proxy, or the bare pipe."""
    if name == PIPE:
        yield BarePipe(child)
        return
    with serving(name, child) as running:
        yield running
