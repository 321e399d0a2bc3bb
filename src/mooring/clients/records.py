"""What the ledger has written down: whose entries stand where, what a change is about to do, what was done.

All values, and all JSON: a value that JSON cannot hold as it is, or that is too large, is not kept
(`keepable`), only told from others by its `fingerprint`.
"""

import hashlib
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from mooring.clients.client import FormatName
from mooring.clients.editing.edits import Section, Value, same

__all__ = [
    "ABSENT",
    "MAX_ENTRY_BYTES",
    "MOST_BYGONE",
    "MOST_CHANGES",
    "Absent",
    "Contents",
    "FileRecord",
    "Follow",
    "Intent",
    "Original",
    "Owned",
    "Past",
    "Step",
    "There",
    "Touched",
    "digest",
    "fingerprint",
    "keepable",
]

MAX_ENTRY_BYTES = 64 * 1024
"""Of an entry that is kept so that it can be put back."""
MOST_CHANGES = 10
"""Of one file, that can be undone one after the other; there are as many backups."""
MOST_BYGONE = 100
"""Files in which nothing is ours any more, but something can be undone: the oldest gives way."""


class Absent(Enum):
    """There is no such entry. None is a value that an entry may have."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
There: TypeAlias = Value | Absent


class Owned(Struct, frozen=True, omit_defaults=True):
    """One entry that is ours, in one section of one file, for one client."""

    client: str
    server: str
    name: str
    """Under which it stands."""
    section: Section
    format: FormatName
    wrote: dict[str, Any]
    """What we want it to be, without what others may have added to it."""
    project: str | None = None
    state: Literal["in", "out"] = "in"
    why: str = ""
    """It is out."""
    kept: dict[str, Any] | None = None
    """As it stood when it was taken out, with what others had added."""
    is_told: bool = False
    """Somebody changed it, and the user was told."""


class Original(Struct, frozen=True):
    """An entry of somebody else, in whose place ours came: for who wants Mooring to leave no trace."""

    client: str
    section: Section
    format: FormatName
    name: str
    entry: dict[str, Any]


class Touched(Struct, frozen=True, omit_defaults=True):
    """One entry that a command changed, as it was before, and what it was left as."""

    name: str
    after: str
    """Its fingerprint."""
    was_there: bool = False
    is_kept: bool = True
    """False: what it was is in the backup alone."""
    value: Any = None
    owners: tuple[Owned, ...] = ()
    """Of whom it was before."""


class Past(Struct, frozen=True, omit_defaults=True):
    """One change of a file by a command: what is needed to undo it."""

    client: str
    section: Section
    format: FormatName
    before: str | None
    """Digest of the file. None: there was none."""
    after: str | None
    touched: tuple[Touched, ...]
    project: str | None = None
    backup: str | None = None
    was_made: bool = False
    followed: bool | None = None
    """Whether the site followed all before; None: that was not changed."""
    command: int = 0
    """Which command that was: one may change many files."""


class Step(Struct, frozen=True, omit_defaults=True):
    """One entry that is about to be changed: fingerprints of before and after."""

    name: str
    before: str
    after: str


class Intent(Struct, frozen=True, omit_defaults=True):
    """What is about to be done with a file, written down before it is done."""

    client: str
    section: Section
    format: FormatName
    before: str | None
    """Digest of the file."""
    after: str | None
    steps: tuple[Step, ...]
    done: "FileRecord"
    """What is written of the file once it is done."""
    follows: tuple["Follow", ...] = ()
    """Likewise."""


class FileRecord(Struct, frozen=True, omit_defaults=True):
    """One file of clients, under the path that they have for it."""

    path: str
    real: str = ""
    """Where that led when something was put there last: the user knows of it."""
    entries: tuple[Owned, ...] = ()
    changes: tuple[Past, ...] = ()
    """By commands, the latest last."""
    is_made: bool = False
    """There was no file before our first entry."""
    originals: tuple[Original, ...] = ()
    intent: Intent | None = None

    @property
    def is_empty(self) -> bool:
        """There is nothing in it worth writing down."""
        return not (self.entries or self.changes or self.originals or self.intent)

    def settled(self, *, is_done: bool) -> "FileRecord":
        """What is so once it is known whether the change took place."""
        if self.intent is None:
            return self
        return self.intent.done if is_done else structs.replace(self, intent=None)


class Follow(Struct, frozen=True, omit_defaults=True):
    """A site to which every new server goes by default."""

    client: str
    project: str | None = None


class Contents(Struct):
    """All of the ledger."""

    version: int = 1
    position: int = 0
    commands: int = 0
    """So many have changed files."""
    repair: Literal["off", "auto"] = "off"
    follows: tuple[Follow, ...] = ()
    files: dict[str, FileRecord] = {}

    def put(self, record: FileRecord) -> None:
        """That is what is written of the file now."""
        self.files[record.path] = record
        if record.is_empty:
            del self.files[record.path]
        bygone = [one.path for one in self.files.values() if not one.entries and one.intent is None]
        for path in bygone[: max(len(bygone) - MOST_BYGONE, 0)]:
            del self.files[path]

    def record(self, path: str) -> FileRecord:
        """What is written of that file; nothing, maybe."""
        return self.files.get(path) or FileRecord(path)


def digest(data: bytes | None) -> str | None:
    """Of a file's bytes; None: there is no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def fingerprint(there: There) -> str:
    """The same for the same data, whatever the order of its keys; empty if there is nothing."""
    return "" if there is ABSENT else hashlib.sha256(repr(_ordered(there)).encode()).hexdigest()


def keepable(value: Value) -> bool:
    """Can it be written down, and be read again as the same?"""
    try:
        data = msgspec.json.encode(value)
        return len(data) <= MAX_ENTRY_BYTES and same(msgspec.json.decode(data), value)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return False


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        return ("mapping", *sorted((key, _ordered(inner)) for key, inner in value.items()))
    if isinstance(value, int) and not isinstance(value, bool):
        return ("number", hex(value))  # which is written however many digits it has
    return ["list", *map(_ordered, value)] if isinstance(value, list) else value
