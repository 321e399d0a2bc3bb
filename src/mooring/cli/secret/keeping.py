"""What the commands of `mooring secret` do. They need no daemon: it reads what they have written."""

import json
import os
import sys
from contextlib import suppress
from io import BytesIO
from shutil import get_terminal_size
from typing import BinaryIO

import click

from mooring.cli.servers.telling import Json
from mooring.cli.terminal.tables import age, fitted
from mooring.cli.terminal.words import printable, tell
from mooring.errors import MooringError, UserError
from mooring.host.places import find_places
from mooring.secrets.references import Reference
from mooring.secrets.resolving import read_value
from mooring.secrets.vault import KEYRING, Vault
from mooring.store.database import StoreError
from mooring.workloads.secret_users import servers_by_reference, servers_elsewhere

__all__ = ["known_names", "list_secrets", "remove_secret", "set_secret"]

HEAD = ("NAME", "KEPT IN", "SET", "USED BY")
EXPENDABLE = ("SET", "KEPT IN")
EMPTY = "There are no secrets. Keep one: mooring secret set NAME"


def set_secret(name: str, *, in_keyring: bool) -> None:
    """`mooring secret set`."""
    places = find_places(os.environ)
    try:
        value = _given_value(name)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"interrupted: nothing is kept under {name} but what was before", err=True)
        raise
    places.make()
    done = Vault(places.secrets).put(name, value, in_keyring=in_keyring)
    if done.aside is not None:
        text = f"{places.secrets.name} was damaged: it is kept as {done.aside.name}, and a new one is begun"
        tell("note", f"{text}; the secrets that were in it must be set again")
    where = "the keyring" if done.place == KEYRING else str(places.secrets)
    click.echo(f"{name} is kept in {printable(where)}")
    with suppress(StoreError):  # it is kept, whatever is the matter with the servers
        users = _users(servers_by_reference(places.state), name, done.place)
        elsewhere = servers_elsewhere(places.state)
        if here := [user for user in users if user not in elsewhere]:
            told = f"processes of {', '.join(here)} that run keep the value that they have"
            tell("note", f"{told}; to renew them: mooring restart {' '.join(here)}")
        if there := [user for user in users if user in elsewhere]:
            tell(
                "note", f"{', '.join(there)}: new sessions use it, and so does a call that is refused without"
            )


def _given_value(name: str) -> str:
    source: BinaryIO = sys.stdin.buffer
    if sys.stdin.isatty():
        typed = str(click.prompt(f"Value of {name} (not shown)", hide_input=True, err=True))
        source = BytesIO(typed.encode("utf-8", "surrogateescape"))
    value = read_value(source, _refused)
    if not value or "\0" in value:
        raise _refused("it has a NUL character, which no variable can hold" if value else "it is empty")
    return value


def _refused(why: str) -> UserError:
    return UserError(
        f"the value cannot be kept: {why}",
        code="bad_value",
        hint="give it at the prompt, or on stdin: mooring secret set NAME < FILE",
    )


def list_secrets(*, as_json: bool) -> None:
    """`mooring secret ls`."""
    places = find_places(os.environ)
    by_reference = servers_by_reference(places.state)
    found: list[Json] = [
        {
            "name": name,
            "kept": kept.place,
            "since": kept.since,
            "used_by": _users(by_reference, name, kept.place),
        }
        for name, kept in Vault(places.secrets).all().items()
    ]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo(EMPTY)
        return
    rows = [
        (one["name"], one["kept"], f"{age(one['since'])} ago", ", ".join(one["used_by"]) or "-")
        for one in found
    ]
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo("\n".join(fitted(HEAD, rows, EXPENDABLE, width)))


def remove_secret(name: str, *, force: bool) -> None:
    """`mooring secret rm`."""
    places = find_places(os.environ)
    vault = Vault(places.secrets)
    kept = vault.all().get(name)
    if kept is None:
        raise UserError(
            f"there is no secret named {name}", code="secret_missing", hint="mooring secret ls lists all"
        )
    users = _users(servers_by_reference(places.state), name, kept.place)
    if users and not force:
        raise UserError(
            f"{name} is used by {', '.join(users)}, which could not start any more",
            code="secret_in_use",
            hint=f"remove them first, or: mooring secret rm --force {name}",
        )
    vault.remove(name)
    click.echo(f"{name} is removed")


def known_names() -> list[str]:
    """For whoever completes a command line: none if they cannot be had."""
    try:
        return list(Vault(find_places(os.environ).secrets).all())
    except MooringError:
        return []


def _users(by_reference: dict[Reference, list[str]], name: str, place: str) -> list[str]:
    """Servers that would miss it."""
    users = set(by_reference.get(Reference("secret", name), ()))
    if place == KEYRING:
        users |= set(by_reference.get(Reference("keyring", name), ()))
    return sorted(users)
