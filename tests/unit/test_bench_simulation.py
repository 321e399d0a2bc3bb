"""The simulation of a fleet: its queues against what is known of queues, its sums against each other."""

import json
from collections import OrderedDict
from math import e, inf
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from redis.crc import key_slot

from bench.results import Results, to_json
from bench.simulation.__main__ import main
from bench.simulation.costs import ROWS, Costs, MissingRows, costs_of
from bench.simulation.findings import SEED, explore, sizes_of
from bench.simulation.fleet import Fleet
from bench.simulation.incidents import Rolling, beating, kill_one, restart_all
from bench.simulation.page import render, table
from bench.simulation.places import misses
from bench.simulation.queues import Arrival, Visit, percentile, simulate
from bench.simulation.resources import (
    CPU,
    FULL,
    HASHING,
    LEARNING,
    LEASE,
    Full,
    Resource,
    full_as_calls_grow,
    full_as_sessions_grow,
    fullest,
    remedy,
    uses,
    work_s,
)
from bench.simulation.steady import steady
from bench.simulation.traffic import Place, Reason, calls, heartbeats, jobs
from mooring.replicas.records import Keys
from tests.unit.bench_sample import sample_run

COSTS = costs_of(sample_run())
SMALL = Fleet(replicas=5, sessions=20_000)


def shares(fleet: Fleet, costs: Costs = COSTS) -> dict[Resource, float]:
    return {use.resource: use.share for use in uses(fleet, costs)}


# Costs


def test_costs_are_those_of_the_run() -> None:
    assert COSTS.call_us == 1e6 / 40_000
    assert COSTS.passing_us == 45.0 - 20.5
    assert COSTS.session_bytes == 0.9 * 1024
    assert COSTS.replica_bytes == 29.7e6


def test_passing_on_costs_what_it_cost_where_it_was_dearest() -> None:
    """25 µs a call on its owner; of three replicas, two calls in three are passed on."""
    assert costs_of(sample_run(replica_three_few={"mooring": 20_000})).passing_us == pytest.approx(37.5)
    assert costs_of(sample_run(replica_three_few={"mooring": 25_000})).passing_us == 24.5
    free = sample_run(replica_three_few={"mooring": 40_001}, replica_cpu_elsewhere={"mooring": 20.4})
    assert costs_of(free).passing_us == 0.0


def test_rows_that_are_missing_are_named() -> None:
    with pytest.raises(MissingRows, match="replica_find_redis") as missing:
        costs_of(sample_run(replica_find_redis=None, replica_three_few={"mooring": None}))
    assert missing.value.ids == ["replica_three_few", "replica_find_redis"]


# Queues


def one_queue(load: float, *, is_random: bool, count: int = 100_000) -> float:
    """How long one waits on average before a service of a second."""
    draw = Random(7)
    at, arrivals = 0.0, list[Arrival]()
    for _ in range(count):
        at += draw.expovariate(load)
        arrivals.append(Arrival(at, [Visit(0, draw.expovariate(1.0) if is_random else 1.0)]))
    waits_s = simulate(arrivals, places=1).waits_s[0]
    return sum(waits_s) / len(waits_s)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_a_queue_of_random_services_waits_as_known(load: float) -> None:
    assert one_queue(load, is_random=True) == pytest.approx(load / (1 - load), rel=0.08)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_a_queue_of_equal_services_waits_half_as_long(load: float) -> None:
    assert one_queue(load, is_random=False) == pytest.approx(load / (1 - load) / 2, rel=0.08)


def test_places_in_turn_and_the_way_between_them() -> None:
    run = simulate(
        [
            Arrival(1.0, [Visit(0, 2.0), Visit(1, 1.0, way_s=0.5)]),
            Arrival(2.0, [Visit(0, 1.0)]),  # waits for the first to be done there
        ],
        places=2,
    )
    assert run.took_s == [3.5, 2.0]
    assert run.waits_s == [[0.0, 1.0], [0.0]]
    assert run.busy_s == [3.0, 1.0]
    assert run.until == 4.5


