"""Changing files site by site: what became of each entry is an outcome, and so is trouble with a file.

Only trouble with the ledger itself is raised.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mooring.clients import decisions
from mooring.clients.bookkeeping import Books, Decide, Verdict, key_of
from mooring.clients.client import Client
from mooring.clients.detecting import Site
from mooring.clients.drafts import Draft
from mooring.clients.entries import Target, entry_for, snippet, what_next
from mooring.clients.ledger import LedgerTrouble
from mooring.clients.looking import unreadable
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.records import Owned, Past
from mooring.clients.standings import sites_of
from mooring.errors import UserError

__all__ = ["Changes"]

_AS_BEFORE = (Change.UNCHANGED, Change.REFUSED)


class Changes:
    """Through the books of one registry: all that commands change through it is one command's."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def at(
        self,
        site: Site,
        servers: Sequence[str],
        decide: Decide,
        *,
        wanted: Mapping[str, Target] | None = None,
        is_removal: bool = False,
        is_command: bool = True,
        dry_run: bool = False,
        follow: bool | None = None,
        undone: Past | None = None,
        force: bool = False,
    ) -> list[Outcome]:
        """`servers`: who is concerned if nothing at all can be done with the file."""
        try:
            verdicts, difference = self._books.change(
                site,
                decide,
                is_command=is_command,
                dry_run=dry_run,
                follow=follow,
                undone=undone,
                is_removal=is_removal,
                force=force,
            )
        except LedgerTrouble:
            raise
        except Exception as error:
            trouble = error if isinstance(error, UserError) else unreadable(site.path, error)
            verdicts, difference = [Verdict(server, Change.REFUSED, trouble) for server in servers], ""
        outcomes = []
        for verdict in verdicts:
            is_done = verdict.change not in _AS_BEFORE
            outcomes.append(_outcome(site, verdict, wanted or {}, is_removal, difference if is_done else ""))
            difference = "" if is_done else difference
        return outcomes

    def of_entries(
        self,
        is_meant: Callable[[Owned], bool],
        decide_one: Callable[[Draft, Owned], Verdict],
        *,
        only: Callable[[Client], bool] | None = None,
        path: Path | None = None,
        wanted: Mapping[str, Target] | None = None,
        is_removal: bool = False,
        is_command: bool = False,
    ) -> list[Outcome]:
        """The same with every entry of ours that is meant, file by file."""
        outcomes = []
        for record in list(self._books.peek().files.values()):
            if path is not None and record.path != key_of(path):
                continue
            for site, owners in sites_of(record):
                servers = [owned.server for owned in owners if is_meant(owned)]
                if servers and (only is None or only(site.client)):
                    outcomes += self.at(
                        site,
                        servers,
                        _deciding(site, is_meant, decide_one),
                        wanted=wanted,
                        is_removal=is_removal,
                        is_command=is_command,
                    )
        return outcomes


def _deciding(
    site: Site, is_meant: Callable[[Owned], bool], decide_one: Callable[[Draft, Owned], Verdict]
) -> Decide:
    """What is meant is asked again of the entries as they are once nobody else can change them."""

    def is_of(owned: Owned) -> bool:
        return is_meant(owned) and (owned.client, owned.section) == (site.client.id, site.client.section)

    def decide(draft: Draft) -> list[Verdict]:
        owners = [owned for owned in draft.entries if is_of(owned)]
        return decisions.each(draft, owners, lambda one: one.server, lambda one: decide_one(draft, one))

    return decide


def _outcome(
    site: Site, verdict: Verdict, wanted: Mapping[str, Target], is_removal: bool, difference: str
) -> Outcome:
    client, trouble = site.client, verdict.trouble
    is_refused = verdict.change is Change.REFUSED
    is_kept = verdict.change is Change.REMOVED and verdict.note
    next_ = what_next(client, is_project=site.project is not None, is_removal=is_removal)
    target = wanted.get(verdict.server) if is_refused else None
    return Outcome(
        client.id,
        site.path,
        verdict.server,
        verdict.change,
        difference=difference,
        next="" if verdict.change in _AS_BEFORE or is_kept else next_,
        error=trouble.message if trouble else "",
        hint=(trouble.hint if trouble else "") or verdict.note,
        snippet=snippet(client, target.name, entry_for(client, target)) if target else "",
        code=trouble.code if trouble else "",
        project=site.project,
        gives_way=verdict.gives_way,
    )
