"""What the formats have in common: where an entry lives, who refuses, and the check after each edit.

A format splices text, so that whatever is not the entry keeps its bytes. It is not trusted to: the result is
read again, and `check` compares it with what was there. What does not pass is never handed out.
"""

import json
from typing import NamedTuple, Protocol, TypeAlias

from mooring.errors import UserError

__all__ = [
    "MOST_DEPTH",
    "Format",
    "Place",
    "Reading",
    "Refused",
    "Section",
    "Value",
    "check",
    "complete",
    "decoded",
    "place_of",
    "same",
    "shown",
]

Value: TypeAlias = bool | int | float | str | list["Value"] | dict[str, "Value"] | None

MOST_DEPTH = 100
"""Objects and lists inside each other; so that no document can use up the stack."""

BOM = "\ufeff"
_SHOWN_CHARACTERS = 60


class Section(NamedTuple):
    """Where entries live in a document: a mapping of names to entries, or a list of entries with names."""

    keys: tuple[str, ...]
    is_list: bool = False
    name_key: str = "name"

    def __str__(self) -> str:
        return " → ".join(shown(key) for key in self.keys) or "the top level"


class Place(NamedTuple):
    """A place in a document as editors count: both from 1, in characters, without a byte order mark."""

    line: int
    column: int


class Refused(UserError):
    """The document cannot be edited safely, and is as it was. Names what is in the way, never a value."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(
            f"line {place.line}, column {place.column}: {message}" if place else message,
            code="edit_refused",
            hint="put that right and try again, or make the change by hand",
        )
        self.place = place


class Format(Protocol):
    """How documents of one format are read and edited. A blank document is an empty one."""

    def read(self, data: bytes) -> Value:
        """What the document says, strictly by the rules of the format. Raises Refused."""

    def put(self, data: bytes, section: Section, name: str, entry: dict[str, Value]) -> bytes:
        """Make the entry of that name equal to `entry`; there may be none, nor the section. Raises Refused.

        Members that stay the same keep their bytes and comments.
        """

    def remove(self, data: bytes, section: Section, name: str) -> bytes:
        """Without the entry of that name; as it is if there is none. The section stays. Raises Refused."""


class Reading(NamedTuple):
    """What is compared of a document: its data, and the comments outside the entry, in their order."""

    value: object
    comments: tuple[str, ...]


def complete(section: Section, name: str, entry: dict[str, Value]) -> dict[str, Value]:
    """The entry as it stands in the document: in a list it has its name in it, first."""
    return {section.name_key: name, **entry, section.name_key: name} if section.is_list else entry


def check(
    before: Reading, after: Reading, section: Section, name: str, entry: dict[str, Value] | None
) -> None:
    """Refuse an edit that did anything but make the entry `entry` (None: take it out).

    Beside the entry all data, the order of keys and the comments must be the same; a section that was missing
    (or is null, as an empty one is in YAML) counts as an empty one, the last in its mapping.
    """
    rest_before, _ = _taken_out(before.value, section, name)
    rest_after, found = _taken_out(after.value, section, name)
    wanted = [] if entry is None else [complete(section, name, entry)]
    if not same(found, wanted) or not same(rest_before, rest_after, ordered=True):
        raise Refused(f"the entry {shown(name)} could not be edited without changing other data")
    if before.comments != after.comments:
        raise Refused(f"the entry {shown(name)} could not be edited without touching a comment")


def same(one: object, other: object, *, ordered: bool = False) -> bool:
    """Are they the same data? Strictly: 1 is neither true nor 1.0. `ordered`: with keys in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        keys_agree = list(one) == list(other) if ordered else one.keys() == other.keys()
        return keys_agree and all(same(value, other[key], ordered=ordered) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            same(mine, theirs, ordered=ordered) for mine, theirs in zip(one, other, strict=True)
        )
    return one == other or (one != one and other != other)  # noqa: PLR0124 - NaN is like NaN


def _taken_out(value: object, section: Section, name: str) -> tuple[object, list[object]]:
    """A document without the entry, its section made if it was missing; and the entries taken out."""
    root: dict[str, object] = {"": value}
    holder, last = root, ""
    for key in section.keys:
        inner = _mapping(holder[last])
        inner.setdefault(key, None)
        holder[last] = inner
        holder, last = inner, key
    if section.is_list:
        items = _list(holder[last])
        holder[last] = [item for item in items if not _is_named(item, section, name)]
        return root[""], [item for item in items if _is_named(item, section, name)]
    entries = _mapping(holder[last])
    taken = [entries.pop(name)] if name in entries else []
    holder[last] = entries
    return root[""], taken


def _mapping(value: object) -> dict[str, object]:
    if value is not None and not isinstance(value, dict):
        raise Refused("a list or a plain value is where a mapping must be")
    return dict(value or {})


def _list(value: object) -> list[object]:
    if value is not None and not isinstance(value, list):
        raise Refused("something else is where a list of entries must be")
    return value or []


def _is_named(item: object, section: Section, name: str) -> bool:
    return isinstance(item, dict) and item.get(section.name_key) == name


def decoded(data: bytes) -> tuple[str, str]:
    """A document as (its byte order mark or nothing, its text). Raises Refused if it is not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix(BOM)
        raise Refused("this is not UTF-8 text", place_of(before, len(before))) from None
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


def place_of(text: str, offset: int) -> Place:
    """Where in a text an offset is; lines end with LF, CR LF or CR."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return Place(before.count("\n") + 1, offset - _line_start(text, offset) + 1)


def _line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def shown(name: str) -> str:
    """A key or a name as it can be shown: in quotes, without control characters, of bounded length."""
    return json.dumps(name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…")
