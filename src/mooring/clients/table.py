"""The AI clients that are known, as data: where their files are, what an entry looks like, when it is noticed.

The data is `table.yaml`; adding a client is one entry there and its golden files. Everything that follows from
the data alone is checked when it is loaded, so that whoever has a `Client` need not: every template has
fields that exist, every id is there once, every client can be given an entry.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from mooring.clients.editing.edits import Format, Section, Value
from mooring.clients.machine import FIELDS, Platform, fields_of

__all__ = [
    "Broken",
    "Client",
    "Detection",
    "EXPANSIONS",
    "FormatName",
    "HttpShape",
    "Place",
    "Project",
    "Reload",
    "StdioShape",
    "keys_of",
    "load_table",
    "table_from",
]

FormatName: TypeAlias = Literal["json", "jsonc", "json5", "toml", "yaml"]
Mode: TypeAlias = Literal["watch", "watch_prompt", "poll", "command", "session", "restart", "unknown"]
Kind: TypeAlias = Literal["cli", "ide", "extension", "plugin", "desktop", "server", "terminal"]
Confidence: TypeAlias = Literal["high", "medium", "low"]

TABLE = Path(__file__).with_name("table.yaml")
EXPANSIONS = {
    "${env:NAME}": r"\$\{env:[^}]+\}",
    "${NAME}": r"\$\{[A-Za-z_]\w*\}",
    "${NAME:-default}": r"\$\{[A-Za-z_]\w*:-[^}]*\}",
    "$NAME": r"\$[A-Za-z_]\w*",
    "%NAME%": r"%[A-Za-z_]\w*%",
    "{env:NAME}": r"\{env:[^}]+\}",
    "{file:PATH}": r"\{file:[^}]+\}",
    "${input:NAME}": r"\$\{input:[^}]+\}",
    "${{ secrets.NAME }}": r"\$\{\{\s*secrets\.[^}]+\}\}",
}
"""Ways in which clients let a value refer to something else, each with the pattern that finds it."""
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Broken(ValueError):
    """The table is not what it must be; says which client and what."""


class HttpShape(Struct, frozen=True, forbid_unknown_fields=True):
    """How an entry says that a server is at a URL."""

    url: str = "url"
    headers: str | None = "headers"
    """The key of the map of headers, or a pointer to it; None: there can be none."""
    fixed: dict[str, Any] = {}
    """What such an entry always has. `{name}` in a text is the name of the server, `{word}` that without hyphens."""
    initial: dict[str, Any] = {}
    """What a new entry has; from then on it is the user's."""
    sse_url: str | None = None
    """The key of a URL that is spoken to in the old way (SSE), where that is how a client tells them apart."""
    bare_is_sse: bool = False
    """Is a URL without a type one of the old way?"""


class StdioShape(Struct, frozen=True, forbid_unknown_fields=True):
    """How an entry says that a server is a command."""

    argv: Literal["split", "list"] = "split"
    """`split`: a program and a list of arguments; `list`: all in one list."""
    command: str = "command"
    args: str = "args"
    env: str = "env"
    cwd: str = "cwd"
    fixed: dict[str, Any] = {}
    initial: dict[str, Any] = {}


