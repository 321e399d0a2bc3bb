"""A change of one file and what the ledger says of it, as one: whoever is killed in between, it can be told.

1. The ledger is held: of all Moorings one at a time changes files of clients.
2. What is about to be done is written down, with digests of the file before and after, each time the file is
   read (it may change under our hands).
3. The file is changed.
4. What was done is written down.

Whoever comes next and finds an intent looks at the file: it is as it was to become, or as it was, or somebody
changed it since, and then the entries tell. So an entry is never lost, and never ours by mistake.
"""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from mooring.clients.backups import Backups
from mooring.clients.client import Client
from mooring.clients.detecting import Site
from mooring.clients.differences import difference
from mooring.clients.drafts import Draft, as_it_was, entries_in
from mooring.clients.editing.edits import Value
from mooring.clients.files import Changed, Files
from mooring.clients.ledger import Ledger
from mooring.clients.looking import real_path, unreadable
from mooring.clients.outcomes import Change
from mooring.clients.records import (
    ABSENT,
    MOST_CHANGES,
    Contents,
    FileRecord,
    Follow,
    Intent,
    Owned,
    Past,
    digest,
    fingerprint,
)
from mooring.errors import UserError

__all__ = ["Books", "Decide", "Done", "Verdict", "key_of"]


class Verdict(NamedTuple):
    """What is to become of one entry."""

    server: str
    change: Change
    trouble: UserError | None = None
    note: str = ""
    """What the user should know beside it."""
    gives_way: bool = False
    """Somebody else's entry is there again, in whose place this one of ours came."""


Decide = Callable[[Draft], list[Verdict]]
"""Makes the change in the draft. May be asked more than once, each time on a new one."""


class Done(NamedTuple):
    """What became of one file."""

    verdicts: list[Verdict]
    difference: str = ""


def key_of(path: Path) -> str:
    """The path under which the ledger has a file: as clients have it, links not followed."""
    return os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves `..` in it


