"""Replicas of one server that share a Redis of their own, which keeps nothing."""

import http.client
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import redis

from bench.client import first_answer
from bench.measuring import Unable
from bench.processes import Process
from bench.programs import build
from bench.targets import Argv, Running, free_port, mooring_command, native_child, started

__all__ = ["Fleet", "Said", "Spread", "Store", "fleet", "said_between", "store"]

PATIENCE_S = 30.0


class Said(NamedTuple):
    """What Redis was asked so far: commands, those of scripts among them, and how often it read some."""

    commands: int
    reads: int


def said_between(before: Said, after: Said) -> Said:
    """By others: each look is two questions of our own."""
    return Said(after.commands - before.commands - 2, after.reads - before.reads - 2)


class Store:
    """A Redis that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"
        self.client = redis.Redis(port=port, socket_timeout=PATIENCE_S)

    def info(self, section: str) -> dict[str, Any]:
        return self.client.info(section)

    def said(self) -> Said:
        """See `said_between`."""
        commands = sum(one["calls"] for one in self.info("commandstats").values())
        return Said(commands, int(self.info("stats")["total_reads_processed"]))

    def memory_bytes(self) -> int:
        """Of everything it keeps."""
        return int(self.info("memory")["used_memory"])

    def cpu_s(self) -> float:
        """Used so far, as it says itself: to the microsecond."""
        used = self.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


@contextmanager
def store() -> Iterator[Store]:
    """Redis as it is installed, on this machine alone; ended afterwards."""
    program = shutil.which("redis-server")
    if program is None:
        raise Unable("there is no redis-server (Debian: apt-get install redis-server)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        argv = [program, *where, "--save", "", "--appendonly", "no"]
        with started("redis", argv, port, []) as running:
            found = Store(running.process, port)
            try:
                _wait_for(found)
                yield found
            finally:
                found.client.close()


def _wait_for(store: Store) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            store.client.ping()
        except redis.RedisError:
            if time.monotonic() > deadline:
                raise Unable("Redis does not answer") from None
            time.sleep(0.01)
        else:
            return


class Spread:
    """What the load generator is aimed at: some replicas in turn; sessions begin there, or at one of them."""

    def __init__(self, at: Sequence[Running], everybody: Sequence[Running], begin_at: Running | None) -> None:
        self._at = ",".join(_address(one) for one in at)
        self._begin = ("-e", _address(begin_at)) if begin_at is not None else ()
        self._everybody = everybody

    def load_argv(self, *options: str) -> Argv:
        return [str(build("load")), "http", self._at, *self._begin, *options]

    def own_processes(self) -> list[Process]:
        """Of all replicas: who passes a call on has work with it too."""
        return [process for one in self._everybody for process in one.own_processes()]


def _address(running: Running) -> str:
    return f"127.0.0.1:{running.port}"


class Fleet:
    """Replicas that run."""

    def __init__(self, store: Store, replicas: Sequence[Running]) -> None:
        self.store = store
        self.replicas = replicas

    @property
    def spread(self) -> Spread:
        """All in turn, without affinity."""
        return Spread(self.replicas, self.replicas, None)

    @property
    def elsewhere(self) -> Spread:
        """One that has none of the sessions: they all are the first one's."""
        return Spread(self.replicas[1:2], self.replicas, self.replicas[0])


@contextmanager
def fleet(count: int) -> Iterator[Fleet]:
    """So many replicas in front of the native child; each has answered a call and knows all others."""
    with ExitStack() as stack:
        shared = stack.enter_context(store())
        replicas = [stack.enter_context(_replica(shared, number)) for number in range(count)]
        for one in replicas:
            first_answer(one.port).leave()
        for one in replicas:
            _wait_until_it_sees(one, count - 1)
        yield Fleet(shared, replicas)


@contextmanager
def _replica(store: Store, number: int) -> Iterator[Running]:
    port = free_port()
    shared = ("--sessions", store.url, "--advertise", f"http://127.0.0.1:{port}")
    with started(
        f"replica-{number}", mooring_command(port, native_child(), *shared), port, native_child()
    ) as it:
        yield it


def _wait_until_it_sees(replica: Running, others: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while _others_of(replica) < others:
        if time.monotonic() > deadline:
            raise Unable(f"a replica does not see all {others} others")
        time.sleep(0.05)


def _others_of(replica: Running) -> int:
    asking = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=PATIENCE_S)
    try:
        asking.request("GET", "/readyz")
        return int(json.loads(asking.getresponse().read())["replicas"]["others"])
    finally:
        asking.close()
