"""What the commands of `mooring relay token` do. They need no relay: one that runs reads what they wrote."""

import json
import os
import sys
import time
from shutil import get_terminal_size
from typing import Any

import click

from mooring.cli.servers.telling import moment
from mooring.cli.terminal.tables import age, fitted
from mooring.cli.terminal.words import tell
from mooring.errors import MooringError, UserError
from mooring.relay.state_folder import find_state, make_state, tokens_path
from mooring.relay.token_file import TokenFile, TokenRecord, Wanted

__all__ = ["create_token", "known_names", "list_tokens", "revoke_token"]

HEAD = ("NAME", "MAY CONNECT", "MAY CALL", "CREATED", "EXPIRES")
EXPENDABLE = ("CREATED", "EXPIRES")
EMPTY = "There are no tokens. Make one: mooring relay token create NAME --servers NAMES"


def create_token(
    state: str | None,
    name: str,
    *,
    servers: tuple[str, ...],
    calls: tuple[str, ...],
    lifetime_s: float | None,
    as_json: bool,
) -> None:
    """`mooring relay token create`."""
    folder = find_state(state, os.environ)
    make_state(folder)
    wanted = Wanted(name=name, servers=servers, calls=calls, lifetime_s=lifetime_s)
    [made] = TokenFile(tokens_path(folder)).create(wanted)
    if as_json:
        told = _described(made.record)
        click.echo(json.dumps({"name": told.pop("name"), "token": made.text, **told}, indent=2))
        return
    click.echo(made.text)
    # Not again on stderr, which is where logs are made of.
    tell("note", "the token is shown this once: only its hash is kept")
    if made.record.servers:
        tell(
            "hint",
            "on the workstation: mooring secret set relay; mooring connect wss://HOST --token secret:relay",
        )
    tell("hint", "callers send: Authorization: Bearer TOKEN")


def list_tokens(state: str | None, *, as_json: bool) -> None:
    """`mooring relay token list`."""
    found = TokenFile(tokens_path(find_state(state, os.environ))).all()
    if as_json:
        click.echo(json.dumps([_described(record) for record in found], indent=2))
        return
    if not found:
        click.echo(EMPTY)
        return
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo("\n".join(fitted(HEAD, [_row(record) for record in found], EXPENDABLE, width)))


def revoke_token(state: str | None, name: str) -> None:
    """`mooring relay token revoke`."""
    folder = find_state(state, os.environ)
    tokens = TokenFile(tokens_path(folder))
    if folder.exists():
        make_state(folder)  # it must be ours
    if not tokens.path.exists() or not tokens.revoke(name):
        raise UserError(
            f"there is no token named {name}", code="token_missing", hint="mooring relay token list lists all"
        )
    click.echo(f"{name} is revoked")


def known_names(state: str | None) -> list[str]:
    """For whoever completes a command line: none if they cannot be had."""
    try:
        return [record.name for record in TokenFile(tokens_path(find_state(state, os.environ))).all()]
    except MooringError:
        return []


def _described(record: TokenRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "servers": list(record.servers),
        "calls": list(record.calls),
        "created": record.created,
        "expires": record.expires,
    }


def _row(record: TokenRecord) -> tuple[str, ...]:
    calls = (*(("its own",) if record.servers else ()), *record.calls)
    if record.expires is None:
        expires = "never"
    else:
        expires = "expired" if record.is_over(time.time()) else moment(record.expires)
    return (
        record.name,
        ", ".join(record.servers) or "-",
        ", ".join(calls) or "-",
        f"{age(record.created)} ago",
        expires,
    )
