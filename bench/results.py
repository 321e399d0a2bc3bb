"""What a run of the benchmark found, as values and as JSON.

    row("rate_1s", {"mooring": 41000.0, "supergateway": None}, {"supergateway": "did not start"})

makes one row of the table. What a row is called, its unit and which direction is better stand in
`MEASURES` and nowhere else, so that whoever measures and whoever judges mean the same. A value is
None where a target was not measured or cannot do it; the target's note says why.

`record(run, "full")` keeps a run to compare later ones with, `recorded("full")` gives the last one kept.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

__all__ = [
    "MEASURES",
    "MINIMAL",
    "MOORING",
    "PEERS",
    "PIPE",
    "PYTHON_CHILD",
    "TARGETS",
    "Better",
    "Kind",
    "Measure",
    "Results",
    "Row",
    "WrongShape",
    "from_json",
    "record",
    "recorded",
    "recorded_path",
    "row",
    "to_json",
]

Better = Literal["lower", "higher"]
Kind = Literal["full", "quick"]

MOORING, MINIMAL, PIPE = "mooring", "minimal", "pipe"
PEERS = ("pypi-mcp-proxy", "fastmcp", "supergateway", "npm-mcp-proxy")
TARGETS = (MOORING, MINIMAL, PIPE, *PEERS)

# A row whose id ends so is the same measurement with the Python demo server as the child.
PYTHON_CHILD = "_pychild"


class Measure(NamedTuple):
    """One thing that is measured. MB are 1,000,000 bytes, KiB 1,024; µs of CPU are user and system time."""

    title: str
    unit: str
    better: Better


MEASURES: dict[str, Measure] = {
    "seq_p50": Measure("one call after another, p50", "ms", "lower"),
    "seq_p99": Measure("one call after another, p99", "ms", "lower"),
    "rate_1s": Measure("32 connections, one session", "calls/s", "higher"),
    "rate_32s": Measure("32 connections, 32 sessions", "calls/s", "higher"),
    "cpu_per_call": Measure("CPU per call", "µs", "lower"),
    "start": Measure("start to first answer", "s", "lower"),
    "rss_idle": Measure("memory, idle", "MB", "lower"),
    "rss_10k": Measure("memory after 10,000 calls", "MB", "lower"),
    "rss_50": Measure("memory with 50 sessions", "MB", "lower"),
    "rss_1000": Measure("memory with 1,000 sessions", "MB", "lower"),
    "rss_1000_stateless": Measure("memory, 1,000 stateless, --shared", "MB", "lower"),
    "rss_per_session": Measure("memory per further idle session", "KiB", "lower"),
    "echo_1m": Measure("echo of 1 MiB", "ms", "lower"),
    "line_20m": Measure("answer of 20 MiB in one line", "s", "lower"),
    "events": Measure("events on a stream", "events/s", "higher"),
    "death_error": Measure("server killed, to the error", "ms", "lower"),
    "death_next": Measure("server killed, to the next answer", "ms", "lower"),
    "sigterm_lost": Measure("lost on SIGTERM", "calls", "lower"),
    "cost_1": Measure("CPU of a lone call, 1 session", "µs", "lower"),
    "cost_32": Measure("CPU of a lone call, 32 sessions", "µs", "lower"),
    "cost_100": Measure("CPU of a lone call, 100 sessions", "µs", "lower"),
    "cost_300": Measure("CPU of a lone call, 300 sessions", "µs", "lower"),
    "cost_1000": Measure("CPU of a lone call, 1,000 sessions", "µs", "lower"),
    "cpu_handshake": Measure("CPU per call, handshake → handshake", "µs", "lower"),
    "cpu_to_modern": Measure("CPU per call, handshake → 2026-07-28", "µs", "lower"),
    "cpu_modern": Measure("CPU per call, 2026-07-28 → 2026-07-28", "µs", "lower"),
    "cpu_to_handshake": Measure("CPU per call, 2026-07-28 → handshake", "µs", "lower"),
    "cpu_32s": Measure("CPU per call, 32 sessions at once", "µs", "lower"),
    "cpu_shared": Measure("CPU per call, 32 at once, --shared", "µs", "lower"),
    "cpu_daemon": Measure("CPU per call, by the daemon", "µs", "lower"),
    "rss_daemon": Measure("memory of the daemon, 20 idle servers", "MB", "lower"),
    "idle_processes": Measure("processes per further idle server", "processes", "lower"),
    "ls": Measure("`mooring ls`, without Python's own start", "ms", "lower"),
    "crash_loops": Measure("CPU of the daemon, 200 crash loops", "ms/s", "lower"),
    "edit_69k": Measure("69 KiB of settings, an entry in and out", "ms", "lower"),
    "container_p50": Measure("container, one call after another, p50", "ms", "lower"),
    "container_command": Measure("the same, before `docker run -i` as a command", "ms", "lower"),
    "container_10ms": Measure("container, a call of 10 ms, p50", "ms", "lower"),
    "container_error": Measure("container killed, event to the error", "ms", "lower"),
    "container_error_podman": Measure("the same on Podman", "ms", "lower"),
    "rss_containers": Measure("memory of the daemon, 50 containers", "MB", "lower"),
    "container_cold": Measure("container, first answer to a session", "s", "lower"),
    "container_warm": Measure("the same with a spare", "s", "lower"),
    "remote_p50": Measure("before HTTP, one call after another, p50", "ms", "lower"),
    "remote_event": Measure("before HTTP, a call with an event, p50", "ms", "lower"),
    "remote_rate": Measure("before HTTP, 32 connections", "calls/s", "higher"),
    "remote_growth": Measure("before HTTP, memory of 100,000 calls", "MB", "lower"),
    "relay_rate": Measure("relay, 50 clients, 512 bytes each", "calls/s", "higher"),
    "relay_calls": Measure("the same, a request for each call", "calls/s", "higher"),
    "relay_cpu": Measure("relay, CPU per message there and back", "µs", "lower"),
    "relay_p50": Measure("relay, 1,000 calls/s by HTTP, p50", "ms", "lower"),
    "relay_p99": Measure("relay, 1,000 calls/s by HTTP, p99", "ms", "lower"),
    "relay_idle": Measure("relay, memory per idle connection", "KiB", "lower"),
    "relay_growth": Measure("relay, memory of 20,000 that came and went", "MB", "lower"),
    "relay_herd": Measure("relay restarted, 5,000 agents back", "s", "lower"),
    "relay_peak": Measure("its busiest second then, against the mean", "×", "lower"),
    "replica_p50_alone": Measure("without --sessions, calls in turn, p50", "ms", "lower"),
    "replica_p50": Measure("replica that has the session, the same", "ms", "lower"),
    "replica_p50_elsewhere": Measure("replica that passes calls on, the same", "ms", "lower"),
    "replica_cpu_alone": Measure("without --sessions, CPU per call", "µs", "lower"),
    "replica_cpu": Measure("replica that has the session, CPU per call", "µs", "lower"),
    "replica_cpu_elsewhere": Measure("passed on, CPU per call of both", "µs", "lower"),
    "replica_one": Measure("one replica, 96 clients, per CPU second", "calls/s", "higher"),
    "replica_three": Measure("three without affinity, 96 clients", "calls/s", "higher"),
    "replica_one_few": Measure("one replica, 32 clients, per CPU second", "calls/s", "higher"),
    "replica_three_few": Measure("three without affinity, 32 clients", "calls/s", "higher"),
    "replica_commands": Measure("Redis, per call on the owner", "commands", "lower"),
    "replica_commands_elsewhere": Measure("Redis, per call that is passed on", "commands", "lower"),
    "replica_batches": Measure("Redis, batches per event", "batches", "lower"),
    "replica_event_redis": Measure("Redis, CPU per event", "µs", "lower"),
    "replica_session": Measure("Redis, memory per session, of 50,000", "KiB", "lower"),
    "replica_write_redis": Measure("Redis, CPU per session written", "µs", "lower"),
    "replica_find_redis": Measure("Redis, CPU per session looked for", "µs", "lower"),
    "replica_ls": Measure("`mooring sessions ls`, 50,000 sessions", "s", "lower"),
    "replica_ls_pause": Measure("longest pause of others in Redis then", "ms", "lower"),
    "replica_ls_command": Measure("the slowest command then", "ms", "lower"),
    "replica_takeover": Measure("session taken over, CPU of the replica", "µs", "lower"),
    "replica_takeover_redis": Measure("session taken over, CPU of Redis", "µs", "lower"),
    "help_ratio": Measure("--help against bare Python", "×", "lower"),
    "instructions": Measure("executed per call", "instructions", "lower"),
    "generator_share": Measure("CPU of the load generator, of one core", "%", "lower"),
}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One measurement of every target. `turns`: of each target what its windows found, in their order; None
    where it found nothing. Only of rows with several windows."""

    id: str
    title: str
    unit: str
    better: Better
    values: dict[str, float | None]
    notes: dict[str, str]
    turns: dict[str, list[float | None]] = {}

    def __post_init__(self) -> None:
        measure = MEASURES.get(self.id.removesuffix(PYTHON_CHILD))
        if measure is None:
            raise ValueError(f"no row is called {self.id}")
        if (self.unit, self.better) != (measure.unit, measure.better):
            raise ValueError(f"{self.id} is in {measure.unit}, {measure.better} is better")


