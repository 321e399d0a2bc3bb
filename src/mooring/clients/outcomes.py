"""What operations on clients' files return: values for people and programs, without a secret in them."""

from enum import StrEnum
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Change", "Drift", "EntryStanding", "EntryState", "Outcome", "Standing"]

EntryState: TypeAlias = Literal["in", "out", "changed", "missing", "foreign"]
"""`in`: ours, as we wrote it. `out`: taken out for a while. `changed`: ours once, somebody changed it.
`missing`: should be there, and is not. `foreign`: of that name, but never ours."""


class Change(StrEnum):
    """What became of an entry."""

    ADDED = "added"
    UPDATED = "updated"
    REMOVED = "removed"
    RESTORED = "restored"
    """As it was before: undone, or put back."""
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    """Nothing was done about it; `error` says why."""


class Outcome(Struct, frozen=True):
    """What became of one entry in one file."""

    client: str
    path: Path
    server: str
    change: Change
    difference: str = ""
    """Changed lines alone; that of all entries of one change is with the first of them."""
    next: str = ""
    """What happens in the client now, or what its user has to do."""
    error: str = ""
    hint: str = ""
    snippet: str = ""
    """To be pasted where we may not write."""
    code: str = ""
    """Of the error: `entry_foreign`, `entry_changed` and `entry_shared` need a decision of the user; with any
    other one the file was in trouble, and it is worth trying again later."""
    project: Path | None = None
    gives_way: bool = False
    """Undone: somebody else's entry is there again, in whose place this one came, as after an import."""


class EntryStanding(Struct, frozen=True):
    """How one entry stands in one file."""

    server: str
    state: EntryState
    why: str = ""


class Drift(EntryStanding, frozen=True, kw_only=True):
    """An entry of ours that does not stand as it should, and where."""

    client: str
    path: Path
    project: Path | None = None


class Standing(Struct, frozen=True):
    """One file of one client, as `mooring client ls` shows it."""

    client: str
    name: str
    path: Path | None
    project: Path | None = None
    installed: bool = False
    exists: bool = False
    reload: str = ""
    next: str = ""
    entries: tuple[EntryStanding, ...] = ()
    others: int = 0
    """Entries that are not ours."""
    trouble: str = ""
    """Why the file cannot be read."""
    follows_all: bool = False
