"""Whatever commands, the daemon and others do with a client's file, one after the other: what is not ours is
never touched, and what is ours is exactly where the ledger says."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.clients.bookkeeping import Books
from mooring.clients.drafts import state_of
from mooring.clients.outcomes import Change
from mooring.clients.records import ABSENT
from tests.client_home import CLIENTS, ClientHome, target

NAMES = ("notes", "other")
"""Few: what meets under the same name is what is of interest."""
PORTS = (4737, 5000)
ANY_NAME = st.sampled_from(NAMES)
SOME_NAMES = st.lists(ANY_NAME, min_size=1, max_size=2, unique=True)
ANY_PORT = st.sampled_from(PORTS)


class ClientFile(RuleBasedStateMachine):
    """One file. `theirs`: what stands there that is not ours, as somebody else left it."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp())
        self._without_syncing = mock.patch.object(os, "fsync")
        self._without_syncing.start()
        self.home = ClientHome.at(self._folder)
        self.client = ""
        self.theirs: dict[str, Any] = {}
        self.number = 0

    def teardown(self) -> None:
        self._without_syncing.stop()
        shutil.rmtree(self._folder)

    @initialize(client=st.sampled_from(CLIENTS), has_file=st.booleans(), names=SOME_NAMES)
    def begin(self, client: str, has_file: bool, names: list[str]) -> None:
        self.client = client
        if has_file:
            self.home.write(client)
            self.theirs = dict(self.home.entries(client))
        self.home.registry().add(self._site(), [target(name) for name in names])

    # What Mooring does

    @rule(names=SOME_NAMES, port=ANY_PORT, dry_run=st.booleans())
    def add(self, names: list[str], port: int, dry_run: bool) -> None:
        before = self._bytes()
        outcomes = self.home.registry().add(
            self._site(), [target(name, port) for name in names], dry_run=dry_run
        )
        for outcome in outcomes:
            assert (outcome.change is Change.REFUSED) == (outcome.server in self.theirs), outcome
            assert not outcome.difference or outcome.change not in (Change.REFUSED, Change.UNCHANGED)
        if dry_run:
            assert self._bytes() == before
        else:
            assert all(self._states()[name] == "in" for name in names if name not in self.theirs)

    @rule(names=st.none() | SOME_NAMES)
    def remove(self, names: list[str] | None) -> None:
        for outcome in self.home.registry().remove(self._site(), names):
            assert (outcome.change is Change.REFUSED) == (outcome.server in self.theirs), outcome
        gone = [name for name in names or NAMES if name not in self.theirs]
        assert not set(gone) & self._states().keys()

    @rule(name=ANY_NAME)
    def take_out(self, name: str) -> None:
        was_in = self._states().get(name) == "in"
        self.home.registry().take_out(name, "it failed")
        if was_in:
            assert self._states()[name] == "out"
            assert name not in self.home.entries(self.client)

    @rule(name=ANY_NAME, port=ANY_PORT)
    def put_back(self, name: str, port: int) -> None:
        was_out = self._states().get(name) == "out"
        self.home.registry().put_back(target(name, port))
        if was_out:
            assert self._states()[name] == "in"

    @rule(name=ANY_NAME, port=ANY_PORT, is_written=st.booleans())
    def refresh(self, name: str, port: int, is_written: bool) -> None:
        """Out and back, and maybe somebody has something of their own there meanwhile."""
        self.take_out(name)
        if is_written:
            self.somebody_writes(name)
        self.put_back(name, port)

    @rule(name=ANY_NAME, port=ANY_PORT)
    def renew(self, name: str, port: int) -> None:
        before = self._states()
        self.home.registry().renew(target(name, port))
        assert self._states() == before

    @rule(name=ANY_NAME)
    def forget(self, name: str) -> None:
        self.home.registry().forget(name)
        assert name not in self._states()

    @rule(servers=st.lists(ANY_NAME, unique=True), port=ANY_PORT)
    def sync(self, servers: list[str], port: int) -> None:
        self.home.registry().sync({name: target(name, port) for name in servers})
        assert "missing" not in self._states().values()
        assert self._states().keys() <= set(servers)

    @rule()
    def undo(self) -> None:
        self.home.registry().undo()

    @rule(names=SOME_NAMES, port=ANY_PORT)
    def add_and_undo(self, names: list[str], port: int) -> None:
        before, states, data = self._bytes(), self._states(), self.home.entries(self.client)
        outcomes = self.home.registry().add(self._site(), [target(name, port) for name in names])
        if self._bytes() != before:
            self.home.registry().undo(self.client)
            assert self._bytes() == before
            touched = {outcome.server for outcome in outcomes if outcome.change is not Change.REFUSED}
            assert {name: state for name, state in self._states().items() if name in touched} == {
                name: state for name, state in states.items() if name in touched
            }
            assert self.home.entries(self.client) == data

    # What others do

    @rule(name=ANY_NAME)
    def somebody_writes(self, name: str) -> None:
        """An entry of their own, or ours changed."""
        self.number += 1
        entry = {"command": "npx", "args": [str(self.number)]}
        self._write(
            self._site().client.editor.put(self._bytes() or b"", self._site().client.section, name, entry)
        )
        self.theirs[name] = self.home.entries(self.client)[name]

    @rule(name=ANY_NAME)
    def somebody_adds_to_an_entry(self, name: str) -> None:
        self.number += 1
        if (there := self.home.entries(self.client).get(name)) is not None:
            entry = {**there, "x-mine": self.number}
            section = self._site().client.section
            self._write(self._site().client.editor.put(self._bytes() or b"", section, name, entry))
            if name in self.theirs:
                self.theirs[name] = self.home.entries(self.client)[name]

    @rule(name=ANY_NAME)
    def somebody_removes(self, name: str) -> None:
        if (data := self._bytes()) is not None:
            self._write(self._site().client.editor.remove(data, self._site().client.section, name))
            self.theirs.pop(name, None)

    @rule()
    def somebody_touches(self) -> None:
        if (data := self._bytes()) is not None:
            self._write(data + b"\n")

    @precondition(lambda self: not self.theirs)
    @rule()
    def somebody_deletes_the_file(self) -> None:
        self._site().path.unlink(missing_ok=True)

    # What must be so

    @invariant()
    def what_is_theirs_is_as_they_left_it(self) -> None:
        if self.client:
            there = self.home.entries(self.client)
            assert {name: there.get(name) for name in self.theirs} == self.theirs

    @invariant()
    def what_is_ours_is_where_the_ledger_says(self) -> None:
        if self.client:
            states = self._states()
            assert all(states.get(name, "changed") == "changed" for name in self.theirs)
            there = set(self.home.entries(self.client)) - self.theirs.keys()
            assert there <= {name for name, state in states.items() if state == "in"}

    def _site(self) -> Any:
        return self.home.site(self.client)

    def _bytes(self) -> bytes | None:
        path = self._site().path
        return path.read_bytes() if path.exists() else None

    def _write(self, data: bytes) -> None:
        path = self._site().path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _states(self) -> dict[str, str]:
        there = self.home.entries(self.client)
        return {
            owned.server: state_of(owned, there.get(owned.name, ABSENT))
            for record in Books(self.home.state).peek().files.values()
            for owned in record.entries
        }


TestClientFile = ClientFile.TestCase
TestClientFile.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
