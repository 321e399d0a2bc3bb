"""A text as a document, and what it says of each server; or what is wrong with it, and where.

mooring.toml is ours: every key in it is known, or wrong. The `mcpServers` (or `servers`) of a JSON file are
shared with AI clients: what only those know is left to them, and told.
Pure. Everything that is wrong is told at once.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from mooring.cli.files.offsets import (
    Keys,
    Place,
    json_offsets,
    nearest,
    place_at,
    toml_offsets,
    without_comments,
)
from mooring.cli.files.schema import FIELDS
from mooring.cli.running.addresses import NOT_ELSEWHERE, ONLY_ELSEWHERE
from mooring.cli.running.images import ONLY_OF_IMAGES
from mooring.cli.running.served import wrong_of_served
from mooring.cli.values import parse_name
from mooring.errors import UserError

__all__ = ["BadFile", "Document", "Entry", "Reading", "Remark", "entries_of", "parse"]

_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_MISMATCH = re.compile(r"Expected `([^`]+)`, got `(\w+)`(?: - at `\$\[(\d+)\]`)?")
_IN_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list of texts",
    "object": "a table",
    "null": "null",
}
LIKENESS = 0.6
"""How much an unknown key must be like a known one to be taken for it."""
LIKENESS_IN_JSON = 0.8
"""Where it may also be one that other programs know."""
CLIENTS_NAMES = {"envFile": "env_file", "serverUrl": "url", "httpUrl": "url"}
"""Keys of AI clients that mean one of ours."""
OF_ADDRESSES = (ONLY_ELSEWHERE - {"header"}) | {"headers"}
WAYS = ("command", "from", "image", "url")
"""To say what is run."""
WITH_IMAGES = "an image has a program of its own; what is to follow it are args"
NOT_OF_IMAGES = {
    "cwd": (
        "a container begins in the folder of its image",
        "leave it out; volume shows it a folder of yours",
    ),
    "inherit_env": (
        "a container has the environment of its image",
        "name what it needs of yours: pass_env, or env",
    ),
}
"""Why not, and what to do."""


class Syntax(NamedTuple):
    """How things are called and written."""

    table: str
    hint: str
    """What is wanted of a server."""


TOML = Syntax(
    "a table",
    'write what is run: command = "uvx mcp-server-time", or from = "uvx:PACKAGE", or image = "IMAGE"; '
    'or where it runs already: url = "https://…"',
)
JSON = Syntax(
    "an object",
    'write what is run: {"command": "uvx", "args": ["mcp-server-time"]}, or {"from": "uvx:PACKAGE"}, '
    'or {"image": "IMAGE"}; or where it runs already: {"url": "https://…"}',
)


class Remark(NamedTuple):
    """Something about a place in a file."""

    place: Place
    text: str
    hint: str = ""


class BadFile(UserError):
    """Nothing is done of what it asks for."""

    def __init__(self, shown: str, problems: Iterable[Remark]) -> None:
        self.problems = sorted(set(problems))
        first = self.problems[0]
        text = f"{shown}:{first.place.line}:{first.place.column}: {first.text}"
        super().__init__(text, code="bad_file", hint=first.hint)
        self.shown = shown


class Document(NamedTuple):
    """A file that can be read."""

    shown: str
    """Its name, as it was given."""
    text: str
    data: Mapping[str, Any]
    offsets: Mapping[Keys, int]
    is_json: bool

    def remark(self, keys: Keys, text: str, hint: str = "") -> Remark:
        """About that key."""
        return Remark(place_at(self.text, nearest(self.offsets, keys)), text, hint)


class Entry(NamedTuple):
    """What is said of a server; the types of the values are right."""

    name: str
    keys: Keys
    values: dict[str, Any]
    is_whole: bool
    """Nothing is missing of what was said: there was nothing wrong with it so far."""


class Reading(NamedTuple):
    """All servers, what is wrong with them, and what else is to be told of the file."""

    entries: list[Entry]
    problems: list[Remark]
    notes: list[Remark]


def parse(text: str, shown: str, *, is_json: bool) -> Document:
    """Raises BadFile."""
    try:
        return _parse_json(text, shown) if is_json else _parse_toml(text, shown)
    except RecursionError:
        raise BadFile(shown, [Remark(Place(1, 1), "this is nested too deeply")]) from None


def _parse_toml(text: str, shown: str) -> Document:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.search(str(error))
        place = Place(int(found[1]), int(found[2])) if found and found[1] else place_at(text, len(text))
        raise BadFile(shown, [Remark(place, f"not TOML: {_TOML_PLACE.sub('', str(error))}")]) from None
    return Document(shown, text, data, toml_offsets(text), is_json=False)


def _parse_json(text: str, shown: str) -> Document:
    bare = without_comments(text)
    try:
        data = json.loads(bare)
    except json.JSONDecodeError as error:
        raise BadFile(shown, [Remark(Place(error.lineno, error.colno), f"not JSON: {error.msg}")]) from None
    if not isinstance(data, dict):
        raise BadFile(shown, [Remark(Place(1, 1), "not an object with mcpServers")])
    offsets, repeated = json_offsets(bare)
    document = Document(shown, text, data, offsets, is_json=True)
    if repeated:
        raise BadFile(shown, [document.remark(repeated[0], f"{repeated[0][-1]} is there twice")])
    return document


def entries_of(document: Document) -> Reading:
    """Raises BadFile if it names no servers at all."""
    top = _servers_key(document)
    servers = document.data[top]
    if not isinstance(servers, dict):
        raise BadFile(document.shown, [document.remark((top,), f"{top} is not a table of servers by name")])
    reading = Reading([], [], [])
    for name, said in servers.items():
        keys = (top, name)
        if document.is_json and (why := _left_out(said)):
            reading.notes.append(document.remark(keys, f"{name} is left out: {why}"))
            continue
        checked = _Check(document, keys)
        reading.entries.append(checked.entry(name, said))
        reading.problems.extend(checked.problems)
        reading.notes.extend(checked.notes)
    return reading


def _servers_key(document: Document) -> str:
    known = ("mcpServers", "servers") if document.is_json else ("servers",)
    there = [key for key in known if key in document.data]
    strangers = [key for key in document.data if key not in known]
    if len(there) == 1 and (document.is_json or not strangers):
        return there[0]
    if len(there) > 1:
        text = "both mcpServers and servers are there; keep one of them"
        raise BadFile(document.shown, [document.remark((there[1],), text)])
    if document.is_json or not strangers:
        wanted = '"mcpServers": {"NAME": {"command": …}}' if document.is_json else "[servers.NAME]"
        raise BadFile(document.shown, [Remark(Place(1, 1), "it names no servers", f"write {wanted}")])
    hint = "servers are named so: [servers.NAME]"
    raise BadFile(document.shown, [document.remark((key,), f"{key} is not known", hint) for key in strangers])


def _left_out(said: Any) -> str:
    if not isinstance(said, dict):
        return ""
    return "it is disabled" if said.get("disabled") is True else ""


class _Check:
    """What is said of one server."""

    def __init__(self, document: Document, keys: Keys) -> None:
        self.problems: list[Remark] = []
        self.notes: list[Remark] = []
        self._document = document
        self._keys = keys
        self._syntax = JSON if document.is_json else TOML

    def _wrong(self, keys: Keys, text: str, hint: str = "") -> None:
        self.problems.append(self._document.remark((*self._keys, *keys), text, hint))

    def entry(self, name: str, said: Any) -> Entry:
        self._check_name(name)
        values: dict[str, Any] = {}
        if not isinstance(said, dict):
            self._wrong((), f"{name} is not {self._syntax.table}", self._syntax.hint)
        else:
            for key, value in said.items():
                self._take(key, value, values)
            # In JSON, null is as good as not there.
            there = {key: value for key, value in said.items() if value is not None}
            known = {CLIENTS_NAMES.get(key, key) for key in there} if self._document.is_json else {*there}
            self._check_command(known)
            self._check_image(there)
            self._check_address(there, known)
            self._check_served(there, known)
        return Entry(name, self._keys, values, not self.problems)

    def _check_name(self, name: str) -> None:
        try:
            parse_name(name)
        except ValueError as error:
            better = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
            self._wrong((), str(error), f"for example: {better}" if better and better != name else "")

    def _check_command(self, said: set[str]) -> None:
        ways = [way for way in WAYS if way in said]
        for other in ways[1:]:
            text = f"{ways[0]} and {other} are two ways to say the same; keep one of them"
            self._wrong((other,), text, WITH_IMAGES if other == "image" else "")
        if not ways:
            self._wrong((), f"{self._keys[-1]} has no command", self._syntax.hint)

    def _check_image(self, said: dict[str, Any]) -> None:
        """What only containers can have, and what they cannot."""
        if "image" not in said:
            for key in ONLY_OF_IMAGES & said.keys():
                self._wrong((key,), f"{key} goes only with an image", f"add image, or leave {key} out")
            return
        for key, (why, hint) in NOT_OF_IMAGES.items():
            if said.get(key, False) is not False:
                self._wrong((key,), f"{key} does not go with image: {why}", hint)

    def _check_address(self, said: dict[str, Any], known: set[str]) -> None:
        """What only servers elsewhere can have, and what they cannot."""
        if "url" not in known:
            for key in OF_ADDRESSES & said.keys():
                self._wrong((key,), f"{key} goes only with a url", f"add url, or leave {key} out")
            return
        for key in ({"args"} | NOT_ELSEWHERE) & said.keys():
            if said[key] not in ([], {}, False):  # clients write them so though they mean nothing
                self._wrong((key,), f"{key} means nothing to a server elsewhere", f"leave {key} out")

    def _check_served(self, said: dict[str, Any], known: set[str]) -> None:
        """What only programs can have that speak HTTP, and what they need."""
        wrong = wrong_of_served({**dict.fromkeys(known), **said}, str)
        if wrong is not None:
            self._wrong((wrong.key,), wrong.text, wrong.hint)

    def _take(self, key: str, value: Any, values: dict[str, Any]) -> None:
        """A value whose key is known and whose type is right."""
        is_json = self._document.is_json
        known = CLIENTS_NAMES.get(key, key) if is_json else key
        if known not in FIELDS:
            self._stranger(key)
        elif value is None and is_json:
            pass  # as good as not there
        elif wrong := _mismatch(known, value):
            keys, text = wrong
            self._wrong((key, *keys), text)
        else:
            values[known] = value

    def _stranger(self, key: str) -> None:
        is_json = self._document.is_json
        like = difflib.get_close_matches(key, FIELDS, 1, LIKENESS_IN_JSON if is_json else LIKENESS)
        if like or not is_json:
            better = f"; did you mean {like[0]}?" if like else ""
            self._wrong(
                (key,), f"{key} is not known{better}", "" if like else "docs/configuration.md has all keys"
            )
        elif key != "type":
            self.notes.append(self._document.remark((*self._keys, key), f"{key} means nothing to Mooring"))


def _mismatch(key: str, value: Any) -> tuple[Keys, str] | None:
    """Where in the value the wrong type is, and in words what is wrong."""
    try:
        msgspec.convert(value, FIELDS[key].type)
    except msgspec.ValidationError as error:
        found = _MISMATCH.match(str(error))
        if isinstance(value, dict) and key in ("env", "headers"):
            [name, *_] = [name for name, each in value.items() if not isinstance(each, str)]
            return (name,), f"the value of {name} is not text; put it in quotes"
        expected = (
            " or ".join(_IN_WORDS.get(word, word) for word in found[1].split(" | ")) if found else "another"
        )
        got = _IN_WORDS.get(found[2], found[2]) if found else "this"
        keys = (int(found[3]),) if found and found[3] else ()
        got = "a list" if got.startswith("a list") else got
        return keys, f"{key} takes {expected}, not {got}"
    return None