class Books:
    """The ledger and the files, in `state`."""

    def __init__(self, state: Path) -> None:
        self.files = Files(state)
        self.ledger = Ledger(state)
        self._backups = Backups(state / "backups")
        self._command: int | None = None

    @contextmanager
    def held(self) -> Iterator[Contents]:
        """The ledger, for us alone, with nothing left open in it that can be settled."""
        with self.ledger.held() as contents:
            self.settle(contents)
            yield contents

    def peek(self) -> Contents:
        """The ledger as it would be settled; nothing is written, nobody waited for."""
        contents = self.ledger.read()
        self._settle(contents)
        return contents

    def document(self, client: Client, path: Path) -> Value:
        """All that a client's file says; as an empty one, if there is none. Raises UserError, whatever is
        wrong with it."""
        try:
            return client.editor.read(self.files.read(path) or b"")
        except UserError:
            raise
        except Exception as error:
            raise unreadable(path, error) from error

    def entries(self, client: Client, path: Path) -> dict[str, Value]:
        """What stands in the client's section of it, by name. Raises UserError likewise."""
        return entries_in(self.document(client, path), client.section)

    def settle(self, contents: Contents) -> None:
        """For who holds the ledger: find out what became of changes that nobody finished."""
        if any(record.intent for record in contents.files.values()):
            self.files.recover()
            if self._settle(contents):
                self.ledger.write(contents)

    def change(
        self,
        site: Site,
        decide: Decide,
        *,
        is_command: bool = True,
        dry_run: bool = False,
        follow: bool | None = None,
        undone: Past | None = None,
        is_removal: bool = False,
        force: bool = False,
    ) -> Done:
        """Change the file of a site as `decide` says, and the ledger with it.

        `is_command`: with a backup, to be undone. `follow`: whether every new server goes there from now on.
        `undone`: that change is undone by this one. `is_removal`: what is ours goes, wherever links lead.
        `force`: they may lead out of the project. Raises UserError: the file is in trouble, and as it was.
        """
        with self.held() as contents:
            real = contents.record(key_of(site.path)).real
            if not is_removal and undone is None:
                real = _real_place(site, real, force=force)
            change = _Change(site, real, self._number(contents) if is_command else None, follow, undone)
            draft, verdicts = self._change(contents, change, decide, dry_run=dry_run)
        # For people alone, and once nobody waits for us any more.
        return Done(verdicts, difference(site.client, draft.changed()) if is_command else "")

    def _change(
        self, contents: Contents, change: "_Change", decide: Decide, *, dry_run: bool
    ) -> tuple[Draft, list[Verdict]]:
        site, undone = change.site, change.undone
        record = self._record(contents, site.path)
        if undone is not None and undone not in record.changes:
            raise UserError(f"{site.path}: somebody else has undone it just now", code="already_undone")
        elsewhere = _elsewhere(contents, record.path)
        drafts: list[tuple[Draft, list[Verdict]]] = []

        def edit(data: bytes | None) -> bytes | None:
            draft = Draft(site.client, data, record, elsewhere)
            drafts.append((draft, decide(draft)))
            if draft.is_change and not dry_run:
                self._intend(contents, record, change, draft)
            return draft.result

        if dry_run:
            edit(self.files.read(site.path))
            if drafts[-1][0].is_change:
                self.files.check(site.path)
            return drafts[-1]
        try:
            keep = change.command is not None and undone is None
            changed = self.files.change(site.path, edit, keep=keep)
        except Exception:
            self.settle(contents)
            raise
        draft, verdicts = _made(drafts, changed)
        self._finish(contents, record, change, draft, changed)
        return draft, verdicts

    def drop_unknown(self, server: str) -> None:
        """Entries of a server for clients that this version does not know: nobody can look at them."""

        def is_known(owned: Owned) -> bool:
            return owned.server != server or bool(as_it_was(owned.client, owned.section, owned.format))

        if all(is_known(one) for record in self.ledger.read().files.values() for one in record.entries):
            return
        with self.held() as contents:
            for record in list(contents.files.values()):
                contents.put(structs.replace(record, entries=tuple(filter(is_known, record.entries))))
            self.ledger.write(contents)

    def _number(self, contents: Contents) -> int:
        """Of the command that this is part of: all that is changed through us is one."""
        if self._command is None:
            self._command = contents.commands + 1
        contents.commands = max(contents.commands, self._command)
        return self._command

    def _record(self, contents: Contents, path: Path) -> FileRecord:
        record = contents.record(key_of(path))
        if record.intent is not None:
            self.files.read(path)  # says what the trouble is
            raise UserError(
                f"{path}: an earlier change was interrupted, and what became of it cannot be told",
                code="file_unsettled",
                hint="put the file right, so that it can be read, and try again",
            )
        return record

    def _intend(self, contents: Contents, record: FileRecord, change: "_Change", draft: Draft) -> None:
        client = change.site.client
        intent = Intent(
            client.id,
            client.section,
            client.format,
            digest(draft.before),
            digest(draft.result),
            draft.steps(),
            change.recorded(contents, record, draft),
            change.follows(contents, draft),
        )
        contents.put(structs.replace(record, intent=intent))
        self.ledger.write(contents)

    def _finish(
        self, contents: Contents, record: FileRecord, change: "_Change", draft: Draft, changed: Changed
    ) -> None:
        follows = change.follows(contents, draft)
        done = change.recorded(contents, record, draft, changed)
        if (done, follows) != (contents.record(record.path), contents.follows):
            contents.put(done)
            contents.follows = follows
            self.ledger.write(contents)

    def _settle(self, contents: Contents) -> bool:
        is_any = False
        for record in list(contents.files.values()):
            if (intent := record.intent) is None:
                continue
            try:
                is_done = self._is_done(record, intent)
                settled = record.settled(is_done=is_done)
                contents.put(self._with_backup(settled) if is_done else settled)
            except UserError:
                continue  # it cannot be read: the next time, maybe
            except Exception as error:
                unreadable(Path(record.path), error)
                continue
            if is_done:
                contents.follows = intent.follows
            is_any = True
        return is_any

    def _is_done(self, record: FileRecord, intent: Intent) -> bool:
        data = self.files.read(Path(record.path))
        if digest(data) in (intent.before, intent.after):
            return digest(data) == intent.after
        client = as_it_was(intent.client, intent.section, intent.format)
        if client is None:
            return False
        there = self.entries(client, Path(record.path))
        return any(fingerprint(there.get(step.name, ABSENT)) == step.after for step in intent.steps)

    def _with_backup(self, record: FileRecord) -> FileRecord:
        """Whoever was killed did not write down under which number the backup is."""
        if not record.changes or record.changes[-1].backup or record.changes[-1].before is None:
            return record
        past, real = record.changes[-1], Path(os.path.realpath(record.path))
        for number in reversed(self._backups.numbers(real)):
            if digest(self._backups.read(real, number)) == past.before:
                found = structs.replace(past, backup=number)
                return structs.replace(record, changes=(*record.changes[:-1], found))
        return record


