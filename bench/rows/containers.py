"""Servers in containers: what Mooring adds to `docker run -i` by hand, and what it takes.

By hand there is the server alone, on the pipes of the docker command: the floor, as the bare pipe is
elsewhere. The minimal bridge has that command as its server, and so has Mooring itself in a row of its own,
for comparison. All of them make the same container of the same image on the same engine, and are measured in
turn.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

from bench.client import Client, Connection, first_answer
from bench.containers import (
    DOCKER,
    PODMAN,
    before_command,
    by_hand,
    died_ns,
    engine,
    in_container,
    moored,
    options,
    wait_for_containers,
)
from bench.daemon import daemon
from bench.generator import generator
from bench.measuring import Figures, Group, Plan, Probe, Unable
from bench.processes import rss_bytes
from bench.results import MINIMAL, MOORING, PIPE, PYTHON_CHILD
from bench.rows.fresh import from_scratch
from bench.rows.memory import helpers
from bench.rows.starting import first_line_s
from bench.targets import Argv, Endpoint, Running, native_child, python_child
from tests.containers.engines import RealEngine

__all__ = ["GROUPS", "Kill", "summary"]

NOTES = {PIPE: "`docker run -i` by hand", MINIMAL: "before `docker run -i`"}
SHORT = ("-t", "sleep", "-a", '{"ms":10}')
"""A call as people make them: most tools ask something of a disk or of a network."""
KILLS = 20
SESSIONS = 50
SETTLE_S = 2.0
"""A spare has been started, and introduced."""
NO_SPARE = ("--spare", "0")
PATIENCE_S = 30.0


# Small calls


@contextmanager
def _latency(
    id: str,
    place: AbstractContextManager[Endpoint],
    note: str,
    plan: Plan,
    load_options: tuple[str, ...] = (),
) -> Iterator[Callable[[], Figures]]:
    def window() -> Figures:
        return Figures({id: load().p50_us / 1000}, {id: note})

    seconds = "0.5" if plan.quick else "1"
    with place as where, generator(where, "-d", seconds, *load_options) as load:
        yield window


def _in_turn(id: str, child: Callable[[], Argv], *load_options: str, windows: int) -> Group:
    return Group((id,), partial(_targets, id, child, load_options), windows)


def _targets(
    id: str, child: Callable[[], Argv], load_options: tuple[str, ...], plan: Plan
) -> Iterator[Probe]:
    for target in plan.among(MOORING, MINIMAL, PIPE):
        place, note = in_container(target, child()), NOTES.get(target, "")
        yield Probe(target, (id,), _latency(id, place, note, plan, load_options))


def _with_the_command(plan: Plan) -> Iterator[Probe]:
    """Mooring twice: by the engine's API, and with the docker command as the server that it starts."""
    yield from _targets("container_p50", native_child, (), plan)
    id = "container_command"
    for target in plan.among(MOORING):
        place = before_command(target, native_child())
        yield Probe(target, (id,), _latency(id, place, NOTES[MINIMAL], plan))


# A container killed


class Kill(NamedTuple):
    """Moments of one kill, by the clock of the wall, which the engine and we share."""

    asked_ns: int
    event_ns: int
    """When it died, as the engine tells it to everybody."""
    told_ns: int
    """When the caller had the error."""


def _killed(id: str, kind: str, _: str) -> Figures:
    """Kills by the engine's API in the middle of a call, each of the only container of a new Mooring."""
    with engine(kind) as where:
        return summary(id, [_kill(where) for _ in range(KILLS)])


def _kill(where: RealEngine) -> Kill:
    with moored(where, native_child(), *NO_SPARE) as running:
        wait_for_containers(where, 0)
        client = first_answer(running.port)
        [container] = wait_for_containers(where, 1)
        # (An engine answers to the kill when all is over: who waited for that would hear the error late.)
        with Connection(running.port) as connection, ThreadPoolExecutor() as pool:
            call = client.begin(connection, "sleep", ms=60_000)
            client.call("echo", text="the server has the call by now")
            asked_ns = time.time_ns()
            killing = pool.submit(where.do, "POST", f"/containers/{container}/kill")
            error = _error(connection, call)
            told_ns = time.time_ns()
            killing.result()
        if not error:
            raise Unable("a result instead of an error")
        return Kill(asked_ns, died_ns(where, container, asked_ns), told_ns)


