"""What a file asks for, as `mooring run` would have it: the same parsers, the same defaults, the same plan.

Whatever keeps a definition from being made is an error of the file, and nothing of the file is done. Whatever
keeps a server from starting (its program is not installed here) costs that server only.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from mooring.cli.files.offsets import Keys, Place
from mooring.cli.files.reading import BadFile, Document, Entry, Remark, entries_of, parse
from mooring.cli.files.schema import RUN_OPTIONS
from mooring.cli.files.secret_looks import (
    looks_secret,
    secret_name,
    value_looks_secret,
    word_looks_secret,
)
from mooring.cli.files.variables import expand, has_variables
from mooring.cli.running.addresses import NOT_ELSEWHERE
from mooring.cli.running.images import engine_at, path_at, volume_at
from mooring.cli.running.plan import check_server, plan_server
from mooring.cli.running.run import run
from mooring.cli.running.sources import parse_source
from mooring.cli.values import (
    parse_assignment,
    parse_engine,
    parse_header,
    parse_variable,
    parse_volume,
)
from mooring.errors import UserError
from mooring.runtimes.containers.spec import Volume
from mooring.secrets.references import anchored
from mooring.workloads.definition import ServerOptions

__all__ = ["MAX_FILE_CHARACTERS", "Asked", "Wanted", "define", "read_file"]

MAX_FILE_CHARACTERS = 1024 * 1024
"""A file of servers is written by hand: a thousand of them are a tenth of this."""
BLAMED = {
    "env_not_set": "pass_env",
    "env_file_unreadable": "env_file",
    "env_file_invalid": "env_file",
    "no_engine": "engine",
    "engine_unsupported": "engine",
}
"""Which key an error of the plan is about."""
OPTIONS = {"headers": "header"}
"""Keys that are called otherwise as options."""


class Wanted(NamedTuple):
    """A server that is asked for."""

    options: ServerOptions
    place: Place
    trouble: UserError | None
    """Why it cannot be started here."""


class Asked(NamedTuple):
    """All that a file asks for."""

    shown: str
    origin: str
    """The file itself, wherever one is."""
    servers: dict[str, Wanted]
    notes: list[Remark]
    warnings: list[Remark]


def read_file(path: Path, environ: Mapping[str, str]) -> Asked:
    """Raises BadFile, or UserError if there is nothing to read."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MAX_FILE_CHARACTERS + 1)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", code="no_file", hint="name one: -f FILE"
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text", code="bad_file", hint="save it as UTF-8") from None
    if len(text) > MAX_FILE_CHARACTERS:
        raise UserError(f"{path} is over {MAX_FILE_CHARACTERS} characters", code="bad_file")
    document = parse(text, str(path), is_json=path.suffix == ".json")
    # The folder as it is, but not where the file itself may be linked to: paths in it begin here.
    origin = path.parent.resolve() / path.name
    return define(document, origin, environ)


def define(document: Document, origin: Path, environ: Mapping[str, str]) -> Asked:
    """Raises BadFile."""
    entries, problems, notes = entries_of(document)
    servers: dict[str, Wanted] = {}
    warnings: list[Remark] = []
    for entry in entries:
        maker = _Maker(document, entry, origin.parent, environ)
        options = maker.make()
        problems += maker.problems
        warnings += _literal_secrets(document, entry)
        if options is not None:
            place = document.remark(entry.keys, "").place
            servers[entry.name] = Wanted(options, place, _trouble(options, entry, is_json=document.is_json))
    if problems:
        raise BadFile(document.shown, problems)
    return Asked(document.shown, str(origin), servers, notes, warnings)


def _trouble(options: ServerOptions, entry: Entry, *, is_json: bool) -> UserError | None:
    try:
        check_server(options)
    except UserError as error:
        if is_json and error.code == "program_not_found":
            error.hint = _of_words(options.argv[0], entry) or error.hint
        return error
    return None


def _of_words(program: str, entry: Entry) -> str:
    """What to do about a program that is a whole command line; nothing if it is not."""
    first, *words = program.split()
    if not words:
        return ""
    args = json.dumps([*words, *entry.values.get("args", ())])
    return f'in JSON the program stands alone: "command": {json.dumps(first)}, "args": {args}'


