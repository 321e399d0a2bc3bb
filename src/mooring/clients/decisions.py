"""What becomes of one entry, given how it stands and whose it is. Pure: only the draft changes.

- An entry that is not ours, or that somebody changed, is never overwritten or removed unless that is forced.
- What others added to an entry of ours stays, through updates and through being taken out and put back.
- An entry that several clients share goes when the last of them lets it go, and is right for all of them.
"""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from mooring.clients.bookkeeping import Verdict
from mooring.clients.drafts import Draft, as_it_was, is_ours
from mooring.clients.editing.edits import Value, same, shown
from mooring.clients.entries import Target, entry_for, is_as_wanted, merged
from mooring.clients.outcomes import Change
from mooring.clients.records import ABSENT, Original, Owned, There, keepable
from mooring.clients.table import load_table
from mooring.errors import UserError

__all__ = [
    "add",
    "drop_file_of_ours",
    "each",
    "forget",
    "give_back",
    "leave",
    "mend",
    "put_back",
    "remove",
    "renew",
    "replace",
    "take_out",
]

One = TypeVar("One")


def each(
    draft: Draft, things: Iterable[One], name: Callable[[One], str], decide: Callable[[One], Verdict]
) -> list[Verdict]:
    """One after the other; what cannot be done with one of them is its own trouble."""
    verdicts = []
    for thing in things:
        try:
            with draft.trying():
                verdicts.append(decide(thing))
        except UserError as error:
            verdicts.append(Verdict(name(thing), Change.REFUSED, error))
    return verdicts


def add(draft: Draft, target: Target, project: Path | None, *, force: bool = False) -> Verdict:
    """The entry of a server, in and ours."""
    there, mine = draft.there(target.name), draft.mine(target.name)
    is_theirs = there is not ABSENT and not _may_be_ours(draft, target)
    if is_theirs and not force:
        raise _taken(draft, target.name, "add", project, was_ours=mine is not None)
    if is_theirs:
        draft.keep_original(target.name)
    change = _put(draft, target, project)
    note = f"in place of what was there; to have that back: mooring client undo {draft.client.id}"
    return Verdict(target.name, change, note=note if is_theirs else "")


def remove(draft: Draft, name: str, project: Path | None, *, force: bool = False) -> Verdict:
    """The entry of a server, out and no longer ours."""
    there, mine = draft.there(name), draft.mine(name)
    sharers = [one for one in draft.sharers(name) if one.state == "in" and is_ours(one, there)]
    if mine is None and there is ABSENT:
        return Verdict(name, Change.UNCHANGED)
    if mine is None and sharers:
        raise UserError(
            f"{shown(name)} is there for {_names(sharers)}, not for {draft.client.name}",
            code="entry_shared",
            hint=f"mooring client rm {sharers[0].client} --server {shlex.quote(name)}{_in_project(project)}",
        )
    if there is not ABSENT and not force and not (mine and is_ours(mine, there)):
        raise _taken(draft, name, "rm", project, was_ours=mine is not None)
    if mine is not None:
        draft.disown(mine)
    if sharers:
        return Verdict(name, Change.REMOVED, note=f"it stays in the file for {_names(sharers)}")
    if there is ABSENT:
        return Verdict(name, Change.REMOVED if mine and mine.state == "out" else Change.UNCHANGED)
    draft.remove(name)
    return Verdict(name, Change.REMOVED)


def replace(
    draft: Draft, old_name: str, target: Target, project: Path | None, *, planned: There = ABSENT
) -> Verdict:
    """An entry of somebody else becomes ours, as a whole, maybe under another name.

    `planned`: how it stood when that was decided; then only if it does so still.
    """
    name, there = target.name, draft.there(old_name)
    again = f"mooring client import {draft.client.id}{_in_project(project)}"
    if there is ABSENT:
        raise UserError(f"there is no entry {shown(old_name)} any more", code="entry_gone", hint=again)
    if planned is not ABSENT and not same(there, planned):
        raise UserError(
            f"the entry {shown(old_name)} was changed meanwhile: left as it is",
            code="entry_changed",
            hint=again,
        )
    if name != old_name and draft.there(name) is not ABSENT and not _may_be_ours(draft, target):
        raise _taken(draft, name, "add", project, was_ours=draft.mine(name) is not None)
    wanted = entry_for(draft.client, target)
    draft.keep_original(old_name)
    if name != old_name:
        for owned in draft.owners(old_name):
            draft.disown(owned)
        draft.remove(old_name)
    is_new = draft.put(name, wanted)
    draft.own(draft.owned(name, name, wanted, _text(project)))
    _mind_sharers(draft, target, wanted)
    return Verdict(name, Change.UPDATED if is_new or name != old_name else Change.UNCHANGED)


