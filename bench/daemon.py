"""Mooring as a daemon, with a state directory of its own, and servers given to it."""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench import processes
from bench.client import first_answer
from bench.installed import mooring_program
from bench.programs import log_of
from bench.targets import Argv, Running, environment, free_port
from mooring.api.client import ApiClient, NotRunning
from mooring.host.places import Places
from mooring.runtimes.containers.spec import ContainerOptions
from mooring.workloads.definition import ServerOptions, dump_options

__all__ = ["Daemon", "daemon", "served_by_daemon"]

PATIENCE_S = 60.0


class Daemon:
    """One that runs."""

    def __init__(self, process: subprocess.Popen[bytes], places: Places) -> None:
        self.process = process
        self.port = places.port
        self.environment = _environment(places)
        self._api = ApiClient(places.socket)

    def run(self, name: str, child: Argv, container: ContainerOptions | None = None) -> None:
        """Give it a server, in a container or not; it may not be ready yet."""
        variables = {} if container else environment()
        options = ServerOptions(name=name, argv=tuple(child), container=container, env=variables)
        body = {"options": msgspec.json.decode(dump_options(options))}
        self._api.ask("PUT", f"/servers/{name}", body)

    def states(self) -> list[str]:
        """Of all servers."""
        return [server["state"] for server in self._api.ask("GET", "/servers")]

    def wait_for(self, *states: str) -> None:
        """Until every server is in one of these, and those that need no process have none."""
        deadline = time.monotonic() + PATIENCE_S
        while not set(self.states()) <= set(states):
            if time.monotonic() > deadline:
                raise TimeoutError(f"servers are {set(self.states())}, not {states}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """It can be asked."""
        with contextlib.suppress(NotRunning):
            return bool(self._api.ask("GET", "/daemon")["pid"])
        return False

    def processes(self) -> list[processes.Process]:
        """What it has started, and runs now."""
        return [one for one in processes.descendants(self.process.pid) if one.pid != self.process.pid]


@contextmanager
def daemon() -> Iterator[Daemon]:
    """One without servers; ended afterwards, with all it started."""
    with (
        tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder,
        log_of("daemon") as log,
    ):
        places = Places(Path(folder), free_port())
        process = subprocess.Popen(
            [mooring_program(), "serve"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(places),
            start_new_session=True,
        )
        try:
            found = Daemon(process, places)
            deadline = time.monotonic() + PATIENCE_S
            while not found.answers():
                if time.monotonic() > deadline:
                    raise TimeoutError("the daemon does not answer")
                time.sleep(0.01)
            yield found
        finally:
            processes.end(process)


def _environment(places: Places) -> dict[str, str]:
    state = {"MOORING_STATE_DIR": str(places.state), "MOORING_PORT": str(places.port)}
    return {**environment(), **state}


@contextmanager
def served_by_daemon(child: Argv) -> Iterator[Running]:
    """A server of a daemon that has answered a call, as `targets.serving` has it of a target."""
    with daemon() as found:
        found.run("bench", child)
        first_answer(found.port, prefix="/bench").leave()
        yield Running(found.process, found.port, child, prefix="/bench")
