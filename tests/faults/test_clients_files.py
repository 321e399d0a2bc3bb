"""Files that their clients write too, editors that are killed, disks that are full, missing rights."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from mooring.clients import disk, exchanging, files, looking, replacing
from mooring.clients.backups import Backups, key_of
from mooring.clients.files import MOST_ROUNDS, Changed, Files
from mooring.errors import UserError

HERE = Path(__file__).parent
OLD, OURS = b"old ", b"ours "


class Bench:
    """A file, a client that writes it when it is told to, and what must hold in the end."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.home = directory / "home"
        self.home.mkdir()
        self.path = self.home / "mcp.json"
        self.path.write_bytes(OLD)
        self.ours = Files(self.state)
        self.edited: list[bytes | None] = []
        self.open: list[BinaryIO] = []

    def edit(self, data: bytes | None) -> bytes:
        self.edited.append(data)
        return (data or b"").replace(OURS, b"") + OURS

    def change(self, *, keep: bool = True) -> Changed:
        return self.ours.change(self.path, self.edit, keep=keep)

    # The client

    def rename(self, data: bytes) -> None:
        begun = self.home / "client.tmp"
        begun.write_bytes(data)
        begun.replace(self.path)

    def in_place(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def begin(self) -> BinaryIO:
        """To write in place, and take one's time."""
        file = self.path.open("r+b", buffering=0)
        self.open.append(file)
        return file

    @staticmethod
    def end(file: BinaryIO, data: bytes) -> None:
        file.write(data)
        file.truncate()
        file.close()

    # In the end

    def backups(self) -> list[bytes | None]:
        backups = Backups(self.state / "backups")
        return [backups.read(self.path, number) for number in backups.numbers(self.path)]

    def aside(self) -> list[bytes | None]:
        aside = Backups(self.state / "backups").aside
        return [aside.read(self.path, number) for number in aside.numbers(self.path)]

    def check_tidy(self) -> None:
        assert [one.name for one in self.home.iterdir() if one.name.startswith(".")] == []
        assert list((self.state / "exchanges").iterdir()) == []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for file in bench.open:
        file.close()


Act = Callable[[], object]


def around(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    before: dict[int, Act] | None = None,
    after: dict[int, Act] | None = None,
) -> list[int]:
    """Do things right before and after the n-th call of a function of `exchanging`, counted from 1."""
    real = getattr(exchanging, name)
    calls: list[int] = []

    def wrapped(*arguments: Path) -> object:
        calls.append(len(calls) + 1)
        number = len(calls)
        (before or {}).get(number, lambda: None)()
        result = real(*arguments)
        (after or {}).get(number, lambda: None)()
        return result

    monkeypatch.setattr(exchanging, name, wrapped)
    return calls


# A client writes while we do


@pytest.mark.parametrize("way", ["rename", "in_place"])
def test_a_client_that_writes_after_the_last_look_is_put_back_and_ours_is_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    exchanges = around(monkeypatch, "exchange", before={1: lambda: getattr(bench, way)(b"client's ")})
    changed = bench.change()
    assert bench.path.read_bytes() == b"client's " + OURS
    assert bench.edited == [OLD, b"client's "]
    assert (changed.before, changed.after) == (b"client's ", b"client's " + OURS)
    assert len(exchanges) == 3, "ours, theirs back, ours"
    assert bench.backups() == [b"client's "], "what was replaced, and no more"
    bench.check_tidy()


@pytest.mark.parametrize("way", ["rename", "in_place"])
def test_a_client_that_writes_over_ours_at_once_gets_ours_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    around(monkeypatch, "exchange", after={1: lambda: getattr(bench, way)(b"client's ")})
    changed = bench.change()
    assert bench.path.read_bytes() == b"client's " + OURS
    assert (changed.before, changed.after) == (b"client's ", b"client's " + OURS)
    assert bench.backups() == [b"client's "]
    bench.check_tidy()


def test_a_client_that_read_ours_and_wrote_at_once_changes_nothing_about_what_we_did(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(monkeypatch, "exchange", after={1: lambda: bench.rename(b"client's " + OURS)})
    changed = bench.change()
    assert bench.path.read_bytes() == b"client's " + OURS
    assert (changed.before, changed.after) == (OLD, OLD + OURS), "that is what we wrote, and what it replaced"
    assert changed.backup is not None and bench.ours.backup(bench.path, changed.backup) == OLD
    bench.check_tidy()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is writing")
@pytest.mark.parametrize("truncates", [True, False])
def test_a_client_that_has_begun_to_write_in_place_ends_in_the_file_that_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, truncates: bool
) -> None:
    def begin() -> None:
        file = bench.begin()
        if truncates:
            file.truncate(0)

    # It is open when the two change places, and written only after we have put it back.
    around(
        monkeypatch,
        "exchange",
        before={1: begin},
        after={2: lambda: bench.end(bench.open[0], b"client's ")},
    )
    bench.change()
    assert bench.path.read_bytes() == b"client's " + OURS
    assert bench.edited == [OLD, b"client's "]
    bench.check_tidy()


def test_a_client_that_writes_before_it_is_put_back_has_the_last_word(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(
        monkeypatch,
        "exchange",
        before={1: lambda: bench.rename(b"first "), 2: lambda: bench.rename(b"second ")},
    )
    bench.change()
    assert bench.path.read_bytes() == b"second " + OURS
    assert bench.edited == [OLD, b"second "]
    assert b"first " in bench.aside(), "what it wrote in between, and may not have seen again, is not lost"
    bench.check_tidy()


def test_a_client_that_writes_into_ours_before_its_own_is_put_back_has_the_last_word(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(
        monkeypatch,
        "exchange",
        before={1: lambda: bench.rename(b"first "), 2: lambda: bench.in_place(b"second ")},
    )
    bench.change()
    assert bench.path.read_bytes() == b"second " + OURS
    assert b"first " in bench.aside()
    bench.check_tidy()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is writing")
@pytest.mark.parametrize("writes", [True, False])
def test_a_client_that_has_opened_ours_when_its_own_is_put_back_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    def end(_seconds: float) -> None:
        """While we wait."""
        if writes and not bench.open[0].closed:
            bench.end(bench.open[0], b"second ")
        bench.open[0].close()

    around(
        monkeypatch,
        "exchange",
        before={1: lambda: bench.rename(b"first "), 2: bench.begin},
        after={2: lambda: monkeypatch.setattr(time, "sleep", end)},
    )
    bench.change()
    assert bench.path.read_bytes() == (b"second " if writes else b"first ") + OURS
    bench.check_tidy()


def test_a_client_that_has_written_again_when_its_own_came_out_is_not_put_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = around(
        monkeypatch,
        "exchange",
        before={1: lambda: bench.rename(b"first ")},
        after={1: lambda: bench.rename(b"second ")},
    )
    bench.change()
    assert bench.path.read_bytes() == b"second " + OURS
    assert len(exchanges) == 2 and b"first " in bench.aside()
    bench.check_tidy()


def test_a_client_that_never_rests_keeps_its_last_word_and_we_say_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PAUSE_S", 0.0)
    written: list[bytes] = []

    def write() -> None:
        written.append(b"%d " % len(written))
        bench.rename(written[-1])

    # Only with ours: what is put back is left alone.
    around(monkeypatch, "exchange", before=dict.fromkeys(range(1, 99, 2), write))
    with pytest.raises(UserError) as refused:
        bench.change()
    assert refused.value.code == "file_busy" and refused.value.hint
    assert len(bench.edited) == len(written) == MOST_ROUNDS
    assert bench.path.read_bytes() == written[-1]
    assert bench.backups() == []
    bench.check_tidy()


def test_versions_change_places_so_often_and_no_more(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_ROUNDS", 1)
    written: list[bytes] = []

    def write() -> None:
        written.append(b"%d " % len(written))
        bench.rename(written[-1])

    exchanges = around(monkeypatch, "exchange", before=dict.fromkeys(range(1, 99), write))
    with pytest.raises(UserError, match="again and again"):
        bench.change()
    assert len(exchanges) == 1 + replacing.MOST_EXCHANGES
    assert {bench.path.read_bytes(), *bench.aside()} >= set(written[-2:]), "its last two are both there"
    bench.check_tidy()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is writing")
def test_a_program_that_keeps_the_file_open_for_writing_is_waited_for_and_not_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "WRITING_S", 0.01)
    monkeypatch.setattr(files, "PAUSE_S", 0.0)
    file = bench.begin()
    with pytest.raises(UserError) as refused:
        bench.change()
    assert refused.value.code == "file_busy" and "open for writing" in refused.value.message
    assert (bench.edited, bench.path.read_bytes()) == ([], OLD)
    bench.end(file, b"client's ")
    assert bench.change().after == b"client's " + OURS


def test_what_is_read_in_the_middle_of_a_write_is_read_again(bench: Bench) -> None:
    bench.path.write_bytes(b"")

    def edit(data: bytes | None) -> bytes:
        if not data:
            bench.in_place(b"client's ")
            raise ValueError("half of it")
        return data + OURS

    assert bench.ours.change(bench.path, edit).after == b"client's " + OURS


def test_a_file_that_somebody_made_meanwhile_is_not_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.path.unlink()
    around(monkeypatch, "move_to_free_name", before={1: lambda: bench.rename(b"client's ")})
    changed = bench.change()
    assert bench.edited == [None, b"client's "]
    assert (changed.before, bench.path.read_bytes()) == (b"client's ", b"client's " + OURS)
    bench.check_tidy()


def test_a_file_that_somebody_removed_meanwhile_is_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(monkeypatch, "exchange", before={1: bench.path.unlink})
    changed = bench.change()
    assert (changed.before, changed.backup, bench.path.read_bytes()) == (None, None, OURS)
    assert bench.backups() == []
    bench.check_tidy()


@pytest.mark.parametrize("way", ["rename", "in_place"])
def test_a_file_that_its_client_wrote_meanwhile_is_not_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(files, "MOST_ROUNDS", 1)
    around(monkeypatch, "move_to_free_name", before={1: lambda: getattr(bench, way)(b"client's ")})
    with pytest.raises(UserError, match="again and again"):
        bench.ours.change(bench.path, lambda _: None)
    assert bench.path.read_bytes() == b"client's "
    bench.check_tidy()


def test_what_became_a_link_or_a_folder_meanwhile_is_put_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.home / "elsewhere.json").write_bytes(b"elsewhere ")

    def link() -> None:
        bench.path.unlink()
        bench.path.symlink_to("elsewhere.json")

    around(monkeypatch, "exchange", before={1: link})
    with pytest.raises(UserError) as refused:
        bench.change()
    assert refused.value.code == "not_a_file"
    assert bench.path.is_symlink()
    bench.check_tidy()
    assert bench.change().path == bench.home / "elsewhere.json", "and the next one follows it"


def test_what_a_client_wrote_is_put_back_even_if_our_own_disk_is_full(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk() -> None:
        def full(*_arguments: object, **_options: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(disk, "write_over", full)

    around(monkeypatch, "exchange", before={1: lambda: bench.rename(b"client's ")}, after={1: fill_disk})
    with pytest.raises(UserError) as refused:
        bench.change()
    assert refused.value.code == "disk_full"
    assert bench.path.read_bytes() == b"client's "
    bench.check_tidy()


def test_an_interrupted_change_is_put_right_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    around(monkeypatch, "exchange", before={1: lambda: bench.rename(b"client's ")}, after={1: interrupt})
    with pytest.raises(KeyboardInterrupt):
        bench.change()
    assert bench.path.read_bytes() == b"client's "
    assert bench.backups() == []
    bench.check_tidy()


@pytest.mark.parametrize("way", ["rename", "truncate", "overwrite"])
def test_no_update_of_a_client_that_rewrites_its_file_in_a_loop_is_lost(tmp_path: Path, way: str) -> None:
    path, ours = tmp_path / "mcp.json", Files(tmp_path / "state")
    path.write_bytes(b'{"client": []}')
    entries = [f"entry-{number}" for number in range(40)]

    def add(*names: str) -> Callable[[bytes | None], bytes]:
        def edit(data: bytes | None) -> bytes:
            document = json.loads(data or b"{}")
            return json.dumps({**document, **dict.fromkeys(names, True)}).encode()

        return edit

    command = [sys.executable, str(HERE / "rewriting_client.py"), str(path), way, "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None and client.stdout.readline() == "ready\n"
        busy = 0
        for name in entries:
            try:
                ours.change(path, add(name), keep=False)
            except UserError as error:
                assert error.code == "file_busy"
                busy += 1
        output, errors = client.communicate(timeout=60)
    assert (client.returncode, output, errors) == (0, "done\n", ""), errors
    assert json.loads(path.read_bytes())["client"] == list(range(100))
    assert busy < len(entries), "it rests now and then"
    # What it wrote over with what it had read before is made again, as whoever keeps the file would.
    ours.change(path, add(*entries))
    document = json.loads(path.read_bytes())
    assert (document.pop("client"), document) == (list(range(100)), dict.fromkeys(entries, True))
    assert {one.name for one in tmp_path.iterdir()} == {"mcp.json", "state"}


@pytest.mark.parametrize("states", [("state", "state"), ("one", "other")], ids=["one state", "two states"])
def test_two_who_change_the_same_file_lose_nothing(tmp_path: Path, states: tuple[str, str]) -> None:
    path = tmp_path / "mcp.json"
    editors = [
        subprocess.Popen(
            [sys.executable, HERE / "adding_editor.py", tmp_path / state, path, name, "20"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for state, name in zip(states, ("one", "other"), strict=True)
    ]
    for editor in editors:
        _, errors = editor.communicate(timeout=60)
        assert (editor.returncode, errors) == (0, "")
    expected = {f"{name}-{number}" for name in ("one", "other") for number in range(20)}
    assert set(json.loads(path.read_bytes())) == expected
    assert {one.name for one in tmp_path.iterdir()} == {"mcp.json", *states}


# Without what only some systems have


@pytest.fixture
def old_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanging, "_function", lambda: None)


def test_without_exchange_a_file_is_changed_made_and_removed(bench: Bench, old_system: None) -> None:
    inode = bench.path.stat().st_ino
    assert bench.change().after == OLD + OURS
    assert bench.path.stat().st_ino != inode
    bench.ours.change(bench.path, lambda _: None)
    assert not bench.path.exists()
    assert bench.change().before is None
    assert (bench.path.read_bytes(), bench.path.stat().st_nlink) == (OURS, 1)
    bench.check_tidy()


def test_without_exchange_a_client_is_looked_for_right_before(
    bench: Bench, old_system: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_temporary = replacing.Replacing._write_temporary

    def written_meanwhile(*arguments: object) -> None:
        write_temporary(*arguments)  # type: ignore[arg-type]
        if len(bench.edited) == 1:
            bench.rename(b"client's ")

    monkeypatch.setattr(replacing.Replacing, "_write_temporary", written_meanwhile)
    assert bench.change().after == b"client's " + OURS
    assert bench.backups() == [b"client's "]
    bench.check_tidy()


def test_where_nobody_tells_who_is_writing_what_came_out_is_looked_at_a_moment_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanging, "has_writer", lambda _descriptor: None)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            bench.end(bench.open[0], b"client's ")

    monkeypatch.setattr(time, "sleep", sleep)
    around(monkeypatch, "exchange", before={1: bench.begin})
    assert bench.change().after == b"client's " + OURS
    assert replacing.LOOK_AGAIN_S in slept
    bench.check_tidy()


# Killed


def die_everywhere(tmp_path: Path, scenario: str, *more: str) -> list[Path]:
    """What was left by each death, the last of them being none."""
    (tmp_path / "0" / "home").mkdir(parents=True)
    if scenario != "creation":
        (tmp_path / "0" / "home" / "mcp.json").write_bytes(OLD)
    done = subprocess.run(
        [sys.executable, HERE / "killed_editor.py", tmp_path, scenario, *more],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.strip().isdecimal(), (done.stdout, done.stderr)
    return [tmp_path / str(number) for number in range(1, int(done.stdout) + 1)]


SCENARIOS = ["plain", "creation", "removal", "rename", "in place", "again", "not replaced", "no exchange"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_death_between_any_two_steps_leaves_the_old_or_the_new(
    tmp_path: Path, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_deaths(die_everywhere(tmp_path, scenario), scenario, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_and_so_does_the_death_of_whoever_comes_after(
    tmp_path: Path, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_deaths(die_everywhere(tmp_path, scenario, "twice"), scenario, monkeypatch)


def check_deaths(deaths: list[Path], scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # of no use here, and slow
    old = b"" if scenario == "creation" else OLD
    client = b"client's "
    seen: list[bytes] = []
    leftovers = 0
    for left in deaths:
        path = left / "home" / "mcp.json"
        if scenario != "not replaced":
            at_once = path.read_bytes() if path.exists() else b""
            assert at_once in (b"", old, old + OURS, b"first ", client, client + OURS), "never a half"
        leftovers += len(list((left / "home").glob(".mooring-*")))
        ours = Files(left / "state")
        ours.recover()
        there = ours.read(path) or b""
        seen.append(there)
        if (left / "written").exists():
            assert there in (client, client + OURS), "what the client wrote is there"
        elif scenario == "removal":
            assert there in (old, b"")
        else:
            assert there in (old, old + OURS) or (scenario, there) == ("again", b"first ")
        assert not [one.name for one in (left / "home").iterdir() if one.name != "mcp.json"]
        assert not list((left / "state" / "exchanges").iterdir())
        # And it goes on from there.
        assert ours.change(path, lambda data: (data or b"") + b"next").after == there + b"next"
    new = b"" if scenario == "removal" else (client if (deaths[-1] / "written").exists() else old) + OURS
    assert len(seen) > 8
    assert (seen[0], seen[-2], seen[-1]) == (old, new, new), "death came before it and after it"
    assert leftovers or scenario == "not replaced", "and in the middle"


def test_a_death_leaves_no_backup_of_what_was_not_replaced(tmp_path: Path) -> None:
    for left in die_everywhere(tmp_path, "plain"):
        path = left / "home" / "mcp.json"
        ours = Files(left / "state")
        ours.recover()
        kept = Backups(left / "state" / "backups").numbers(path)
        if path.read_bytes() != OLD:
            assert [ours.backup(path, number) for number in kept] == [OLD]
        else:
            assert kept == []


def test_what_is_beside_the_file_without_a_note_is_kept_elsewhere(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of the system, notes may be lost that were not on the disk yet."""

    def crash(*_: object) -> None:
        for note in (bench.state / "exchanges").iterdir():
            note.unlink()
        raise KeyboardInterrupt

    around(monkeypatch, "exchange", before={1: lambda: bench.rename(b"client's ")})
    with monkeypatch.context() as broken:
        broken.setattr(replacing.Replacing, "_settle", crash)
        broken.setattr(replacing.Replacing, "_keep_unknown", crash)
        with pytest.raises(KeyboardInterrupt):
            bench.ours._change(bench.path, replacing_of(bench), bench.edit, True)
    assert len(list(bench.home.iterdir())) == 2
    bench.change()
    assert b"client's " in bench.aside()
    bench.check_tidy()


def replacing_of(bench: Bench) -> replacing.Replacing:
    note = bench.state / "exchanges" / f"{key_of(bench.path)}.note"
    return replacing.Replacing(bench.path, note, Backups(bench.state / "backups"))


@pytest.mark.parametrize("name", ["mcp.json", "a.note.new.json", "a.note", "a.new", "\udcff.json"])
def test_what_is_left_is_put_right_whatever_the_name_of_the_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bench.path = bench.path.rename(bench.home / name)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    around(monkeypatch, "exchange", before={1: lambda: bench.rename(b"client's ")})
    with monkeypatch.context() as broken:
        broken.setattr(replacing.Replacing, "_settle", fail)
        with pytest.raises(UserError) as refused:
            bench.change()
    assert refused.value.code == "file_unusable"
    assert bench.path.read_bytes() == OLD + OURS and len(list(bench.home.iterdir())) == 2
    Files(bench.state).recover()
    assert bench.path.read_bytes() == b"client's "
    bench.check_tidy()


def test_a_note_that_cannot_be_read_stops_nothing(bench: Bench) -> None:
    for name in ("odd.note", "other.note"):
        (bench.state / "exchanges" / name).write_bytes(b"\xc1 nonsense")
    assert bench.change().after == OLD + OURS
    bench.check_tidy()


def test_whoever_is_at_work_is_left_alone(bench: Bench) -> None:
    """Recovery of others finishes nothing that is still under way."""

    def edit(data: bytes | None) -> bytes:
        return bench.edit(data)

    def look_and_recover(data: bytes | None) -> bytes:
        Files(bench.state).recover()
        Files(bench.state).change(bench.home / "other.json", edit)
        return bench.edit(data)

    assert bench.ours.change(bench.path, look_and_recover).after == OLD + OURS
    bench.check_tidy()


# Disks and rights


def in_child(*words: object, prefix: tuple[str, ...] = (), prepare: Callable[[], None] | None = None) -> str:
    """Add OURS to a file in another process; returns what it said."""
    command = [*prefix, sys.executable, str(HERE / "one_change.py"), *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, preexec_fn=prepare, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_file_that_finds_no_room_leaves_the_old_one(bench: Bench) -> None:
    def little_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    assert in_child(bench.state, bench.path, 1000, prepare=little_room) == "disk_full"
    assert bench.path.read_bytes() == OLD
    missing = bench.home / "folder" / "missing.json"
    assert in_child(bench.state, missing, 1000, prepare=little_room) == "disk_full"
    assert not missing.parent.exists(), "nor does it leave folders"
    assert bench.backups() == []
    bench.check_tidy()
    assert in_child(bench.state, bench.path, 10, prepare=little_room) == "00000001"


def can_mount() -> bool:
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=10, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="only root may mount")
def test_a_full_disk_leaves_the_old_file(bench: Bench) -> None:
    small = bench.home / "small"
    small.mkdir()
    script = (
        'small=$1; shift; mount -t tmpfs -o size=64k tmpfs "$small" && printf "old " > "$small/mcp.json"'
        ' && "$@" && cat "$small/mcp.json" && ls -A "$small"'
    )
    prefix = ("unshare", "-m", "sh", "-c", script, "sh", str(small))
    told = in_child(bench.state, small / "mcp.json", 20_000, prefix=prefix)
    assert told.split() == ["disk_full", "old", "mcp.json"]
    bench.check_tidy()


@pytest.mark.skipif(not can_mount(), reason="only root may mount")
def test_a_file_that_is_a_mount_of_its_own_is_written_in_place(bench: Bench) -> None:
    mounted = bench.home / "mounted.json"
    mounted.write_bytes(b"below")
    script = 'mount --bind "$1" "$2" && shift 2 && "$@"'
    prefix = ("unshare", "-m", "sh", "-c", script, "sh", str(bench.path), str(mounted))
    inode = bench.path.stat().st_ino
    assert in_child(bench.state, mounted, 1, prefix=prefix) == "00000001"
    assert (bench.path.read_bytes(), bench.path.stat().st_ino) == (OLD + OURS, inode)
    assert bench.ours.backup(mounted, "00000001") == OLD
    bench.check_tidy()


def without_privileges() -> None:
    """Root obeys the modes of files like anybody else: it may not override them any more."""
    if os.geteuid() == 0:
        library = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
            assert library.prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP: from the next program on


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities")
def test_a_file_in_a_folder_that_we_may_not_write_is_written_in_place(bench: Bench) -> None:
    inode = bench.path.stat().st_ino
    bench.path.chmod(0o640)
    bench.home.chmod(0o555)
    try:
        assert in_child(bench.state, bench.path, 3, prepare=without_privileges) == "00000001"
        missing = bench.home / "missing.json"
        assert in_child(bench.state, missing, 1, prepare=without_privileges) == "no_permission"
    finally:
        bench.home.chmod(0o755)
    status = bench.path.stat()
    assert (bench.path.read_bytes(), status.st_ino, status.st_mode & 0o777) == (OLD + OURS * 3, inode, 0o640)
    assert bench.backups() == [OLD]
    bench.check_tidy()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_file_of_somebody_else_stays_theirs() -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o777)
        path = home / "mcp.json"
        path.write_bytes(OLD)
        path.chmod(0o666)
        inode = path.stat().st_ino
        assert in_child(home / "state", path, 1, 65534) == "00000001"
        assert path.read_bytes() == OLD + OURS
        assert (path.stat().st_ino, path.stat().st_uid) == (inode, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities")
def test_a_file_written_in_place_that_finds_no_room_is_as_it_was(bench: Bench) -> None:
    def little_room() -> None:
        without_privileges()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))

    old = OLD * 3000
    bench.path.write_bytes(old)
    bench.home.chmod(0o555)
    try:
        # The note takes both versions; so it is the note that finds no room first.
        assert in_child(bench.state, bench.path, 2000, prepare=little_room) == "disk_full"
    finally:
        bench.home.chmod(0o755)
    assert bench.path.read_bytes() == old
    assert bench.backups() == []
    bench.check_tidy()


def test_a_write_in_place_that_fails_half_way_is_undone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "_may_replace", lambda _path, _status: False)
    overwrite, times = replacing._overwrite, []

    def fails_once(descriptor: int, data: bytes) -> None:
        times.append(data)
        overwrite(descriptor, data[:6] if len(times) == 1 else data)
        if len(times) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(replacing, "_overwrite", fails_once)
    with pytest.raises(UserError) as refused:
        bench.change()
    assert refused.value.code == "disk_full"
    assert (bench.path.read_bytes(), bench.backups()) == (OLD, [])
    bench.check_tidy()


@pytest.mark.parametrize("client", [None, b"client's "])
def test_half_of_a_write_in_place_is_finished_but_for_what_a_client_wrote(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, client: bytes | None
) -> None:
    monkeypatch.setattr(replacing, "_may_replace", lambda _path, _status: False)
    bench.path.write_bytes(OLD * 3)
    overwrite, times = replacing._overwrite, []

    def is_killed_once(descriptor: int, data: bytes) -> None:
        times.append(data)
        if len(times) > 1:
            overwrite(descriptor, data)
            return
        with bench.path.open("r+b") as file:
            file.write(client or data[:-2])
        raise KeyboardInterrupt

    monkeypatch.setattr(replacing, "_overwrite", is_killed_once)
    with pytest.raises(KeyboardInterrupt):
        bench.change()
    assert bench.path.read_bytes() == (
        OLD * 3 + OURS if client is None else client + (OLD * 3)[len(client) :]
    )
    assert bench.backups() == [OLD * 3]
    bench.check_tidy()


@pytest.mark.parametrize("what", ["link", "another file", "pipe", "nothing"])
def test_a_write_in_place_never_reaches_what_was_put_there_since(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(replacing, "_may_replace", lambda _path, _status: False)
    victim = bench.home / "victim"
    victim.write_bytes(OLD)
    opened = replacing._opened

    def swapped(path: Path, seen: looking.Seen) -> AbstractContextManager[int | None]:
        if what == "another file":
            bench.rename(OLD)
            return opened(path, seen)
        path.unlink()
        if what == "link":
            path.symlink_to(victim)
        elif what == "pipe":
            os.mkfifo(path)
        return opened(path, seen)

    monkeypatch.setattr(replacing, "_opened", swapped)
    if what == "nothing":
        assert bench.change().before is None, "made anew"
    else:
        with pytest.raises(UserError) as refused:
            bench.change()
        assert refused.value.code == ("file_busy" if what == "another file" else "not_a_file")
        assert what != "another file" or bench.path.read_bytes() == OLD
    assert victim.read_bytes() == OLD


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_nothing_is_written_in_place_in_a_folder_of_somebody_else() -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o777)
        theirs = home / "theirs"
        theirs.mkdir()
        path = theirs / "mcp.json"
        path.write_bytes(OLD)
        path.chmod(0o666)
        os.chown(theirs, 4002, 4002)
        assert in_child(home / "state", path, 1, 65534) == "folder_of_others"
        assert path.read_bytes() == OLD


def test_the_mode_is_given_to_the_new_file_and_to_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.path.chmod(0o644)
    victim = bench.home / "victim"
    victim.write_bytes(OLD)
    victim.chmod(0o600)
    own = disk._own

    def swapped(descriptor: int, like: os.stat_result) -> None:
        [temporary] = bench.home.glob(".mooring-*")
        temporary.unlink()
        temporary.symlink_to(victim)
        own(descriptor, like)

    monkeypatch.setattr(disk, "_own", swapped)
    with contextlib.suppress(UserError):
        bench.change()
    assert victim.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_we_may_not_read_is_refused(bench: Bench, what: str) -> None:
    subject = bench.path if what == "file" else bench.home
    bits = subject.stat().st_mode & 0o777
    subject.chmod(0o200 if what == "file" else 0o600)
    try:
        told = in_child(bench.state, bench.path, 1, prepare=without_privileges)
    finally:
        subject.chmod(bits)
    assert told == "no_permission"
    assert bench.path.read_bytes() == OLD
    bench.check_tidy()


def test_half_of_ours_is_told_from_a_version_of_somebody_else() -> None:
    before, after = b"abcdefgh", b"abXYZ"
    ours = [after[:at] + before[at:] for at in range(len(after) + 1)]
    assert all(replacing._is_between(data, before, after) for data in ours)
    assert not any(
        replacing._is_between(data, before, after) for data in (b"", b"abXdefg", b"client's", b"abcdefgh ")
    )
    assert looking.fingerprint(before) != looking.fingerprint(after)
