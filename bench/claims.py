"""What Mooring promises about speed and size, judged by one run of the benchmark.

    for claim in judge(results): ...

Each promise is a figure computed from rows of the same run, and a bound. A figure that cannot be
computed because a row or a target is missing is "not measured": that is no promise kept.

A promise that is not kept on the machine of the recorded run stays here, with its reason in `REASONS`.
"""

import operator
from collections.abc import Callable
from typing import Literal, NamedTuple

from bench.figures import NOTHING, figure, with_unit
from bench.ratios import ratio
from bench.results import MINIMAL, MOORING, PEERS, PIPE, Results, Row
from bench.rows.scaling import SESSIONS

__all__ = ["PROMISES", "REASONS", "Claim", "Promise", "Verdict", "judge"]

Verdict = Literal["kept", "fell short", "not measured"]
Figure = Callable[[Results], float]

# The dearest number of sessions may cost this much more than one session.
FLAT = 1.15

# Two ways to do the same work may differ by this much and cost the same: what windows of a second can tell.
SAME = 1.05

# A call to a container may take this much of what it takes by hand.
ADDED = 1.1

# Promise -> why it is not kept. Only shown while it is not.
_OWN_PROCESSES = (
    "Mooring runs a server process for each session, the others one for all: each call then has a write, a "
    "read and two wake-ups to itself, which 32 calls of one session share"
)
REASONS: dict[str, str] = {
    "rate_npm": (
        "on this machine Node.js gains more than Python does: 17.8× in the run of 18 November, on another one"
    ),
    "rates_pypi": _OWN_PROCESSES,
    "rates_npm": _OWN_PROCESSES,
    "seq_p50": (
        "a quarter of the best peer is about what the minimal bridge takes: most of it is the kernel waking "
        "the client, the bridge and the server in turn"
    ),
    "rss_50": "by less than memory differs from run to run; 34.9 MB in the run of 18 November",
    "flat": (
        "the caches of the processor do not hold a thousand sessions and their servers; the instructions "
        "executed per call are the same from 32 sessions to 300 (callgrind, without the clock's ticks)"
    ),
    "to_modern": (
        "every call is given the envelope of 2026-07-28, and its result is searched for what a handshake "
        "client does not know: both are twice as long. A call of that era itself costs more than this one"
    ),
    "container_p50": (
        "the docker command copies bytes; in its place Mooring reads HTTP and JSON, checks and counts: some "
        "110,000 instructions (callgrind), and the six system calls that two connections need (strace)"
    ),
    "replica_three_few": (
        "with so few at once a message between two replicas carries one call, and each call has turns of the "
        "loop to itself in two processes; and three of them, their 32 servers and the load share two cores"
    ),
}


class Promise(NamedTuple):
    """A figure of every run, and the most or the least it may be."""

    id: str
    text: str
    figure: Figure
    sense: Literal["≤", "≥"]
    limit: float
    unit: str


class Claim(NamedTuple):
    """A promise after a run. `reason` says why it fell short, or what is missing; empty where it was kept."""

    id: str
    text: str
    measured: str
    bound: str
    verdict: Verdict
    reason: str


class NotMeasured(LookupError):
    """The run has no figure for this."""


def judge(results: Results) -> list[Claim]:
    """Every promise with what this run says about it."""
    return [_judge(promise, results) for promise in PROMISES]


def _judge(promise: Promise, results: Results) -> Claim:
    bound = f"{promise.sense} {with_unit(f'{promise.limit:g}', promise.unit)}"
    try:
        value = promise.figure(results)
    except NotMeasured as missing:
        return Claim(promise.id, promise.text, NOTHING, bound, "not measured", str(missing))
    measured = with_unit(figure(value, promise.unit), promise.unit)
    within = operator.le if promise.sense == "≤" else operator.ge
    if within(value, promise.limit):
        return Claim(promise.id, promise.text, measured, bound, "kept", "")
    return Claim(promise.id, promise.text, measured, bound, "fell short", REASONS.get(promise.id, ""))


def _measured(results: Results, row_id: str, target: str = MOORING) -> float:
    return _found(results, row_id, target)[1]


def _found(results: Results, row_id: str, target: str) -> tuple[Row, float]:
    row, value = results.row(row_id), results.value(row_id, target)
    if row is None or value is None:
        raise NotMeasured(f"no figure for {target} in {row_id}")
    return row, value


def _ratio(results: Results, row_id: str, other_id: str, other_target: str = MOORING) -> float:
    row, _ = _found(results, row_id, MOORING)
    other, _ = _found(results, other_id, other_target)
    found = ratio(row, MOORING, other, other_target)
    if found is None:
        raise NotMeasured("the figure to compare with is zero")
    return found


def _of(row_id: str) -> Figure:
    return lambda results: _measured(results, row_id)


def _against(row_id: str, target: str) -> Figure:
    return lambda results: _ratio(results, row_id, row_id, target)


