"""The ledger of what is ours: whole, private, held by one at a time, and never trusted when it is damaged."""

import fcntl
import json
import os
import stat
from datetime import date
from pathlib import Path

import msgspec
import pytest

from mooring.clients import ledger as module
from mooring.clients.editing.edits import Section
from mooring.clients.ledger import Ledger, LedgerTrouble
from mooring.clients.records import (
    ABSENT,
    MAX_ENTRY_BYTES,
    MOST_BYGONE,
    Contents,
    FileRecord,
    Follow,
    Intent,
    Owned,
    Past,
    Step,
    There,
    Touched,
    digest,
    fingerprint,
    keepable,
)
from tests.client_home import ClientHome, changes, target

SECTION = Section(("mcpServers",))
OWNED = Owned(
    "cursor", "notes", "notes", SECTION, "json", {"url": "http://h/"}, kept={"url": "x", "more": [1, None]}
)
RECORD = FileRecord(
    "/h/mcp.json",
    entries=(OWNED,),
    changes=(
        Past(
            "cursor",
            SECTION,
            "json",
            None,
            "ab",
            (Touched("notes", "cd", owners=(OWNED,)),),
            backup="00000001",
        ),
    ),
    intent=Intent(
        "cursor", SECTION, "json", None, "ef", (Step("notes", "", "cd"),), FileRecord("/h/mcp.json")
    ),
)


def test_what_is_written_is_read_again_by_anybody(tmp_path: Path) -> None:
    contents = Contents(
        position=7, repair="auto", follows=(Follow("cursor", "/p"),), files={RECORD.path: RECORD}
    )
    Ledger(tmp_path).write(contents)

    assert Ledger(tmp_path).read() == contents


def test_it_is_for_the_user_alone(tmp_path: Path) -> None:
    Ledger(tmp_path).write(Contents())

    assert stat.S_IMODE((tmp_path / "ledger.json").stat().st_mode) == 0o600


