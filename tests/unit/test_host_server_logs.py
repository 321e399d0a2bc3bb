"""Logs of servers: whose, how long, and what is never in them."""

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.host import server_logs
from mooring.host.server_logs import ServerLogs


def record(text: str, *, server: object = "one", logger: str = "mooring.workload") -> logging.LogRecord:
    made = logging.LogRecord(logger, logging.INFO, "", 0, "%s", (text,), None)
    if server is not None:
        made.server = server
    return made


def words(path: Path) -> list[str]:
    return [line.split(" ", 1)[1] for line in path.read_text().splitlines()]


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_each_server_has_its_own(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path / "logs")
    logs.emit(record("one is ready"))
    logs.emit(record("hello", logger="mooring.server"))
    logs.emit(record("two is ready", server="two"))
    logs.emit(record("of nobody", server=None))
    logs.emit(record("a\nb \x1b[31m", logger="mooring.server"))
    assert words(tmp_path / "logs" / "one.log") == [
        "info one is ready",
        "stderr hello",
        "stderr a\\nb \\x1b[31m",
    ]
    assert words(tmp_path / "logs" / "two.log") == ["info two is ready"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "logs").iterdir())
    logs.forget("one")
    logs.close()
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["two.log"]


def test_a_file_that_is_full_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_logs, "MAX_FILE_BYTES", 200)
    logs = ServerLogs(tmp_path)
    for n in range(40):
        logs.emit(record(f"line {n}"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["one.log", "one.log.1", "one.log.2", "one.log.3"]
    assert all(path.stat().st_size <= 200 for path in tmp_path.iterdir())
    newest_first = [word for name in names for word in reversed(words(tmp_path / name))]
    assert newest_first == [f"info line {n}" for n in range(39, 39 - len(newest_first), -1)]
    logs.forget("one")
    assert not list(tmp_path.iterdir())
    logs.close()


def test_a_file_that_is_old_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text("2020-01-01T00:00:00.000Z info old\n")
    logs = ServerLogs(tmp_path)
    logs.emit(record("new"))
    logs.close()
    assert words(tmp_path / "one.log") == ["info new"]
    assert words(tmp_path / "one.log.1") == ["info old"]


def test_a_disk_that_is_full_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "one.log").symlink_to("/dev/full")
    logs = ServerLogs(tmp_path)
    logs.emit(record("no room for this"))
    logs.emit(record("two is ready", server="two"))
    logs.close()
    assert words(tmp_path / "two.log") == ["info two is ready"]


def test_a_file_that_cannot_be_begun_costs_lines_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_logs, "MAX_FILE_BYTES", 80)
    logs = ServerLogs(tmp_path)
    for n in range(3):
        logs.emit(record(f"line {n}"))
    before = words(tmp_path / "one.log.1")
    with no_descriptors():
        for n in range(10):
            logs.emit(record(f"lost {n}"))
    with (tmp_path / "bystander").open("w"):  # may get the number of a file that was closed too soon
        logs.emit(record("found again"))
    logs.close()
    assert (tmp_path / "bystander").read_text() == ""
    assert words(tmp_path / "one.log")[-1] == "info found again"
    kept = [word for path in tmp_path.glob("one.log.*") for word in words(path)]
    assert before[0] in kept, "what was there is put aside once, not for each line that was lost"