class _Maker:
    """From one entry to its options."""

    def __init__(self, document: Document, entry: Entry, folder: Path, environ: Mapping[str, str]) -> None:
        self.problems: list[Remark] = []
        self._document = document
        self._entry = entry
        self._folder = folder
        self._environ = environ
        # Without an option for help: click would remember it for the command itself, and not as `cli` has it.
        name = entry.name if entry.is_whole else "unnamed"  # a name that cannot be one was told of already
        self._context = run.make_context(run.name, [name, "--", "command"], help_option_names=[])
        """Of a command line without any options: it has the defaults."""

    def make(self) -> ServerOptions | None:
        """None if something is wrong with it."""
        words = self._command()
        is_program = not {"image", "url"} & self._entry.values.keys()
        given = {**self._context.params, "cwd": str(self._folder) if is_program else None}
        chosen = {key: value for key, value in self._said().items() if key in RUN_OPTIONS}
        if chosen.get("shared") is False:
            del chosen["shared"]  # which is the default
        given |= {key: self._setting(key, value) for key, value in chosen.items()}
        if self.problems or not self._entry.is_whole:
            return None
        try:
            return plan_server(given, chosen, words, self._environ)
        except UserError as error:
            self._wrong((BLAMED.get(error.code, "env"),), error.message, error.hint)
            return None

    def _said(self) -> dict[str, Any]:
        """By the names of options; those that mean nothing to a server elsewhere are empty there."""
        values = {OPTIONS.get(key, key): value for key, value in self._entry.values.items()}
        is_elsewhere = "url" in values
        return {key: value for key, value in values.items() if not (is_elsewhere and key in NOT_ELSEWHERE)}

    def _wrong(self, keys: Keys, text: str, hint: str = "") -> None:
        self.problems.append(self._document.remark((*self._entry.keys, *keys), text, hint))

    def _parsed(self, keys: Keys, read: Callable[[Any], Any], value: Any) -> Any:
        """What a parser makes of a value; None if it cannot."""
        try:
            return read(value)
        except ValueError as error:
            self._wrong(keys, str(error))
        except click.BadParameter as error:
            self._wrong(keys, f"{keys[0]}: {' '.join(error.message.split())}")
        except UserError as error:
            self._wrong(keys, error.message, error.hint)
        return None

    def _expanded(self, keys: Keys, value: str) -> str:
        return str(self._parsed(keys, lambda text: expand(text, self._environ), value) or "")

    def _command(self) -> tuple[str, ...]:
        values = self._entry.values
        if "command" in values:
            words = self._words(values["command"])
        else:
            words = self._source(values["from"]) if "from" in values else []
        args = [self._expanded(("args", n), word) for n, word in enumerate(values.get("args", ()))]
        has_program = {"image", "url"} & values.keys()
        is_missing = not has_program and not (words and words[0].strip())
        if self._entry.is_whole and not self.problems and is_missing:
            self._wrong(("command",), "the command is empty")
        return (*words, *args)

    def _words(self, command: str | list[str]) -> list[str]:
        # A variable is one word whatever is in it: the text is split first.
        if isinstance(command, list):
            return [self._expanded(("command", n), word) for n, word in enumerate(command)]
        words = [command] if self._document.is_json else self._parsed(("command",), shlex.split, command)
        return [self._expanded(("command",), word) for word in words or ()]

    def _source(self, text: str) -> list[str]:
        return list(self._parsed(("from",), _parse_source, self._expanded(("from",), text)) or ())

    def _setting(self, key: str, value: Any) -> Any:
        """As `mooring run` has it after parsing."""
        if key == "env":
            return [self._variable(name, text) for name, text in value.items()]
        if key == "header":
            return [self._header(name, text) for name, text in value.items()]
        if key == "volume":
            texts = [value] if isinstance(value, str) else value
            return [self._parsed((key, n), self._volume, each) for n, each in enumerate(texts)]
        if key == "engine":
            return self._parsed((key,), self._engine, value)
        if key in ("cwd", "ca_file", "client_cert", "client_key"):
            value = self._path((key,), value)
        elif key == "env_file":
            value = [value] if isinstance(value, str) else value
            value = [self._path((key, n), each) for n, each in enumerate(value)]
        elif key == "pass_env":
            value = [self._expanded((key, n), each) for n, each in enumerate(value)]
        elif key == "shared" and value is True:
            value = "1"
        elif isinstance(value, str):
            return self._parsed((key,), lambda text: self._cast(key, expand(text, self._environ)), value)
        elif not isinstance(value, bool):
            value = str(value)  # a number, as the command line would have it
        return self._parsed((key,), lambda each: self._cast(key, each), value)

    def _cast(self, key: str, value: Any) -> Any:
        return RUN_OPTIONS[key].type_cast_value(self._context, value)

    def _volume(self, text: str) -> Volume:
        return volume_at(self._folder, parse_volume(expand(text, self._environ)))

    def _engine(self, text: str) -> str:
        return engine_at(self._folder, parse_engine(expand(text, self._environ)))

    def _path(self, keys: Keys, text: str) -> str:
        made = self._parsed(keys, lambda each: path_at(self._folder, expand(each, self._environ)), text)
        return str(made or self._folder)

    def _variable(self, name: str, text: str) -> tuple[str, str]:
        # Paths in references begin at the folder of the file, as all others do.
        value = self._expanded(("env", name), text)
        value = self._parsed(("env", name), lambda each: anchored(each, self._folder), value) or ""
        self._parsed(("env", name), parse_variable, name)
        return self._parsed(("env", name), parse_assignment, f"{name}={value}") or (name, "")

    def _header(self, name: str, text: str) -> tuple[str, str]:
        value = self._expanded(("headers", name), text)
        value = self._parsed(("headers", name), lambda each: anchored(each, self._folder), value) or ""
        return self._parsed(("headers", name), parse_header, f"{name}: {value}") or (name, "")


def _parse_source(text: str) -> tuple[str, ...]:
    try:
        return parse_source(text)
    except ValueError as error:
        raise ValueError(str(error).replace("give the command itself after --", "give a command")) from None


def _literal_secrets(document: Document, entry: Entry) -> list[Remark]:
    """Values that should not stand in a file."""
    found = []
    for key, looks in (("env", looks_secret), ("headers", value_looks_secret)):
        for name, value in entry.values.get(key, {}).items():
            if not has_variables(value) and looks(name, value):
                secret = secret_name(entry.name, name)
                line = f'"{name}": "secret:{secret}"' if document.is_json else f'{name} = "secret:{secret}"'
                hint = f"keep it out of the file: mooring secret set {secret}, and here {line}"
                text = f"the value of {name} looks like a secret"
                found.append(document.remark((*entry.keys, key, name), text, hint))
    for key in ("command", "args"):
        words = entry.values.get(key, ())
        for n in range(len(words) if isinstance(words, list) else 0):
            if not has_variables(words[n]) and word_looks_secret(words, n):
                hint = "everybody on this machine can read command lines: give it in env, by reference"
                found.append(document.remark((*entry.keys, key, n), "this word looks like a secret", hint))
    return found