def _error(connection: Connection, call: int) -> bool:
    _, _, messages = connection.receive()
    return any(message.get("id") == call and "error" in message for message in messages)


def summary(id: str, kills: list[Kill]) -> Figures:
    """The worst of them, from the event; one that was told before the event took no time."""
    from_event_ms = [(kill.told_ns - kill.event_ns) / 1e6 for kill in kills]
    from_kill_ms = [(kill.told_ns - kill.asked_ns) / 1e6 for kill in kills]
    early = sum(took < 0 for took in from_event_ms)
    note = f"worst of {len(kills)}; median {statistics.median(from_event_ms):.1f} ms"
    note += f", from the kill {statistics.median(from_kill_ms):.0f} ms"
    note += f"; {early} before the event" if early else ""
    return Figures({id: max(0.0, *from_event_ms)}, {id: note})


# Memory


def _with_sessions(_: str) -> Figures:
    """All open, each in a container of its own and called, none busy."""
    with engine() as where, daemon() as found:
        found.run("bench", native_child(), options(where))
        first_answer(found.port, PATIENCE_S, prefix="/bench").leave()
        running = Running(found.process, found.port, native_child(), prefix="/bench")
        with generator(running, "-s", str(SESSIONS), "-n", str(2 * SESSIONS)) as load:
            load()
            time.sleep(SETTLE_S)
            megabytes = rss_bytes(found.process.pid) / 1e6
            company = f"{len(where.containers())} containers{helpers(running)}"
    return Figures({"rss_containers": megabytes}, {"rss_containers": company})


# A new session


@contextmanager
def _cold() -> Iterator[Callable[[], Figures]]:
    """No container is there."""

    def window() -> Figures:
        wait_for_containers(where, 0)
        took_s, client = _first_answer_s(running)
        client.leave()
        return Figures({"container_cold": took_s})

    with engine() as where, moored(where, native_child(), *NO_SPARE) as running:
        yield window


@contextmanager
def _cold_by_hand() -> Iterator[Callable[[], Figures]]:
    def window() -> Figures:
        took_s = first_line_s(by_hand(where, native_child()))
        return Figures({"container_cold": took_s}, {"container_cold": NOTES[PIPE]})

    with engine() as where:
        yield window


@contextmanager
def _warm() -> Iterator[Callable[[], Figures]]:
    """Another session is open, and so there is a spare."""

    def window() -> Figures:
        time.sleep(SETTLE_S)
        took_s, client = _first_answer_s(running)
        client.leave()
        return Figures({"container_warm": took_s})

    with engine() as where, moored(where, native_child()) as running, ExitStack() as stack:
        stack.callback(first_answer(running.port).leave)
        yield window


def _first_answer_s(running: Running) -> tuple[float, Client]:
    began = time.perf_counter()
    client = Client(running.port)
    client.introduce()
    client.call("echo", text="hello world")
    return time.perf_counter() - began, client


def _new_session(plan: Plan) -> Iterator[Probe]:
    for target in plan.among(MOORING, PIPE):
        yield Probe(target, ("container_cold",), _cold() if target == MOORING else _cold_by_hand())


def _new_session_with_spare(plan: Plan) -> Iterator[Probe]:
    for target in plan.among(MOORING):
        yield Probe(target, ("container_warm",), _warm())


GROUPS = (
    Group(("container_p50", "container_command"), _with_the_command, windows=10),
    _in_turn("container_p50" + PYTHON_CHILD, python_child, windows=5),
    _in_turn("container_10ms", native_child, *SHORT, windows=3),
    from_scratch(
        ("container_error",), partial(_killed, "container_error", DOCKER), windows=1, targets=(MOORING,)
    ),
    from_scratch(
        ("container_error_podman",),
        partial(_killed, "container_error_podman", PODMAN),
        windows=1,
        targets=(MOORING,),
    ),
    from_scratch(("rss_containers",), _with_sessions, windows=1, targets=(MOORING,)),
    Group(("container_cold",), _new_session, windows=5),
    Group(("container_warm",), _new_session_with_spare, windows=5),
)
