"""What things cost, as one run of the benchmark measured them."""

from typing import NamedTuple

from bench.results import MEASURES, MOORING, Results

__all__ = ["ROWS", "Costs", "MissingRows", "costs_of"]

ROWS = (
    "rss_50",
    "rss_per_session",
    "replica_cpu",
    "replica_cpu_elsewhere",
    "replica_one_few",
    "replica_three_few",
    "replica_event_redis",
    "replica_session",
    "replica_write_redis",
    "replica_find_redis",
    "replica_takeover",
    "replica_takeover_redis",
)
"""All that is taken from a run."""


class MissingRows(LookupError):
    """The run lacks some of them: it cannot be carried on from there."""

    def __init__(self, ids: list[str]) -> None:
        super().__init__("; ".join(f"{id} ({MEASURES[id].title})" for id in ids))
        self.ids = ids


class Costs(NamedTuple):
    """Microseconds are of CPU."""

    call_us: float
    """On the owner, where each call is of another session."""
    passing_us: float
    """More, of the replica that passes it on. Calls of one turn of the event loop share a message between two
    replicas, so it depends on how many they are, and in a large fleet they are few: of two measurements, the
    dearer one. One is of two replicas, where every call is passed on, the other of three, where two calls in
    three are."""
    takeover_us: float
    takeover_redis_us: float
    find_us: float
    """Of Redis, for one short command. Those of heartbeats are shorter than the one that was measured."""
    write_us: float
    event_us: float
    session_bytes: float
    """In Redis."""
    replica_bytes: float
    """Of a replica with few sessions."""
    held_bytes: float
    """Of a replica, for each session that it has."""

    # No row has these. All but the last were measured by hand; they do not follow the machine of the run.
    asking_us: float = 240.0
    """Of a replica, for one command to Redis and its answer. The mean of 15 rounds of 2,000 commands in turn
    (open, find, is_alive; uvloop, two busy cores), which were from 148 to 321."""
    stream_bytes: float = 4430.0
    """In Redis 7.0, for a stream of three short events: it makes room for 4 KiB at once."""
    place_bytes: float = 460.0
    """Of a replica, for where a session of another is."""
    head_us: float = 19.0
    """More, of a call that is passed on with a head that was not sent ahead yet: 13.5 at its owner, who reads
    it and its seal, the rest at who passes it on. The mean of 3,000."""
    head_bytes: float = 2480.0
    """Of a replica, for each that it knows. The mean of 2,048 of eleven lines."""
    wire_us: float = 200.0
    """There and back between two machines of one network. Nobody's CPU. A guess."""


def costs_of(run: Results) -> Costs:
    """Raises MissingRows."""
    found = {id: run.value(id, MOORING) for id in ROWS}
    values = {id: value for id, value in found.items() if value is not None}
    if missing := [id for id in ROWS if id not in values]:
        raise MissingRows(missing)
    call_us = 1e6 / values["replica_one_few"]
    of_two_us = values["replica_cpu_elsewhere"] - values["replica_cpu"]
    of_three_us = (1e6 / values["replica_three_few"] - call_us) * 3 / 2
    return Costs(
        call_us=call_us,
        passing_us=max(of_two_us, of_three_us, 0.0),
        takeover_us=values["replica_takeover"],
        takeover_redis_us=values["replica_takeover_redis"],
        find_us=values["replica_find_redis"],
        write_us=values["replica_write_redis"],
        event_us=values["replica_event_redis"],
        session_bytes=values["replica_session"] * 1024,
        replica_bytes=values["rss_50"] * 1e6,
        held_bytes=values["rss_per_session"] * 1024,
    )