visits = st.lists(st.tuples(st.integers(0, 2), st.floats(0, 5)), min_size=1, max_size=4)


@given(st.lists(st.tuples(st.floats(0, 20), visits), max_size=20))
def test_all_that_comes_ends_and_no_work_is_lost(drawn: list[tuple[float, list[tuple[int, float]]]]) -> None:
    arrivals = [Arrival(at, [Visit(*visit) for visit in way]) for at, way in drawn]
    run = simulate(arrivals, places=3)
    services = [service_s for _, way in drawn for _, service_s in way]
    assert sum(run.busy_s) == pytest.approx(sum(services))
    assert sum(map(len, run.waits_s)) == len(services)
    assert all(wait_s >= 0 for waits_s in run.waits_s for wait_s in waits_s)
    waited = sum(map(sum, run.waits_s))
    assert sum(run.took_s) == pytest.approx(sum(services) + waited, abs=1e-6)
    assert all(busy_s <= run.until for busy_s in run.busy_s)


def test_percentiles() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(list(map(float, range(100))), 0.99) == 99.0


# Places that are remembered


def counted_misses(sessions: int, calls_per_s: float, life_s: float, room: int) -> float:
    """The same with a real table: calls of sessions that end now and then, others in their places."""
    draw = Random(3)
    seen: OrderedDict[int, None] = OrderedDict()
    ids = list(range(sessions))
    missed = calls = 0
    per_s = sessions * (calls_per_s + 1 / life_s)
    for number in range(400_000):
        one = draw.randrange(sessions)
        if draw.random() * per_s < sessions / life_s:
            ids[one] = sessions + number  # it ends, and another begins
            continue
        is_counted = number > 200_000
        calls += is_counted
        missed += is_counted and ids[one] not in seen
        seen[ids[one]] = None
        seen.move_to_end(ids[one])
        if len(seen) > room:
            seen.popitem(last=False)
    return missed / calls


@pytest.mark.parametrize(
    ("life_s", "room"), [(1e9, 500), (1e9, 100), (1e9, 5000), (200.0, 500), (50.0, 200), (50.0, 5000)]
)
def test_misses_are_those_of_a_real_table(life_s: float, room: int) -> None:
    model = misses(1000, calls_per_s=0.1, life_s=life_s, room=room)
    assert model == pytest.approx(counted_misses(1000, 0.1, life_s, room), abs=0.01)


def test_a_balancer_that_hashes_spares_looking() -> None:
    fleet = Fleet()
    hashed = replace(fleet, hashed=True)
    assert hashed.missed_share < 0.05 < 0.8 < fleet.missed_share
    assert hashed.passed_share == fleet.passed_share == pytest.approx(0.99)


def test_one_replica_passes_nothing_on() -> None:
    alone = Fleet(replicas=1, sessions=1000)
    assert (alone.passed_share, alone.missed_share) == (0, 0)
    assert steady(alone, COSTS, SEED).replica_share > 0


# What is added up


def test_queues_and_sums_speak_of_the_same_fleet() -> None:
    seen, summed = steady(SMALL, COSTS, SEED), shares(SMALL)
    assert seen.replica_share == pytest.approx(summed[Resource.REPLICA_CPU], rel=0.1)
    assert seen.redis_share == pytest.approx(summed[Resource.REDIS_CPU], rel=0.1)
    assert seen.calls == pytest.approx(SMALL.calls_per_s * 20, rel=0.1)


def test_calls_are_all_calls() -> None:
    for fleet in (SMALL, replace(SMALL, affinity=0.5), replace(SMALL, hashed=True), Fleet()):
        assert sum(job.per_s for job in jobs(fleet, COSTS) if job.is_call) == pytest.approx(fleet.calls_per_s)


def test_one_seed_one_result() -> None:
    assert steady(SMALL, COSTS, 5) == steady(SMALL, COSTS, 5) != steady(SMALL, COSTS, 6)


