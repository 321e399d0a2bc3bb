"""The use-cases: servers in and out of clients' files, by commands and by the daemon.

One client's trouble is an outcome of that client, never an exception, and never stops the others. What raises
(UserError) is the ledger itself: held by somebody for too long (`ledger_busy`), full, or not to be written.
"""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from mooring.clients import decisions
from mooring.clients.bookkeeping import Books, Verdict, key_of
from mooring.clients.changes import Changes
from mooring.clients.client import Client
from mooring.clients.detecting import (
    Site,
    is_installed,
    old_sites,
    project_site,
    user_site,
    why_no_site,
)
from mooring.clients.drafts import Draft
from mooring.clients.editing.edits import Value
from mooring.clients.entries import Target, entry_for, is_as_wanted
from mooring.clients.machine import Machine
from mooring.clients.outcomes import Change, Drift, Outcome, Standing
from mooring.clients.records import ABSENT, Owned, There
from mooring.clients.returning import Returning
from mooring.clients.standings import Lookout, sites_of, standings
from mooring.clients.table import load_table
from mooring.errors import UserError

__all__ = ["Registry"]


class Registry:
    """Of one user on one machine; `state` is `<state dir>/clients`. Of many at once, one acts at a time."""

    def __init__(self, state: Path, machine: Machine) -> None:
        self._machine = machine
        self._books = Books(state)
        self._changes = Changes(self._books)
        self._returning = Returning(self._books, self._changes)
        self._lookout = Lookout(self._books)

    def site(self, client_id: str, project: Path | None = None) -> Site:
        """The file of that client that counts. UserError: no such client, or it cannot be here."""
        client = load_table().get(client_id)
        if client is None:
            near = difflib.get_close_matches(client_id, load_table(), n=3)
            raise UserError(
                f"no client is called {client_id!r}",
                code="unknown_client",
                hint=f"perhaps {' or '.join(near)}?"
                if near
                else "all that are known: mooring client ls --all",
            )
        if project is not None:
            site = project_site(client, Path(key_of(project)))
            if site is None:
                raise UserError(
                    f"{client.name} reads no file in projects",
                    code="no_project_file",
                    hint="leave out --project",
                )
            return site
        site = user_site(client, self._machine)
        if site is None:
            raise UserError(why_no_site(client, self._machine), code="no_client_file")
        return site

    def installed(self) -> list[Site]:
        """Of every client that is here, by stat alone."""
        here = (client for client in load_table().values() if is_installed(client, self._machine))
        sites = (user_site(client, self._machine) for client in here)
        return [site for site in sites if site is not None]

    # Commands

    def add(
        self,
        site: Site,
        targets: Sequence[Target],
        *,
        force: bool = False,
        dry_run: bool = False,
        follows_all: bool = False,
    ) -> list[Outcome]:
        """One outcome for each target; all of them are one change of the file."""

        def decide(draft: Draft) -> list[Verdict]:
            verdicts = decisions.each(
                draft, targets, _name, lambda one: decisions.add(draft, one, site.project, force=force)
            )
            refused = [one for one in verdicts if one.change is Change.REFUSED]
            draft.is_refused = bool(verdicts) and len(refused) == len(verdicts)
            return verdicts

        wanted = {target.name: target for target in targets}
        follow = True if follows_all else None
        return self._changes.at(
            site, list(wanted), decide, wanted=wanted, dry_run=dry_run, follow=follow, force=force
        )

    def remove(
        self, site: Site, names: Sequence[str] | None, *, force: bool = False, dry_run: bool = False
    ) -> list[Outcome]:
        """Out of the file, and out of old files of that client. None: all that is ours."""
        record = self._books.peek().record(key_of(site.path))
        mine = [one for one in record.entries if one.client == site.client.id]
        wanted = list(dict.fromkeys(names)) if names is not None else [one.server for one in mine]

        def decide(draft: Draft) -> list[Verdict]:
            every = wanted if names is not None else _servers(draft)
            verdicts = decisions.each(
                draft, every, str, lambda one: decisions.remove(draft, one, site.project, force=force)
            )
            decisions.drop_file_of_ours(draft)
            return verdicts

        follow = False if names is None else None
        outcomes = self._changes.at(site, wanted, decide, is_removal=True, dry_run=dry_run, follow=follow)
        written = {one.name: one for one in mine}
        for old in self._old_sites(site):
            outcomes += self._remove_old(old, names, written, force=force, dry_run=dry_run)
        return outcomes

    def _old_sites(self, site: Site) -> list[Site]:
        """Files that the client may have used before, by the table or by the ledger."""
        if site.project is not None:
            return []
        written = (one for record in self._books.peek().files.values() for one, _ in sites_of(record))
        mine = (one for one in written if one.client.id == site.client.id and one.project is None)
        old = {key_of(one.path): one for one in (*old_sites(site.client, self._machine), *mine)}
        old.pop(key_of(site.path), None)
        return list(old.values())

    def _remove_old(
        self,
        site: Site,
        names: Sequence[str] | None,
        written: Mapping[str, Owned],
        *,
        force: bool,
        dry_run: bool,
    ) -> list[Outcome]:
        """What is ours in a file that the client used before: by the ledger, or the same as in the new."""
        record = self._books.peek().record(key_of(site.path))
        ours = {one.name for one in record.entries if one.client == site.client.id}

        def is_copied(name: str, there: There) -> bool:
            if there is ABSENT or name not in written:
                return False
            return is_as_wanted(site.client, there, written[name].wrote)

        copied = {name for name, there in self._there(site).items() if is_copied(name, there)}
        wanted = [name for name in sorted(ours | copied) if names is None or name in names]
        if not wanted:
            return []

        def decide(draft: Draft) -> list[Verdict]:
            return decisions.each(draft, wanted, str, lambda name: one(draft, name))

        def one(draft: Draft, name: str) -> Verdict:
            is_copy = draft.mine(name) is None and is_copied(name, draft.there(name))
            return decisions.remove(draft, name, None, force=force or is_copy)

        return self._changes.at(site, wanted, decide, is_removal=True, dry_run=dry_run)

    def replace(
        self,
        site: Site,
        targets: Sequence[tuple[str, Target]],
        *,
        planned: Mapping[str, Value] | None = None,
        dry_run: bool = False,
    ) -> list[Outcome]:
        """The entry of each old name becomes ours, under the name of its target, as a whole.

        `planned`: by old name, how entries stood when that was decided: one that does not any more is left.
        """
        as_planned: Mapping[str, There] = planned or {}

        def decide(draft: Draft) -> list[Verdict]:
            return decisions.each(
                draft,
                targets,
                lambda pair: pair[1].name,
                lambda pair: decisions.replace(
                    draft, pair[0], pair[1], site.project, planned=as_planned.get(pair[0], ABSENT)
                ),
            )

        wanted = {target.name: target for _, target in targets}
        return self._changes.at(site, list(wanted), decide, wanted=wanted, dry_run=dry_run)

    def undo(self, client_id: str | None = None) -> list[Outcome]:
        """What the last command changed (of that client); the next call goes one command further back."""
        return self._returning.undo(client_id)

    def files(self) -> list[Path]:
        """Those that `leave` may change."""
        return self._returning.files()

    def leave(self) -> list[Outcome]:
        """Every file as it was before Mooring, as far as that is known: for who wants no trace to be left."""
        return self._returning.leave()

    def sync(self, targets: Mapping[str, Target], known: Collection[str] | None = None) -> list[Outcome]:
        """Put right what drifted; targets are all servers that there are, by name.

        `known`: whose entries there were before that was asked; another one may have come since.
        """
        gone = set(self.servers() if known is None else known) - targets.keys()

        def decide_one(draft: Draft, owned: Owned) -> Verdict:
            if owned.server in gone:
                return decisions.forget(draft, owned)
            project = Path(owned.project) if owned.project else None
            return decisions.add(draft, targets[owned.server], project)

        outcomes = self._changes.of_entries(
            lambda owned: owned.server in gone or (owned.server in targets and owned.state == "in"),
            decide_one,
            wanted=targets,
            is_command=True,
        )
        for site in self.installed():
            outcomes += self._recognise(site, targets)
        return outcomes

    def _recognise(self, site: Site, targets: Mapping[str, Target]) -> list[Outcome]:
        """Entries that stand as we would write them, and of which nothing is known: the ledger was lost."""
        record = self._books.peek().record(key_of(site.path))
        known = {one.name for one in record.entries if one.client == site.client.id}
        there = self._there(site)
        unknown = [
            target
            for name, target in targets.items()
            if name not in known
            and is_as_wanted(site.client, there.get(name), entry_for(site.client, target))
        ]
        return self.add(site, unknown) if unknown else []

    # What is so

    def standings(self, *, project: Path | None = None, everything: bool = False) -> list[Standing]:
        """Of clients that are installed or have entries of ours; of all that there are."""
        return standings(self._books, self._machine, project=project, everything=everything)

    def document(self, site: Site) -> Value:
        """All that a file says; as an empty one, if there is none. Raises UserError: it cannot be read."""
        return self._books.document(site.client, site.path)

    def followers(self, server: str) -> list[Site]:
        """Where a server of that name goes by default: sites that follow all, and those that have it."""
        contents, table = self._books.peek(), load_table()
        found: dict[tuple[str, str], Site] = {}
        for follow in contents.follows:
            if (client := table.get(follow.client)) is not None:
                project = Path(follow.project) if follow.project else None
                site = project_site(client, project) if project else user_site(client, self._machine)
                if site is not None:
                    found[client.id, key_of(site.path)] = site
        for site in self.sites_with(server):
            found.setdefault((site.client.id, key_of(site.path)), site)
        return list(found.values())

    def sites_with(self, server: str) -> list[Site]:
        """That have an entry of it, in or out."""
        every = (one for record in self._books.peek().files.values() for one in sites_of(record))
        return [site for site, owners in every if any(owned.server == server for owned in owners)]

    def servers(self) -> list[str]:
        """Names of servers with an entry in some file, in or out."""
        records = self._books.peek().files.values()
        return sorted({owned.server for record in records for owned in record.entries})

    def drifted(self) -> list[Drift]:
        """Entries that do not stand as they should, all of them each time. Cheap while nothing changes."""
        return self._lookout.drifted()

    # The daemon: without backups

    def take_out(
        self, server: str, why: str, *, only: Callable[[Client], bool] | None = None
    ) -> list[Outcome]:
        """Its entries out of the files for a while. One that somebody changed is left alone, told once."""
        return self._changes.of_entries(
            lambda owned: owned.server == server and owned.state == "in",
            lambda draft, owned: decisions.take_out(draft, owned, why),
            only=only,
            is_removal=True,
        )

    def put_back(self, target: Target) -> list[Outcome]:
        """Whatever is out, with all that it had. Never over what somebody put there meanwhile."""
        return self._changes.of_entries(
            lambda owned: owned.server == target.name and owned.state == "out",
            lambda draft, owned: decisions.put_back(draft, owned, target),
            wanted={target.name: target},
        )

    def forget(self, server: str, *, is_gone: Callable[[], bool] = lambda: True) -> list[Outcome]:
        """For good. One that somebody changed stays in the file, but is no longer ours.

        `is_gone` is asked again while nobody else can change the entry: whoever adds one has the server.
        """
        outcomes = self._changes.of_entries(
            lambda owned: owned.server == server and is_gone(), decisions.forget, is_removal=True
        )
        if is_gone():
            self._books.drop_unknown(server)
        return outcomes

    def renew(self, target: Target) -> list[Outcome]:
        """Update entries that are in, as we wrote them, and lead elsewhere."""
        return self._changes.of_entries(
            lambda owned: owned.server == target.name and owned.state == "in",
            lambda draft, owned: decisions.renew(draft, owned, target),
            wanted={target.name: target},
        )

    def mend(self, target: Target, *, client: str | None = None, path: Path | None = None) -> list[Outcome]:
        """Put in again what is missing of that server (of that client, in that file), without a backup."""
        return self._changes.of_entries(
            lambda owned: (
                owned.server == target.name and owned.state == "in" and client in (None, owned.client)
            ),
            lambda draft, owned: decisions.mend(draft, owned, target),
            wanted={target.name: target},
            path=path,
        )

    @property
    def position(self) -> int:
        """The number of the last event of the daemon's journal that was dealt with."""
        return self._books.ledger.read().position

    def read_to(self, position: int) -> None:
        """That is how far it has been dealt with."""
        with self._books.held() as contents:
            if contents.position != position:
                contents.position = position
                self._books.ledger.write(contents)

    @property
    def repair(self) -> Literal["off", "auto"]:
        """Whether the daemon puts right by itself what drifted."""
        return self._books.ledger.read().repair

    @repair.setter
    def repair(self, repair: Literal["off", "auto"]) -> None:
        with self._books.held() as contents:
            if contents.repair != repair:
                contents.repair = repair
                self._books.ledger.write(contents)

    @property
    def damaged(self) -> Path | None:
        """Where a damaged ledger was put aside by this registry, if it met one."""
        return self._books.ledger.damaged

    def _there(self, site: Site) -> dict[str, Value]:
        """What stands in a file; nothing if it cannot be read."""
        try:
            return self._books.entries(site.client, site.path)
        except UserError:
            return {}


def _name(target: Target) -> str:
    return target.name


def _servers(draft: Draft) -> list[str]:
    """All that is written down for this client in this file."""
    mine = (one for one in draft.entries if one.client == draft.client.id)
    return [one.name for one in mine if one.section == draft.client.section]