def _added(row_id: str, target: str) -> Figure:
    return lambda results: _measured(results, row_id) - _measured(results, row_id, target)


def _to(row_id: str, other_id: str) -> Figure:
    return lambda results: _ratio(results, row_id, other_id)


def _more(row_id: str, other_id: str) -> Figure:
    return lambda results: _measured(results, row_id) - _measured(results, other_id)


def _p50_to_best_peer(results: Results) -> float:
    # All of them: were the best one missing, the second best would flatter us.
    return max(_ratio(results, "seq_p50", "seq_p50", peer) for peer in PEERS)


def _start_alone(results: Results) -> float:
    # The bare pipe's start is the server's own. Where it was not taken, nothing is taken off.
    return _measured(results, "start") - (results.value("start", PIPE) or 0.0)


def _growth(results: Results) -> float:
    return max(_ratio(results, f"cost_{sessions}", f"cost_{SESSIONS[0]}") for sessions in SESSIONS)


def _busiest_generator(results: Results) -> float:
    # The two fastest: what keeps up with them was never waited for.
    return max(_measured(results, "generator_share", target) for target in (MOORING, MINIMAL))


def _at_most(limit: float, unit: str, promise_id: str, text: str, value: Figure) -> Promise:
    return Promise(promise_id, text, value, "≤", limit, unit)


def _at_least(limit: float, unit: str, promise_id: str, text: str, value: Figure) -> Promise:
    return Promise(promise_id, text, value, "≥", limit, unit)


_RATE = "calls/s at 32 connections, one session, against"
_RATES = "calls/s at 32 connections, 32 sessions, against"

