"""Servers as a file: mooring.toml, or the JSON of AI clients. Pure.

What `mooring up` makes of the file is what there is. Only values that look like secrets are not written: a
reference stands in their place, and what to do for it to mean something.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mooring.cli.files.secret_looks import (
    looks_secret,
    secret_name,
    value_looks_secret,
    word_looks_secret,
)
from mooring.cli.files.settings import address_settings, container_settings, served_settings, settings_of
from mooring.cli.files.variables import escaped
from mooring.workloads.definition import ServerOptions, asked_env, asked_headers

__all__ = ["Written", "as_json", "as_toml", "written"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Written(NamedTuple):
    """A server as a file has it."""

    name: str
    values: dict[str, Any]
    advice: dict[str, str]
    """By variable, or `command` or `args`: what to do because its value is not written."""


def written(options: ServerOptions) -> Written:
    """All that is needed to have it again."""
    advice: dict[str, str] = {}
    values = _what(options, advice)
    if options.served is not None:
        values |= {key: _escaped(value) for key, value in served_settings(options.served).items()}
    if options.cwd is not None:
        values["cwd"] = escaped(str(options.cwd))
    if options.borrowed.named:
        values["pass_env"] = list(options.borrowed.named)
    if options.borrowed.all:
        values["inherit_env"] = True
    values |= settings_of(options)
    if env := dict(_variables(options, advice)):
        values["env"] = env
    if headers := dict(_headers(options, advice)):
        values["headers"] = headers
    return Written(options.name, values, advice)


def _what(options: ServerOptions, advice: dict[str, str]) -> dict[str, Any]:
    """The command, or the image with all that it is run with, or the address with what goes with it."""
    if options.remote is not None:
        settings = {key: _escaped(value) for key, value in address_settings(options.remote).items()}
        return {"url": escaped(options.remote.url), **settings}
    if options.container is None:
        return {"command": list(_words(options, advice, "command"))}
    values: dict[str, Any] = {"image": escaped(options.container.image)}
    if options.argv:
        values["args"] = list(_words(options, advice, "args"))
    return values | {key: _escaped(value) for key, value in container_settings(options.container).items()}


def _escaped(value: Any) -> Any:
    """A text, texts, or what needs nothing."""
    if isinstance(value, list):
        return [escaped(each) for each in value]
    return escaped(value) if isinstance(value, str) else value


def _words(options: ServerOptions, advice: dict[str, str], key: str) -> Iterator[str]:
    for at, word in enumerate(options.argv):
        if not word_looks_secret(options.argv, at):
            yield escaped(word)
            continue
        variable = f"{options.name.upper().replace('-', '_')}_WORD_{at}"
        advice[key] = f"a word that looks like a secret is not shown; for mooring up, set {variable} to it"
        name, equals, _ = word.partition("=")
        yield f"{name}=${{{variable}}}" if equals and name.startswith("-") else f"${{{variable}}}"


def _variables(options: ServerOptions, advice: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(asked_env(options).items()):
        if name in options.borrowed.named:
            continue
        if looks_secret(name, value):
            secret = secret_name(options.name, name)
            advice[name] = f"its value is not shown; keep it with: mooring secret set {secret}"
            yield name, f"secret:{secret}"
        else:
            yield name, escaped(value)


def _headers(options: ServerOptions, advice: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(asked_headers(options).items()):
        if value_looks_secret(name, value):
            secret = secret_name(options.name, name)
            advice[name] = f"its value is not shown; keep it with: mooring secret set {secret}"
            yield name, f"secret:{secret}"
        else:
            yield name, escaped(value)


def as_toml(servers: list[Written]) -> str:
    """One table each."""
    return "\n".join("".join(f"{line}\n" for line in _table(server)) for server in servers)


def _table(server: Written) -> Iterator[str]:
    yield f"[servers.{server.name}]"
    values = dict(server.values)
    tables = {key: values.pop(key, {}) for key in ("env", "headers")}
    for key, value in values.items():
        if key in server.advice:
            yield f"# {server.advice[key]}"
        yield f"{key} = {_toml(value)}"
    for key, table in tables.items():
        if table:
            yield ""
            yield f"[servers.{server.name}.{key}]"
        for name, value in table.items():
            if name in server.advice:
                yield f"# {server.advice[name]}"
            yield f"{name if _BARE_KEY.fullmatch(name) else _toml(name)} = {_toml(value)}"


def _toml(value: Any) -> str:
    """A text, a number, true or false, or a list of texts: TOML writes them as JSON does."""
    # But for one character, which JSON allows to stand for itself.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def as_json(servers: list[Written]) -> str:
    """As AI clients have it; they pass over keys that are Mooring's."""
    named = {server.name: _for_clients(server.values) for server in servers}
    return json.dumps({"mcpServers": named}, indent=2, ensure_ascii=False) + "\n"


def _for_clients(values: dict[str, Any]) -> dict[str, Any]:
    if "image" in values or "url" in values:
        return values  # of images clients know nothing; addresses they write so
    program, *args = values["command"]
    return {
        "command": program,
        "args": args,
        **{key: value for key, value in values.items() if key != "command"},
    }
