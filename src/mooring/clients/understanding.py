"""What the entries of a client's file would run: how that client reads them, for servers to be taken over.

Nothing is resolved: a text such as `${env:TOKEN}` stays as it is, and is named in `Found.refers`. Entries of
older shapes, which clients still read, are understood too.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mooring.clients.client import EXPANSIONS, URL_KEYS, Client, HttpShape, StdioShape, keys_of
from mooring.clients.editing.edits import Refused, Value

__all__ = ["Found", "servers_in"]

_PARTS = frozenset({"builtin", "platform", "frontend", "inline_python"})
"""Types of entries that are no servers: Goose lists what it is made of beside them."""
_ELSEWHERE = (
    "env_keys",
    "envFile",
    "env_file",
    "env_vars",
    "env_http_headers",
    "bearer_token_env_var",
    "bearerTokenEnvVar",
)
"""Keys that name where a client finds more of what it needs."""


class Found(NamedTuple):
    """One entry as its client means it: a command, or a URL; or `trouble`, if it cannot be understood."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    url: str | None
    headers: Mapping[str, str]
    is_disabled: bool
    entry: dict[str, Value]
    trouble: str = ""
    is_sse: bool = False
    """Is the URL one for the transport of old, with its two addresses?"""
    refers: tuple[str, ...] = ()
    """What the client would put something else for (`${env:TOKEN}`), or look up elsewhere (`envFile`)."""


class _Odd(Exception):
    """An entry that cannot be understood; says why."""


def servers_in(client: Client, document: Value) -> list[Found]:
    """The entries of a document, in their order. Raises Refused if they are not where they must be."""
    return [_found(client, name, entry) for name, entry in _entries(client, document)]


def _entries(client: Client, document: Value) -> Iterator[tuple[str, Value]]:
    section = client.section
    value = document
    for key in section.keys:
        if not isinstance(value, dict | None):
            raise Refused(f"{section} is not a place for entries")
        value = (value or {}).get(key)
    if value is None:
        return
    if section.is_list and isinstance(value, list):
        for item in value:
            name = item.get(section.name_key) if isinstance(item, dict) else None
            yield (name if isinstance(name, str) else "", item)
    elif not section.is_list and isinstance(value, dict):
        yield from value.items()
    else:
        raise Refused(f"{section} is not {'a list' if section.is_list else 'a map'} of entries")


def _found(client: Client, name: str, entry: Value) -> Found:
    if not isinstance(entry, dict):
        return _in_trouble(name, {}, "it is not a map")
    is_disabled = any(entry.get(key) == value for key, value in client.switched_off.items())
    try:
        found = _understood(client, name, _flat(entry))
    except _Odd as odd:
        return _in_trouble(name, entry, str(odd))._replace(is_disabled=is_disabled)
    refers = (*_expansions(client, found), *(key for key in _ELSEWHERE if entry.get(key)))
    return found._replace(entry=entry, is_disabled=is_disabled, refers=refers)


def _in_trouble(name: str, entry: dict[str, Value], trouble: str) -> Found:
    return Found(name, (), {}, None, None, {}, is_disabled=False, entry=entry, trouble=trouble)


def _flat(entry: dict[str, Value]) -> dict[str, Value]:
    """Without the nesting that the command line of Cline (`transport`) and older Zeds (`command`) write."""
    transport, command = entry.get("transport"), entry.get("command")
    if isinstance(transport, dict):
        entry = {**entry, "transport": None, **transport}
    if isinstance(command, dict):
        entry = {**entry, **command, "command": command.get("path")}
    return entry


def _understood(client: Client, name: str, entry: dict[str, Value]) -> Found:
    http, stdio = client.http or HttpShape(), client.stdio or StdioShape()
    if isinstance(kind := entry.get("type"), str) and kind in _PARTS:
        raise _Odd(f"it is a part of {client.name}")
    if not name:
        raise _Odd("it has no name")
    argv = _argv(stdio, entry)
    url_key = next((key for key in _url_keys(http) if entry.get(key)), None)
    if argv and url_key:
        raise _Odd("it has both a command and a URL")
    if argv:
        env = _texts(entry, stdio.env) or _texts(entry, "env")
        return Found(name, argv, env, _text(entry, stdio.cwd), None, {}, is_disabled=False, entry=entry)
    if url_key is None:
        raise _Odd("it has neither a command nor a URL")
    kind = kind or entry.get("transport")
    is_sse = kind == "sse" or url_key == http.sse_url or (http.bare_is_sse and not kind)
    headers = _headers(http, entry)
    url = _text(entry, url_key)
    return Found(name, (), {}, None, url, headers, is_disabled=False, entry=entry, is_sse=is_sse)


def _url_keys(http: HttpShape) -> tuple[str, ...]:
    return (http.url, *((http.sse_url,) if http.sse_url else ()), *URL_KEYS)


def _argv(stdio: StdioShape, entry: dict[str, Value]) -> tuple[str, ...]:
    command = entry.get(stdio.command) or entry.get("command")
    if not command:
        return ()
    words = command if isinstance(command, list) else [command]
    args = [] if isinstance(command, list) else entry.get(stdio.args) or []
    if not isinstance(args, list):
        raise _Odd(f"its {stdio.args} are not a list")
    return tuple(_word(word, stdio.command) for word in [*words, *args])


def _headers(http: HttpShape, entry: dict[str, Value]) -> dict[str, str]:
    value: Value = entry
    for key in keys_of(http.headers or "headers"):
        value = value.get(key) if isinstance(value, dict) else None
    return _texts({"headers": value}, "headers") or _texts(entry, "headers")


def _texts(entry: dict[str, Value], key: str) -> dict[str, str]:
    value = entry.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Odd(f"its {key} is not a map")
    return {name: _word(text, key) for name, text in value.items() if text is not None}


def _text(entry: dict[str, Value], key: str) -> str | None:
    value = entry.get(key)
    return None if value is None else _word(value, key)


def _word(value: Value, key: str) -> str:
    """A text; numbers and the like count as what they are written as."""
    if isinstance(value, list | dict | None):
        raise _Odd(f"its {key} has something in it that is no text")
    return value if isinstance(value, str) else json.dumps(value)


def _expansions(client: Client, found: Found) -> tuple[str, ...]:
    if not client.expands:
        return ()
    pattern = re.compile("|".join(EXPANSIONS[name] for name in client.expands))
    texts = (*found.argv, *found.env.values(), found.cwd or "", found.url or "", *found.headers.values())
    return tuple(dict.fromkeys(each for text in texts for each in pattern.findall(text)))
