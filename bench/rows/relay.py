"""A relay: how many messages it passes on, what it adds to a call, what its connections take.

Beside it, where the minimal bridge's figures always stand: a plain relay of the `websockets` package, or, for
what is added to a call, the same caller asking the same server without a relay. Clients and the agent, which
answers by itself, are the same bare programs for both relays (`bench.relay_peer`).
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench.generator import generator
from bench.measuring import Figures, Group, Plan, Probe, Unable
from bench.processes import cpu_s, descendants, rss_bytes
from bench.relay_peer.running import Relay, agent, caller, clients_of, helper, relay, waited, workstation
from bench.relay_peer.ways import CALL, PLAIN, STREAM
from bench.results import MINIMAL, MOORING
from bench.rows.fresh import from_scratch
from mooring.cli.control_sockets import ask_socket

__all__ = ["GROUPS", "Sample", "busiest_second"]

PLAINLY = "a plain relay, by websockets"
DIRECTLY = "the server itself"
IDLE = 10_000
IDLE_S = 25.0
"""By then each of them was asked for a sign of life."""
ROUND, ROUNDS = 10_000, 2
"""One round before them: what is kept of the memory that so many took is used again by those that follow."""
REST_S = 25.0
"""After two looks that find nothing to do, a relay has given back what it does not need."""
GRACE_S = 90.0
"""For clients that went without a word to be forgotten."""
HERD = 5_000
HERD_S = 60.0
LOOK_S = 0.1


# Messages


@contextmanager
def _messages(way: str, plan: Plan) -> Iterator[Callable[[], Figures]]:
    seconds = "0.5" if plan.quick else "1"

    def window() -> Figures:
        found = load()
        cpu_us = found.proxy_cpu_s / found.calls * 1e6
        if way == CALL:
            return Figures({"relay_calls": found.rate})
        values = {"relay_rate": found.rate, "relay_cpu": cpu_us}
        return Figures(values if way == STREAM else values | {"relay_calls": found.rate}, notes)

    notes = {"relay_rate": PLAINLY} if way == PLAIN else {}
    with clients_of(way) as clients, generator(clients, "-c", "50", "-b", "512", "-d", seconds) as load:
        yield window


def _message_probes(plan: Plan) -> Iterator[Probe]:
    for target, way in ((MOORING, STREAM), (MOORING, CALL), (MINIMAL, PLAIN)):
        if target in plan.targets:
            ids = {STREAM: ("relay_rate", "relay_cpu"), CALL: ("relay_calls",)}.get(way, MESSAGES)
            yield Probe(target, ids, _messages(way, plan))


MESSAGES = ("relay_rate", "relay_calls", "relay_cpu")


# What it adds to a call


@contextmanager
def _latency(target: str, plan: Plan) -> Iterator[Callable[[], Figures]]:
    def window() -> Figures:
        found = load()
        values = {"relay_p50": found.p50_us / 1000, "relay_p99": found.p99_us / 1000}
        return Figures(values, {"relay_p50": DIRECTLY} if target == MINIMAL else {})

    options = ("-r", "1000", "-c", "32", "-s", "8", "-d", "1" if plan.quick else "2")
    with workstation() as station:
        where = station.directly if target == MINIMAL else station.through_relay
        with generator(where, *options) as load:
            yield window


def _latency_probes(plan: Plan) -> Iterator[Probe]:
    for target in plan.among(MOORING, MINIMAL):
        yield Probe(target, ("relay_p50", "relay_p99"), _latency(target, plan))


# Many connections


def _idle(_: str) -> Figures:
    """All connected, each greeted and asked for a sign of life, none in use."""
    with relay([caller()], "--max-connections", str(IDLE + 100)) as running:
        before = rss_bytes(running.process.pid)
        with helper("crowd", "idle-clients", str(running.port)) as crowd:
            crowd.tell(" ".join(running.tokens * IDLE))
            crowd.hear()
            time.sleep(IDLE_S)
            after, burnt_s = rss_bytes(running.process.pid), _cpu_s(running)
            time.sleep(IDLE_S)
            burnt_s = _cpu_s(running) - burnt_s
            if (there := running.health()["clients"]) != IDLE:
                raise Unable(f"{there} of {IDLE} are connected")
    note = f"{after / 1e6:.0f} MB with {IDLE:,}, {burnt_s / IDLE_S * 1000:.0f} ms/s of CPU"
    return Figures({"relay_idle": (after - before) / IDLE / 1024}, {"relay_idle": note})


def _churn(_: str) -> Figures:
    """A quarter of them go without a word."""
    with relay([caller()]) as running:
        before = _after_churn(running)
        after = [_after_churn(running) for _ in range(ROUNDS)][-1]
    return Figures(
        {"relay_growth": (after - before) / 1e6}, {"relay_growth": f"{before / 1e6:.1f} MB before"}
    )


def _after_churn(running: Relay) -> int:
    with helper("crowd", "churn", str(running.port)) as crowd:
        crowd.tell(" ".join(running.tokens * ROUND))
        crowd.hear()
    waited(lambda: running.health()["clients"] == 0, "clients that have gone are not forgotten", GRACE_S)
    time.sleep(REST_S)
    return rss_bytes(running.process.pid)


def _cpu_s(running: Relay) -> float:
    return cpu_s(descendants(running.process.pid)[:1])


# A restart


class Sample(NamedTuple):
    """How much CPU the relay has used by some moment, both in seconds."""

    at: float
    cpu_s: float


def busiest_second(samples: Sequence[Sample]) -> float:
    """The largest share of a core in a second or more, against that of the whole time."""
    whole = _share(samples[0], samples[-1])
    shares = [
        _share(one, next(other for other in samples[number:] if other.at >= one.at + 1))
        for number, one in enumerate(samples)
        if one.at + 1 <= samples[-1].at
    ]
    return max(shares, default=whole) / whole if whole else 0.0


def _share(one: Sample, other: Sample) -> float:
    return (other.cpu_s - one.cpu_s) / (other.at - one.at)


def _herd(_: str) -> Figures:
    """From the moment at which the restart is asked for until every agent is there again."""
    with (
        relay([agent(f"agent-{number}") for number in range(HERD)]) as running,
        helper("crowd", "herd", str(running.port)) as crowd,
    ):
        crowd.tell(" ".join(running.tokens))
        crowd.hear()
        asked = time.monotonic()
        ask_socket(running.state / "relay.sock", "POST", "/restart")
        samples = _watched(running, asked)
        took_s = json.loads(crowd.hear())["all_at"] - asked
    back_s = samples[0].at - asked
    note = f"the relay itself after {back_s:.1f} s, at {_share(samples[0], samples[-1]):.0%} of a core since"
    return Figures({"relay_herd": took_s, "relay_peak": busiest_second(samples)}, {"relay_herd": note})


def _watched(running: Relay, asked: float) -> list[Sample]:
    """From the relay's return until all agents are back."""
    samples: list[Sample] = []
    was_gone = False
    while time.monotonic() < asked + HERD_S:
        try:
            agents = running.health()["agents"]
        except (OSError, http.client.HTTPException):
            agents, was_gone = 0, True
        else:
            if was_gone:
                samples.append(Sample(time.monotonic(), _cpu_s(running)))
        if was_gone and agents == HERD:
            return samples
        time.sleep(LOOK_S)
    raise Unable(f"not all agents are back after {HERD_S:g} s")


GROUPS = (
    Group(MESSAGES, _message_probes, windows=5),
    Group(("relay_p50", "relay_p99"), _latency_probes, windows=5),
    from_scratch(("relay_idle",), _idle, windows=1, targets=(MOORING,)),
    from_scratch(("relay_growth",), _churn, windows=1, targets=(MOORING,)),
    from_scratch(("relay_herd", "relay_peak"), _herd, windows=1, targets=(MOORING,)),
)
