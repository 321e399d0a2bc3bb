"""Replicas that share sessions in Redis: what a call costs on its owner and elsewhere, and what Redis does.

Beside each other in turn: Mooring without `--sessions`, a replica that has the session, one that has not and
passes the call on, and three under a balancer without affinity.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from bench.fleet import Fleet, Said, Spread, fleet, said_between
from bench.generator import Window, generator
from bench.measuring import Figures, Group, Plan, Probe
from bench.results import MOORING
from bench.rows.fresh import from_scratch
from bench.sessions import MANY, many_sessions, took_over
from bench.targets import Endpoint, native_child, serving

__all__ = ["GROUPS"]

BUSY = ("-c", "32")
SPREAD = ("-c", "96", "-s", "96")
"""Each client has a session of its own, and its calls go to all replicas in turn: with three, one in three
is at its owner. So many that three have as many at once as one has in other rows."""
SPREAD_FEW = ("-c", "32", "-s", "32")
"""The same, with hardly anything for each of three to do at once."""
CALLS = ("-n", "20000")
EVENTS_EACH = 1000
EVENTS = ("-c", "8", "-s", "8", "-n", "32", "-t", "events", "-p", "-a", f'{{"count":{EVENTS_EACH}}}')

Served = Callable[[], AbstractContextManager[Endpoint]]


@contextmanager
def _alone() -> Iterator[Endpoint]:
    with serving(MOORING, native_child()) as running:
        yield running


@contextmanager
def _owner() -> Iterator[Endpoint]:
    with fleet(1) as found:
        yield found.spread


@contextmanager
def _elsewhere() -> Iterator[Endpoint]:
    with fleet(2) as found:
        yield found.elsewhere


@contextmanager
def _three() -> Iterator[Endpoint]:
    with fleet(3) as found:
        yield found.spread


# What a call costs, and how long it takes


class Way(NamedTuple):
    """Who is called how, and what of it is of interest."""

    id: str
    served: Served
    options: tuple[str, ...]
    value: Callable[[Window], float]


def _cpu_us(found: Window) -> float:
    return found.proxy_cpu_s / found.calls * 1e6


def _p50_ms(found: Window) -> float:
    return found.p50_us / 1000


def _per_core(found: Window) -> float:
    return found.calls / found.proxy_cpu_s


IN_TURN = (
    Way("replica_p50_alone", _alone, (), _p50_ms),
    Way("replica_p50", _owner, (), _p50_ms),
    Way("replica_p50_elsewhere", _elsewhere, (), _p50_ms),
)
AT_ONCE = (
    Way("replica_cpu_alone", _alone, BUSY, _cpu_us),
    Way("replica_cpu", _owner, BUSY, _cpu_us),
    Way("replica_cpu_elsewhere", _elsewhere, BUSY, _cpu_us),
)
BALANCED = (
    Way("replica_one", _owner, SPREAD, _per_core),
    Way("replica_three", _three, SPREAD, _per_core),
    Way("replica_one_few", _owner, SPREAD_FEW, _per_core),
    Way("replica_three_few", _three, SPREAD_FEW, _per_core),
)


@contextmanager
def _ready(way: Way, plan: Plan) -> Iterator[Callable[[], Figures]]:
    seconds = "0.5" if plan.quick else "1"
    with way.served() as endpoint, generator(endpoint, "-d", seconds, *way.options) as load:
        yield lambda: Figures({way.id: way.value(load())})


def _beside(ways: tuple[Way, ...]) -> Group:
    def probes(plan: Plan) -> Iterator[Probe]:
        for target in plan.among(MOORING):
            for way in ways:
                yield Probe(target, (way.id,), _ready(way, plan))

    return Group(tuple(way.id for way in ways), probes, windows=9, quick_windows=3)


# What Redis is asked meanwhile


@contextmanager
def _asked(
    spread: Callable[[Fleet], Spread],
    options: tuple[str, ...],
    figures: Callable[[Window, Said, float], Figures],
) -> Iterator[Callable[[], Figures]]:
    """What three replicas ask, all their heartbeats included."""

    def window() -> Figures:
        before, burnt_s = found.store.said(), found.store.cpu_s()
        called = load()
        burnt_s = found.store.cpu_s() - burnt_s
        return figures(called, said_between(before, found.store.said()), burnt_s)

    with fleet(3) as found, generator(spread(found), *options) as load:
        load()  # where sessions are is asked once
        yield window


def _at_owner(fleet: Fleet) -> Spread:
    return Spread(fleet.replicas[:1], fleet.replicas, None)


def _commands(id: str) -> Callable[[Window, Said, float], Figures]:
    def figures(called: Window, said: Said, _: float) -> Figures:
        note = f"{said.commands} in {called.calls:,} calls, with all heartbeats"
        return Figures({id: round(said.commands / called.calls, 3)}, {id: note})

    return figures


def _events(called: Window, said: Said, burnt_s: float) -> Figures:
    """A batch is what Redis reads at once."""
    values = {
        "replica_batches": round(said.reads / called.events, 3),
        "replica_event_redis": burnt_s / called.events * 1e6,
    }
    commands = said.commands / called.events
    note = f"{called.events / said.reads:.0f} events in each, {commands:.2f} commands for each event"
    return Figures(values, {"replica_batches": note})


def _asking(
    ids: tuple[str, ...],
    spread: Callable[[Fleet], Spread],
    options: tuple[str, ...],
    figures: Callable[[Window, Said, float], Figures],
) -> Group:
    def probes(plan: Plan) -> Iterator[Probe]:
        for target in plan.among(MOORING):
            yield Probe(target, ids, _asked(spread, options, figures))

    return Group(ids, probes, windows=2, quick_windows=1)


# Many sessions


def _many(_: str) -> Figures:
    found = many_sessions(MANY)
    values = {
        "replica_session": found.bytes_each / 1024,
        "replica_write_redis": found.write_us,
        "replica_find_redis": found.find_us,
        "replica_ls": found.listing_s,
        "replica_ls_pause": found.longest_pause_s * 1000,
        "replica_ls_command": found.slowest_command_s * 1000,
    }
    notes = {
        "replica_session": f"{found.memory_bytes / 1e6:.0f} MB with {MANY:,}",
        "replica_ls_command": found.slowest_command,
    }
    return Figures(values, notes)


def _taking_over(_: str) -> Figures:
    found = took_over()
    note = f"and {found.redis_us:.0f} µs of Redis, {found.commands:.1f} commands"
    values = {"replica_takeover": found.cpu_us, "replica_takeover_redis": found.redis_us}
    return Figures(values, {"replica_takeover": note})


_MANY_IDS = (
    "replica_session",
    "replica_write_redis",
    "replica_find_redis",
    "replica_ls",
    "replica_ls_pause",
    "replica_ls_command",
)

GROUPS = (
    _beside(IN_TURN),
    _beside(AT_ONCE),
    _beside(BALANCED),
    _asking(("replica_commands",), _at_owner, (*BUSY, *CALLS), _commands("replica_commands")),
    _asking(
        ("replica_commands_elsewhere",),
        lambda fleet: fleet.elsewhere,
        (*BUSY, *CALLS),
        _commands("replica_commands_elsewhere"),
    ),
    _asking(("replica_batches", "replica_event_redis"), _at_owner, EVENTS, _events),
    from_scratch(_MANY_IDS, _many, windows=1, targets=(MOORING,)),
    from_scratch(("replica_takeover", "replica_takeover_redis"), _taking_over, windows=3, targets=(MOORING,)),
)