def take_out(draft: Draft, owned: Owned, why: str) -> Verdict:
    """Out for a while, for everybody who shares it."""
    there = draft.there(owned.name)
    if there is ABSENT:
        return Verdict(owned.server, Change.UNCHANGED)  # whoever removed it does not want it back
    if not is_ours(owned, there) or not isinstance(there, dict):
        return _told(draft, owned, "left as it is")
    if not keepable(there):
        raise UserError(
            f"the entry {shown(owned.name)} is too large, or has values that cannot be kept: it stays",
            code="entry_not_kept",
        )
    draft.remove(owned.name)
    for owner in draft.owners(owned.name):
        draft.own(structs.replace(owner, state="out", why=why, kept=there, is_told=False))
    return Verdict(owned.server, Change.REMOVED)


def put_back(draft: Draft, owned: Owned, target: Target) -> Verdict:
    """In again, with all that it had."""
    there = draft.there(owned.name)
    if there is not ABSENT and not _may_be_ours(draft, target):
        for owner in draft.owners(owned.name):
            draft.own(structs.replace(owner, state="in", why="", kept=None))
        return _told(draft, structs.replace(owned, state="in", why="", kept=None), "not put back over it")
    is_change = _put(draft, target, _path(owned.project)) is not Change.UNCHANGED
    return Verdict(owned.server, Change.RESTORED if is_change else Change.UNCHANGED)


def forget(draft: Draft, owned: Owned) -> Verdict:
    """Out for good; one that somebody changed stays where it is, and is theirs."""
    there = draft.there(owned.name)
    owners = draft.owners(owned.name)
    for owner in owners:
        draft.disown(owner)
    if there is ABSENT:
        return Verdict(owned.server, Change.REMOVED if owned.state == "out" else Change.UNCHANGED)
    if not any(is_ours(owner, there) for owner in owners):
        trouble = _changed(draft, owned, "left there, and no longer ours", verb="rm")
        return Verdict(owned.server, Change.REFUSED, trouble)
    draft.remove(owned.name)
    return Verdict(owned.server, Change.REMOVED)


def leave(draft: Draft, owned: Owned) -> Verdict:
    """Out for good. One that somebody changed stays, and stays written down: they may yet put it right."""
    verdict = forget(draft, owned)
    if verdict.trouble is not None:
        raise _changed(draft, owned, "left there", verb="rm")
    return verdict


def give_back(draft: Draft, original: Original) -> Verdict:
    """What ours came in place of is there again, unless something else is."""
    is_free = draft.there(original.name) is ABSENT
    if is_free:
        draft.put(original.name, original.entry)
    draft.drop_original(original.name)
    return Verdict(original.name, Change.RESTORED if is_free else Change.UNCHANGED)


def renew(draft: Draft, owned: Owned, target: Target) -> Verdict:
    """Right for where the server is now, if it stands as we wrote it."""
    there = draft.there(owned.name)
    if there is ABSENT:
        return Verdict(owned.server, Change.UNCHANGED)
    if not _may_be_ours(draft, target):
        return _told(draft, owned, "left as it is")
    return Verdict(owned.server, _put(draft, target, _path(owned.project)))


def mend(draft: Draft, owned: Owned, target: Target) -> Verdict:
    """In again, if somebody removed it."""
    if draft.there(owned.name) is not ABSENT:
        return Verdict(owned.server, Change.UNCHANGED)
    return Verdict(owned.server, _put(draft, target, _path(owned.project)))


def drop_file_of_ours(draft: Draft) -> None:
    """A file that we made and that has nothing in it but what we left: there was none before."""
    if not draft.is_file_ours or draft.entries or draft.originals or draft.result is None:
        return
    editor, section = draft.client.editor, draft.client.section
    left = editor.remove(editor.put(b"", section, "mooring", {}), section, "mooring")
    if draft.result == left or not draft.result.strip():
        draft.become(None)


