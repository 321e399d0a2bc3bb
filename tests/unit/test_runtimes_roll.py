"""The roll: what is written down of children, and what is read of it however much was written."""

import logging
from pathlib import Path

import pytest

from mooring.runtimes.proctable import Session
from mooring.runtimes.roll import MAX_ENTRY_BYTES, Entry, Roll, boot_id, read_entry

MARKER = "MOORING_INSTANCE=feed:time:7"
BOOT = "0cf1d4b2-7c5f-4c3e-9a57-6d2f0e1b8a33"
SESSION = Session(4711, "123456", MARKER, anchored=True)


def test_a_child_from_its_announcement_to_its_end(tmp_path: Path) -> None:
    roll = Roll(tmp_path, BOOT)
    assert roll.entries() == []
    roll.expect(MARKER)
    assert roll.entries() == [Entry(MARKER, BOOT)]
    roll.enter(SESSION)
    [entry] = roll.entries()
    assert entry == Entry(MARKER, BOOT, 4711, "123456") and entry.name == "time"
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    roll.strike(MARKER)
    roll.strike(MARKER)
    assert roll.entries() == []


def test_wherever_writing_ended_nothing_wrong_is_read() -> None:
    text = f"{BOOT}\n4711 123456\n"
    for length in range(len(text)):
        entry = read_entry("feed:time:7", text[:length])
        assert entry == Entry(MARKER, BOOT if length > len(BOOT) else "")
    assert read_entry("feed:time:7", text) == Entry(MARKER, BOOT, 4711, "123456")


@pytest.mark.parametrize("text", ["\0\0\0\n", "boot\nx y\n", "boot\n12\n", "boot\n-1 5\n"])
def test_what_we_did_not_write_names_no_process(text: str) -> None:
    entry = read_entry("feed:time:7", text)
    assert entry is not None and entry.pid is None


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine\n1 1\n")
    (tmp_path / "a:b:folder").mkdir()
    assert Roll(tmp_path, BOOT).entries() == []


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "feed:time:7").write_text("x" * MAX_ENTRY_BYTES + "\n4711 123456\n")
    assert Roll(tmp_path, BOOT).entries() == [Entry(MARKER, "")]


def test_no_process_survives_its_system(tmp_path: Path) -> None:
    roll = Roll(tmp_path, BOOT)
    assert roll.may_live(Entry(MARKER, BOOT)) and roll.may_live(Entry(MARKER, ""))
    assert not roll.may_live(Entry(MARKER, "another"))
    assert boot_id() == boot_id()


def test_a_roll_that_cannot_be_written_is_a_warning_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "roll").write_text("a file")
    roll = Roll(tmp_path / "roll", BOOT)
    with caplog.at_level(logging.WARNING):
        roll.expect(MARKER)
        roll.enter(SESSION)
        roll.strike(MARKER)
    assert roll.entries() == []
    assert caplog.text.count("cannot be written") == 1
