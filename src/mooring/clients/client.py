"""One AI client: where its files are, what an entry in them looks like, when it notices a change.

Values of the table (`table.py`), which has checked them.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from mooring.clients.editing.edits import Format, Refused, Section, Value
from mooring.clients.machine import Platform

__all__ = [
    "EXPANSIONS",
    "URL_KEYS",
    "Client",
    "Confidence",
    "Detection",
    "FormatName",
    "HttpShape",
    "Kind",
    "Mode",
    "Place",
    "Project",
    "Reload",
    "StdioShape",
    "keys_of",
]

FormatName: TypeAlias = Literal["json", "jsonc", "json5", "toml", "yaml"]
Mode: TypeAlias = Literal["watch", "watch_prompt", "poll", "command", "session", "restart", "unknown"]
Kind: TypeAlias = Literal["cli", "ide", "extension", "plugin", "desktop", "server", "terminal"]
Confidence: TypeAlias = Literal["high", "medium", "low"]

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

URL_KEYS = ("url", "httpUrl", "serverUrl", "uri", "baseUrl")
"""Keys that some client has a URL under."""


class HttpShape(Struct, frozen=True, forbid_unknown_fields=True):
    """How an entry says that a server is at a URL."""

    url: str = "url"
    headers: str | None = "headers"
    """The key of the map of headers, or a pointer to it; None: there can be none."""
    fixed: dict[str, Any] = {}
    """What such an entry always has. `{name}` is the server's name, `{word}` that without hyphens."""
    initial: dict[str, Any] = {}
    """What a new entry has; from then on it is the user's."""
    sse_url: str | None = None
    """The key of a URL that is spoken to in the old way (SSE), where a client tells them apart by it."""
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
    """What it reacts to. `content`: an entry that is what it was before is left alone."""
    settle_s: float = 2.0
    """How long it needs to notice that an entry is gone."""
    next: str = ""
    """What the user has to do, in words; empty: see `entries.what_next`."""

    @property
    def may_notice(self) -> bool:
        """May a change be noticed without the user?"""
        return self.mode in ("watch", "watch_prompt", "poll", "unknown")


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
    """Templates, the first that exists counts. None for a platform: not there, or it must be told where."""
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
    other_section: str
    """Where a document of another version has its entries: such a one is not edited."""
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
    def shape(self) -> HttpShape | StdioShape:
        """Of the entries that are written: a URL where the client takes one, else a command."""
        shape = self.http or self.stdio
        if shape is None:
            raise LookupError(f"{self.id} can be given no entry")
        return shape

    @property
    def editor(self) -> Format:
        """What edits files of this client."""
        editor = _editor(self.format)
        return _Particular(editor, self) if self.seed or self.other_section else editor


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


class _Particular:
    """A format for a client that does not take every document of it."""

    def __init__(self, editor: Format, client: Client) -> None:
        self._editor = editor
        self._seed = client.seed.encode()
        self._other = keys_of(client.other_section) if client.other_section else ()

    def read(self, data: bytes) -> Value:
        return self._editor.read(data)

    def put(self, data: bytes, section: Section, name: str, entry: dict[str, Value]) -> bytes:
        if self._other and _has_entries(self._editor.read(data), self._other):
            raise Refused(f"entries stand in {Section(self._other)} here, where Mooring does not edit them")
        return self._editor.put(data if data.strip() else self._seed, section, name, entry)

    def remove(self, data: bytes, section: Section, name: str) -> bytes:
        return self._editor.remove(data, section, name)


def _has_entries(value: Value, keys: tuple[str, ...]) -> bool:
    """Is there a map with nothing but maps in it, which is no entry itself?"""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values())


def keys_of(pointer: str) -> tuple[str, ...]:
    """The keys of an RFC 6901 pointer; what does not begin with a slash is one key."""
    if not pointer.startswith("/"):
        return (pointer,)
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/"))
