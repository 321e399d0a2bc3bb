"""The AI clients that are known, as data: `table.yaml`, read and checked.

Adding a client is one entry there and its golden files. Whatever follows from the data alone is checked when
it is loaded, so that whoever has a `Client` need not: every template has fields that exist, every id is there
once, every client can be given an entry.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mooring.clients.client import (
    EXPANSIONS,
    Client,
    Confidence,
    Detection,
    FormatName,
    HttpShape,
    Kind,
    Mode,
    Place,
    Project,
    Reload,
    StdioShape,
    keys_of,
)
from mooring.clients.editing.edits import Section
from mooring.clients.machine import FIELDS, Platform, fields_of

__all__ = [
    "TABLE",
    "Broken",
    "Client",
    "HttpShape",
    "Reload",
    "StdioShape",
    "by_hand",
    "load_table",
    "table_from",
]

TABLE = Path(__file__).with_name("table.yaml")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Broken(ValueError):
    """The table is not what it must be; says which client and what."""


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One client as it stands in the table: what is usual is left out."""

    id: str
    name: str
    kind: Kind
    confidence: Confidence
    files: str | list[str] | dict[Platform, str | list[str]]
    detect: Detection
    reload: Mode | Reload = "unknown"
    format: FormatName = "jsonc"
    section: str = "/mcpServers"
    container: Literal["map", "list"] = "map"
    env_override: dict[str, str] = {}
    pick: Literal["file", "folder"] = "file"
    create: tuple[str, ...] = ()
    pointer_file: str = ""
    legacy: list[str | Place] = []
    legacy_unless: str = ""
    not_beside: str = ""
    seed: str = ""
    other_section: str = ""
    project: list[str] | Project | None = None
    http: HttpShape | None = HttpShape()
    stdio: StdioShape | None = StdioShape()
    switched_off: dict[str, Any] = {}
    expands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    clients: list[dict[str, Any]]
    by_hand: dict[str, str] = {}


@cache
def load_table() -> Mapping[str, Client]:
    """All clients by their ids, in the order of the table. Raises Broken."""
    return table_from(TABLE.read_bytes())


@cache
def by_hand() -> Mapping[str, str]:
    """Clients without a file that could be edited: by their ids, where in them a server is added."""
    return _document(TABLE.read_bytes()).by_hand


def table_from(data: bytes) -> Mapping[str, Client]:
    """The clients of a table. Raises Broken."""
    table: dict[str, Client] = {}
    said: dict[str, dict[str, Any]] = {}
    for given in _document(data).clients:
        row = _row(given, said)
        if row.id in table:
            raise Broken(f"{row.id}: there are two of it")
        table[row.id] = _client(row)
    return table


def _document(data: bytes) -> _Document:
    import yaml  # noqa: PLC0415 - slow to load

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return msgspec.convert(yaml.load(data, loader), _Document)  # noqa: S506 - it is a safe one
    except msgspec.ValidationError as error:
        raise Broken(str(error)) from None


def _row(given: dict[str, Any], said: dict[str, dict[str, Any]]) -> _Row:
    """A client as the table has it; `said` has those above, for whoever is like one of them."""
    name, like = str(given.get("id", "a client without an id")), str(given.get("like", ""))
    if like and like not in said:
        raise Broken(f"{name}: there is no {like} above it to be like")
    whole = said.get(like, {}) | {key: value for key, value in given.items() if key != "like"}
    said[name] = whole
    try:
        return msgspec.convert(whole, _Row)
    except msgspec.ValidationError as error:
        raise Broken(f"{name}: {error}") from None


def _client(row: _Row) -> Client:
    for trouble in _troubles(row):
        raise Broken(f"{row.id}: {trouble}")
    project = Project(_project_files(row)) if isinstance(row.project, list) else row.project
    return Client(
        id=row.id,
        name=row.name,
        kind=row.kind,
        confidence=row.confidence,
        format=row.format,
        section=Section(keys_of(row.section), row.container == "list"),
        files=_per_platform(row.files),
        env_override=row.env_override,
        pick=row.pick,
        create=row.create,
        pointer_file=row.pointer_file,
        legacy=tuple(Place(old) if isinstance(old, str) else old for old in row.legacy),
        legacy_unless=row.legacy_unless,
        not_beside=row.not_beside,
        seed=row.seed,
        other_section=row.other_section,
        project=project,
        http=row.http,
        stdio=row.stdio,
        switched_off=row.switched_off,
        expands=row.expands,
        reload=Reload(row.reload) if isinstance(row.reload, str) else row.reload,
        detect=row.detect,
        notes=row.notes,
    )


def _per_platform(
    files: str | list[str] | dict[Platform, str | list[str]],
) -> dict[Platform, tuple[str, ...]]:
    given = files if isinstance(files, dict) else dict.fromkeys(Platform, files)
    each = {platform: given.get(platform, []) for platform in Platform}
    return {platform: (some,) if isinstance(some, str) else tuple(some) for platform, some in each.items()}


def _troubles(row: _Row) -> Iterator[str]:
    """What the types of a row do not tell."""
    if not _ID.fullmatch(row.id):
        yield "an id is words of a-z and 0-9 with hyphens"
    for pointer in (row.section, *((row.other_section,) if row.other_section else ())):
        if not pointer.startswith("/") or "" in keys_of(pointer):
            yield f"{pointer!r} is no pointer to a section"
    if row.http is None and row.stdio is None:
        yield "it can be given no entry: neither http nor stdio"
    if row.http and row.http.headers is not None and "" in keys_of(row.http.headers):
        yield f"{row.http.headers!r} is no pointer to headers"
    for expansion in row.expands:
        if expansion not in EXPANSIONS:
            yield f"{expansion!r} is no expansion that is known"
    yield from _path_troubles(row)


def _path_troubles(row: _Row) -> Iterator[str]:
    files = {template for some in _per_platform(row.files).values() for template in some}
    if not files and not row.env_override:
        yield "it has no file on any platform"
    for template, fields in _templates(row):
        if unknown := fields_of(template) - fields:
            yield f"{template!r} has {', '.join(sorted(unknown))}, which is not known there"
        if not template.startswith(("{", "/", "C:/")):
            yield f"{template!r} is not absolute"
    for template in set(row.create) - files - set(_project_files(row)):
        yield f"{template!r} is to be created and no candidate"
    if row.legacy_unless and not all(isinstance(old, str) for old in row.legacy):
        yield "an old file that may count must be of the same form as the new one"
    if bool(row.pointer_file) != any("{pointed}" in template for template in files):
        yield "pointer_file and {pointed} go together"


def _templates(row: _Row) -> Iterator[tuple[str, frozenset[str]]]:
    """Every template of a row, and the fields it may have."""
    common = FIELDS - {"project", "value", "pointed"}
    pointed = common | {"pointed"}
    yield from ((template, pointed) for some in _per_platform(row.files).values() for template in some)
    yield from ((template, common | {"value"}) for template in row.env_override.values())
    yield from ((old if isinstance(old, str) else old.file, common) for old in row.legacy)
    yield from ((template, frozenset({"project"})) for template in _project_files(row))
    alone = (row.legacy_unless, row.not_beside, row.pointer_file, *row.detect.paths)
    yield from ((template, common) for template in alone if template)


def _project_files(row: _Row) -> tuple[str, ...]:
    return row.project.files if isinstance(row.project, Project) else tuple(row.project or ())
