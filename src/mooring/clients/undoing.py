"""Undoing one change of a file by a command. Pure: only the draft changes.

If the file is as that change left it, it becomes what it was before, to the byte; even if that means that
there is none. Otherwise others have written it since, and only the entries are put back, each if it still
stands as the change left it.
"""

from mooring.clients.bookkeeping import Verdict
from mooring.clients.decisions import each
from mooring.clients.drafts import Draft, is_ours
from mooring.clients.editing.edits import shown
from mooring.clients.outcomes import Change
from mooring.clients.records import ABSENT, Owned, Past, Touched, digest, fingerprint
from mooring.errors import UserError

__all__ = ["undo"]

SINCE = "the file was changed since: the entry alone was put back, not the whole file"


def undo(draft: Draft, past: Past, backup: bytes | None) -> list[Verdict]:
    """`backup`: what was in the file before the change, as far as that is still known."""
    is_known = digest(backup) == past.before
    if (
        digest(draft.before) == past.after
        and is_known
        and not any(_others(draft, past, one) for one in past.touched)
    ):
        draft.become(backup)
        draft.is_undone = True
        verdicts = [
            Verdict(one.name, Change.RESTORED, gives_way=_gives_way(draft, past, one)) for one in past.touched
        ]
        for one in past.touched:
            draft.give_back(one.name, one.owners)
            if one.was_there and not one.owners:
                draft.drop_original(one.name)
        return verdicts
    return each(draft, past.touched, lambda one: one.name, lambda one: _put_back(draft, past, one))


def _put_back(draft: Draft, past: Past, touched: Touched) -> Verdict:
    name, there = touched.name, draft.there(touched.name)
    is_as_left = fingerprint(there) == touched.after or any(is_ours(one, there) for one in draft.owners(name))
    if there is not ABSENT and not is_as_left:
        raise UserError(
            f"the entry {shown(name)} was changed by somebody since, and stays as it is",
            code="entry_changed",
            hint="what the file was before is among the backups, in the folder `clients` of Mooring's state",
        )
    others, gives_way = _others(draft, past, touched), _gives_way(draft, past, touched)
    if touched.was_there:
        if not touched.is_kept or not isinstance(touched.value, dict):
            raise UserError(
                f"what the entry {shown(name)} was before is in a backup of the whole file alone",
                code="entry_not_kept",
                hint="see the backups, in the folder `clients` of Mooring's state",
            )
        draft.put(name, touched.value)
        if not touched.owners:
            draft.drop_original(name)
    elif not others:
        draft.remove(name)
    mine = [one for one in touched.owners if one.client == past.client]
    draft.give_back(name, [*mine, *_other_owners(draft, past, name)])
    draft.is_undone = True
    return Verdict(name, Change.RESTORED, note=SINCE, gives_way=gives_way)


def _gives_way(draft: Draft, past: Past, touched: Touched) -> bool:
    """Did this entry of ours come in place of one of somebody else, be it under another name?"""
    if touched.owners or not draft.owners(touched.name):
        return False
    if touched.was_there:
        return not touched.is_kept or fingerprint(touched.value) != touched.after
    return any(one.was_there and not one.owners and one.after == fingerprint(ABSENT) for one in past.touched)


def _others(draft: Draft, past: Past, touched: Touched) -> list[Owned]:
    """Clients that came to share the entry after the change: they are not to lose it."""
    before = {one.client for one in touched.owners}
    return [
        *(one for one in _other_owners(draft, past, touched.name) if one.client not in before),
        *draft.elsewhere(touched.name),
    ]


def _other_owners(draft: Draft, past: Past, name: str) -> list[Owned]:
    return [one for one in draft.owners(name) if one.client != past.client]
