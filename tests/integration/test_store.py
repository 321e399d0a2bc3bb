"""The store, on a real file: what is kept, who may write, what a damaged or full one says."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.store.database import StoreError
from mooring.store.records import Desired, Era, Session
from mooring.store.schema import NEWEST, STEPS
from mooring.store.store import (
    DAY_S,
    ERA_DAYS,
    MAX_ERAS,
    MAX_EVENTS,
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


def test_what_is_written_about_an_old_generation_changes_nothing(store: Store) -> None:
    old = store.add("time", b"{}").generation
    store.remove("time", old)
    new = store.add("time", b"{}")
    late = (
        lambda: store.want("time", old, Desired.STOPPED),
        lambda: store.begin("time", after=old),
        lambda: store.remove("time", old),
        lambda: store.keep_sessions("time", old, [session("s")], []),
        lambda: store.tell("time", old, "exited", "late"),
    )
    for write in late:
        with pytest.raises(StaleGeneration):
            write()
    assert store.workload("time") == new
    assert store.sessions("time") == [] == store.events()


def test_one_who_was_replaced_can_write_nothing(store: Store, opening: Opening) -> None:
    added = store.add("time", b"{}")
    store.keep_sessions("time", 1, [session("s")], [])
    successor = opening()
    with pytest.raises(Fenced):
        successor.want("time", 1, Desired.STOPPED)
    successor.claim(2, "boot")
    late = (
        lambda: store.add("other", b"{}"),
        lambda: store.want("time", 1, Desired.STOPPED),
        lambda: store.begin("time", after=1),
        lambda: store.remove("time", 1),
        lambda: store.keep_sessions("time", 1, [], ["s"]),
        lambda: store.tell("time", 1, "exited", "late"),
    )
    for write in late:
        with pytest.raises(Fenced):
            write()
    assert successor.workloads() == [added] and len(successor.sessions("time")) == 1
    assert successor.owner is not None and successor.owner.pid == 2
    successor.want("time", 1, Desired.STOPPED)


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
    store.remove("time", 1)
    assert store.events("time") == []


def test_the_files_are_the_users_alone(store: Store, tmp_path: Path) -> None:
    store.add("time", b"secret")
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("damage", [b"not a database", b"SQLite format 3\0" + b"x" * 4096])
def test_a_damaged_file_is_kept_aside(tmp_path: Path, opening: Opening, damage: bytes) -> None:
    for number in (1, 2):
        (tmp_path / "state.db").write_bytes(damage)
        with pytest.raises(StoreError) as caught:
            opening()
        assert caught.value.code == "state_damaged"
        assert (tmp_path / f"state.db.damaged-{number}").read_bytes() == damage
    assert opening().workloads() == []


def test_pages_that_contradict_each_other_are_noticed(store: Store, tmp_path: Path, clock: Clock) -> None:
    for n in range(200):
        store.add(f"w{n}", b"x" * 500)
    store.close()
    data = bytearray((tmp_path / "state.db").read_bytes())
    data[8192:12288] = os.urandom(4096)
    (tmp_path / "state.db").write_bytes(data)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path, clock)
    assert caught.value.code == "state_damaged"


def test_a_file_of_the_first_mooring_is_brought_up_to_date(tmp_path: Path, clock: Clock) -> None:
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.executescript(f"{STEPS[0]} PRAGMA user_version = 1;")
    connection.close()
    store = Store(tmp_path, clock)
    store.claim(1, "boot")
    store.keep_era("time", store.add("time", b"{}").generation, Era("x", "time 1", b""))
    assert store.era("x") == Era("x", "time 1", b"")
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
