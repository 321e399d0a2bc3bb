"""Back to what was before: the changes of a command undone, or all of Mooring's."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from mooring.clients import decisions, undoing
from mooring.clients.bookkeeping import Books, Verdict
from mooring.clients.changes import Changes
from mooring.clients.detecting import Site
from mooring.clients.drafts import Draft, as_it_was
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.records import FileRecord, Original, Owned, Past, digest
from mooring.clients.standings import sites_of
from mooring.errors import UserError

__all__ = ["Returning"]


class Returning:
    """Of one registry."""

    def __init__(self, books: Books, changes: Changes) -> None:
        self._books = books
        self._changes = changes

    def undo(self, client_id: str | None = None) -> list[Outcome]:
        """What the last command changed (of that client); the next call goes one command further back."""
        changes = [
            (record, past)
            for record in self._books.peek().files.values()
            for past in reversed(record.changes)
            if client_id in (None, past.client) and _site_of(record, past) is not None
        ]
        last = max((past.command for _, past in changes), default=0)
        return [
            outcome
            for record, past in changes
            if past.command == last
            for outcome in self._undo(record, past)
        ]

    def files(self) -> list[Path]:
        """Those that `leave` may change."""
        records = self._books.peek().files.values()
        return [Path(one.path) for one in records if one.entries or one.originals or one.is_made]

    def leave(self) -> list[Outcome]:
        """Every file as it was before Mooring, as far as that is known: for who wants no trace to be left.

        To the byte, one change after the other, if nobody else has written it in between; else by entries.
        """
        outcomes = []
        for record in list(self._books.peek().files.values()):
            for past in reversed(record.changes) if _is_unbroken(record.changes) else ():
                if self._is_as_left(record, past):
                    outcomes += self._undo(record, past)
            now = self._books.peek().record(record.path)
            outcomes += self._leave(now, record.changes)
            outcomes += _unknown(now)
        return outcomes

    def _is_as_left(self, record: FileRecord, past: Past) -> bool:
        try:
            return digest(self._books.files.read(Path(record.path))) == past.after
        except UserError:
            return False

    def _leave(self, record: FileRecord, changes: Sequence[Past]) -> list[Outcome]:
        """What is still ours in a file goes, what ours came in place of returns; the file itself goes if
        there was none before."""

        def decide(draft: Draft, owners: Sequence[Owned]) -> list[Verdict]:
            mine = [one for one in draft.entries if one in owners]
            verdicts = decisions.each(
                draft, mine, lambda one: one.server, lambda one: decisions.leave(draft, one)
            )
            verdicts += decisions.each(
                draft,
                [one for one in draft.originals_here() if not draft.owners(one.name)],
                lambda one: one.name,
                lambda one: decisions.give_back(draft, one),
            )
            decisions.drop_file_of_ours(draft)
            return verdicts

        sites = {(site.client.id, site.client.section): (site, owners) for site, owners in sites_of(record)}
        others: list[Past | Original] = [*record.originals, *changes[-1:]]
        for one in others:  # in which nothing is ours any more
            if (site := _site_of(record, one)) is not None:
                sites.setdefault((site.client.id, site.client.section), (site, []))
        outcomes = []
        for site, owners in sites.values():
            servers = [owned.server for owned in owners] or [one.name for one in record.originals]
            outcomes += self._changes.at(site, servers, partial(decide, owners=owners), is_removal=True)
        return outcomes

    def _undo(self, record: FileRecord, past: Past) -> list[Outcome]:
        site = _site_of(record, past)
        if site is None:
            return []

        def decide(draft: Draft) -> list[Verdict]:
            backup = self._books.files.backup(site.path, past.backup) if past.backup else None
            return undoing.undo(draft, past, backup)

        names = [one.name for one in past.touched]
        return self._changes.at(site, names, decide, follow=past.followed, undone=past)


def _unknown(record: FileRecord) -> list[Outcome]:
    """Entries for clients that this version does not know: nobody can look at them."""
    return [
        Outcome(
            owned.client,
            Path(record.path),
            owned.server,
            Change.REFUSED,
            error=f"there is an entry for {owned.client}, which this version of Mooring does not know",
            hint="a newer version may",
        )
        for owned in record.entries
        if as_it_was(owned.client, owned.section, owned.format) is None
    ]


def _is_unbroken(changes: Sequence[Past]) -> bool:
    """Otherwise to undo the last ones would bring back what somebody wrote, and then wanted to be gone."""
    return all(one.after == then.before for one, then in pairwise(changes))


def _site_of(record: FileRecord, one: Past | Original) -> Site | None:
    """Where a change was made, or an entry was; None: that client is not known any more."""
    client = as_it_was(one.client, one.section, one.format)
    if client is None:
        return None
    project = one.project if isinstance(one, Past) else None
    return Site(client, Path(record.path), Path(project) if project else None)
