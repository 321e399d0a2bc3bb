"""kill -9 at every step of a change of clients' files, and many who change them at once: nothing is lost."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mooring.clients.bookkeeping import Books
from mooring.clients.detecting import Site
from mooring.clients.drafts import entries_in, state_of
from mooring.clients.editing.edits import Value
from mooring.clients.records import ABSENT
from mooring.clients.standings import sites_of
from tests.client_home import ClientHome
from tests.faults.busy_registry import CLIENTS
from tests.faults.killed_registry import OPERATIONS

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


class Case(NamedTuple):
    """What was there before, which operation is killed, and what is there when it is done again."""

    operation: str
    before: tuple[str, ...]
    states: dict[str, str]
    others: tuple[str, ...] = ("other",)
    has_file: bool = True


IN_BOTH = {"notes": "in", "mail": "in"}
CASES = {
    "added": Case("add", (), IN_BOTH),
    "added where there is no file": Case("add", (), IN_BOTH, others=(), has_file=False),
    "overwritten": Case("force", (), {"other": "in"}, others=()),
    "removed": Case("remove", ("add",), {}),
    "removed with its file": Case("remove", ("add",), {}, others=(), has_file=False),
    "imported": Case("replace", (), {"web": "in"}, others=()),
    "taken out": Case("take_out", ("add",), {"notes": "out", "mail": "in"}),
    "put back": Case("put_back", ("add", "take_out"), IN_BOTH),
    "renewed": Case("renew", ("add",), IN_BOTH),
    "forgotten": Case("forget", ("add",), {"mail": "in"}),
    "undone": Case("undo", ("add",), {}),
    "undone, removing the file": Case("undo", ("add",), {}, others=(), has_file=False),
    "undone, bringing entries back": Case("undo", ("add", "remove"), IN_BOTH),
}


def each_killed(folder: Path, operation: str, client: str) -> Iterator[int]:
    """What one left who was killed at each step is in `folder` until the next is asked for."""
    command = [sys.executable, "-m", "tests.faults.killed_registry", str(folder), operation, client]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as helper:
        assert helper.stdin and helper.stdout
        while (line := helper.stdout.readline().strip()).isdecimal():
            yield int(line)
            helper.stdin.write("\n")
    assert line == "done"


@pytest.fixture(autouse=True)
def without_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 does not need it, and it takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def entries_of_ours(home: ClientHome) -> dict[str, str]:
    """How they stand: what the ledger says, compared with the file."""
    books = Books(home.state)
    return {
        owned.server: state_of(owned, _there(books, site).get(owned.name, ABSENT))
        for record in books.peek().files.values()
        for site, owners in sites_of(record)
        for owned in owners
    }


def _there(books: Books, site: Site) -> dict[str, Value]:
    return entries_in(site.client.editor.read(books.files.read(site.path) or b""), site.client.section)


@pytest.mark.parametrize(
    ("name", "client"),
    [
        *((name, "cursor") for name in CASES),
        *((name, client) for name in ("added", "taken out", "put back") for client in ("codex", "continue")),
    ],
)
def test_who_is_killed_at_any_step_loses_nothing_and_doubles_nothing(
    tmp_path: Path, name: str, client: str
) -> None:
    case = CASES[name]
    home = ClientHome.at(tmp_path / "work")
    if case.has_file:
        home.write(client)
    for operation in case.before:
        OPERATIONS[operation](home, client)
    before = entries_of_ours(home)

    number = 0
    for number in each_killed(tmp_path / "work", case.operation, client):
        look_at(home, case, client, before, number)

    assert number >= 5
    assert entries_of_ours(home) == case.states


def look_at(home: ClientHome, case: Case, client: str, before: dict[str, str], number: int) -> None:
    # The file is whole, whoever looks first, and what is known of it is so.
    found = entries_of_ours(home)
    assert found in (before, case.states), number
    check_ledger_against_file(home, client, found, case)

    if found == before:
        OPERATIONS[case.operation](home, client)
    else:
        home.registry().read_to(1)  # whatever is done next settles it

    assert entries_of_ours(home) == case.states, number
    check_ledger_against_file(home, client, case.states, case)
    assert "intent" not in (home.state / "ledger.json").read_text()
    assert not list(home.site(client).path.parent.glob(".mooring-*")), number
    assert home.registry().drifted() == []


def check_ledger_against_file(home: ClientHome, client: str, states: dict[str, str], case: Case) -> None:
    there = home.entries(client)
    ours = [server for server, state in states.items() if state == "in"]
    assert [name for name in there if name in {"notes", "mail", "web"}] == [
        name for name in there if name in ours and name != "other"
    ]
    assert set(ours) <= set(there)
    assert set(case.others) <= set(there)
    path = home.site(client).path
    if path.exists():
        text = path.read_text()
        for name in there:
            key = {
                "cursor": rf'"{name}": *{{',
                "codex": rf"\[mcp_servers\.{name}\]",
                "continue": f"name: {name}\n",
            }
            assert len(re.findall(key[client], text)) == 1, (name, text)


def test_many_who_change_the_same_files_at_once_do_not_get_into_each_others_way(tmp_path: Path) -> None:
    home = ClientHome.at(tmp_path)
    for client in CLIENTS:
        home.write(client)
    names = ["one", "two", "three"]

    busy = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.busy_registry", str(tmp_path), name, "6"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in names
    ]
    said = [process.communicate(timeout=PATIENCE_S)[0] for process in busy]

    assert said == ["", "", ""]
    for client in CLIENTS:
        assert sorted(home.entries(client)) == sorted(["other", *names])
    assert home.states() == {(client, name): "in" for client in CLIENTS for name in names}
    assert "intent" not in (home.state / "ledger.json").read_text()


def traces(home: ClientHome) -> int:
    """Of the one who is killed, in the ledger: other than before once it has done something."""
    ledger = home.state / "ledger.json"
    return ledger.read_text().count('"killed') if ledger.exists() else 0


def test_one_who_is_killed_while_others_wait_holds_nobody_up(tmp_path: Path) -> None:
    """Again and again, whatever it was doing then."""
    home = ClientHome.at(tmp_path)
    for client in CLIENTS:
        home.write(client)
    command = [sys.executable, "-m", "tests.faults.busy_registry", str(tmp_path)]

    killed = subprocess.Popen([*command, "killed", "1000"], cwd=ROOT, stdout=subprocess.DEVNULL)
    steady = subprocess.Popen([*command, "steady", "6"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(4):
            before, give_up_at = traces(home), time.monotonic() + PATIENCE_S
            while traces(home) == before:
                assert time.monotonic() < give_up_at
                time.sleep(0.005)
            killed.kill()
            killed.wait(PATIENCE_S)
            killed = subprocess.Popen([*command, "killed", "1000"], cwd=ROOT, stdout=subprocess.DEVNULL)
        said = steady.communicate(timeout=PATIENCE_S)[0]
    finally:
        for process in (killed, steady):
            process.kill()
            process.wait(PATIENCE_S)

    assert said == ""
    home.registry().read_to(1)
    assert set(home.states().values()) <= {"in", "out"}
    assert "intent" not in (home.state / "ledger.json").read_text()
    for client in CLIENTS:
        assert {"other", "steady"} <= set(home.entries(client))