def test_whoever_comes_waits_longer_where_more_is_asked() -> None:
    most = full_as_calls_grow(SMALL, COSTS, CPU, limit=1.0).at / SMALL.sessions
    at = [
        steady(replace(SMALL, calls_per_second_per_session=most * load), COSTS, SEED)
        for load in (0.3, 0.6, 0.9)
    ]
    assert at[0].call.p99_ms < at[1].call.p99_ms < at[2].call.p99_ms
    assert at[0].replica_wait.p99_ms < at[1].replica_wait.p99_ms < at[2].replica_wait.p99_ms


@pytest.mark.parametrize("grown", ["sessions", "calls_per_second_per_session", "event_share", "stream_share"])
def test_more_of_anything_fills_nothing_less(grown: str) -> None:
    usual = Fleet(replicas=10, sessions=50_000, event_share=0.1, stream_share=0.4)
    less = shares(usual)
    for times in (1.5, 2, 4):
        more = shares(replace(usual, **{grown: type(getattr(usual, grown))(getattr(usual, grown) * times)}))
        assert all(more[one] >= less[one] for one in Resource)
        less = more


def test_redis_hears_a_replica_as_often_as_the_code_says() -> None:
    """Four renewals in a lease, and at every second of them a look: at four things, then at each replica."""
    found = work_s(heartbeats(Fleet(replicas=100, lease_s=10.0), COSTS), Place.REDIS)
    commands_in_a_lease = found[Reason.BEATING] * 10 / (COSTS.find_us / 1e6)
    assert commands_in_a_lease == pytest.approx(100 * (4 + 2 * (4 + 100)))