def _put(draft: Draft, target: Target, project: Path | None) -> Change:
    """The entry for where the server is, for all who share it; what others added is kept."""
    client, name = draft.client, target.name
    there, owners = draft.there(name), draft.owners(name)
    wanted = entry_for(client, target)
    base: Value = (
        next((one.kept for one in owners if one.kept is not None), None) if there is ABSENT else there
    )
    entry = merged(client, base, wanted) if isinstance(base, dict) else wanted
    entry = _for_sharers(draft, target, entry)
    if not is_as_wanted(client, entry, wanted):
        raise _shared(draft, name)
    is_change = draft.put(name, entry)
    draft.own(draft.owned(name, name, wanted, _text(project)))
    _mind_sharers(draft, target, entry)
    if not is_change:
        return Change.UNCHANGED
    return Change.ADDED if there is ABSENT else Change.UPDATED


def _for_sharers(draft: Draft, target: Target, entry: dict[str, Value]) -> dict[str, Value]:
    """The entry, made right for other clients too, as far as it can be."""
    for owned in draft.sharers(target.name):
        other = as_it_was(owned.client, owned.section, owned.format)
        if other and not is_as_wanted(other, entry, wanted := entry_for(other, target)):
            entry = merged(other, entry, wanted)
    return entry


def _mind_sharers(draft: Draft, target: Target, entry: dict[str, Value]) -> None:
    """It must be right for them, and is written down as such."""
    for owned in draft.sharers(target.name):
        other = as_it_was(owned.client, owned.section, owned.format)
        wanted = entry_for(other, target) if other else owned.wrote
        if other and not is_as_wanted(other, entry, wanted):
            raise _shared(draft, target.name)
        if owned not in draft.elsewhere(target.name):
            draft.own(structs.replace(owned, wrote=wanted, state="in", why="", kept=None, is_told=False))


def _may_be_ours(draft: Draft, target: Target) -> bool:
    """It stands as we wrote it, or as we would: somebody else would not have made it the same."""
    there = draft.there(target.name)
    owners = [*draft.owners(target.name), *draft.elsewhere(target.name)]
    if there is ABSENT or any(is_ours(owned, there) for owned in owners):
        return there is not ABSENT
    return is_as_wanted(draft.client, there, entry_for(draft.client, target))


def _told(draft: Draft, owned: Owned, what: str) -> Verdict:
    """Somebody changed it; that is said once."""
    if owned.is_told:
        draft.own(owned)
        return Verdict(owned.server, Change.UNCHANGED)
    draft.own(structs.replace(owned, is_told=True))
    return Verdict(owned.server, Change.REFUSED, _changed(draft, owned, what))


def _changed(draft: Draft, owned: Owned, what: str, verb: str = "add") -> UserError:
    wish = "to have it as Mooring writes it" if verb == "add" else "to have it removed"
    where = f"{draft.client.id} --server {shlex.quote(owned.name)}{_in_project(_path(owned.project))}"
    return UserError(
        f"the entry {shown(owned.name)} was changed by somebody: {what}",
        code="entry_changed",
        hint=f"{wish}: mooring client {verb} {where} --force",
    )


def _taken(draft: Draft, name: str, verb: str, project: Path | None, *, was_ours: bool) -> UserError:
    what = "was changed by somebody since Mooring wrote it" if was_ours else "is not Mooring's"
    done = "overwritten" if verb == "add" else "removed"
    return UserError(
        f"the entry {shown(name)} {what}, and is not {done}",
        code="entry_changed" if was_ours else "entry_foreign",
        hint=f"to do it nevertheless: mooring client {verb} {draft.client.id} --server {shlex.quote(name)}"
        f"{_in_project(project)} --force",
    )


def _shared(draft: Draft, name: str) -> UserError:
    sharers = draft.sharers(name)
    return UserError(
        f"{_names(sharers)} and {draft.client.name} share the entry {shown(name)}, and need it otherwise",
        code="entry_shared",
        hint=f"mooring client rm {sharers[0].client} --server {shlex.quote(name)}"
        f"{_in_project(_path(sharers[0].project))}",
    )


def _names(owners: list[Owned]) -> str:
    table = load_table()
    names = dict.fromkeys(table[one.client].name if one.client in table else one.client for one in owners)
    return " and ".join(names)


def _in_project(project: Path | None) -> str:
    return f" --project {shlex.quote(str(project))}" if project else ""


def _text(project: Path | None) -> str | None:
    return str(project) if project else None


def _path(project: str | None) -> Path | None:
    return Path(project) if project else None
