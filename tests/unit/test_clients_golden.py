"""Every client's file before an entry, with it, and without it again; see `tests.clients_golden`."""

from pathlib import Path

import pytest

from mooring.clients.detecting import candidates, user_site
from mooring.clients.entries import entry_for, is_as_wanted, snippet
from mooring.clients.machine import Machine, Platform
from mooring.clients.table import load_table
from mooring.clients.understanding import servers_in
from tests.clients_golden import FOLDER, HOMES, PATHS, TARGET, Golden, all_paths, goldens

ALL = goldens()
WITH_BEFORE = [golden for golden in ALL if golden.file("before")]
WRITE = "python -m tests.clients_golden --write, then read what it made"


def name_of(golden: Golden) -> str:
    return golden.client.id


def test_every_client_of_high_confidence_has_a_file_as_people_have_it() -> None:
    sure = {client.id for client in load_table().values() if client.confidence == "high"}
    assert len(sure) >= 25
    assert sure <= {golden.client.id for golden in WITH_BEFORE}


def test_there_is_a_folder_for_every_client_and_for_nothing_else() -> None:
    assert {folder.name for folder in FOLDER.iterdir() if folder.is_dir()} == set(load_table())


@pytest.mark.parametrize("golden", ALL, ids=name_of)
def test_files_are_as_they_were_read_by_someone(golden: Golden) -> None:
    kept = {stem: file for stem in ("new", "after", "removed") if (file := golden.file(stem))}
    assert {stem: file.read_bytes() for stem, file in kept.items()} == golden.made(), WRITE


@pytest.mark.parametrize("golden", WITH_BEFORE, ids=name_of)
def test_an_entry_comes_and_goes_and_leaves_nothing(golden: Golden) -> None:
    # The one exception: a section that was not there stays, empty.
    before, after, removed = golden.file("before"), golden.file("after"), golden.file("removed")
    assert before and after
    editor, section = golden.client.editor, golden.client.section
    without = editor.remove(after.read_bytes(), section, TARGET.name)
    if removed is None:
        assert without == before.read_bytes()
    else:
        value = editor.read(before.read_bytes())
        assert servers_in(golden.client, value) == []
        assert without == removed.read_bytes()


@pytest.mark.parametrize("golden", ALL, ids=name_of)
def test_a_blank_file_is_like_none(golden: Golden) -> None:
    editor, entry = golden.client.editor, entry_for(golden.client, TARGET)
    new = golden.file("new")
    assert new
    blank = editor.put(b" \n", golden.client.section, TARGET.name, entry)
    assert editor.read(blank) == editor.read(new.read_bytes())
    assert snippet(golden.client, TARGET.name, entry) == new.read_text()


@pytest.mark.parametrize("golden", ALL, ids=name_of)
def test_what_was_written_is_understood_and_as_wanted(golden: Golden) -> None:
    client, file = golden.client, golden.file("after") or golden.file("new")
    assert file
    [found] = [
        found for found in servers_in(client, client.editor.read(file.read_bytes())) if is_ours(found.name)
    ]
    assert not (found.trouble or found.is_disabled or found.is_sse)
    assert (found.url == TARGET.url) if client.http else (found.argv == TARGET.argv)
    assert is_as_wanted(client, found.entry, entry_for(client, TARGET))


def is_ours(name: str) -> bool:
    return name == TARGET.name


@pytest.mark.parametrize("golden", WITH_BEFORE, ids=name_of)
def test_what_else_is_in_a_file_is_understood(golden: Golden) -> None:
    before = golden.file("before")
    assert before
    found = servers_in(golden.client, golden.client.editor.read(before.read_bytes()))
    parts = {one.name for one in found if one.trouble}
    assert parts == ({"developer"} if golden.client.id == "goose" else set())


def test_paths_are_as_they_were_read_by_someone() -> None:
    assert PATHS.read_text() == all_paths(), WRITE


@pytest.mark.parametrize("golden", ALL, ids=name_of)
def test_the_file_that_counts_is_the_one_that_is_there(golden: Golden, tmp_path: Path) -> None:
    client = golden.client
    machine = Machine(Platform.LINUX, tmp_path, {})
    expected = [
        tmp_path / Path(line.split(" ", 2)[2]).relative_to(HOMES[Platform.LINUX])
        for line in PATHS.read_text().splitlines()
        if line.startswith(f"{client.id} linux /")
    ]
    assert candidates(client, machine) == expected
    for path in expected:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        site = user_site(client, machine)
        assert site and site.path == path
        path.unlink()