def test_there_need_not_be_one(tmp_path: Path) -> None:
    assert Ledger(tmp_path).read() == Contents()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 100,
        b'{"version": 1, "files": [',
        b'{"version": 1, "files": 3}',
        b'{"version": 1, "repair": "\xff"}',
        b"[]",
        b'{"version": 1, "files": ' + b'{"a":' * 100_000,
    ],
    ids=range(7),
)
def test_a_damaged_one_is_kept_aside_and_told(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ledger.json").write_bytes(damage)
    ledger = Ledger(tmp_path)

    assert ledger.read() == Contents()
    assert (tmp_path / "ledger.json").exists(), "whoever only reads changes nothing"
    with ledger.held() as contents:
        assert contents == Contents()

    assert ledger.damaged is not None
    assert ledger.damaged.name.startswith("ledger.damaged-")
    assert ledger.damaged.read_bytes() == damage
    assert "was damaged" in caplog.text


def test_two_damaged_ones_do_not_take_each_others_place(tmp_path: Path) -> None:
    for text in ("one", "two"):
        (tmp_path / "ledger.json").write_text(text)
        with Ledger(tmp_path).held():
            pass

    assert sorted(path.read_text() for path in tmp_path.glob("ledger.damaged-*")) == ["one", "two"]


def test_one_of_a_newer_mooring_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text('{"version": 2, "something": "else"}')

    with pytest.raises(LedgerTrouble) as raised:
        Ledger(tmp_path).read()
    with pytest.raises(LedgerTrouble), Ledger(tmp_path).held():
        pass

    assert raised.value.code == "ledger_too_new"
    assert (tmp_path / "ledger.json").read_text() == '{"version": 2, "something": "else"}'


def test_who_waits_too_long_for_it_is_told(tmp_path: Path) -> None:
    holder = os.open(tmp_path / "ledger.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        with pytest.raises(LedgerTrouble) as raised, Ledger(tmp_path, patience_s=0.05).held():
            pytest.fail("it is held by somebody else")
    finally:
        os.close(holder)

    assert raised.value.code == "ledger_busy"
    with Ledger(tmp_path, patience_s=0.05).held():
        pass


def test_one_that_would_be_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.write(Contents(position=1))
    monkeypatch.setattr(module, "MAX_LEDGER_BYTES", 1000)

    with pytest.raises(LedgerTrouble) as raised:
        ledger.write(
            Contents(position=2, files={str(n): FileRecord(str(n), entries=(OWNED,)) for n in range(9)})
        )

    assert raised.value.code == "ledger_full"
    assert ledger.read().position == 1


def test_a_full_ledger_is_told_before_a_file_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ClientHome.at(tmp_path)
    path = home.write("cursor")
    before = path.read_bytes()
    monkeypatch.setattr(module, "MAX_LEDGER_BYTES", 200)

    with pytest.raises(LedgerTrouble):
        home.registry().add(home.site("cursor"), [target()])

    assert path.read_bytes() == before


def test_one_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.write(Contents(position=1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerTrouble) as raised:
        ledger.write(Contents(position=2))

    assert "No space left" in raised.value.message
    assert ledger.read().position == 1
    assert not (tmp_path / "ledger.json.new").exists()


def test_what_a_writer_left_who_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "ledger.json.new").write_text("half")

    Ledger(tmp_path).write(Contents(position=3))

    assert Ledger(tmp_path).read().position == 3
    assert not (tmp_path / "ledger.json.new").exists()


def test_the_place_in_the_journal_and_repair_are_kept_through_changes(tmp_path: Path) -> None:
    home = ClientHome.at(tmp_path)
    registry = home.registry()
    assert (registry.position, registry.repair) == (0, "off")

    registry.read_to(12)
    registry.repair = "auto"
    registry.add(home.site("cursor"), [target()])

    assert (home.registry().position, home.registry().repair) == (12, "auto")


def test_entries_are_recognised_after_the_ledger_was_lost_by_adding_or_syncing(tmp_path: Path) -> None:
    home = ClientHome.at(tmp_path)
    for client in ("cursor", "vscode"):
        home.write(client)
        home.registry().add(home.site(client), [target()])
    (home.state / "ledger.json").write_text("damaged")
    before = [home.site(client).path.read_bytes() for client in ("cursor", "vscode")]

    assert changes(home.registry().add(home.site("vscode"), [target()])) == ["unchanged"]
    assert changes(home.registry().sync({"notes": target()})) == ["unchanged", "unchanged"]

    assert home.states() == {("cursor", "notes"): "in", ("vscode", "notes"): "in"}
    assert [home.site(client).path.read_bytes() for client in ("cursor", "vscode")] == before


def test_other_entries_are_foreign_after_the_ledger_was_lost(tmp_path: Path) -> None:
    home = ClientHome.at(tmp_path)
    home.registry().add(home.site("cursor"), [target()])
    (home.state / "ledger.json").unlink()

    [outcome] = home.registry().add(home.site("cursor"), [target(port=5000)])

    assert (outcome.change, outcome.code) == ("refused", "entry_foreign")


def test_no_more_than_the_last_changes_are_remembered(tmp_path: Path) -> None:
    home = ClientHome.at(tmp_path)
    home.write("cursor")
    for number in range(15):
        home.registry().add(home.site("cursor"), [target(port=5000 + number)])

    [record] = json.loads((home.state / "ledger.json").read_text())["files"].values()

    assert len(record["changes"]) == 10


def test_files_in_which_nothing_is_ours_any_more_are_remembered_up_to_a_bound() -> None:
    contents = Contents()
    contents.put(FileRecord("/ours", entries=(OWNED,), changes=RECORD.changes))
    for number in range(MOST_BYGONE + 5):
        contents.put(FileRecord(f"/{number}", changes=RECORD.changes))

    assert list(contents.files) == ["/ours", *(f"/{number}" for number in range(5, MOST_BYGONE + 5))]
    contents.put(FileRecord("/ours"))
    assert "/ours" not in contents.files


def test_fingerprints_tell_apart_what_differs_and_nothing_else() -> None:
    assert fingerprint({"a": 1, "b": [True, None]}) == fingerprint({"b": [True, None], "a": 1})
    different: list[There] = [
        ABSENT,
        None,
        {},
        [],
        "",
        0,
        0.0,
        False,
        {"a": []},
        {"a": {}},
        {"a": [[]]},
        ["mapping"],
        "None",
        [None],
        16**5000,
        -(16**5000),
        "0x0",
        ["number", "0x0"],
    ]
    assert len({fingerprint(value) for value in different}) == len(different)


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": date(2026, 1, 1)}, {"a": "\ud800"}, {"a": "x" * MAX_ENTRY_BYTES}]
)
def test_what_json_cannot_hold_is_not_kept(value: dict[str, object]) -> None:
    assert not keepable(value)  # type: ignore[arg-type]


def test_what_json_can_hold_is_kept() -> None:
    assert keepable({"a": [1, 1.5, None, "é\n", {"b": True}]})


def test_digests_know_of_no_file() -> None:
    assert digest(None) is None
    assert digest(b"") not in (None, digest(b" "))


def test_records_are_plain_json(tmp_path: Path) -> None:
    data = msgspec.json.encode(RECORD)

    assert msgspec.json.decode(data, type=FileRecord) == RECORD