class Reload(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client that runs does when its file changes."""

    mode: Mode
    on: Literal["content", "any", "unknown"] = msgspec.field(default="unknown", name="notices")
    """What it reacts to. `content`: an entry that is the same as before is left alone, however often it is written."""
    settle_s: float = 2.0
    """How long it needs to notice that an entry is gone."""
    next: str = ""
    """What the user has to do, in words; empty: see `entries.what_next`."""

    @property
    def is_by_itself(self) -> bool:
        """Is a change noticed without the user?"""
        return self.mode in ("watch", "watch_prompt", "poll")


class Project(Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a client inside a project."""

    files: tuple[str, ...]
    trust: str = ""
    """What the user must do before the client uses what stands there, in words."""


class Detection(Struct, frozen=True, forbid_unknown_fields=True):
    """What there is if a client is."""

    paths: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Of the environment, that name a folder."""


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    """An old file of a client, which may have been of another form."""

    file: str
    section: str | None = None
    format: FormatName | None = None


class Client(Struct, frozen=True):
    """One AI client."""

    id: str
    name: str
    kind: Kind
    confidence: Confidence
    format: FormatName
    section: Section
    files: Mapping[Platform, tuple[str, ...]]
    """Templates, the first that exists counts; none for a platform: it is not there, or it must be told where."""
    env_override: Mapping[str, str]
    """Variables of the environment that say where the file is, and how."""
    pick: Literal["file", "folder"]
    """Which candidate counts: the first that exists, or the first whose folder does."""
    create: tuple[str, ...]
    """Which candidates are created if there is none, instead of the first."""
    pointer_file: str
    """A file that says where the client's folder is: `{pointed}`."""
    legacy: tuple[Place, ...]
    legacy_unless: str
    """An old file that exists counts unless there is this; empty: it never does."""
    not_beside: str
    """No file is created while there is this one, which the client uses instead of it."""
    seed: str
    """What a new document has beside the entries."""
    project: Project | None
    http: HttpShape | None
    stdio: StdioShape | None
    switched_off: Mapping[str, Value]
    """A key and the value by which an entry is switched off."""
    expands: tuple[str, ...]
    reload: Reload
    detect: Detection
    notes: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def editor(self) -> Format:
        """What edits files of this client."""
        editor = _editor(self.format)
        return _Seeded(editor, self.seed.encode()) if self.seed else editor


def _editor(name: FormatName) -> Format:
    # Each is imported when it is needed: the one of YAML is slow to load.
    if name == "toml":
        from mooring.clients.editing.toml import TOML  # noqa: PLC0415

        return TOML
    if name == "yaml":
        from mooring.clients.editing.yaml import YAML  # noqa: PLC0415

        return YAML
    from mooring.clients.editing.json_family import JSON, JSON5, JSONC  # noqa: PLC0415

    return {"json": JSON, "jsonc": JSONC, "json5": JSON5}[name]


class _Seeded:
    """A format whose documents begin with something, or the client does not take them."""

    def __init__(self, editor: Format, seed: bytes) -> None:
        self._editor = editor
        self._seed = seed

    def read(self, data: bytes) -> Value:
        return self._editor.read(data)

    def put(self, data: bytes, section: Section, name: str, entry: dict[str, Value]) -> bytes:
        return self._editor.put(data if data.strip() else self._seed, section, name, entry)

    def remove(self, data: bytes, section: Section, name: str) -> bytes:
        return self._editor.remove(data, section, name)


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
    project: list[str] | Project | None = None
    http: HttpShape | None = HttpShape()
    stdio: StdioShape | None = StdioShape()
    switched_off: dict[str, Any] = {}
    expands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@cache
def load_table() -> Mapping[str, Client]:
    """All clients by their ids, in the order of the table. Raises Broken."""
    return table_from(TABLE.read_bytes())


def table_from(data: bytes) -> Mapping[str, Client]:
    """The clients of a table. Raises Broken."""
    import yaml  # noqa: PLC0415 - slow to load

    document = yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    table: dict[str, Client] = {}
    raw: dict[str, dict[str, Any]] = {}
    for given in document["clients"]:
        base = given.pop("like", None)
        if base is not None and base not in raw:
            raise Broken(f"{given.get('id')}: there is no client {base} above it to be like")
        merged = {**raw.get(base, {}), **given}
        try:
            row = msgspec.convert(merged, _Row)
        except msgspec.ValidationError as error:
            raise Broken(f"{given.get('id')}: {error}") from None
        if row.id in table:
            raise Broken(f"{row.id} is there twice")
        raw[row.id] = merged
        table[row.id] = _client(row)
    return table


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
        project=project,
        http=row.http,
        stdio=row.stdio,
        switched_off=row.switched_off,
        expands=row.expands,
        reload=Reload(row.reload) if isinstance(row.reload, str) else row.reload,
        detect=row.detect,
        notes=row.notes,
    )


def keys_of(pointer: str) -> tuple[str, ...]:
    """The keys of an RFC 6901 pointer; what does not begin with a slash is one key."""
    if not pointer.startswith("/"):
        return (pointer,)
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/"))


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
    if not row.section.startswith("/") or "" in keys_of(row.section):
        yield f"{row.section!r} is no pointer to a section"
    if row.http is None and row.stdio is None:
        yield "it can be given no entry: neither http nor stdio"
    if row.http and row.http.headers is not None and "" in keys_of(row.http.headers):
        yield f"{row.http.headers!r} is no pointer to headers"
    files = _per_platform(row.files)
    if not any(files.values()) and not row.env_override:
        yield "it has no file on any platform"
    for template, fields in _templates(row):
        if unknown := fields_of(template) - fields:
            yield f"{template!r} has {', '.join(sorted(unknown))}, which is not known there"
        if not template.startswith(("{", "/", "C:/")):
            yield f"{template!r} is not absolute"
    known = {template for some in files.values() for template in some} | set(_project_files(row))
    for template in row.create:
        if template not in known:
            yield f"{template!r} is to be created and no candidate"
    if row.legacy_unless and not all(isinstance(old, str) for old in row.legacy):
        yield "an old file that may count is of the same form as the new one"
    for expansion in row.expands:
        if expansion not in EXPANSIONS:
            yield f"{expansion!r} is no expansion that is known"
    if bool(row.pointer_file) != any("{pointed}" in template for some in files.values() for template in some):
        yield "{pointed} and pointer_file go together"


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
