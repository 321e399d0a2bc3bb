"""Reading JSON, JSONC and JSON5 with the place of everything: what an edit by splicing needs to know.

Linear in the length of the text: no pattern goes back over what it has taken. Possessive quantifiers see to
it, on single characters only: with groups they can match wrongly before Python 3.11.5.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from mooring.clients.editing.edits import MOST_DEPTH, Refused, Value, place_of, shown

__all__ = ["Comment", "Container", "Dialect", "Element", "scan"]

_JSON_BLANKS = "\t\n\r "
_JSON5_BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_JSON_TEXTS = {'"': re.compile(r'[^"\\\x00-\x1f]*+')}
_JSON5_TEXTS = {quote: re.compile(rf"[^{quote}\\\n\r]*+") for quote in "\"'"}
_JSON_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_JSON5_ESCAPE = re.compile(r"\\(?:\r\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|0(?![0-9])|[^0-9xu])")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_JSON5_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]++|Infinity|NaN"
    r"|(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
)
# The short ways, for what most of a document is made of: no escapes, and no comments between.
_PLAIN_KEY = re.compile(r'"([^"\\\x00-\x1f]*+)"[\t\n\r ]*+:[\t\n\r ]*+')
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*+)"')
_PLAIN_COMMA = re.compile(r"[\t\n\r ]*+(,?)[\t\n\r ]*+")
_WORD = re.compile(r"true|false|null")
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None}
_JSON5_NAME = re.compile(r"[\w$\u200c\u200d\\]++")
_MOST_BITS = 1024
"""Of a number; a larger one is infinite for whoever reads JSON5 with JavaScript."""
_NAME_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}")
_ONE_CHARACTER = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


@dataclass(frozen=True, eq=False)
class Dialect:
    """What of the family a reader takes."""

    name: str
    has_comments: bool = True
    has_trailing_commas: bool = True
    is_json5: bool = False

    @property
    def blanks(self) -> str:
        """The characters that are white space."""
        return _JSON5_BLANKS if self.is_json5 else _JSON_BLANKS


class Comment(NamedTuple):
    """From its first slash to its end, which is before the line break if it is one of a line."""

    start: int
    end: int


@dataclass(slots=True)
class Element:
    """A member of an object, or an item of a list; or the value that is the document."""

    key: str | None
    start: int
    value_start: int
    end: int
    comma: int | None
    """Where the comma after it is."""
    value: Value
    inside: "Container | None"
    """What the value is made of, if it is an object or a list."""


@dataclass(slots=True)
class Container:
    """An object or a list, from its opening bracket to after the closing one."""

    start: int
    end: int
    is_object: bool
    elements: list[Element]
    """As far down as was asked for."""
    value: Value


def scan(text: str, dialect: Dialect, deepest: int = MOST_DEPTH) -> tuple[Element | None, list[Comment]]:
    """The document, or None if it is blank but for comments; and the comments. Raises Refused.

    Containers inside `deepest` others or more have no elements: of a large document only few are needed.
    """
    scanner = _Scanner(text, dialect, deepest)
    return scanner.document(), scanner.comments


class _Scanner:
    def __init__(self, text: str, dialect: Dialect, deepest: int) -> None:
        self.text = text
        self.dialect = dialect
        self.deepest = deepest
        self.comments: list[Comment] = []
        self._gap_begins = {"/", *dialect.blanks}
        self._blanks = re.compile(f"[{dialect.blanks}]*+")
        self._line = re.compile("[^\n\r\u2028\u2029]*+" if dialect.is_json5 else "[^\n\r]*+")
        self._number = _JSON5_NUMBER if dialect.is_json5 else _JSON_NUMBER
        self._texts = _JSON5_TEXTS if dialect.is_json5 else _JSON_TEXTS
        self._escape = _JSON5_ESCAPE if dialect.is_json5 else _JSON_ESCAPE

    def document(self) -> Element | None:
        start = self._gap(0)
        if start == len(self.text):
            return None
        value, inside, end = self._value(start, 1)
        after = self._gap(end)
        if after < len(self.text):
            raise self._refusal(after, "the document has ended before this")
        return Element(None, start, start, end, None, value, inside)

    def _gap(self, at: int) -> int:
        """Past white space and comments."""
        while True:
            at = self._blanks.match(self.text, at).end()  # type: ignore[union-attr]  # it matches nothing too
            if self.text[at : at + 1] != "/":
                return at
            at = self._comment(at)

    def _comment(self, at: int) -> int:
        if not self.dialect.has_comments:
            raise self._refusal(at, f"{self.dialect.name} has no comments")
        if self.text.startswith("//", at):
            end = self._line.match(self.text, at).end()  # type: ignore[union-attr]
        elif self.text.startswith("/*", at):
            end = self.text.find("*/", at + 2) + 2
            if end < 2:
                raise self._refusal(at, "this comment has no end")
        else:
            raise self._refusal(at, "a lone slash is neither a comment nor a value")
        self.comments.append(Comment(at, end))
        return end

    def _value(self, at: int, depth: int) -> tuple[Value, Container | None, int]:
        first = self.text[at : at + 1]
        if plain := _PLAIN_STRING.match(self.text, at):
            return plain[1], None, plain.end()
        if first in ("{", "["):
            container = self._container(at, depth)
            return container.value, container, container.end
        if number := self._number.match(self.text, at):
            return _number(number[0]), None, number.end()
        if word := _WORD.match(self.text, at):
            return _WORDS[word[0]], None, word.end()
        if first in self._texts:
            string, end = self._string(at)
            return string, None, end
        raise self._refusal(
            at, "a value must be here" if first else "the document ends where a value must be"
        )

    def _container(self, start: int, depth: int) -> Container:
        if depth > MOST_DEPTH:
            raise self._refusal(start, f"more than {MOST_DEPTH} objects and lists are inside each other")
        is_object = self.text[start] == "{"
        close = "}" if is_object else "]"
        elements: list[Element] = []
        members: dict[str, Value] = {}
        items: list[Value] = []
        at = self._gap(start + 1)
        while self.text[at : at + 1] != close:
            element_start, key = at, None
            if is_object:
                key, at = self._key_and_colon(at)
                if key in members:
                    raise self._refusal(element_start, f"the key {shown(key)} is here for the second time")
            value_start = at
            value, inside, end = self._value(at, depth + 1)
            comma, at = self._comma(end, close)
            if key is None:
                items.append(value)
            else:
                members[key] = value
            if depth <= self.deepest:
                elements.append(Element(key, element_start, value_start, end, comma, value, inside))
        return Container(start, at + 1, is_object, elements, members if is_object else items)

    def _key_and_colon(self, at: int) -> tuple[str, int]:
        """A key, and where its value begins."""
        if plain := _PLAIN_KEY.match(self.text, at):
            key, at = plain[1], plain.end()
            return key, at if self.text[at : at + 1] not in self._gap_begins else self._gap(at)
        key, at = self._key(at)
        at = self._gap(at)
        if self.text[at : at + 1] != ":":
            raise self._refusal(at, "a colon must be here, after a key")
        return key, self._gap(at + 1)

    def _comma(self, end: int, close: str) -> tuple[int | None, int]:
        """The comma after an element, if there is one; and where the next one or the closing bracket is."""
        plain = _PLAIN_COMMA.match(self.text, end)
        if plain and self.text[plain.end() : plain.end() + 1] not in self._gap_begins:
            comma, at = plain.start(1) if plain[1] else None, plain.end()
        else:
            at = self._gap(end)
            comma, at = (at, self._gap(at + 1)) if self.text[at : at + 1] == "," else (None, at)
        following = self.text[at : at + 1]
        if comma is None and following != close:
            raise self._refusal(
                at, f"a comma or '{close}' must be here" if following else f"'{close}' is missing"
            )
        if comma is not None and following == close and not self.dialect.has_trailing_commas:
            raise self._refusal(comma, f"{self.dialect.name} has no comma after the last one")
        return comma, at

    def _key(self, at: int) -> tuple[str, int]:
        first = self.text[at : at + 1]
        if first in self._texts:
            return self._string(at)
        name = _JSON5_NAME.match(self.text, at) if self.dialect.is_json5 else None
        if name is None:
            raise self._refusal(at, "a key in quotes, or '}', must be here" if first else "'}' is missing")
        key = _NAME_ESCAPE.sub(_unescape, name[0])
        if not key.translate({ord("$"): "_", 0x200C: "_", 0x200D: "_"}).isidentifier():
            raise self._refusal(at, "a key such as this needs quotes")
        return key, name.end()

    def _string(self, start: int) -> tuple[str, int]:
        quote = self.text[start]
        pattern = self._texts[quote]
        at = pattern.match(self.text, start + 1).end()  # type: ignore[union-attr]  # it matches nothing too
        while escape := self._escape.match(self.text, at):
            at = pattern.match(self.text, escape.end()).end()  # type: ignore[union-attr]
        fault = self.text[at : at + 1]
        if fault != quote:
            if fault in ("", "\n", "\r"):
                raise self._refusal(start, "this text has no closing quote")
            what = "escape" if fault == "\\" else "control character"
            raise self._refusal(at, f"{self.dialect.name} has no such {what} in a text")
        string = self.text[start + 1 : at]
        if "\\" in string:
            string = _unescaped(string) if self.dialect.is_json5 else json.loads(f'"{string}"')
        return string, at + 1

    def _refusal(self, at: int, message: str) -> Refused:
        return Refused(message, place_of(self.text, at))


def _number(text: str) -> int | float:
    digits = text.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        number = int(digits, 16)
        if number.bit_length() > _MOST_BITS:
            return -math.inf if text[0] == "-" else math.inf
        return -number if text[0] == "-" else number
    try:
        return int(text)
    except ValueError:
        # Not an integer, or one of more digits than Python converts.
        return float(text)


def _unescaped(text: str) -> str:
    """The text of a string of JSON5. Halves of a character, each escaped, become that character."""
    plain = _JSON5_ESCAPE.sub(_unescape, text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescape(escape: re.Match[str]) -> str:
    what = escape[0][1:]
    if len(what) > 1 and what[0] in "xu":
        return chr(int(what[1:], 16))
    return "" if what[0] in "\r\n\u2028\u2029" else _ONE_CHARACTER.get(what, what)
