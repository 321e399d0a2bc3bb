"""Where in a file each key stands: for what can be read, but is wrong.

The parsers tell the place of what they cannot read, and nothing of what they can. So the text is walked once
more, by a walker that only knows where keys and values begin and end, because it is known to be well-formed.
Pure. A path is of names, and numbers in lists: `("servers", "time", "args", 0)`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Keys", "Place", "json_offsets", "nearest", "place_at", "toml_offsets", "without_comments"]

Keys = tuple[str | int, ...]

DEEPEST = 5
"""No key that means anything stands deeper."""

_BLANKS = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}\n#]*")
_JSON_BLANKS = re.compile(r"[ \t\r\n]*")
_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_JSON_NOISE = re.compile(rf'"(?:\\.|[^"\\\n])*"|{_COMMENT}|,(?=(?:[ \t\r\n]|{_COMMENT})*[\]}}])', re.DOTALL)


class Place(NamedTuple):
    """Both are counted from 1, in characters."""

    line: int
    column: int


def place_at(text: str, offset: int) -> Place:
    """Where that character stands."""
    return Place(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def nearest(offsets: Mapping[Keys, int], keys: Keys) -> int:
    """The offset of that very key; of what it is in, if it has none of its own."""
    while keys and keys not in offsets:
        keys = keys[:-1]
    return offsets.get(keys, 0)


def toml_offsets(text: str) -> dict[Keys, int]:
    """Of a text that `tomllib` has read."""
    walker = _TomlWalker(text)
    walker.walk()
    return walker.offsets


class _TomlWalker:
    def __init__(self, text: str) -> None:
        self.offsets: dict[Keys, int] = {}
        self._text = text
        self._at = 0

    def walk(self) -> None:
        table: Keys = ()
        while self._skip(_BETWEEN) < len(self._text):
            if self._text[self._at] == "[":
                brackets = 2 if self._text.startswith("[[", self._at) else 1
                self._at += brackets
                table = self._keys(())
                self._at += brackets
            else:
                self._member(table)

    def _skip(self, blank: re.Pattern[str]) -> int:
        found = blank.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _keys(self, table: Keys) -> Keys:
        """A name, or some with dots between; each that is new stands here."""
        while True:
            begins_at = self._skip(_BLANKS)
            table = (*table, self._key())
            self.offsets.setdefault(table, begins_at)
            self._skip(_BLANKS)
            if self._text[self._at] != ".":
                return table
            self._at += 1

    def _key(self) -> str:
        begins_at = self._at
        if self._text[begins_at] in "\"'":
            self._skip(_TEXT)
            return str(tomllib.loads(f"key = {self._text[begins_at : self._at]}")["key"])
        self._skip(_BARE_KEY)
        return self._text[begins_at : self._at]

    def _member(self, table: Keys) -> None:
        keys = self._keys(table)
        self._at += 1  # the equals sign
        self._value(keys)

    def _value(self, keys: Keys) -> None:
        first = self._text[self._skip(_BETWEEN)]
        if first == "[":
            self._items("]", lambda number: self._item((*keys, number)))
        elif first == "{":
            self._items("}", lambda _: self._member(keys))
        else:
            self._skip(_TEXT if first in "\"'" else _BARE_VALUE)

    def _item(self, keys: Keys) -> None:
        self.offsets[keys] = self._at
        self._value(keys)

    def _items(self, closing: str, walk_one: Callable[[int], None]) -> None:
        self._at += 1
        number = 0
        while self._text[self._skip(_BETWEEN)] != closing:
            walk_one(number)
            number += 1
            if self._text[self._skip(_BETWEEN)] == ",":
                self._at += 1
        self._at += 1


def without_comments(text: str) -> str:
    """JSON as editors let people write it, with comments and commas at the end blanked out: each character
    that is left stands where it stood."""
    return _JSON_NOISE.sub(lambda found: found[0] if found[0][0] == '"' else _blanked(found[0]), text)


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def json_offsets(text: str) -> tuple[dict[Keys, int], list[Keys]]:
    """Of a text that `json` has read; and which keys are there twice: the second one stands at the offset."""
    walker = _JsonWalker(text)
    walker.value((), 0)
    return walker.offsets, walker.repeated


class _JsonWalker:
    def __init__(self, text: str) -> None:
        self.offsets: dict[Keys, int] = {}
        self.repeated: list[Keys] = []
        self._text = text
        self._decoder = json.JSONDecoder()

    def value(self, keys: Keys, at: int) -> int:
        """Walk over the value that begins here, or after blanks; where it ends."""
        at = self._skip(at)
        if len(keys) >= DEEPEST or self._text[at] not in "[{":
            return self._decoder.raw_decode(self._text, at)[1]
        number, closing = 0, "]" if self._text[at] == "[" else "}"
        at = self._skip(at + 1)
        while self._text[at] != closing:
            at = self._skip(self._item(keys, number, at) if closing == "]" else self._member(keys, at))
            number += 1
            if self._text[at] == ",":
                at = self._skip(at + 1)
        return at + 1

    def _item(self, keys: Keys, number: int, at: int) -> int:
        self.offsets[*keys, number] = at
        return self.value((*keys, number), at)

    def _member(self, keys: Keys, at: int) -> int:
        name, ends_at = self._decoder.raw_decode(self._text, at)
        if (*keys, name) in self.offsets:
            self.repeated.append((*keys, name))
        self.offsets[*keys, name] = at
        return self.value((*keys, name), self._skip(ends_at) + 1)

    def _skip(self, at: int) -> int:
        found = _JSON_BLANKS.match(self._text, at)
        return found.end() if found else at
