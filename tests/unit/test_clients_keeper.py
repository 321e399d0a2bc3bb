"""The keeper on real files, with the real registry; only its clock is a test's."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from mooring.clients import decisions, drifting, keeper
from mooring.clients.bookkeeping import Verdict
from mooring.clients.drafts import Draft
from mooring.clients.entries import Target
from mooring.clients.following import EXITED, LOST, News, ServerNow
from mooring.clients.keeper import Keeper
from mooring.clients.ledger import Ledger, LedgerTrouble
from mooring.clients.machine import Machine, Platform
from mooring.clients.patience import Tries, Turns
from mooring.clients.records import Owned
from mooring.clients.registry import Registry
from mooring.clients.table import load_table

READY = ServerNow(1, "ready")
FAILED = ServerNow(1, "failed", "too many exits")
STARTING = ServerNow(1, "other")
CURSOR, CLAUDE = ".cursor/mcp.json", ".claude.json"
BEFORE = b'{\n  "mcpServers": {\n    "other": {"url": "http://elsewhere"}\n  }\n}\n'


class Place:
    """A home with the files of two clients, and one life of the keeper after another."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.state = tmp_path / "state"
        self.now = 1000.0
        self.number = 10
        self.port = 4670
        self.gone: set[str] = set()
        self.servers: dict[str, ServerNow] = {"time": READY}
        for name in (CURSOR, CLAUDE):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_bytes(BEFORE)
        self.registry = Registry(self.state, Machine(Platform.LINUX, self.home, {}))
        for client in ("cursor", "claude-code"):
            self.add(client)
        self.live()

    def live(self) -> None:
        """Another life of the daemon."""
        self.registry = Registry(self.state, Machine(Platform.LINUX, self.home, {}))
        self.keeper = Keeper(self.registry, Ledger(self.state), lambda: self.now)
        if self.keeper.after == 0:
            self.keeper.begin_at(self.number)

    def add(self, client: str, server: str = "time") -> None:
        [outcome] = self.registry.add(self.registry.site(client), [self.target(server)])
        assert outcome.change == "added"

    def target(self, server: str) -> Target:
        return Target(server, f"http://127.0.0.1:{self.port}/{server}/mcp", ("/bin/mooring", "stdio", server))

    def target_of(self, server: str) -> Target | None:
        return self.target(server) if server in self.servers else None

    def event(self, kind: str, name: str = "time", generation: int = 1) -> News:
        self.number += 1
        return News(self.number, name, generation, kind)

    def turn(self, *news: News) -> list[str]:
        self.gone |= {event.name for event in news if event.kind == "removed"}
        was_removed = {name: name in self.gone for name in self.keeper.missing}
        told = self.keeper.turn(news, self.servers, self.target_of, was_removed)
        return [f"{server}: {text}" for server, text in told]

    def entry(self, name: str, server: str = "time") -> Any:
        """As it stands in the file; None: it does not."""
        return json.loads((self.home / name).read_bytes())["mcpServers"].get(server)

    def where(self) -> list[str]:
        """The files that have the entry, of each of which it is the only one."""
        for name in (CURSOR, CLAUDE):
            assert (self.home / name).read_bytes().count(b"/time/mcp") <= 1
        return [name for name in (CURSOR, CLAUDE) if self.entry(name)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def settle_s(client: str) -> float:
    return load_table()[client].reload.settle_s


def test_exits_that_sessions_survive_touch_no_file(place: Place) -> None:
    before = {name: (place.home / name).stat() for name in (CURSOR, CLAUDE)}
    ledger = Ledger(place.state).path.read_bytes()
    assert place.turn(place.event(EXITED), place.event("backoff"), place.event("ready")) == []
    assert place.turn() == []
    assert {name: (place.home / name).stat() for name in (CURSOR, CLAUDE)} == before
    place.servers["time"] = STARTING
    assert place.turn(place.event("stopped"), place.event("started", generation=2)) == []
    assert {name: (place.home / name).stat() for name in (CURSOR, CLAUDE)} == before
    assert json.loads(ledger)["files"] == json.loads(Ledger(place.state).path.read_bytes())["files"]


def test_a_lost_session_is_out_for_as_long_as_its_client_needs(place: Place) -> None:
    was = (place.home / CURSOR).read_bytes()
    [told] = place.turn(place.event(LOST))
    assert told == "time: taken out of cursor: a session was lost"
    assert place.where() == [CLAUDE], "which would not notice"
    assert place.keeper.due == place.now + settle_s("cursor")
    place.now = place.keeper.due - 0.01
    assert place.turn() == [] and place.where() == [CLAUDE]
    place.now = place.keeper.due
    assert place.turn() == ["time: put back into cursor"]
    assert (place.home / CURSOR).read_bytes() == was
    assert place.turn() == [] and place.keeper.due is None


def test_it_waits_for_the_server(place: Place) -> None:
    place.servers["time"] = STARTING
    place.turn(place.event(LOST))
    place.now += 60
    assert place.turn() == [] and place.where() == [CLAUDE]
    place.servers["time"] = READY
    place.turn(place.event("ready"))
    assert place.where() == [CURSOR, CLAUDE]


def test_failed_is_out_everywhere_and_back_when_it_works(place: Place) -> None:
    place.servers["time"] = FAILED
    [told] = place.turn(place.event("failed"))
    assert "cursor, claude-code: the server has failed: too many exits" in told
    assert place.where() == []
    [standing] = [one for one in place.registry.standings() if one.client == "cursor"]
    assert [(one.state, one.why) for one in standing.entries] == [
        ("out", "the server has failed: too many exits")
    ]
    place.now += 60
    assert place.turn() == [] and place.where() == []
    place.servers["time"] = READY
    place.turn(place.event("ready"))
    assert place.where() == [CURSOR, CLAUDE]


def test_always_is_out_at_once_and_never_is_not(place: Place) -> None:
    place.servers["time"] = STARTING._replace(refresh="always")
    place.turn(place.event(EXITED))
    assert place.where() == []
    place.servers["time"] = READY._replace(refresh="always")
    place.turn()
    assert place.where() == [], "not at once"
    place.now += 60
    place.turn()
    assert place.where() == [CURSOR, CLAUDE]
    for state in (READY, FAILED, STARTING):
        place.servers["time"] = state._replace(refresh="never")
        assert place.turn(place.event(EXITED), place.event(LOST), place.event("failed")) == []
    assert place.where() == [CURSOR, CLAUDE]


def test_what_is_removed_goes_for_good_unless_it_was_run_again(place: Place) -> None:
    removed = place.event("removed")
    place.servers["time"] = ServerNow(2, "other")
    assert place.turn(removed) == [] and place.where() == [CURSOR, CLAUDE]
    servers, place.servers = dict(place.servers), {}
    place.keeper.turn([removed], {}, place.target, {"time": True})
    assert place.where() == [CURSOR, CLAUDE], "it was run again in this very moment"
    place.now += 60
    assert place.turn(removed) + place.turn() == ["time: was removed: taken out of cursor, claude-code"]
    for name in (CURSOR, CLAUDE):
        assert (place.home / name).read_bytes() == BEFORE
    assert place.registry.servers() == []
    place.servers = servers
    place.now += 60
    assert place.turn(place.event("ready", generation=2)) == [] and place.where() == []


def test_another_address_is_written_once_the_server_works(place: Place) -> None:
    place.port = 4711
    place.live()
    place.servers["time"] = STARTING
    assert place.turn() == [] and place.entry(CURSOR)["url"] == "http://127.0.0.1:4670/time/mcp"
    place.servers["time"] = READY
    [told] = place.turn()
    assert told == "time: its address has changed: renewed in cursor, claude-code"
    assert {place.entry(name)["url"] for name in (CURSOR, CLAUDE)} == {"http://127.0.0.1:4711/time/mcp"}
    assert place.turn() == []


def test_a_session_lost_again_and_again_makes_clients_come_ever_more_seldom(place: Place) -> None:
    place.turn(place.event(LOST))
    moments = [place.now]
    for _ in range(8):
        place.now += 9
        assert place.turn() == ["time: put back into cursor"]
        while not (told := place.turn(place.event(LOST))):
            assert place.keeper.due is not None
            place.now = place.keeper.due
        assert told == ["time: taken out of cursor: a session was lost"]
        moments.append(place.now)
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    place.now += keeper.WINDOW_S
    place.turn()
    assert place.turn(place.event(LOST)), "after an hour without, at once"


def test_a_lost_session_that_has_to_wait_is_heard_of_by_the_next_life(place: Place) -> None:
    place.turn(place.event(LOST))
    first = place.number
    place.now += settle_s("cursor")
    place.turn()
    place.now += keeper.CONNECTED_S - 0.5
    place.turn()
    assert place.registry.position < first, "it is not certain yet that clients have come"
    place.now += 0.5
    place.turn()
    place.turn(place.event(LOST), place.event("ready"))
    assert place.where() == [CURSOR, CLAUDE] and place.registry.position == first
    place.live()
    assert place.keeper.after == first
    place.now += 10
    place.turn(News(first + 1, "time", 1, LOST), News(first + 2, "time", 1, "ready"))
    assert place.where() == [CLAUDE]
    for _ in range(3):
        place.now += 60
        place.turn()
    assert place.where() == [CURSOR, CLAUDE] and place.registry.position == first + 2


def test_what_another_life_took_out_comes_back_after_a_wait_that_begins_anew(place: Place) -> None:
    lost = place.event(LOST)
    place.turn(lost)
    place.now += settle_s("cursor") - 0.1
    place.live()
    assert place.keeper.after == lost.number - 1
    assert place.turn(lost) == [], "it is out"
    assert place.turn() == [] and place.keeper.due is not None and place.keeper.due > place.now + 0.2
    place.now = place.keeper.due
    place.turn()
    assert place.where() == [CURSOR, CLAUDE]


@pytest.fixture(params=["read-only", "broken", "directory"])
def spoil(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    """Makes a file one that cannot be changed."""

    def spoiled(path: Path) -> None:
        if request.param == "read-only":
            path.chmod(0o400)
        elif request.param == "broken":
            path.write_bytes(b"{not JSON")
        else:
            path.unlink()
            path.mkdir()

    return spoiled


def test_a_file_in_trouble_is_told_once_and_tried_ever_more_seldom(
    place: Place, spoil: Callable[[Path], None]
) -> None:
    was = (place.home / CURSOR).read_bytes()
    place.servers["time"] = FAILED
    spoil(place.home / CURSOR)
    told = place.turn(place.event("failed"))
    assert len(told) == 2 and any(text.startswith("time: cursor: ") for text in told)
    assert place.entry(CLAUDE) is None, "the others go on"
    tries: list[float] = []
    take_out = place.registry.take_out

    def counted(*words: Any, **options: Any) -> Any:
        tries.append(place.now)
        return take_out(*words, **options)

    place.registry.take_out = counted  # type: ignore[method-assign]
    begin = place.now
    while place.now < begin + 200:
        place.now += 0.5
        assert place.turn() == [], "that is known"
    waits = [later - earlier for earlier, later in zip([begin, *tries], tries, strict=False)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    path = place.home / CURSOR
    if path.is_dir():
        path.rmdir()
        path.touch()
    path.chmod(0o600)
    path.write_bytes(was)
    place.now += 60
    assert place.turn() == ["time: taken out of cursor: the server has failed: too many exits"]
    assert path.read_bytes() == BEFORE


def test_a_lost_session_and_a_file_in_trouble_take_the_others_out_once(place: Place) -> None:
    vscode = place.home / ".config/Code/User/mcp.json"
    place.add("vscode")
    (place.home / CURSOR).chmod(0o400)
    assert len(place.turn(place.event(LOST))) == 2
    place.now += 3
    assert place.turn() == ["time: put back into vscode"]
    was = vscode.stat()
    place.now += 30
    assert place.turn() == []
    (place.home / CURSOR).chmod(0o600)
    place.now += 60
    assert place.turn() == ["time: taken out of cursor: a session was lost"]
    assert vscode.stat() == was
    place.now += 60
    assert place.turn() == ["time: put back into cursor"]


@pytest.mark.parametrize(("kind", "refresh"), [(LOST, "auto"), (EXITED, "always")])
def test_a_file_in_trouble_keeps_no_other_client_from_being_refreshed_again(
    place: Place, kind: str, refresh: Literal["auto", "always"]
) -> None:
    place.servers["time"] = ServerNow(1, "ready", refresh=refresh)
    place.add("vscode")
    vscode = place.registry.site("vscode").path
    (place.home / CURSOR).write_text("{")
    for _ in range(3):
        place.turn(place.event(kind))
        assert b"/time/mcp" not in vscode.read_bytes()
        place.now += 60
        place.turn()
        assert b"/time/mcp" in vscode.read_bytes()
        place.now += 700


def test_what_was_run_again_meanwhile_keeps_its_entries_in_files_that_come_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    del place.servers["time"]
    place.turn(place.event("removed"))
    forget = decisions.forget

    def forget_and_run_again(draft: Draft, owned: Owned) -> Verdict:
        place.servers["time"] = ServerNow(2, "ready")
        return forget(draft, owned)

    monkeypatch.setattr(decisions, "forget", forget_and_run_again)
    place.now += 60
    place.turn()
    assert sorted(place.entry(name) is None for name in (CURSOR, CLAUDE)) == [False, True]


def test_a_client_that_was_uninstalled_does_not_get_its_folder_back(place: Place) -> None:
    place.registry.repair = "auto"
    shutil.rmtree(place.home / ".cursor")
    for _ in range(3):
        place.turn()
        place.now += 5
    assert not (place.home / ".cursor").exists()


def test_an_entry_that_the_user_changed_is_left_and_told(place: Place) -> None:
    path = place.home / CURSOR
    path.write_bytes(path.read_bytes().replace(b"127.0.0.1:4670", b"my.host"))
    place.servers["time"] = FAILED
    told = place.turn(place.event("failed"))
    assert any("cursor" in text and "--force" in text for text in told)
    mine = path.read_bytes()
    for _ in range(3):
        place.now += 100
        assert [text for text in place.turn() if "its entry in" not in text] == []
    assert path.read_bytes() == mine


def wipe(place: Place) -> None:
    (place.home / CURSOR).write_bytes(BEFORE)


def test_what_a_client_wiped_is_told_once_and_put_back_by_nobody(place: Place) -> None:
    wipe(place)
    assert place.turn() == [], "it may be in the middle of writing"
    place.now += 2
    [told] = place.turn()
    assert "gone from" in told and "mooring client sync" in told
    place.now += 2
    assert place.turn() == [] and place.where() == [CLAUDE]


def test_what_a_client_wipes_is_repaired_a_few_times_if_that_is_wanted(place: Place) -> None:
    place.registry.repair = "auto"
    for _ in range(drifting.MOST_REPAIRS):
        wipe(place)
        place.turn()
        place.now += 2
        [told] = place.turn()
        assert "put back" in told and place.where() == [CURSOR, CLAUDE]
        place.now += 2
        assert place.turn() == []
    wipe(place)
    place.turn()
    place.now += 2
    [told] = place.turn()
    assert "too often" in told and place.where() == [CLAUDE]
    place.now += drifting.WINDOW_S
    place.turn()
    assert place.where() == [CURSOR, CLAUDE], "an hour later it is another matter"


def test_servers_that_nobody_removed_are_out_until_they_are_run_again(place: Place) -> None:
    place.turn(place.event(LOST), place.event("ready"))
    place.now += 60
    place.turn()
    place.live()
    servers, place.servers = place.servers, {}
    assert place.turn() == [], "it may have been removed"
    [told] = place.turn()
    assert "mooring run time" in told and place.where() == []
    place.keeper.begin_at(1)
    place.now += 60
    assert place.turn() == []
    place.servers = servers
    place.turn(News(2, "time", 1, "ready"))
    place.now += 60
    place.turn()
    assert place.where() == [CURSOR, CLAUDE]


def test_the_position_is_written_seldom_if_nothing_is_asked_for(place: Place) -> None:
    for _ in range(keeper.MOST_UNNOTED):
        place.turn(place.event("ready"))
    assert place.registry.position == 10
    place.turn(place.event("ready"))
    assert place.registry.position == place.number
    place.turn(place.event("ready"), place.event(LOST))
    for _ in range(3):
        place.now += 60
        place.turn()
    assert place.registry.position == place.number


def test_trouble_with_the_ledger_is_raised_and_loses_nothing(place: Place) -> None:
    lost = place.event(LOST)
    ledger = Ledger(place.state).path
    good = ledger.read_bytes()
    ledger.write_bytes(good.replace(b'"version": 1', b'"version": 99'))
    with pytest.raises(LedgerTrouble):
        place.turn(lost)
    ledger.write_bytes(good)
    place.turn(lost)
    assert place.where() == [CLAUDE]


def test_tries_are_at_once_and_then_later_and_later() -> None:
    tries = Tries(1.0, 5.0)
    assert tries.begin("a", 10.0) == 10.0
    assert tries.begin("a", 10.5) == 11.0 == tries.when("a")
    assert tries.begin("a", 11.0) == 11.0 and tries.when("a") == 13.0
    tries.begin("a", 13.0)
    tries.begin("a", 17.0)
    assert tries.when("a") == 22.0
    tries.keep({"b"})
    assert tries.begin("a", 18.0) == 18.0
    tries.end("a")
    assert tries.begin("a", 18.1) == 18.1


def test_turns_are_forgotten_after_a_while() -> None:
    turns = Turns(100.0)
    turns.note("a", 1.0)
    turns.note("a", 50.0)
    assert turns.of("a", 60.0) == [1.0, 50.0] and turns.of("b", 60.0) == []
    assert turns.of("a", 101.0) == [50.0]
    assert turns.of("a", 150.0) == [] and turns.of("a", 60.0) == []