class Results(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run: when (ISO 8601, UTC), on what, of which commit, and what it found."""

    date: str
    machine: dict[str, str]
    commit: str
    targets: list[str]
    rows: list[Row]

    def __post_init__(self) -> None:
        ids = [row.id for row in self.rows]
        if repeated := {row_id for row_id in ids if ids.count(row_id) > 1}:
            raise ValueError(f"more than one row {', '.join(sorted(repeated))}")
        if strangers := {target for row in self.rows for target in row.values} - set(self.targets):
            raise ValueError(f"rows have values of {', '.join(sorted(strangers))}, not among the targets")

    def row(self, row_id: str) -> Row | None:
        """The row with that id, or None if this run has none."""
        return next((row for row in self.rows if row.id == row_id), None)

    def value(self, row_id: str, target: str) -> float | None:
        """What that target reached there; None where it was not measured."""
        found = self.row(row_id)
        return None if found is None else found.values.get(target)


class WrongShape(ValueError):
    """The text is not a recorded run of this benchmark."""


def row(
    row_id: str,
    values: Mapping[str, float | None],
    notes: Mapping[str, str] | None = None,
    turns: Mapping[str, Sequence[float | None]] | None = None,
) -> Row:
    """A row of the measure of that id, `_pychild` or not; KeyError if there is no such measure."""
    title, unit, better = MEASURES[row_id.removesuffix(PYTHON_CHILD)]
    if row_id.endswith(PYTHON_CHILD):
        title += " (Python)"
    return Row(row_id, title, unit, better, dict(values), dict(notes or {}), _listed(turns or {}))


def _listed(turns: Mapping[str, Sequence[float | None]]) -> dict[str, list[float | None]]:
    return {target: list(found) for target, found in turns.items()}


def to_json(results: Results) -> bytes:
    """The run as JSON, indented so that two recorded runs can be compared by eye."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"


def from_json(text: bytes) -> Results:
    """The run that `to_json` wrote; WrongShape says what else this is, and where."""
    try:
        return msgspec.json.decode(text, type=Results)
    except msgspec.DecodeError as error:
        raise WrongShape(f"This is not a recorded run of the benchmark: {error}") from error


def recorded_path(kind: Kind) -> Path:
    """Where the last recorded run of that kind is kept."""
    return Path(__file__).parent / "recorded" / f"{kind}.json"


def recorded(kind: Kind) -> Results | None:
    """The last recorded run of that kind, without rows that were given up since; None before the first."""
    path = recorded_path(kind)
    return from_json(_without_former_rows(path.read_bytes())) if path.exists() else None


def _without_former_rows(text: bytes) -> bytes:
    """A row that is measured no more must not keep a new run from being compared, and then recorded."""
    run = msgspec.json.decode(text)
    run["rows"] = [one for one in run["rows"] if one["id"].removesuffix(PYTHON_CHILD) in MEASURES]
    return msgspec.json.encode(run)


def record(results: Results, kind: Kind) -> None:
    """Keep the run in place of the last one of its kind."""
    path = recorded_path(kind)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(to_json(results))