def test_sessions_spread_over_the_slots_of_a_cluster() -> None:
    keys = Keys("mooring", "search")
    ids = [f"{number:032d}" for number in range(300)]
    assert all(key_slot(keys.session(id)) == key_slot(keys.stream(id, "s")) for id in ids)
    thirds = [key_slot(keys.session(id)) * 3 // 16384 for id in ids]
    assert all(70 < thirds.count(third) < 130 for third in range(3))


# What is full first

CHEAP = Costs._make([1e-6] * len(Costs._fields))
FEW = Fleet(replicas=30, sessions=5000)
MANY = Fleet(replicas=30, sessions=200_000, event_share=0.0, stream_share=0.0)
DEAR: dict[str, tuple[Fleet, Costs, Resource, str]] = {
    "calls": (FEW, CHEAP._replace(call_us=1e3), Resource.REPLICA_CPU, Reason.SERVING),
    "passing on": (FEW, CHEAP._replace(passing_us=1e3), Resource.REPLICA_CPU, Reason.PASSING),
    "finding": (MANY, CHEAP._replace(find_us=100.0), Resource.REDIS_CPU, Reason.FINDING),
    "events": (FEW, CHEAP._replace(event_us=1e3), Resource.REDIS_CPU, Reason.STORING),
    "writing": (FEW, CHEAP._replace(write_us=2e4), Resource.REDIS_CPU, Reason.TOUCHING),
    "streams": (FEW, CHEAP._replace(stream_bytes=1e7), Resource.REDIS_MEMORY, "streams that ended"),
    "sessions": (FEW, CHEAP._replace(session_bytes=1e7), Resource.REDIS_MEMORY, "sessions"),
    "heartbeats": (FEW, CHEAP._replace(find_us=1e4), Resource.REDIS_CPU, Reason.BEATING),
}


@pytest.mark.parametrize("dear", DEAR)
def test_what_is_dear_is_full_first(dear: str) -> None:
    fleet, costs, resource, reason = DEAR[dear]
    full = full_as_calls_grow(fleet, costs)
    assert (full.resource, full.reason) == (resource, reason)


def test_when_it_is_full_it_is_just_full() -> None:
    full = full_as_calls_grow(Fleet(replicas=10, sessions=20_000), COSTS)
    grown = Fleet(replicas=10, sessions=20_000, calls_per_second_per_session=full.at / 20_000)
    assert fullest(uses(grown, COSTS)).share == pytest.approx(FULL, abs=1e-6)
    many = full_as_sessions_grow(Fleet(), COSTS)
    assert fullest(uses(Fleet(sessions=int(many.at)), COSTS)).share == pytest.approx(FULL, abs=1e-3)


def test_many_streams_fill_the_connections_of_few_replicas() -> None:
    few = Fleet(replicas=3, sessions=60_000)
    assert full_as_calls_grow(few, COSTS) == Full(Resource.REPLICA_CONNECTIONS, "streams", 0.0)
    assert shares(few)[Resource.PAIR_CONNECTIONS] > 0.3
    assert shares(replace(few, stream_share=0.0))[Resource.PAIR_CONNECTIONS] < 0.1
    assert shares(replace(few, affinity=0.95))[Resource.PAIR_CONNECTIONS] < 0.1


def test_twice_the_nodes_have_half_each() -> None:
    one, two = shares(SMALL), shares(replace(SMALL, redis_nodes=2))
    assert two[Resource.REDIS_CPU] == pytest.approx(one[Resource.REDIS_CPU] / 2)
    assert two[Resource.REDIS_MEMORY] == pytest.approx(one[Resource.REDIS_MEMORY] / 2)


def test_only_what_is_not_done_yet_is_proposed() -> None:
    looking = Full(Resource.REDIS_CPU, Reason.FINDING, 1.0)
    assert {HASHING, LEARNING} <= set(remedy(looking, Fleet()).split("; "))
    assert HASHING not in remedy(looking, Fleet(hashed=True))
    assert LEARNING not in remedy(looking, Fleet(affinity=0.9))
    assert LEASE in remedy(Full(Resource.REDIS_CPU, Reason.BEATING, 1.0), Fleet())
    assert all(remedy(Full(resource, "", 1.0), Fleet(affinity=0.9)) for resource in Resource)


# Against what was measured


def test_three_replicas_do_as_many_calls_as_were_measured_of_them() -> None:
    costs = costs_of(sample_run(replica_three_few={"mooring": 20_000}))
    three = Fleet(replicas=3, sessions=32, event_share=0.0, calls_per_second_per_session=1e6)
    spent = work_s(calls(three, costs, missed_share=0.0), Place.FRONT, Place.OWNER)
    assert three.calls_per_s / sum(spent.values()) == pytest.approx(20_000)


def test_who_asks_seldom_has_a_head_that_nobody_knows() -> None:
    seldom, often = Fleet(), Fleet(calls_per_second_per_session=1e3)
    assert seldom.new_head_share > 0.99
    assert often.new_head_share < 0.01
    assert Fleet(affinity=1.0).new_head_share == 1.0
    assert replace(often, hashed=True).new_head_share < often.new_head_share
    few = COSTS._replace(head_us=0.0)
    dear, cheap = (work_s(jobs(seldom, costs), Place.FRONT)[Reason.PASSING] for costs in (COSTS, few))
    of_heads_us = seldom.calls_per_s * seldom.passed_share * COSTS.head_us
    assert (dear - cheap) * 1e6 == pytest.approx(of_heads_us, rel=0.01)


# Incidents


def test_heartbeats_grow_with_the_square_of_replicas() -> None:
    few, many = (beating(Fleet(replicas=replicas), COSTS) for replicas in (100, 1000))
    assert many.commands_per_s == pytest.approx(100 * few.commands_per_s, rel=0.1)
    longer = beating(Fleet(replicas=100, lease_s=30.0), COSTS)
    assert longer.commands_per_s == pytest.approx(few.commands_per_s / 3)
    assert few.troubled_share > few.redis_share


def test_trouble_lasts_where_all_looks_take_longer_than_one_may() -> None:
    most = beating(Fleet(lease_s=10.0), COSTS).most_replicas
    assert most * most * COSTS.find_us / 1e6 == pytest.approx(2.5)


def test_calls_of_a_killed_replica_wait_or_are_refused_and_none_is_forgotten() -> None:
    for fleet in (SMALL, Fleet(replicas=3, sessions=300_000), Fleet(replicas=100, lease_s=30.0)):
        killed = kill_one(fleet, COSTS)
        asked = fleet.calls_per_s / fleet.replicas * fleet.lease_s
        assert killed.waiting + killed.refused == pytest.approx(asked)
        assert killed.waiting <= 1024 * (fleet.replicas - 1)
    assert kill_one(SMALL, COSTS).refused == 0
    assert kill_one(replace(SMALL, lease_s=30.0), COSTS).refused > 0  # 15 s is as long as anybody waits


def test_where_a_core_is_full_nobody_is_served_after_the_lease() -> None:
    assert kill_one(Fleet(replicas=3), COSTS).delay_s == inf


def test_no_session_is_lost_while_it_changes_hands() -> None:
    rolling = Rolling(SMALL, COSTS)
    rolling.held = 4000.0
    for span_s in (0.1, 1.0, 10.0):
        rolling.go_on(span_s)
        assert rolling.held + rolling.nobodys + rolling.taken == pytest.approx(4000)
    assert rolling.held == 0
    assert rolling.taken > 0


def test_restarting_all_in_turn_piles_sessions_up_at_the_last() -> None:
    busy = Fleet(replicas=50, sessions=50_000, calls_per_second_per_session=5.0)
    rolled = restart_all(busy, COSTS)
    assert rolled.most_held == pytest.approx(e * 1000, rel=0.05)
    assert rolled.took_s > 50 * 5
    assert rolled.redis_share > shares(busy)[Resource.REDIS_CPU]


# For people and programs


def test_tables_are_rectangular_and_as_wide_in_every_line() -> None:
    found = render(explore(Fleet(), sizes_of(Fleet(), replicas=[3, 10], sessions=[1000, 10**6]), COSTS, SEED))
    tables = [block.splitlines() for block in found.split("\n\n") if block.startswith("|")]
    assert len(tables) == 6
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1
        assert len(set(map(len, lines))) == 1


def test_a_table() -> None:
    assert list(table(("n", "what"), [("1", "a"), ("20", "b")])) == [
        "|  n | what |",
        "|---:|------|",
        "|  1 | a    |",
        "| 20 | b    |",
    ]


def written(run: Results, folder: Path) -> str:
    path = folder / "run.json"
    path.write_bytes(to_json(run))
    return str(path)


def test_a_run_without_the_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lacking = sample_run(**dict.fromkeys(("replica_one_few", "rss_50")))
    assert main(["--results", written(lacking, tmp_path)]) == 2
    said = capsys.readouterr()
    assert "lacks 2 rows that the simulation needs: rss_50, replica_one_few." in said.err
    assert all(row in said.err for row in ROWS)
    assert not said.out


def test_a_file_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_text("{}")
    assert main(["--results", str(tmp_path / "odd.json")]) == 2
    assert main(["--results", str(tmp_path / "none.json")]) == 2
    assert "not a recorded run" in capsys.readouterr().err


def test_json_has_the_size_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--replicas", "7", "--sessions", "3000", "--calls-per-second-per-session", "0.1"]
    clients = ["--affinity", "0.5", "--hashed", "--event-share", "0", "--lease", "5"]
    assert main(["--results", written(sample_run(), tmp_path), *size, *clients, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["sizes"]) == 1
    fleet = found["sizes"][0]["fleet"]
    assert (fleet["replicas"], fleet["sessions"], fleet["lease_s"], fleet["hashed"]) == (7, 3000, 5, True)
    assert (fleet["affinity"], fleet["event_share"], fleet["calls_per_second_per_session"]) == (0.5, 0, 0.1)
    assert found["sizes"][0]["steady"]["calls"] > 1000


@pytest.mark.parametrize("wrong", ["--replicas 0", "--affinity 1.1", "--lease 0", "--sessions many"])
def test_what_makes_no_sense_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(wrong.split())
    assert exit_.value.code == 2
