"""The last ten versions of each file from before our changes, and no others."""

from pathlib import Path

import pytest

from mooring.clients.backups import MOST_BACKUPS, Backups
from mooring.clients.files import Files
from mooring.errors import UserError


def test_the_last_ten_are_kept_and_numbers_rise(tmp_path: Path) -> None:
    ours, path = Files(tmp_path / "state"), tmp_path / "mcp.json"
    path.write_bytes(b"0")
    numbers = []
    for number in range(1, MOST_BACKUPS + 6):
        changed = ours.change(path, lambda _, number=number: b"%d" % number)  # type: ignore[misc]
        assert changed.backup is not None
        numbers.append(changed.backup)
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)
    kept = [ours.backup(path, number) for number in numbers]
    assert kept == [None] * 5 + [b"%d" % number for number in range(5, MOST_BACKUPS + 5)]
    backups = Backups(tmp_path / "state" / "backups")
    assert backups.numbers(path) == numbers[-MOST_BACKUPS:]


def test_each_file_has_its_own_wherever_its_links_are(tmp_path: Path) -> None:
    ours = Files(tmp_path / "state")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mcp.json").write_bytes(name.encode())
    (tmp_path / "link").symlink_to(tmp_path / "a" / "mcp.json")
    first = ours.change(tmp_path / "link", lambda _: b"new")
    other = ours.change(tmp_path / "b" / "mcp.json", lambda _: b"new")
    assert first.backup == other.backup, "numbers are of one file"
    assert first.backup is not None
    assert ours.backup(tmp_path / "a" / "mcp.json", first.backup) == b"a"
    assert ours.backup(tmp_path / "link", first.backup) == b"a"
    assert ours.backup(tmp_path / "b" / "mcp.json", first.backup) == b"b"


def test_none_is_made_of_what_was_not_there_or_stays_or_is_not_to_be_kept(tmp_path: Path) -> None:
    ours, path = Files(tmp_path / "state"), tmp_path / "mcp.json"
    assert ours.change(path, lambda _: b"new").backup is None
    assert ours.change(path, lambda data: data).backup is None
    assert ours.change(path, lambda _: b"newer", keep=False).backup is None
    assert Backups(tmp_path / "state" / "backups").numbers(path) == []


def test_what_is_no_number_is_no_backup(tmp_path: Path) -> None:
    ours, path = Files(tmp_path / "state"), tmp_path / "mcp.json"
    path.write_bytes(b"old")
    ours.change(path, lambda _: b"new")
    (tmp_path / "state" / "backups" / "elsewhere").write_bytes(b"secret")
    for number in ("", "1", "00000002", "../elsewhere", "0000000a", "00000001\n"):
        assert ours.backup(path, number) is None
    assert ours.backup(path, "00000001") == b"old"


def test_without_a_backup_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, path = Files(tmp_path / "state"), tmp_path / "mcp.json"
    path.write_bytes(b"old")
    (tmp_path / "state" / "backups").rmdir()
    (tmp_path / "state" / "backups").write_bytes(b"in the way")
    with pytest.raises(UserError, match="cannot be used"):
        ours.change(path, lambda _: b"new")
    assert path.read_bytes() == b"old"
    assert ours.change(path, lambda _: b"new", keep=False).after == b"new"