class _Change(NamedTuple):
    """What is changed, and how that is written down."""

    site: Site
    real: str
    """Where the file is, as far as the user knows of it."""
    command: int | None
    """Its number; None: the daemon does it."""
    follow: bool | None
    undone: Past | None

    def follows(self, contents: Contents, draft: Draft) -> tuple[Follow, ...]:
        """Sites that follow all, afterwards."""
        mine = self._follow
        is_to_be = not draft.is_refused if self.undone is None else draft.is_undone
        if self.follow is None or not is_to_be or self.follow == (mine in contents.follows):
            return contents.follows
        others = tuple(one for one in contents.follows if one != mine)
        return (*others, mine) if self.follow else others

    def recorded(
        self, contents: Contents, record: FileRecord, draft: Draft, changed: Changed | None = None
    ) -> FileRecord:
        """What is written of the file afterwards."""
        changes, is_made = record.changes, record.is_made
        if self.undone is not None and draft.is_undone:
            at = max(n for n, past in enumerate(changes) if past == self.undone)
            changes = (*changes[:at], *changes[at + 1 :])
            is_made = self.undone.was_made and draft.result is not None
        elif not draft.is_change:
            return structs.replace(
                record,
                entries=tuple(draft.entries),
                originals=tuple(draft.originals),
                real=self.real,
                intent=None,
            )
        else:
            is_made = (is_made or draft.before is None) and draft.result is not None
            if self.command is not None:
                past = self._past(contents, record, draft, changed, self.command)
                changes = (*changes, past)[-MOST_CHANGES:]
        return structs.replace(
            record,
            entries=tuple(draft.entries),
            originals=tuple(draft.originals),
            real=self.real,
            changes=changes,
            is_made=is_made,
            intent=None,
        )

    def _past(
        self, contents: Contents, record: FileRecord, draft: Draft, changed: Changed | None, command: int
    ) -> Past:
        client = self.site.client
        return Past(
            client.id,
            client.section,
            client.format,
            digest(draft.before),
            digest(draft.result),
            draft.touched(),
            project=self._follow.project,
            backup=changed.backup if changed else None,
            was_made=record.is_made,
            followed=None if self.follow is None else self._follow in contents.follows,
            command=command,
        )

    @property
    def _follow(self) -> Follow:
        return Follow(self.site.client.id, str(self.site.project) if self.site.project else None)


def _real_place(site: Site, known: str, *, force: bool) -> str:
    """Raises UserError: whoever made the project would have us write to a file that is not in it."""
    real = real_path(site.path)
    is_known = force or site.project is None or str(real) == known
    if is_known or (site.project and real.is_relative_to(real_path(site.project))):
        return str(real)
    where = f"{site.client.id} --project {shlex.quote(str(site.project))}"
    raise UserError(
        f"{site.path} is a link that leads out of the project",
        code="outside_project",
        hint=f"it leads to {real}; to have that file changed: mooring client add {where} --force",
    )


def _made(drafts: list[tuple[Draft, list[Verdict]]], changed: Changed) -> tuple[Draft, list[Verdict]]:
    """The draft that was carried out: after it the file may have been read again, and found right."""
    for draft, verdicts in reversed(drafts):
        if draft.before == changed.before and draft.result == changed.after:
            return draft, verdicts
    return drafts[-1]


def _elsewhere(contents: Contents, path: str) -> list[Owned]:
    """Entries that the ledger has for the same file under other names."""
    real = os.path.realpath(path)
    others = (record for record in contents.files.values() if record.path != path and record.entries)
    return [one for record in others if os.path.realpath(record.path) == real for one in record.entries]
