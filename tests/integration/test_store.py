"""The store, on a real file: what is kept, who may write, what a damaged or full one says."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.store.database import StoreError
from mooring.store.records import Desired, Era, Session, Workload
from mooring.store.schema import NEWEST, STEPS
from mooring.store.store import (
    DAY_S,
    ERA_DAYS,
    MAX_ERAS,
    MAX_EVENTS,
    MAX_EVENTS_READ,
    MAX_SESSIONS,
    SESSION_DAYS,
    Fenced,
    StaleGeneration,
    Store,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Opening = Callable[[], Store]


@pytest.fixture
def opening(tmp_path: Path, clock: Clock) -> Iterator[Opening]:
    """Opens the same directory once more; everything is closed at the end."""
    opened: list[Store] = []

    def again() -> Store:
        opened.append(Store(tmp_path, clock))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


@pytest.fixture
def store(opening: Opening) -> Store:
    store = opening()
    store.claim(1, "boot")
    return store


def session(id: str, name: str = "time", used_at: float = 1000.0) -> Session:
    return Session(id, name, "local", "streamable-http", "client 1", b"{}", 1.0, used_at)


def test_workloads_are_kept_by_name(store: Store, opening: Opening, clock: Clock) -> None:
    added = store.add("time", b'{"argv":["x"]}')
    assert (added.generation, added.desired) == (1, Desired.RUNNING)
    with pytest.raises(UserError, match="there is a server named time"):
        store.add("time", b"{}")
    clock.now += 5
    store.want("time", 1, Desired.STOPPED)
    store.add("git", b"{}")
    reopened = opening()
    assert [record.name for record in reopened.workloads()] == ["git", "time"]
    found = reopened.workload("time")
    assert found == added._replace(desired=Desired.STOPPED, changed_at=1005.0)
    assert reopened.workload("nobody") is None


def test_generations_never_return(store: Store) -> None:
    first = store.add("time", b"{}")
    second = store.begin("time", after=first.generation)
    assert second.definition == b"{}"
    third = store.begin("time", after=second.generation, definition=b"[]")
    assert third.definition == b"[]" and third.desired is Desired.RUNNING
    store.remove("time", third.generation)
    fourth = store.add("time", b"{}")
    seen = [first.generation, second.generation, third.generation, fourth.generation]
    assert seen == sorted(set(seen))


def test_where_a_workload_comes_from_is_kept(store: Store, opening: Opening) -> None:
    assert store.add("time", b"{}").origin == "", "somebody asked for it alone"
    made = store.add("git", b"{}", "/one.toml")
    assert made.origin == "/one.toml"
    begun = store.begin("git", after=made.generation)
    assert begun.origin == "/one.toml", "a restart changes nothing of that"
    assert store.begin("git", after=begun.generation, definition=b"[]", origin="").origin == ""
    store.adopt("time", 1, "/two.toml")
    assert [record.origin for record in opening().workloads()] == ["", "/two.toml"]


Late = Callable[[Store, int], object]
WRITES: dict[str, Late] = {
    "add": lambda store, generation: store.add("other", b"{}"),
    "adopt": lambda store, generation: store.adopt("time", generation, "/late.toml"),
    "begin": lambda store, generation: store.begin("time", after=generation, definition=b"late"),
    "keep_era": lambda store, generation: store.keep_era("time", generation, Era("late", "1", b"")),
    "keep_sessions": lambda store, generation: store.keep_sessions(
        "time", generation, [session("late")], ["early"]
    ),
    "release": lambda store, generation: store.release(),
    "remove": lambda store, generation: store.remove("time", generation),
    "tell": lambda store, generation: store.tell("time", generation, "exited", "late"),
    "want": lambda store, generation: store.want("time", generation, Desired.STOPPED),
}
"""Every write there is: by whom, and about which generation of the workload `time`."""
OF_NO_GENERATION = {"add", "release"}
READS: dict[str, Callable[[Store], object]] = {
    "era": lambda store: store.era("late"),
    "events": lambda store: store.events("time"),
    "is_ours": lambda store: store.is_ours,
    "last_event": lambda store: store.last_event("time"),
    "last_number": lambda store: store.last_number,
    "owner": lambda store: store.owner,
    "sessions": lambda store: store.sessions("time"),
    "workload": lambda store: store.workload("time"),
    "workloads": Store.workloads,
}
NEITHER = {"claim", "close", "path", "set_aside"}


def everything(store: Store) -> list[object]:
    return [read(store) for read in READS.values()]


def test_whatever_a_store_can_do_is_in_the_tables_above(store: Store) -> None:
    able = {name for name in dir(store) if not name.startswith("_")}
    assert able == {*WRITES, *READS, *NEITHER}, "a new write needs its place in the fence"


def test_reading_never_writes(store: Store) -> None:
    store.add("time", b"{}")
    before = store._connection.total_changes
    everything(store)
    assert store._connection.total_changes == before


@pytest.mark.parametrize("name", sorted(WRITES.keys() - OF_NO_GENERATION))
@pytest.mark.parametrize("ended", ["removed", "begun anew"])
def test_what_is_written_about_an_old_generation_changes_nothing(store: Store, name: str, ended: str) -> None:
    old = store.add("time", b"{}").generation
    store.keep_sessions("time", old, [session("early")], [])
    if ended == "removed":
        store.remove("time", old)
        with pytest.raises(StaleGeneration):
            WRITES[name](store, old)
        store.add("time", b"{}")
    else:
        store.begin("time", after=old)
    known = everything(store)
    with pytest.raises(StaleGeneration):
        WRITES[name](store, old)
    assert everything(store) == known


@pytest.mark.parametrize("name", sorted(WRITES))
def test_one_who_was_replaced_can_write_nothing(store: Store, opening: Opening, name: str) -> None:
    store.add("time", b"{}")
    store.keep_sessions("time", 1, [session("early")], [])
    successor = opening()
    with pytest.raises(Fenced):
        WRITES[name](successor, 1)  # nor one who has not claimed it yet
    successor.claim(2, "boot")
    known = everything(successor)
    with pytest.raises(Fenced):
        WRITES[name](store, 1)
    assert everything(successor) == known
    successor.release()
    with pytest.raises(Fenced):
        WRITES[name](store, 1)
    assert successor.owner is None


def test_sessions_are_kept_and_forgotten(store: Store, clock: Clock) -> None:
    store.add("time", b"{}")
    store.add("git", b"{}")
    store.keep_sessions("time", 1, [session("a"), session("b", used_at=1001.0)], [])
    store.keep_sessions("git", 2, [session("c", "git")], ["a"])
    assert [one.id for one in store.sessions("time")] == ["a", "b"], "another's sessions are not ended"
    store.keep_sessions("time", 1, [session("a", used_at=1002.0)], ["b"])
    assert [(one.id, one.used_at) for one in store.sessions("time")] == [("a", 1002.0)]
    # A week unused
    clock.now += SESSION_DAYS * DAY_S
    store.keep_sessions("time", 1, [session("d", used_at=clock.now)], [])
    assert [one.id for one in store.sessions("time")] == ["a", "d"]
    clock.now += 3.0
    store.keep_sessions("time", 1, [], [])
    assert [one.id for one in store.sessions("time")] == ["d"]
    # With the workload
    store.remove("time", 1)
    assert store.sessions("time") == [] and len(store.sessions("git")) == 1


def test_of_too_many_sessions_the_least_recently_used_give_way(store: Store) -> None:
    store.add("time", b"{}")
    many = [session(f"s{n}", used_at=1000.0 + n) for n in range(MAX_SESSIONS + 5)]
    store.keep_sessions("time", 1, many, [])
    assert [one.id for one in store.sessions("time")] == [one.id for one in many[5:]]


def test_history_is_kept_in_order_and_within_bounds(store: Store) -> None:
    store.add("time", b"{}")
    store.add("git", b"{}")
    for n in range(MAX_EVENTS + 3):
        store.tell("time", 1, "exited", f"code {n}")
    store.tell("git", 2, "ready", "")
    times = store.events("time")
    assert [event.text for event in times[:1]] == ["code 3"] and len(times) == MAX_EVENTS
    assert [event.name for event in store.events(after=times[-1].number)] == ["git"]
    assert store.last_event("time") == times[-1] and store.last_event("") is None
    store.remove("time", 1)
    assert [event.kind for event in store.events("time")] == ["removed"]


def test_numbers_of_events_never_return(store: Store, opening: Opening) -> None:
    assert store.last_number == 0
    store.add("time", b"{}")
    store.tell("time", 1, "ready", "")
    store.remove("time", 1)
    [removed] = store.events()
    assert store.last_number == removed.number == 2
    assert opening().last_number == 2


def test_an_owner_knows_when_it_is_one_no_more(store: Store, opening: Opening) -> None:
    other = opening()
    assert [one.is_ours for one in (store, other)] == [True, False]
    other.claim(2, "boot")
    assert [one.is_ours for one in (store, other)] == [False, True]
    other.release()
    assert [one.is_ours for one in (store, other)] == [False, False]


def test_history_of_what_is_no_workload_has_one_bound(store: Store, clock: Clock) -> None:
    store.add("kept", b"{}")
    store.tell("kept", 1, "ready", "")
    for generation in range(2, 5):
        store.add("gone", b"{}")
        store.remove("gone", generation)
    for n in range(MAX_EVENTS):
        store.tell("", 0, "daemon_started", f"{n}", at=clock.now + n)
    assert [event.kind for event in store.events()][:2] == ["ready", "daemon_started"]
    assert len(store.events("")) == MAX_EVENTS_READ
    rest = store.events("", after=store.events("")[-1].number)
    assert [event.text for event in rest] == [f"{MAX_EVENTS - 1}"], "the rest is asked for after that"
    assert [event.text for event in store.events("", since=clock.now + MAX_EVENTS - 1)] == [rest[-1].text]


def test_the_files_are_the_users_alone(store: Store, tmp_path: Path) -> None:
    store.add("time", b"secret")
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("damage", [b"not a database", b"SQLite format 3\0" + b"x" * 4096])
def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(
    tmp_path: Path, opening: Opening, clock: Clock, damage: bytes
) -> None:
    clock.now = 1_800_000_000.0
    for name in ("state.db.damaged-20270115T080000Z", "state.db.damaged-20270115T080000Z-2"):
        for suffix in ("-wal", "-shm", ""):
            (tmp_path / f"state.db{suffix}").write_bytes(damage + suffix.encode())
        store = opening()
        assert store.set_aside == tmp_path / name
        assert store.set_aside.read_bytes() == damage
        store.claim(1, "boot")
        assert store.workloads() == []
        assert store.add("time", b"{}").generation > clock.now, "what the old one counted does not return"
        store.close()
    assert opening().set_aside is None


def test_pages_that_contradict_each_other_are_noticed(store: Store, tmp_path: Path, opening: Opening) -> None:
    for n in range(200):
        store.add(f"w{n}", b"x" * 500)
    store.close()
    data = bytearray((tmp_path / "state.db").read_bytes())
    data[8192:12288] = os.urandom(4096)
    (tmp_path / "state.db").write_bytes(data)
    assert opening().set_aside is not None


def test_a_file_of_the_first_mooring_is_brought_up_to_date(tmp_path: Path, clock: Clock) -> None:
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.executescript(f"{STEPS[0]} PRAGMA user_version = 1;")
        connection.execute("INSERT INTO workload VALUES ('old', 1, x'7b7d', 'running', 1.0, 1.0)")
        connection.execute("UPDATE counter SET generation = 1")
    connection.close()
    store = Store(tmp_path, clock)
    store.claim(1, "boot")
    store.keep_era("time", store.add("time", b"{}").generation, Era("x", "time 1", b""))
    assert store.era("x") == Era("x", "time 1", b"")
    assert store.workload("old") == Workload("old", 1, b"{}", Desired.RUNNING, 1.0, 1.0, "")
    store.close()


def test_eras_are_remembered_for_a_while_and_of_so_many_commands(store: Store, clock: Clock) -> None:
    generation = store.add("time", b"{}").generation
    for n in range(MAX_ERAS + 1):
        clock.now += 1
        store.keep_era("time", generation, Era(f"command {n}", "time 1", b""))
    assert store.era("command 0") is None
    store.keep_era("time", generation, Era("command 1", "time 2", b"{}"))
    assert store.era("command 1") == Era("command 1", "time 2", b"{}")
    clock.now += ERA_DAYS * DAY_S - 1
    assert store.era("command 1") is not None
    clock.now += 1
    assert store.era("command 1") is None, "then it is found out anew"
    with pytest.raises(StaleGeneration):
        store.keep_era("time", generation + 1, Era("late", "time 1", b""))


def test_a_file_of_a_newer_mooring_is_left_alone(store: Store, tmp_path: Path, clock: Clock) -> None:
    store.add("time", b"{}")
    store.close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    connection.close()
    with pytest.raises(UserError) as caught:
        Store(tmp_path, clock)
    assert caught.value.code == "state_too_new"
    assert not list(tmp_path.glob("*damaged*"))


def test_a_full_disk_says_so_and_changes_nothing(store: Store) -> None:
    store.add("time", b"{}")
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError) as caught:
        for n in range(200):
            store.add(f"w{n}", b"x" * 2000)
    assert caught.value.code == "disk_full" and caught.value.hint
    known = store.workloads()
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.add("later", b"{}")
    assert len(store.workloads()) == len(known) + 1


def test_one_who_holds_the_file_for_too_long(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._connection.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as caught:
        store.add("time", b"{}")
    assert caught.value.code == "state_busy"
    assert store.workloads() == [], "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    store.add("time", b"{}")


def test_a_directory_that_is_not_there(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(StoreError) as caught:
        Store(tmp_path / "missing", clock)
    assert caught.value.code == "state_unwritable" and caught.value.hint
