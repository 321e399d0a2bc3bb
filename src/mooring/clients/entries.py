"""What stands in a client's file for a server: made from the table, compared with what is there, in words."""

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import NamedTuple

from mooring.clients.client import URL_KEYS, Client, HttpShape, StdioShape
from mooring.clients.editing.edits import Value, same

__all__ = ["Target", "entry_for", "is_as_wanted", "merged", "snippet", "what_next"]

_KIND_KEYS = frozenset({"type", "transport"})
"""Keys that say which transport it is: left from an entry of another, they would be wrong."""


class Target(NamedTuple):
    """Where a server is."""

    name: str
    url: str
    argv: tuple[str, ...]
    """What a client runs that can only run commands: an absolute program, "stdio", the name."""
    env: Mapping[str, str] = MappingProxyType({})
    """What that command needs; never a secret."""


def entry_for(client: Client, target: Target) -> dict[str, Value]:
    """The entry of a new server: its URL, or a command for clients that know no URLs."""
    shape = client.shape
    entry = {key: _named(value, target.name) for key, value in shape.fixed.items()}
    if isinstance(shape, HttpShape):
        entry[shape.url] = target.url
    else:
        entry |= _command(shape, target)
    return entry | {key: _named(value, target.name) for key, value in shape.initial.items()}


def merged(client: Client, there: dict[str, Value], wanted: dict[str, Value]) -> dict[str, Value]:
    """What is there made into what is wanted: unknown keys are kept, those of the other transport go.

    What is the user's to change (`initial`, a switch) stays as the user has it.
    """
    gone = (_where_keys(client) | _KIND_KEYS) - wanted.keys()
    users = _users_keys(client)
    result = {key: value for key, value in there.items() if key not in gone}
    for key, value in wanted.items():
        if key not in users or key not in there:
            result[key] = _joined(result.get(key), value)
    return result


def is_as_wanted(client: Client, there: Value, wanted: dict[str, Value]) -> bool:
    """Is everything that was written still so? What was added beside it does not matter."""
    if not isinstance(there, dict) or there.keys() & (_where_keys(client) - wanted.keys()):
        return False
    users = _users_keys(client)
    return all(
        key in there and _contains(there[key], value) for key, value in wanted.items() if key not in users
    )


def what_next(client: Client, *, is_project: bool, is_removal: bool = False) -> str:
    """What happens after an edit, and what the user has to do, as a phrase."""
    reload = client.reload
    match reload.mode:
        case "watch" | "poll":
            words = reload.next or "picked up by itself"
        case "watch_prompt":
            words = (
                "picked up by itself" if is_removal else reload.next or "picked up by itself; start it there"
            )
        case "session":
            words = reload.next or "start a new session"
        case "command" | "restart":
            words = reload.next or f"restart {client.name}"
        case "unknown":
            words = reload.next or f"if it does not notice, restart {client.name}"
    trust = client.project.trust if client.project and is_project and not is_removal else ""
    return f"{words}; {trust}" if trust else words


def snippet(client: Client, name: str, entry: dict[str, Value]) -> str:
    """A document with that entry alone, for whoever puts it in by hand."""
    return client.editor.put(b"", client.section, name, entry).decode()


def _command(shape: StdioShape, target: Target) -> dict[str, Value]:
    entry: dict[str, Value] = {}
    if shape.argv == "list":
        entry[shape.command] = list(target.argv)
    else:
        entry[shape.command], entry[shape.args] = target.argv[0], list(target.argv[1:])
    if target.env:
        entry[shape.env] = dict(target.env)
    return entry


def _named(value: Value, name: str) -> Value:
    if not isinstance(value, str):
        return deepcopy(value)  # the table's own
    return value.replace("{name}", name).replace("{word}", name.replace("-", ""))


def _where_keys(client: Client) -> set[str]:
    """Keys that say where a server is in a way that is not the one for this client."""
    if isinstance(client.shape, StdioShape):
        return {*URL_KEYS, "headers"}
    stdio = client.stdio or StdioShape()
    return {*URL_KEYS, stdio.command, stdio.args, stdio.env, stdio.cwd}


def _users_keys(client: Client) -> set[str]:
    return {*client.switched_off, *client.shape.initial}


def _joined(there: Value, wanted: Value) -> Value:
    if not isinstance(there, dict) or not isinstance(wanted, dict):
        return wanted
    return there | {key: _joined(there.get(key), value) for key, value in wanted.items()}


def _contains(there: Value, wanted: Value) -> bool:
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(key in there and _contains(there[key], value) for key, value in wanted.items())
    return same(there, wanted)