PROMISES = (
    _at_least(25, "×", "rate_pypi", f"{_RATE} PyPI mcp-proxy", _against("rate_1s", "pypi-mcp-proxy")),
    _at_least(12, "×", "rate_npm", f"{_RATE} npm mcp-proxy", _against("rate_1s", "npm-mcp-proxy")),
    _at_least(0.6, "×", "rate_minimal", f"{_RATE} the minimal bridge", _against("rate_1s", MINIMAL)),
    _at_least(25, "×", "rates_pypi", f"{_RATES} PyPI mcp-proxy", _against("rate_32s", "pypi-mcp-proxy")),
    _at_least(12, "×", "rates_npm", f"{_RATES} npm mcp-proxy", _against("rate_32s", "npm-mcp-proxy")),
    _at_most(45, "µs", "cpu_per_call", "CPU per call", _of("cpu_per_call")),
    _at_most(0.25, "×", "seq_p50", "p50 of one call after another, against the best peer", _p50_to_best_peer),
    _at_most(35, "MB", "rss_50", "memory with 50 sessions", _of("rss_50")),
    _at_most(20, "KiB", "rss_per_session", "memory per further idle session", _of("rss_per_session")),
    _at_most(0.25, "s", "start", "start to first answer, without the server's own start", _start_alone),
    _at_most(0.3, "s", "line_20m", "answer of 20 MiB in one line", _of("line_20m")),
    _at_most(6, "ms", "echo_1m", "echo of 1 MiB", _of("echo_1m")),
    _at_most(20, "ms", "death_error", "server killed, to the error", _of("death_error")),
    _at_most(0, "calls", "sigterm_lost", "calls lost on SIGTERM", _of("sigterm_lost")),
    _at_most(FLAT, "×", "flat", "CPU per call, the dearest from 1 to 1,000 sessions against one", _growth),
    _at_most(
        1.5,
        "×",
        "to_modern",
        "CPU per call of a handshake client: server of 2026-07-28 against one of its own era",
        _to("cpu_to_modern", "cpu_handshake"),
    ),
    _at_most(
        1.5,
        "×",
        "to_handshake",
        "CPU per call of a client of 2026-07-28: handshake server against one of its own era",
        _to("cpu_to_handshake", "cpu_modern"),
    ),
    _at_most(
        SAME,
        "×",
        "shared",
        "CPU per call with 32 sessions: `--shared` against a server each (the same, but for noise)",
        _to("cpu_shared", "cpu_32s"),
    ),
    _at_most(
        60,
        "MB",
        "rss_1000_stateless",
        "memory with 1,000 clients of 2026-07-28, `--shared`",
        _of("rss_1000_stateless"),
    ),
    _at_most(
        SAME,
        "×",
        "daemon",
        "CPU per call: the daemon against `--foreground` (the same, but for noise)",
        _to("cpu_daemon", "cpu_handshake"),
    ),
    _at_most(45, "MB", "rss_daemon", "memory of the daemon with 20 idle servers", _of("rss_daemon")),
    _at_most(0, "processes", "idle_processes", "processes per further idle server", _of("idle_processes")),
    _at_most(150, "ms", "ls", "`mooring ls` more than `python -c pass`", _of("ls")),
    _at_most(
        200,
        "ms/s",
        "crash_loops",
        "CPU of the daemon with 200 servers in crash loops (a fifth of a core)",
        _of("crash_loops"),
    ),
    _at_most(
        100,
        "ms",
        "edit_69k",
        "an entry put into 69 KiB of an editor's settings and out again",
        _of("edit_69k"),
    ),
    _at_most(
        ADDED,
        "×",
        "container_p50",
        "p50 of one call after another in a container, against `docker run -i` by hand",
        _against("container_p50", PIPE),
    ),
    _at_most(
        ADDED,
        "×",
        "container_10ms",
        "the same of a call that takes the server 10 ms",
        _against("container_10ms", PIPE),
    ),
    _at_most(
        200,
        "ms",
        "container_error",
        "container killed: from the engine's event to the error at the caller, at worst",
        _of("container_error"),
    ),
    _at_most(60, "MB", "rss_containers", "memory of the daemon with 50 containers", _of("rss_containers")),
    _at_least(
        10,
        "×",
        "remote_rate",
        "calls/s in front of a server that speaks HTTP, against fastmcp there",
        _against("remote_rate", "fastmcp"),
    ),
    _at_most(
        0.5, "ms", "remote_p50", "p50 added to a server that speaks HTTP", _added("remote_p50", MINIMAL)
    ),
    _at_most(
        1,
        "ms",
        "remote_event",
        "the same of a call with an event on a stream",
        _added("remote_event", MINIMAL),
    ),
    _at_most(2, "MB", "remote_growth", "memory gained there in 100,000 calls", _of("remote_growth")),
    _at_least(
        1.5,
        "×",
        "relay_rate",
        "calls/s of 50 clients through a relay, on a stream each, against a plain relay of `websockets`",
        _against("relay_rate", MINIMAL),
    ),
    _at_most(
        1, "ms", "relay_p50", "p50 added by relay and agent at 1,000 calls/s", _added("relay_p50", MINIMAL)
    ),
    _at_most(5, "ms", "relay_p99", "p99 added there", _added("relay_p99", MINIMAL)),
    _at_most(30, "KiB", "relay_idle", "memory of a relay per idle connection, of 10,000", _of("relay_idle")),
    _at_most(
        2, "MB", "relay_growth", "memory gained there by 20,000 that came and went", _of("relay_growth")
    ),
    _at_most(10, "s", "relay_herd", "relay restarted: until 5,000 agents are back", _of("relay_herd")),
    _at_most(2, "×", "relay_peak", "the relay's busiest second then, against the mean", _of("relay_peak")),
    _at_most(
        SAME,
        "×",
        "replica_cpu",
        "CPU per call on the replica that has the session, against Mooring without `--sessions`",
        _to("replica_cpu", "replica_cpu_alone"),
    ),
    _at_most(
        SAME,
        "×",
        "replica_p50",
        "p50 of one call after another there, against the same",
        _to("replica_p50", "replica_p50_alone"),
    ),
    _at_most(
        2.2,
        "×",
        "replica_cpu_elsewhere",
        "CPU per call that another replica passes on, of both, against one on its owner",
        _to("replica_cpu_elsewhere", "replica_cpu"),
    ),
    _at_most(
        2.2,
        "×",
        "replica_elsewhere",
        "p50 of a call that another replica passes on, against one on its owner",
        _to("replica_p50_elsewhere", "replica_p50"),
    ),
    _at_most(
        1,
        "ms",
        "replica_elsewhere_added",
        "p50 added by that",
        _more("replica_p50_elsewhere", "replica_p50"),
    ),
    _at_least(
        0.5,
        "×",
        "replica_three",
        "calls per second of CPU with 96 clients: three replicas without affinity against one",
        _to("replica_three", "replica_one"),
    ),
    _at_least(
        0.5,
        "×",
        "replica_three_few",
        "the same with 32 clients",
        _to("replica_three_few", "replica_one_few"),
    ),
    _at_most(
        0.001,
        "commands",
        "replica_commands",
        "Redis asked for a call on the owner (heartbeats included; the calls alone: never)",
        _of("replica_commands"),
    ),
    _at_most(
        1,
        "commands",
        "replica_commands_elsewhere",
        "Redis asked for a call that is passed on",
        _of("replica_commands_elsewhere"),
    ),
    _at_most(0.5, "batches", "replica_batches", "batches to Redis per event", _of("replica_batches")),
    _at_most(2, "KiB", "replica_session", "memory of Redis per session, of 50,000", _of("replica_session")),
    _at_most(
        20,
        "ms",
        "replica_ls_pause",
        "`mooring sessions ls` of 50,000: the longest that Redis lets another client wait",
        _of("replica_ls_pause"),
    ),
    _at_most(2, "ms", "replica_ls_command", "the slowest command then", _of("replica_ls_command")),
    _at_most(6, "×", "help_ratio", "`mooring --help` against `python -c pass`", _of("help_ratio")),
    _at_most(80, "%", "generator", "the load generator's share of one core, at most", _busiest_generator),
)
