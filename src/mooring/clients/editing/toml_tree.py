"""A TOML document as statements that know where they stand. `tomllib` has read it before: it is sound."""

import re
import tomllib
from collections.abc import Callable
from typing import Any, NamedTuple

from mooring.clients.editing.edits import MOST_DEPTH, Refused, place_of
from mooring.clients.editing.splices import Extent

__all__ = ["Inline", "Path", "Statement", "parse", "scan", "scan_value"]

Path = tuple[str | int, ...]
"""Names, and numbers in lists: `("mcp_servers", 0, "env")`."""

_BLANKS = re.compile(r"[ \t]*+")
_BETWEEN = re.compile(r"(?:[ \t\r\n]++|(#[^\r\n]*+))")
_TEXT = re.compile(
    r'"""(?:\\.|[^\\"]++|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*'{3,5}"
    r'|"(?:\\.|[^"\\]++)*"'
    r"|'[^']*+'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")
_BARE_VALUE = re.compile(r"[^,\]}\r\n#]*+")
_ERROR_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")


class Inline(NamedTuple):
    """A value: what is between its brackets, if it has some."""

    start: int
    end: int
    keys: tuple[Path, ...] = ()
    """Of a table's parts; a list's have none."""
    parts: tuple["Inline", ...] = ()
    extents: tuple[Extent, ...] = ()

    @property
    def inside(self) -> Extent:
        """Between the brackets."""
        return self.start + 1, self.end - 1


class Statement(NamedTuple):
    """A header (`value` is None), or a key with its value."""

    path: Path
    table: Path
    """Under whose header it stands."""
    start: int
    end: int
    value: Inline | None


def parse(text: str) -> dict[str, Any]:
    """As `tomllib` reads it. Refused, with the place, if it is no TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _ERROR_PLACE.search(message)
        place = place_of(text, len(text))
        if found and found[1]:
            place = place._replace(line=int(found[1]), column=int(found[2]))
        raise Refused(f"this is not TOML: {_ERROR_PLACE.sub('', message)}", place) from None
    except ValueError:  # a number of more digits than Python converts
        raise Refused("there is a value in this that cannot be read") from None
    except RecursionError:
        raise Refused(f"this is more than {MOST_DEPTH} levels deep") from None


def scan(text: str) -> tuple[list[Statement], list[Extent]]:
    """Its statements, and where its comments are."""
    scanner = _Scanner(text)
    return scanner.statements(), scanner.comments


def scan_value(text: str, start: int = 0) -> Inline:
    """The value that begins there."""
    return _Scanner(text, start).value(0)


class _Scanner:
    def __init__(self, text: str, at: int = 0) -> None:
        self.comments: list[Extent] = []
        self._text = text
        self._at = at
        self._lists: dict[Path, int] = {}
        """The number of the last item of each list that is written with headers."""

    def statements(self) -> list[Statement]:
        found: list[Statement] = []
        table: Path = ()
        while self._between() < len(self._text):
            start = self._at
            if self._text[start] == "[":
                table = self._header()
                found.append(Statement(table, table, start, self._at, None))
            else:
                path = table + self._keys()
                self._at += 1  # the equals sign
                value = self.value(len(path))
                found.append(Statement(path, table, start, value.end, value))
        return found

    def value(self, depth: int) -> Inline:
        """With what is in it."""
        start = self._skip(_BLANKS)
        if depth > MOST_DEPTH:
            raise Refused(f"this is more than {MOST_DEPTH} levels deep", place_of(self._text, start))
        if self._text[start] == "[":
            return self._brackets("]", start, lambda: ((), self.value(depth + 1)))
        if self._text[start] == "{":
            return self._brackets("}", start, lambda: self._member(depth))
        if self._text[start] in "\"'":
            return Inline(start, self._skip(_TEXT))
        words = self._text[start : self._skip(_BARE_VALUE)].rstrip(" \t")
        self._at = start + len(words)
        return Inline(start, self._at)

    def _member(self, depth: int) -> tuple[Path, Inline]:
        keys = self._keys()
        self._at += 1  # the equals sign
        return keys, self.value(depth + len(keys))

    def _brackets(self, closing: str, start: int, one: Callable[[], tuple[Path, Inline]]) -> Inline:
        self._at += 1
        keys, parts, extents = [], [], []
        while self._text[self._between()] != closing:
            begins_at = self._at
            key, part = one()
            keys.append(key)
            parts.append(part)
            extents.append((begins_at, part.end))
            if self._text[self._between()] == ",":
                self._at += 1
        self._at += 1
        return Inline(start, self._at, tuple(keys) if closing == "}" else (), tuple(parts), tuple(extents))

    def _header(self) -> Path:
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        *around, last = self._keys()
        self._at += brackets
        path: Path = ()
        for key in around:
            path = self._with_number((*path, key))
        path = (*path, last)
        if brackets == 2:
            self._lists[path] = self._lists.get(path, -1) + 1
        return self._with_number(path)

    def _with_number(self, path: Path) -> Path:
        return (*path, self._lists[path]) if path in self._lists else path

    def _keys(self) -> Path:
        """A name, or some with dots between."""
        start, keys = self._at, []
        while True:
            keys.append(self._key(self._skip(_BLANKS)))
            if len(keys) > MOST_DEPTH:
                raise Refused(f"this is more than {MOST_DEPTH} levels deep", place_of(self._text, start))
            if self._text[self._skip(_BLANKS)] != ".":
                return tuple(keys)
            self._at += 1

    def _key(self, start: int) -> str:
        if self._text[start] in "\"'":
            self._skip(_TEXT)
            return str(tomllib.loads(f"key = {self._text[start : self._at]}")["key"])
        return self._text[start : self._skip(_BARE_KEY)]

    def _between(self) -> int:
        """Past white space and comments."""
        while found := _BETWEEN.match(self._text, self._at):
            self._at = found.end()
            if found[1]:
                self.comments.append(found.span())
        return self._at

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at
